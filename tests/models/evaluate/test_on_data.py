"""Evaluation end to end, on datasets that the pipelines made of the samples."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from corpora.trunk import decode_tags
from models import checkpoint
from models.bert import Bert
from models.bert_batch import BatchError
from models.collate.buckets import Buckets
from models.collate.collator import Collator
from models.collate.mlm import Masking
from models.evaluate.evaluation import MEASURES, columns_of, evaluate, write
from models.evaluate.measure import Result
from models.evaluate.options import Options
from models.evaluate.predict import in_order
from models.evaluate.spans import SPAN
from models.ranks import Ranks
from models.stream.open import open_split
from models.stream.shards import Split
from tests.models.datasets import SAMPLES, Datasets
from tests.models.evaluate import literal
from tests.models.evaluate.oracle import Oracle
from tests.models.evaluate.test_spans import windows_table
from tests.models.tiny import tiny

VIEWS = [
    ("classify", "bert"),
    ("classify", "kbert"),
    ("classify", "ambert"),
    ("tag", "bert"),
    ("tag", "kbert"),
    ("tag", "sgnet"),
    ("tag", "ambert"),
    ("span", "bert"),
    ("span", "sgnet"),
    ("span", "ambert"),
    ("choice", "bert"),
    ("choice", "kbert"),
    ("choice", "ambert"),
]


def model_for(folder: Path, task: str, kind: str = "bert", split: str = "dev") -> tuple[Bert, Split]:
    """A new model for a dataset, and a split to evaluate it on."""
    metadata = open_split(str(folder), split, ("id",)).metadata
    config = tiny(vocab_size=metadata["vocab_size"], max_position_embeddings=512)
    options = {"coarse_vocab_size": metadata["coarse_vocab_size"]} if kind == "ambert" else {}
    torch.manual_seed(0)
    model = checkpoint.new(config, kind, task, labels=metadata["labels"] or None, **options)
    return model, open_split(str(folder), split, columns_of(model))


@pytest.mark.parametrize(("task", "kind"), [view for view in VIEWS if view[0] != "span"])
def test_perfect_predictions_score_one(datasets: Datasets, task: str, kind: str) -> None:
    model, split = model_for(datasets[task], task, kind)
    result = evaluate(Oracle(model), split)
    assert result.scores["accuracy"] == 1
    assert len(result.predictions) == split.rows
    if task == "tag":
        assert result.scores["entity_f1"] == result.scores["entity_recall"] == 1
        assert all(row["f1"] == 1 for row in result.tables["types"])


def test_batches_are_looked_at_before_they_leave_for_a_device(datasets: Datasets) -> None:
    """There an id without an embedding would stop it with an assert, and looking would be waiting."""
    model, split = model_for(datasets["tag"], "tag")
    collator, there = Collator.of(model), model.to("meta")
    for batch, rows in in_order(there, split, collator, 4, None, Ranks(), 0):
        assert all(tensor.device.type == "meta" for tensor in batch.values()) and len(rows) == 4
    there.config.vocab_size = 5
    with pytest.raises(BatchError, match="input_ids holds"):
        next(in_order(there, split, collator, 4, None, Ranks(), 0))


@pytest.mark.parametrize("kind", ["bert", "sgnet", "ambert"])
def test_gold_spans_are_exact_but_where_the_answer_was_cut(datasets: Datasets, kind: str) -> None:
    for name in ("train", "dev"):
        model, split = model_for(datasets["span"], "span", kind, name)
        result = evaluate(Oracle(model), split, options=Options(max_answer_length=64))
        rows = open_split(str(datasets["span"]), name, ("id", "answer_start", "is_impossible")).take(
            np.arange(split.rows)
        )
        found = {}
        for identity, start in zip(rows.texts["id"].to_pylist(), rows.scalars["answer_start"], strict=True):
            question = identity.rpartition("#")[0]
            found[question] = found.get(question, False) or start > 0
        assert len(result.predictions) == len(found) < split.rows or split.rows == len(found)
        assert result.scores["exact"] == pytest.approx(np.mean(list(found.values())))
        for row in result.predictions.to_pylist():
            if found[row["id"]]:
                assert row["predicted"] in row["answers"]
                best = row["best"][0]
                assert best["text"] == row["predicted"] and best["stop"] - best["start"] == len(best["text"])


@pytest.mark.parametrize(("task", "kind"), VIEWS)
def test_no_batching_changes_a_score(datasets: Datasets, task: str, kind: str) -> None:
    model, split = model_for(datasets[task], task, kind)
    whole = evaluate(model.train(), split, batch_size=split.rows)
    assert model.training, "the model is left as it was"
    assert whole.scores["loss"] > 0
    grouping = Buckets(1024, 0, column=Collator.of(model).length_column)
    for settings in ({"batch_size": 3}, {"grouping": grouping}, {"batch_size": 2, "workers": 1}):
        other = evaluate(model, split, **settings)
        assert other.scores == pytest.approx(whole.scores, abs=1e-5)
        assert other.predictions["id"].to_pylist() == whole.predictions["id"].to_pylist()


def test_known_wrong_classes(datasets: Datasets) -> None:
    """Every first row of a dataset's is given the other class."""
    model, split = model_for(datasets["classify"], "classify")
    gold = split.take(np.arange(split.rows)).scalars["label"]
    result = evaluate(Oracle(model, lambda labels, batch: (labels + (batch["number"] == 0)) % 2), split)
    assert result.scores["accuracy"] == pytest.approx(1 - 1 / split.rows)
    first, second = result.predictions.slice(0, 2).to_pylist()
    names = split.metadata["labels"]
    assert (first["label"], first["predicted"]) == (names[gold[0]], names[1 - gold[0]])
    assert second["label"] == second["predicted"] == names[gold[1]]
    assert {row["class"] for row in result.tables["classes"]} == set(names)


def test_predicted_entities_are_the_texts_own(datasets: Datasets) -> None:
    """In the tree view: what stands in a row's text, whatever branches the row has."""
    model, split = model_for(datasets["tag"], "tag", "kbert")
    names = split.metadata["labels"]
    outside = names.index("O")
    assert (
        split.lengths(np.arange(split.rows), "tree_ids") > split.lengths(np.arange(split.rows), "char_starts")
    ).any()

    def only_on_branches(labels: torch.Tensor, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        begin = next(i for i, name in enumerate(names) if name.startswith("B"))
        return torch.where(batch["branch"] > 0, begin, outside)

    result = evaluate(Oracle(model, only_on_branches), split)
    assert not any(result.predictions["entities"].to_pylist()), (
        "tokens of the graph are no entities of the text"
    )
    perfect = evaluate(Oracle(model), split).predictions.to_pylist()
    rows = open_split(
        str(datasets["tag"]),
        "dev",
        ("text", "char_starts", "char_stops", "token_labels", "tag_starts", "tag_stops"),
    ).take(np.arange(split.rows))
    for number, row in enumerate(perfect):
        one = {"text": rows.texts["text"][number].as_py()}
        for name, (values, offsets) in rows.lists.items():
            one[name] = values[offsets[number] : offsets[number + 1]]
        tags = decode_tags(one, one["token_labels"])
        assert [names[tag.label] for tag in tags] == row["predicted"] == row["labels"]
        assert [(tag.start, tag.stop) for tag in tags] == list(zip(row["starts"], row["stops"], strict=True))
        for entity in row["entities"]:
            assert entity["text"] == row["text"][entity["start"] : entity["stop"]]


def test_masked_tokens_and_next_sentences(datasets: Datasets) -> None:
    model, _ = model_for(datasets["pretrain"], "pretrain", split="train")
    split = open_split(str(datasets["pretrain"]), "train", columns_of(model))
    collator = Collator.of(model, steps=[Masking.of(split.metadata, seed=3)])
    result = evaluate(model, split, collator)
    assert 0 <= result.scores["masked_accuracy"] < 0.5 and 0 <= result.scores["next_accuracy"] <= 1
    losses = [result.scores[name] for name in ("loss", "loss_mlm", "loss_nsp")]
    assert losses[0] == pytest.approx(losses[1] + losses[2])
    assert result.predictions["masked"].to_numpy().sum() > split.rows
    with pytest.raises(BatchError, match=r"evaluation of masked tokens .* reads 'mlm_labels'"):
        evaluate(model, split)


def test_what_is_written(datasets: Datasets, tmp_path: Path) -> None:
    model, split = model_for(datasets["span"], "span")
    result = evaluate(model, split)
    result.scores["odd"] = float("nan")
    write(result, str(tmp_path / "out"), {"split": "dev"})
    told = json.loads((tmp_path / "out/metrics.json").read_text(encoding="utf-8"))
    assert told["split"] == "dev" and told["scores"]["odd"] is None
    assert told["rules"] == {"max_answer_length": 30, "script": "cmrc"}, "by the language; each has an answer"
    assert told["scores"]["f1"] == result.scores["f1"]
    lines = (tmp_path / "out/predictions.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["predicted"] for line in lines] == result.predictions["predicted"].to_pylist()


def test_cmrcs_script_finds_the_same_scores(datasets: Datasets, tmp_path: Path) -> None:
    """Every third answer begins a token too early. No question is without an answer, so no file says so."""
    model, split = model_for(datasets["span"], "span", split="train")

    def early(start: torch.Tensor, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return start - ((start > 1) & (batch["number"] % 3 == 0)).long()

    result = evaluate(Oracle(model, early), split, options=Options(max_answer_length=64))
    write(result, str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {"metrics.json", "predictions.jsonl", "answers.json"}
    texts = json.loads((SAMPLES / "zh/questions.train.json").read_text(encoding="utf-8"))
    dataset = [  # the sample's layout is that of CMRC's trial set, the script reads that of the others
        {
            "paragraphs": [
                {
                    "qas": [
                        {"id": qa["query_id"], "answers": [{"text": x} for x in qa["answers"]]}
                        for qa in text["qas"]
                    ]
                }
            ]
        }
        for text in texts
    ]
    answers = json.loads((tmp_path / "answers.json").read_text(encoding="utf-8"))
    found = literal.cmrc_script(dataset, answers)
    assert found["SKIP"] == 0 and found["TOTAL"] == len(answers) == len(result.predictions)
    assert result.scores["exact"] == pytest.approx(found["EM"] / 100)
    assert result.scores["f1"] == pytest.approx(found["F1"] / 100)
    assert 0.4 < result.scores["exact"] < result.scores["f1"] < 1


def test_questions_without_any_answer_have_a_finite_score(tmp_path: Path) -> None:
    """JSON has no infinity, and the script of SQuAD 2.0 sorts by these."""
    table = windows_table(("a#0", 1.0, [(3.0, 1, 3)]), ("b#0", 1.0, []))
    table = table.set_column(3, "answers", pa.array([["12"], []], pa.list_(pa.string())))
    table = table.set_column(4, "is_impossible", pa.array([False, True]))
    write(SPAN.score(table, {}, Options()), str(tmp_path))
    assert json.loads((tmp_path / "answers.json").read_text()) == {"a": "12", "b": ""}
    odds = json.loads((tmp_path / "no_answer.json").read_text())
    assert odds["a"] == -2 and 1e300 < odds["b"] < math.inf


def test_nothing_of_an_earlier_evaluation_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file for official scripts that this one does not have, or one half of two evaluations."""
    written = {"predictions.jsonl", "metrics.json"}
    (tmp_path / "mine.txt").touch()
    table = pa.table({"number": [0]})
    write(Result({}, table, files={"answers.json": {}, "no_answer.json": {}}), str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {
        *written,
        "answers.json",
        "no_answer.json",
        "mine.txt",
    }
    write(Result({"f1": 1.0}, table, files={"answers.json": {}}), str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {*written, "answers.json", "mine.txt"}
    write(Result({}, table), str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {*written, "mine.txt"}
    with pytest.raises(TypeError):
        write(Result({}, table, files={"answers.json": {"a": object()}}), str(tmp_path))
    assert not (tmp_path / "metrics.json").exists(), "of which rows are no longer there"


def test_what_is_wrong_is_said(datasets: Datasets) -> None:
    model, _ = model_for(datasets["classify"], "classify")
    bare = open_split(str(datasets["classify"]), "dev", model.columns)
    with pytest.raises(BatchError, match="evaluation needs column 'id'"):
        evaluate(model, bare)
    with pytest.raises(BatchError, match="rows of task classify, the dataset's are of 'tag'"):
        evaluate(model, open_split(str(datasets["tag"]), "dev", ("id",)))
    other = checkpoint.new(tiny(), "bert", "none")
    with pytest.raises(BatchError, match="task 'none' is not measured; tasks that are: mlm"):
        columns_of(other)
    assert set(MEASURES) == set(Bert.tasks) - {"none"}
