from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipelines.dedup.numbering import Order, block_of, first_number, numbers, record_of
from pipelines.dedup.report import losses, size_histogram
from pipelines.dedup.resolve import Ties, Verdicts, resolve
from tests.pipelines.dedup import slow

N = 16
CASE = st.tuples(
    st.sets(
        st.tuples(st.integers(0, N - 1), st.integers(0, N - 1)).filter(lambda p: p[0] < p[1]), max_size=14
    ),
    st.dictionaries(st.integers(1, N - 1), st.integers(0, N - 1), max_size=6),
    st.integers(0, N),
)


def u64(values: list[int]) -> np.ndarray:
    return np.array(values, np.uint64)


@given(CASE, st.booleans())
def test_what_goes_and_for_what(case: tuple, within: bool) -> None:
    found, ties, first_own = case
    # A tied document is not compared: it has no pairs, and what stands in for it is not tied.
    ties = {other: first for other, first in ties.items() if first < other and first not in ties}
    ties = {other: first for other, first in ties.items() if (first < first_own) == (other < first_own)}
    pairs = sorted(p for p in found if not set(p) & set(ties))
    if not within:
        pairs = [p for p in pairs if p[0] < first_own <= p[1]]
    left, right = u64([a for a, _ in pairs]), u64([b for _, b in pairs])
    others = sorted(ties)
    verdicts = resolve(
        [(left[:3], right[:3]), (left[3:], right[3:])],
        Ties(u64([ties[o] for o in others]), u64(others)),
        first_own,
        within=within,
    )
    expected = {}
    if within:
        labels = enumerate(slow.clusters(N, [*pairs, *((f, o) for o, f in ties.items())]))
        expected = {member: first for member, first in labels if first != member >= first_own}
    else:
        for a, b in reversed(pairs):
            expected[b] = min(a, expected.get(b, N))
        expected.update({o: expected[f] for o, f in ties.items() if f in expected})
    assert dict(zip(verdicts.dropped.tolist(), verdicts.kept.tolist(), strict=True)) == expected
    assert verdicts.dropped.tolist() == sorted(expected)
    assert verdicts.signed.tolist() == [ties.get(d, d) for d in sorted(expected)]


def test_against_another_corpus_what_has_the_same_text_goes_for_the_same_one() -> None:
    verdicts = resolve([(u64([1, 2]), u64([6, 5]))], Ties(u64([5, 7]), u64([8, 9])), 4, within=False)
    assert [column.tolist() for column in verdicts] == [[5, 6, 8], [2, 1, 2], [5, 6, 5]]


def test_nothing_to_resolve() -> None:
    empty = u64([])
    for within in (True, False):
        assert [len(c) for c in resolve([], Ties(empty, empty), 0, within=within)] == [0, 0, 0]
    assert size_histogram(Verdicts(empty, empty, empty)) == {}


def test_numbers_rise_with_the_order_of_the_corpus() -> None:
    order = Order((("against", 2), ("train", 3), ("dev", 1)), 2)
    assert [order.first_block(s) for s in ("against", "train", "dev")] == [0, 2, 5]
    assert [order.shard_name(p) for p in (0, 4, 5)] == [
        "against-00000-of-00002.arrow",
        "train-00002-of-00003.arrow",
        "dev-00000-of-00001.arrow",
    ]
    assert order.first_own == first_number(2)
    found = np.concatenate([numbers(p, np.array([0, 7, 2**39])) for p in range(6)])
    assert (np.diff(found.astype(object)) > 0).all()
    assert block_of(found).tolist() == [p for p in range(6) for _ in range(3)]
    assert record_of(found).tolist() == [0, 7, 2**39] * 6
    verdicts = Verdicts(found[[7, 8, 12, 15]], found[:4], found[:4])
    assert losses(verdicts, order) == {"train": [2, 0, 1], "dev": [1]}


def test_sizes_of_clusters_count_what_is_kept() -> None:
    kept = u64([1, 2, 2, 3, 3, 3, 4, 4, 4, 4, *[5] * 16])
    assert size_histogram(Verdicts(kept, kept, kept)) == {"2": 1, "3-4": 2, "5-8": 1, "17-32": 1}
