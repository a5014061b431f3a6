"""A trained model's scores and predictions by the real command, and the files that official scripts read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.test_cli import SAMPLES
from tests.models.evaluate import literal
from tests.warm import treegraft

QUESTIONS = """\
model: bert
task: span
new: {layers: 2, width: 64, heads: 4, dropout: 0}
data: {folder: out/en-questions, split: train}
batch: {rows: 8}
optim: {lr: 2e-3, steps: 60}
threads: 1
out: out/run
"""
MASKED = """\
model: unilm
task: mlm
new: {layers: 1, width: 32, heads: 4}
data: {folder: out/zh-summaries, dev: train}
optim: {lr: 1e-3, steps: 2}
threads: 1
out: out/run
"""


def learnt(folder: Path, config: str, recipe: str) -> None:
    (folder / "recipe.yaml").write_text(recipe, encoding="utf-8")
    for words in (["preprocess", SAMPLES / config], ["finetune", "recipe.yaml"]):
        done = treegraft(*words, cwd=folder)
        assert done.returncode == 0, done.stderr


def test_official_scripts_find_the_same_scores(tmp_path: Path) -> None:
    learnt(tmp_path, "en-questions.yaml", QUESTIONS)
    asked = ("evaluate", "recipe.yaml", "--split", "train", "--threshold", "0.1")
    done = treegraft(*asked, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out/run/eval-train"
    for line in (
        f"scores: {out}/metrics.json · predictions: {out}/predictions.jsonl",
        f"for official scripts: {out}/answers.json, {out}/no_answer.json",
    ):
        assert line in done.stdout
    scores = json.loads((out / "metrics.json").read_text(encoding="utf-8"))["scores"]
    answers, odds = (
        json.loads((out / f"{name}.json").read_text(encoding="utf-8")) for name in ("answers", "no_answer")
    )
    dataset = json.loads((SAMPLES / "en/questions.train.json").read_text(encoding="utf-8"))["data"]
    found = literal.squad_script(dataset, answers, odds, 0.1)
    names = {"exact": "exact", "f1": "f1", "HasAns_exact": "answerable_exact", "HasAns_f1": "answerable_f1"}
    names |= {"NoAns_exact": "unanswerable", "NoAns_f1": "unanswerable"}
    names |= {"best_exact": "best_exact", "best_f1": "best_f1"}
    for its, ours in names.items():
        assert scores[ours] == pytest.approx(found[its] / 100), its
    for name in ("exact", "f1"):
        assert scores[f"best_{name}_threshold"] == found[f"best_{name}_thresh"]
    assert 0 < scores["f1"] < scores["best_f1"] and 0 < scores["unanswerable"] < 1, (
        "a test that says something"
    )


def test_masked_tokens_are_written_as_text(tmp_path: Path) -> None:
    learnt(tmp_path, "zh-summaries.yaml", MASKED)
    done = treegraft("evaluate", "recipe.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "masked_accuracy" in done.stdout and "official scripts" not in done.stdout
    lines = (tmp_path / "out/run/eval-train/predictions.jsonl").read_text(encoding="utf-8").splitlines()
    raw = (SAMPLES / "zh/summaries.jsonl").read_text(encoding="utf-8").splitlines()
    for line, text in zip(map(json.loads, lines), map(json.loads, raw), strict=True):
        assert line["id"] and line["masked"] == len(line["tokens"]) > 0
        for one in line["tokens"]:  # the target's, and its end
            assert one["token"] == "[SEP]" or one["token"].removeprefix("##") in text["summary"].lower()
            assert len(one["predicted"]) == 5
    wrong = treegraft("evaluate", "recipe.yaml", "--split", "test", cwd=tmp_path)
    assert wrong.returncode == 2 and "has no split 'test'; it has train" in wrong.stderr
    assert "Traceback" not in wrong.stderr
