"""A split of a dataset as one long table of rows, whatever number of shards it lies in.

Local shards are memory-mapped, so opening a split costs no memory for its rows, and reading a row touches only
the columns asked for. Remote shards (`models.stream.cache`) come when a row of theirs is asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from corpora.manifest import ShardRecord
from corpora.ragged import Ints, bounds
from corpora.shards import ShardError
from models.stream.cache import Cache
from models.stream.mapped import (
    Kind,
    Mapped,
    damaged,
    gather_lists,
    gather_scalars,
    list_bounds,
)
from models.stream.rows import Array, Rows

_ENDING = 2**16
"""Bytes at the end of a file that stand for it where no manifest tells its hash."""


class SplitError(ValueError):
    """A split that cannot be read as asked; the message says what was expected and what to do."""


@dataclass
class Shard:
    """One shard: where it is, its rows, what the manifest says of it, and itself while it is open."""

    path: str
    rows: int
    record: ShardRecord | None = None
    cache: Cache | None = None
    mapped: Mapped | None = None
    used: int = 0

    @property
    def bytes(self) -> int:
        """Size of the file."""
        return self.record.bytes if self.record else Path(self.path).stat().st_size

    @property
    def identity(self) -> str:
        """What tells the file from others, wherever it lies: the hash that the manifest gives; without a manifest its
        size and the hash of its end, where Arrow says what lies where: nothing of it is read but that."""
        if self.record:
            return self.record.sha256
        with Path(self.path).open("rb") as file:
            file.seek(max(self.bytes - _ENDING, 0))
            return f"{self.bytes}-{hashlib.sha256(file.read()).hexdigest()}"

    def open(self, schema: pa.Schema | None = None) -> Mapped:
        """The shard, mapped; ShardError where it is not as its manifest says."""
        record = self.record
        path = self.path
        try:
            if self.cache is not None and record is not None:
                path = self.cache.fetch(self.path, record)
                with suppress(FileNotFoundError):
                    return self._as_recorded(path, Mapped(path, schema))
                path = self.cache.fetch(self.path, record)  # another process made room for one of its own
            return self._as_recorded(path, Mapped(path, schema))
        except FileNotFoundError as error:
            raise ShardError(
                f"{path} is in the manifest, but the file is gone; run the pipeline again"
            ) from error

    def _as_recorded(self, path: str, mapped: Mapped) -> Mapped:
        if (record := self.record) is not None:
            size = Path(path).stat().st_size
            if (mapped.rows, size) != (record.rows, record.bytes):
                raise ShardError(
                    f"{path} has {mapped.rows:,} rows in {size:,} bytes, its manifest says {record.rows:,} rows "
                    f"in {record.bytes:,} bytes: the file was changed or cut after it was written"
                )
        return mapped


class Split:
    """Rows 0..rows-1 of one or several splits, and the columns that are read of them.

    Attributes:
        name: folder and split, for messages.
        rows: number of rows, at least 1.
        row_bytes: what a row takes in the files, of all their columns, on the average.
        columns: names of the columns that `take` reads.
        schema: their types.
        shards: where the rows lie, none of them empty.
        metadata: this project's metadata of the schema (`corpora.schema.read_metadata`): task, labels, special ids.

    `models.stream.open` makes them. One can be sent to another process, which then maps the shards itself: `again`
    says how it is opened there.
    """

    def __init__(
        self,
        name: str,
        shards: Sequence[Shard],
        schema: pa.Schema,
        metadata: dict[str, Any],
        again: Callable[[], tuple[Any, ...]],
    ) -> None:
        self.name, self.shards, self.schema = name, shards, schema
        self.metadata, self._again = metadata, again
        self.columns = tuple(schema.names)
        self._kinds = {field.name: Kind.of(field.type) for field in schema}
        self._lists = [name for name, kind in self._kinds.items() if kind.is_list]
        self._ends = np.cumsum([shard.rows for shard in shards], dtype=np.int64)
        self.rows = int(self._ends[-1])
        self.row_bytes = sum(shard.bytes for shard in shards) // self.rows + 1
        self._lazy = any(shard.cache is not None for shard in shards)
        self._clock = 0
        self._table: _Table | None = None

    def __len__(self) -> int:
        return self.rows

    def __reduce__(self) -> tuple[Any, ...]:
        return self._again()

    @property
    def fingerprint(self) -> str:
        """The number of rows and a hash of what the shards are, in their order: of splits with equal ones, row n is
        the same (`Shard.identity` says how far that is known)."""
        shards = "\n".join(shard.identity for shard in self.shards)
        return f"{self.rows}-{hashlib.sha256(shards.encode()).hexdigest()[:16]}"

    def lengths(self, rows: Ints, column: str = "input_ids") -> Ints:
        """int64[n]: how many items a list column has in each of these rows; reads offsets alone."""
        self._known(column, "is_list")
        place = self._lists.index(column)
        table, batch, row = self._find(rows)
        return self._bounds(table, batch, row, slice(place, place + 1))[1][0]

    def take(self, rows: Ints, epoch: Ints | None = None, weight: Array | None = None) -> Rows:
        """The rows of these numbers (int64[n], each in 0..rows-1), in their order, a number as often as it is given.

        Rows that follow one another are not copied where they lie in one record batch: their values are
        read-only. `epoch` and `weight` are passed on (without: epoch 0, weight 1).

        Raises:
            IndexError: a number is outside the split.
            ShardError: a shard is damaged, or not as its manifest says.
        """
        table, batch, row = self._find(rows)
        taken = Rows(
            rows,
            np.zeros(len(rows), np.int64) if epoch is None else epoch,
            np.ones(len(rows), np.float32) if weight is None else weight,
        )
        if len(rows) and (np.diff(rows) == 1).all():
            lists = [self._run(table, name, batch, row) for name in self._lists]
        else:
            starts, lengths = self._bounds(table, batch, row)
            kinds = [self._kinds[name] for name in self._lists]
            values = gather_lists(kinds, table.lists, batch, starts, lengths)
            lists = list(zip(values, map(bounds, lengths), strict=True))
        known: list[Ints] = []
        for name, (items, offsets) in zip(self._lists, lists, strict=True):
            shared = next((same for same in known if np.array_equal(same, offsets)), None)
            if shared is None:  # the first column of its shape
                known.append(offsets)
            taken.lists[name] = items, offsets if shared is None else shared
        for name, kind in self._kinds.items():
            if kind.is_text:
                taken.texts[name] = self._texts(table, name, batch, row)
            elif not kind.is_list:
                taken.scalars[name] = gather_scalars(kind, table.scalars[name], batch, row)
        return taken

    def chunks(self, size: int) -> Iterator[Rows]:
        """All rows in their order, `size` at a time (the last may be fewer). Raises ShardError as `take` does."""
        for start in range(0, self.rows, size):
            yield self.take(np.arange(start, min(start + size, self.rows)))

    # --- within -------------------------------------------------------------------------------

    def _known(self, column: str, what: str) -> None:
        if column not in self._kinds or not getattr(self._kinds[column], what):
            raise SplitError(
                f"{column!r} is no list among the columns read, which are {', '.join(self.columns)}"
            )

    def _find(self, rows: Ints) -> tuple[_Table, Ints, Ints]:
        """Tables of the shards that are open, and for each row its record batch there and its place in it."""
        if len(rows) and not (int(rows.min()) >= 0 and int(rows.max()) < self.rows):
            raise IndexError(
                f"rows of {self.name} are numbered 0 to {self.rows - 1}, asked for {rows.min()} to {rows.max()}"
            )
        if self._lazy:
            self._make_open(np.unique(np.searchsorted(self._ends, rows, side="right")))
        elif self._table is None:
            self._make_open(np.arange(len(self.shards)))
        table = self._table
        assert table is not None
        batch = np.searchsorted(table.starts, rows, side="right") - 1
        return table, batch, rows - table.starts[batch]

    def _make_open(self, needed: Ints) -> None:
        """Open the shards needed; of remote ones close those used longest ago, so that the cache keeps its limit."""
        self._clock += 1
        changed = self._table is None
        for index in needed.tolist():
            shard = self.shards[index]
            shard.used = self._clock
            if shard.mapped is None:
                shard.mapped, changed = shard.open(self.schema), True
        for cache in {id(s.cache): s.cache for s in self.shards if s.cache is not None}.values():
            mine = [s for s in self.shards if s.cache is cache and s.mapped is not None]
            over = sum(s.record.bytes for s in mine if s.record) - cache.limit
            for shard in sorted(mine, key=lambda s: s.used):
                if over > 0 and shard.record is not None:
                    if shard.used == self._clock:
                        raise SplitError(
                            f"{len(needed)} shards of {self.name} are read at once, more than the cache's limit of "
                            f"{cache.limit:,} bytes: raise the limit, or take order 'sequential', or 'block' with "
                            "larger blocks and a smaller window"
                        )
                    over -= shard.record.bytes
                    shard.mapped, changed = None, True
        if changed:
            self._table = _Table(self.shards, self._ends, self._kinds)

    def _bounds(self, table: _Table, batch: Ints, row: Ints, which: slice = slice(None)) -> tuple[Ints, Ints]:
        """First item and length int64[c, n] of the lists of `which` of the list columns."""
        starts, lengths, right = list_bounds(table.lists[which], batch, row)
        if not right.all():
            column, wrong = np.argwhere(~right)[0].tolist()
            raise damaged(table.owners[int(batch[wrong])][0].path, self._lists[which][column])
        return starts, lengths

    def _run(self, table: _Table, name: str, batch: Ints, row: Ints) -> tuple[Array, Ints]:
        """A list column of rows that follow one another."""
        kind, parts, start = self._kinds[name], [], int(row[0])
        for index in range(int(batch[0]), int(batch[-1]) + 1):
            mapped, own = table.owners[index]
            last = index == batch[-1]
            stop = int(row[-1]) + 1 if last else mapped.batches[own].num_rows
            parts.append(mapped.slice(name, kind, own, start, stop))
            start = 0
        if len(parts) == 1:
            return parts[0]
        lengths = np.concatenate([np.diff(offsets) for _, offsets in parts])
        return np.concatenate([values for values, _ in parts]), bounds(lengths)

    def _texts(self, table: _Table, name: str, batch: Ints, row: Ints) -> pa.Array:
        order = np.argsort(batch, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(batch[order])) + 1)
        parts = []
        for group in groups if len(order) else []:
            mapped, own = table.owners[int(batch[group[0]])]
            parts.append(mapped.text(name, own, row[group]))
        if not parts:
            return pa.array([], self.schema.field(name).type)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return pa.concat_arrays(parts).take(pa.array(back))


class _Table:
    """The record batches of all open shards, in order: first row and owner, and the addresses of every scalar
    column int64[3, b] and of all list columns int64[c, 3, b]."""

    def __init__(self, shards: Sequence[Shard], ends: Ints, kinds: Mapping[str, Kind]) -> None:
        opened = [
            (shard.mapped, int(end) - shard.rows)
            for shard, end in zip(shards, ends, strict=True)
            if shard.mapped is not None
        ]
        self.starts: Ints = np.concatenate([mapped.starts + first for mapped, first in opened])
        self.owners = [(mapped, own) for mapped, _ in opened for own in range(len(mapped.batches))]
        self.scalars, lists = {}, []
        for name, kind in kinds.items():
            if not kind.is_text:
                whole = np.concatenate([mapped.addresses[name] for mapped, _ in opened], axis=1)
                if kind.is_list:
                    lists.append(whole)
                else:
                    self.scalars[name] = whole
        self.lists: Ints = np.array(lists, np.int64).reshape(-1, 3, len(self.starts))
