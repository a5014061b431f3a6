"""What the loop costs beside forward, backward and the optimizer: reading, masking, padding, clipping, checks, logs.

A model of 4 layers, 256 wide, on one core, rows of up to 128 tokens of the Chinese sample. The bar: under 5 %.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from models.bert import Bert
from tests.models.datasets import Datasets
from tests.models.train.recipes import run

pytestmark = pytest.mark.bench
STEPS = 12


@pytest.mark.parametrize("task, rows", [("pretrain", 16), ("pretrain", 64), ("classify", 32)])
def test_the_loop_is_hardly_more_than_its_arithmetic(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    task: str,
    rows: int,
) -> None:
    datasets = Datasets(tmp_path_factory.getbasetemp() / "datasets")
    spent: Counter[str] = Counter()

    def timed(owner: Any, name: str, what: str) -> None:
        plain: Callable[..., Any] = getattr(owner, name)

        def call(*args: Any, **keys: Any) -> Any:
            began = time.perf_counter()
            try:
                return plain(*args, **keys)
            finally:
                spent[what] += time.perf_counter() - began

        monkeypatch.setattr(owner, name, call)

    timed(Bert, "forward", "forward")
    timed(torch.Tensor, "backward", "backward")
    timed(torch.optim.AdamW, "step", "optimizer")
    out, _ = run(
        tmp_path,
        task=task,
        data={"folder": str(datasets[task])},
        new={"layers": 4, "width": 256, "heads": 4},
        batch={"rows": rows},
        optim={"lr": 1e-3, "steps": STEPS},
    )
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    whole = sum(line["seconds"] for line in lines)
    beside = 1 - sum(spent.values()) / whole
    tokens = sum(line["tokens"] for line in lines)
    parts = ", ".join(f"{name} {seconds / whole:.1%}" for name, seconds in spent.items())
    print(f"\n{task}, {rows} rows: {beside:.2%} of {whole / STEPS * 1e3:,.0f} ms a step are the loop's own ({parts}); "
          f"{tokens / whole:,.0f} tokens/s")  # fmt: skip
