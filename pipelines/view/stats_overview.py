"""The plain figures of a dataset, a value per split: what stands on top of `treegraft stats`."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.view.splitstats import SplitStats
from pipelines.view.stats import Stats


def overview(stats: Stats) -> list[tuple[str, list[str]]]:
    """Name and value per split, and in total where there are several splits, of every plain figure."""
    splits = columns(stats)
    unit = "documents" if stats.stage == "annotate" else "rows"
    lines: list[tuple[str, list[str]]] = [
        ("shards", [f"{s.shards:,}" for s in splits.values()]),
        (unit, [f"{s.rows:,}" for s in splits.values()]),
        ("rejected records", [f"{sum(s.rejects.values()):,}" for s in splits.values()]),
    ]

    def add(name: str, key: str, of: str = "") -> None:
        if key in stats.total.tally:
            values = [(s.tally[key], s.rows if of == "rows" else s.tally[of]) for s in splits.values()]
            lines.append((name, [f"{n:,} ({share(n, whole)})" if of else f"{n:,}" for n, whole in values]))

    add("tokens (special ones too)", "tokens")
    add("tokens of text", "text_tokens")
    if stats.max_length:
        add(f"rows of full length ({stats.max_length})", "full", "rows")
    truncated = sorted(k for k in stats.total.counters if k.startswith("truncated"))
    lines += [(key.replace("_", " "), [f"{s.counters[key]:,}" for s in splits.values()]) for key in truncated]
    add("unknown tokens of text [UNK]", "unknown", "text_tokens")
    if "coarse_tokens" in stats.total.tally:
        add("coarse tokens (special ones too)", "coarse_tokens")
        add("coarse tokens of text", "coarse_text_tokens")
        add("unknown coarse tokens of text", "coarse_unknown", "coarse_text_tokens")
        ratios = [_ratio(s.tally["text_tokens"], s.tally["coarse_text_tokens"]) for s in splits.values()]
        lines.append(("fine per coarse token", ratios))
        lines += _units(stats, list(splits.values()))
    if "branch_tokens" in stats.total.tally:
        lines += _coverage(stats, list(splits.values()))
        add("tokens added by branches", "branch_tokens", "tokens")
        add("unknown tokens of branches [UNK]", "unknown_in_branches", "branch_tokens")
    lines += _of_questions(stats, list(splits.values()))
    if stats.total.tally["unlabelled"]:
        add(f"{unit} without label", "unlabelled", "rows")
    if stats.total.scores:
        lines.append(("score: mean (least to greatest)", [_scores(s) for s in splits.values()]))
    return lines


def _units(stats: Stats, splits: Sequence[SplitStats]) -> list[tuple[str, list[str]]]:
    """What coarse tokens of text are beside [UNK]: phrases, words, pieces of words."""
    if "coarse_pieces" not in stats.total.counters:
        return []
    phrases = [s.counters["coarse_phrases"] for s in splits]
    pieces = [s.counters["coarse_pieces"] for s in splits]
    texts = [s.tally["coarse_text_tokens"] for s in splits]
    known = [s.tally["coarse_text_tokens"] - s.tally["coarse_unknown"] for s in splits]
    words = [all_ - a - b for all_, a, b in zip(known, phrases, pieces, strict=True)]
    kinds = {"phrases": phrases, "words": words, "pieces of words": pieces}
    return [
        (
            f"coarse tokens that are {kind}",
            [f"{n:,} ({share(n, of)})" for n, of in zip(counts, texts, strict=True)],
        )
        for kind, counts in kinds.items()
    ]


def _of_questions(stats: Stats, splits: Sequence[SplitStats]) -> list[tuple[str, list[str]]]:
    """Questions with and without answers, rows with none in them, targets that were cut."""
    lines = []

    def add(name: str, key: str, wholes: Sequence[int] | None = None) -> None:
        if key in stats.total.tally:
            shares = (
                [""] * len(splits)
                if wholes is None
                else [f" ({share(s.tally[key], whole)})" for s, whole in zip(splits, wholes, strict=True)]
            )
            lines.append((name, [f"{s.tally[key]:,}{x}" for s, x in zip(splits, shares, strict=True)]))

    rows, asked = [s.rows for s in splits], [s.tally["questions"] for s in splits]
    add("questions", "questions")
    add("of them without an answer", "impossible", asked)
    add("answers of unknown place", "unplaced")
    add("rows without an answer in them", "null_spans", rows)
    add("rows whose target was cut", "targets_cut", rows)
    return lines


def _coverage(stats: Stats, splits: Sequence[SplitStats]) -> list[tuple[str, list[str]]]:
    """How much of the graph the rows got: mentions found and grafted, rows touched, branches by depth."""
    lines = []
    if "mentions" in stats.total.counters:
        found = [(s.counters["mentions"], s.rows) for s in splits]
        lines.append(("mentions (per row)", [f"{n:,} ({n / max(rows, 1):.2f})" for n, rows in found]))
    grafted = [(s.histogram("grafted mentions").sum, s.counters["mentions"]) for s in splits]
    shares = [f"{n:,}" + (f" ({share(n, of)})" if of else "") for n, of in grafted]
    lines.append(("mentions with branches", shares))
    touched = [(s.tally["rows_with_branches"], s.rows) for s in splits]
    lines.append(("rows with branches", [f"{n:,} ({share(n, rows)})" for n, rows in touched]))
    lines.append(("branches", [f"{s.tally['branches']:,}" for s in splits]))
    if stats.total.tally["deep_branches"]:
        deep = [(s.tally["deep_branches"], s.tally["branches"]) for s in splits]
        lines.append(("of them of depth 2", [f"{n:,} ({share(n, of)})" for n, of in deep]))
    return lines


def columns(stats: Stats) -> dict[str, SplitStats]:
    """What stands side by side: the splits, and their total where there are several."""
    return stats.splits | ({"total": stats.total} if len(stats.splits) > 1 else {})


def share(count: int, whole: int) -> str:
    return f"{count / whole:.1%}" if whole else "–"


def _ratio(a: int, b: int) -> str:
    return f"{a / b:.3f}" if b else "–"


def _scores(split: SplitStats) -> str:
    if not split.scores:
        return "–"
    count, total, low, high = split.scores
    return f"{total / count:.4g} ({low:.4g} to {high:.4g})"
