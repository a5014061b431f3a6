"""Rows of different lengths in flat arrays."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kg.tree.ragged import Slots, expand, group_starts, places


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 4)), max_size=8))
def test_expand_is_ranges_one_after_another(ranges: list[tuple[int, int]]) -> None:
    starts, lengths = np.array(ranges, np.int64).reshape(-1, 2).T
    assert expand(starts, lengths).tolist() == [k for s, n in ranges for k in range(s, s + n)]


@given(st.lists(st.integers(0, 5)).map(sorted))
def test_places_count_within_a_group(owner: list[int]) -> None:
    first = [owner.index(k) for k in owner]
    assert group_starts(np.array(owner, np.int64)).tolist() == first
    assert places(np.array(owner, np.int64)).tolist() == [k - f for k, f in enumerate(first)]


@given(st.lists(st.dictionaries(st.integers(-3, 12), st.integers(0, 100)), max_size=6))
def test_slots_are_a_dictionary(updates: list[dict[int, int]]) -> None:
    slots, expected = Slots(), {}
    everything = np.arange(-5, 15)
    for update in updates:
        keys = np.array(sorted(update), np.int64)
        slots.put(keys, np.array([update[k] for k in keys.tolist()], np.int64))
        expected |= update
        assert slots.find(everything).tolist() == [expected.get(k, -1) for k in everything.tolist()]
        assert len(slots) == len(expected)
