"""Columns of strings as Arrow arrays: encoded as they come in, sorted, folded, taken apart.

Nothing here makes a Python object of a string. Arrays are `large_string`: their offsets are int64, so
that a column may hold more than two gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kg.errors import GraphError
from kg.match.fold import Folding

MAX_NUMBER = 2**31 - 1
"""Most strings of a kind, and most triples: numbers are int32."""
PENDING_BYTES = 32 * 2**20
SLICE_BYTES = 4 * 2**20


class Encoder:
    """Replaces the strings of a column by numbers in order of first appearance, part by part.

    Each part is encoded by itself at once. The distinct strings of the parts wait until they outweigh
    all distinct strings so far, and are then merged with them: every string is hashed a few times, and
    repeated ones never pile up.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._strings: pa.LargeStringArray = pa.array([], pa.large_string())
        self._codes: list[np.ndarray] = []
        self._pending: list[tuple[pa.LargeStringArray, np.ndarray]] = []
        self._pending_bytes = 0

    def add(self, part: pa.LargeStringArray) -> None:
        encoded = part.dictionary_encode()
        self._pending.append((encoded.dictionary, encoded.indices.to_numpy()))
        self._pending_bytes += encoded.dictionary.nbytes
        if self._pending_bytes > max(PENDING_BYTES, self._strings.nbytes):
            self._merge()

    def finish(self) -> tuple[pa.LargeStringArray, np.ndarray]:
        """All distinct strings, and int32 codes into them of all parts, one after another."""
        self._merge()
        codes = np.concatenate(self._codes) if self._codes else np.empty(0, np.int32)
        self._codes = []
        return self._strings, codes

    def _merge(self) -> None:
        if not any(len(strings) for strings, _ in self._pending):
            self._pending = []
            return
        chunks = [self._strings, *(strings for strings, _ in self._pending)]
        encoded = pa.chunked_array(chunks, pa.large_string()).dictionary_encode().chunks
        at = len(self._strings)
        self._strings = encoded[-1].dictionary  # those known before keep their numbers
        if len(self._strings) > MAX_NUMBER:
            raise GraphError(f"more than {MAX_NUMBER:,} different {self._what}; compile several graphs")
        new = np.concatenate([chunk.indices.to_numpy() for chunk in encoded])  # empty chunks are left out
        for strings, codes in self._pending:
            self._codes.append(new[at : at + len(strings)].astype(np.int32, copy=False)[codes])
            at += len(strings)
        self._pending, self._pending_bytes = [], 0
        del chunks, encoded
        pa.default_memory_pool().release_unused()  # what was merged is as large as all there is


def ranks(strings: pa.LargeStringArray) -> tuple[np.ndarray, np.ndarray]:
    """(order, rank): `strings[order]` ascends by code point; `rank` int32 is each one's place in it."""
    order = pc.sort_indices(strings).to_numpy()  # UTF-8 sorts as code points do
    rank: np.ndarray = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return order, rank


def take(strings: pa.LargeStringArray, indices: np.ndarray) -> pa.LargeStringArray:
    return strings.take(pa.array(indices))


def lengths(strings: pa.LargeStringArray) -> np.ndarray:
    """int64: characters of each."""
    return pc.utf8_length(strings).to_numpy(zero_copy_only=False)


def byte_offsets(strings: pa.LargeStringArray) -> np.ndarray:
    """int64[n + 1]: where each string lies in `utf8`."""
    found = np.frombuffer(strings.buffers()[1], np.int64)[strings.offset : strings.offset + len(strings) + 1]
    return found - found[0]


def utf8(strings: pa.LargeStringArray) -> np.ndarray:
    """uint8: the UTF-8 of all strings, one after another; no copy."""
    data = strings.buffers()[2]
    if data is None or not len(strings):
        return np.empty(0, np.uint8)
    found = np.frombuffer(strings.buffers()[1], np.int64)
    return np.frombuffer(data, np.uint8)[found[strings.offset] : found[strings.offset + len(strings)]]


def code_points(strings: pa.LargeStringArray) -> np.ndarray:
    """uint32: the code points of all strings, one after another."""
    parts = [
        np.frombuffer(utf8(part).tobytes().decode().encode("utf-32-le"), np.uint32)
        for part in _slices(strings)
    ]
    return np.concatenate(parts) if parts else np.empty(0, np.uint32)


def fold(strings: pa.LargeStringArray, folding: Folding) -> pa.ChunkedArray:
    """The strings folded. Stretches that folding does not change are not copied."""
    parts = [_fold(part, folding) for part in _slices(strings)] if folding.names else [strings]
    return pa.chunked_array(parts, pa.large_string())


def _fold(strings: pa.LargeStringArray, folding: Folding) -> pa.LargeStringArray:
    codes = code_points(strings)
    folded, origin = folding.fold_codes(codes)
    if origin is None and np.array_equal(folded, codes):
        return strings
    ends = np.cumsum(lengths(strings))
    if origin is not None:
        ends = np.searchsorted(origin[:-1], ends)  # folded code points that come from before the end
    widths = 1 + (folded > 0x7F).astype(np.int64) + (folded > 0x7FF) + (folded > 0xFFFF)
    total = np.concatenate(([0], np.cumsum(widths)))
    offsets = np.concatenate(([0], total[ends]))
    data = folded.tobytes().decode("utf-32-le").encode()
    return pa.LargeStringArray.from_buffers(len(strings), pa.py_buffer(offsets), pa.py_buffer(data))


def _slices(strings: pa.LargeStringArray) -> Iterator[pa.LargeStringArray]:
    """Stretches of about `SLICE_BYTES`, so that what is made of them stays small."""
    offsets = byte_offsets(strings)
    start = 0
    while start < len(strings):
        stop = int(np.searchsorted(offsets, offsets[start] + SLICE_BYTES, side="right")) - 1
        stop = min(max(stop, start + 1), len(strings))
        yield strings.slice(start, stop - start)
        start = stop
