"""Random numbers that are functions of numbers: a hash, so nothing has a state and everything can be drawn again.

Orders of rows are made of it, and all that is drawn about a row on its way to a model (`models/collate/draws.py`).
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.uint64]
Halves = NDArray[np.uint32]

_WORD = 2**64 - 1
STEP, STEP32 = np.uint64(0x9E3779B97F4A7C15), np.uint32(0x9E3779B1)
"""What a value that is greater by one adds before all is mixed."""


def mix(values: Bits, key: int | Bits) -> Bits:
    """A 64-bit hash of each value, in the values' shape: the finaliser of SplitMix64.

    Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014: with a key, 0 to 2^64-1, the
    values 0, 1, 2, ... give the generator's numbers from that state on. `key`: one for all values, or one each.
    """
    mixed = values + np.uint64(1)
    mixed *= STEP
    mixed += key if isinstance(key, np.ndarray) else np.uint64(key)
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def mix32(values: Halves, key: Halves) -> Halves:
    """A 32-bit hash of each value with a key of its own, a third of the cost of `mix`.

    The finaliser is the one that Wellons' search found least biased of those with two multiplications
    (github.com/skeeto/hash-prospector); values step as in `mix`.
    """
    mixed = values * STEP32
    mixed += key
    mixed ^= mixed >> np.uint32(16)
    mixed *= np.uint32(0x21F0AAAD)
    mixed ^= mixed >> np.uint32(15)
    mixed *= np.uint32(0xD35A2D97)
    mixed ^= mixed >> np.uint32(15)
    return mixed


@functools.lru_cache(maxsize=256)
def key_of(*numbers: int) -> int:
    """A 64-bit number from several."""
    state = 0
    for number in numbers:
        state = int(mix(np.array([number & _WORD], dtype=np.uint64), state)[0])
    return state
