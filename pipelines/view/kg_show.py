"""What `treegraft kg build` and `treegraft kg stats` print."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from kg import store
from kg.errors import GraphError
from kg.graph import KnowledgeGraph
from kg.store import GraphInfo
from kg.summary import Summary, summarize
from pipelines.section import ConfigError
from pipelines.view.folder import GRAPH
from pipelines.view.legible import legible, plural
from pipelines.view.reasons import in_words
from pipelines.view.stats_show import bars
from pipelines.view.tables import Column, facts_table, fitted, title


def open_for_view(folder: str) -> KnowledgeGraph:
    """A compiled graph, or the one of a dataset. Raises ConfigError saying what is there instead."""
    path = Path(folder)
    for place in (path, path / GRAPH):
        if (place / store.META).is_file():
            try:
                # Some seconds a gigabyte, and what is shown is what was compiled.
                return KnowledgeGraph.open(place, check=True)
            except GraphError as error:
                raise ConfigError(str(error)) from None
    what = "is no compiled graph" if path.is_dir() else "is a file" if path.exists() else "does not exist"
    fix = f"treegraft kg build {folder} --out DIR" if path.is_file() else "treegraft kg build FILES --out DIR"
    raise ConfigError(f"{folder} {what}; make a graph with `{fix}`")


def build_parts(info: GraphInfo, folder: Path, seconds: float, width: int) -> list[RenderableType]:
    """What a build did with everything that it read."""
    rows = [("read", info.read), ("kept", info.triples)]
    rows += [(in_words(reason), n) for reason, n in _sorted(info.left_out)]
    rows += [(f"malformed: {in_words(reason)}", n) for reason, n in _sorted(info.rejects)]
    columns = [Column("lines and records", number=False, least=20), Column("")]
    table, _ = fitted(columns, [[Text(name), Text(f"{n:,}")] for name, n in rows], width)
    return [table, Text(), facts_table([*graph_facts(info, folder), ("seconds", f"{seconds:,.1f}")])]


def graph_facts(info: GraphInfo, folder: Path) -> list[tuple[str, str]]:
    """Sizes and identity of a graph."""
    size = sum((folder / name).stat().st_size for name in (*store.FILES, store.META))
    merged = f" ({info.merged_spellings:,} more spellings)" if info.merged_spellings else ""
    empty = f", {plural(info.empty_predicates, 'triple')} without" if info.empty_predicates else ""
    return [
        ("graph", str(folder)),
        ("triples", f"{info.triples:,}"),
        (
            "subjects",
            f"{info.subjects:,}{merged}, the longest of {plural(info.longest_subject, 'character')}",
        ),
        ("predicates", f"{info.predicates:,}{empty}"),
        ("objects", f"{info.objects:,}"),
        ("fold", ", ".join(info.fold) or "nothing"),
        ("bytes", f"{size:,}"),
        ("content hash", info.sha256[:12]),
    ]


# --- kg stats ---------------------------------------------------------------------------------


def stats_parts(graph: KnowledgeGraph, top: int, width: int) -> list[RenderableType]:
    """The figures of `kg.summary` as tables."""
    info, found = graph.info, summarize(graph, top)
    linked = (
        f"{plural(found.triples_to_subjects, 'triple')}, {_share(found.triples_to_subjects, info.triples)}"
    )
    facts = [
        *graph_facts(info, graph.folder),
        ("subjects in several files", f"{found.subjects_in_several_files:,}"),
        ("objects that are subjects", f"{found.objects_that_are_subjects:,} ({linked})"),
        ("loops of two", f"{found.two_cycles:,}"),
    ]
    parts: list[RenderableType] = [facts_table(facts), *_spreads(found, width)]
    lists = [
        ("subjects with most triples", found.top_subjects),
        ("objects of most triples", found.top_objects),
        (f"predicates ({info.predicates:,})", [(name or "(none)", n) for name, n in found.top_predicates]),
        ("files", found.sources),
    ]
    for name, items in lists:
        parts += [title(name), _bars(items[: max(top, 1)], info.triples, width)]
        if len(items) > top:
            parts.append(Text(f"and {plural(len(items) - top, 'other')}", "dim"))
    if found.merged:
        parts += [
            title("spellings folded together", f"{found.merged_subjects:,} subjects of several spellings")
        ]
        parts += [Text(legible(" = ".join(names))) for names in found.merged[:top]]
    return parts


def _bars(items: Sequence[tuple[str, int]], triples: int, width: int) -> RenderableType:
    """Bars; names and counts alone where all are equal, and bars would tell nothing."""
    if len(items) < 2 or len({n for _, n in items}) > 1:
        return bars(items, width, share_of=triples)
    columns = [Column("", number=False, least=8), Column("")]
    rows = [[Text(legible(name)), Text(f"{n:,} ({_share(n, triples)})")] for name, n in items]
    return fitted(columns, rows, width)[0]


def _spreads(found: Summary, width: int) -> list[RenderableType]:
    columns = [Column("", number=False), *map(Column, ("min", "median", "mean", "99%", "max"))]
    named = [
        ("triples of a subject", found.degrees),
        ("characters of a subject", found.subject_lengths),
        ("characters of an object", found.object_lengths),
    ]
    rows = [
        [
            Text(name),
            *map(Text, (f"{s.min:,}", f"{s.median:,}", f"{s.mean:,.2f}", f"{s.p99:,}", f"{s.max:,}")),
        ]
        for name, s in named
    ]
    return [title("distributions"), fitted(columns, rows, width)[0]]


def stats_json(graph: KnowledgeGraph, top: int) -> str:
    """The same as JSON: what `meta.json` says and what `kg.summary` finds."""
    body = {"folder": str(graph.folder), "info": asdict(graph.info), "summary": asdict(summarize(graph, top))}
    return json.dumps(body, ensure_ascii=False, indent=1)


def _share(count: int, whole: int) -> str:
    return f"{count / whole:.1%}" if whole else "–"


def _sorted(reasons: dict[str, int]) -> Sequence[tuple[str, int]]:
    return sorted(((k, n) for k, n in reasons.items() if n), key=lambda item: (-item[1], item[0]))
