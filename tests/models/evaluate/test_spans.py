"""From logits of windows to answers: against plain loops, and by hand."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.evaluate.spans import answer_scores, best_of_windows, best_spans
from tests.models.evaluate import literal


@given(st.data())
def test_best_spans_are_those_of_a_loop(data: st.DataObject) -> None:
    windows, length = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 9))
    draw = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    start, stop = (draw.permutation(windows * length).reshape(windows, length) / 7 for _ in range(2))
    stop = stop * math.e  # so that no two sums are equal
    allowed, central = (draw.random((windows, length)) < 0.7 for _ in range(2))
    most, best = data.draw(st.integers(1, 10)), data.draw(st.integers(1, 12))
    found = best_spans(*map(torch.from_numpy, (start, stop, allowed, central)), most, best)
    for w in range(windows):
        spans = [
            (score, first, end)
            for score, first, end in zip(*(x[w].tolist() for x in found), strict=True)
            if score > -math.inf
        ]
        wanted = literal.spans(*(x[w].tolist() for x in (start, stop, allowed, central)), most, best)
        assert spans == [(pytest.approx(score), first, end) for score, first, end in wanted]


def test_equal_scores_are_in_the_order_of_the_text() -> None:
    flat = torch.zeros(1, 4)
    anywhere = torch.ones(1, 4, dtype=torch.bool)
    _, first, end = best_spans(flat, flat, anywhere, anywhere, 2, 20)
    pairs = list(zip(first[0].tolist(), end[0].tolist(), strict=True))[:7]
    assert pairs == [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (2, 4), (3, 4)]


def windows_table(*rows: tuple[str, float, list[tuple[float, int, int]]]) -> pa.Table:
    text = "0123456789" * 10
    return pa.table(
        {
            "number": list(range(len(rows))),
            "id": [name for name, _, _ in rows],
            "text": ["?"] * len(rows),
            "answers": [["1"]] * len(rows),
            "is_impossible": [False] * len(rows),
            "none": pa.array([none for _, none, _ in rows], pa.float32()),
            "scores": pa.array([[s for s, _, _ in spans] for *_, spans in rows], pa.list_(pa.float32())),
            "starts": pa.array([[a for _, a, _ in spans] for *_, spans in rows], pa.list_(pa.int32())),
            "stops": pa.array([[b for *_, b in spans] for *_, spans in rows], pa.list_(pa.int32())),
            "texts": pa.array(
                [[text[a:b] for _, a, b in spans] for *_, spans in rows], pa.list_(pa.string())
            ),
        }
    )


def test_the_best_window_and_the_lowest_none() -> None:
    table = windows_table(
        ("q#1#0", 5.0, [(3.0, 1, 3), (1.0, 0, 1)]),
        ("q#1#1", 2.5, [(4.0, 12, 15), (3.0, 11, 12), (2.5, 1, 3)]),
        ("r#0", 1.0, []),
        ("r#0#0", 7.0, [(1.0, 4, 5)]),
    )
    got = best_of_windows(table, 4).to_pylist()
    assert [row["id"] for row in got] == ["q#1", "r", "r#0"]
    assert got[0]["answer"] == "234"
    assert got[0]["none_score"] == pytest.approx(2.5 - 4)
    assert [(s["text"], s["score"], s["start"], s["stop"]) for s in got[0]["best"]] == [
        ("234", 4, 12, 15),
        ("12", 3, 1, 3),
        ("1", 3, 11, 12),
        ("0", 1, 0, 1),
    ]
    assert (got[1]["answer"], got[1]["none_score"], got[1]["best"]) == ("", math.inf, [])
    assert (got[2]["answer"], got[2]["none_score"], got[2]["number"]) == ("4", 6, 3)


def test_two_questions_of_one_name_from_joined_datasets_are_two() -> None:
    table = windows_table(
        ("q#0", 0.0, [(1.0, 1, 2)]), ("q#0", 0.0, [(2.0, 2, 3)]), ("q#1", 0.0, [(9.0, 3, 4)])
    )
    assert [row["answer"] for row in best_of_windows(table, 1).to_pylist()] == ["1", "3"]


def test_scores_without_and_with_unanswerable_questions() -> None:
    assert answer_scores([["a b"], ["c"]], ["a b", "d"], [9, 9], "squad") == {"exact": 0.5, "f1": 0.5}
    gold, answers, none_scores = [["cat"], ["dog days"], [], []], ["cat", "dog", "x", "y"], [-2, -1, 1, -3]
    assert answer_scores(gold, answers, none_scores, "squad") == pytest.approx(
        {
            "unanswerable": 0.5,
            "exact": (1 + 0 + 1 + 0) / 4,
            "answerable_exact": 0.5,
            "best_exact": 0.5,  # 2 without any answer; 1, 2, 2, 1 as they are answered
            "best_exact_threshold": 0,
            "f1": (1 + 2 / 3 + 1 + 0) / 4,
            "answerable_f1": (1 + 2 / 3) / 2,
            "best_f1": (2 - 1 + 1 + 2 / 3) / 4,
            "best_f1_threshold": -1,
        }
    )
    silent = answer_scores(gold, answers, none_scores, "squad", threshold=-10)
    assert (silent["exact"], silent["answerable_f1"], silent["unanswerable"]) == (0.5, 0, 1)
    assert answer_scores([], [], [], "squad") == {}
