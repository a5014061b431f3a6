"""Which rows make which batch, and which of them are a rank's.

Batch k of an epoch is positions k*B to (k+1)*B-1 of its order, B rows over all ranks: the rows of a batch are the
same for any number of ranks, which only divide them. Where a stream stands is three whole numbers. With a
`Grouping` (buckets of like lengths) the positions of a window of rows are divided into batches by what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from corpora.ragged import Ints
from models.stream.order import Ordering, check_whole

Ends = Literal["pad", "drop"]
_AHEAD = 4096
"""Positions that are drawn at once: a draw of a few costs as much as a draw of some hundreds."""


class Cursor(NamedTuple):
    """Where a stream stands: the epoch, the position of the next row (with a grouping: of the next window's first)
    and how many batches of that window are done (0 without a grouping)."""

    epoch: int
    position: int
    batch: int = 0


class GlobalBatch(NamedTuple):
    """A batch over all ranks: rows, epochs int64[m], weights float32[m]; and where the stream stands after it."""

    rows: Ints
    epochs: Ints
    weights: NDArray[np.float32]
    after: Cursor


class Grouping(Protocol):
    """Divides a window of rows into batches, by the lengths of one of their columns.

    Attributes:
        window: rows of a window, at least 1.
        column: the list column whose lengths are asked for.
        identity: settings that two equal groupings share, ready for JSON.
    """

    @property
    def window(self) -> int: ...

    @property
    def column(self) -> str: ...

    @property
    def identity(self) -> dict[str, Any]: ...

    def __call__(self, lengths: Ints, epoch: int, window: int) -> Sequence[Ints]:
        """Batches of a window's rows: arrays of indices, which hold each of 0..len(lengths)-1 once."""
        ...


@dataclass(frozen=True)
class Batches:
    """The batches of an endless stream, epoch after epoch.

    Attributes:
        order: which row stands where.
        size: rows of a batch over all ranks, at least 1; with a grouping only a guess of how many they have.
        ranks: among how many a batch is divided.
        ends: what becomes of an epoch's last rows that are no whole batch: `pad` fills it with rows of that
            batch again, of weight 0; `drop` leaves them out of that epoch. Batches of a grouping are padded to a
            multiple of `ranks`.
        grouping: instead of `size`.
        lengths: lengths of a column of rows, for `grouping`.
    """

    order: Ordering
    size: int
    ranks: int = 1
    ends: Ends = "pad"
    grouping: Grouping | None = None
    lengths: Callable[[Ints, str], Ints] | None = None

    def __post_init__(self) -> None:
        if self.ends not in ("pad", "drop"):
            raise ValueError(f"ends {self.ends!r} is not known; known are 'pad' and 'drop'")
        check_whole("ranks", self.ranks, 1)
        check_whole("batch_size", self.size, 1)
        if self.grouping is not None:
            if self.ends == "drop":
                raise ValueError("batches that a grouping makes have no uneven end to drop: use ends 'pad'")
            if self.lengths is None:
                raise ValueError("a grouping needs `lengths`")
            return
        if self.size % self.ranks:
            raise ValueError(
                f"a batch holds rows for all ranks: batch_size must be a multiple of ranks, found {self.size} rows for "
                f"{self.ranks} ranks"
            )
        if self.ends == "drop" and self.order.length < self.size:
            raise ValueError(
                f"an epoch of {self.order.length:,} rows is less than one batch of {self.size:,}, and ends 'drop' "
                "would leave nothing: use ends 'pad', or a smaller batch_size"
            )

    def left_over(self) -> int:
        """Rows of an epoch that `pad` adds or `drop` leaves out; 0 with a grouping, whose batches tell themselves."""
        if self.grouping is not None:
            return 0
        return (self.order.length if self.ends == "drop" else -self.order.length) % self.size

    def stands(self, cursor: Cursor) -> bool:
        """Whether a stream of these rows, of batches of any size, can stand there: with a grouping at a batch of a
        window. (Rows that were ever drawn are counted in int64.)"""
        epoch, position, batch = cursor
        length, grouping = self.order.length, self.grouping
        if position > length or (epoch + 1) * length >= 2**63:
            return False
        if grouping is None:
            return not batch
        if position == length or position % grouping.window:
            return False
        return not batch or batch < len(self._window(epoch, position)[2])

    def settled(self, cursor: Cursor) -> Cursor:
        """The same place, at the beginning of the next epoch where it is the end of one."""
        needed = self.size if self.ends == "drop" else 1
        return cursor if self.order.length - cursor.position >= needed else Cursor(cursor.epoch + 1, 0)

    def left(self, cursor: Cursor) -> int:
        """Batches of the epoch from `cursor` on. With a grouping every row's length is read."""
        epoch, position, batch = self.settled(cursor)
        rest = self.order.length - position
        if self.grouping is None:
            return rest // self.size if self.ends == "drop" else -(-rest // self.size)
        starts = range(position, self.order.length, self.grouping.window)
        return sum(len(self._window(epoch, start)[2]) for start in starts) - batch

    def stream(self, cursor: Cursor) -> Iterator[GlobalBatch]:
        """Every batch from `cursor` on, without end."""
        cursor = self.settled(cursor)
        while True:
            for batch in self._grouped(cursor) if self.grouping is not None else self._plain(cursor):
                yield batch
                cursor = batch.after

    def share(self, batch: GlobalBatch, rank: int) -> tuple[Ints, Ints, NDArray[np.float32]]:
        """Rows, epochs and weights of a rank: every `ranks`-th, so that padding is spread over all."""
        mine = slice(rank, None, self.ranks)
        return batch.rows[mine], batch.epochs[mine], batch.weights[mine]

    # --- within -------------------------------------------------------------------------------

    def _plain(self, cursor: Cursor) -> Iterator[GlobalBatch]:
        """Some batches of one epoch: as many as are drawn at once."""
        epoch, start, _ = cursor
        stop = min(start + self.size * max(_AHEAD // self.size, 1), self.order.length)
        rows, epochs = self.order.draw(epoch, np.arange(start, stop, dtype=np.int64))
        for first in range(0, stop - start, self.size):
            last = first + self.size
            if last > len(rows) and self.ends == "drop":
                return
            after = self.settled(Cursor(epoch, start + min(last, len(rows))))
            yield _padded(rows[first:last], epochs[first:last], self.size, after)

    def _grouped(self, cursor: Cursor) -> Iterator[GlobalBatch]:
        """The rest of a window."""
        epoch, start, done = cursor
        rows, epochs, batches = self._window(epoch, start)
        for number, batch in enumerate(batches[done:], start=done + 1):
            last = number == len(batches)
            after = self.settled(Cursor(epoch, start + len(rows))) if last else Cursor(epoch, start, number)
            yield _padded(rows[batch], epochs[batch], -(-len(batch) // self.ranks) * self.ranks, after)

    def _window(self, epoch: int, start: int) -> tuple[Ints, Ints, Sequence[Ints]]:
        grouping, lengths = self.grouping, self.lengths
        assert grouping is not None and lengths is not None
        stop = min(start + grouping.window, self.order.length)
        rows, epochs = self.order.draw(epoch, np.arange(start, stop, dtype=np.int64))
        batches = grouping(lengths(rows, grouping.column), epoch, start // grouping.window)
        if (count := sum(map(len, batches))) != len(rows):
            raise ValueError(
                f"a grouping must give every row of a window once, {len(rows):,} rows: found {count:,}"
            )
        return rows, epochs, batches


def _padded(rows: Ints, epochs: Ints, size: int, after: Cursor) -> GlobalBatch:
    weights = np.ones(size, np.float32)
    if len(rows) < size:
        weights[len(rows) :] = 0
        rows, epochs = np.resize(rows, size), np.resize(epochs, size)  # its own rows again
    return GlobalBatch(rows, epochs, weights, after)
