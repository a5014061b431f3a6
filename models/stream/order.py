"""Which row stands at which position of an epoch: a pure function of (seed, epoch, position).

No list of rows is ever made, so an order costs the same memory for a thousand rows and for a billion, and
a stream can begin anywhere in it.

- `sequential`: rows as they lie.
- `block`: blocks of consecutive rows in random order, rows mixed within a window of some blocks: reads stay near
  each other, and neighbours in the corpus part. Where the blocks begin differs from epoch to epoch.
- `global`: every order of rows is possible, more or less; each row is read from another place.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from corpora.ragged import Ints
from models.stream.hashing import Bits, key_of, mix

Kind = Literal["sequential", "block", "global"]
KINDS: tuple[Kind, ...] = ("sequential", "block", "global")

_TABLE = 2**16
"""Permutations up to this size are kept as tables (512 KiB each, a few of them): a window of the default size."""
_ROUNDS = 6


def check_whole(what: str, value: object, least: int, most: int = 2**31) -> None:
    """Raise ValueError unless `value` is a whole number from `least` to `most`; `what` names it."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{what} must be a whole number from {least} to {most}, found {value!r}")


class Ordering(Protocol):
    """What a stream needs of an order.

    Attributes:
        length: positions of an epoch, at least 1.
        rows: rows of the split it is of: those drawn are 0..rows-1.
        identity: numbers and names that two equal orders share, ready for JSON.
    """

    @property
    def length(self) -> int: ...

    @property
    def rows(self) -> int: ...

    @property
    def identity(self) -> dict[str, Any]: ...

    def draw(self, epoch: int, positions: Ints) -> tuple[Ints, Ints]:
        """Rows int64[n] at these positions (int64[n], each in 0..length-1), and the epoch int64[n] of each row."""
        ...


@dataclass(frozen=True)
class Order:
    """An order of `length` rows.

    Attributes:
        kind: `sequential`, `block` or `global`.
        length: rows, at least 1.
        seed: 0 to 2^63-1.
        block: rows of a block.
        window: blocks among which rows are mixed; 1 mixes within a block alone.
    """

    kind: Kind
    length: int
    seed: int = 0
    block: int = 4096
    window: int = 16

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"order {self.kind!r} is not known; known are {', '.join(KINDS)}")
        for name, least, most in (
            ("length", 1, 2**62),
            ("seed", 0, 2**63 - 1),
            ("block", 1, 2**31),
            ("window", 1, 2**31),
        ):
            check_whole(f"{name} of an order", getattr(self, name), least, most)

    @property
    def rows(self) -> int:
        """All of them stand in an epoch, once each."""
        return self.length

    @property
    def identity(self) -> dict[str, Any]:
        """What makes two orders the same."""
        same: dict[str, Any] = {"order": self.kind, "rows": self.length}
        if self.kind != "sequential":
            same["seed"] = self.seed
        return same | ({"block": self.block, "window": self.window} if self.kind == "block" else {})

    def draw(self, epoch: int, positions: Ints) -> tuple[Ints, Ints]:
        """See `Ordering.draw`."""
        rows = np.asarray(positions, dtype=np.int64)
        if self.kind == "global":
            rows = permuted(rows, self.length, key_of(self.seed, epoch, 0))
        elif self.kind == "block":
            rows = self._blocks(epoch, self._mixed(epoch, rows))
        return rows, np.full(len(rows), epoch, dtype=np.int64)

    def _mixed(self, epoch: int, places: Ints) -> Ints:
        """Positions permuted within their window."""
        size = self.block * self.window
        windows = places // size
        mixed = np.empty_like(places)
        for window in np.unique(windows).tolist():
            mine = windows == window
            start = window * size
            key = key_of(self.seed, epoch, 2 + window)
            mixed[mine] = start + permuted(places[mine] - start, min(size, self.length - start), key)
        return mixed

    def _blocks(self, epoch: int, places: Ints) -> Ints:
        """Positions in whole blocks go to the place of another block; then all rows turn by a random number.

        What is left at the end when the blocks are cut is less than a block, and stays last: the turn makes
        that, too, fall on other rows in every epoch.
        """
        key = key_of(self.seed, epoch, 1)
        blocks = self.length // self.block
        if blocks:
            whole = places < blocks * self.block
            block, within = np.divmod(places[whole], self.block)
            places = places.copy()
            places[whole] = permuted(block, blocks, key) * self.block + within
        return (places + key % self.length) % self.length


# --- permutations -----------------------------------------------------------------------------


def permuted(places: Ints, size: int, key: int) -> Ints:
    """Images int64[n] of `places` (int64[n], each in 0..size-1) under a random permutation of 0..size-1.

    A pure function of (place, size, key) in constant memory: a Feistel network over the next power of two,
    walked on until it comes back below `size` (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002,
    section 4: cycle walking); small ones are sorted by a hash.
    """
    if size <= _TABLE:
        return _table(size, key)[places]
    images = _feistel(places.astype(np.uint64), size, key)
    while (outside := np.flatnonzero(images >= size)).size:  # less than half of them, each time
        images[outside] = _feistel(images[outside], size, key)
    return images.astype(np.int64)


@functools.lru_cache(maxsize=8)
def _table(size: int, key: int) -> Ints:
    table = np.argsort(mix(np.arange(size, dtype=np.uint64), key), kind="stable")
    table.flags.writeable = False  # it is given out again
    return table


def _feistel(places: Bits, size: int, key: int) -> Bits:
    """A bijection of the numbers below the power of two that `size` needs; the halves differ by a bit at most."""
    bits = (size - 1).bit_length()
    low_bits = np.uint64(bits // 2)
    low_mask, high_mask = np.uint64((1 << (bits // 2)) - 1), np.uint64((1 << (bits - bits // 2)) - 1)
    low, high = places & low_mask, places >> low_bits
    for number in range(0, _ROUNDS, 2):
        low = low ^ (mix(high, key_of(key, number, 0)) & low_mask)
        high = high ^ (mix(low, key_of(key, number, 1)) & high_mask)
    return high << low_bits | low
