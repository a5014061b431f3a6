"""From SQuAD's files to sources and targets by the real command: made, held out, verified, looked at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from pipelines.cli import app
from tests.integration.test_cli import SAMPLES, rows_of


def run(*words: object) -> str:
    done = CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout + done.stderr


def config_of(folder: Path, language: str, **source: Any) -> Path:
    path = folder / f"{language}.yaml"
    config = {
        "task": "seq2seq",
        "language": language,
        "input": {"format": "squad", "files": str(SAMPLES / language / "questions.train.json"), **source},
        "annotate": {"parser": "none", "segmenter": "none"},
        "encode": {"tokenizer": str(SAMPLES / "vocab.txt"), "max_length": 96, "columns": []},
    }
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


@pytest.mark.parametrize("language", ["zh", "en"])
def test_questions_are_targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, language: str) -> None:
    monkeypatch.chdir(tmp_path)
    path = config_of(tmp_path, language, context=80, holdout={"dev": 0.4})
    planned = run("preprocess", path, "--dry-run")
    assert "train" in planned and "dev" in planned
    said = run("preprocess", path, "--workers", "1")
    out = tmp_path / "out" / language
    train, dev = rows_of(out, "train"), rows_of(out, "dev")
    assert train and dev and f"verified: {len(train) + len(dev)} rows" in said
    gold: dict[str, tuple[str, list[str], str]] = {}
    value = json.loads((SAMPLES / language / "questions.train.json").read_bytes())
    for text in value if isinstance(value, list) else [p for a in value["data"] for p in a["paragraphs"]]:
        for qa in text["qas"]:
            answers = [a if isinstance(a, str) else a["text"] for a in qa["answers"]]
            if answers:
                where = text.get("context", text.get("context_text"))
                gold[qa.get("id", qa.get("query_id"))] = (
                    where,
                    answers,
                    qa.get("question", qa.get("query_text")),
                )
    assert {row["id"].removesuffix("#0") for row in train + dev} == gold.keys()
    texts: dict[str, set[str]] = {"train": set(), "dev": set()}
    for split, rows in (("train", train), ("dev", dev)):
        for row in rows:
            text, answers, question = gold[row["id"].removesuffix("#0")]
            answer, around = row["text"].split("\n", 1)
            assert (answer, row["text_pair"]) == (answers[0], question)
            assert answer in around and around in text and len(row["text"]) <= max(80, 2 * len(answer) + 1)
            texts[split].add(text)
    assert not texts["train"] & texts["dev"]
    if language == "en":
        assert "questions without an answer, left out" in said
    assert "target" in run("inspect", out, "--split", "dev", "--row", "0")
    assert "tokens per target" in run("stats", out)
    run("verify", out)


def test_sources_that_were_mostly_cut_name_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = config_of(tmp_path, "zh")
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    config["encode"]["max_length"] = 32
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    assert "set input.context" in " ".join(run("preprocess", path, "--workers", "1").split())
    config["input"]["context"] = 12
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    assert "input.context" not in run("preprocess", path, "--workers", "1", "--out", "cut")
