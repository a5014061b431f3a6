"""`treegraft evaluate`: what it writes and says, on one process and on two."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from models import checkpoint, commands
from models.evaluate import predict
from models.evaluate.evaluation import columns_of, evaluate
from models.evaluate.measure import Result
from models.evaluate.options import Options
from models.stream.open import open_split
from models.train.evaluating import run
from models.train.reading import RecipeError
from tests.models.datasets import Datasets
from tests.models.train import recipes
from tests.models.train.processes import both


def evaluated(recipe: Any, **settings: Any) -> tuple[dict[str, Any], list[dict[str, Any]], str]:
    """Metrics, predictions and what was said."""
    said = io.StringIO()
    split = settings.pop("split", None)
    run(recipe, split, settings.pop("model", None), Console(file=said, width=200), **settings)
    out = Path(recipe.out) / f"eval-{split or recipe.data.dev}"
    lines = (out / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    return (
        json.loads((out / "metrics.json").read_text()),
        [json.loads(line) for line in lines],
        said.getvalue(),
    )


def test_a_trained_model_is_evaluated(datasets: Datasets, tmp_path: Path) -> None:
    keys = {
        "task": "classify",
        "data": {"folder": str(datasets["classify"]), "dev": "dev"},
        "optim": {"steps": 2},
    }
    recipes.run(tmp_path, **keys)
    recipe = recipes.recipe(tmp_path, **keys)
    told, predictions, said = evaluated(recipe)
    assert set(told["scores"]) == {"accuracy", "macro_f1", "matthews", "loss"}
    assert told["rows"] == len(predictions) and told["split"] == "dev"
    right = sum(row["label"] == row["predicted"] for row in predictions) / len(predictions)
    assert told["scores"]["accuracy"] == pytest.approx(right)
    assert "accuracy" in said and "eval-dev/metrics.json" in said and told["classes"][0]["class"] in said
    on_train, rows, _ = evaluated(recipe, split="train")
    assert on_train["rows"] == len(rows) > len(predictions)


def test_a_run_that_stopped_is_said_to_go_on(datasets: Datasets, tmp_path: Path) -> None:
    keys = {
        "task": "classify",
        "data": {"folder": str(datasets["classify"]), "dev": "dev"},
        "optim": {"steps": 2},
    }
    out, _ = recipes.run(tmp_path, **keys)
    shutil.rmtree(out / "model")
    recipe = recipes.recipe(tmp_path, **keys)
    with pytest.raises(RecipeError, match=r"stopped after step 2, .* same training command goes on") as error:
        evaluated(recipe)
    said = str(error.value).rpartition("--model ")[2]
    assert evaluated(recipe, model=said)[0]["scores"], "what is advised works"


def test_switches_are_turned_by_name_and_what_was_not_trained_is_refused(
    datasets: Datasets, tmp_path: Path
) -> None:
    keys: dict[str, Any] = {
        "model": "kbert",
        "task": "tag",
        "data": {"folder": str(datasets["tag"]), "dev": "dev"},
        "optim": {"steps": 2},
    }
    out, _ = recipes.run(tmp_path, **keys)
    usual, _, said = evaluated(recipes.recipe(tmp_path, **keys))
    assert "options" not in said and usual["options"]["graph"] is True
    assert usual["rules"] == {"scheme": "BIO"} and "scored by scheme: BIO" in said
    without = recipes.recipe(tmp_path, **keys, options={"graph": False})
    told, _, said = evaluated(without)
    assert "options graph: true, as in training (the recipe has false; --set options.graph turns it)" in said
    assert told == usual
    told, _, said = evaluated(without, switches={"graph"})
    assert "options graph: false (true in training)" in said and told["options"]["graph"] is False
    model = checkpoint.load(out / "model", graph=False)
    rows = open_split(keys["data"]["folder"], "dev", columns_of(model))
    assert told["scores"] == pytest.approx(evaluate(model, rows).scores)
    assert told["scores"]["loss"] != usual["scores"]["loss"]
    checkpoint.save(checkpoint.load(out / "model", "kbert", "mlm"), tmp_path / "headless")
    config = json.loads((tmp_path / "headless/config.json").read_text())
    del config["treegraft"]
    (tmp_path / "headless/config.json").write_text(json.dumps(config))
    with pytest.raises(
        RecipeError, match=r"has no classifier\.bias, classifier\.weight of model 'kbert', task 'tag'"
    ):
        evaluated(recipes.recipe(tmp_path, **keys), model=str(tmp_path / "headless"))


def test_an_ablation_of_an_evaluation_leaves_the_scores_of_training_alone(
    datasets: Datasets, tmp_path: Path
) -> None:
    """The recipe asks for an option that training was told to leave: what was trained holds, not the recipe."""
    keys: dict[str, Any] = {
        "model": "kbert",
        "task": "tag",
        "data": {"folder": str(datasets["tag"]), "dev": "dev"},
        "options": {"soft_positions": True},
        "optim": {"steps": 1},
    }
    path = recipes.write(tmp_path, **keys)
    commands.finetune(path, set_=["options.soft_positions=false"])
    commands.evaluate_(path)
    usual = json.loads((tmp_path / "out/eval-dev/metrics.json").read_text())
    assert usual["options"]["soft_positions"] is False and usual["options"]["visible_matrix"] is True
    turned = ["options={visible_matrix: false}", "options.soft_positions=true"]
    commands.evaluate_(path, set_=turned, to=str(tmp_path / "turned"))
    found = json.loads((tmp_path / "turned/metrics.json").read_text())
    assert found["options"]["soft_positions"] is True and found["options"]["visible_matrix"] is False
    assert (tmp_path / "turned/predictions.jsonl").is_file()
    assert json.loads((tmp_path / "out/eval-dev/metrics.json").read_text()) == usual


@pytest.mark.parametrize("command", [commands.evaluate_, commands.generate_])
def test_a_place_that_cannot_be_is_told_before_any_work(
    datasets: Datasets, tmp_path: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: dict[str, Any] = {
        "model": "unilm",
        "task": "mlm",
        "data": {"folder": str(datasets["seq2seq"]), "dev": "train"},
        "optim": {"steps": 1},
    }
    path = recipes.write(tmp_path, **keys)
    commands.finetune(path)
    monkeypatch.setattr(checkpoint, "load", None)  # no model is loaded for it
    (tmp_path / "dangling").symlink_to("nowhere")
    for place in ("recipe.yaml", "recipe.yaml/below", "dangling", "dangling/below"):
        with pytest.raises(RecipeError, match=r"^--to: .*/(recipe\.yaml|dangling) is no folder"):
            command(path, to=str(tmp_path / place))


def test_kinds_of_rows_are_compared_with_those_that_were_in_force(datasets: Datasets, tmp_path: Path) -> None:
    """Not with the option that is for rows without a kind, which training had none of."""
    keys: dict[str, Any] = {
        "model": "unilm",
        "task": "mlm",
        "data": {"folder": str(datasets["pretrain"]), "dev": "train"},
        "kinds": {"left_to_right": 1},
        "optim": {"steps": 1},
    }
    out, _ = recipes.run(tmp_path, **keys)
    assert "in training" not in evaluated(recipes.recipe(tmp_path, **keys))[2]
    del keys["kinds"]
    same = recipes.recipe(tmp_path, **keys, options={"lm": "left_to_right"})
    assert "in training" not in evaluated(same)[2]
    for changed, told in (
        ({"options": {"lm": "bidirectional"}}, "bidirectional"),
        ({"kinds": {"left_to_right": 1, "bidirectional": 3}}, "bidirectional 0.75, left_to_right 0.25"),
    ):
        said = evaluated(recipes.recipe(tmp_path, **keys, **changed))[2]
        assert f"kinds of rows: {told} (left_to_right in training)\n" in said and "lm:" not in said
    shutil.copytree(out / "model", tmp_path / "moved/far/model")  # of which nothing is known but the option
    said = evaluated(same, model=str(tmp_path / "moved/far/model"))[2]
    assert "options lm: left_to_right (bidirectional in training)" in said


def test_a_head_of_other_labels_serves_none(datasets: Datasets, tmp_path: Path) -> None:
    """Training begins it anew, or with rows in the dataset's order; evaluation, which cannot, refuses it."""
    keys = {
        "task": "classify",
        "data": {"folder": str(datasets["classify"]), "dev": "dev"},
        "optim": {"steps": 1, "lr": 1e-9},
    }
    out, _ = recipes.run(tmp_path, **keys)
    labels = open_split(keys["data"]["folder"], "dev", ("id",)).metadata["labels"]
    trained = checkpoint.load(out / "model")
    config = json.loads((out / "model/config.json").read_text(encoding="utf-8"))

    def named(names: list[str]) -> str:
        body = config | {"id2label": dict(enumerate(names)), "label2id": {x: n for n, x in enumerate(names)}}
        (out / "model/config.json").write_text(json.dumps(body), encoding="utf-8")
        return str(out / "model")

    recipe = recipes.recipe(tmp_path, **keys)
    turned = named(labels[::-1])
    with pytest.raises(RecipeError, match=r"number 0 is .* in another order"):
        evaluated(recipe)
    after, said = recipes.run(tmp_path / "turned", **keys, init=turned)
    head = recipes.weights(after)["classifier.weight"]
    assert "begun anew" not in said and torch.allclose(head, trained.classifier.weight.flip(0), atol=1e-5)
    other = named([f"not {label}" for label in labels])
    after, said = recipes.run(tmp_path / "other", **keys, init=other)
    assert "begun anew: classifier.bias, classifier.weight" in said
    assert checkpoint.load(after / "model").config.id2label == dict(enumerate(labels))


@pytest.mark.parametrize("batch, most", [({"rows": 8, "accumulate": 4}, 2), ({"tokens": 600}, None)])
def test_batches_are_those_of_looks_and_change_no_score(
    datasets: Datasets,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    batch: dict[str, int],
    most: int | None,
) -> None:
    """A recipe that learns in pieces, for memory, or by tokens, is evaluated so."""
    sizes: list[torch.Size] = []
    in_order = predict.in_order

    def counted(*given: Any) -> Iterator[Any]:
        for one, rows in in_order(*given):
            sizes.append(one["input_ids"].shape)
            yield one, rows

    keys = {"task": "tag", "data": {"folder": str(datasets["tag"]), "dev": "train"}, "optim": {"steps": 1}}
    recipes.run(tmp_path, **keys)
    told, predictions, _ = evaluated(recipes.recipe(tmp_path, **keys, batch={"rows": 64}))
    monkeypatch.setattr(predict, "in_order", counted)
    again, same, _ = evaluated(recipes.recipe(tmp_path, **keys, batch=batch))
    assert len(sizes) > 2
    assert all(rows == most if most else rows * width <= 600 for rows, width in sizes[:-1])
    assert same == predictions and again["scores"] == pytest.approx(told["scores"], abs=1e-6)


def test_lists_of_tokens_may_have_ends_of_lines_of_two_characters(datasets: Datasets, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(datasets["pretrain"], data)
    keys = {"task": "mlm", "data": {"folder": str(data), "dev": "train"}, "optim": {"steps": 1}}
    recipes.run(tmp_path, **keys)
    predictions = evaluated(recipes.recipe(tmp_path, **keys))[1]
    (data / "tokens.txt").write_bytes((data / "tokens.txt").read_bytes().replace(b"\n", b"\r\n"))
    assert evaluated(recipes.recipe(tmp_path, **keys))[1] == predictions
    assert isinstance(predictions[0]["tokens"][0]["token"], str)


def test_two_processes_count_each_row_once(datasets: Datasets, tmp_path: Path) -> None:
    """The command itself, with rows that do not divide; windows of a question come from both."""
    keys = {
        "task": "span",
        "data": {"folder": str(datasets["span"]), "dev": "dev"},
        "optim": {"steps": 1},
        "batch": {"rows": 6},
    }
    recipes.run(tmp_path, **keys)
    told, predictions, _ = evaluated(recipes.recipe(tmp_path, **keys))
    out = tmp_path / "out/eval-dev"
    for name in ("metrics.json", "predictions.jsonl"):
        (out / name).unlink()
    done = both(None, "evaluate", str(tmp_path / "recipe.yaml"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("scores: ") == 1
    again = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    assert again["scores"] == pytest.approx(told["scores"], abs=1e-5)
    lines = (out / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    kept = ("number", "id", "predicted")
    assert [[json.loads(line)[key] for key in kept] for line in lines] == [
        [row[key] for key in kept] for row in predictions
    ]


def test_what_is_wrong_is_said(datasets: Datasets, tmp_path: Path) -> None:
    data = {"folder": str(datasets["classify"])}
    recipe = recipes.recipe(tmp_path, task="classify", data=data, optim={"steps": 1})
    with pytest.raises(RecipeError, match=r"no split is named: .* --split, one of dev, train"):
        evaluated(recipe)
    with pytest.raises(RecipeError, match="model is not there: train the recipe's model first"):
        evaluated(recipe, split="dev")
    with pytest.raises(RecipeError, match="nowhere"):
        evaluated(recipe, split="dev", model=str(tmp_path / "nowhere"))
    with pytest.raises(RecipeError, match="--model: there is no folder nowhere"):  # the hub is not asked
        evaluated(recipe, split="dev", model="nowhere")
    recipes.run(tmp_path, task="classify", data=data, optim={"steps": 1})
    tokenizer = tmp_path / "out/model/tokenizer.json"
    read = json.loads(tokenizer.read_text(encoding="utf-8"))
    words = read["model"]["vocab"]
    first, second = list(words)[10:12]
    words[first], words[second] = words[second], words[first]
    kept = tokenizer.read_bytes()
    tokenizer.write_text(json.dumps(read), encoding="utf-8")
    with pytest.raises(RecipeError, match="they were made for different tokenizers"):
        evaluated(recipe, split="dev")
    tokenizer.write_bytes(kept)
    other = recipes.recipe(
        tmp_path, task="classify", data={"folder": str(datasets["tag"])}, optim={"steps": 1}
    )
    with pytest.raises(RecipeError, match="labels"):
        evaluated(other, split="dev")
    with pytest.raises(ValueError, match="has no split 'test'; it has dev, train") as missing:
        evaluated(recipe, split="test")
    assert getattr(missing.value, "exit_code", 1) == 2, "as of other wrong settings"


def test_looks_and_evaluation_go_by_the_rules_of_the_recipe(
    datasets: Datasets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each as it is written: what `best` chooses by is what is measured afterwards."""
    data = {"folder": str(datasets["span"]), "dev": "dev"}
    rules = {"max_answer_length": 2, "script": "squad", "threshold": -3.0}
    keys = {"task": "span", "data": data, "optim": {"steps": 1}, "scores": rules}
    looked: list[Options] = []

    def looking(*arguments: Any, options: Options, **settings: Any) -> Result:
        looked.append(options)
        return evaluate(*arguments, options=options, **settings)

    monkeypatch.setattr("models.train.loop.evaluate", looking)
    out, _ = recipes.run(tmp_path, **keys)
    told, predictions, _ = evaluated(recipes.recipe(tmp_path, **keys))
    look = recipes.metrics(out)[-1]
    scores = {
        name: value for name, value in told["scores"].items() if name.startswith(("exact", "f1", "best"))
    }
    assert len(scores) >= 2
    assert {name: look[f"dev_{name}"] for name in scores} == pytest.approx(scores)
    assert all(len(row["best"][0]["text"]) <= 2 for row in predictions)  # of Chinese: a character a token
    assert looked == [Options(**rules)]

    used: list[Options] = []
    monkeypatch.setattr("models.train.evaluating.run", lambda recipe, *_: used.append(recipe.scores))
    command, path = commands.evaluate_, tmp_path / "recipe.yaml"
    command(path)
    command(path, threshold=1e-5, max_answer_length=256, script="cmrc")
    command(path, ["scores.threshold=2"], threshold=0.0)
    assert used == [
        Options(**rules),
        Options(threshold=1e-5, max_answer_length=256, script="cmrc"),
        Options(**rules | {"threshold": 0.0}),
    ]
    for wrong, says in (
        ({"script": "[no"}, r"scores\.script: Input should be 'squad' or 'cmrc', found '\[no'"),
        ({"scheme": "BIO"}, r"scores\.scheme: not heeded by task 'span'"),
        ({"threshold": float("nan")}, r"scores\.threshold: Input should be a finite number"),
    ):
        with pytest.raises(RecipeError, match=says):
            command(path, **wrong)
