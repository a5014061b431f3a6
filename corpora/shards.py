"""Shards: Arrow IPC files, uncompressed and therefore memory-mapped as they lie.

The bytes of a shard are a function of its rows, in order, and of nothing else: the writer cuts
its own record batches wherever the producer's were cut, clears what lies under nulls, and keeps
one growing dictionary per dictionary column. Hash, size and row count are taken while writing,
in the same pass. A shard gets its name only when it is whole.

Dictionary columns that grow after the first record batch are written as Arrow dictionary deltas.
Only annotated documents have such columns; Arrow and DuckDB read deltas, Polars reads them through
`pl.read_ipc(..., use_pyarrow=True)`. Shard rows have none, and every Arrow reader takes them.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from corpora import files
from corpora.batches import (
    GrowingDictionary,
    ShardError,
    canonical,
    dictionary_of,
    row_bytes,
    schema_difference,
)

__all__ = ["ShardError", "ShardInfo", "ShardWriter", "check_shard", "open_shard", "read_batches", "read_rows"]

MAX_BATCH_ROWS = 4096
MAX_BATCH_BYTES = 64 * 2**20
"""Largest record batch, unless a single row is larger: what a reader holds at once."""


@dataclass(frozen=True)
class ShardInfo:
    """What a finished shard is: file name, rows, size in bytes, sha256 (hex) of the bytes."""

    name: str
    rows: int
    bytes: int
    sha256: str


class ShardWriter:
    """Write one shard; use as a context manager.

        with ShardWriter(path, schema) as shard:
            shard.write(batch_or_table)
        shard.result  # ShardInfo

    `write` takes any number of rows of exactly `schema` (a column of strings is taken where the
    schema has a dictionary of strings). Rows are gathered into record batches of `max_batch_rows`
    rows, fewer where they would exceed `max_batch_bytes`. Nothing stands under `path` until the
    `with` block ends without an error; on an error the temporary file is removed.

    Raises:
        ShardError: a batch's schema differs (the message names the field), a column that may not
            hold nulls holds one, or a dictionary outgrows its index type.
        OSError: as the filesystem says; a full disk names the path and how much was needed so far.
    """

    def __init__(
        self,
        path: str,
        schema: pa.Schema,
        max_batch_rows: int = MAX_BATCH_ROWS,
        max_batch_bytes: int = MAX_BATCH_BYTES,
    ) -> None:
        if max_batch_rows < 1:
            raise ValueError(f"max_batch_rows must be at least 1, found {max_batch_rows}")
        self._path, self._schema = str(path), schema
        self._max_rows, self._max_bytes = max_batch_rows, max_batch_bytes
        self._pending: list[pa.RecordBatch] = []
        self._pending_sizes: list[np.ndarray] = []
        self._pending_rows = self._pending_bytes = 0
        self._dictionaries = {f.name: GrowingDictionary(f) for f in schema if dictionary_of(f.type)}
        self._rows = 0
        self._result: ShardInfo | None = None

    def __enter__(self) -> ShardWriter:
        self._file: AbstractContextManager[BinaryIO] = files.write_atomic(self._path)
        self._sink = _HashingSink(self._file.__enter__())
        options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
        try:
            self._writer = pa.ipc.new_file(pa.PythonFile(self._sink, mode="w"), self._schema, options=options)
        except BaseException as error:
            self._file.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Add rows, in order."""
        for batch in rows.to_batches() if isinstance(rows, pa.Table) else [rows]:
            self._check(batch)
            if batch.num_rows:
                sizes = row_bytes(batch)
                self._pending.append(batch)
                self._pending_sizes.append(sizes)
                self._pending_rows += batch.num_rows
                self._pending_bytes += int(sizes.sum())
        while self._pending and (count := self._full_batch()):
            self._flush(count)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            try:
                while self._pending:
                    self._flush(self._full_batch() or self._pending_rows)
                self._writer.close()
            except BaseException as inner:
                self._file.__exit__(type(inner), inner, inner.__traceback__)
                raise
        self._file.__exit__(kind, error, trace)
        if error is None:
            name = self._path.replace("\\", "/").rpartition("/")[2]
            self._result = ShardInfo(name, self._rows, self._sink.bytes, self._sink.digest())

    @property
    def rows(self) -> int:
        """Rows taken so far."""
        return self._rows + self._pending_rows

    @property
    def result(self) -> ShardInfo:
        """The finished shard; RuntimeError before it is finished."""
        if self._result is None:
            raise RuntimeError(f"{self._path} is not finished: `result` is there after the `with` block")
        return self._result

    def _check(self, batch: pa.RecordBatch) -> None:
        if not batch.schema.equals(self._schema, check_metadata=False) and (
            difference := schema_difference(self._schema, batch.schema, strings_for_dictionaries=True)
        ):
            raise ShardError(f"{self._path}: rows do not fit the shard's schema: {difference}")
        for field, column in zip(self._schema, batch.columns, strict=True):
            if not field.nullable and column.null_count:
                raise ShardError(f"{self._path}: column {field.name!r} may not hold nulls, found one")
            if pa.types.is_list(field.type) and not field.type.value_field.nullable:
                items = column.flatten()
                if items.null_count:
                    raise ShardError(f"{self._path}: lists of column {field.name!r} may not hold nulls")

    def _full_batch(self) -> int:
        """Rows of the next record batch if enough are pending to know where it ends, else 0."""
        if self._pending_rows < self._max_rows and self._pending_bytes <= self._max_bytes:
            return 0
        sizes = np.concatenate(self._pending_sizes)
        fit = int(np.searchsorted(np.cumsum(sizes[: self._max_rows]), self._max_bytes, side="right"))
        if fit < min(self._pending_rows, self._max_rows):
            return max(fit, 1)
        return self._max_rows

    def _flush(self, count: int) -> None:
        taken: list[pa.RecordBatch] = []
        missing = count
        while missing:
            head, size = self._pending[0], min(missing, self._pending[0].num_rows)
            taken.append(head.slice(0, size))
            missing -= size
            self._pending_bytes -= int(self._pending_sizes[0][:size].sum())
            if size == head.num_rows:
                del self._pending[0], self._pending_sizes[0]
            else:
                self._pending[0], self._pending_sizes[0] = head.slice(size), self._pending_sizes[0][size:]
        self._pending_rows -= count
        self._rows += count
        columns = []
        for index, field in enumerate(self._schema):
            parts = [self._encode(field.name, batch.column(index)) for batch in taken]
            columns.append(canonical(parts))
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def _encode(self, name: str, column: pa.Array) -> pa.Array:
        return self._dictionaries[name].encode(column) if name in self._dictionaries else column


class _HashingSink:
    """Passes bytes on and hashes them; the least of a file object that Arrow writes to."""

    closed = False

    def __init__(self, sink: BinaryIO) -> None:
        self._sink, self._hash, self.bytes = sink, hashlib.sha256(), 0

    def write(self, data: bytes) -> int:
        self._sink.write(data)
        self._hash.update(data)
        self.bytes += len(data)
        return len(data)

    def tell(self) -> int:
        return self.bytes

    def flush(self) -> None:
        """The file below is flushed once, when it is whole."""

    def close(self) -> None:
        """Closing is for `write_atomic`, which syncs and renames."""

    def digest(self) -> str:
        return self._hash.hexdigest()


def open_shard(path: str, fields: Sequence[int] | None = None) -> pa.RecordBatchFileReader:
    """Reader of a shard; a local file is memory-mapped, so batches cost no memory of their own.

    `fields` are indices of the columns to read, for filesystems where the others cost something.

    Raises:
        FileNotFoundError: there is no such file.
        ShardError: not an Arrow IPC file, or only a part of one.
    """
    with whole_file(path):
        source = pa.PythonFile(files.open_read(path), mode="r") if files.is_uri(path) else pa.memory_map(path)
        options = pa.ipc.IpcReadOptions(included_fields=None if fields is None else list(fields))
        return pa.ipc.open_file(source, options=options)


@contextlib.contextmanager
def whole_file(path: str) -> Iterator[None]:
    """While a shard is opened: what Arrow finds wrong is a ShardError; a file that is not there stays that."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:  # an empty file cannot even be mapped
        raise ShardError(
            f"{path} is not a whole Arrow IPC file ({error}); it was cut short or is another kind of file"
        ) from error


def check_shard(path: str, sha256: str) -> None:
    """Raise ShardError unless the file's bytes have this hash (hex)."""
    if size_and_hash(path)[1] != sha256:
        raise ShardError(f"{path} was changed after it was written: its hash is not the one in its manifest")


def size_and_hash(path: str) -> tuple[int, str]:
    """Bytes of a file, and their SHA-256 in hex. Reads it once, at disk speed."""
    digest, size = hashlib.sha256(), 0
    with files.open_read(path) as file:
        while data := file.read(1 << 20):
            digest.update(data)
            size += len(data)
    return size, digest.hexdigest()


def read_rows(path: str, start: int, count: int) -> pa.Table:
    """`count` rows from row `start` (from 0) of a shard; fewer where the shard ends.

    Raises IndexError where `start` lies outside the shard.
    """
    if count < 0:
        raise ValueError(f"count must not be negative, found {count}")
    reader = open_shard(path)
    taken: list[pa.RecordBatch] = []
    total = 0
    for batch in read_batches(reader):
        low, high = max(start - total, 0), min(start + count - total, batch.num_rows)
        if low < high:
            taken.append(batch.slice(low, high - low))
        total += batch.num_rows
        if start >= 0 and start + count <= total:
            break
    if not 0 <= start < max(total, 1):
        raise IndexError(f"{path} has no row {start}: it holds {total:,} rows, counted from 0")
    return pa.Table.from_batches(taken, schema=reader.schema)


def read_batches(reader: pa.RecordBatchFileReader) -> Iterator[pa.RecordBatch]:
    """The record batches of a shard, one held at a time."""
    for index in range(reader.num_record_batches):
        yield reader.get_batch(index)
