from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.dedup import buckets
from pipelines.dedup.buckets import Search
from pipelines.dedup.runs import Rows
from tests.pipelines.dedup import slow

POINTS = st.lists(st.integers(0, 20), min_size=1, max_size=25)
"""Document i stands at a point; two are alike where the points are at most one apart: alike is not transitive."""


class Line:
    def __init__(self, points: list[int], apart: int = 1) -> None:
        self.points, self.apart = np.array(points), apart
        self.seen: Counter[tuple[int, int]] = Counter()

    def __call__(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        assert (left < right).all()
        self.seen.update(zip(left.tolist(), right.tolist(), strict=True))
        a, b = self.points[left.astype(int)], self.points[right.astype(int)]
        return np.abs(a - b) <= self.apart

    def pairs(self) -> list[tuple[int, int]]:
        return [
            (i, j)
            for i, j in combinations(range(len(self.points)), 2)
            if abs(self.points[i] - self.points[j]) <= self.apart
        ]


def rows(bucket_of: list[tuple[int, int]]) -> Rows:
    keys, numbers = np.array(sorted(bucket_of), np.uint64).reshape(-1, 2).T
    return Rows(keys, numbers)


@given(POINTS, st.data())
def test_clusters_are_those_of_all_pairs_in_small_buckets(points: list[int], data: st.DataObject) -> None:
    line = Line(points)
    members = st.sets(st.tuples(st.integers(0, 5), st.integers(0, len(points) - 1)))
    table = data.draw(members)
    found = Search(line).find(rows(list(table)))
    candidates = {(i, j) for a, i in table for b, j in table if a == b and i < j}
    pairs = set(zip(found.left.tolist(), found.right.tolist(), strict=True))
    assert pairs <= candidates & set(line.pairs())
    expected = slow.clusters(len(points), sorted(candidates & set(line.pairs())))
    assert slow.clusters(len(points), sorted(pairs)) == expected
    assert set(line.seen) <= candidates
    assert max(line.seen.values(), default=0) <= 1, "a pair was compared twice"


@given(POINTS, st.integers(0, 25), st.data())
def test_only_pairs_across_count_where_the_own_ones_do_not(
    points: list[int], first_own: int, data: st.DataObject
) -> None:
    line = Line(points)
    table = data.draw(st.sets(st.tuples(st.integers(0, 3), st.integers(0, len(points) - 1))))
    found = Search(line, first_own).find(rows(list(table)))
    pairs = set(zip(found.left.tolist(), found.right.tolist(), strict=True))
    assert all(a < first_own <= b for a, b in line.seen)
    hit = {j for a, i in table for b, j in table if a == b and i < first_own <= j and (i, j) in line.pairs()}
    assert {b for _, b in pairs} == hit


def test_a_crowd_of_equals_costs_one_comparison_each() -> None:
    count = 200_000
    line = Line([0] * count)
    search = Search(line)
    found = search.find(Rows(np.zeros(count, np.uint64), np.arange(count, dtype=np.uint64)))
    assert search.compared == count - 1
    assert (found.left == 0).all()
    assert len(found.right) == count - 1
    assert search.uncompared == 0


def test_a_crowd_of_strangers_stays_linear_and_is_counted() -> None:
    count = 50_000
    search = Search(lambda left, right: np.zeros(len(left), bool))
    found = search.find(Rows(np.zeros(count, np.uint64), np.arange(count, dtype=np.uint64)))
    assert len(found.left) == 0
    assert search.compared <= buckets.LEADERS * count
    assert search.uncompared == count - buckets.LEADERS


@pytest.mark.parametrize("own", [None, 3])
def test_a_crowd_of_some_groups_is_told_apart(own: int | None) -> None:
    points = [10 * (i % 5) for i in range(500)]
    search = Search(Line(points), own)
    found = search.find(Rows(np.zeros(500, np.uint64), np.arange(500, dtype=np.uint64)))
    label = slow.clusters(500, list(zip(found.left.tolist(), found.right.tolist(), strict=True)))
    if own is None:
        assert label == [i % 5 for i in range(500)]
    else:
        assert label == [i % 5 if i % 5 < own else i for i in range(500)]
    assert search.uncompared == 0


@pytest.mark.parametrize("part", [70, 100, 333])
def test_a_crowd_that_comes_in_parts_keeps_its_leaders(part: int) -> None:
    points = [10 * (i % 3) for i in range(1000)]
    search = Search(Line(points))
    pairs = []
    for at in range(0, 1000, part):
        numbers = np.arange(at, min(at + part, 1000), dtype=np.uint64)
        found = search.find(Rows(np.full(len(numbers), 7, np.uint64), numbers), goes_on=at > 0)
        pairs += zip(found.left.tolist(), found.right.tolist(), strict=True)
    assert slow.clusters(1000, pairs) == [i % 3 for i in range(1000)]
    other = search.find(Rows(np.array([8, 8], np.uint64), np.array([0, 3], np.uint64)))
    assert list(zip(other.left.tolist(), other.right.tolist(), strict=True)) == [(0, 3)]
