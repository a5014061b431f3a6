"""What is drawn about a row: a function of (seed, epoch, number of the row, place in it), and of nothing else.

So batch, worker, rank and packing change nothing, a stream that is resumed draws the same, and rows of the same
text are drawn apart.
"""

from __future__ import annotations

import numpy as np

from corpora.ragged import Ints
from models.collate.sequences import Lists, Sequences
from models.stream.hashing import STEP, STEP32, Bits, Halves, key_of, mix, mix32

_EPOCH, _CHOICE, _CORRUPT, _KIND, _COARSE = (np.uint64(key_of(number)) for number in range(5))


def keys(sequences: Sequences, seed: int) -> Bits:
    """A hash uint64[n] of each sequence; the sequences of one row (choices) are told apart by their number in it."""
    rows, row = sequences.rows, sequences.row
    numbers = rows.number.astype(np.uint64)
    numbers += rows.epoch.astype(np.uint64) * _EPOCH
    if len(row) != len(rows):  # they follow one another
        here = np.arange(len(row)) - np.searchsorted(row, row)
        numbers = numbers[row] + here.astype(np.uint64) * _CHOICE
    return mix(numbers, key_of(seed))


def of_coarse(keys: Bits) -> Bits:
    """Keys of the same sequences for what is drawn of coarse tokens beside the fine ones: places of both are counted
    from 0, and by the same keys would have the same draws."""
    return keys ^ _COARSE


def to_choose(lists: Lists, keys: Bits) -> Halves:
    """A draw uint32[m] for each token, by the `keys` of sequences, to choose tokens by."""
    # A draw is a hash of a place; hashes step evenly, so where a sequence begins goes into its key.
    starts = keys.astype(np.uint32) - lists.offsets[:-1].astype(np.uint32) * STEP32
    return mix32(np.arange(int(lists.offsets[-1]), dtype=np.uint32), lists.spread(starts))


def to_corrupt(lists: Lists, index: Ints, sequence: Ints, keys: Bits) -> Bits:
    """Draws uint64[k] of other chance for the tokens `index` int64[k]; `sequence` int64[k] is that of each."""
    keys = (keys ^ _CORRUPT) - lists.offsets[:-1].astype(np.uint64) * STEP
    return mix(index.astype(np.uint64), keys[sequence])


def of_kind(keys: Bits) -> Bits:
    """A draw uint64[n] of a kind of language model for each sequence."""
    return mix(keys, int(_KIND))
