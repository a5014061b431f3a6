"""What a context says: how much of its mass goes to the lower order, and how much each n-gram has of the rest.

Heafield et al. 2013, section 3.3; `lmplz`'s lm/builder/initial_probabilities.cc, also for pruned n-grams: the mass
that they would have had goes to the lower order, too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.ngrams.count import Counts
from pipelines.ngrams.discounts import Amounts

Floats = NDArray[np.float32]
PRUNED = np.uint64(1 << 63)
"""This bit of an adjusted count says that the n-gram goes; its count still stands in its context's sum."""


class Sums(NamedTuple):
    """Of each context, uint64[n]: sum of adjusted counts, that of pruned n-grams, and how many of those that are kept
    have the count 1, 2, 3 or more."""

    total: Counts
    pruned: Counts
    ones: Counts
    twos: Counts
    more: Counts


def marked(adjusted: Counts, seen: Counts, threshold: int) -> Counts:
    """Adjusted counts with the mark on those that were seen at most `threshold` times."""
    return np.where(seen <= np.uint64(threshold), adjusted | PRUNED, adjusted)


def plain(counts: Counts) -> tuple[Counts, NDArray[np.bool_]]:
    """Counts without marks, and which had one."""
    return counts & ~PRUNED, counts >= PRUNED


def sums(counts: Counts, starts: NDArray[np.int64]) -> Sums:
    """Sums over contexts, of whose n-grams the first stand at `starts`; counts are marked."""
    value, gone = plain(counts)
    kept = np.where(gone, np.uint64(0), value)
    terms = (value, value - kept, kept == 1, kept == 2, kept > 2)
    return Sums(
        *(np.add.reduceat(term.astype(np.uint64), starts) if len(starts) else value[:0] for term in terms)
    )


def sums_by_word(counts: Counts, words: NDArray[np.int64], size: int) -> Sums:
    """The same where the contexts are words, uint64[size]; below 2^53."""
    value, gone = plain(counts)
    kept = np.where(gone, np.uint64(0), value)
    terms = (value, value - kept, kept == 1, kept == 2, kept > 2)
    return Sums(*(np.bincount(words, term.astype(np.float64), size).astype(np.uint64) for term in terms))


def weight(context: Sums, amounts: Amounts) -> Floats:
    """The lower order's weight in each context; 1 where nothing was seen."""
    mass = amounts[1] * context.ones.astype(np.float32)
    mass = mass + amounts[2] * context.twos.astype(np.float32)
    mass = mass + amounts[3] * context.more.astype(np.float32)
    mass = mass + context.pruned.astype(np.float32)
    total = context.total.astype(np.float32)
    return np.divide(mass, total, out=np.ones_like(mass), where=total > 0)


def share(counts: Counts, totals: Counts, amounts: Amounts) -> Floats:
    """What each n-gram has of its context's mass beside the lower order's; `counts` without marks."""
    rest = counts.astype(np.float32) - amounts[np.minimum(counts, np.uint64(3)).astype(np.int64)]
    total = totals.astype(np.float32)
    return np.divide(rest, total, out=np.zeros_like(rest), where=total > 0)
