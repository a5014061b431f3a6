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

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora import files

MAX_BATCH_ROWS = 4096
MAX_BATCH_BYTES = 64 * 2**20
"""Largest record batch, unless a single row is larger: what a reader holds at once."""


class ShardError(ValueError):
    """A shard cannot be read, or rows do not fit it; the message names the file or the column."""


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
        self._dictionaries = {f.name: _GrowingDictionary(f) for f in schema if _dictionary_of(f.type)}
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
                sizes = _row_bytes(batch)
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
            columns.append(_canonical(parts))
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


class _GrowingDictionary:
    """One dictionary per column and shard, in the order in which values are first seen."""

    def __init__(self, field: pa.Field) -> None:
        self._name, self._type = field.name, _dictionary_of(field.type)
        self._codes: dict[str, int] = {}
        self._limit = 2 ** (self._type.index_type.bit_width - 1)

    def encode(self, column: pa.Array) -> pa.Array:
        """`column` (list of strings or of dictionary strings) with this dictionary's codes."""
        items = column.flatten()
        if not pa.types.is_dictionary(items.type):
            items = items.dictionary_encode()
        codes = pc.fill_null(items.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        values = items.dictionary.to_pylist()
        used, first = np.unique(codes, return_index=True)
        table = np.full(len(values) + 1, -1, np.int64)  # the last entry is a null's: code -1
        for code in used[np.argsort(first)].tolist():
            if code >= 0 and values[code] is not None:
                table[code] = self._codes.setdefault(values[code], len(self._codes))
        if len(self._codes) > self._limit:
            raise ShardError(
                f"column {self._name!r} has more than {self._limit:,} different values, "
                f"the most that its {self._type.index_type} indices can tell apart"
            )
        new = table[codes]
        indices = pa.array(new, self._type.index_type, mask=new < 0 if (new < 0).any() else None)
        dictionary = pa.array(list(self._codes), self._type.value_type)
        encoded = pa.DictionaryArray.from_arrays(indices, dictionary)
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        mask = column.is_null() if column.null_count else None
        return pa.ListArray.from_arrays(
            pa.array(offsets, pa.int32()), encoded, type=pa.list_(self._type), mask=mask
        )


def open_shard(path: str, fields: Sequence[int] | None = None) -> pa.RecordBatchFileReader:
    """Reader of a shard; a local file is memory-mapped, so batches cost no memory of their own.

    `fields` are indices of the columns to read, for filesystems where the others cost something.

    Raises:
        FileNotFoundError: there is no such file.
        ShardError: not an Arrow IPC file, or only a part of one.
    """
    try:
        source = pa.PythonFile(files.open_read(path), mode="r") if files.is_uri(path) else pa.memory_map(path)
        options = pa.ipc.IpcReadOptions(included_fields=None if fields is None else list(fields))
        return pa.ipc.open_file(source, options=options)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:  # an empty file cannot even be mapped
        raise ShardError(
            f"{path} is not a whole Arrow IPC file ({error}); it was cut short or is another kind of file"
        ) from error


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


def schema_difference(
    expected: pa.Schema, found: pa.Schema, *, strings_for_dictionaries: bool = False
) -> str | None:
    """Why `found` is not `expected`, naming the first field that differs; None where they agree.

    Metadata does not count. `strings_for_dictionaries` lets a list of strings, however indexed,
    stand for a list of dictionary strings.
    """
    for name in expected.names:
        if found.names.count(name) != 1:
            what = "missing" if name not in found.names else "there more than once"
            return f"column {name!r} is {what}; expected the columns {', '.join(expected.names)}"
    if extra := [name for name in found.names if name not in expected.names]:
        return f"unexpected column {extra[0]!r}; expected the columns {', '.join(expected.names)}"
    if found.names != expected.names:
        return f"columns in the order {', '.join(found.names)}; expected {', '.join(expected.names)}"
    for want, have in zip(expected, found, strict=True):
        same = want.type == have.type or (strings_for_dictionaries and _stands_for(want.type, have.type))
        if not same or want.nullable != have.nullable:
            return f"column {want.name!r}: expected {_spell(want)}, found {_spell(have)}"
    return None


def _spell(field: pa.Field) -> str:
    return f"{field.type}{'' if field.nullable else ' not null'}"


def _dictionary_of(kind: pa.DataType) -> Any:
    """The dictionary type inside a list type, or None."""
    return kind.value_type if pa.types.is_list(kind) and pa.types.is_dictionary(kind.value_type) else None


def _stands_for(want: pa.DataType, have: pa.DataType) -> bool:
    wanted = _dictionary_of(want)
    if wanted is None or not pa.types.is_list(have):
        return False
    inner = have.value_type
    return (inner.value_type if pa.types.is_dictionary(inner) else inner) == wanted.value_type


def _canonical(parts: list[pa.Array]) -> pa.Array:
    """The parts as one array in buffers of its own.

    A slice shares its buffers, and Arrow pads what it writes with whatever lies behind the slice;
    nor does it clear what lies under nulls. A copy has neither.
    """
    column = pa.concat_arrays(parts)
    if column.null_count:
        column = pa.concat_arrays([column.take(pa.array(np.arange(len(column))))])
    return column


def _row_bytes(batch: pa.RecordBatch) -> np.ndarray:
    """Size of each row's values in bytes, int64[R]; only what varies, plus a constant a column."""
    sizes = np.full(batch.num_rows, 8 * batch.num_columns, np.int64)
    for column in batch.columns:
        if pa.types.is_list(column.type):
            lengths = pc.list_value_length(column)
            item = column.type.value_type
            width = item.bit_width // 8 if pa.types.is_primitive(item) else 8
        elif pa.types.is_string(column.type):
            lengths, width = pc.binary_length(column), 1
        else:
            continue
        lengths = pc.fill_null(lengths, 0) if lengths.null_count else lengths
        sizes += width * lengths.to_numpy(zero_copy_only=False)
    return sizes
