"""What is kept of a document's shingles to compare it: all of them, or the smallest thousand.

Up to `MOST` shingles the similarity of two documents is exact. Of a longer document the smallest hashes
are kept, which are a sample that two documents share (a bottom-k sketch, Cohen & Kaplan, 2007), and the
similarity is estimated with a standard error of at most 0.5 / sqrt(1024) = 0.016. So a document takes at
most 4 KiB, however long it is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipelines.dedup.shingles import Sets

MOST = 1024


def jaccard(
    left: Sets, right: Sets, left_cut: NDArray[np.bool_], right_cut: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Jaccard similarity of each pair of sets, float64[pairs]; 0 where both are empty.

    `cut` says of each set whether it is only the smallest part of a larger one: then what lies above it is
    unknown, and the pair is compared below that.
    """
    pairs = len(left.sizes)
    if left_cut.any() or right_cut.any():
        limits = np.minimum(_limits(left, left_cut), _limits(right, right_cut))
        left, right = _below(left, limits), _below(right, limits)
    number = np.arange(pairs, dtype=np.uint64) << np.uint64(32)
    both = np.concatenate([np.repeat(number, s.sizes) | s.values for s in (left, right)])
    both.sort()
    shared = np.flatnonzero(both[1:] == both[:-1])
    common = np.bincount((both[shared] >> np.uint64(32)).astype(np.int64), minlength=pairs)
    union = left.sizes + right.sizes - common
    return common / np.maximum(union, 1)


def _limits(sets: Sets, cut: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """The largest value up to which each set is known whole."""
    limits = np.full(len(cut), 0xFFFFFFFF, np.uint32)
    limits[cut] = sets.values[sets.offsets[1:][cut] - 1]
    return limits


def _below(sets: Sets, limits: NDArray[np.uint32]) -> Sets:
    known = sets.values <= np.repeat(limits, sets.sizes)
    before = np.concatenate([[0], np.cumsum(known)])
    return Sets(sets.values[known], before[sets.offsets])
