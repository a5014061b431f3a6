"""64-bit mixing in numpy, and constants that no version of a library changes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

_GOLDEN = 0x9E3779B97F4A7C15


def constants(seed: int, count: int) -> Hashes:
    """`count` odd pseudo-random numbers uint64, a function of `seed` alone (SplitMix64, Steele et al. 2014)."""
    steps = np.arange(1, count + 1, dtype=np.uint64) + np.uint64(seed << 32)
    return mix(steps * np.uint64(_GOLDEN)) | np.uint64(1)


def mix(values: Hashes) -> Hashes:
    """A bijection of 64 bits in which every bit depends on every other (the finalizer of SplitMix64)."""
    values = values ^ (values >> np.uint64(30))
    values *= np.uint64(0xBF58476D1CE4E5B9)
    values ^= values >> np.uint64(27)
    values *= np.uint64(0x94D049BB133111EB)
    values ^= values >> np.uint64(31)
    return values
