"""Lists of different lengths as one flat array and offsets: the few moves everything is made of."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.int64]


def bounds(lengths: ArrayLike) -> Ints:
    """Offsets int64[n+1] of n lists of the given lengths laid end to end."""
    sizes = np.asarray(lengths, dtype=np.int64)
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def ranges(starts: ArrayLike, lengths: ArrayLike) -> Ints:
    """The numbers `start, start + 1, ..., start + length - 1` of every range, end to end."""
    sizes = np.asarray(lengths, dtype=np.int64)
    offsets = bounds(sizes)
    return np.arange(offsets[-1], dtype=np.int64) + np.repeat(np.asarray(starts) - offsets[:-1], sizes)


def counts(flags: NDArray[np.bool_], offsets: Ints) -> Ints:
    """How many items of each list are flagged, int64[n], of flags bool[m] and offsets int64[n+1]."""
    return np.diff(np.searchsorted(np.flatnonzero(flags), offsets))
