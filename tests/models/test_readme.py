"""README's code for PyTorch runs as it stands, but for the names of a dataset and a checkpoint."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import torch

from models.checkpoint import new, save
from models.stream.open import open_split
from tests.models.datasets import Datasets
from tests.models.tiny import tiny

README = Path(__file__).parents[2] / "README.md"


def test_streaming_as_shown(datasets: Datasets, tmp_path: Path) -> None:
    code = re.search(r"<!-- stream -->\n```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert code
    folder, checkpoint = str(datasets["classify"]), str(tmp_path / "bert")
    meta = open_split(folder, "train").metadata
    save(new(tiny(vocab_size=meta["vocab_size"], max_position_embeddings=256)), checkpoint)
    body = code[1].replace("bert-base-chinese", checkpoint).replace("out/reviews", folder)
    assert body.count(checkpoint) == 2 and body.count(folder) == 3
    shown: dict[str, Any] = {}
    exec(body, shown)  # our own README
    assert shown["model"].config.id2label == dict(enumerate(meta["labels"]))
    assert shown["output"].loss.isfinite() and "branch" not in shown["batch"]
    assert json.loads(json.dumps(shown["state"]))["epoch"] == 1
    assert torch.is_tensor(shown["batch"]["label"])
