"""Arrays of one length in a file, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corpora import files


def write_columns(path: str, **columns: NDArray[Any] | pa.Array) -> None:
    """Write arrays by their names."""
    batch = pa.RecordBatch.from_arrays([pa.array(c) for c in columns.values()], names=list(columns))
    with (
        files.write_atomic(path) as sink,
        pa.ipc.new_file(pa.PythonFile(sink, mode="w"), batch.schema) as writer,
    ):
        writer.write(batch)


def read_columns(path: str) -> pa.RecordBatch:
    """The arrays; local files are memory-mapped."""
    if files.is_uri(path):
        reader = pa.ipc.open_file(pa.py_buffer(files.read_bytes(path)))
    else:
        reader = pa.ipc.open_file(pa.memory_map(path))
    return reader.get_batch(0)


def numpy_of(column: pa.Array) -> NDArray[Any]:
    """An array of numbers without nulls, not copied."""
    return np.asarray(column.to_numpy())
