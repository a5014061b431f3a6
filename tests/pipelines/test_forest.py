"""Vectorised trees against loops that climb from head to head."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines import forest


@st.composite
def groups(draw: st.DrawFn, max_groups: int = 5, max_words: int = 12) -> np.ndarray:
    lengths = draw(st.lists(st.integers(0, max_words), max_size=max_groups))
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


@st.composite
def forests(draw: st.DrawFn, one_root: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Heads of valid forests: each word hangs on an earlier one of a random order, or is a root."""
    offsets = draw(groups())
    heads = np.zeros(offsets[-1], dtype=np.int64)
    for first, stop in pairwise(offsets):
        order = draw(st.permutations(range(first, stop)))
        for rank, word in enumerate(order):
            free = rank == 0 or (not one_root and draw(st.booleans()))
            heads[word] = word if free else order[draw(st.integers(0, rank - 1))]
    return heads, offsets


@st.composite
def anything(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Any heads at all: out of the group, out of the array, in cycles."""
    offsets = draw(groups())
    count = int(offsets[-1])
    heads = draw(st.lists(st.integers(-2, count + 2), min_size=count, max_size=count))
    return np.array(heads, dtype=np.int64), offsets


def ancestors(heads: np.ndarray, word: int) -> list[int]:
    """The word and its ancestors, by climbing; fails on a cycle."""
    path = [word]
    while heads[path[-1]] != path[-1]:
        path.append(int(heads[path[-1]]))
        assert len(path) <= len(heads), "cycle"
    return path


def naive_repair(heads: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    after = heads.copy()
    for first, stop in pairwise(offsets):
        for word in range(first, stop):
            if not first <= after[word] < stop:
                after[word] = word
        for word in range(first, stop):  # a word that meets itself again is on a cycle
            path, at = [word], int(after[word])
            while at not in path:
                path.append(at)
                at = int(after[at])
            if at == word and len(path) > 1:
                after[min(path)] = min(path)
        roots = [w for w in range(first, stop) if after[w] == w]
        for kept in sorted(roots, key=lambda w: (heads[w] != w, w))[:1]:
            after[roots] = kept
    return after


@given(anything())
def test_repair_gives_one_tree_per_group_and_changes_only_what_is_wrong(case):
    heads, offsets = case
    after, changed = forest.repair_heads(heads, offsets)
    assert after.tolist() == naive_repair(heads, offsets).tolist()
    assert changed.tolist() == (after != heads).tolist()
    for first, stop in pairwise(offsets):
        roots = {ancestors(after, w)[-1] for w in range(first, stop)}
        assert len(roots) == (1 if stop > first else 0)
        assert all(first <= after[w] < stop for w in range(first, stop))


@given(forests(one_root=True))
def test_repair_leaves_trees_alone(case):
    heads, offsets = case
    after, changed = forest.repair_heads(heads, offsets)
    assert after.tolist() == heads.tolist() and not changed.any()


def test_repair_keeps_a_real_root_before_one_of_its_own_making():
    after, changed = forest.repair_heads([9, 1, 1], [0, 3])  # word 0 points out of its sentence
    assert after.tolist() == [1, 1, 1] and changed.tolist() == [True, False, False]


def test_repair_breaks_a_cycle_at_its_first_word():
    after, _ = forest.repair_heads([3, 2, 3, 1, 1], [0, 5])  # 1 -> 2 -> 3 -> 1
    assert after.tolist() == [3, 1, 3, 1, 1]


@given(forests(), st.data())
def test_dropping_words_hangs_children_on_the_nearest_kept_ancestor(case, data):
    heads, _ = case
    keep = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(heads), max_size=len(heads))), dtype=bool
    ).reshape(-1)
    expected = []
    for word in np.flatnonzero(keep):
        kept = [a for a in ancestors(heads, word)[1:] if keep[a]]
        expected.append(int(keep[: kept[0] if kept else word].sum()))
    assert forest.drop_words(heads, keep).tolist() == expected


@given(forests(), st.data())
def test_cut_makes_roots_of_words_whose_head_lies_outside(case, data):
    heads, _ = case
    bound = st.integers(0, len(heads))
    windows = data.draw(st.lists(st.tuples(bound, bound).map(sorted), max_size=4))
    starts, stops = [w[0] for w in windows], [w[1] for w in windows]
    got, offsets = forest.cut(heads, starts, stops)
    expected: list[int] = []
    for start, stop in windows:
        base = len(expected)
        inside = [base + h - start if start <= h < stop else None for h in heads[start:stop].tolist()]
        expected += [base + i if h is None else h for i, h in enumerate(inside)]
    assert got.tolist() == expected
    assert np.diff(offsets).tolist() == [b - a for a, b in windows]


@given(forests())
def test_intervals_say_who_is_an_ancestor(case):
    heads, offsets = case
    entry, leave = forest.depth_first(heads, offsets)
    assert entry.dtype == leave.dtype == np.int16
    for first, stop in pairwise(offsets):
        assert sorted(entry[first:stop].tolist()) == list(range(stop - first))
        for b in range(first, stop):
            climbed = set(ancestors(heads, b))
            for a in range(first, stop):
                assert (entry[a] <= entry[b] < leave[a]) == (a in climbed)


@given(forests())
def test_siblings_and_roots_are_entered_in_word_order(case):
    heads, offsets = case
    entry, _ = forest.depth_first(heads, offsets)
    for first, stop in pairwise(offsets):
        order, counter = {}, 0
        stack = [w for w in range(stop - 1, first - 1, -1) if heads[w] == w]
        while stack:
            word = stack.pop()
            order[word], counter = counter, counter + 1
            stack += [c for c in range(stop - 1, first - 1, -1) if heads[c] == word and c != word]
        assert [order[w] for w in range(first, stop)] == entry[first:stop].tolist()


def test_a_chain_as_long_as_a_row_may_be():
    count = 32_767
    heads = np.maximum(np.arange(count) - 1, 0)
    entry, leave = forest.depth_first(heads, [0, count])
    assert entry.tolist() == list(range(count)) and set(leave.tolist()) == {count}


@pytest.mark.parametrize(
    ("heads", "offsets", "message"),
    [
        ([1, 0], [0, 2], "cycle"),
        ([1, 1], [0, 1, 2], "leave their group"),
        ([-1], [0, 1], "leave their group"),
        (np.zeros(32_768), [0, 32_768], "32767"),
    ],
)
def test_depth_first_refuses_what_is_no_forest(heads, offsets, message):
    with pytest.raises(ValueError, match=message):
        forest.depth_first(heads, offsets)


@given(forests())
def test_absolute_and_relative_are_inverse(case):
    heads, offsets = case
    assert forest.absolute(forest.relative(heads, offsets), offsets).tolist() == heads.tolist()
