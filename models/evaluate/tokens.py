"""Masked tokens and next sentences: the share of predictions that are right. The objectives of pretraining.

Of the split's first rows every masked token is shown beside what the model puts in its place: enough to look at, and
so little that memory does not grow with the dataset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from corpora.ragged import bounds
from corpora.schema import IGNORED_LABEL
from models.bert_batch import Batch, need
from models.evaluate.measure import Measure, Result, Scores, check_order, texts
from models.evaluate.options import Options
from models.heads import row_labels
from models.output import Output
from models.stream.rows import Rows

SHOWN = 1000
"""Rows of a split, the first ones, whose masked tokens are shown."""
_BEST = 5
"""Predictions of a masked token that are shown, the best ones."""
_PREFIXES = ("", "coarse_")
"""Of names of labels and predictions: fine tokens, and AMBERT's coarse ones."""


def _read(output: Output, batch: Batch, rows: Rows, options: Options) -> pa.Table:
    check_order(batch, rows)
    found = [prefix for prefix in _PREFIXES if f"{prefix}mlm" in output.logits]
    needed = tuple(f"{prefix}mlm_labels" for prefix in found[:1])
    need(batch, needed, "evaluation of masked tokens (a collator with the step `Masking`)")
    made = texts(rows)
    for prefix in found:
        labels = row_labels(batch, f"{prefix}mlm_labels")
        if labels is not None:
            made |= _masked(output.logits[f"{prefix}mlm"].detach(), labels, rows, prefix)
    if "nsp" in output.logits:
        labels = row_labels(batch, "label")
        best = output.logits["nsp"].detach().argmax(-1).cpu().numpy()
        wanted = np.full(len(best), IGNORED_LABEL) if labels is None else labels.cpu().numpy()
        made |= {"next": pa.array(wanted), "predicted_next": pa.array(best)}
    return pa.table(made)


def _masked(logits: Tensor, labels: Tensor, rows: Rows, prefix: str) -> dict[str, pa.Array]:
    """How many tokens of each row were masked, and are predicted right; and these tokens, of the first rows alone.

    `logits`: float[M, V] of the tokens that have a label, in the order of labels int64[B, T].
    """
    chosen = labels != IGNORED_LABEL
    right = chosen.clone()
    right[chosen] = logits.argmax(-1) == labels[chosen]
    row, position = chosen.nonzero(as_tuple=True)
    first = rows.number < SHOWN
    shown = torch.from_numpy(first).to(row.device)[row]
    best = logits[shown].topk(min(_BEST, logits.shape[-1])).indices.cpu().numpy().astype(np.int32)
    each = np.arange(len(best) + 1, dtype=np.int32) * best.shape[1]
    tokens = pa.StructArray.from_arrays(
        [
            pa.array(position[shown].cpu().numpy().astype(np.int32)),
            pa.array(labels[chosen][shown].cpu().numpy().astype(np.int32)),
            pa.ListArray.from_arrays(pa.array(each), pa.array(best.ravel())),
        ],
        ["position", "token", "predicted"],
    )
    counts = chosen.sum(1).cpu().numpy()
    offsets = pa.array(bounds(np.where(first, counts, 0)), pa.int32())
    return {
        f"{prefix}masked": pa.array(counts),
        f"{prefix}right": pa.array(right.sum(1).cpu().numpy()),
        f"{prefix}tokens": pa.ListArray.from_arrays(offsets, tokens, mask=pa.array(~first)),
    }


def _score(table: pa.Table, metadata: Mapping[str, Any], options: Options) -> Result:
    scores: Scores = {}
    for prefix in _PREFIXES:
        if f"{prefix}masked" in table.column_names:
            masked, right = (int(table[f"{prefix}{name}"].to_numpy().sum()) for name in ("masked", "right"))
            scores |= {f"{prefix}masked_accuracy": right / masked} if masked else {}
    if "next" in table.column_names:
        wanted, found = table["next"].to_numpy(), table["predicted_next"].to_numpy()
        known = wanted != IGNORED_LABEL
        if known.any():
            scores["next_accuracy"] = float((wanted == found)[known].mean())
    return Result(scores, table)


def spelled(predictions: pa.Table, names: Sequence[str], prefix: str = "") -> pa.Table:
    """Predictions of masked tokens with strings in the place of ids.

    `names`: of fine tokens by id; with prefix `coarse_` of coarse ones. Ids beyond them become null.
    """
    column = f"{prefix}tokens"

    def name(token: int) -> str | None:
        return names[token] if token < len(names) else None

    made = [
        [one | {"token": name(one["token"]), "predicted": [name(x) for x in one["predicted"]]} for one in row]
        for row in predictions[column].slice(0, SHOWN).to_pylist()
    ]
    fields = {"position": pa.int32(), "token": pa.string(), "predicted": pa.list_(pa.string())}
    strings = pa.array(
        made + [None] * (len(predictions) - len(made)), pa.list_(pa.struct(list(fields.items())))
    )
    return predictions.set_column(predictions.column_names.index(column), column, strings)


MASKED = Measure(("id",), _read, _score)
"""`masked_accuracy` over all masked tokens, `coarse_masked_accuracy` over AMBERT's coarse ones; `next_accuracy` where
the model predicts next sentences, over the rows that have a label for it (of UniLM bidirectional ones alone).

Predictions of the first `SHOWN` rows have `tokens` (`coarse_tokens`), null in the rows behind: of every masked token
its `position` in the sequence that the model read (in the tree view: in `tree_ids`), `token`, the one that was there,
and `predicted`, the 5 best ones in its place, all by id; `spelled` makes strings of them."""
