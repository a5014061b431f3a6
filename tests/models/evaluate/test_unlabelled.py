"""Splits none of whose rows has a label, as of a test set: predictions with the model's names, and no score."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from models import checkpoint
from models.bert_batch import BatchError
from models.collate.collator import Collator
from models.evaluate.evaluation import columns_of, evaluate
from models.evaluate.options import Options
from models.evaluate.spans import SPAN
from models.stream.open import open_split
from tests.models.datasets import Datasets
from tests.models.evaluate.oracle import Oracle
from tests.models.evaluate.test_on_data import model_for
from tests.models.evaluate.test_spans import windows_table
from tests.models.tiny import tiny
from tests.models.train.lesser import rewritten

NONE: dict[str, Any] = {
    "label": None,
    "answers": [],
    "is_impossible": False,
    "answer_start": 0,
    "answer_stop": 1,
}
"""What rows without a label have in columns of labels."""


def bare(folder: Path, new: Path, share: int = 1) -> Path:
    """A dataset of its own without a label; with `share` 2 every second question of `span` keeps what is known of it."""

    def less(split: str, table: pa.Table, metadata: dict[str, Any]) -> pa.Table:
        metadata["labels"] = []
        questions = [name.rpartition("#")[0] for name in table["id"].to_pylist()]
        order = list(dict.fromkeys(questions))
        gone = [order.index(question) % share == 0 for question in questions]
        for at, field in enumerate(table.schema):
            rows = table[field.name].to_pylist()
            if field.name == "token_labels":
                rows = [[-100] * len(row) for row in rows]
            elif field.name in NONE:
                rows = [NONE[field.name] if less else row for less, row in zip(gone, rows, strict=True)]
            else:
                continue
            table = table.set_column(at, field, pa.array(rows, field.type))
        return table

    return rewritten(folder, new, less)


@pytest.mark.parametrize("kind", ["bert", "ambert"])
def test_classes_have_the_models_names_and_agreement_alone_is_no_score(
    datasets: Datasets, tmp_path: Path, kind: str
) -> None:
    model, split = model_for(datasets["classify"], "classify", kind)
    names = model.config.id2label = {0: "bad", 1: "good"}
    folder = bare(datasets["classify"], tmp_path / "bare")
    result = evaluate(model, open_split(str(folder), "dev", columns_of(model)))
    assert result.scores == {} and result.tables == {}
    assert result.predictions["label"].null_count == len(result.predictions) == split.rows
    assert set(result.predictions["predicted"].to_pylist()) <= set(names.values())


def test_entities_have_the_models_names(datasets: Datasets, tmp_path: Path) -> None:
    model, split = model_for(datasets["tag"], "tag")
    names = split.metadata["labels"]
    begin = next(number for number, name in enumerate(names) if name.startswith("B-"))
    folder = bare(datasets["tag"], tmp_path / "bare")
    rows = open_split(str(folder), "dev", columns_of(model))
    oracle = Oracle(model, lambda labels, batch: torch.full_like(labels, begin))
    result = evaluate(oracle, rows, options=Options(scheme="BIO"))
    assert result.scores == {} and result.tables == {} and result.rules == {"scheme": "BIO"}
    for row in result.predictions.to_pylist():
        assert set(row["predicted"]) == {names[begin]} and set(row["labels"]) == {None}
        assert [one["type"] for one in row["entities"]] == [names[begin][2:]] * len(row["predicted"])
    with pytest.raises(BatchError, match=r"scores\.scheme is BILOU, the labels are O, B-"):
        evaluate(oracle, rows, options=Options(scheme="BILOU"))


def test_questions_of_which_nothing_is_known_may_have_no_answer(datasets: Datasets, tmp_path: Path) -> None:
    model, _ = model_for(datasets["span"], "span")
    folder = bare(datasets["span"], tmp_path / "bare")
    rows = open_split(str(folder), "dev", columns_of(model))
    for threshold, given in ((-1e3, False), (1e3, True)):
        result = evaluate(model, rows, options=Options(threshold=threshold))
        assert result.scores == {}, "windows without an answer are no gold"
        assert result.rules == {"max_answer_length": 30, "threshold": threshold}
        found = result.predictions.to_pylist()
        assert {row["predicted"] != "" for row in found} == {given}
        answers, odds = result.files["answers.json"], result.files["no_answer.json"]
        assert [row["id"] for row in found] == list(answers) == list(odds)
        assert all(answers.values()), "SQuAD 2.0's script applies a threshold itself"


def test_rules_are_those_that_were_applied() -> None:
    """Where all that is known is answers, "none" is none."""
    table = windows_table(("a#0", 9.0, [(3.0, 1, 3)]), ("b#0", 9.0, [(3.0, 1, 2)]))

    def scored(answers: list[list[str]], impossible: list[bool]) -> tuple[list[str], dict[str, Any]]:
        changed = table.set_column(3, "answers", pa.array(answers, pa.list_(pa.string())))
        result = SPAN.score(changed.set_column(4, "is_impossible", pa.array(impossible)), {}, Options())
        return result.predictions["predicted"].to_pylist(), result.rules

    longest: dict[str, Any] = {"max_answer_length": 30}
    assert scored([["12"], []], [False, False]) == (["12", "1"], longest | {"script": "squad"})
    whole = longest | {"threshold": 0.0}
    assert scored([["12"], []], [False, True]) == (["", ""], whole | {"script": "squad"})
    assert scored([[], []], [False, False]) == (["", ""], whole)


def test_a_loss_of_answers_is_of_labelled_questions_alone(datasets: Datasets, tmp_path: Path) -> None:
    """Their windows without an answer are; those of the others look alike."""
    model, _ = model_for(datasets["span"], "span", split="train")
    folder = bare(datasets["span"], tmp_path / "half", share=2)
    split = open_split(str(folder), "train", columns_of(model))
    rows = split.take(np.arange(split.rows))
    known = np.array([len(answers) > 0 for answers in rows.texts["answers"].to_pylist()])
    assert 0 < known.sum() < split.rows and (rows.scalars["answer_start"][known] == 0).any()
    with torch.no_grad():
        whole = model.eval()(Collator.of(model)(split.take(np.flatnonzero(known)))).loss
    assert evaluate(model, split).scores["loss"] == pytest.approx(float(whole), rel=1e-4)


def test_a_head_without_names_names_what_it_predicts_as_its_config_does(
    datasets: Datasets, tmp_path: Path
) -> None:
    folder = bare(datasets["tag"], tmp_path / "bare")
    size = open_split(str(folder), "dev", ("id",)).metadata["vocab_size"]
    model = checkpoint.new(tiny(vocab_size=size, max_position_embeddings=512), "bert", "tag")
    result = evaluate(model, open_split(str(folder), "dev", columns_of(model)))
    assert {name for row in result.predictions["predicted"].to_pylist() for name in row} <= {
        "LABEL_0",
        "LABEL_1",
    }
