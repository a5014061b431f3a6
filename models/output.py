"""What a model gives back for a batch, the same for every model and task: a loss, its parts, and logits by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional

from corpora.schema import IGNORED_LABEL


@dataclass
class Output:
    """Loss and logits of a batch.

    Attributes:
        loss: float[], the sum of `parts`; None where the batch has no labels.
        logits: by name of what is predicted; `models.heads` says the names and shapes of each task.
        parts: the losses that were added up, by name, each a mean over its predictions (0 where there are none).
        counts: how many predictions each of the parts is a mean over. A mean over several batches is right if
            parts are weighed by it.
        weights: by how much each of the parts is multiplied in the loss.
    """

    loss: Tensor | None = None
    logits: dict[str, Tensor] = field(default_factory=dict)
    parts: dict[str, Tensor] = field(default_factory=dict)
    counts: dict[str, Tensor] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, total: Tensor, count: Tensor, weight: float = 1.0) -> None:
        """Add `weight` times the mean `total / count` (both scalars) to the loss."""
        part = total / count.clamp(min=1)
        self.parts[name], self.counts[name], self.weights[name] = part, count, weight
        part = part if weight == 1 else weight * part
        self.loss = part if self.loss is None else self.loss + part

    def share(self, counts: Mapping[str, Tensor]) -> Tensor:
        """This batch's share float[] of the loss of a larger one that has `counts` predictions (`models.counts`).

        The shares of all its pieces add up to its loss, and so do their gradients, however it was cut: a mean of the
        pieces' means would weigh a prediction by the company it is in.
        """
        shares = [
            self.weights[name] * part * (self.counts[name] / counts[name].clamp(min=1))
            for name, part in self.parts.items()
        ]
        return torch.stack(shares).sum()

    def add_classes(self, name: str, logits: Tensor, labels: Tensor) -> None:
        """Add the cross entropy of labels int[...] under logits float[..., C]; labels of -100 do not count.

        Half-precision logits are summed in single precision.
        """
        logits, labels = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1).long()
        total = functional.cross_entropy(widened(logits), labels, ignore_index=IGNORED_LABEL, reduction="sum")
        self.add(name, total, (labels != IGNORED_LABEL).sum())


def widened(x: Tensor) -> Tensor:
    """x in single precision where it is in half; sums over thousands of classes need it."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
