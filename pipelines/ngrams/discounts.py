"""Discounts from counts of counts: Chen and Goodman 1998, equation 26, and what is done where they cannot be had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.ngrams.adjust import Grams
from pipelines.ngrams.count import Counts

FALLBACK = (0.5, 1.0, 1.5)
"""What `lmplz --discount_fallback` takes."""

Amounts = NDArray[np.float32]
"""float32[4]: what is taken from a count of 0, 1, 2, and 3 or more."""


class DiscountError(ValueError):
    """The corpus has no discounts; the message says why and what to do."""


class Discounts(NamedTuple):
    """Amounts of each order, and of which orders they are the fallback's."""

    amounts: list[Amounts]
    fell_back: list[int]


def counts_of_counts(adjusted: Counts) -> NDArray[np.int64]:
    """int64[5]: how many n-grams have the adjusted count 0, ..., 4."""
    return np.bincount(adjusted[adjusted < 5].astype(np.int64), minlength=5)


def correct_last(counted: Sequence[NDArray[np.int64]], last: Sequence[Grams]) -> None:
    """Enter the last n-grams with the times that they were seen, as `lmplz` does.

    A slip there, but one that small corpora show: its discounts are what models are compared by.

    Args:
        counted: counts of counts of every order, changed in place.
        last: of orders from 1 on, the last n-gram in suffix order, as far as each ends in the one before.
    """
    for table, grams in zip(counted[:-1], last, strict=False):
        for value, step in ((int(grams.adjusted[-1]), -1), (int(grams.seen[-1]), 1)):
            if value < 5:
                table[value] += step


def discounts(counted: Sequence[NDArray[np.int64]], fallback: Sequence[float] | None = None) -> Discounts:
    """Discounts of every order from its counts of counts.

    Raises:
        DiscountError: an order has no n-gram of an adjusted count of 1, 2 or 3, or too odd numbers of them, and there
            is no fallback.
    """
    found, fell_back = [], []
    for order, n in enumerate(counted, 1):
        amounts, why = _estimate(n)
        if why and fallback is None:
            raise DiscountError(
                f"Kneser-Ney discounts of order {order} cannot be estimated: {why}. The corpus is too small, or "
                "repeats itself: drop duplicates (`treegraft dedup`), take a lower order, or set fallback discounts, "
                f"such as {list(FALLBACK)}."
            )
        if why:
            assert fallback is not None
            amounts = np.array([0, *fallback], np.float32)
            fell_back.append(order)
        found.append(amounts)
    return Discounts(found, fell_back)


def _estimate(n: NDArray[np.int64]) -> tuple[Amounts, str]:
    """Amounts, in the arithmetic of `lmplz`, and what is wrong with them."""
    amounts = np.zeros(4, np.float32)
    for count in (1, 2, 3):
        if not n[count]:
            return amounts, f"no n-gram has an adjusted count of {count}"
    y = np.float32(n[1]) / np.float32(n[1] + 2.0 * n[2])
    for count in (1, 2, 3):
        step = np.float32(count + 1) * y * np.float32(n[count + 1]) / np.float32(n[count])
        amounts[count] = np.float32(count) - step
        if not 0 <= amounts[count] <= count:
            return (
                amounts,
                f"that for a count of {count} came out as {amounts[count]:g}, not within 0 and {count}",
            )
    return amounts, ""
