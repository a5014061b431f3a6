"""The branches of a row as strings: their tokens, and the triple that each came from, with file and line.

Nothing here trusts the row or the graph: a triple that is not there is told by its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TreeToken:
    """A token of the flattened sentence tree."""

    string: str
    soft: int
    branch: int
    mention: int
    trunk: int
    """Index in `input_ids`; -1 on a branch."""
    parent: int = 0
    """Branch that the token's branch hangs from; 0 = the trunk."""


@dataclass(frozen=True)
class Triple:
    """A triple by its parts and its place, or a note in their stead."""

    subject: str = ""
    predicate: str = ""
    object: str = ""
    source: str = ""
    """`file:line`."""
    note: str = ""

    @property
    def text(self) -> str:
        """`subject predicate object`, or the note."""
        return self.note or " ".join(p for p in (self.subject, self.predicate, self.object) if p)


@dataclass(frozen=True)
class Branch:
    """A branch: its number from 1, mention, tokens, triple, and the branch it hangs from (0 = the trunk)."""

    number: int
    mention: int
    tokens: list[TreeToken]
    triple: Triple
    parent: int = 0


def triple_of(graph: Any | None, number: int) -> Triple:
    """A triple of a compiled graph; without one, or where the graph has no such triple, its number."""
    if graph is None:
        return Triple(note=f"triple {number}")
    try:
        parts = (graph.subject(number), graph.predicate(number), graph.object(number))
        file, line = graph.source(number)
    except (IndexError, KeyError, ValueError, OverflowError):
        return Triple(note=f"triple {number}: not in the graph")
    return Triple(*parts, source=f"{file}:{line}")


def parents_of(row: dict[str, Any]) -> list[int]:
    """Parent of every branch number of a row, with that of the trunk (0) in front; 0 where none is recorded."""
    return [0, *row.get("branch_parents", ())]


def branches_of(row: dict[str, Any], tree: Sequence[TreeToken], graph: Any | None) -> list[Branch]:
    """Branches in the order of their numbers."""
    grouped: dict[int, list[TreeToken]] = {}
    for token in tree:
        if token.branch > 0:
            grouped.setdefault(token.branch, []).append(token)
    triples = row.get("branch_triples", ())
    none = Triple(note="no triple recorded")
    return [
        Branch(
            number,
            own[0].mention,
            own,
            triple_of(graph, triples[number - 1]) if number <= len(triples) else none,
            own[0].parent,
        )
        for number, own in sorted(grouped.items())
    ]
