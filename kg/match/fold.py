"""Folding: texts that differ only in form are matched as one, by a rule that is declared and stored.

Three steps, each of them optional, always in this order, repeated until nothing changes:

| name | a character is replaced by |
|---|---|
| `nfkc` | its full compatibility decomposition (NFKD): full-width, half-width, ligatures, accents taken apart |
| `case` | its full case folding |
| `simplified` | its simplified form, by OpenCC's `t2s` applied to the single character |

Every step goes character by character, so the rule is one table from a code point to code points. Two
texts are NFKC-equal exactly where they are NFKD-equal, and NFKD is this table and an ordering of
combining marks. The ordering is left out: several marks on one letter are compared in the order in
which they are written. All else that is NFKC-equal folds to the same code points.

The table is made when a graph is compiled, from the Unicode data of Python and the tables of OpenCC,
and stored in the graph: matching needs neither, and no other version of them changes a graph.
Folding never makes a text shorter, and folding what was folded changes nothing. Text of which no
character becomes several costs one look-up a character: about 5 ns.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kg.errors import GraphError

NAMES = ("nfkc", "case", "simplified")
COLUMNS = ("fold_table", "fold_lengths", "fold_codes")
_LIMIT = 0x110000
"""Table entries from here on are numbers of expansions."""
_CHUNK = 1 << 10
_ROUNDS = 8


class Folding:
    """The rule of one graph. Make one with `Folding.build`, or `Folding.from_arrays` of stored columns."""

    def __init__(self, names: tuple[str, ...], columns: Mapping[str, np.ndarray]) -> None:
        self.names = names
        self._table, self._lengths, self._codes = (columns[name] for name in COLUMNS)
        self._ends = np.cumsum(self._lengths, dtype=np.int64)

    @classmethod
    def build(cls, names: Sequence[str] = ()) -> Folding:
        """The rule of `names`, a subset of `NAMES`; the order in which they are given does not matter.

        Raises GraphError for another name, and where `simplified` is wanted and OpenCC is not installed.
        """
        if unknown := [name for name in names if name not in NAMES]:
            raise GraphError(f"fold: unknown rule {unknown[0]!r}; expected some of {', '.join(NAMES)}")
        return _build(tuple(name for name in NAMES if name in names))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """`COLUMNS`: `fold_table` uint32[last code point that changes + 1], the code point that each
        becomes, or 0x110000 + the number of an expansion; `fold_lengths` uint8[expansions];
        `fold_codes` uint32[sum of lengths]. All are empty for the identity."""
        return dict(zip(COLUMNS, (self._table, self._lengths, self._codes), strict=True))

    @classmethod
    def from_arrays(cls, names: Sequence[str], columns: Mapping[str, np.ndarray]) -> Folding:
        """The rule that `to_arrays` stored; arrays are used as they are, memory-mapped or not.

        Raises GraphError where they do not fit together.
        """
        if tuple(names) != tuple(name for name in NAMES if name in names):
            raise GraphError(f"fold: {tuple(names)} are not some of {', '.join(NAMES)}, in this order")
        folding = cls(tuple(names), columns)
        dtypes = tuple(columns[name].dtype for name in COLUMNS)
        total = int(folding._ends[-1]) if len(folding._ends) else 0
        if dtypes != (np.uint32, np.uint8, np.uint32) or total != len(folding._codes):
            raise GraphError("fold: the stored table is damaged; compile the triples again")
        return folding

    def fold_codes(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Folded code points of `codes`, uint32[N], and where they come from.

        Returns (uint32[M], int64[M + 1]): for each folded code point the index of the character that it
        comes from, and N at the end; None in its place where each character stays one character.
        """
        if not len(self._table) or not len(codes):
            return codes, None
        folded = self._table.take(codes, mode="clip")
        if codes.max() >= len(self._table):
            folded = np.where(codes < len(self._table), folded, codes)
        if folded.max() < _LIMIT:
            return folded, None
        several = np.flatnonzero(folded >= _LIMIT)
        expansion = folded[several] - np.uint32(_LIMIT)
        lengths: np.ndarray = np.ones(len(codes), np.int64)
        lengths[several] = self._lengths[expansion]
        origin = np.repeat(np.arange(len(codes) + 1), np.append(lengths, 1))
        folded = folded[origin[:-1]]
        # An expansion's last code point lies just before its end, in `fold_codes` as in the result.
        at = np.flatnonzero(folded >= _LIMIT)
        shift = self._ends[expansion] - np.cumsum(lengths)[several]
        folded[at] = self._codes[at + np.repeat(shift, lengths[several])]
        return folded, origin

    def fold_text(self, text: str) -> str:
        """`text` folded. A lone surrogate stays as it is."""
        if not len(self._table):
            return text
        folded, _ = self.fold_codes(np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32))
        try:
            return folded.tobytes().decode("utf-32-le", "surrogatepass")
        except UnicodeDecodeError:
            raise GraphError("fold: the stored table is damaged; compile the triples again") from None


@functools.lru_cache(maxsize=8)  # there are eight rules
def _build(names: tuple[str, ...]) -> Folding:
    simplified = _simplified() if "simplified" in names else {}
    steps: list[Callable[[str], str]] = [
        {
            "nfkc": lambda text: "".join(unicodedata.normalize("NFKD", char) for char in text),
            "case": str.casefold,
            "simplified": lambda text: text.translate(simplified),
        }[name]
        for name in names
    ]

    def once(text: str) -> str:
        for step in steps:
            text = step(text)
        return text

    changed = {}
    for chunk in _chunks():
        if once(chunk) == chunk:  # no character of it changes, as none ever becomes nothing
            continue
        for char in chunk:
            folded = char
            for _ in range(_ROUNDS):
                before, folded = folded, once(folded)
                if before == folded:
                    break
            else:
                raise GraphError(f"fold: {char!r} changes without end; another version of OpenCC may help")
            if folded != char:
                changed[ord(char)] = folded
    table = np.arange(max(changed, default=-1) + 1, dtype=np.uint32)
    expansions = [folded for folded in changed.values() if len(folded) != 1]
    number = 0
    for code, folded in changed.items():
        if len(folded) == 1:
            table[code] = ord(folded)
        else:
            table[code] = _LIMIT + number
            number += 1
    columns: dict[str, np.ndarray] = {
        "fold_table": table,
        "fold_lengths": np.array([len(folded) for folded in expansions], np.uint8),
        "fold_codes": np.array([ord(char) for folded in expansions for char in folded], np.uint32),
    }
    for column in columns.values():
        column.flags.writeable = False  # shared by all who ask for this rule
    return Folding(names, columns)


def _chunks() -> list[str]:
    """All characters of Unicode but the surrogates, in stretches."""
    whole = (range(start, start + _CHUNK) for start in range(0, 0x110000, _CHUNK))
    return ["".join(map(chr, codes)) for codes in whole if not 0xD800 <= codes[0] < 0xE000]


def _simplified() -> dict[int, str]:
    """Code points that OpenCC simplifies, and their simplified forms."""
    try:
        import opencc
    except ImportError:
        raise GraphError(
            "fold: 'simplified' needs OpenCC's tables; run: pip install 'treegraft[pipelines]'"
        ) from None
    convert: Callable[[str], Any] = opencc.OpenCC("t2s").convert
    found = {}
    for chunk in _chunks():
        chars = [char for char in chunk if char != "\n"]
        # A line each, so that no phrase is found.
        for char, simple in zip(chars, convert("\n".join(chars)).split("\n"), strict=True):
            if char != simple:
                found[ord(char)] = simple
    return found
