"""How a task is measured: what is read of each batch, and what is made of it once all rows are there.

Predictions are an Arrow table, a row for each row of the dataset: it goes from rank to rank, is sorted into the
dataset's order, and is written as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from torch import Tensor

from corpora.ragged import Ints
from models.bert_batch import Batch, BatchError
from models.evaluate.options import Options
from models.output import Output
from models.stream.rows import Array, Rows

Scores = dict[str, float]


@dataclass(frozen=True)
class Result:
    """What is known of a split once its predictions are scored.

    Attributes:
        scores: by name, from 0 to 1 (losses and thresholds are what they are).
        predictions: a row for each row of the split, or each question; ready for JSON by `to_pylist`.
        tables: further tables of figures, by name: for each class, each type of entity.
        files: what official scripts read, by names of files; ready for JSON.
        rules: options that the scores went by, defaults filled in (`models.evaluate.options`).
        remarks: lines on what scores do not show.
        main: names of the scores that a line has room for; none: all.
    """

    scores: Scores
    predictions: pa.Table
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    rules: dict[str, Any] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    main: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measure:
    """How one task is measured.

    Attributes:
        columns: of the dataset, that `read` needs beside those the model reads.
        read: (output, batch, rows, options) -> the batch's predictions, a table row for each of the rows.
        score: (predictions of all rows in the dataset's order, the dataset's metadata, options) -> `Result`.
        check: (the dataset's metadata, options) -> None; raises BatchError where the options are not for the dataset.
        known: rows -> bool[N], those that have a label, where the labels of a batch do not tell; None: they do.
    """

    columns: tuple[str, ...]
    read: Callable[[Output, Batch, Rows, Options], pa.Table]
    score: Callable[[pa.Table, Mapping[str, Any], Options], Result]
    check: Callable[[Mapping[str, Any], Options], None] = lambda metadata, options: None
    known: Callable[[Rows], Array] | None = None


def logits(output: Output, name: str) -> Tensor:
    """The model's logits of this name, in single precision, on the CPU."""
    return output.logits[name].detach().float().cpu()


def check_order(batch: Batch, rows: Rows, of: Ints | None = None) -> None:
    """Raise BatchError unless the batch's sequences are those of `rows`, one each (or of rows `of`), in their order."""
    numbers = rows.number if of is None else rows.number[of]
    found = batch["number"].cpu().numpy()
    if not np.array_equal(found, numbers):
        raise BatchError(
            f"the batch has {len(found)} sequences for {len(numbers)} expected, or has them in another order: "
            "predictions are read row by row, so do not pack rows for evaluation"
        )


def of_trunk(values: Tensor, batch: Batch, rows: Rows, column: str) -> Array:
    """Values [B, T, ...] of a batch's positions for the rows' own tokens, end to end: no padding, no branches.

    `column`: one of the rows' list columns of shape T, which the result lies in rows as. Raises BatchError where the
    batch has other tokens.
    """
    own = batch["sequence_id"] > 0
    if "trunk_index" in batch:
        own = own & (batch["trunk_index"] >= 0)
    own = own.cpu()
    if not np.array_equal(own.sum(1).numpy(), np.diff(rows.lists[column][1])):
        raise BatchError(
            "the batch's sequences are not as long as the dataset's rows: do not pack or cut rows"
        )
    return values.cpu()[own].numpy()


def lists(values: Array, offsets: Ints) -> pa.ListArray:
    """A list column of these items and offsets."""
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values))


def named(names: Sequence[str], indices: Array) -> pa.Array:
    """Names of these indices; null for -100."""
    indices = np.asarray(indices)
    return pa.array(list(names), pa.string()).take(pa.array(indices, pa.int32(), mask=indices < 0))


def texts(rows: Rows) -> dict[str, pa.Array]:
    """Number, id and texts of rows, which predictions begin with; those read of the dataset."""
    has = [name for name in ("id", "text", "text_pair") if name in rows.texts]
    return {"number": pa.array(rows.number), **{name: rows.texts[name] for name in has}}
