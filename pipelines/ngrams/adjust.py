"""Adjusted counts: how many different words stand before an n-gram, not how often it stands there.

Heafield et al. 2013, section 3.2; `lmplz`'s lm/builder/adjust_counts.cc. The highest order keeps its counts, and so do
n-grams that begin with `<s>`, before which nothing stands.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.ngrams.count import BOS, Counts
from pipelines.ngrams.keys import Keys, Packing, take


class Grams(NamedTuple):
    """n-grams of one order in suffix order: keys, adjusted counts uint64[n], times seen uint64[n]."""

    keys: Keys
    adjusted: Counts
    seen: Counts


def adjust(keys: Keys, counts: Counts, order: int, packing: Packing) -> list[Grams]:
    """n-grams of every order, from 1 on, of counted ones of the highest.

    Args:
        keys: different n-grams in suffix order: all that end in the same two words, or none. (Then only unigrams
            can go on elsewhere; their counts add up.)
    """
    shared = packing.shared(keys, order)
    longest = np.full(len(counts), order, np.int8)  # what is longer goes on with a second <s>
    for field in range(order - 1, 0, -1):
        longest[packing.field(keys, field) == BOS] = field + 1
    result: list[Grams] = []
    fresh_longer = np.zeros(len(counts), np.bool_)
    for k in range(order, 0, -1):
        real = longest >= k
        fresh = (shared < k) & real
        starts = np.flatnonzero(fresh)
        grams = packing.prefix(take(keys, starts), k)
        seen = _sums(np.where(real, counts, 0).astype(np.uint64), starts)
        if k == order:
            adjusted = seen
        else:
            adjusted = _sums(fresh_longer.astype(np.uint64), starts)
            if k > 1:
                first = packing.field(grams, k - 1) == BOS
                adjusted = np.where(first, seen, adjusted)
        result.append(Grams(grams, adjusted, seen))
        fresh_longer = fresh
    return result[::-1]


def _sums(values: Counts, starts: NDArray[np.int64]) -> Counts:
    return np.add.reduceat(values, starts) if len(starts) else values[:0]
