"""Files of tables: Parquet, and Arrow IPC files and streams, as groups of rows that lie at some byte.

A group (a row group of Parquet, a record batch of Arrow) belongs to the range of bytes that holds its first byte; of
Parquet, the byte where it would begin if its groups lay end to end in proportion to their sizes. The row numbers
of a group follow from what the file says about those before it, so a range can be read alone. Only the columns
asked for are read; local Arrow files are memory-mapped, and Parquet is read page by page.

A stream has no table of contents: a range of it passes over the batches before. That costs next to nothing (they
are mapped, not read) unless they are compressed, which streams on disk hardly ever are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from corpora import files
from corpora.readers import ipc
from corpora.readers.ipc import Batch

BATCH_BYTES = 4 << 20
"""Decompressed bytes of Parquet that are read at a time, by the file's own word."""
MAX_BATCH_ROWS = 16_384
_BUFFER = 1 << 20


class CorruptTableError(files.CorruptFileError):
    """A table that ends early or holds damaged data; `byte` is the number of whole rows before the damage."""

    def __init__(self, path: str, rows: int, cause: str) -> None:
        super().__init__(path, rows, cause)
        where = f"after {rows:,} rows: " if rows else ""
        self.args = (
            f"{path} is truncated or damaged: {where}{cause}. Fetch or make the file again; "
            "nothing of it should be trusted.",
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return CorruptTableError, (self.path, self.byte, self.cause)


class Rows(NamedTuple):
    """Successive rows of a file; `row` is the number of the first of them, from 0."""

    row: int
    batch: pa.RecordBatch


class TableFile:
    """An open table: its schema and groups, and the rows of some of them. Use as a context manager.

    Groups of an Arrow file are looked for up to byte `stop` alone.

    Raises:
        CorruptTableError: the file ends early or is damaged.
        ValueError: it is another kind of file.
        OSError: it cannot be read.
    """

    def __init__(self, path: str, name: str, *, parquet: bool, stop: int | None = None) -> None:
        if files.is_compressed(path):
            raise ValueError(f"{name} is compressed as a whole: unpack it; tables are compressed inside")
        self._path, self._name, self._parquet = path, name, parquet
        self._stack = contextlib.ExitStack()
        with contextlib.ExitStack() as opening, self.damage(0):
            opening.callback(self._stack.close)
            _check_kind(path, name, parquet)
            if parquet:
                self._open_parquet()
            else:
                self._open_arrow(stop)
            opening.pop_all()

    def __enter__(self) -> TableFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @contextlib.contextmanager
    def damage(self, rows: int) -> Iterator[None]:
        """What Arrow says of bad bytes, with the file's name; errors of the disk stay what they are."""
        try:
            yield
        except ipc.IpcError as error:
            raise CorruptTableError(self._name, error.rows, error.cause) from None
        except (pa.ArrowException, UnicodeDecodeError) as error:  # names of columns need not be UTF-8
            raise CorruptTableError(self._name, rows, _first_line(error)) from error
        except OSError as error:
            if error.errno is not None or isinstance(error, FileNotFoundError):
                raise
            raise CorruptTableError(self._name, rows, _first_line(error)) from error

    # --- opening --------------------------------------------------------------------------

    def _open_parquet(self) -> None:
        file = self._stack.enter_context(files.open_read(self._path))
        # Without pre-buffering a row group is not held whole, however large its writer made it.
        self._file = self._stack.enter_context(
            pq.ParquetFile(file, buffer_size=_BUFFER, pre_buffer=False, page_checksum_verification=True)
        )
        self.schema: pa.Schema = self._file.schema_arrow
        metadata = self._file.metadata
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        # A group's place is reckoned from the sizes of those before it. Asking for the offset of its first page would
        # end the process, not raise an error, where the footer is damaged.
        sizes = [max(group.total_byte_size, 1) for group in groups]
        size, total, before, row = file_size(self._path), max(sum(sizes), 1), 0, 0
        self.groups: list[Batch] = []
        for index, group in enumerate(groups):
            if group.num_rows < 0:
                raise CorruptTableError(self._name, row, f"row group {index} has {group.num_rows} rows")
            self.groups.append(Batch(size * before // total, row, group.num_rows))
            row, before = row + group.num_rows, before + sizes[index]

    def _open_arrow(self, stop: int | None) -> None:
        with files.open_read(self._path) as file:
            messages = ipc.scan(file, file_size(self._path), stop)
        self._is_file, self.groups = messages.is_file, messages.batches
        with self._source() as source:
            if not self._is_file:
                self.schema = pa.ipc.open_stream(source).schema
                return
            reader = pa.ipc.open_file(source)
            self.schema = reader.schema
            found, listed = len(self.groups), reader.num_record_batches
            if found > listed or (stop is None and found < listed):
                raise ipc.IpcError(f"its footer lists {listed:,} record batches, but it has {found:,}")

    @contextlib.contextmanager
    def _source(self) -> Iterator[Any]:
        with contextlib.ExitStack() as stack:
            if files.is_uri(self._path):
                yield pa.PythonFile(stack.enter_context(files.open_read(self._path)), mode="r")
            else:
                yield stack.enter_context(pa.memory_map(self._path))

    # --- reading --------------------------------------------------------------------------

    def within(self, start: int, stop: int | None) -> list[int]:
        """Numbers of the groups whose first byte is in [start, stop)."""
        return [i for i, g in enumerate(self.groups) if g.start >= start and (stop is None or g.start < stop)]

    def read(self, groups: Sequence[int], columns: Sequence[str]) -> Iterator[Rows]:
        """Rows of successive groups, the top-level columns of these names alone.

        Parquet takes dotted names of nested columns, too: of the struct only that much is read.
        """
        if groups:
            yield from (self._read_parquet if self._parquet else self._read_arrow)(groups, columns)

    def _read_parquet(self, groups: Sequence[int], columns: Sequence[str]) -> Iterator[Rows]:
        for index in groups:
            row, expected = self.groups[index].row, self.groups[index].rows
            stop, group = row + expected, self._file.metadata.row_group(index)
            each = max(group.total_byte_size // max(expected, 1), 1)
            size = min(max(BATCH_BYTES // each, 1), MAX_BATCH_ROWS)
            batches = self._file.iter_batches(
                size, row_groups=[index], columns=list(columns), use_threads=False
            )
            while True:
                with self.damage(row):
                    batch = next(batches, None)
                if batch is None:
                    break
                yield Rows(row, batch)
                row += batch.num_rows
            if row != stop:
                raise CorruptTableError(
                    self._name,
                    row,
                    f"row group {index} should have {expected:,} rows, not {row - stop + expected:,}",
                )

    def _read_arrow(self, groups: Sequence[int], columns: Sequence[str]) -> Iterator[Rows]:
        wanted = set(groups)
        numbers = sorted(self.schema.get_field_index(name) for name in columns)
        options = pa.ipc.IpcReadOptions(included_fields=numbers)
        with self._source() as source:
            with self.damage(0):
                reader = (pa.ipc.open_file if self._is_file else pa.ipc.open_stream)(source, options=options)
            for index, group in enumerate(self.groups[: groups[-1] + 1]):
                if self._is_file and index not in wanted:
                    continue
                with self.damage(group.row):
                    try:
                        batch = reader.get_batch(index) if self._is_file else reader.read_next_batch()
                    except StopIteration:
                        raise ipc.IpcError(f"record batch {index} cannot be found", group.row) from None
                    if batch.num_rows != group.rows:
                        raise ipc.IpcError(f"record batch {index} is not where the footer says", group.row)
                if index in wanted:
                    yield Rows(group.row, batch)


def file_size(path: str) -> int:
    """The file's size in bytes."""
    (info,) = files.expand(path)
    return info.size


def _check_kind(path: str, name: str, parquet: bool) -> None:
    with files.open_read(path) as file:
        head = file.read(8)
    if not head:
        raise CorruptTableError(name, 0, "the file is empty")
    if parquet and head.startswith(ipc.MAGIC):
        raise ValueError(f"{name} is an Arrow file, not Parquet: use `format: arrow`")
    if not parquet and head.startswith(b"PAR1"):
        raise ValueError(f"{name} is a Parquet file, not Arrow: use `format: parquet`")
    if parquet and head.startswith(b"PARE"):
        raise ValueError(f"{name} is an encrypted Parquet file, which cannot be read")
    if not parquet and head.startswith(b"FEA1"):
        raise ValueError(f"{name} is of Feather's first version; write it again as Arrow or Parquet")


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")[:500]
