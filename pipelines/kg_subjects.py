"""The subjects of a graph as a user dictionary: `match: words` finds only those that the segmentation keeps whole."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

from kg.errors import GraphError
from kg.graph import KnowledgeGraph

_SPELLINGS = 1 << 16
"""Spellings that are held at a time."""


def dictionary_lines(graph: KnowledgeGraph, min_length: int, counts: Counter[str]) -> Iterator[str]:
    """Spellings of at least `min_length` characters as lines of a jieba dictionary, in parts of many lines.

    They come in the order of the subjects' keys, those of one subject together; without folding that is
    the order of their code points. A spelling with blanks has a count behind it, as its last part would
    be taken for a count or a tag otherwise. `counts` tells the `written`, `shorter`, and those that hold a
    line end, `broken`. Raises GraphError where the graph is damaged.
    """
    data, offsets = graph.spelling_bytes()
    for first in range(0, len(offsets) - 1, _SPELLINGS):
        places = (offsets[first : first + _SPELLINGS + 1] - offsets[first]).tolist()
        raw = data[offsets[first] : offsets[first] + max(places[-1], 0)].tobytes()
        lines = []
        for start, stop in itertools.pairwise(places):
            try:
                spelling = raw[start:stop].decode()
            except UnicodeDecodeError:
                spelling = ""
            if not spelling:
                raise GraphError(f"graph {graph.folder} is damaged; compile the triples again")
            fate = "written" if len(spelling) >= min_length else "shorter"
            if "\n" in spelling or "\r" in spelling:
                fate = "broken"
            counts[fate] += 1
            if fate == "written":
                lines.append(spelling + (" 1" if " " in spelling or "\t" in spelling else "") + "\n")
        yield "".join(lines)
