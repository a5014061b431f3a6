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
from pipelines.ngrams.keys import Keys, Packing, take

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
    return Sums(
        *(
            np.add.reduceat(term.astype(np.uint64), starts) if len(starts) else counts[:0]
            for term in _terms(counts)
        )
    )


def sums_by_word(counts: Counts, words: NDArray[np.int64], size: int) -> Sums:
    """The same where the contexts are words, uint64[size]; below 2^53."""
    terms = (term.astype(np.float64) for term in _terms(counts))
    return Sums(*(np.bincount(words, term, size).astype(np.uint64) for term in terms))


def _terms(counts: Counts) -> tuple[NDArray[np.generic], ...]:
    """What each n-gram adds to the `Sums` of its context."""
    value, gone = plain(counts)
    kept = np.where(gone, np.uint64(0), value)
    return value, value - kept, kept == 1, kept == 2, kept > 2


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


class Weighed(NamedTuple):
    """What C contexts say of their n n-grams."""

    contexts: Keys
    weights: Floats
    """[C], the lower order's"""
    group: NDArray[np.int64]
    """[n], context of each n-gram"""
    shares: Floats
    """[n]"""


def weigh_contexts(keys: Keys, counts: Counts, order: int, amounts: Amounts, packing: Packing) -> Weighed:
    """Weights and shares of n-grams of `order` words in context order; counts are marked."""
    starts = packing.starts(keys, order - 1)
    context = sums(counts, starts)
    group = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(counts))))
    return Weighed(
        packing.prefix(take(keys, starts), order - 1),
        weight(context, amounts),
        group,
        share(plain(counts)[0], context.total[group], amounts),
    )
