"""The code of README and docs for PyTorch runs as it stands, but for the names of a dataset and a checkpoint."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from typer.testing import CliRunner

from models.checkpoint import new, save
from models.stream.open import open_split
from pipelines.cli import app
from tests.models.datasets import Datasets
from tests.models.tiny import tiny
from tests.pages import blocks


def test_streaming_as_shown(datasets: Datasets, tmp_path: Path) -> None:
    (code,) = blocks("stream", "python")
    folder, checkpoint = str(datasets["classify"]), str(tmp_path / "bert")
    meta = open_split(folder, "train").metadata
    save(new(tiny(vocab_size=meta["vocab_size"], max_position_embeddings=256)), checkpoint)
    body = code.replace("bert-base-chinese", checkpoint).replace("out/reviews", folder)
    assert body.count(checkpoint) == 2 and body.count(folder) == 3
    shown: dict[str, Any] = {}
    exec(body, shown)  # our own page
    assert shown["model"].config.id2label == dict(enumerate(meta["labels"]))
    assert shown["output"].loss.isfinite() and "branch" not in shown["batch"]
    assert json.loads(json.dumps(shown["state"]))["epoch"] == 1
    assert torch.is_tensor(shown["batch"]["label"])


def test_transformers_trainer_as_shown(
    datasets: Datasets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("accelerate", reason="transformers' Trainer needs it")
    (code,) = blocks("trainer", "python")
    folder, checkpoint = str(datasets["classify"]), str(tmp_path / "bert")
    save(new(tiny(vocab_size=open_split(folder, "train").metadata["vocab_size"])), checkpoint)
    body = code.replace("bert-base-chinese", checkpoint).replace("out/reviews", folder)
    body = body.replace("num_train_epochs=1", 'max_steps=2, report_to="none", use_cpu=True')
    assert body.count(checkpoint) == 1 and body.count(folder) == 2 and "max_steps" in body
    monkeypatch.chdir(tmp_path)
    shown: dict[str, Any] = {}
    exec(body, shown)  # our own page
    assert shown["trainer"].state.global_step == 2
    batch = next(iter(shown["trainer"].get_train_dataloader()))
    assert {"input_ids", "token_type_ids", "attention_mask", "labels"} == batch.keys()


def test_a_corpus_of_ones_own_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files and the commands, with a small model and few steps."""
    good, bad = ("这家酒店的早餐很好", "服务热情", "房间干净"), ("这家酒店的早餐很差", "服务冷淡", "房间很脏")
    texts = [f"{first}，{second}。" for side in (good, bad) for first in side for second in side]
    (tmp_path / "docs.txt").write_text("\n\n".join(f"{a}\n{b}" for a in texts for b in texts[:3]))
    lines = [f"{int(n < len(texts) // 2)}\t{text}" for n, text in enumerate(texts)]
    for name in ("train.tsv", "dev.tsv"):
        (tmp_path / name).write_text("\n".join(["label\ttext_a", *lines]))
    (tmp_path / "my.spo").write_text("酒店\t属于\t旅馆\n早餐\t属于\t餐饮\n")
    files, (commands,) = blocks("own", "yaml"), blocks("own", "sh")
    for file in files:
        name, found = re.match(r"# ([\w.]+)", file), yaml.safe_load(file)
        assert name
        if "new" in found:
            found |= {"new": {"layers": 1, "width": 32, "heads": 2}, "optim": {"lr": 1e-3, "steps": 3}}
        (tmp_path / name[1]).write_text(yaml.safe_dump(found, allow_unicode=True))
    monkeypatch.chdir(tmp_path)
    for command in commands.strip().splitlines():
        words = shlex.split(command, comments=True)
        assert words[0] == "treegraft"
        done = CliRunner().invoke(app, words[1:])
        assert done.exit_code == 0, (command, done.output, done.exception)
    scores = json.loads((tmp_path / "out/kbert/eval-dev/metrics.json").read_text())["scores"]
    assert 0 <= scores["accuracy"] <= 1
    assert "旅" in (tmp_path / "out/docs/vocab/vocab.txt").read_text(encoding="utf-8").split("\n")
    trees = open_split(str(tmp_path / "out/reviews"), "train", ("tree_ids", "input_ids"))
    rows = trees.take(np.arange(trees.rows))
    assert len(rows.lists["tree_ids"][0]) > len(rows.lists["input_ids"][0])  # branches were grafted
