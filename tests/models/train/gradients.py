"""Steps of recipes, each one's gradients and rows in a file.

python -m tests.models.train.gradients FOLDER RECIPE...       under torchrun; `record` in this process
"""

from __future__ import annotations

import io
import sys
from itertools import chain
from pathlib import Path

import torch
from rich.console import Console
from safetensors.torch import save_file

from models.ranks import Ranks, joined
from models.train.loop import _endless, _Run
from models.train.reading import load_recipe


def record(path: Path, out: Path, ranks: Ranks) -> None:
    """All steps of a recipe, without moving a weight."""
    recipe = load_recipe(path)
    Path(recipe.out).mkdir(parents=True, exist_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    run = _Run(recipe, Console(file=io.StringIO()), ranks, None)
    run.model.train()
    for step, share in zip(range(run.steps), _endless(run.loader), strict=False):
        run.gradients(share)
        rows = sorted(chain(*ranks.gather(share.numbers.tolist())))
        if ranks.first:
            found = {name: weight.grad.clone() for name, weight in run.model.named_parameters()}
            save_file(found | {"rows": torch.tensor(rows)}, out / f"{step:03}.safetensors")
        run.optimizer.zero_grad()


if __name__ == "__main__":
    with joined(1, True) as ranks:
        for path in sys.argv[2:]:
            record(Path(path), Path(sys.argv[1]) / Path(path).parent.name, ranks)
