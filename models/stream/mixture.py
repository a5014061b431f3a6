"""Several splits in one stream, each as often as its weight says.

Positions repeat a pattern of ten thousand, in which every split stands as evenly as its weight allows; so a
position alone says which split it belongs to and how many rows of that split came before. Each split runs through
epochs of its own, every row once in each, however often the others begin anew.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from corpora.ragged import Ints
from models.stream.order import Order, check_whole

PATTERN = 10_000
"""Positions of the pattern: weights are kept to one in twice this."""


class Mixture:
    """An order (`models.stream.order.Ordering`) over joined splits (`join_splits`, in the same sequence).

    Attributes:
        length: positions of an epoch: as many as all splits have rows, unless it is given.
        rows: rows of all splits.
    """

    def __init__(self, orders: Sequence[Order], weights: Sequence[float], length: int | None = None) -> None:
        """`orders` of the splits, `weights` above 0: shares of the rows drawn, of any sum.

        Raises ValueError where numbers do not match or a weight is too small to be kept.
        """
        if len(orders) != len(weights) or not orders:
            raise ValueError(
                f"a mixture needs a weight for each split: {len(orders)} splits, {len(weights)} weights"
            )
        if bad := [w for w in weights if not (math.isfinite(w) and w > 0)]:
            raise ValueError(f"weights of a mixture must be numbers above 0, found {bad[0]!r}")
        parts = np.asarray(weights, dtype=np.float64) / max(weights)  # so that no sum is too large
        shares = parts / math.fsum(parts) * PATTERN
        counts = np.floor(shares).astype(np.int64)
        largest = np.argsort(counts - shares, kind="stable")[: PATTERN - int(counts.sum())]
        counts[largest] += 1
        if (counts == 0).any():
            least = weights[int(np.argmin(counts))]
            raise ValueError(
                f"weight {least!r} is less than one row in {PATTERN:,}: leave the split out, or raise it"
            )
        self._orders, self._counts = tuple(orders), counts
        self._first = np.cumsum([0, *(order.length for order in orders)], dtype=np.int64)
        self._length = self.rows if length is None else length
        check_whole("length of a mixture", self._length, 1, 2**62)
        # The j-th of a split's n places is best at (j + 1/2) / n of the pattern.
        best = np.concatenate([(np.arange(n) + 0.5) / n for n in counts.tolist()])
        split = np.repeat(np.arange(len(orders)), counts)
        number = np.concatenate([np.arange(n) for n in counts.tolist()])
        sequence = np.argsort(best, kind="stable")
        self._split, self._number = split[sequence], number[sequence]

    @property
    def length(self) -> int:
        """Positions of an epoch."""
        return self._length

    @property
    def rows(self) -> int:
        """Rows of all splits."""
        return int(self._first[-1])

    @property
    def identity(self) -> dict[str, Any]:
        """What makes two mixtures the same."""
        parts = [order.identity for order in self._orders]
        return {"order": "mixture", "rows": self._length, "counts": self._counts.tolist(), "splits": parts}

    def draw(self, epoch: int, positions: Ints) -> tuple[Ints, Ints]:
        """See `Ordering.draw`; rows are numbered through all splits, epochs are those of each row's split."""
        cycle, place = np.divmod(epoch * self._length + np.asarray(positions, dtype=np.int64), PATTERN)
        split = self._split[place]
        drawn = cycle * self._counts[split] + self._number[place]
        rows, epochs = np.empty_like(drawn), np.empty_like(drawn)
        for index, order in enumerate(self._orders):
            mine = np.flatnonzero(split == index)
            own_epochs, own = np.divmod(drawn[mine], order.length)
            for own_epoch in np.unique(own_epochs).tolist():
                some = own_epochs == own_epoch
                rows[mine[some]] = self._first[index] + order.draw(own_epoch, own[some])[0]
            epochs[mine] = own_epochs
        return rows, epochs
