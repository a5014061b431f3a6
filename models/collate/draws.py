"""What is drawn about a row: a function of (seed, epoch, number of the row, place in it), and of nothing else.

So batch, worker, rank and packing change nothing, a stream that is resumed draws the same, and rows of the same
text are drawn apart.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from corpora.ragged import Ints
from models.collate.sequences import Lists, Sequences
from models.stream.hashing import STEP, Bits, key_of, mix

Purpose = Literal["choose", "corrupt", "kind"]
_PURPOSES: tuple[Purpose, ...] = ("choose", "corrupt", "kind")


def keys(sequences: Sequences, seed: int, *purposes: Purpose) -> list[Bits]:
    """For each purpose a hash uint64[n] of each sequence, from which `drawn` makes the draws of its tokens.

    The sequences of one row (choices) are told apart by their number in it.
    """
    rows, row = sequences.rows, sequences.row
    key = mix(rows.number.astype(np.uint64), key_of(seed))
    key = mix(rows.epoch.astype(np.uint64), key)
    key = mix(_number_in_row(sequences).astype(np.uint64), key[row])
    return [mix(key, _PURPOSES.index(purpose)) for purpose in purposes]


def drawn(lists: Lists, index: Ints, sequence: Ints, keys: Bits) -> Bits:
    """The draws uint64[k] of tokens.

    Args:
        index: int64[k], which of all tokens.
        sequence: int64[k], the sequence of each.
        keys: uint64[n], of the sequences.
    """
    # A token's draw is `mix` of its place; that `mix` steps evenly, so where a sequence begins goes into its key.
    keys = keys - lists.offsets[:-1].astype(np.uint64) * STEP
    return mix(index.astype(np.uint64), keys[sequence])


def _number_in_row(sequences: Sequences) -> Ints:
    """How many sequences of the same row stand before each."""
    row = sequences.row  # they follow one another
    return np.arange(len(row)) - np.searchsorted(row, row)


def check_seed(seed: object, whose: str) -> None:
    """Raise ValueError unless it is a whole number from 0 to 2^63-1; `whose` seed it is."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise ValueError(f"seed of {whose} must be a whole number from 0 to {2**63 - 1}, found {seed!r}")
