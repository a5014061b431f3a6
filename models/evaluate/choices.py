"""Multiple choice (RACE, C3): the share of questions whose right choice has the highest score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from corpora.ragged import Ints, bounds, ranges
from corpora.schema import IGNORED_LABEL
from models.bert_batch import Batch
from models.evaluate.measure import Measure, Result, check_order, lists, logits, texts
from models.evaluate.options import Options
from models.output import Output
from models.stream.rows import Array, Rows


def best_choices(scores: Array, offsets: Ints) -> Ints:
    """int64[Q]: the choice of the highest score, the first of equals.

    Args:
        scores: float[B], of all choices, end to end.
        offsets: int64[Q+1], question q has choices offsets[q] to offsets[q+1]-1, at least one.
    """
    lengths = np.diff(offsets)
    width = int(lengths.max(initial=0))
    square = np.full((len(lengths), width), -np.inf, scores.dtype)
    square[np.repeat(np.arange(len(lengths)), lengths), ranges(np.zeros_like(lengths), lengths)] = scores
    return square.argmax(1) if width else np.zeros(len(lengths), np.int64)


def _read(output: Output, batch: Batch, rows: Rows, options: Options) -> pa.Table:
    counts = np.diff(rows.lists["choice_lengths"][1])
    check_order(batch, rows, np.repeat(np.arange(len(rows)), counts))
    scores, offsets = logits(output, "choice").numpy(), bounds(counts)
    return pa.table(
        texts(rows)
        | {
            "label": pa.array(rows.scalars["label"].astype(np.int32)),
            "predicted": pa.array(best_choices(scores, offsets).astype(np.int32)),
            "scores": lists(scores, offsets),
        }
    )


def _score(table: pa.Table, metadata: Mapping[str, Any], options: Options) -> Result:
    gold, predicted = table["label"].to_numpy(), table["predicted"].to_numpy()
    known = gold != IGNORED_LABEL
    scores = {"accuracy": float((gold == predicted)[known].mean())} if known.any() else {}
    at = table.column_names.index("label")
    return Result(scores, table.set_column(at, "label", pa.array(gold, mask=~known)))


CHOICE = Measure(("id", "text", "label", "choice_lengths"), _read, _score)
