"""Counts that do not grow with what is counted: histograms of small integers, counts of triple ids."""

from __future__ import annotations

import numpy as np

_COMPACT = 1 << 20
"""Waiting (id, count) pairs are merged when there are this many, or as many as merged ones."""


class Histogram:
    """Counts of small non-negative integers; `counts[v]` is how often v was seen, int64."""

    def __init__(self) -> None:
        self.counts = np.zeros(1, np.int64)

    def add(self, values: np.ndarray) -> None:
        """Count an integer array of any length."""
        if len(values):
            self._add(np.bincount(values))

    def merge(self, other: Histogram) -> None:
        """Add another histogram's counts."""
        self._add(other.counts)

    def _add(self, counts: np.ndarray) -> None:
        if len(counts) > len(self.counts):
            self.counts = np.concatenate([self.counts, np.zeros(len(counts) - len(self.counts), np.int64)])
        self.counts[: len(counts)] += counts

    @property
    def total(self) -> int:
        """How many values were counted."""
        return int(self.counts.sum())

    @property
    def sum(self) -> int:
        """Sum of all values."""
        return int(self.counts @ np.arange(len(self.counts)))

    @property
    def mean(self) -> float:
        """Mean value, 0.0 without values."""
        return self.sum / self.total if self.total else 0.0

    @property
    def min(self) -> int:
        return int(np.flatnonzero(self.counts)[0]) if self.total else 0

    @property
    def max(self) -> int:
        return int(np.flatnonzero(self.counts)[-1]) if self.total else 0

    def percentile(self, share: float) -> int:
        """The smallest value that at least `share` (0 to 1) of the values do not exceed; 0 without values."""
        need = max(share * self.total, 1)
        return int(np.searchsorted(np.cumsum(self.counts), need)) if self.total else 0

    def bins(self, most: int = 20) -> list[tuple[int, int, int]]:
        """(first value, last value, count) of at most `most` (>= 2) bins over what occurs.

        Bins are equally wide, but for the last one: where values above the 99th percentile would make
        every bin wide, it holds all of them.
        """
        if not self.total:
            return []
        low, high, tail = self.min, self.max, self.percentile(0.99) + 1
        rest = high - low + 1 > most and tail <= high
        end = tail if rest else high + 1
        width = -(-(end - low) // (most - 1 if rest else most))
        edges = np.arange(low, end, width)
        sums = np.add.reduceat(self.counts[:end], edges)
        found = [(int(e), min(int(e) + width, end) - 1, int(n)) for e, n in zip(edges, sums, strict=True)]
        return found + ([(tail, high, int(self.counts[tail:].sum()))] if rest else [])


class TripleCounts:
    """How often each triple id occurs, as sorted unique ids with counts."""

    def __init__(self) -> None:
        self._ids, self._counts = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._pending: list[tuple[np.ndarray, np.ndarray]] = []
        self._waiting = 0

    def add(self, ids: np.ndarray) -> None:
        """Count ids, int64[B]."""
        if len(ids):
            self._append(*np.unique(ids, return_counts=True))

    def merge(self, other: TripleCounts) -> None:
        """Add another count."""
        self._append(*other.items())

    def _append(self, ids: np.ndarray, counts: np.ndarray) -> None:
        self._pending.append((ids, counts))
        self._waiting += len(ids)
        if self._waiting > max(_COMPACT, len(self._ids)):
            self.items()

    def items(self) -> tuple[np.ndarray, np.ndarray]:
        """Ids in order and their counts, int64[distinct] each."""
        if self._pending:
            ids = np.concatenate([self._ids, *(p[0] for p in self._pending)])
            counts = np.concatenate([self._counts, *(p[1] for p in self._pending)])
            self._ids, where = np.unique(ids, return_inverse=True)
            self._counts = np.zeros(len(self._ids), np.int64)
            np.add.at(self._counts, where, counts)
            self._pending, self._waiting = [], 0
        return self._ids, self._counts

    def top(self, count: int) -> list[tuple[int, int]]:
        """The most frequent (id, count), by count and then by id."""
        ids, counts = self.items()
        order = np.lexsort((ids, -counts))[:count]
        return [(int(ids[i]), int(counts[i])) for i in order]
