"""What `treegraft kg build` and `treegraft kg stats` print."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from kg import store
from kg.errors import GraphError
from kg.graph import KnowledgeGraph
from kg.store import GraphInfo
from pipelines.section import ConfigError
from pipelines.view.folder import GRAPH
from pipelines.view.reasons import in_words
from pipelines.view.tables import Column, facts_table, fitted


def open_for_view(folder: str) -> KnowledgeGraph:
    """A compiled graph, or the one of a dataset. Raises ConfigError saying what is there instead."""
    path = Path(folder)
    for place in (path, path / GRAPH):
        if (place / store.META).is_file():
            try:
                return KnowledgeGraph.open(place)
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
    empty = f", {info.empty_predicates:,} triples without" if info.empty_predicates else ""
    return [
        ("graph", str(folder)),
        ("triples", f"{info.triples:,}"),
        ("subjects", f"{info.subjects:,}{merged}, the longest of {info.longest_subject} characters"),
        ("predicates", f"{info.predicates:,}{empty}"),
        ("objects", f"{info.objects:,}"),
        ("fold", ", ".join(info.fold) or "nothing"),
        ("bytes", f"{size:,}"),
        ("content hash", info.sha256),
    ]


def _sorted(reasons: dict[str, int]) -> Sequence[tuple[str, int]]:
    return sorted(((k, n) for k, n in reasons.items() if n), key=lambda item: (-item[1], item[0]))
