"""The whole road by the real command: raw files to shards, shards to a model, a model to another; and kill -9."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
import yaml
from safetensors.torch import load_file

from tests.integration.test_cli import SAMPLES
from tests.warm import COMMAND, ready, treegraft

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "recipes"
STEPS = 40


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sample's datasets in out/, and the recipes beside them, as in a checkout."""
    folder = tmp_path_factory.mktemp("home")
    done = treegraft(
        "preprocess", *(SAMPLES / f"{name}.yaml" for name in ("zh-pretrain", "zh-reviews")), cwd=folder
    )
    assert done.returncode == 0, done.stderr
    (folder / "recipes").mkdir()
    for path in RECIPES.glob("*.yaml"):
        (folder / "recipes" / path.name).write_bytes(path.read_bytes())
    return folder


def losses(out: Path, name: str = "loss") -> list[float]:
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [line[name] for line in lines if name in line]


def test_from_raw_text_to_a_classifier(home: Path) -> None:
    sizes = ("--set", "new={layers: 1, width: 64, heads: 4, dropout: 0}", "--set", "threads=1")
    fewer = ("--set", "data.folder=out/zh-pretrain", "--set", "optim={lr: 3e-3, epochs: 4, warmup: 0.1}")
    done = treegraft("pretrain", "recipes/bert-pretrain.yaml", *sizes, *fewer, cwd=home)
    assert done.returncode == 0, done.stderr
    out = home / "out/runs/bert-pretrain"
    assert f"trained model: {out}/model" in done.stdout and "steps" not in done.stdout
    assert losses(out)[-1] < losses(out)[0] - 0.5
    finetune = ("finetune", "recipes/bert-reviews.yaml", "--set", "threads=1", "--set", "optim.lr=2e-3")
    done = treegraft(*finetune, cwd=home)
    assert done.returncode == 0, done.stderr
    out = home / "out/runs/bert-reviews"
    assert losses(out)[-1] < losses(out)[0]
    assert len(losses(out, "dev_accuracy")) == 10
    assert {path.name for path in (out / "model").iterdir()} == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    }
    again = treegraft(*finetune, cwd=home)
    assert again.returncode == 0 and "finished before: step 60 of 60" in again.stderr
    wrong = treegraft("pretrain", "recipes/bert-reviews.yaml", cwd=home)
    assert wrong.returncode == 2 and "run `treegraft finetune`" in wrong.stderr
    other = treegraft(*finetune, "--set", "seed=1", cwd=home)
    assert (
        other.returncode == 1 and "seed: 0 there, 1 here" in other.stderr and "Traceback" not in other.stderr
    )
    typo = treegraft("finetune", "recipes/bert-reviews.yaml", "--set", "optim.learning=1", cwd=home)
    assert typo.returncode == 2 and "optim.learning: unknown key" in typo.stderr


def small(folder: Path, home: Path) -> Path:
    folder.mkdir()
    recipe = yaml.safe_load((RECIPES / "bert-pretrain.yaml").read_text())
    recipe |= {
        "new": {"layers": 1, "width": 64, "heads": 4},
        "batch": {"rows": 24},
        "threads": 1,
        "out": "out",
    }
    recipe |= {"data": {"folder": str(home / "out/zh-pretrain")}, "optim": {"lr": 1e-3, "steps": STEPS}}
    recipe |= {"save_every": 3, "keep": 2, "log_every": 1}
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    return folder / "recipe.yaml"


@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.heavy)])
def test_killed_at_random_steps_it_ends_in_the_same_bits(home: Path, tmp_path: Path, kills: int) -> None:
    """The whole run from the interpreter's start, the others ready: a kill strikes steps, not imports."""
    whole, part = small(tmp_path / "whole", home), small(tmp_path / "part", home)
    subprocess.run([*COMMAND, "pretrain", whole], cwd=home, capture_output=True, check=True)
    draw = random.Random(kills)
    out, died = part.parent / "out", []
    for step in sorted(draw.sample(range(1, STEPS - 2), kills + 1)):  # one may come too late
        with (tmp_path / "log").open("wb") as log:
            words = ("pretrain", part, "--set", f"workers={draw.randint(0, 1)}")
            process = ready().start(words, home, log, log)
        metrics, until = out / "metrics.jsonl", time.monotonic() + 600
        while process.poll() is None and time.monotonic() < until:
            if metrics.exists() and metrics.read_text().count("\n") >= step:
                break
            time.sleep(0.002)
        time.sleep(draw.random() * 0.1)  # in the middle of a step, of a checkpoint, of its deletion
        if process.poll() is None:
            process.kill()
        died.append(process.wait())
    assert died.count(-signal.SIGKILL) >= kills, (tmp_path / "log").read_text()
    done = treegraft("pretrain", part, cwd=home)
    assert done.returncode == 0, done.stderr
    assert "going on after step" in done.stderr
    mine, theirs = (load_file(path.parent / "out/model/model.safetensors") for path in (whole, part))
    assert mine.keys() == theirs.keys() and all((mine[name] == theirs[name]).all() for name in mine)
    assert losses(whole.parent / "out") == losses(out) and len(losses(out)) == STEPS
