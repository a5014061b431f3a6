"""Classes, values and choices: known scores of known predictions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from models.evaluate.choices import best_choices
from models.evaluate.classes import class_scores, class_table, one_class, value_scores


def test_perfect_and_known_classes() -> None:
    assert class_scores([0, 1, 2], [0, 1, 2]) == {"accuracy": 1, "macro_f1": 1, "matthews": pytest.approx(1)}
    # Right 6 of 8 positive, 3 of 4 negative.
    gold, predicted = [1] * 8 + [0] * 4, [1] * 6 + [0] * 2 + [0] * 3 + [1]
    scores = class_scores(gold, predicted)
    assert scores["accuracy"] == 9 / 12
    assert scores["macro_f1"] == pytest.approx((2 * 6 / (7 + 8) + 2 * 3 / (5 + 4)) / 2)
    assert scores["matthews"] == pytest.approx((6 * 3 - 1 * 2) / math.sqrt(7 * 8 * 4 * 5))


def test_rows_without_a_label_do_not_count() -> None:
    assert class_scores([0, -100, 1], [0, 1, 1])["accuracy"] == 1
    assert class_scores([-100], [0]) == {}
    assert class_table([-100], [0], ["a"]) == []


def test_one_class_alone() -> None:
    assert class_scores([1, 1], [1, 1]) == {"accuracy": 1, "macro_f1": 1, "matthews": 0}
    assert class_scores([1, 1], [0, 0]) == {"accuracy": 0, "macro_f1": 0, "matthews": 0}


def test_one_class_for_all_rows_is_told_of() -> None:
    assert one_class([0, 1, -100], [1, 1, 0], ["bad", "good"]) == ["all 2 rows are predicted as good"]
    assert one_class([1, 1], [1, 1], ["bad", "good"]) == [], "it is right"
    assert one_class([0, 1], [0, 1], ["bad", "good"]) == one_class([-100], [0], ["bad"]) == []


def test_table_of_classes() -> None:
    table = class_table([0, 0, 1, 1, 1], [0, 1, 1, 1, 0], ["bad", "good", "never"])
    assert table[0] == {"class": "bad", "precision": 0.5, "recall": 0.5, "f1": 0.5, "gold": 2, "predicted": 2}
    assert table[1]["precision"] == table[1]["recall"] == pytest.approx(2 / 3)
    assert table[2] == {"class": "never", "precision": 0, "recall": 0, "f1": 0, "gold": 0, "predicted": 0}


def test_values_by_hand() -> None:
    perfect = value_scores([1, 2, 3], [1, 2, 3])
    assert perfect == {"mean_squared_error": 0, "pearson": pytest.approx(1), "spearman": pytest.approx(1)}
    rising = value_scores([1, 2, 3, math.nan], [1, 10, 100, 7])
    assert rising["spearman"] == pytest.approx(1)
    # Deviations -1 0 1 and -36 -27 63.
    assert rising["pearson"] == pytest.approx(99 / math.sqrt(2 * (36**2 + 27**2 + 63**2)))
    assert rising["mean_squared_error"] == pytest.approx((0 + 8**2 + 97**2) / 3)
    assert value_scores([1, 2], [2, 1])["pearson"] == pytest.approx(-1)


def test_values_without_an_order() -> None:
    assert value_scores([1, 2], [5, 5]) == {"mean_squared_error": 12.5, "pearson": 0, "spearman": 0}
    assert value_scores([1], [1]) == {"mean_squared_error": 0}
    assert value_scores([math.nan], [1]) == {}


def test_best_choice_of_each_question() -> None:
    scores = np.array([-5, -4, -6, 1, 1, 0.5], np.float32)
    assert best_choices(scores, np.array([0, 3, 5, 6])).tolist() == [1, 0, 0]
