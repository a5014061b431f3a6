"""Documents have numbers that rise with their order: block in its upper 24 bits, record in the lower 40.

Blocks of the other corpus come first, then the own ones in the order of the plan (splits in the config's
order). So the smallest number of a cluster is the one to keep, and a number alone finds its document.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpora.blocks import Block
from pipelines.ragged import Ints

Numbers = NDArray[np.uint64]

_BITS = 40
MAX_BLOCKS = 1 << (64 - _BITS)


def first_number(block: int) -> int:
    """The number of a block's first record, whether there is one or not."""
    return block << _BITS


def numbers(block: int, records: Ints) -> Numbers:
    """Numbers uint64 of records of a block."""
    return records.astype(np.uint64) | np.uint64(first_number(block))


def block_of(numbers: Numbers) -> Ints:
    """Blocks int64 of documents."""
    return (numbers >> np.uint64(_BITS)).astype(np.int64)


def record_of(numbers: Numbers) -> Ints:
    """Record numbers int64, from 0 within the block."""
    return (numbers & np.uint64((1 << _BITS) - 1)).astype(np.int64)


@dataclass(frozen=True)
class Order:
    """The order of all blocks: splits with their numbers of blocks, those of the other corpus first."""

    splits: tuple[tuple[str, int], ...]
    others: int
    """How many blocks are of the other corpus."""

    @classmethod
    def of(cls, others: Sequence[Block], own: Sequence[Block]) -> Order:
        """Raises ValueError where there are more blocks than numbers have room for."""
        splits = {block.split: block.count for block in [*others, *own]}
        if sum(splits.values()) > MAX_BLOCKS:
            raise ValueError(f"more than {MAX_BLOCKS:,} blocks: raise run.block_bytes")
        return cls(tuple(splits.items()), len(others))

    def first_block(self, split: str) -> int:
        """Place of a split's first block."""
        names = [name for name, _ in self.splits]
        return sum(count for _, count in self.splits[: names.index(split)])

    def block(self, place: int) -> tuple[str, int, int]:
        """Split, index within it and number of its blocks, of the block at this place."""
        for split, count in self.splits:
            if place < count:
                return split, place, count
            place -= count
        raise IndexError(f"there is no block {place:,} past the last one")

    def shard_name(self, place: int) -> str:
        """Name of the shard of the block at this place."""
        return Block(*self.block(place), parts=(), bytes=0).shard_name

    @property
    def first_own(self) -> int:
        """The smallest number that a document of the own corpus can have."""
        return first_number(self.others)
