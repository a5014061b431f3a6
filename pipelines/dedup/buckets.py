"""Buckets: documents with an equal key, and which pairs of them are compared.

In a bucket of at most `CROWD` documents every pair is compared unless both are in one cluster already, so
clusters come out as if all pairs had been. A larger one is a crowd, and the work there must stay linear: the
first document is compared with all others, then the first of those that were not alike with the rest,
and so on, `LEADERS` times. Documents that are still alone then are counted as uncompared; another band may
have found their like.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.dedup.clusters import join
from pipelines.dedup.numbering import Numbers
from pipelines.dedup.runs import Rows
from pipelines.ragged import Ints, bounds, ranges

CROWD = 64
LEADERS = 8

Alike = Callable[[Numbers, Numbers], NDArray[np.bool_]]
"""Which pairs of documents are duplicates, bool[P]."""


class Pairs(NamedTuple):
    """Pairs of duplicates, uint64[P] each; the left one is the smaller number."""

    left: Numbers
    right: Numbers


class Search:
    """Finds pairs in rows of equal keys.

    Args:
        alike: compares documents.
        first_own: where given, only pairs of a document below this number and one not below it count.
    """

    def __init__(self, alike: Alike, first_own: int | None = None) -> None:
        self._alike, self._first_own = alike, first_own
        self.compared = self.uncompared = 0
        self._leaders: Numbers = np.zeros(0, np.uint64)
        """Of the last bucket, if it was a crowd: its rows may go on."""

    def find(self, rows: Rows, goes_on: bool = False) -> Pairs:
        """Duplicates among documents with an equal key; `goes_on` as `runs.gather` says it."""
        keys, numbers = rows
        leaders = self._leaders if goes_on else self._leaders[:0]
        numbers = np.concatenate([leaders, numbers])
        keys = np.concatenate([np.repeat(keys[:1], len(leaders)), keys])
        starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
        sizes = np.diff(np.append(starts, len(keys)))
        several = sizes > 1
        starts, sizes = starts[several], sizes[several]
        self._leaders = self._leaders[:0]
        if not len(starts):
            return Pairs(numbers[:0], numbers[:0])
        documents, members = np.unique(numbers[ranges(starts, sizes)], return_inverse=True)
        pool = _Pool(documents, self._alike, self._first_own)
        offsets = bounds(sizes)
        small = sizes <= CROWD
        _small_buckets(pool, members, offsets[:-1][small], sizes[small])
        for start, size in zip(offsets[:-1][~small].tolist(), sizes[~small].tolist(), strict=True):
            left, chosen = _crowd(pool, members[start : start + size])
            self.uncompared += left
            self._leaders = documents[chosen]
        self.compared += pool.compared
        return pool.found()


class _Pool:
    """The documents of some buckets, what ties them and what was compared in vain; places, not numbers."""

    def __init__(self, documents: Numbers, alike: Alike, first_own: int | None) -> None:
        self._documents, self._alike = documents, alike
        self._own = None if first_own is None else documents >= np.uint64(first_own)
        self.labels = np.arange(len(documents))
        self._left: list[Ints] = []
        self._right: list[Ints] = []
        self._vain = np.zeros(0, np.int64)
        self.compared = 0

    def tie(self, left: Ints, right: Ints) -> None:
        """Compare pairs that nothing is known of, and tie together those that are alike."""
        wanted = self.labels[left] != self.labels[right]
        if self._own is not None:
            wanted &= self._own[left] != self._own[right]
        count = len(self._documents)
        low, high = np.minimum(left, right)[wanted], np.maximum(left, right)[wanted]
        codes = _distinct(low * count + high)
        codes = codes[~np.isin(codes, self._vain, assume_unique=True)]
        if not len(codes):
            return
        left, right = codes // count, codes % count
        alike = self._alike(self._documents[left], self._documents[right])
        self.compared += len(codes)
        self._vain = np.concatenate([self._vain, codes[~alike]])
        self._left.append(left[alike])
        self._right.append(right[alike])
        self.labels = join(self.labels, left[alike], right[alike])

    def is_done(self, first: int) -> bool:
        """Whether no pair of this document and later ones counts, because all are of the own corpus."""
        return self._own is not None and bool(self._own[first])

    def found(self) -> Pairs:
        left, right = (np.concatenate([np.zeros(0, np.int64), *side]) for side in (self._left, self._right))
        order = np.lexsort((right, left))
        return Pairs(self._documents[left[order]], self._documents[right[order]])


def _distinct(values: Ints) -> Ints:
    """Sorted, each once; several times faster than `np.unique`, which hashes them first."""
    values = np.sort(values)
    return values[np.append(True, values[1:] != values[:-1])] if len(values) else values


def _small_buckets(pool: _Pool, members: Ints, starts: Ints, sizes: Ints) -> None:
    """All pairs: each round the next member of every bucket with those behind it."""
    step = 0
    while len(starts):
        rest = sizes - step - 1
        pool.tie(np.repeat(members[starts + step], rest), members[ranges(starts + step + 1, rest)])
        step += 1
        # What is one cluster by now needs no more rounds.
        labels = pool.labels[members[ranges(starts, sizes)]]
        edges = bounds(sizes)[:-1]
        open_ = np.minimum.reduceat(labels, edges) != np.maximum.reduceat(labels, edges)
        open_ &= sizes - step > 1
        starts, sizes = starts[open_], sizes[open_]


def _crowd(pool: _Pool, members: Ints) -> tuple[int, Ints]:
    """Documents left uncompared, and those that the others were compared with."""
    leaders: list[int] = []
    rest = members
    while len(rest) > 1 and len(leaders) < LEADERS and not pool.is_done(rest[0]):
        leader, rest = rest[0], rest[1:]
        leaders.append(int(leader))
        pool.tie(np.full(len(rest), leader), rest)
        rest = rest[pool.labels[rest] != pool.labels[leader]]
    done = len(rest) < 2 or pool.is_done(rest[0])
    return 0 if done else len(rest), np.array(leaders, np.int64)
