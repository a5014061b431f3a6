"""AMBERT's fine-tuning of two encoders (Zhang and Li 2020, section 3.3): three losses and an agreement.

A classifier of the fine [CLS], one of the coarse [CLS] and one of both are learned at once, and what keeps the first
two together is `agreement` times a distance. The paper's versions have one each: `cls`, the first version's, the
squared distance between both [CLS], each scaled to length 1; `predictions`, the later version's, the distance (not
squared) between what both classifiers predict: probabilities of classes or of a question's choices, or values.

It matters where small weights begin whose [CLS] says nothing yet (`models.ambert`): there `cls` wants a small weight.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from models.bert_batch import Batch
from models.heads import add_choices, add_labels, add_squares, questions
from models.output import Output, widened

AGREE_ON = ("cls", "predictions")

_LOSSES: dict[str, Callable[[Output, str, Tensor, Batch], None]] = {
    "classify": add_labels,
    "regress": add_squares,
    "choice": add_choices,
}
"""Of each task that reads [CLS]."""


def add_three(output: Output, task: str, scores: dict[str, Tensor], batch: Batch) -> None:
    """Add a task's loss of each of these scores, by their names; none where the batch has no labels."""
    for name, score in scores.items():
        _LOSSES[task](output, name, score, batch)


def add_distance_of_cls(output: Output, fine: Tensor, coarse: Tensor, batch: Batch, weight: float) -> None:
    """Add the distance of both [CLS] float[B, D], a mean over rows, labelled or not."""
    apart = functional.normalize(widened(fine), dim=-1) - functional.normalize(widened(coarse), dim=-1)
    _add(output, apart.square().sum(-1), _rows(batch, apart), weight)


def add_distance_of_predictions(
    output: Output, task: str, fine: Tensor, coarse: Tensor, batch: Batch, weight: float
) -> None:
    """Add the distance of what scores float[B, C] or [B] predict: a mean over rows, of choices over questions."""
    fine, coarse = widened(fine), widened(coarse)
    if task == "choice":
        own, _ = questions(batch)
        apart = _among(fine, own) - _among(coarse, own)
        return _add(output, torch.linalg.vector_norm(apart, dim=-1), own.any(1), weight)
    apart = (fine - coarse)[:, None] if task == "regress" else fine.softmax(-1) - coarse.softmax(-1)
    return _add(output, torch.linalg.vector_norm(apart, dim=-1), _rows(batch, apart), weight)


def count_questions(batch: Batch) -> Tensor:
    """Questions of a batch, int64[], that have a choice, labelled or not."""
    return questions(batch)[0].any(1).sum()


def _among(score: Tensor, own: Tensor) -> Tensor:
    """Probabilities of each question's choices float[Q, B], 0 of others'; of scores float[B] and bool[Q, B]."""
    return score.masked_fill(~own, torch.finfo(score.dtype).min).softmax(-1) * own


def _rows(batch: Batch, like: Tensor) -> Tensor:
    weight = batch.get("row_weight")
    return torch.ones_like(like[:, 0], dtype=torch.bool) if weight is None else weight > 0


def _add(output: Output, distance: Tensor, counted: Tensor, weight: float) -> None:
    output.add("agreement", (distance * counted).sum(), counted.sum(), weight=weight)
