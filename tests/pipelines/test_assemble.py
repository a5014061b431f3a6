from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipelines.encode.assemble import NONE, Cutter, classify_rows, longest_first, tag_rows
from pipelines.encode.tokenizer import Tokens
from tests.pipelines.spans import spans, tokens_of


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1), st.integers(2, 60))
def test_longest_first_is_one_token_at_a_time(pairs: list[tuple[int, int]], budget: int) -> None:
    a, b = longest_first([p[0] for p in pairs], [p[1] for p in pairs], budget)
    for i, (left, right) in enumerate(pairs):
        while left + right > budget:  # truncate_seq_pair
            if left > right:
                left -= 1
            else:
                right -= 1
        assert (a[i], b[i]) == (left, right)


def test_classify_cuts_single_texts_at_the_end() -> None:
    tokens = tokens_of(["abcdefghij", "abc"])
    rows = classify_rows(tokens, np.array([[0, NONE], [1, NONE]]), 8, Cutter(["abcdefghij", "abc"], tokens))
    assert spans(rows) == [(0, NONE, 0, 6, 0, 0, 0), (1, NONE, 10, 13, 0, 0, 0)]
    assert rows.counters["truncated_rows"] == 1
    assert rows.lengths().tolist() == [8, 5]


@given(st.lists(st.tuples(st.integers(1, 30), st.none() | st.integers(1, 30)), min_size=1, max_size=8))
def test_classify_cuts_pairs_longest_first(sizes: list[tuple[int, int | None]]) -> None:
    texts = ["x" * a for a, _ in sizes] + ["y" * (b or 0) for _, b in sizes]
    tokens = tokens_of(texts)
    pairs = np.array([[i, NONE if b is None else len(sizes) + i] for i, (_, b) in enumerate(sizes)])
    rows = classify_rows(tokens, pairs, 16, Cutter(texts, tokens))
    assert (rows.lengths() <= 16).all()
    for i, (a, b) in enumerate(sizes):
        lengths = (rows.stops - rows.starts)[i].tolist()
        want = [min(a, 14), 0] if b is None else [int(n) for n in longest_first(a, b, 13)]
        assert lengths == want
        assert rows.starts[i, 0] == tokens.offsets[i]


def test_c27_truncation_keeps_clusters_whole() -> None:
    text = "abc👨‍👩‍👧d"  # a token per character: the family is five of them
    tokens = tokens_of([text])
    for max_length, kept in ((5, 3), (6, 3), (9, 3), (10, 8), (11, 9)):
        rows = classify_rows(tokens, np.array([[0, NONE]]), max_length, Cutter([text], tokens))
        assert rows.stops[0, 0] == kept
    rows = classify_rows(
        tokens_of(["👨‍👩‍👧"]), np.array([[0, NONE]]), 5, Cutter(["👨‍👩‍👧"], tokens_of(["👨‍👩‍👧"]))
    )
    assert rows.stops[0, 0] == 3  # rather cut than empty


def test_c27_pieces_of_one_character_stay_together() -> None:
    tokens = Tokens(
        np.full(5, 9, np.int32),
        np.array([0, 1, 1, 1, 2], np.int32),
        np.array([1, 2, 2, 2, 3], np.int32),
        np.array([0, 5]),
    )
    rows = classify_rows(tokens, np.array([[0, NONE]]), 5, Cutter(["a한b"], tokens))
    assert rows.stops[0, 0] == 1


def tag(units: list[int], max_length: int, text: str | None = None) -> tuple[int, Counter[str]]:
    text = text or "x" * sum(units)
    tokens = tokens_of([text])
    unit = np.repeat(np.arange(len(units)), units)
    rows = tag_rows(tokens, unit, np.array([0]), max_length, Cutter([text], tokens))
    return int(rows.stops[0, 0]), rows.counters


def test_tag_cuts_after_a_whole_source_token() -> None:
    assert tag([2, 3, 2], 9) == (7, Counter(truncated_rows=0, labels_truncated=0))
    assert tag([2, 3, 2], 8) == (5, Counter(truncated_rows=1, labels_truncated=1))
    assert tag([2, 3, 2], 6) == (2, Counter(truncated_rows=1, labels_truncated=2))
    # A source token that does not fit by itself is cut, and keeps its label.
    assert tag([9, 1], 8) == (6, Counter(truncated_rows=1, labels_truncated=1))


def test_c27_tag_keeps_clusters_of_several_source_tokens() -> None:
    assert tag([1, 1, 1, 1], 5, "ab👍🏽")[0] == 2


def test_tag_counts_source_tokens_over_the_block() -> None:
    texts = ["xx", "xxxxx"]
    tokens = tokens_of(texts)
    rows = tag_rows(tokens, np.array([0, 1, 2, 3, 3, 4, 5]), np.array([0, 1]), 5, Cutter(texts, tokens))
    assert rows.stops[:, 0].tolist() == [2, 5]
    assert rows.counters["labels_truncated"] == 2
