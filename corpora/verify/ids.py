"""Uniqueness of ids in bounded memory.

Every id becomes 64 bits of BLAKE2b; equal hashes are confirmed by comparing the ids themselves.
Beyond `PER_PASS` ids the split is gone through several times, each time for one share of the
hashes, so that 8 bytes an id, for one share, is all that is held.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpora.verify.report import Findings

PER_PASS = 20_000_000
"""Ids held at once, 8 bytes each."""
_COMPARED = 100_000
"""Repeated hashes of a pass whose ids are compared; more are counted by their hash alone."""

Batches = Iterator[tuple[str, int, pa.Array]]
"""Shard, number of the batch's first row in it, and the batch's ids."""


def hash_ids(ids: pa.Array) -> npt.NDArray[np.uint64]:
    """uint64[R] hash of each id; null counts as the empty string."""
    blake2b = hashlib.blake2b
    digests = [blake2b(i or b"", digest_size=8).digest() for i in ids.cast(pa.binary()).to_pylist()]
    return np.frombuffer(b"".join(digests), np.uint64)


def find_duplicates(read: Callable[[], Batches], rows: int, findings: Findings) -> None:
    """Add a `duplicate_id` problem for every row whose id an earlier row of the split has.

    `read` goes through the split's ids from the start, every time it is called; `rows` is about
    how many there are.
    """
    passes = max(1, -(-rows // PER_PASS))
    for number in range(passes):
        parts = []
        for _, _, ids in read():
            hashes = hash_ids(ids)
            parts.append(hashes if passes == 1 else hashes[hashes % np.uint64(passes) == number])
        hashes = np.concatenate(parts) if parts else np.zeros(0, np.uint64)
        del parts
        hashes.sort()
        repeated = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
        del hashes
        if len(repeated):
            _compare(read(), repeated, findings)


def _compare(batches: Batches, repeated: npt.NDArray[np.uint64], findings: Findings) -> None:
    seen: dict[str, str] = {}
    met = np.zeros(len(repeated), bool)
    for shard, start, ids in batches:
        hashes = hash_ids(ids)
        places = np.minimum(np.searchsorted(repeated, hashes), len(repeated) - 1)
        for index in np.flatnonzero(repeated[places] == hashes).tolist():
            identity, place = ids[index].as_py() or "", places[index]
            if place < _COMPARED:
                first = seen.get(identity)
                seen.setdefault(identity, f"{shard} row {start + index:,}")
            else:
                first = "an earlier row" if met[place] else None
                met[place] = True
            if first is not None:
                detail = f"the id is that of {first}"
                findings.add_rows("duplicate_id", shard, [(start + index, identity)], lambda _, d=detail: d)  # type: ignore[misc]
