"""One vocabulary of all blocks: words get ids in the order in which they first stand in the corpus.

A window tells words by 64-bit hashes, as KenLM does; among 20 million words two share one once in 10^5 corpora.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.ngrams.count import SPECIALS
from pipelines.ngrams.keys import Column, Ids
from pipelines.ngrams.runs import cut, gather
from pipelines.sorted_runs import END, Run, whole, within

_LOCAL_BITS = 40
_MERGED_ROWS = 1 << 22


def hashes(words: pa.Array) -> Column:
    """uint64[n] of different words; costs what a call costs, so it is for vocabularies, not for texts."""
    digest = hashlib.blake2b
    joined = b"".join([digest(word.encode(), digest_size=8).digest() for word in words.to_pylist()])
    return np.frombuffer(joined, "<u8").astype(np.uint64)


def positions(block: int, start: int, count: int) -> Column:
    """Where words first stand that are the `start`-th and on of a block: they rise with the blocks, and within one."""
    return np.arange(start, start + count, dtype=np.uint64) | np.uint64(block << _LOCAL_BITS)


class Vocabulary(NamedTuple):
    """Hashes of all words in order, uint64[V - 3], their ids, and where each id's word first stands."""

    hashes: Column
    ids: Ids
    first: Column

    def __len__(self) -> int:
        return len(self.ids) + len(SPECIALS)

    def of_block(self, block: int) -> NDArray[np.int64]:
        """Which of a block's words, those of its windows end to end, first stand there, in the order of ids."""
        low, high = np.searchsorted(
            self.first, np.array([block, block + 1], np.uint64) << np.uint64(_LOCAL_BITS)
        )
        return (self.first[low:high] & np.uint64((1 << _LOCAL_BITS) - 1)).astype(np.int64)


def merge_vocabularies(runs: Sequence[Run]) -> Vocabulary:
    """Of runs of (hash, position), one a window; 28 bytes a word, and some millions of rows."""
    parts = within(whole(runs), 0, END)
    bounds = [0, *cut(parts, _MERGED_ROWS), END]
    known, first = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)]
    for low, high in pairwise(bounds):
        rows = gather(within(parts, low, high), 1)
        (keys,) = rows.keys
        if len(keys):
            starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
            known.append(keys[starts])
            first.append(np.minimum.reduceat(rows.numbers, starts))
    all_hashes, all_first = np.concatenate(known), np.concatenate(first)
    order = np.argsort(all_first)
    ids = np.empty(len(order), np.uint32)
    ids[order] = np.arange(len(order), dtype=np.uint32) + len(SPECIALS)
    return Vocabulary(all_hashes, ids, all_first[order])


def ids_of(wanted: Column, known: Column, ids: Ids) -> Ids:
    """Ids of words by their hashes, all of which are known; `known` is in order."""
    result: Ids = ids[np.searchsorted(known, wanted)]
    return result
