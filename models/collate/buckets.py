"""Buckets: batches of rows of like lengths, under a budget of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from corpora.ragged import Ints
from models.stream.hashing import key_of
from models.stream.order import check_whole, permuted


@dataclass(frozen=True)
class Buckets:
    """A grouping for `models.stream.loader.Loader`.

    The rows of a window are sorted by length and cut into batches of as many as the budget allows; the batches come in
    random order. All is a function of (seed, epoch, window) and the lengths.

    With `packed` rows are to be packed (`models.collate.pack`), and like lengths are of no use: batches take rows as
    they come, while their tokens are within the budget.

    Attributes:
        tokens: of a batch over all ranks, with padding: rows times the longest length, rounded up to `multiple`. A row
            longer than that is a batch of its own.
        seed: of the batches' order, 0 to 2^63-1.
        window: rows that are sorted at once: more of them are more alike, fewer are mixed better.
        column: whose lengths count (`Collator.length_column`). The length of a row of `choice` is that of all
            its choices.
        multiple: the collator's `pad_to`.
        rows: most rows of a batch; None: any number.
        packed: for packing.

    Raises:
        ValueError: a setting is wrong; the message says which.
    """

    tokens: int
    seed: int = 0
    window: int = 16384
    column: str = "input_ids"
    multiple: int = 8
    rows: int | None = None
    packed: bool = False

    def __post_init__(self) -> None:
        for name, least in (("tokens", 1), ("seed", 0), ("window", 1), ("multiple", 1), ("rows", 1)):
            value = getattr(self, name)
            if name == "rows" and value is None:
                continue
            check_whole(f"{name} of buckets", value, least, 2**63 - 1)

    @property
    def identity(self) -> dict[str, Any]:
        """What makes two groupings of equal window and column the same."""
        names = ("tokens", "seed", "multiple", "rows", "packed")
        return {name: getattr(self, name) for name in names}

    def __call__(self, lengths: Ints, epoch: int, window: int) -> Sequence[Ints]:
        """Batches of the window's rows: arrays of indices that hold each of 0..n-1 once; `lengths` int64[n]."""
        if self.packed:
            return self._as_they_come(lengths)
        order = np.argsort(-lengths, kind="stable")
        batches = self._cut(order, lengths[order])
        mixed = permuted(np.arange(len(batches)), len(batches), key_of(self.seed, epoch, window))
        return [batches[index] for index in mixed.tolist()]

    def _cut(self, order: Ints, lengths: Ints) -> list[Ints]:
        widths = np.maximum(-(-lengths // self.multiple), 1) * self.multiple
        sizes = np.maximum(self.tokens // widths, 1)
        if self.rows is not None:
            sizes = np.minimum(sizes, self.rows)
        batches, at = [], 0
        while at < len(order):  # once a batch
            size = int(sizes[at])
            batches.append(order[at : at + size])
            at += size
        return batches

    def _as_they_come(self, lengths: Ints) -> list[Ints]:
        ends, rows = np.cumsum(lengths), np.arange(len(lengths))
        batches, at = [], 0
        while at < len(rows):
            before = ends[at - 1] if at else 0
            stop = max(int(np.searchsorted(ends, before + self.tokens, side="right")), at + 1)
            stop = stop if self.rows is None else min(stop, at + self.rows)
            batches.append(rows[at:stop])
            at = stop
        return batches
