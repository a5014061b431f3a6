from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipelines.dedup.clusters import join
from tests.pipelines.dedup import slow

PAIRS = st.integers(1, 30).flatmap(
    lambda n: st.tuples(
        st.just(n), st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=40)
    )
)


def joined(count: int, pairs: list[tuple[int, int]]) -> list[int]:
    left, right = np.array(pairs, np.int64).reshape(-1, 2).T
    return join(np.arange(count), left, right).tolist()


@given(PAIRS, st.randoms())
def test_labels_are_the_smallest_members_whatever_the_order(
    case: tuple[int, list[tuple[int, int]]], random
) -> None:
    count, pairs = case
    expected = slow.clusters(count, pairs)
    assert joined(count, pairs) == expected
    random.shuffle(pairs)
    assert joined(count, [pair[::-1] for pair in pairs]) == expected


@given(PAIRS, st.integers(0, 40))
def test_what_was_joined_before_stays_joined(case: tuple[int, list[tuple[int, int]]], at: int) -> None:
    count, pairs = case
    labels = np.array(joined(count, pairs[:at]))
    left, right = np.array(pairs[at:], np.int64).reshape(-1, 2).T
    assert join(labels, left, right).tolist() == slow.clusters(count, pairs)


def test_a_long_chain_takes_few_rounds() -> None:
    """A million links, the worst order: seconds, where a loop of rounds would never end."""
    count = 1_000_000
    chain = np.arange(count - 1)
    assert (join(np.arange(count), chain[::-1], chain[::-1] + 1) == 0).all()
    dice = np.random.default_rng(0).permutation(count)
    assert (join(np.arange(count), dice[:-1], dice[1:]) == 0).all()
