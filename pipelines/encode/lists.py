"""List columns as flat values and offsets, and the way from them to Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.ragged import Ints

List = tuple[NDArray[Any], Ints]
"""Values and offsets [R+1] of a list column."""


def record_batch(schema: pa.Schema, columns: Mapping[str, pa.Array | Sequence[Any] | List]) -> pa.RecordBatch:
    """Columns by name to a record batch of `schema`; extra columns are left out."""
    arrays = []
    for item in schema:
        column = columns[item.name]
        if isinstance(column, tuple):
            values, offsets = column
            column = list_array(values, offsets, item.type)
        elif not isinstance(column, pa.Array):
            column = pa.array(column, item.type)
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def list_array(values: NDArray[Any] | pa.Array, offsets: Ints, kind: pa.ListType) -> pa.ListArray:
    """A list column of type `kind`."""
    flat = values if isinstance(values, pa.Array) else pa.array(np.ascontiguousarray(values), kind.value_type)
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), flat, type=kind)
