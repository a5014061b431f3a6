"""Knowledge graphs: read triples, compile them, find their subjects in text, graft sentence trees.

    from kg.triples import read_spo, RejectedLine, ReadCounts     .spo files, line by line
    from kg.graph import compile_graph, KnowledgeGraph            a memory-mapped folder
    from kg.tree import GraftPolicy, Trunks, Words, Trees, build_trees

The room knows nothing of tokenizers, corpora or pipelines: tokens come in as flat arrays and a
callable, trees go out as flat arrays.
"""

from kg.errors import GraphError
from kg.graph import GraphInfo, KnowledgeGraph, compile_graph
from kg.tree import GraftPolicy, TreeBuilder, Trees, Trunks, Words, build_trees
from kg.triples import ReadCounts, RejectedLine, read_spo

__all__ = [
    "GraftPolicy",
    "GraphError",
    "GraphInfo",
    "KnowledgeGraph",
    "ReadCounts",
    "RejectedLine",
    "TreeBuilder",
    "Trees",
    "Trunks",
    "Words",
    "build_trees",
    "compile_graph",
    "read_spo",
]
