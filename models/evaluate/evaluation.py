"""Evaluation: a model, a split, scores. While a model learns, after it has, or of what it wrote to a file."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any, Literal

from corpora import files
from models.bert import Bert
from models.bert_batch import BatchError, label_names
from models.collate.collator import Collator
from models.evaluate.choices import CHOICE
from models.evaluate.classes import CLASSIFY, NSP, REGRESS
from models.evaluate.measure import Measure, Result, Scores
from models.evaluate.options import Options
from models.evaluate.predict import predict
from models.evaluate.spans import ANSWERS, NO_ANSWER, SPAN
from models.evaluate.tags import TAG
from models.evaluate.tokens import MASKED
from models.ranks import Ranks
from models.stream.batches import Grouping
from models.stream.shards import Split

MEASURES: dict[str, Measure] = {
    "mlm": MASKED,
    "pretrain": MASKED,
    "nsp": NSP,
    "classify": CLASSIFY,
    "regress": REGRESS,
    "tag": TAG,
    "span": SPAN,
    "choice": CHOICE,
}
"""By task of a model."""
METRICS, PREDICTIONS = "metrics.json", "predictions.jsonl"
_ROWS_AT_ONCE = 4096


def columns_of(model: Bert, collator: Collator | None = None) -> tuple[str, ...]:
    """Columns of the dataset to open a split with that this model is to be evaluated on.

    Raises BatchError for a task that is not measured.
    """
    return tuple(dict.fromkeys((collator or Collator.of(model)).columns + _measure(model).columns))


def evaluate(
    model: Bert,
    split: Split,
    collator: Collator | None = None,
    *,
    options: Options | None = None,
    batch_size: int = 32,
    grouping: Grouping | None = None,
    ranks: Ranks | None = None,
    precision: Literal["fp32", "bf16"] = "fp32",
    workers: int = 0,
) -> Result:
    """Scores of a model on a split, and its predictions.

        split = open_split(folder, "dev", columns_of(model))
        result = evaluate(model, split)
        result.scores["accuracy"]

    Every row counts once, on any number of ranks; the scores are every rank's, all else is the first one's. Rows
    without a label are predicted, and count in no score; where none has one there is no score, and no loss.

    Args:
        model: on its device; its task says what is measured. Not wrapped for several processes.
        split: opened with `columns_of(model, collator)`.
        collator: default: the model's own. Tasks that predict masked tokens need one with a step that masks.
        options: of the scores.

    The other arguments are those of `models.evaluate.predict.predict`.

    Raises:
        BatchError: the task is not measured, the split lacks a column, or does not fit the model or the options.
    """
    measure, ranks = _measure(model), ranks or Ranks()
    options, collator = options or Options(), collator or Collator.of(model)
    collator.check_dataset(split.metadata)
    metadata = _named(model, split.metadata)
    measure.check(metadata, options)
    found = predict(
        model,
        split,
        measure,
        collator,
        options,
        batch_size=batch_size,
        grouping=grouping,
        ranks=ranks,
        precision=precision,
        workers=workers,
    )
    result, error = Result({}, found.table), None
    if ranks.first:
        try:
            result = measure.score(found.table, metadata, options)
        except ValueError as raised:
            error = raised
    ranks.together(error)
    scores: Scores = ranks.gather(result.scores)[0]
    # Of rows without a label there may be a loss all the same: AMBERT's two [CLS] agree about any row.
    return dataclasses.replace(result, scores={**scores, **found.losses} if scores else {})


def write(
    result: Result, folder: str, facts: Mapping[str, Any] | None = None, predictions: str = PREDICTIONS
) -> None:
    """Write `metrics.json` (scores, rules, tables, `facts` beside them), `predictions.jsonl`, a row a line, and the
    result's own files to a folder.

    What is no finite number is null. Each file is whole or is not there, and none of an earlier evaluation stays beside
    them: `metrics.json` goes first and comes last.
    """
    files.make_dirs(folder)
    files.remove_temporaries(folder)
    for name in (METRICS, predictions, ANSWERS, NO_ANSWER):
        files.remove(files.join(folder, name))
    with files.write_atomic(files.join(folder, predictions)) as file:
        for batch in result.predictions.to_batches(_ROWS_AT_ONCE):
            file.writelines(_line(row) + b"\n" for row in batch.to_pylist())
    for name, body in result.files.items():
        with files.write_atomic(files.join(folder, name)) as file:
            file.write(_line(body) + b"\n")
    with files.write_atomic(files.join(folder, METRICS)) as file:
        rules = {"rules": result.rules} if result.rules else {}
        body = _finite({**(facts or {}), **rules, "scores": result.scores, **result.tables})
        file.write(json.dumps(body, ensure_ascii=False, indent=2, allow_nan=False).encode() + b"\n")


def _named(model: Bert, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """The dataset's metadata, with the model's labels where no row of it has one: what is predicted has a name."""
    if model.task.name not in ("classify", "tag") or metadata.get("labels"):
        return metadata
    plain = [f"LABEL_{number}" for number in range(len(model.config.id2label or ()))]
    return {**metadata, "labels": label_names(model.config.id2label) or plain}


def _measure(model: Bert) -> Measure:
    try:
        return MEASURES[model.task.name]
    except KeyError:
        known = ", ".join(MEASURES)
        raise BatchError(f"task {model.task.name!r} is not measured; tasks that are: {known}") from None


def _line(row: dict[str, Any]) -> bytes:
    return json.dumps(_finite(row), ensure_ascii=False, allow_nan=False).encode()


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list) else value
