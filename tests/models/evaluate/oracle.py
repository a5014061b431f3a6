"""Models that know the labels of a batch: what they predict scores as well, or as badly, as one wants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from models.bert import Bert
from models.bert_batch import Batch
from models.output import Output

Change = Callable[[Tensor, Batch], Tensor]


class Oracle(nn.Module):
    """In place of `model`: gives the batch's own labels, as `change` makes them, as logits."""

    def __init__(self, model: Bert, change: Change | None = None) -> None:
        super().__init__()
        self.model, self.change = model, change or (lambda labels, batch: labels)

    def __getattr__(self, name: str) -> Any:
        return super().__getattr__(name) if name == "model" else getattr(super().__getattr__("model"), name)

    def forward(self, batch: Batch) -> Output:
        return Output(logits=getattr(self, f"_{self.model.task.name}")(batch))

    def _classify(self, batch: Batch) -> dict[str, Tensor]:
        return {"classify": self._sharp(batch, batch["label"])}

    def _tag(self, batch: Batch) -> dict[str, Tensor]:
        return {"tag": self._sharp(batch, batch["token_labels"])}

    def _choice(self, batch: Batch) -> dict[str, Tensor]:
        right = self.change(batch["label"], batch)[batch["choices"]]
        place = torch.zeros_like(right)
        for i in range(1, len(right)):
            place[i] = place[i - 1] + 1 if batch["choices"][i] == batch["choices"][i - 1] else 0
        return {"choice": (place == right).float()}

    def _span(self, batch: Batch) -> dict[str, Tensor]:
        """The answer where the window has it; without one "none", so far below that another window's answer wins."""
        start = self.change(batch["answer_start"], batch)
        rows = torch.arange(len(start))
        first = torch.full(batch["input_ids"].shape, -20.0)
        last = first.clone()
        height = torch.where(start > 0, 10.0, -1.0)
        first[rows, start] = height
        last[rows, (batch["answer_stop"] - 1)] = height
        return {"start": first, "stop": last}

    def _sharp(self, batch: Batch, labels: Tensor) -> Tensor:
        classes = len(self.model.config.id2label)
        return nn.functional.one_hot(self.change(labels, batch).clamp(min=0), classes).float()
