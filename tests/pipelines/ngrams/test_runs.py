"""Rows added up from many runs, of which only so many are held at a time."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.ngrams import runs
from pipelines.ngrams.count import merge
from pipelines.ngrams.runs import Rows, add_up, write_run
from pipelines.sorted_runs import list_runs, whole

KEY = st.tuples(st.integers(0, 3), st.integers(0, 5))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.dictionaries(KEY, st.integers(1, 9)), max_size=6), st.integers(1, 20))
def test_equal_keys_are_added_in_order(tmp_path_factory, lists, most):
    folder = tmp_path_factory.mktemp("runs")
    wanted: Counter[tuple[int, int]] = Counter()
    for i, rows in enumerate(lists):
        wanted.update(rows)
        keys = tuple(np.array([key[c] for key in sorted(rows)], np.uint64) for c in range(2))
        numbers = np.array([rows[key] for key in sorted(rows)], np.uint64)
        write_run(str(folder / f"{i}.run"), Rows(keys, numbers))
    found = add_up(whole(list_runs(str(folder), 2)), 2, most)
    keys = zip(*(column.tolist() for column in found.keys), strict=True)
    assert list(zip(keys, found.numbers.tolist(), strict=True)) == sorted(wanted.items())


def test_many_runs_of_few_keys_are_never_held_together(tmp_path, monkeypatch):
    """As those of the most frequent bigrams of a large corpus."""
    held: list[int] = []

    def spy(keys, counts):
        held.append(len(counts))
        return merge(keys, counts)

    keys = np.arange(100, dtype=np.uint64)
    for i in range(200):
        write_run(str(tmp_path / f"{i:03}.run"), Rows((keys,), np.ones(100, np.uint64)))
    monkeypatch.setattr(runs, "merge", spy)
    found = add_up(whole(list_runs(str(tmp_path), 1)), 1, 1000)
    assert found.numbers.tolist() == [200] * 100
    assert max(held) == 1000
