"""Masked tokens and next sentences: the share of predictions that are right. The objectives of pretraining."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from corpora.schema import IGNORED_LABEL
from models.bert_batch import Batch, need
from models.evaluate.measure import Measure, Options, Result, Scores, check_order
from models.heads import row_labels
from models.output import Output
from models.stream.rows import Rows


def _read(output: Output, batch: Batch, rows: Rows, options: Options) -> pa.Table:
    check_order(batch, rows)
    need(batch, ("mlm_labels",), "evaluation of masked tokens (a collator with the step `Masking`)")
    labels = row_labels(batch, "mlm_labels")
    assert labels is not None
    chosen = labels != IGNORED_LABEL
    right = chosen.clone()
    right[chosen] = output.logits["mlm"].detach().argmax(-1) == labels[chosen]
    made = {
        "number": pa.array(rows.number),
        "masked": pa.array(chosen.sum(1).cpu().numpy()),
        "right": pa.array(right.sum(1).cpu().numpy()),
    }
    if "nsp" in output.logits:
        labels = row_labels(batch, "label")
        found = output.logits["nsp"].detach().argmax(-1).cpu().numpy()
        wanted = np.full(len(found), IGNORED_LABEL) if labels is None else labels.cpu().numpy()
        made |= {"next": pa.array(wanted), "predicted_next": pa.array(found)}
    return pa.table(made)


def _score(table: pa.Table, metadata: Mapping[str, Any], options: Options) -> Result:
    masked, right = (int(table[name].to_numpy().sum()) for name in ("masked", "right"))
    scores: Scores = {"masked_accuracy": right / masked} if masked else {}
    if "next" in table.column_names:
        wanted, found = table["next"].to_numpy(), table["predicted_next"].to_numpy()
        known = wanted != IGNORED_LABEL
        if known.any():
            scores["next_accuracy"] = float((wanted == found)[known].mean())
    return Result(scores, table)


MASKED = Measure((), _read, _score)
"""`masked_accuracy` over all masked tokens; `next_accuracy` where the model predicts next sentences, over the rows that
have a label for it (of UniLM bidirectional ones alone)."""
