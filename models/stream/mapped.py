"""One shard, mapped into memory, and its columns as addresses.

A batch of a shuffled epoch takes its rows from hundreds of record batches, and a call into Arrow or numpy for
each would cost more than the rows. So the process's memory is seen as one array: a row of a mapped column is
a place in it, and one call collects rows of all columns from any number of shards. It is safe because every address
is checked to lie within a mapped file when the shard is opened, and every row's bounds whenever they are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corpora.ragged import Ints, bounds, ranges
from corpora.schema import IGNORED_LABEL
from corpora.shards import ShardError, whole_file

_ALIGNMENT = 8
"""Arrow aligns buffers to 8 bytes at least, and the system maps files on whole pages."""
_END = 2**47
"""No address of a process is above it."""
_OCTET = np.dtype(np.uint8)
_OFFSET = np.dtype(np.int32)


class _Memory:
    """All addresses a process can have, from the first aligned one on, as items of one type."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        size = (_END - _ALIGNMENT) // dtype.itemsize
        self.__array_interface__ = {
            "data": (_ALIGNMENT, True),
            "shape": (size,),
            "typestr": dtype.str,
            "version": 3,
        }


_memory: dict[np.dtype[Any], NDArray[Any]] = {}


def _read(dtype: np.dtype[Any], places: Ints) -> NDArray[Any]:
    if dtype not in _memory:
        _memory[dtype] = np.asarray(_Memory(dtype))
    return _memory[dtype].take(places)


def _place(dtype: np.dtype[Any], addresses: Ints) -> Ints:
    """Index in the array of all memory of the item at each address."""
    return (addresses - _ALIGNMENT) // dtype.itemsize


def _bits(addresses: Ints, items: Ints) -> NDArray[np.bool_]:
    """Bit `items` of the bitmaps at `addresses`."""
    octets = _read(_OCTET, _place(_OCTET, addresses) + (items >> 3))
    return (octets >> (items & 7).astype(np.uint8) & 1).astype(bool)


@dataclass(frozen=True)
class Kind:
    """How a column lies in memory: a list or a scalar, of numbers or of bits; or text, which Arrow handles."""

    dtype: np.dtype[Any]
    is_list: bool = False
    is_bits: bool = False
    is_text: bool = False

    @classmethod
    def of(cls, kind: pa.DataType) -> Kind:
        """Of an Arrow type of the contract."""
        item = kind.value_type if pa.types.is_list(kind) else kind
        if pa.types.is_string(item):
            return cls(np.dtype(object), is_text=True)
        # Arrow's own table of types needs pandas.
        dtype = pa.nulls(0, item).to_numpy(zero_copy_only=False).dtype
        return cls(dtype, pa.types.is_list(kind), pa.types.is_boolean(item))


class Mapped:
    """The columns of one shard file, mapped; closing is dropping it.

    Attributes:
        schema: of the columns read.
        rows: rows of the file.
        batches: its record batches, none of them empty.
        starts: int64[b], first row of each.
        addresses: of every column that is not text int64[3, b]: where its offsets begin (of a scalar: its
            validity bitmap, 0 where nothing is null), where its values begin, and how many values there are.

    Raises:
        FileNotFoundError: there is no such file.
        ShardError: not a whole Arrow IPC file, compressed, or with nulls within lists; the message says which.
    """

    def __init__(self, path: str, schema: pa.Schema | None = None) -> None:
        """`schema` names the columns to read, and their types as they must be; without it none is read."""
        self.path, self.schema = path, schema or pa.schema([])
        with whole_file(path):
            whole = pa.memory_map(path).read_buffer()
            # Arrow's own selection of fields (`included_fields`) copies what it reads: all are mapped, few kept.
            reader = pa.ipc.open_file(pa.BufferReader(whole))
            self.file_schema: pa.Schema = reader.schema
            every = [reader.get_batch(index) for index in range(reader.num_record_batches)]
            self.batches = [batch.select(self.schema.names) for batch in every if batch.num_rows]
            for batch in self.batches:
                batch.validate()
        ends = np.cumsum([0, *(batch.num_rows for batch in self.batches)], dtype=np.int64)
        self.rows, self.starts = int(ends[-1]), ends[:-1]
        self._low, self._high = whole.address, whole.address + whole.size
        self.addresses = {}
        self._checked_texts: set[tuple[str, int]] = set()
        for field in self.schema:
            kind = Kind.of(field.type)
            if not kind.is_text:
                table = [
                    self._addresses(batch.column(field.name), field.name, kind) for batch in self.batches
                ]
                self.addresses[field.name] = np.array(table, dtype=np.int64).reshape(-1, 3).T

    def _addresses(self, column: pa.Array, name: str, kind: Kind) -> tuple[int, int, int]:
        buffers = column.buffers()
        for buffer in buffers:
            if (
                buffer is not None
                and buffer.size
                and not (self._low <= buffer.address and buffer.address + buffer.size <= self._high)
            ):
                raise ShardError(f"{self.path} is compressed, and cannot be mapped; write it uncompressed")
            if buffer is not None and buffer.address % _ALIGNMENT:
                raise ShardError(f"{self.path} is not aligned to {_ALIGNMENT} bytes, as Arrow files must be")
        if not kind.is_list:
            if kind.is_bits and column.null_count:
                raise ShardError(f"{self.path}: column {name!r} may not hold nulls, found one")
            validity = buffers[0].address if column.null_count and buffers[0] is not None else 0
            return validity, buffers[1].address, len(column)
        items = column.values
        if column.null_count or items.null_count:
            raise ShardError(f"{self.path}: lists of column {name!r} may not be or hold nulls")
        return buffers[1].address, buffers[3].address if buffers[3] is not None else self._low, len(items)

    def slice(self, name: str, kind: Kind, batch: int, start: int, stop: int) -> tuple[Any, Ints]:
        """Values and offsets (from 0) of rows start..stop-1 of a list column of a record batch, where they lie."""
        column = self.batches[batch].column(name)
        buffers = column.buffers()
        offsets = np.frombuffer(buffers[1], np.int32, stop + 1 - start, start * 4).astype(np.int64)
        if offsets[0] < 0 or offsets[-1] > len(column.values) or (np.diff(offsets) < 0).any():
            raise damaged(self.path, name)
        low, high = int(offsets[0]), int(offsets[-1])
        if high == low:
            values = np.zeros(0, kind.dtype)
        elif kind.is_bits:
            packed = np.frombuffer(buffers[3], np.uint8)
            values = np.unpackbits(packed[low // 8 : -(-high // 8)], bitorder="little")[low % 8 :][
                : high - low
            ]
            values = values.astype(bool)
        else:
            values = np.frombuffer(buffers[3], kind.dtype, high - low, low * kind.dtype.itemsize)
        return values, offsets - low

    def text(self, name: str, batch: int, rows: Ints) -> pa.Array:
        """Rows of a text column of a record batch."""
        column = self.batches[batch].column(name)
        if (name, batch) not in self._checked_texts:
            try:
                column.validate(full=True)
            except pa.ArrowException as error:
                raise damaged(self.path, name) from error
            self._checked_texts.add((name, batch))
        return column.take(pa.array(rows))


def damaged(path: str, name: str) -> ShardError:
    """The error of a column whose offsets point outside of it."""
    return ShardError(
        f"{path} is damaged: column {name!r} has offsets outside its values; make the file again"
    )


def list_bounds(tables: Ints, batch: Ints, row: Ints) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """First item int64[c, n] and length int64[c, n] of lists, and which of them lie where they should bool[c, n].

    `tables` int64[c, 3, b] are the `addresses` of c columns, `batch` int64[n] is the record batch of each row and
    `row` int64[n] its place there.
    """
    places = _place(_OFFSET, tables[:, 0])[:, batch] + row
    starts = _read(_OFFSET, places).astype(np.int64)
    lengths = _read(_OFFSET, places + 1) - starts
    return starts, lengths, (starts >= 0) & (lengths >= 0) & (starts + lengths <= tables[:, 2][:, batch])


def gather_lists(
    kinds: Sequence[Kind], tables: Ints, batch: Ints, starts: Ints, lengths: Ints
) -> list[NDArray[Any]]:
    """Of every column the lists' items end to end, one copy, read-only.

    `starts` and `lengths` as `list_bounds` found them right, the other arguments as it was given them.
    """
    firsts = tables[:, 1][:, batch]
    made: list[NDArray[Any]] = [np.zeros(0, kind.dtype) for kind in kinds]
    # Wide items before narrow ones: then each column begins where its items may.
    whole = sorted(
        (c for c, kind in enumerate(kinds) if not kind.is_bits), key=lambda c: -kinds[c].dtype.itemsize
    )
    widths = np.array([kinds[c].dtype.itemsize for c in whole], np.int64)[:, None]
    sizes = lengths[whole] * widths
    octets = _copied((firsts[whole] + starts[whole] * widths).ravel(), sizes.ravel())
    ends = bounds(sizes.sum(1))
    for place, c in enumerate(whole):
        made[c] = octets[ends[place] : ends[place + 1]].view(kinds[c].dtype)
    for c, kind in enumerate(kinds):
        if kind.is_bits:
            made[c] = _bits(np.repeat(firsts[c], lengths[c]), ranges(starts[c], lengths[c]))
    return made


def _copied(addresses: Ints, sizes: Ints) -> NDArray[np.uint8]:
    """The octets at these addresses, end to end: `sizes` says how many at each.

    An index for each item would cost several times what copying the items costs. So each piece of memory is an
    element of an Arrow array of byte strings, whose elements `take` copies whole; every other element is what lies
    between two pieces, and is never touched.
    """
    count, total = len(sizes), int(sizes.sum())
    if not total:
        return np.zeros(0, np.uint8)
    cuts = np.zeros(2 * count + 2, np.int64)
    cuts[1:-1:2] = addresses - _ALIGNMENT
    cuts[2:-1:2] = cuts[1:-1:2] + sizes
    cuts[-1] = -(-total // count) * (
        2 * count + 1
    )  # Arrow reserves room for elements of the mean size it sees
    memory = pa.foreign_buffer(_ALIGNMENT, _END - _ALIGNMENT)
    pieces = pa.Array.from_buffers(pa.large_binary(), 2 * count + 1, [None, pa.py_buffer(cuts), memory])
    taken = pieces.take(pa.array(np.arange(1, 2 * count, 2)))
    return np.frombuffer(taken.buffers()[2], np.uint8, total)


def gather_scalars(kind: Kind, table: Ints, batch: Ints, row: Ints) -> NDArray[Any]:
    """A scalar column's values; nulls are -100 (NaN in floats)."""
    values = table[1][batch]
    if kind.is_bits:
        return _bits(values, row)
    values = _read(kind.dtype, _place(kind.dtype, values) + row)
    validity = table[0][batch]
    if (some := np.flatnonzero(validity)).size:
        null = some[~_bits(validity[some], row[some])]
        values[null] = np.nan if kind.dtype.kind == "f" else IGNORED_LABEL
    return values
