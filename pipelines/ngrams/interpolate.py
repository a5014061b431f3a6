"""From low to high order: p(w | c) = share + weight * p(w | c without its first word)."""

from __future__ import annotations

import numpy as np

from pipelines.ngrams.count import BOS, Counts
from pipelines.ngrams.discounts import Amounts
from pipelines.ngrams.keys import Keys, Packing, find, locate
from pipelines.ngrams.weights import Floats, plain, share, sums, weight

NO_MASS = np.float32(-99)
"""log10 of nothing, as ARPA files have it: a reader takes no infinity."""


def unigrams(counts: Counts, amounts: Amounts) -> Floats:
    """Probabilities of all words float32[V]; that of `<s>`, which is never predicted, is 1. Counts are marked.

    The lower order is uniform over the vocabulary: `<unk>` counts, `<s>` and pruned words do not.
    """
    value, gone = plain(counts)
    whole = sums(counts, np.zeros(1, np.int64))
    uniform = np.float32(1) / np.float32(len(value) - 1 - gone.sum())
    result: Floats = (
        share(value, np.broadcast_to(whole.total, value.shape), amounts) + weight(whole, amounts) * uniform
    )
    result[BOS] = 1
    return result


def interpolate(
    keys: Keys,
    shares: Floats,
    weights: Floats,
    order: int,
    lower: Floats,
    lower_keys: Keys | None,
    packing: Packing,
) -> Floats:
    """Probabilities float32[n] of n-grams of `order`.

    Args:
        lower: probabilities of the order below, of whose n-grams `lower_keys` are the keys, in order; None for
            unigrams, all of which are there.
    """
    shorter = packing.prefix(keys, order - 1)
    rows = packing.field(keys, 0) if lower_keys is None else locate(lower_keys, shorter)
    result: Floats = shares + weights * lower[rows]
    return result


def backoffs(keys: Keys, contexts: Keys, weights: Floats) -> Floats:
    """Weights float32[n] of n-grams as contexts: 1 where they are none. `contexts` are in order."""
    result = np.ones(len(keys[0]), np.float32)
    rows = find(contexts, keys)
    there = rows >= 0
    result[there] = weights[rows[there]]
    return result


def log10(values: Floats) -> Floats:
    """log10 as float32[n], rounded once: no library's float32 logarithm tells machines apart."""
    with np.errstate(divide="ignore"):
        result = np.log10(values.astype(np.float64)).astype(np.float32)
    result[values <= 0] = NO_MASS
    return result
