"""Counted strings: what one block says, in the order of hashes, and how a range of hashes is gathered from all blocks.

The shard of a block is its sorted run: a row a string, by the string's hash. Hashes are even, so ranges of equal width
hold about equally many rows; strings that share a hash lie in one range and stay apart.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corpora.blocks import Block
from corpora.shards import open_shard
from pipelines.engine import BlockWriter
from pipelines.ngrams.settings import range_blocks, range_of
from pipelines.ngrams.vocabulary import hashes
from pipelines.sorted_runs import END

RANGE_ROWS = 1 << 20
"""Rows in a range, before equal strings are added: some 30 MB, and a few times that in work."""
SCHEMA = pa.schema(
    [
        pa.field("hash", pa.uint64(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        # Of units: more than one word.
        pa.field("phrase", pa.bool_(), nullable=False),
    ]
)


class Counts(NamedTuple):
    """n strings and how often each occurs."""

    texts: pa.StringArray
    counts: NDArray[np.int64]
    phrases: NDArray[np.bool_] | None = None
    """Whether each is a phrase; None: none is"""

    def chosen(self, keep: NDArray[np.bool_]) -> Counts:
        """Some of them."""
        phrases = None if self.phrases is None else self.phrases[keep]
        return Counts(self.texts.filter(pa.array(keep)), self.counts[keep], phrases)


def added(parts: Iterable[Counts]) -> Counts:
    """The same with each string once."""
    tables = [_table(part) for part in parts]
    if not tables:
        return _counts(SCHEMA.empty_table())
    groups = pa.concat_tables(tables).group_by("text", use_threads=False)
    table = groups.aggregate([("count", "sum"), ("phrase", "max")])
    return _counts(table.rename_columns({"count_sum": "count", "phrase_max": "phrase"}))


def _table(part: Counts) -> pa.Table:
    phrases = np.zeros(len(part.texts), np.bool_) if part.phrases is None else part.phrases
    columns = [part.texts, pa.array(part.counts, pa.int64()), pa.array(phrases)]
    return pa.table(columns, names=["text", "count", "phrase"])


def _whole(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def write_run(found: Counts, out: BlockWriter) -> None:
    """Distinct strings in the order of their hashes."""
    keys = hashes(found.texts)
    order = np.argsort(keys, kind="stable")
    table = _table(found).take(pa.array(order)).add_column(0, "hash", pa.array(keys[order]))
    out.write(table.cast(SCHEMA))


def hash_ranges(rows: int, most: int = RANGE_ROWS) -> list[Block]:
    """Ranges of hashes, as blocks, that hold about `most` of so many rows each."""
    count = max(1, -(-rows // most))
    return range_blocks([END * i // count for i in range(1, count)], 32 * rows)


def gather(paths: Sequence[str], block: Block) -> Counts:
    """What runs hold of a range, equal strings added."""
    start, stop = range_of(block)
    return added(_counts(pa.Table.from_batches(_stretch(path, start, stop), SCHEMA)) for path in paths)


def _counts(table: pa.Table) -> Counts:
    texts, counts, phrases = (_whole(table[name]) for name in ("text", "count", "phrase"))
    return Counts(texts, counts.to_numpy(), phrases.to_numpy(zero_copy_only=False))


def _stretch(path: str, start: int, stop: int) -> list[pa.RecordBatch]:
    """Rows of a run whose hashes lie in [start, stop); batches before and after are not read, but some to find them."""
    reader = open_shard(path)

    def first(index: int) -> int:
        return int(reader.get_batch(index)["hash"][0].as_py())

    batches = range(reader.num_record_batches)
    low = max(0, bisect_left(batches, start, key=first) - 1)
    found = []
    for index in batches[low : bisect_left(batches, stop, key=first)]:
        batch = reader.get_batch(index)
        keys = batch["hash"].to_numpy()
        begin = int(np.searchsorted(keys, np.uint64(start)))
        end = len(keys) if stop >= END else int(np.searchsorted(keys, np.uint64(stop)))
        found.append(batch.slice(begin, end - begin))
    return found
