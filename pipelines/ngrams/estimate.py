"""A model of what fits into memory: the steps of the large road, one after another on whole arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.ngrams import arpa
from pipelines.ngrams.adjust import Grams, adjust
from pipelines.ngrams.count import BOS, EOS, SPECIALS, UNK, Counts, count, ngrams
from pipelines.ngrams.discounts import FALLBACK, Discounts, correct_last, counts_of_counts, discounts
from pipelines.ngrams.interpolate import backoffs, interpolate, unigrams
from pipelines.ngrams.keys import Ids, Keys, Packing, argsort, take
from pipelines.ngrams.weights import Floats, marked, plain, share, sums_by_word, weigh_contexts, weight


class Order(NamedTuple):
    """n-grams of one order in suffix order, with probabilities and back-offs float32[n] (not their logarithms)."""

    keys: Keys
    probabilities: Floats
    backoffs: Floats


class Model(NamedTuple):
    """`orders[k - 1]` has the k-grams; `words` the vocabulary in the order of ids."""

    packing: Packing
    words: pa.Array
    orders: list[Order]
    discounts: Discounts

    def arpa(self) -> Iterator[bytes]:
        """The ARPA file in pieces."""
        yield arpa.header([len(order.probabilities) for order in self.orders])
        for k, order in enumerate(self.orders, 1):
            yield arpa.section(k)
            weights = None if k == len(self.orders) else order.backoffs
            yield from arpa.lines(order.keys, k, order.probabilities, weights, self.words, self.packing)
        yield arpa.FOOTER


def estimate(
    words: Ids,
    lengths: NDArray[np.int64],
    vocabulary: pa.Array,
    order: int,
    prune: Sequence[int] = (),
    fallback: Sequence[float] | None = None,
) -> Model:
    """The model of sentences.

    Args:
        words, lengths: as in `count.ngrams`.
        vocabulary: strings of all ids, which count in the order of first appearance; the first are `SPECIALS`.
        prune: of each order from 1 on, n-grams that are seen at most so many times go; the last number goes on.

    Raises:
        DiscountError: the corpus has words, but no discounts, and no fallback is given.
    """
    thresholds = pruning(prune, order)
    packing = Packing.of(len(vocabulary))
    found = adjust(*count(ngrams(words, lengths, order, packing)), order, packing)
    found[0] = all_words(found[0], len(vocabulary), packing)
    counted = [counts_of_counts(grams.adjusted) for grams in found]
    correct_last(counted, last_chain(found, packing))
    amounts = discounts(counted, fallback if len(words) else FALLBACK)
    counts = [marked(g.adjusted, g.seen, t) for g, t in zip(found, thresholds, strict=True)]
    counts[0][: len(SPECIALS)] = found[0].adjusted[: len(SPECIALS)]  # never go

    orders: list[Order] = []
    probabilities = unigrams(counts[0], amounts.amounts[0])
    keys, kept = found[0].keys, ~plain(counts[0])[1]
    for k in range(1, order + 1):
        weights = np.ones(len(probabilities), np.float32)
        if k < order:
            higher = found[k]
            contexts, weights_of, shares, own = _weigh(
                higher.keys, counts[k], k + 1, amounts.amounts[k], packing, len(vocabulary)
            )
            weights = backoffs(keys, contexts, weights_of)
        orders.append(Order(take(keys, kept), probabilities[kept], weights[kept]))
        if k < order:
            lower_keys = None if k == 1 else keys
            probabilities = interpolate(higher.keys, shares, own, k + 1, probabilities, lower_keys, packing)
            keys, kept = higher.keys, ~plain(counts[k])[1]
    return Model(packing, vocabulary, orders, amounts)


def pruning(prune: Sequence[int], order: int) -> list[int]:
    """Thresholds of every order. Raises ValueError where they fall, are negative or are too many."""
    if len(prune) > order:
        raise ValueError(f"prune: expected at most {order} numbers, one an order, found {len(prune)}")
    if any(low > high for low, high in zip([0, *prune], prune, strict=False)):
        raise ValueError(
            f"prune: expected numbers of 0 or more that do not fall, found {list(prune)}: an n-gram that stays "
            "needs its parts"
        )
    return [*prune, *[prune[-1] if prune else 0] * (order - len(prune))]


def all_words(grams: Grams, size: int, packing: Packing) -> Grams:
    """Unigrams of the whole vocabulary: also `<unk>` and `<s>`, which no n-gram ends in; groups may repeat."""
    adjusted, seen = (np.zeros(size, np.uint64) for _ in range(2))
    rows = packing.field(grams.keys, 0)
    np.add.at(adjusted, rows, grams.adjusted)
    np.add.at(seen, rows, grams.seen)
    return Grams(packing.pack([np.arange(size)]), adjusted, seen)


def last_chain(found: Sequence[Grams], packing: Packing) -> list[Grams]:
    """The last n-gram of every order, as far as each ends in the one before."""
    chain: list[Grams] = []
    for k, grams in enumerate(found, 1):
        if not len(grams.seen) or not grams.seen[-1]:
            break
        last = Grams(take(grams.keys, slice(-1, None)), grams.adjusted[-1:], grams.seen[-1:])
        if chain and any(
            a[0] != b[0] for a, b in zip(packing.prefix(last.keys, k - 1), chain[-1].keys, strict=True)
        ):
            break
        chain.append(last)
    return chain


def _weigh(
    keys: Keys, counts: Counts, order: int, amounts: NDArray[np.float32], packing: Packing, size: int
) -> tuple[Keys, Floats, Floats, Floats]:
    """Contexts and their weights; share and weight of each n-gram, in the order that they came in."""
    if order == 2:
        rows = packing.field(keys, 1)
        context = sums_by_word(counts, rows, size)
        weights = weight(context, amounts)
        return (
            packing.pack([np.arange(size)]),
            weights,
            share(plain(counts)[0], context.total[rows], amounts),
            weights[rows],
        )
    in_context = packing.to_context_order(keys, order)
    by_context = argsort(in_context)
    said = weigh_contexts(take(in_context, by_context), counts[by_context], order, amounts, packing)
    shares, own = np.empty(len(counts), np.float32), np.empty(len(counts), np.float32)
    shares[by_context] = said.shares
    own[by_context] = said.weights[said.group]
    return said.contexts, said.weights, shares, own


assert (UNK, BOS, EOS) == (0, 1, 2)
