"""What a model gives back for a batch, the same for every model and task: a loss, its parts, and logits by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from corpora.schema import IGNORED_LABEL


@dataclass
class Output:
    """Loss and logits of a batch.

    Attributes:
        logits: by name of what is predicted; `models.heads` says the names and shapes of each task.
        parts: the losses that were added up, by name, each a mean over its predictions (0 where there are none).
        counts: how many predictions each of the parts is a mean over. A mean over several batches is right if
            parts are weighed by it.
        weights: by how much each of the parts is multiplied in the loss; None: predictions of all parts whose weight is
            None count alike, so that these are one mean.
    """

    logits: dict[str, Tensor] = field(default_factory=dict)
    parts: dict[str, Tensor] = field(default_factory=dict)
    counts: dict[str, Tensor] = field(default_factory=dict)
    weights: dict[str, float | None] = field(default_factory=dict)

    @property
    def loss(self) -> Tensor | None:
        """float[], `parts` added up (`summed`); None where the batch has no labels."""
        return summed(self.parts, self.counts, self.weights) if self.parts else None

    def add(self, name: str, total: Tensor, count: Tensor, weight: float = 1.0) -> None:
        """Add `weight` times the mean `total / count` (both scalars) to the loss."""
        self.parts[name], self.counts[name], self.weights[name] = total / count.clamp(min=1), count, weight

    def join(self) -> None:
        """Let predictions of all parts count alike: the loss is one mean over them."""
        self.weights = dict.fromkeys(self.parts)

    def share(self, counts: Mapping[str, Tensor]) -> Tensor:
        """This batch's share float[] of the loss of a larger one that has `counts` predictions (`models.counts`).

        The shares of all its pieces add up to its loss, and so do their gradients, however it was cut: a mean of the
        pieces' means would weigh a prediction by the company it is in.
        """
        shares = {
            name: part * (self.counts[name] / counts[name].clamp(min=1)) for name, part in self.parts.items()
        }
        return summed(shares, counts, self.weights)

    def add_classes(self, name: str, logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> None:
        """Add the cross entropy of labels int[...] under logits float[..., C]; labels of -100 do not count.

        `smoothing`: this share of a label is spread over all classes. Half-precision logits are summed in single
        precision.
        """
        logits, labels = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1).long()
        total = functional.cross_entropy(
            widened(logits), labels, ignore_index=IGNORED_LABEL, reduction="sum", label_smoothing=smoothing
        )
        self.add(name, total, (labels != IGNORED_LABEL).sum())


def summed(parts: Mapping[str, Any], counts: Mapping[str, Any], weights: Mapping[str, float | None]) -> Any:
    """The loss that means of parts come to, of numbers or of tensors float[]; weights are `Output.weights`."""
    alike = sum(counts[name] for name in parts if weights[name] is None)
    every = alike + (alike == 0)  # `max` would wait for a device
    return sum(
        part * counts[name] / every if weights[name] is None else weights[name] * part
        for name, part in parts.items()
    )


def widened(x: Tensor) -> Tensor:
    """x in single precision where it is in half; sums over thousands of classes need it."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
