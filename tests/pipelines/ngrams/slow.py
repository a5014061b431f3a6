"""Interpolated modified Kneser-Ney, n-gram by n-gram, written down from KenLM's `lmplz` (lm/builder) and from
Heafield et al. 2013, section 3. Slow and literal: what the arrays are held against."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

UNK, BOS, EOS = "<unk>", "<s>", "</s>"
Gram = tuple[str, ...]


class Slow(NamedTuple):
    """`grams[k - 1]`: of every k-gram kept, (log10 probability, log10 back-off), in the order `lmplz` writes them;
    `discounts[k - 1]`: (D1, D2, D3+); `adjusted[k - 1]`: adjusted counts, pruned n-grams included."""

    grams: list[dict[Gram, tuple[float, float]]]
    discounts: list[tuple[float, float, float]]
    adjusted: list[dict[Gram, int]]


def estimate(
    sentences: Sequence[Sequence[str]],
    order: int,
    prune: Sequence[int] = (),
    fallback: tuple[float, float, float] | None = None,
) -> Slow:
    """Raises ValueError where discounts cannot be had and no fallback is given."""
    thresholds = list(prune) + [prune[-1] if prune else 0] * (order - len(prune))
    ids = {UNK: 0, BOS: 1, EOS: 2}
    raw: Counter[Gram] = Counter()  # of every length, as they stand in the text
    for sentence in sentences:
        words = [word for word in sentence if word not in (UNK, BOS, EOS, "<UNK>")]
        for word in words:
            ids.setdefault(word, len(ids))
        padded = [BOS, *words, EOS]
        for end in range(1, len(padded)):
            for k in range(1, min(order, end + 1) + 1):
                raw[tuple(padded[end - k + 1 : end + 1])] += 1

    def place(gram: Gram) -> list[int]:
        return [ids[word] for word in reversed(gram)]

    adjusted: list[dict[Gram, int]] = []
    for k in range(1, order + 1):
        grams = sorted((g for g in raw if len(g) == k), key=place)
        before: Counter[Gram] = Counter(g[1:] for g in raw if len(g) == k + 1)
        counts = {g: raw[g] if k == order or g[0] == BOS else before[g] for g in grams}
        # <s> is never predicted, <unk> never seen: both stand among the unigrams with a count of 0. So does </s> in
        # a corpus of no sentence; `lmplz` leaves it out there, but readers want it.
        adjusted.append({(UNK,): 0, (BOS,): 0, (EOS,): 0, **counts} if k == 1 else counts)

    special = {(UNK,), (BOS,), (EOS,)}
    kept = [
        {g for g in counts if g in special or raw[g] > thresholds[k]} for k, counts in enumerate(adjusted)
    ]
    # As in `lmplz`: the last n-grams, as far as each ends in the one before, enter the counts of counts with what
    # was counted of them, not with their adjusted count.
    entered = [list(counts.values()) for counts in adjusted]
    last: Gram = ()
    for counts, values in zip(adjusted, entered, strict=True):
        gram = next(reversed(counts), ())
        if not raw[gram] or gram[1:] != last:
            break
        values[-1], last = raw[gram], gram
    discounts = [_discounts(k, values, fallback) for k, values in enumerate(entered, 1)]

    uniform = 1 / (len(kept[0]) - 1)  # over the vocabulary, <unk> included, <s> not
    probability: dict[Gram, float] = {(): uniform}
    weight: dict[Gram, float] = {}
    for k, counts in enumerate(adjusted):
        by_context: dict[Gram, list[Gram]] = defaultdict(list)
        for gram in counts:
            by_context[gram[:-1]].append(gram)

        def discount(count: int, amounts: tuple[float, ...] = discounts[k]) -> float:
            return amounts[min(count, 3) - 1] if count else 0.0

        for context, grams in by_context.items():
            total = sum(counts[g] for g in grams)
            left = sum(discount(counts[g]) if g in kept[k] else counts[g] for g in grams)
            # Nothing was seen at all: no mass to hand on, and all of it is <unk>'s.
            weight[context] = left / total if total else 1.0
            for g in grams:
                if g in kept[k]:
                    share = (counts[g] - discount(counts[g])) / total if total else 0.0
                    probability[g] = share + weight[context] * probability[g[1:]]
        if k == 0:
            probability[(BOS,)] = 1.0

    grams_out = []
    for k, some in enumerate(kept, 1):
        rows = {}
        for g in sorted(some, key=place):
            backoff = 1.0 if k == order or g[-1] in (UNK, EOS) else weight.get(g, 1.0)
            rows[g] = (min(0.0, _log10(probability[g])), _log10(backoff))
        grams_out.append(rows)
    return Slow(grams_out, discounts, adjusted)


def _discounts(
    k: int, values: list[int], fallback: tuple[float, float, float] | None
) -> tuple[float, float, float]:
    """Chen and Goodman 1998, equation 26."""
    n = [values.count(c) for c in range(5)]
    amounts = []
    for c in (1, 2, 3):
        y = n[1] / (n[1] + 2 * n[2]) if n[1] else 0.0
        amounts.append(c - (c + 1) * y * n[c + 1] / n[c] if n[c] else -1.0)
    if all(0 <= amount <= c for c, amount in enumerate(amounts, 1)):
        return amounts[0], amounts[1], amounts[2]
    if fallback is None:
        raise ValueError(f"no discounts of order {k}: n = {n[1:]}")
    return fallback


def _log10(value: float) -> float:
    return math.log10(value) if value > 0 else -99.0


def read_arpa(path: str) -> list[dict[Gram, tuple[float, float]]]:
    """The n-grams of an ARPA file, as in `Slow.grams`."""
    orders: list[dict[Gram, tuple[float, float]]] = []
    with Path(path).open(encoding="utf-8", newline="\n") as file:
        for line in file:
            line = line.rstrip("\n")
            if line.endswith("-grams:"):
                orders.append({})
            elif "\t" in line:
                first, gram, *rest = line.split("\t")
                key = tuple(gram.split(" "))
                assert key not in orders[-1]
                orders[-1][key] = (float(first), float(rest[0]) if rest else 0.0)
    return orders
