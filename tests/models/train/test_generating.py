"""`treegraft generate`: the texts of a split, in its order, whatever batches; their scores; what it refuses."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from rich.console import Console

from models import checkpoint
from models.collate.collator import Collator
from models.evaluate.texts import text_scores
from models.generate import split as split_of
from models.generate.search import Generated, Search, generate
from models.generate.spelling import Speller
from models.stream.loader import Loader
from models.stream.open import open_split
from models.train.evaluating import run as run_evaluate
from models.train.generating import run
from models.train.reading import RecipeError
from models.train.recipe import BatchSize, Recipe
from models.unilm import UniLM
from tests.integration.running import preprocess
from tests.models.datasets import SAMPLES, Datasets
from tests.models.tiny import tiny
from tests.models.train import recipes
from tests.models.train.processes import both

Told = tuple[dict[str, Any], list[dict[str, Any]], str]


def generated(recipe: Recipe, split: str = "train", model: str | None = None, **settings: Any) -> Told:
    """Metrics, rows and what was said."""
    said = io.StringIO()
    run(recipe, split, model, settings, *(Console(file=said, width=200) for _ in range(2)))
    out = Path(recipe.out) / f"generate-{split}"
    lines = (out / "generated.jsonl").read_text(encoding="utf-8").splitlines()
    return json.loads((out / "metrics.json").read_text()), [json.loads(x) for x in lines], said.getvalue()


def untrained(folder: Path, data: Path, kind: str = "unilm", task: str = "mlm", **changes: Any) -> Recipe:
    """A recipe whose model, with random weights, is there already."""
    torch.manual_seed(0)
    vocabulary = open_split(str(data), "train").metadata["vocab_size"]
    config = tiny(vocab_size=vocabulary, **{"max_position_embeddings": 128, **changes})
    options = {"types": "by_kind"} if kind == "unilm" else {}
    made = checkpoint.new(config, kind, task, labels=["a", "b"] if task == "classify" else None, **options)
    checkpoint.save(made, folder / "out/model")
    return recipes.recipe(
        folder, model="unilm", task="mlm", data={"folder": str(data)}, optim={"steps": 1}, batch={"rows": 4}
    )


Preprocessed = Callable[..., Path]


@pytest.fixture
def preprocessed(tmp_path: Path) -> Preprocessed:
    """Datasets of the sample of summaries, with another config."""

    def made(name: str, split: str = "train", **changes: Any) -> Path:
        config: dict[str, Any] = yaml.safe_load((SAMPLES / "zh-summaries.yaml").read_text(encoding="utf-8"))
        config["input"]["files"] = {split: str(SAMPLES / "zh/summaries.jsonl")}
        config["encode"] = {"tokenizer": str(SAMPLES / "vocab.txt"), "max_length": 128, "columns": []}
        for key, value in changes.items():
            config[key] = {**config[key], **value} if isinstance(value, dict) else value
        config["input"] = {key: value for key, value in config["input"].items() if value is not None}
        return preprocess(tmp_path, name, config)

    return made


def test_texts_are_those_of_each_row_alone_whatever_the_batches(
    datasets: Datasets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = datasets["seq2seq"]
    recipe = untrained(tmp_path, data)
    how: dict[str, Any] = {"beam_size": 3, "n_best": 2, "length_penalty": 0.7, "max_target_length": 9}
    how |= {"min_length": 2, "no_repeat_ngram_size": 2}
    told, rows, _ = generated(recipe, **how)
    assert [row["number"] for row in rows] == list(range(told["rows"])) and told["rows"] > 4
    assert {**told, **how} == told and told["references"] == told["rows"] and told["targets_cut"] == 0

    model = checkpoint.load(str(recipe.out) + "/model")
    assert isinstance(model, UniLM)
    split = open_split(str(data), "train", ("input_ids", "token_type_ids"))
    speller = Speller((data / "tokenizer.json").read_bytes())
    search = Search.of(split.metadata["special_ids"], **how)
    alone = Loader(split, 1, order="sequential", collate=Collator(columns=split.columns))
    for row, batch in zip(rows, alone, strict=True):
        found = generate(model, batch, search)
        texts = [one["text"] for one in row["hypotheses"]]
        assert texts == [speller.text(tokens) for tokens in found.lists()[0]] and len(set(texts)) == 2
        scores = torch.tensor([[one["score"] for one in row["hypotheses"]]])
        torch.testing.assert_close(scores, found.score, atol=1e-4, rtol=0)

    sizes: list[torch.Size] = []
    search_of = split_of.generate

    def counted(model: UniLM, batch: dict[str, torch.Tensor], search: Search) -> Generated:
        sizes.append(batch["input_ids"].shape)
        return search_of(model, batch, search)

    monkeypatch.setattr(split_of, "generate", counted)
    for size, within in (
        ({"rows": 1}, lambda rows, width: rows == 1),
        ({"rows": 6, "accumulate": 2}, lambda rows, width: rows <= 3),
        ({"rows": 64}, lambda rows, width: True),
        ({"tokens": 512, "accumulate": 2}, lambda rows, width: rows * width <= 256),
    ):
        sizes.clear()
        other = recipe.model_copy(update={"batch": BatchSize(**size)})
        again = generated(other, **how)[1]
        assert sizes and all(within(*shape) for shape in sizes)
        assert [[x["text"] for x in row["hypotheses"]] for row in again] == [
            [x["text"] for x in row["hypotheses"]] for row in rows
        ]


def test_half_precision_scores_nearly_the_same(datasets: Datasets, tmp_path: Path) -> None:
    recipe = untrained(tmp_path, datasets["seq2seq"])
    full, half = (
        generated(recipe.model_copy(update={"precision": name}), max_target_length=1)[1]
        for name in ("fp32", "bf16")
    )
    scores = [torch.tensor([row["hypotheses"][0]["score"] for row in rows]) for rows in (full, half)]
    assert not torch.equal(*scores)
    torch.testing.assert_close(*scores, atol=0.1, rtol=0)


def test_scores_are_of_the_best_text_and_the_whole_reference(
    preprocessed: Preprocessed, tmp_path: Path
) -> None:
    """Targets of the sample have more than 4 tokens: rows hold them cut, the reference is the text itself."""
    data = preprocessed("cut", encode={"seq2seq": {"max_target": 4}})
    recipe = untrained(tmp_path, data)
    told, rows, said = generated(recipe, beam_size=2, n_best=2, max_target_length=6)
    texts = [json.loads(x) for x in (SAMPLES / "zh/summaries.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["reference"] for row in rows] == [text["summary"] for text in texts]
    assert [row["source"] for row in rows] == [text["article"] for text in texts]
    assert all(row["target_cut"] for row in rows) and told["targets_cut"] == len(rows)
    assert "rows hold their target cut" in said
    wanted = [row["reference"] for row in rows]
    assert told["scores"] == text_scores(wanted, [row["hypotheses"][0]["text"] for row in rows])
    assert f"{told['scores']['bleu']:.4f}" in said
    unended = sum(not row["hypotheses"][0]["ended"] for row in rows)
    assert told["unended"] == unended and (f"{unended} texts were cut at 6 tokens" in said) == bool(unended)


def test_sources_without_targets_get_texts_and_no_scores(
    datasets: Datasets, preprocessed: Preprocessed, tmp_path: Path
) -> None:
    recipe = untrained(tmp_path, datasets["seq2seq"])
    wanted = generated(recipe, max_target_length=5)[1]
    bare = {"text_pair": None, "label_optional": True}
    alone = preprocessed("alone", "test", task="classify", input=bare)
    other = recipes.recipe(
        tmp_path, model="unilm", task="mlm", data={"folder": str(alone)}, optim={"steps": 1}
    )
    told, rows, said = generated(other, "test", max_target_length=5)
    assert told["scores"] == {} and told["references"] == 0 and "no targets to compare with" in said
    assert [row["hypotheses"] for row in rows] == [row["hypotheses"] for row in wanted]
    assert [row["source"] for row in rows] == [row["source"] for row in wanted]
    assert all(row["reference"] is None for row in rows)


def test_the_longest_source_sets_what_is_left_for_a_target(datasets: Datasets, tmp_path: Path) -> None:
    data = datasets["seq2seq"]
    rows = open_split(str(data), "train", ("token_type_ids", "id")).take(torch.arange(10).numpy())
    types, offsets = rows.lists["token_type_ids"]
    lengths = [int((types[a:b] == 0).sum()) for a, b in pairwise(offsets)]
    longest, name = max(lengths), rows.texts["id"].to_pylist()[lengths.index(max(lengths))]

    def with_room(room: int) -> Recipe:
        return untrained(tmp_path / str(room), data, max_position_embeddings=longest + room)

    told, _, said = generated(with_room(16))
    assert told["max_target_length"] == 16
    assert f"of 16 tokens at most, for the source of row {name} takes {longest} of the model's" in said
    told, _, said = generated(with_room(64))
    assert told["max_target_length"] == 64 and "at most" not in said
    with pytest.raises(RecipeError, match=r"take --max-target-length 15, or encode with encode\.seq2seq"):
        generated(with_room(15))
    assert generated(with_room(15), max_target_length=15)[0]["max_target_length"] == 15
    with pytest.raises(RecipeError, match=rf"row {name} takes .* a target of 16 tokens may follow"):
        generated(with_room(15), max_target_length=16)
    with pytest.raises(RecipeError, match=r"take --max-target-length 15, or with new\.positions in the rec"):
        generated(with_room(15), max_target_length=5000)


def test_a_terminal_has_a_bar_with_speed_and_time_left(datasets: Datasets, tmp_path: Path) -> None:
    recipe, said = untrained(tmp_path, datasets["seq2seq"]), io.StringIO()
    bar = Console(file=said, width=100, force_terminal=True)
    run(recipe, "train", None, {"max_target_length": 3}, Console(file=io.StringIO()), bar)
    assert "10/10 rows" in said.getvalue() and "rows/s" in said.getvalue() and "left" in said.getvalue()


def test_two_processes_write_each_row_once(datasets: Datasets, tmp_path: Path) -> None:
    """The command itself, with rows that do not divide."""
    recipe = untrained(tmp_path, datasets["seq2seq"])
    told, rows, _ = generated(recipe, max_target_length=4)
    out = tmp_path / "out/generate-train"
    for name in ("metrics.json", "generated.jsonl"):
        (out / name).unlink()
    command = ("generate", str(tmp_path / "recipe.yaml"), "--split", "train", "--max-target-length", "4")
    done = both(None, *command, "--set", "batch.rows=6")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("scores: ") == 1
    assert json.loads((out / "metrics.json").read_text(encoding="utf-8")) == told
    lines = (out / "generated.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [[x["text"] for x in json.loads(line)["hypotheses"]] for line in lines]
    assert texts == [[x["text"] for x in row["hypotheses"]] for row in rows]


def test_a_model_writes_what_it_has_learnt(datasets: Datasets, tmp_path: Path) -> None:
    """Headlines of its own training rows; evaluation of masked tokens says where texts are measured."""
    keys: dict[str, Any] = {
        "model": "unilm",
        "task": "mlm",
        "new": {"layers": 2, "width": 96, "heads": 4, "dropout": 0.0},
        "data": {"folder": str(datasets["seq2seq"])},
        "batch": {"rows": 10},
        "optim": {"lr": 4e-3, "steps": 110},
        "options": {"types": "by_kind"},
    }
    recipes.run(tmp_path, **keys)
    recipe = recipes.recipe(tmp_path, **keys)
    for beams in (1, 3):
        told, rows, _ = generated(recipe, beam_size=beams, max_target_length=32)
        assert told["scores"]["rougeL"] > 0.9, rows
    said = io.StringIO()
    run_evaluate(recipe, "train", None, Console(file=said, width=200))
    assert "masked_accuracy" in said.getvalue() and "by `treegraft generate`" in said.getvalue()


def test_what_is_wrong_is_said(datasets: Datasets, preprocessed: Preprocessed, tmp_path: Path) -> None:
    data = datasets["seq2seq"]
    bert = untrained(tmp_path / "bert", data, kind="bert")
    with pytest.raises(RecipeError, match="saved with model 'bert', the recipe's model is 'unilm'"):
        generated(bert)
    with pytest.raises(
        RecipeError, match=r"model 'bert' of task 'mlm' cannot generate: load it as model 'uni"
    ):
        generated(bert.model_copy(update={"model": "bert"}))
    classes = untrained(tmp_path / "classes", data, task="classify")
    with pytest.raises(RecipeError, match="saved with task 'classify', the recipe's task is 'mlm'"):
        generated(classes)
    with pytest.raises(RecipeError, match=r"'unilm' of task 'classify' cannot generate"):
        generated(classes.model_copy(update={"task": "classify"}))
    recipe = untrained(tmp_path, data)
    with pytest.raises(RecipeError, match="no split is named"):
        run(recipe, None, None, {}, Console(), Console())
    with pytest.raises(ValueError, match="has no split 'test'; it has train"):
        generated(recipe, "test")
    with pytest.raises(ValueError, match=r"n_best is 3, expected a whole number from 1 to 1 \(beam_size\)"):
        generated(recipe, n_best=3)
    model = str(tmp_path / "out/model")

    def on(folder: Path) -> Recipe:
        return recipes.recipe(
            tmp_path / folder.name,
            model="unilm",
            task="mlm",
            data={"folder": str(folder)},
            optim={"steps": 1},
        )

    with pytest.raises(RecipeError, match="model is not there: train the recipe's model first"):
        generated(on(datasets["tag"]))
    with pytest.raises(RecipeError, match=r"reads rows of task 'seq2seq', .* dataset's are of 'tag'"):
        generated(on(datasets["tag"]), model=model)
    pairs = preprocessed("pairs", "test", task="classify", input={"label_optional": True})
    with pytest.raises(RecipeError, match=r"are pairs of texts to classify: .* with task: seq2seq"):
        generated(on(pairs), "test", model=model)
    (tmp_path / "out/model/tokenizer.json").write_text('{"model": {"vocab": {"[PAD]": 1}}}')
    with pytest.raises(RecipeError, match="they were made for different tokenizers"):
        generated(recipe)
    (tmp_path / "out/model/tokenizer.json").write_text('{"model": {"type": "none", "vocab": []}}')
    with pytest.raises(RecipeError, match=f"^{model}: tokenizer.json cannot be read"):
        generated(recipe)
