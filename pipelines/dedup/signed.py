"""Signed documents by their numbers: shards opened when first looked into, read where they lie.

Local shards are memory-mapped, so a document costs the pages it lies in. On another filesystem each record
batch that is touched is fetched (a few MB), and the last ones are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corpora import files
from corpora.shards import open_shard, read_batches
from pipelines.dedup.hashing import Hashes
from pipelines.dedup.numbering import Numbers, Order, block_of, record_of
from pipelines.dedup.shingles import Sets
from pipelines.dedup.sketch import jaccard
from pipelines.ragged import Ints, bounds

_OPEN_SHARDS, _OPEN_BATCHES = 64, 512
"""Fewer than the files that a process may have open: 1,024 on most systems."""
_OPEN_REMOTE = 8
_COMPARED = 4096
"""Pairs compared at a time: at most 200 MB, where all documents are long."""


class Batch(NamedTuple):
    """A record batch of signed documents as numpy arrays; D documents."""

    columns: pa.RecordBatch
    high: Hashes
    low: Hashes
    cut: NDArray[np.bool_]
    sets: Sets


class Similarity(NamedTuple):
    """Of pairs of documents: bool[P], whether their folded texts are the same; float64[P], Jaccard similarity."""

    same: NDArray[np.bool_]
    jaccard: NDArray[np.float64]


class SignedDocuments:
    """The documents of a folder of signed shards."""

    def __init__(self, folder: str, order: Order) -> None:
        self._folder, self._order = folder, order
        remote = files.is_uri(folder)
        self._reader = lru_cache(_OPEN_REMOTE if remote else _OPEN_SHARDS)(self._open)
        self._edges: dict[int, Ints] = {}
        self._batch = lru_cache(_OPEN_REMOTE if remote else _OPEN_BATCHES)(self._load)

    def blocks(self) -> Iterator[tuple[int, Iterator[pa.RecordBatch]]]:
        """All documents: the place of each block, and its record batches."""
        for place in range(sum(count for _, count in self._order.splits)):
            yield place, read_batches(self._reader(place))

    def strings(self, numbers: Numbers, column: str) -> pa.Array:
        """`doc_id`, `excerpt` or `label` of documents, whose numbers must rise."""
        parts = [batch.columns[column].take(pa.array(rows)) for batch, rows in self._touched(numbers)]
        return pa.concat_arrays(parts) if parts else pa.array([], pa.string())

    def compare(self, left: Numbers, right: Numbers) -> Similarity:
        """Compare pairs of documents."""
        same, similar = np.zeros(len(left), bool), np.zeros(len(left))
        for at in range(0, len(left), _COMPARED):
            part = slice(at, at + _COMPARED)
            same[part], similar[part] = self._compare(left[part], right[part])
        return Similarity(same, similar)

    def _compare(self, left: Numbers, right: Numbers) -> Similarity:
        documents, place = np.unique(np.concatenate([left, right]), return_inverse=True)
        first, second = place[: len(left)], place[len(left) :]
        high, low, cut, values, sizes = [], [], [], [], []
        for batch, rows in self._touched(documents):
            high.append(batch.high[rows])
            low.append(batch.low[rows])
            cut.append(batch.cut[rows])
            sets = batch.sets.take(rows)
            values.append(sets.values)
            sizes.append(sets.sizes)
        highs, lows, cuts = np.concatenate(high), np.concatenate(low), np.concatenate(cut)
        sets = Sets(np.concatenate(values), bounds(np.concatenate(sizes)))
        same = (highs[first] == highs[second]) & (lows[first] == lows[second])
        similar = np.ones(len(left))
        differ = np.flatnonzero(~same)
        a, b = first[differ], second[differ]
        similar[differ] = jaccard(sets.take(a), sets.take(b), cuts[a], cuts[b])
        return Similarity(same, similar)

    def _touched(self, numbers: Numbers) -> Iterator[tuple[Batch, NDArray[np.int64]]]:
        """Batches that hold documents, and their rows there, in the order of the numbers, which must rise."""
        blocks = block_of(numbers)
        places, starts = np.unique(blocks, return_index=True)
        for place, start, stop in zip(places.tolist(), starts, [*starts[1:], len(numbers)], strict=True):
            edges = self._edges_of(place)
            records = record_of(numbers[start:stop])
            cuts = np.searchsorted(records, edges)
            for number in np.flatnonzero(cuts[1:] > cuts[:-1]).tolist():
                yield self._batch(place, number), records[cuts[number] : cuts[number + 1]] - edges[number]

    def _load(self, place: int, number: int) -> Batch:
        batch = self._reader(place).get_batch(number)
        sketch = batch["sketch"]
        return Batch(
            batch,
            batch["digest_high"].to_numpy(),
            batch["digest_low"].to_numpy(),
            batch["cut"].to_numpy(zero_copy_only=False),
            Sets(sketch.values.to_numpy(), sketch.offsets.to_numpy().astype(np.int64)),
        )

    def _edges_of(self, place: int) -> Ints:
        """The first rows of a block's record batches, and the number of its rows."""
        if place not in self._edges:
            batches = read_batches(self._reader(place))
            self._edges[place] = bounds([batch.num_rows for batch in batches])
        return self._edges[place]

    def _open(self, place: int) -> pa.RecordBatchFileReader:
        return open_shard(files.join(self._folder, self._order.shard_name(place)))
