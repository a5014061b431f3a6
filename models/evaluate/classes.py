"""Classes and scores of whole rows: accuracy, macro-F1, Matthews' correlation; Pearson's and Spearman's.

Matthews' correlation is GLUE's measure of CoLA, Pearson's and Spearman's those of STS-B (Wang et al. 2018).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from corpora.schema import IGNORED_LABEL
from models.bert_batch import Batch
from models.evaluate.measure import Measure, Result, Scores, check_order, logits, named, texts
from models.evaluate.options import Options
from models.output import Output
from models.stream.rows import Rows


def class_scores(gold: ArrayLike, predicted: ArrayLike) -> Scores:
    """`accuracy`, `macro_f1` and `matthews` (-1 to 1) of classes int[N] against the gold ones.

    Rows whose gold class is -100 do not count; no score without any other. `macro_f1` is the plain mean over the
    classes that occur, as gold or as predicted; a class never met, and never predicted, is none.
    """
    from sklearn.metrics import f1_score, matthews_corrcoef

    gold, predicted = _known(gold, predicted)
    if not len(gold):
        return {}
    with warnings.catch_warnings():  # one class alone is told of by the figures themselves
        warnings.simplefilter("ignore")
        matthews = float(matthews_corrcoef(gold, predicted))
    return {
        "accuracy": float((gold == predicted).mean()),
        "macro_f1": float(f1_score(gold, predicted, average="macro", zero_division=0)),
        "matthews": matthews,
    }


def class_table(gold: ArrayLike, predicted: ArrayLike, names: Sequence[str]) -> list[dict[str, Any]]:
    """For each class its `precision`, `recall`, `f1`, and how many rows are `gold` and how many `predicted`."""
    from sklearn.metrics import precision_recall_fscore_support

    gold, predicted = _known(gold, predicted)
    if not len(gold):
        return []
    labels = np.arange(len(names))
    figures = precision_recall_fscore_support(gold, predicted, labels=labels, zero_division=0)
    counts = np.bincount(predicted, minlength=len(names))
    return [
        {"class": name, "precision": p, "recall": r, "f1": f, "gold": int(n), "predicted": int(count)}
        for name, p, r, f, n, count in zip(names, *map(np.ndarray.tolist, figures), counts, strict=True)
    ]


def one_class(gold: ArrayLike, predicted: ArrayLike, names: Sequence[str], what: str = "rows") -> list[str]:
    """A line where all are predicted as one class, though they are of several: nothing was learned, or all was lost."""
    gold, predicted = _known(gold, predicted)
    if len(set(predicted.tolist())) != 1 or len(set(gold.tolist())) == 1:
        return []
    return [f"all {len(predicted):,} {what} are predicted as {names[int(predicted[0])]}"]


def value_scores(gold: ArrayLike, predicted: ArrayLike) -> Scores:
    """`pearson` and `spearman` (-1 to 1) and `mean_squared_error` of values float[N].

    Rows whose gold value is NaN do not count; no score without any other.
    Correlations with values that are all the same are not defined: then they are 0, as nothing is known of the order.
    """
    from scipy.stats import pearsonr, spearmanr

    wanted, found = np.asarray(gold, np.float64), np.asarray(predicted, np.float64)
    known = ~np.isnan(wanted)
    wanted, found = wanted[known], found[known]
    if not len(wanted):
        return {}
    scores = {"mean_squared_error": float(np.square(wanted - found).mean())}
    if len(wanted) == 1:  # which is correlated with nothing
        return scores
    vary = np.ptp(wanted) > 0 and np.ptp(found) > 0
    for name, correlation in (("pearson", pearsonr), ("spearman", spearmanr)):
        scores[name] = float(correlation(wanted, found).statistic) if vary else 0.0
    return scores


def _known(gold: ArrayLike, predicted: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    wanted, found = np.asarray(gold), np.asarray(predicted)
    known = wanted != IGNORED_LABEL
    return wanted[known], found[known]


# --- of a model's output ----------------------------------------------------------------------


def _read_classes(name: str) -> Any:
    def read(output: Output, batch: Batch, rows: Rows, options: Options) -> pa.Table:
        check_order(batch, rows)
        chances, classes = logits(output, name).softmax(-1).max(-1)
        return pa.table(
            texts(rows)
            | {
                "label": pa.array(rows.scalars["label"].astype(np.int32)),
                "predicted": pa.array(classes.numpy().astype(np.int32)),
                "probability": pa.array(chances.numpy()),
            }
        )

    return read


def _score_classes(predictions: pa.Table, metadata: Mapping[str, Any], options: Options) -> Result:
    gold, predicted = predictions["label"].to_numpy(), predictions["predicted"].to_numpy()
    # The classes of next sentence prediction have no names.
    names = metadata.get("labels") or list(map(str, range(int(max(gold.max(), predicted.max())) + 1)))
    shown = predictions
    for column, values in (("label", gold), ("predicted", predicted)):
        shown = shown.set_column(shown.column_names.index(column), column, named(names, values))
    table, remarks = class_table(gold, predicted, names), one_class(gold, predicted, names)
    tables = {"classes": table} if table else {}
    return Result(class_scores(gold, predicted), shown, tables, remarks=remarks)


def _read_values(output: Output, batch: Batch, rows: Rows, options: Options) -> pa.Table:
    check_order(batch, rows)
    gold = rows.scalars["label_score"]
    values = {
        "label": pa.array(gold, pa.float32(), from_pandas=True),
        "predicted": pa.array(logits(output, "regress").numpy()),
    }
    return pa.table(texts(rows) | values)


def _score_values(table: pa.Table, metadata: Mapping[str, Any], options: Options) -> Result:
    gold = table["label"].to_numpy()
    return Result(value_scores(gold, table["predicted"].to_numpy()), table)


_TEXTS = ("id", "text", "text_pair")
CLASSIFY = Measure((*_TEXTS, "label"), _read_classes("classify"), _score_classes)
NSP = Measure((*_TEXTS, "label"), _read_classes("nsp"), _score_classes)
REGRESS = Measure((*_TEXTS, "label_score"), _read_values, _score_values)
