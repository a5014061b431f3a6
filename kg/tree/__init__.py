"""Sentence trees of rows of tokens: mentions become anchors, triples branches, all of it flat arrays.

`kg.tree.builder` says what is grafted, in which order; every step has a file of its own.
"""

from kg.tree.branches import Tokenize
from kg.tree.builder import TreeBuilder, build_trees
from kg.tree.explain import Decision
from kg.tree.rows import GraftPolicy, Trees, Trunks, Words

__all__ = [
    "Decision",
    "GraftPolicy",
    "Tokenize",
    "TreeBuilder",
    "Trees",
    "Trunks",
    "Words",
    "build_trees",
]
