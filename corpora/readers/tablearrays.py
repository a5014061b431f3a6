"""Arrow arrays of a table's columns: made safe to use, brought to one kind, measured and judged as a whole."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora.readers.fields import MAX_FLOAT32
from corpora.readers.tablecolumns import TableColumn, is_list, is_text


def checked(column: TableColumn, batch: pa.RecordBatch) -> pa.Array:
    """The column's values, safe to use; as bytes where not all are UTF-8. Raises ArrowInvalid if they are damaged."""
    batch.column(batch.schema.get_field_index(column.top)).validate()
    array = column.of(batch)
    try:
        array.validate(full=True)
        return array
    except pa.ArrowInvalid:
        whole = array.cast(_as_bytes(array.type))
        whole.validate(full=True)
        return whole


def _as_bytes(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.large_binary()
    if pa.types.is_string_view(kind):
        return pa.binary_view()
    if is_list(kind) and not pa.types.is_fixed_size_list(kind):
        item = _as_bytes(kind.value_type)
        return pa.large_list(item) if pa.types.is_large_list(kind) else pa.list_(item)
    return pa.binary() if pa.types.is_string(kind) else kind


def strings(array: pa.Array) -> pa.Array:
    """The same as string, large_string or a dictionary of them; ArrowInvalid where bytes are no UTF-8."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        if pa.types.is_string(kind.value_type) or pa.types.is_large_string(kind.value_type):
            return array
        return pa.DictionaryArray.from_arrays(array.indices, strings(array.dictionary))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return array
    return array.cast(pa.string() if pa.types.is_binary(kind) else pa.large_string())


def decoded(array: pa.Array) -> pa.Array:
    """As strings."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array if pa.types.is_string(array.type) else array.cast(pa.string())


def each(array: pa.Array, function: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """The function of every value; once for each entry of a dictionary."""
    if pa.types.is_dictionary(array.type):
        return function(array.dictionary).take(array.indices)
    return function(array)


def is_blank(array: pa.Array) -> pa.Array:
    return pc.or_(pc.equal(pc.binary_length(array), 0), pc.utf8_is_space(array))


def truth(array: pa.Array, *, null: bool) -> np.ndarray:
    return pc.fill_null(array, null).to_numpy(zero_copy_only=False)


def lengths(array: pa.Array) -> np.ndarray:
    """int64 bytes of each value; of lists, of what they hold; 8 for anything else, 0 for null."""
    kind = array.type
    if is_text(kind):
        if pa.types.is_string_view(kind):
            array = array.cast(pa.large_string())
        elif pa.types.is_binary_view(kind):
            array = array.cast(pa.large_binary())
        return pc.fill_null(each(array, pc.binary_length), 0).cast(pa.int64()).to_numpy(zero_copy_only=False)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        offsets = array.offsets.to_numpy(zero_copy_only=False)
        own = array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
        items = np.concatenate(([0], np.cumsum(lengths(own) + 8)))
        return items[offsets[1:] - offsets[0]] - items[offsets[:-1] - offsets[0]]
    if is_list(kind):
        return lengths(array.cast(pa.large_list(kind.value_type)))
    return np.full(len(array), 8, np.int64)


def scores(array: pa.Array) -> tuple[pa.Array, np.ndarray]:
    wide = array.cast(pa.float64(), safe=False)
    good = truth(pc.less_equal(pc.abs(wide), MAX_FLOAT32), null=True)
    return wide.cast(pa.float32(), safe=False), good
