from __future__ import annotations

from itertools import islice

import pytest

from pipelines.encode.dice import CERTAIN, Bits, below, coins, streams


def dice(*key: str | int) -> Bits:
    *first, name = key
    return next(streams(first, [str(name)]))


def test_draws_are_a_function_of_the_key() -> None:
    # Written down once: another version or machine must draw the same.
    for bits in streams((0, 0), ["d", "d"]):
        assert [below(bits, 100) for _ in range(10)] == KNOWN
    assert [dice(0, 1, "d")(), dice(0, 0, "e")(), dice(1, 0, "d")()] != [dice(0, 0, "d")()] * 3


KNOWN = [57, 73, 54, 28, 19, 26, 37, 6, 15, 56]


def test_draws_of_many_names_are_those_of_each() -> None:
    names = ["", "d", "汉", "\x1f", "d"]
    together = [[bits() for _ in range(20)] for bits in streams((3, "k"), names)]
    assert together == [[bits() for _ in range(20)] for bits in (dice(3, "k", name) for name in names)]
    assert len({tuple(draws) for draws in together}) == 4
    assert len(set(together[0])) == 20


def test_draws_are_even() -> None:
    bits = dice("even")
    counts = [0] * 7
    for _ in range(7000):
        counts[below(bits, 7)] += 1
    assert all(850 < c < 1150 for c in counts)
    draws = list(islice(iter(bits, None), 5000))
    assert 400 < sum(draw < 0.1 * CERTAIN for draw in draws) < 600
    assert all(0 <= draw < CERTAIN for draw in draws)


@pytest.mark.parametrize("count", [1, 3, 63, 64, 65, 200])
def test_coins(count: int) -> None:
    bits = dice("coins", count)
    heads = [coins(bits, count) for _ in range(2000)]
    assert all(0 <= h <= count for h in heads)
    assert abs(sum(heads) / len(heads) - count / 2) < 0.15 * count**0.5
    assert coins(bits, 0) == 0
