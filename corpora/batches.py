"""Record batches on their way into a shard: do they fit, and what makes equal rows equal bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class ShardError(ValueError):
    """A shard cannot be read, or rows do not fit it; the message names the file or the column."""


class GrowingDictionary:
    """One dictionary per column and shard, in the order in which values are first seen."""

    def __init__(self, field: pa.Field) -> None:
        self._name, self._type = field.name, dictionary_of(field.type)
        # Arrow takes no delta to an empty dictionary, and a first batch may hold only empty lists:
        # the empty string is always there.
        self._codes: dict[str, int] = {"": 0}
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


def dictionary_of(kind: pa.DataType) -> Any:
    """The dictionary type inside a list type, or None."""
    return kind.value_type if pa.types.is_list(kind) and pa.types.is_dictionary(kind.value_type) else None


def _stands_for(want: pa.DataType, have: pa.DataType) -> bool:
    wanted = dictionary_of(want)
    if wanted is None or not pa.types.is_list(have):
        return False
    inner = have.value_type
    return (inner.value_type if pa.types.is_dictionary(inner) else inner) == wanted.value_type


def canonical(parts: list[pa.Array]) -> pa.Array:
    """The parts as one array in buffers of its own.

    A slice shares its buffers, and Arrow pads what it writes with whatever lies behind the slice;
    nor does it clear what lies under nulls. A copy has neither.
    """
    column = pa.concat_arrays(parts)
    if column.null_count:
        column = pa.concat_arrays([column.take(pa.array(np.arange(len(column))))])
    return column


def row_bytes(batch: pa.RecordBatch) -> np.ndarray:
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
