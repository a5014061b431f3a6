"""The figures of `pipelines.view.stats` as tables and bars in a terminal, and as a page with charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.text import Text

from pipelines.view import page
from pipelines.view.legible import clip, legible, plural
from pipelines.view.reasons import MENTIONS, in_words, of_questions
from pipelines.view.splitstats import SplitStats
from pipelines.view.stats import TOP, Stats, collect
from pipelines.view.stats_overview import columns, overview, share
from pipelines.view.tables import Column, fitted, side_by_side

_PERCENTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
_RANKS = {"median": 1, "max": 2, "mean": 3, "95%": 4, "min": 5, "75%": 6, "25%": 7, "99%": 8, "5%": 9}
"""Columns of the distributions, most wanted first: a narrow terminal gets the first ones."""
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_UNITS = {
    "tokens": "tokens per row",
    "characters": "characters per text",
    "words": "words per row",
    "sentences": "sentences per row",
    "parse depth": "parse depth per sentence, in edges",
    "head distance": "distance to the head, in words",
    "coarse tokens": "coarse tokens per row",
    "tree tokens": "tree tokens per row",
    "grafted mentions": "grafted mentions per row",
    "branches": "branches per row",
    "branch tokens": "tokens added by branches per row",
    "highest soft position": "highest soft position per row",
    "windows": "windows per question",
    "question tokens": "tokens per question",
    "gold answers": "gold answers per question",
    "answer tokens": "tokens per answer, of windows that hold it",
    "choices": "choices per question",
    "source tokens": "tokens per source",
    "target tokens": "tokens per target",
    "characters of the second text": "characters per second text",
}
_DRAWN = (
    "tokens", "characters", "words", "parse depth", "head distance", "branches", "branch tokens", "windows",
    "answer tokens", "target tokens",
)  # fmt: skip
"""Histograms with bars; the others stand in the table of distributions."""
_IN_OVERVIEW = (
    "tokens", "unknown_tokens", "coarse_tokens", "unknown_coarse_tokens", "coarse_phrases", "coarse_pieces", "rows",
    "mentions", "mentions_grafted", "branches", "branches_depth_2", "branch_tokens", "unknown_branch_tokens",
    "targets_cut",
)  # fmt: skip
"""Counters of the run that the overview has already, counted in the rows where that can be done."""


def show(folder: str | Path, console: Console, html: str | Path | None = None) -> None:
    """Print the figures of `folder`; also write them to `html` as a page with charts. Raises FolderError."""
    if html is not None:
        page.check_target(html)
    with console.status("reading") as status:
        stats = collect(folder, lambda rows: status.update(f"read {plural(rows, 'row')}"))
    for part in stats_parts(stats, console.width):
        console.print(part)
    if html is not None:
        page.write_page(html, stats_page(stats))
        console.print(f"wrote {html}", highlight=False, markup=False)


# --- terminal ---------------------------------------------------------------------------------


def stats_parts(stats: Stats, width: int) -> list[RenderableType]:
    """All figures, to print with rich at `width` cells."""
    splits = columns(stats)
    head = Text.assemble((legible(stats.path), "bold"), f"  {stats.stage}, task {legible(stats.task)}")
    parts: list[RenderableType] = [head, *(Text(legible(n), "yellow") for n in stats.notes)]
    parts += [Text(), *side_by_side(list(splits), overview(stats), width)]
    parts += _distributions(splits, width)
    total = stats.total
    for name in _DRAWN:
        if name in total.histograms and total.histograms[name].total:
            bins = [
                (f"{a:,}" if a == b else f"{a:,}–{b:,}", n) for a, b, n in total.histograms[name].bins(16)
            ]
            parts += [_title(_unit(stats, name)), bars(bins, width)]
    for title, counts in _categories(stats):
        parts += [_title(title), bars(list(counts), width)]
    if stats.top_triples:
        parts += [
            _title("most grafted triples"),
            bars(stats.top_triples, width, share_of=total.tally["branches"]),
        ]
    for title, by_split in _reasons(stats):
        rows = [(legible(reason), values) for reason, values in by_split]
        parts += [_title(title), *side_by_side(list(splits), rows, width)]
    return parts


def bars(items: Sequence[tuple[str, int]], width: int, share_of: int | None = None) -> Text:
    """A line per item: name, bar in eighths of a cell, count and share. Names take half the width."""
    names = [clip(legible(name), max(width // 2 - 10, 8)) for name, _ in items]
    left = max((cell_len(n) for n in names), default=0)
    most = max((n for _, n in items), default=0) or 1
    whole = share_of or sum(n for _, n in items)
    digits = max((len(f"{n:,}") for _, n in items), default=1)
    room = max(width - left - digits - 13, 4)
    text = Text(no_wrap=True, overflow="ignore")
    for i, ((_, count), name) in enumerate(zip(items, names, strict=True)):
        # At least an eighth for what is not zero: rare is not never.
        eighths = max(round(8 * room * count / most), 1 if count else 0)
        bar = "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
        text.append("\n" if i else "")
        text.append(" " * (left - cell_len(name)) + name + "  ")
        text.append(bar, "cyan")
        text.append(f" {count:,}")
        text.append(f" ({share(count, whole)})", "dim")
    return text


def _distributions(splits: Mapping[str, SplitStats], width: int) -> list[RenderableType]:
    labels = ["", *(["split"] if len(splits) > 1 else [])]
    columns = [Column(name, number=False) for name in labels]
    columns += [Column(name, rank=_RANKS[name]) for name in _figure_names()]
    table, left_out = fitted(columns, [[*map(Text, row)] for row in _distribution_rows(splits)], width)
    note = f"  left out at {width} columns: {', '.join(left_out)}" if left_out else ""
    return [Text.assemble(_title("distributions"), (note, "dim")), table]


def _distribution_rows(splits: Mapping[str, SplitStats]) -> list[list[str]]:
    rows = []
    for name in _UNITS:
        for split, stats in splits.items():
            if (h := stats.histograms.get(name)) is None or not h.total:
                continue
            values = [h.min, *(h.percentile(p) for p in _PERCENTILES), h.max]
            rows.append(
                [name, *([split] if len(splits) > 1 else []), f"{h.mean:,.2f}", *(f"{v:,}" for v in values)]
            )
    return rows


def _figure_names() -> list[str]:
    return ["mean", "min", *("median" if p == 0.5 else f"{p:.0%}" for p in _PERCENTILES), "max"]


def _categories(stats: Stats) -> list[tuple[str, list[tuple[str, int]]]]:
    """Titles and sorted counts of what is drawn as a bar per name."""
    total = stats.total
    found = [
        ("labels", total.labels),
        ("token labels", total.token_labels),
        ("dependency relations", total.deprels),
    ]
    result = []
    for title, counts in found:
        items = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        if len(items) > TOP:
            rest = sum(n for _, n in items[TOP:])
            items = [*items[:TOP], (f"{plural(len(counts) - TOP, 'other')}", rest)]
        if items:
            result.append((title, items))
    return result


def _reasons(stats: Stats) -> list[tuple[str, list[tuple[str, list[str]]]]]:
    """Tables of what the run dropped, rejected and counted: title, (reason, count per split)."""
    splits = list(columns(stats).values())
    dropped = [
        (in_words(r), [f"{s.counters[r]:,}" for s in splits])
        for r in stats.total.dropped()
        if r not in MENTIONS
    ]
    unanchored = [
        (in_words(r), [f"{s.counters[r]:,}" for s in splits]) for r in stats.total.dropped() if r in MENTIONS
    ]
    rejects = [(r, [f"{s.rejects[r]:,}" for s in splits]) for r, _ in stats.total.rejects.most_common()]
    others = [
        (name.replace("_", " "), [f"{s.counters[name]:,}" for s in splits])
        for name, count in sorted(stats.total.counters.items())
        if count
        and not name.startswith(("dropped_", "truncated"))
        and name not in _IN_OVERVIEW
        and not of_questions(name)
    ]
    asked = [
        (in_words(name), [f"{s.counters[name]:,}" for s in splits])
        for name, count in sorted(stats.total.counters.items())
        if count and of_questions(name) and name not in _IN_OVERVIEW
    ]
    found = [
        ("mentions dropped", unanchored),
        ("branches dropped", dropped),
        ("rejected records", rejects),
        ("questions and answers", asked),
        ("counted while it was made", others),
    ]
    return [(title, rows) for title, rows in found if rows]


# --- page -------------------------------------------------------------------------------------


def stats_page(stats: Stats) -> str:
    """The page: the tables, a chart of every distribution over all splits, and one per split on demand."""
    splits = columns(stats)
    parts = [f'<p class="dim">{page.esc(stats.stage)}, task {page.esc(stats.task)}</p>']
    parts += [f'<p class="note">{page.esc(n)}</p>' for n in stats.notes]
    numeric = range(1, len(splits) + 1)
    parts.append(page.table(["", *splits], [[name, *values] for name, values in overview(stats)], numeric))
    header = ["", *(["split"] if len(splits) > 1 else []), *_figure_names()]
    parts.append("<h2>distributions</h2>")
    rows = _distribution_rows(splits)
    parts.append(page.table(header, rows, range(len(header) - len(_figure_names()), len(header))))
    parts += _histograms(stats, stats.total)
    parts += [page.bars(title, items) for title, items in _categories(stats)]
    if stats.top_triples:
        parts.append(page.bars("most grafted triples", stats.top_triples, stats.total.tally["branches"]))
    for title, by_reason in _reasons(stats):
        parts.append(f"<h2>{page.esc(title)}</h2>")
        parts.append(page.table(["", *splits], [[reason, *values] for reason, values in by_reason], numeric))
    if len(stats.splits) > 1:
        for name, split in stats.splits.items():
            charts = "".join(_histograms(stats, split))
            parts.append(f"<details><summary>split {page.esc(name)}</summary>{charts}</details>")
    return page.page(f"Statistics of {stats.path}", "\n".join(parts))


def _histograms(stats: Stats, split: SplitStats) -> list[str]:
    return [
        page.columns(name, split.histograms[name].bins(40), _unit(stats, name))
        for name in _UNITS
        if name in split.histograms and split.histograms[name].total
    ]


# --- small things -----------------------------------------------------------------------------


def _unit(stats: Stats, name: str) -> str:
    if stats.stage == "annotate":
        return _UNITS[name].replace("per row", "per text")
    return _UNITS[name].replace("per row", "per choice") if stats.task == "choice" else _UNITS[name]


def _title(name: str) -> Text:
    return Text.assemble("\n", (name, "bold underline"))
