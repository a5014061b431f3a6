"""Batches, one after the other, from anywhere on and again from there.

No worker is the sensible default: rows are read by a few vectorised calls for some batches at once, and shipping
a batch from another process costs about what making it does. Workers pay where the collator's own work is much;
each takes every n-th handful of batches, and ships it as one block of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Generic, TypeVar, cast

import numpy as np
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from models.stream.batches import Batches, Cursor, Ends, GlobalBatch, Grouping
from models.stream.order import Kind, Order, Ordering, check_whole
from models.stream.rows import Rows
from models.stream.shards import Split
from models.stream.shipping import Packer, end_with_parent, unpack

T = TypeVar("T")
_LOST = (ConnectionError, FileNotFoundError, EOFError)
"""What reading from a worker that is gone raises, beside torch's own RuntimeError."""
STATE_VERSION = 1
_ROWS_AT_ONCE, _BYTES_AT_ONCE, _BATCHES_AT_ONCE = 1024, 1 << 24, 32
"""What is a handful of batches, which a worker ships at once: as soon as it has so many rows, of so many bytes in the
files on the average, or batches."""
_HANDFULS_READ = 4
"""Handfuls that are read at once: a call for some thousand rows costs little more than one for a few hundred."""


class StateError(ValueError):
    """A state that does not fit the stream it is loaded into; the message names what differs."""


class WorkerError(OSError):
    """A worker process ended before its work was done: it was killed, or crashed."""


class Loader(Generic[T]):
    """Batches of a split: `for batch in loader` gives the rest of the current epoch, the next loop the next epoch.

        loader = Loader(split, 64, seed=1, collate=collate)
        for batch in loader: ...
        state = loader.state_dict()       # after the batch last given, also in the middle of an epoch

    The batches are the same for any number of workers, and over all ranks for any number of ranks. Every rank
    takes the same number of steps an epoch. A loop that is left early, or ended by an error or an interrupt, is no
    loss: the next one gives the batch after the one last given.

    Args:
        split: the rows; of a mixture the joined splits.
        batch_size: rows of a batch over all ranks, a multiple of `ranks`.
        order: `sequential`, `block` (the default), `global`, or an `Ordering` such as a `Mixture`.
        seed: of the order.
        collate: what makes a batch of `Rows`; without it batches are `Rows`.
        grouping: batches of like lengths instead of `batch_size` rows (`Grouping`).
        ends: `pad` or `drop`, see `Batches`; `describe()` says what that means here.
        rank, ranks: which share of every batch is given.
        workers: processes that read ahead, 0 or more. They ship a handful of batches as one block of memory, which
            stays as long as any tensor of them does: of what is kept for long, keep a copy (`tensor.clone()`).
        block, window: of order `block`: rows of a block, blocks that are mixed.
        pin_memory: workers' batches lie in pinned memory, for copying to a GPU. Copied with `non_blocking=True`, keep
            the batch until that is done: its tensors are parts of one block, which torch does not know to be in use.

    Raises:
        ValueError: a setting is wrong, or an epoch would have no batch; the message says which.
        WorkerError: in a loop, where a worker was killed. Errors of `collate` come as they are.
    """

    def __init__(
        self,
        split: Split,
        batch_size: int = 64,
        *,
        order: Kind | Ordering = "block",
        seed: int = 0,
        collate: Callable[[Rows], T] | None = None,
        grouping: Grouping | None = None,
        ends: Ends = "pad",
        rank: int = 0,
        ranks: int = 1,
        workers: int = 0,
        block: int = 4096,
        window: int = 16,
        pin_memory: bool = False,
    ) -> None:
        ordering = Order(order, split.rows, seed, block, window) if isinstance(order, str) else order
        if ordering.rows != split.rows:
            raise ValueError(
                f"the order is of {ordering.rows:,} rows, {split.name} has {split.rows:,}: make it of the split's"
            )
        self._split = split
        self._batches = Batches(ordering, batch_size, ranks, ends, grouping, split.lengths)
        check_whole("rank", rank, 0, ranks - 1)
        check_whole("workers", workers, 0)
        self._reader = _Reader(split, self._batches, rank, collate)
        self._workers, self._pin = workers, pin_memory
        self._cursor = Cursor(0, 0)
        self._source: Iterator[tuple[T, Cursor]] | None = None

    @property
    def epoch(self) -> int:
        """The epoch of the next batch, from 0."""
        return self._cursor.epoch

    def __len__(self) -> int:
        """Batches that the next loop gives: the rest of the current epoch."""
        return self._batches.left(self._cursor)

    def __iter__(self) -> Iterator[T]:
        epoch = self._cursor.epoch
        while self._cursor.epoch == epoch:
            # A source that raises is at its end, whatever it had read ahead: it is kept only when it gave a batch.
            source, self._source = self._source or self._read(), None
            batch, self._cursor = next(source)
            self._source = source
            yield batch

    def describe(self) -> str:
        """One line for logs: rows, batches, and what becomes of the end of an epoch."""
        batches = self._batches
        rows = f"{_rows(batches.order.length)} an epoch of {self._split.name}"
        if batches.grouping is not None:
            filled = f", filled up with rows of weight 0 for {batches.ranks} ranks"
            return f"{rows}, in batches of like lengths{filled if batches.ranks > 1 else ''}"
        count, over = batches.left(Cursor(0, 0)), batches.left_over()
        done = "added with weight 0 to fill the last" if batches.ends == "pad" else "left out"
        shared = f" over {batches.ranks} ranks" if batches.ranks > 1 else ""
        many = "batch" if count == 1 else "batches"
        return f"{rows}: {count:,} {many} of {batches.size:,}{shared}, {_rows(over)} {done}"

    # --- state --------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Where the stream stands after the batch last given, and what it must find again; ready for JSON."""
        return {"version": STATE_VERSION, **self._cursor._asdict(), "stream": self._identity()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on after the batch that was last given when `state` was taken: exactly the rows that remain.

        Ranks, workers, `ends` and `collate` may differ, and without a grouping `batch_size`.

        Raises StateError where the order, its seed, the rows or the grouping differ, or the state is none.
        """
        known = state if isinstance(state, Mapping) else {}
        version, found, mine = known.get("version"), known.get("stream"), self._identity()
        if version != STATE_VERSION or not isinstance(found, Mapping):
            raise StateError(
                f"this is no state of a stream that this release reads: version {version!r}, expected {STATE_VERSION}, "
                f"and `stream` is {type(found).__name__}, expected a mapping"
            )
        for key in dict.fromkeys([*mine, *found]):
            if mine.get(key) != found.get(key):
                raise StateError(
                    f"the state was taken from a stream whose {key} is {found.get(key)!r}, here it is "
                    f"{mine.get(key)!r}: the rows that remain are known only with the same"
                )
        numbers = [state.get(name) for name in Cursor._fields]
        if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in numbers):
            raise StateError(
                f"epoch, position and batch of a state must be whole numbers from 0 on, found {numbers}"
            )
        cursor = Cursor(*cast("list[int]", numbers))
        if not self._batches.stands(cursor):
            raise StateError(
                f"the state stands at {cursor}, where no batch of this stream of {self._batches.order.length:,} rows "
                "an epoch begins: it was changed"
            )
        self._cursor, self._source = self._batches.settled(cursor), None

    def _identity(self) -> dict[str, Any]:
        grouping = self._batches.grouping
        same = {"data": self._split.fingerprint, **self._batches.order.identity}
        return same | (
            {"grouping": [grouping.window, grouping.column, grouping.identity]}
            if grouping is not None
            else {}
        )

    def _read(self) -> Iterator[tuple[T, Cursor]]:
        if not self._workers:
            return chain.from_iterable(self._reader.handfuls(self._cursor, 0, 1))
        loader = DataLoader(
            _Handfuls(self._reader, self._cursor),
            batch_size=None,
            num_workers=self._workers,
            collate_fn=_as_it_is,
            worker_init_fn=end_with_parent,
            pin_memory=self._pin,
        )
        return _shipped(loader)


@dataclass(frozen=True)
class _Reader(Generic[T]):
    """What reads a rank's share of batches, here or in a worker. It knows nothing of the loader, so that nothing
    holds worker processes when the loader is dropped."""

    split: Split
    batches: Batches
    rank: int
    collate: Callable[[Rows], T] | None

    def handfuls(self, cursor: Cursor, worker: int, workers: int) -> Iterator[Iterator[tuple[T, Cursor]]]:
        """Every `workers`-th handful of batches, each with where the stream stands after it.

        A batch is made when it is asked for, so that it finds the memory of the one before it in the processor's cache.
        """
        every = self._every(self.batches.stream(cursor))
        mine = islice(every, worker, None, workers)
        while True:
            some = list(islice(mine, _HANDFULS_READ))
            batches = self._read(list(chain.from_iterable(some)))
            for handful in some:
                yield islice(batches, len(handful))

    def _every(self, drawn: Iterator[GlobalBatch]) -> Iterator[list[GlobalBatch]]:
        """All handfuls, the same in every worker: by rows and batches that all know, not by what is found in files."""
        rows = max(min(_ROWS_AT_ONCE, _BYTES_AT_ONCE // self.split.row_bytes), 1) * self.batches.ranks
        while True:
            handful, count = [next(drawn)], 0
            while (count := count + len(handful[-1].rows)) < rows and len(handful) < _BATCHES_AT_ONCE:
                handful.append(next(drawn))
            yield handful

    def _read(self, drawn: list[GlobalBatch]) -> Iterator[tuple[T, Cursor]]:
        shares = [self.batches.share(one, self.rank) for one in drawn]
        rows = self.split.take(*(np.concatenate(parts) for parts in zip(*shares, strict=True)))
        start = 0
        for one, share in zip(drawn, shares, strict=True):
            part = rows.slice(start, start + len(share[0]))
            start += len(share[0])
            yield cast(T, part) if self.collate is None else self.collate(part), one.after


class _Handfuls(IterableDataset):
    """What a worker process iterates; torch starts it, and asks the workers in turn."""

    def __init__(self, reader: _Reader[Any], cursor: Cursor) -> None:
        self._reader, self._cursor = reader, cursor

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        handfuls = self._reader.handfuls(self._cursor, info.id, info.num_workers)
        return map(Packer(), handfuls)


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def _as_it_is(value: Any) -> Any:
    return value


def _shipped(loader: DataLoader[Any]) -> Iterator[Any]:
    """What workers ship. Torch tells one that died, or the connection to it breaks; what is raised in a worker comes as
    an error of that type, whose text begins "Caught".

    Torch's frames hold the workers, and are in a circle with an error that came from one: workers that are left to
    the garbage collector are not told to end, for it closes their queues first, and are waited for 5 seconds each.
    So errors go on without those frames, and workers end here; the text of an error has the worker's own traceback.
    """
    try:
        for memory, packed in loader:
            yield from unpack(memory, packed)
    except Exception as error:
        error.__traceback__ = None
        said, torchs = str(error), isinstance(error, RuntimeError)
        lost = said.startswith("DataLoader worker") if torchs else isinstance(error, _LOST)
        if said.startswith("Caught ") or not lost:
            raise error
        raise WorkerError(
            f"a worker process of the loader was killed or crashed ({error}): often memory ran out, of the machine or "
            "in /dev/shm; take fewer workers, or none. The loader's state is good: the next loop goes on after the "
            "batch last given"
        ) from error
