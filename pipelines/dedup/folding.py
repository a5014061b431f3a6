"""The one rule by which texts are compared: what is left of a text when its form is taken away.

Every character becomes its full compatibility decomposition and full case folding (`kg.match.fold`, so two texts
that are equal under NFKC and case folding fold to the same); white space, punctuation and invisible
characters (Unicode categories Z, P, Cc, Cf) vanish. White space still ends words. Symbols, marks and digits stay.

The rule goes character by character, so it is one table: about 10 ns a character for a whole batch of texts.
"""

from __future__ import annotations

import functools
import itertools
import sys
import unicodedata
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kg.match.fold import COLUMNS, Folding
from pipelines.ragged import Ints, bounds, ranges

Codes = NDArray[np.uint32]

_DROPPED, _SPACE = np.uint32(0), np.uint32(1)
"""Table entries of what vanishes: U+0000 and U+0001 are invisible themselves, so both are free."""
_SEVERAL = np.uint32(sys.maxunicode + 1)
"""Table entries from here on are numbers of expansions."""


class Folded(NamedTuple):
    """Folded texts laid end to end: `codes` uint32[N], `offsets` int64[texts + 1]; `breaks` int64, in order, the
    indices of characters that white space stood before (several times, where it was several)."""

    codes: Codes
    offsets: Ints
    breaks: Ints


def code_points(text: str) -> Codes:
    """The code points of a text."""
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def fold(codes: Codes, offsets: Ints) -> Folded:
    """Fold texts given by their code points, uint32[N], laid end to end, and their offsets, int64[texts + 1]."""
    table, expansions, ends = _rule()
    folded = table.take(codes)
    kept = np.flatnonzero(folded > _SPACE)
    spaces = np.flatnonzero(folded == _SPACE)
    left = Folded(folded.take(kept), np.searchsorted(kept, offsets), np.searchsorted(kept, spaces))
    at = np.flatnonzero(left.codes >= _SEVERAL)
    return _expand(left, at, expansions, ends) if len(at) else left


def _expand(left: Folded, at: Ints, expansions: Codes, ends: Ints) -> Folded:
    """Put expansions into the places `at` that hold their numbers."""
    number = left.codes[at] - _SEVERAL
    starts, more = ends[number], ends[number + 1] - ends[number] - 1
    left.codes[at] = expansions[starts]  # the first character takes the place, the others come behind it
    grown = bounds(more)
    return Folded(
        np.insert(left.codes, np.repeat(at + 1, more), expansions[ranges(starts + 1, more)]),
        left.offsets + grown[np.searchsorted(at, left.offsets)],
        left.breaks + grown[np.searchsorted(at, left.breaks)],
    )


@functools.cache
def _rule() -> tuple[Codes, Codes, Ints]:
    """Table uint32[code points]; the code points of all expansions, and the offsets of each."""
    folded, lengths, codes = (Folding.build(("nfkc", "case")).to_arrays()[name] for name in COLUMNS)
    table = np.arange(sys.maxunicode + 1, dtype=np.uint32)
    table[: len(folded)] = folded
    kinds = _kinds()
    single = table < _SEVERAL
    vanish = kinds[table[single]]
    table[single] = np.where(vanish < 2, vanish, table[single])
    # An expansion loses what vanishes, too; what is then one character is no expansion, what is none vanishes.
    kept = kinds[codes] == 2
    left = np.add.reduceat(kept, bounds(lengths)[:-1], dtype=np.int64)
    expansions, ends = codes[kept], bounds(left)
    several = np.flatnonzero(~single)
    number = table[several] - _SEVERAL
    alone, none = left[number] == 1, left[number] == 0
    table[several[alone]] = expansions[ends[number[alone]]]
    table[several[none]] = _DROPPED
    return table, expansions, ends


def _kinds() -> NDArray[np.uint32]:
    """Of each code point: 0 vanishes, 1 vanishes and ends a word, 2 stays.

    No plane from the fourth on has characters, but for tags and selectors at the start of the fourteenth, and
    private ones, which stay.
    """
    kinds = np.full(sys.maxunicode + 1, 2, np.uint32)
    for code in itertools.chain(range(0x40000), range(0xE0000, 0xE1000)):
        char = chr(code)
        if char.isspace():
            kinds[code] = _SPACE
        elif unicodedata.category(char)[0] in "ZP" or unicodedata.category(char) in ("Cc", "Cf"):
            kinds[code] = _DROPPED
    return kinds
