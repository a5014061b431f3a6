"""Slices of many texts as Arrow strings, without a Python string each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from pipelines.ragged import Ints, bounds, ranges

_STRIDE = 1 << 17
"""Slices cut at a time: a number a byte is held of these only."""


def slices(texts: Sequence[str], offsets: Ints, starts: Ints, stops: Ints) -> pa.ChunkedArray:
    """`texts[i][starts[k]:stops[k]]` for every k of text i, `large_string`[K].

    Args:
        offsets: int64[n+1], text i has slices `offsets[i]:offsets[i + 1]`.
        starts, stops: int64[K], characters, within the text.
    """
    chars = bounds(np.fromiter(map(len, texts), np.int64, len(texts)))
    data = np.frombuffer("".join(texts).encode(), np.uint8)
    base = np.repeat(chars[:-1], np.diff(offsets))
    begins, ends = base + starts, base + stops
    if len(data) != chars[-1]:  # not ASCII: where each character begins
        place = np.append(np.flatnonzero((data & 0xC0) != 0x80), len(data))
        begins, ends = place.take(begins), place.take(ends)
    return pa.chunked_array(list(_cut(data, begins, ends)), pa.large_string())


def _cut(data: np.ndarray, begins: Ints, ends: Ints) -> Iterator[pa.Array]:
    for low in range(0, len(begins), _STRIDE):
        begin = begins[low : low + _STRIDE]
        sizes = ends[low : low + _STRIDE] - begin
        body = data.take(ranges(begin, sizes))
        yield pa.LargeStringArray.from_buffers(len(begin), pa.py_buffer(bounds(sizes)), pa.py_buffer(body))
