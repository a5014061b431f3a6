"""n-grams as numbers that sort: ids in bit fields of uint64 columns.

A key of k ids is a tuple of columns; the first id stands highest in the first column, fields a key has no id for are
0. So a key of fewer ids compares with a longer one, and is that one with its later fields cleared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.uint32]
Column = NDArray[np.uint64]
Keys = tuple[Column, ...]
"""uint64[n] columns, the most significant first."""

Rows = NDArray[np.int64]

MAX_WORDS = 1 << 32


class Packing(NamedTuple):
    """How many bits an id takes: all keys of a corpus have the same."""

    bits: int

    @classmethod
    def of(cls, words: int) -> Packing:
        """For a vocabulary of so many words. Raises ValueError for more than ids have room for."""
        if words > MAX_WORDS:
            raise ValueError(f"expected at most {MAX_WORDS:,} different words, found {words:,}")
        return cls(max(1, (words - 1).bit_length()))

    @property
    def fields(self) -> int:
        """Ids in a column, at least two."""
        return 64 // self.bits

    def columns(self, order: int) -> int:
        """Columns of a key of `order` ids."""
        return -(-order // self.fields)

    def _shift(self, field: int) -> np.uint64:
        return np.uint64(self.bits * (self.fields - 1 - field % self.fields))

    @property
    def pair_mask(self) -> int:
        """The bits of the first two ids in the first column."""
        return ((1 << 2 * self.bits) - 1) << self.bits * (self.fields - 2)

    def pack(self, ids: Sequence[NDArray[np.integer]]) -> Keys:
        """Keys of n-grams; `ids` are their fields, the most significant first."""
        columns = [np.zeros(len(ids[0]), np.uint64) for _ in range(self.columns(len(ids)))]
        for field, values in enumerate(ids):
            columns[field // self.fields] |= values.astype(np.uint64) << self._shift(field)
        return tuple(columns)

    def field(self, keys: Keys, field: int) -> NDArray[np.int64]:
        """The ids in a field, int64[n]."""
        mask = np.uint64((1 << self.bits) - 1)
        return ((keys[field // self.fields] >> self._shift(field)) & mask).astype(np.int64)

    def prefix(self, keys: Keys, order: int) -> Keys:
        """Keys of the first `order` ids."""
        count = self.columns(order)
        kept = order - (count - 1) * self.fields
        mask = ((1 << self.bits * kept) - 1) << self.bits * (self.fields - kept)
        return (*keys[: count - 1], keys[count - 1] & np.uint64(mask))

    def shared(self, keys: Keys, order: int) -> NDArray[np.int8]:
        """How many ids, from the first on, each key of `order` ids shares with the one before; 0 for the first."""
        result = np.zeros(len(keys[0]), np.int8)
        equal = np.ones(max(0, len(result) - 1), np.bool_)
        for column in range(self.columns(order)):
            differing = keys[column][1:] ^ keys[column][:-1]
            for field in range(column * self.fields, min(order, (column + 1) * self.fields)):
                result[1:] += equal & (differing >> self._shift(field) == 0)
            equal &= differing == 0
        return result

    def starts(self, keys: Keys, order: int) -> NDArray[np.int64]:
        """Rows at which groups of keys with the same first `order` ids begin, in keys that are in order."""
        fresh = np.zeros(max(0, len(keys[0]) - 1), np.bool_)
        for column in self.prefix(keys, order):
            fresh |= column[1:] != column[:-1]
        return np.flatnonzero(np.append(np.ones(min(1, len(keys[0])), np.bool_), fresh))

    def to_context_order(self, keys: Keys, order: int) -> Keys:
        """From the last word first to the last word behind the others: what stands in front is the context."""
        fields = [self.field(keys, field) for field in range(order)]
        return self.pack([*fields[1:], fields[0]])

    def to_suffix_order(self, keys: Keys, order: int) -> Keys:
        """The way back."""
        fields = [self.field(keys, field) for field in range(order)]
        return self.pack([fields[-1], *fields[:-1]])


def take(keys: Keys, rows: NDArray[np.integer] | NDArray[np.bool_] | slice) -> Keys:
    """Some of the keys."""
    return tuple(column[rows] for column in keys)


def argsort(keys: Keys) -> NDArray[np.int64]:
    """Rows in the order of their keys; equal keys in any."""
    order = np.argsort(keys[0])
    if len(keys) > 1:  # few have an equal first column: sorting these alone takes a quarter of the time
        first = keys[0][order]
        same = first[1:] == first[:-1]
        tied = np.zeros(len(first), np.bool_)
        tied[1:] |= same
        tied[:-1] |= same
        some = order[tied]
        order[tied] = some[np.lexsort((*(column[some] for column in keys[:0:-1]), first[tied]))]
    return order


def locate(known: Keys, wanted: Keys) -> NDArray[np.int64]:
    """For each wanted key, the row of the last known one not above it; -1 where all are. `known` is in order."""
    high = np.searchsorted(known[0], wanted[0], "right")
    low = np.searchsorted(known[0], wanted[0]) if len(known) > 1 else high
    for column, own in zip(known[1:], wanted[1:], strict=True):
        low, high = _bisect(column, own, low, high, np.less), _bisect(column, own, low, high, np.less_equal)
    return high - 1


def _bisect(column: Column, wanted: Column, low: Rows, high: Rows, before: np.ufunc) -> Rows:
    """For each wanted number, the first row of [low, high) that is not before it; `column` is in order there."""
    result = low.copy()
    (open_rows,) = np.nonzero(low < high)
    low, high = low[open_rows], high[open_rows]
    while len(open_rows):
        middle = (low + high) // 2
        is_before = before(column[middle], wanted[open_rows])
        low, high = np.where(is_before, middle + 1, low), np.where(is_before, high, middle)
        result[open_rows] = low
        left = low < high
        open_rows, low, high = open_rows[left], low[left], high[left]
    return result


def find(known: Keys, wanted: Keys) -> NDArray[np.int64]:
    """For each wanted key, its row among the known ones, which are in order; -1 where it is not there."""
    rows = locate(known, wanted)
    there = rows >= 0
    for column, own in zip(known, wanted, strict=True):
        there[there] = column[rows[there]] == own[there]
    return np.where(there, rows, -1)
