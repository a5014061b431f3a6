"""Answers against gold ones: hand cases, and the official scripts told as plain loops."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.evaluate.answers import (
    best_threshold,
    cmrc_scores,
    mixed_tokens,
    script_of,
    squad_scores,
    with_threshold,
)
from tests.models.evaluate import literal

WORDS = st.text(st.sampled_from("aAnThe cat's, .-B1é\u3000"), max_size=12)
MIXED = st.text(st.sampled_from("北京大学，。《》…-aB1 's.\u3000"), max_size=12)


@pytest.mark.parametrize(
    ("gold", "answer", "exact", "f1"),
    [
        (["Denver Broncos"], "The Denver Broncos!", 1, 1),
        (["Denver Broncos", "the Broncos"], "broncos", 1, 1),
        (["in the Saint Louis area"], "Saint Louis", 0, 2 * 2 / (4 + 2)),
        (["cat cat dog"], "cat cat cat", 0, 2 * 2 / (3 + 3)),
        ([], "", 1, 1),
        ([], "anything", 0, 0),
        (["yes"], "", 0, 0),
        (["the", "!"], "", 1, 1),
    ],
)
def test_squad_by_hand(gold: list[str], answer: str, exact: float, f1: float) -> None:
    assert squad_scores(gold, answer) == (exact, pytest.approx(f1))


@pytest.mark.parametrize(
    ("gold", "answer", "exact", "f1"),
    [
        (["北京大学"], "《北京大学》。", 1, 1),
        (["北京大学"], "北京的大学", 0, 2 * 2 / (4 + 5)),
        (["NBA 总冠军"], "nba总冠军", 0, 1),
        (["1990年", "九十年代"], "1990", 0, 2 * 1 / (2 + 1)),
        (["北京"], "", 0, 0),
        ([], "", 1, 1),
        ([], "北京", 0, 0),
    ],
)
def test_cmrc_by_hand(gold: list[str], answer: str, exact: float, f1: float) -> None:
    assert cmrc_scores(gold, answer) == (exact, pytest.approx(f1))


def test_longest_common_run_is_one_piece() -> None:
    """Not a subsequence: what the two have in common before and behind the gap does not add up."""
    assert cmrc_scores(["甲乙丙丁戊"], "甲乙子丁戊")[1] == pytest.approx(2 * 2 / 10)


def test_tokens_of_mixed_text() -> None:
    assert mixed_tokens("  《Star-Wars》是Lucas's片") == ["starwars", "是", "lucas", "'s", "片"]


@given(st.lists(WORDS, max_size=3), WORDS)
def test_squad_is_the_official_script(gold: list[str], answer: str) -> None:
    assert squad_scores(gold, answer) == pytest.approx(literal.squad(gold, answer))


@given(st.lists(MIXED, min_size=1, max_size=3), MIXED)
def test_cmrc_is_the_official_script(gold: list[str], answer: str) -> None:
    assert mixed_tokens(answer) == literal.segmented(answer)
    assert cmrc_scores(gold, answer) == pytest.approx(literal.cmrc(gold, answer))


def test_script_is_that_of_the_language() -> None:
    assert script_of(["北京 2010", "IBM公司在北京"]) == "cmrc"
    assert script_of(["Peking (北京)"]) == script_of([]) == "squad"


def test_thresholds_by_hand() -> None:
    scores, none_scores = [1.0, 0.5, 0.0, 0.0], [-3.0, 2.0, -1.0, 4.0]
    answerable, answered = [True, True, False, False], [True] * 4
    assert with_threshold(scores, none_scores, answerable, 0.0).tolist() == [1, 0, 0, 1]
    assert with_threshold(scores, none_scores, answerable, -2.0).tolist() == [1, 0, 1, 1]
    # Answered by and by: 2 -> 3 (the first) -> 2 -> 2.5 -> 1.5
    assert best_threshold(scores, none_scores, answerable, answered) == (3 / 4, -3.0)
    assert best_threshold([0.0, 0.0], [1.0, 2.0], [True, False], [True, True]) == (0.5, 0.0)


@settings(max_examples=200)
@given(st.data())
def test_best_threshold_is_the_official_scripts(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 12))
    scores = data.draw(st.lists(st.sampled_from([0.0, 0.25, 1 / 3, 1.0]), min_size=n, max_size=n))
    none_scores = data.draw(st.lists(st.sampled_from([-2.5, -1.0, 0.0, 0.5, 3.0]), min_size=n, max_size=n))
    answerable, answered = (data.draw(st.lists(st.booleans(), min_size=n, max_size=n)) for _ in range(2))
    scores = [
        s if has else float(not given) for s, has, given in zip(scores, answerable, answered, strict=True)
    ]
    best, at = best_threshold(scores, none_scores, answerable, answered)
    assert (best, at) == pytest.approx(literal.threshold(scores, none_scores, answerable, answered))
    if (
        len(set(none_scores)) == n and at != 0.0
    ):  # of ties the script takes some alone; 0.0 may be "none at all"
        assert with_threshold(scores, none_scores, answerable, at).mean() == pytest.approx(best)
