"""How many predictions each part of a loss is a mean over, told by the labels, before the model has run.

A step of training may be computed in pieces, one after the other or on several machines. Its loss is a mean over
all its predictions, so each piece must know how many there are in all (`Output.share`). What is counted here
is what `Output.counts` of the same batch will say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from corpora.schema import IGNORED_LABEL
from models.bert_batch import Batch
from models.heads import questions, row_labels


def count_predictions(parts: Iterable[str], batch: Batch) -> dict[str, Tensor]:
    """Of each of a model's `parts` the number of predictions in a batch, int64[]; of those that it has labels for."""
    found = {}
    for part in parts:
        if (count := _COUNTS[part.removesuffix("_fine").removesuffix("_coarse")](batch)) is not None:
            found[part] = count
    return found


def _labelled(name: str) -> Callable[[Batch], Tensor | None]:
    def count(batch: Batch) -> Tensor | None:
        labels = row_labels(batch, name)
        return None if labels is None else (labels != IGNORED_LABEL).sum()

    return count


def _scored(batch: Batch) -> Tensor | None:
    if "label_score" not in batch:
        return None
    return (_weighed(batch, batch["label_score"]) & ~batch["label_score"].isnan()).sum()


def _asked(batch: Batch) -> Tensor | None:
    return questions(batch)[1].sum() if "label" in batch else None


def _rows(batch: Batch) -> Tensor | None:
    """Rows, where there is a label to learn from."""
    has = "label" in batch or "label_score" in batch
    return _weighed(batch, batch["input_ids"][:, 0]).sum() if has else None


def _weighed(batch: Batch, like: Tensor) -> Tensor:
    weight = batch.get("row_weight")
    return torch.ones_like(like, dtype=torch.bool) if weight is None else weight > 0


_COUNTS: dict[str, Callable[[Batch], Tensor | None]] = {
    "mlm": _labelled("mlm_labels"),
    "coarse_mlm": _labelled("coarse_mlm_labels"),
    "nsp": _labelled("label"),
    "classify": _labelled("label"),
    "regress": _scored,
    "tag": _labelled("token_labels"),
    "start": _labelled("answer_start"),
    "stop": _labelled("answer_stop"),
    "choice": _asked,
    "agreement": _rows,
}
