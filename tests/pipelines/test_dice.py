from __future__ import annotations

import pytest

from pipelines.encode.dice import Dice


def test_draws_are_a_function_of_the_key() -> None:
    # Written down once: another version or machine must draw the same.
    dice = Dice(0, 0, "d")
    assert [dice.below(100) for _ in range(10)] == KNOWN
    again = Dice(0, 0, "d")
    assert [again.below(100) for _ in range(10)] == KNOWN
    assert [Dice(0, 1, "d").bits(), Dice(0, 0, "e").bits(), Dice(1, 0, "d").bits()] != [
        Dice(0, 0, "d").bits()
    ] * 3


KNOWN = [57, 73, 54, 28, 19, 26, 37, 6, 15, 56]


def test_draws_are_even() -> None:
    dice = Dice("even")
    counts = [0] * 7
    for _ in range(7000):
        counts[dice.below(7)] += 1
    assert all(850 < c < 1150 for c in counts)
    assert 400 < sum(dice.chance(0.1) for _ in range(5000)) < 600
    assert not any(dice.chance(0.0) for _ in range(1000))
    assert all(dice.chance(1.0) for _ in range(1000))


@pytest.mark.parametrize("count", [1, 3, 63, 64, 65, 200])
def test_coins(count: int) -> None:
    dice = Dice("coins", count)
    heads = [dice.coins(count) for _ in range(2000)]
    assert all(0 <= h <= count for h in heads)
    assert abs(sum(heads) / len(heads) - count / 2) < 0.15 * count**0.5
    assert dice.coins(0) == 0
