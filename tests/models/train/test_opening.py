"""What a run says as it begins: what its loss adds up, how it computes, whose tokens it has."""

from __future__ import annotations

import json
import os
import shutil

import pytest
import torch

from models import checkpoint
from models.evaluate.evaluation import columns_of
from models.train import parts
from models.train.data import make_collator, open_rows
from models.train.facts import added_up
from models.train.parts import make_model
from models.train.reading import RecipeError
from tests.models.train.recipes import metrics, recipe, run, weights

SUMS = [
    ("bert", "pretrain", "pretrain", {}, "mlm + nsp"),
    ("ambert", "mlm", "pretrain", {}, "mlm + coarse_mlm"),
    ("sgnet", "span", "span", {}, "start + stop"),
    (
        "ambert",
        "classify",
        "classify",
        {"agreement": 0.5},
        "classify + classify_fine + classify_coarse + 0.5 x agreement",
    ),
]


@pytest.mark.parametrize("model, task, source, options, said", SUMS)
def test_a_sum_is_the_one_that_the_model_makes(datasets, tmp_path, model, task, source, options, said):
    keys = {"model": model, "task": task, "options": options, "data": {"folder": str(datasets[source])}}
    made = recipe(tmp_path, **keys, optim={"steps": 1})
    rows = open_rows(made)
    bert = make_model(made, rows).eval()
    collator = make_collator(made, bert, rows.metadata)
    assert added_up(bert) == said
    batch = collator(open_rows(made, columns_of(bert, collator)).take(torch.arange(4).numpy()))
    with torch.no_grad():
        output = bert(batch)
    terms = [term.rpartition(" x ") for term in said.split(" + ")]
    assert [name for *_, name in terms] == list(output.parts)
    assert {name: float(weight or 1) for weight, _, name in terms} == output.weights
    summed = sum(float(weight or 1) * float(output.parts[name]) for weight, _, name in terms)
    assert summed == pytest.approx(float(output.loss))


def test_one_mean_is_said_to_be_one(datasets, tmp_path):
    keys = {"model": "ambert", "task": "mlm", "data": {"folder": str(datasets["pretrain"])}}
    out, said = run(
        tmp_path, **keys, options={"masked": "together"}, optim={"lr": 1e-3, "steps": 1}, log_every=1
    )
    assert "\nloss = mean over all predictions of mlm and coarse_mlm\n" in said
    line = metrics(out)[0]
    assert min(line["mlm"], line["coarse_mlm"]) < line["loss"] < max(line["mlm"], line["coarse_mlm"])


def test_what_is_added_up_is_said_once(datasets, tmp_path):
    keys = {"data": {"folder": str(datasets["pretrain"])}, "optim": {"lr": 1e-3, "steps": 1}}
    _, said = run(tmp_path / "two", task="pretrain", **keys)
    assert said.count("loss = ") == 1 and "\nloss = mlm + nsp\n" in said
    _, said = run(tmp_path / "one", task="mlm", **keys)
    assert "loss = " not in said


def test_switches_that_are_not_as_usual_are_said_and_whence_they_come(datasets, tmp_path):
    keys = {"model": "kbert", "task": "tag", "data": {"folder": str(datasets["tag"])}, "optim": {"steps": 1}}
    out, said = run(tmp_path / "usual", **keys)
    assert "options " not in said
    out, said = run(tmp_path / "switched", **keys, options={"graph": False})
    assert "\noptions graph: false\n" in said
    _, said = run(tmp_path / "kept", **keys, init=str(out / "model"))
    assert f"\noptions graph: false (as {out / 'model'} was saved)\n" in said
    _, said = run(tmp_path / "back", **keys, init=str(out / "model"), options={"graph": True})
    assert "options " not in said


def test_the_kind_that_rows_had_is_not_that_of_rows_whose_kinds_are_drawn(datasets, tmp_path):
    keys = {
        "model": "unilm",
        "task": "mlm",
        "data": {"folder": str(datasets["pretrain"])},
        "optim": {"steps": 1},
    }
    out, said = run(tmp_path / "one", **keys, options={"lm": "left_to_right"})
    assert "\noptions lm: left_to_right\n" in said
    after, said = run(tmp_path / "drawn", **keys, init=str(out / "model"))
    told = json.loads((after / "run.json").read_text())["in_effect"]
    assert "options " not in said and len(told["kinds"]) == 4 and told["options"]["lm"] == "bidirectional"


@pytest.mark.parametrize(
    "capabilities, slow",
    [
        ({"amx_bf16": True, "avx512_bf16": False}, False),
        ({"amx_bf16": False, "avx512_bf16": True}, False),
        ({"amx_bf16": False, "avx512_bf16": False}, True),
        ({}, False),  # another architecture
        (None, False),  # an older torch
    ],
)
def test_half_precision_is_slow_where_the_processor_lacks_it(
    datasets, tmp_path, monkeypatch, capabilities, slow
):
    if capabilities is None:
        monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    else:
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    keys = {"task": "mlm", "data": {"folder": str(datasets["pretrain"])}, "optim": {"lr": 1e-3, "steps": 1}}
    _, said = run(tmp_path, precision="bf16", **keys)
    assert ("bf16 is slower than fp32" in said) == slow


@pytest.mark.parametrize(
    "threads, environment, told",
    [
        (None, {"OMP_NUM_THREADS": "1"}, "cpu (1 thread)"),
        (None, {"OMP_NUM_THREADS": "3,1"}, "cpu (3 threads)"),
        (2, {"OMP_NUM_THREADS": "3"}, "cpu (2 threads)"),
        # The command line has one thread for each of its many processes: what counts is what was said before.
        (None, {"OMP_NUM_THREADS": "1", "TREEGRAFT_THREADS": "2"}, "cpu (2 threads)"),
        (None, {"OMP_NUM_THREADS": "1", "TREEGRAFT_THREADS": ""}, "cpu (5 threads)"),
        (None, {"OMP_NUM_THREADS": "many"}, "cpu (5 threads)"),
    ],
)
def test_threads_are_those_that_were_asked_for(datasets, tmp_path, monkeypatch, threads, environment, told):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(5)))
    for name in ("OMP_NUM_THREADS", "TREEGRAFT_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    keys = {"task": "mlm", "data": {"folder": str(datasets["pretrain"])}, "optim": {"lr": 1e-3, "steps": 1}}
    _, said = run(tmp_path, threads=threads, **keys)
    assert told in said


def swapped(path):
    """The tokenizer.json with two tokens in each other's place."""
    body = json.loads(path.read_text())
    vocabulary = body["model"]["vocab"]
    first, second = [token for token, number in vocabulary.items() if number in (200, 201)]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    path.write_text(json.dumps(body))


def test_tokens_of_a_hub_id_are_compared(datasets, tmp_path, monkeypatch):
    """By what is in the hub's cache; without a tokenizer there it is said that nothing was compared."""
    keys = {"task": "mlm", "data": {"folder": str(datasets["pretrain"])}, "optim": {"lr": 1e-3, "steps": 1}}
    before, _ = run(tmp_path / "before", **keys)
    commit = "0" * 40
    cached = tmp_path / "hub/models--made--tiny"
    shutil.copytree(before / "model", cached / "snapshots" / commit)
    (cached / "refs").mkdir()
    (cached / "refs/main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    assert checkpoint.load("made/tiny").kind == "bert"
    _, said = run(tmp_path / "same", init="made/tiny", **keys)
    assert "was not compared" not in said
    swapped(cached / "snapshots" / commit / "tokenizer.json")
    with pytest.raises(RecipeError, match="in made/tiny: they were made for different tokenizers"):
        run(tmp_path / "other", init="made/tiny", **keys)
    (cached / "snapshots" / commit / "tokenizer.json").unlink()
    _, said = run(tmp_path / "none", init="made/tiny", **keys)
    assert "made/tiny has neither tokenizer.json nor vocab.txt here" in said


def test_a_tokenizer_that_numbers_no_tokens_is_not_compared(datasets, tmp_path):
    """Unigram's have scores."""
    keys = {"task": "mlm", "data": {"folder": str(datasets["pretrain"])}, "optim": {"lr": 1e-3, "steps": 1}}
    before, _ = run(tmp_path / "before", **keys)
    (before / "model/tokenizer.json").write_text('{"model": {"type": "Unigram", "vocab": [["a", -1.5]]}}')
    _, said = run(tmp_path / "after", init=str(before / "model"), **keys)
    assert "has neither tokenizer.json nor vocab.txt here that numbers its tokens" in said


@pytest.mark.parametrize(
    "name, body",
    [
        ("tokenizer.json", b'{"model": {"vocab": {"a": "b"}}}'),
        ("tokenizer.json", b'{"model": {"vocab"'),
        ("tokenizer.json", b'{"model":' * 5000 + b"1" + b"}" * 5000),
        ("tokenizer.json", b"[]"),
        ("vocab.txt", b"\xff\xfe\n"),
    ],
)
def test_a_tokenizer_that_is_damaged_is_no_missing_one(datasets, tmp_path, name, body):
    keys = {"task": "mlm", "data": {"folder": str(datasets["pretrain"])}, "optim": {"lr": 1e-3, "steps": 1}}
    before, _ = run(tmp_path / "before", **keys)
    (before / "model/tokenizer.json").unlink()
    (before / "model" / name).write_bytes(body)
    with pytest.raises(
        RecipeError, match=rf"before/out/model: {name} cannot be read \(\w+: .*put the right file"
    ):
        run(tmp_path / "after", init=str(before / "model"), **keys)


def test_padding_is_the_datasets_whatever_the_checkpoint_has(datasets, tmp_path):
    """Else the embedding of a token does not learn."""
    keys = {
        "data": {"folder": str(datasets["classify"])},
        "optim": {"lr": 1e-2, "steps": 2, "weight_decay": 0},
    }
    before, _ = run(tmp_path / "before", task="classify", **keys)
    tokens = json.loads((before / "model/tokenizer.json").read_text())["model"]["vocab"]
    path = before / "model/config.json"
    config = json.loads(path.read_text())
    assert config["pad_token_id"] == tokens["[PAD]"]
    path.write_text(json.dumps(config | {"pad_token_id": tokens["[CLS]"]}))
    after, _ = run(tmp_path / "after", task="classify", init=str(before / "model"), **keys)
    assert json.loads((after / "model/config.json").read_text()) == config
    name = "bert.embeddings.word_embeddings.weight"
    moved = (weights(after)[name] != weights(before)[name]).any(1)
    assert moved[tokens["[CLS]"]] and not moved[tokens["[PAD]"]]


@pytest.mark.parametrize(
    "warmup, steps, told", [(3, 3, "to 0.00075"), (1e4, 3, "10,000 steps"), (2, 3, ""), (0.9, 3, "")]
)
def test_a_rate_that_never_is_what_was_asked_for_is_told_of(datasets, tmp_path, warmup, steps, told):
    optim = {"lr": 1e-3, "steps": steps, "warmup": warmup}
    _, said = run(tmp_path, task="mlm", data={"folder": str(datasets["pretrain"])}, optim=optim)
    assert ("optim.warmup is" in said) == bool(told) and told in said


def test_tokens_are_read_once(datasets, tmp_path, monkeypatch):
    keys = {"task": "mlm", "data": {"folder": str(datasets["pretrain"])}, "optim": {"lr": 1e-3, "steps": 1}}
    before, _ = run(tmp_path / "before", **keys)
    asked, read = [], parts.tokens_of
    monkeypatch.setattr(parts, "tokens_of", lambda source: asked.append(source) or read(source))
    run(tmp_path / "after", init=str(before / "model"), **keys)
    assert asked == [str(before / "model"), str(datasets["pretrain"])]
