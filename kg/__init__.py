"""Knowledge graphs: read triples, compile them, find their subjects in text, graft sentence trees.

    from kg.read import ReadOptions, read_triples, RejectedLine     files of triples, line by line
    from kg.compile import BuildOptions, compile_graph              files to a folder
    from kg.graph import KnowledgeGraph                             the folder, memory-mapped
    from kg.tree import GraftPolicy, TreeBuilder, Trunks, Words, Trees, Decision
    from kg.summary import summarize                                what is in a graph

The room knows nothing of tokenizers, corpora or pipelines: tokens come in as flat arrays and a
callable, trees go out as flat arrays. All of these names are here as well, and are imported when they
are first used: to open a graph and match takes numpy alone.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kg.compile import BuildOptions, compile_graph
    from kg.errors import GraphError
    from kg.graph import GraphInfo, KnowledgeGraph
    from kg.match.fold import Folding
    from kg.read import ReadCounts, ReadOptions, RejectedLine, read_triples
    from kg.summary import Summary, summarize
    from kg.tree import Decision, GraftPolicy, TreeBuilder, Trees, Trunks, Words, build_trees

_HOMES = {
    "kg.compile": ("BuildOptions", "compile_graph"),
    "kg.errors": ("GraphError",),
    "kg.match.fold": ("Folding",),
    "kg.graph": ("GraphInfo", "KnowledgeGraph"),
    "kg.read": ("ReadCounts", "ReadOptions", "RejectedLine", "read_triples"),
    "kg.summary": ("Summary", "summarize"),
    "kg.tree": ("Decision", "GraftPolicy", "TreeBuilder", "Trees", "Trunks", "Words", "build_trees"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "BuildOptions",
    "Decision",
    "Folding",
    "GraftPolicy",
    "GraphError",
    "GraphInfo",
    "KnowledgeGraph",
    "ReadCounts",
    "ReadOptions",
    "RejectedLine",
    "Summary",
    "TreeBuilder",
    "Trees",
    "Trunks",
    "Words",
    "build_trees",
    "compile_graph",
    "read_triples",
    "summarize",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
