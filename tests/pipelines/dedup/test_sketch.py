from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipelines.dedup.shingles import Sets
from pipelines.dedup.sketch import MOST, jaccard
from pipelines.ragged import bounds
from tests.pipelines.dedup import slow

SETS = st.sets(st.integers(0, 2**32 - 1) | st.integers(0, 9))


def make(sets: list[set[int]]) -> Sets:
    return Sets(np.array([v for s in sets for v in sorted(s)], np.uint32), bounds([len(s) for s in sets]))


@given(st.lists(st.tuples(SETS, SETS)))
def test_whole_sets_are_compared_exactly(pairs: list[tuple[set[int], set[int]]]) -> None:
    whole = np.zeros(len(pairs), bool)
    found = jaccard(make([a for a, _ in pairs]), make([b for _, b in pairs]), whole, whole)
    assert found.tolist() == [slow.jaccard(a, b) for a, b in pairs]


@given(st.lists(st.tuples(SETS, SETS), min_size=1), st.integers(1, 5))
def test_cut_sets_are_compared_as_far_as_they_are_known(
    pairs: list[tuple[set[int], set[int]]], most: int
) -> None:
    kept = [[set(sorted(s)[:most]) for s in pair] for pair in pairs]
    cut = np.array([[len(s) > most for s in pair] for pair in pairs])
    found = jaccard(make([a for a, _ in kept]), make([b for _, b in kept]), cut[:, 0], cut[:, 1])
    for value, (a, b) in zip(found.tolist(), pairs, strict=True):
        limit = min([sorted(s)[most - 1] for s in (a, b) if len(s) > most], default=2**32)
        assert value == slow.jaccard({v for v in a if v <= limit}, {v for v in b if v <= limit})


def test_the_estimate_of_long_documents_is_near() -> None:
    dice = np.random.default_rng(3)
    pairs, left, right, true = 300, [], [], []
    for _ in range(pairs):
        common, own = int(dice.integers(2_000, 10_000)), int(dice.integers(100, 2_000))
        union = dice.permutation(np.unique(dice.integers(0, 2**32, common + 2 * own, dtype=np.uint64)))
        true.append((common - (common + 2 * own - len(union))) / len(union))
        left.append(np.sort(union[: len(union) - own])[:MOST])
        right.append(np.sort(union[own:])[:MOST])
    cut, ends = np.ones(pairs, bool), bounds([MOST] * pairs)
    sets = [Sets(np.concatenate(side).astype(np.uint32), ends) for side in (left, right)]
    error = jaccard(*sets, cut, cut) - np.array(true)
    assert abs(error.mean()) < 0.003
    assert error.std() < 0.016
