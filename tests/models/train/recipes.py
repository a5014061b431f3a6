"""Small recipes on the samples, and runs of them in this process."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import torch
import yaml
from rich.console import Console
from safetensors.torch import load_file

from models.train.loop import train
from models.train.reading import load_recipe
from models.train.recipe import Recipe

TINY = {"layers": 1, "width": 32, "heads": 4}


def write(folder: Path, /, **keys: Any) -> Path:
    """A recipe in its own folder: from scratch, on one thread, with these keys."""
    recipe: dict[str, Any] = {
        "model": "bert",
        "batch": {"rows": 8},
        "threads": 1,
        "log_every": 1,
        "out": "out",
    }
    if "init" not in keys:
        recipe["new"] = TINY
    recipe |= keys
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    return path


def recipe(folder: Path, /, **keys: Any) -> Recipe:
    return load_recipe(write(folder, **keys))


def run(folder: Path, /, overwrite: bool = False, **keys: Any) -> tuple[Path, str]:
    """Train in this process; the folder of the run and what it said."""
    said = io.StringIO()
    made = recipe(folder, **keys)
    train(made, Console(file=said, width=500), overwrite=overwrite)
    return Path(made.out), said.getvalue()


def metrics(out: Path) -> list[dict[str, Any]]:
    """Lines of metrics, without what a clock says."""
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in ("seconds", "tokens_per_second")} for line in lines]


def weights(out: Path) -> dict[str, torch.Tensor]:
    return load_file(out / "model/model.safetensors")


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    """To the bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
