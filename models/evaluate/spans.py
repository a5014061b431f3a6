"""Spans: from start and stop logits of windows to the answer of each question.

An answer is a run of at most `max_answer_length` tokens of the text, one of which at least has most context in this
window; its score is start logit plus stop logit, and the best of all windows counts (Devlin et al. 2019,
sections 4.2 and 4.3). "None" scores the two logits of [CLS], the lowest of all windows, and beats the best answer
where it is higher by more than the threshold, in splits with questions that have no answer; and in those of which
nothing is known, neither answers nor that there is none, as of a test set.

BERT's released code differs twice. It pairs the 20 best starts with the 20 best stops; here every pair is looked at.
And there the first token must have most context, so a long answer that such a window does not hold whole can never be
given (19 of 1,000 questions of CMRC's trial set in windows of 256 tokens, 96 apart); here any of its tokens will do.

For the official scripts the same is written as they read it. `answers.json`, {id: text}, has the best answer to every
question, whatever the threshold ("" where there is none at all): SQuAD 2.0's script applies a threshold itself, and
finds the best one. `no_answer.json`, {id: by how much "none" scores higher}, is its `--na-prob-file`, written unless
every question has a gold answer: no probabilities, but compared with `--na-prob-thresh` alike, for which the script's
default is 1 and ours is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from corpora.ragged import Ints, bounds, ranges
from corpora.trunk import Ragged
from models.bert_batch import Batch
from models.evaluate.answers import COMPARED, best_threshold, script_of, with_threshold
from models.evaluate.measure import (
    Measure,
    Result,
    Scores,
    check_order,
    lists,
    of_trunk,
    texts,
)
from models.evaluate.options import HEEDED, Options, Script
from models.output import Output
from models.stream.rows import Array, Rows

ANSWERS, NO_ANSWER = "answers.json", "no_answer.json"
_BEST = 20
"""How many answers of a question are kept, the best ones."""


def best_spans(
    start: Tensor, stop: Tensor, allowed: Tensor, central: Tensor, max_length: int, best: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The best spans of each window: scores float[B, N], first tokens and ends (exclusive) int64[B, N]; N <= best.

    Best first; of equal ones that which begins first, then the shorter. Where a window has fewer, the score is -inf.

    Args:
        start, stop: float[B, T], logits of a span's first and last token.
        allowed: bool[B, T], tokens that a span may begin and end with.
        central: bool[B, T], tokens of which a span must have one.
        max_length: most tokens of a span.
    """
    low = float("-inf")
    length = min(max_length, start.shape[1])

    def lasts(values: Tensor, fill: float) -> Tensor:
        """[B, T] of last tokens as [B, T, length], by first tokens and how far off the last one is."""
        return torch.nn.functional.pad(values, (0, length - 1), value=fill).unfold(1, length, 1)

    pairs = start.masked_fill(~allowed, low)[..., None] + lasts(stop.masked_fill(~allowed, low), low)
    counted = central.int().cumsum(1)
    before = (counted - central.int())[..., None]
    pairs = pairs.masked_fill(lasts(counted, 0) <= before, low).flatten(1)
    # To sort all pairs would be slow: the best are taken first, then put in order.
    scores, places = pairs.topk(min(best, pairs.shape[1]))
    places, order = places.sort(1)
    scores, order = scores.gather(1, order).sort(dim=1, descending=True, stable=True)
    places = places.gather(1, order)
    first = places // length
    return scores, first, first + places % length + 1


# --- of a model's output ----------------------------------------------------------------------


def _read(output: Output, batch: Batch, rows: Rows, options: Options) -> pa.Table:
    check_order(batch, rows)
    char_starts, offsets = rows.lists["char_starts"]
    char_stops = rows.lists["char_stops"][0]
    start, stop = (
        of_trunk(output.logits[name].detach().float(), batch, rows, "char_starts")
        for name in ("start", "stop")
    )
    of_text = (rows.lists["token_type_ids"][0] == 1) & (char_stops > char_starts)
    spans = best_spans(
        _square(start, offsets, -np.inf),
        _square(stop, offsets, -np.inf),
        _square(of_text, offsets, False),
        _square(rows.lists["is_max_context"][0], offsets, False),
        options.max_answer_length,
        _BEST,
    )
    scores, first, end = (x.numpy() for x in spans)
    row, place = np.nonzero(np.isfinite(scores))
    begin = char_starts[offsets[row] + first[row, place]]
    over = char_stops[offsets[row] + end[row, place] - 1]
    whole = rows.texts["text_pair"].to_pylist()
    found = [whole[r][a:b] for r, a, b in zip(row.tolist(), begin.tolist(), over.tolist(), strict=True)]
    each = bounds(np.bincount(row, minlength=len(rows)))
    told = texts(rows)
    del told["text_pair"]
    return pa.table(
        told
        | {
            "answers": rows.texts["answers"],
            "is_impossible": pa.array(rows.scalars["is_impossible"].astype(np.bool_)),
            "none": pa.array(start[offsets[:-1]] + stop[offsets[:-1]]),
            "scores": lists(scores[row, place], each),
            "starts": lists(begin, each),
            "stops": lists(over, each),
            "texts": pa.ListArray.from_arrays(pa.array(each, pa.int32()), pa.array(found, pa.string())),
        }
    )


def _known(answers: pa.Array, impossible: Array) -> Array:
    """bool[N]: whether there are gold answers, or it is known that there is none. Windows without an answer have the
    same labels as unlabelled ones, so these do not tell."""
    return (np.asarray(pc.list_value_length(answers)) > 0) | impossible


def _square(values: Array, offsets: Ints, fill: Any) -> Tensor:
    """Values of rows, end to end, as [B, T]."""
    lengths = np.diff(offsets)
    square = np.full((len(lengths), int(lengths.max())), fill, values.dtype)
    square[np.repeat(np.arange(len(lengths)), lengths), ranges(np.zeros_like(lengths), lengths)] = values
    return torch.from_numpy(square)


def _score(table: pa.Table, metadata: Mapping[str, Any], options: Options) -> Result:
    questions = best_of_windows(table, _BEST)
    none_scores, answers = questions["none_score"].to_numpy(), questions["answer"].to_pylist()
    gold, impossible = questions["answers"].to_pylist(), questions["is_impossible"].to_numpy()
    known = np.flatnonzero(_known(questions["answers"], impossible))
    may_be_none = impossible.any() or not len(known)  # in SQuAD 1.1 and CMRC "none" is no answer
    silent = (none_scores > options.threshold) & may_be_none
    given = ["" if none else answer for none, answer in zip(silent.tolist(), answers, strict=True)]
    script = options.script or script_of([text for row in gold for text in row])
    scores = answer_scores(
        [gold[i] for i in known], [answers[i] for i in known], none_scores[known], script, options.threshold
    )
    files: dict[str, dict[str, Any]] = {ANSWERS: dict(zip(questions["id"].to_pylist(), answers, strict=True))}
    if not all(gold):
        odds = np.nan_to_num(none_scores)  # JSON has no infinity
        files[NO_ANSWER] = dict(zip(questions["id"].to_pylist(), odds.tolist(), strict=True))
    rules = options.model_dump(include=set(HEEDED["span"])) | {"script": script}
    for name, applied in (("threshold", may_be_none), ("script", len(known))):
        if not applied:
            del rules[name]
    return Result(scores, _shown(questions, given), files=files, rules=rules, main=("f1", "exact", "loss"))


def answer_scores(
    gold: Sequence[Sequence[str]],
    answers: Sequence[str],
    none_scores: ArrayLike,
    script: Script,
    threshold: float = 0.0,
) -> Scores:
    """`exact` and `f1` over questions, of 0 to 1; no score without questions.

    Where some have no gold answer (SQuAD 2.0) these are of answers that the threshold leaves, and beside them there
    are `answerable_exact` and `answerable_f1` over the others; `unanswerable`, the share rightly left without an
    answer; and `best_exact`, `best_f1`, what the best threshold would give, with `best_exact_threshold` and
    `best_f1_threshold`, whatever the threshold.

    Args:
        gold: gold answers of each question; none: it has no answer.
        answers: the best answer to each, "" where there is none.
        none_scores: float[Q], by how much "none" scores higher than the answer.
        threshold: an answer is given only where that is no more than this.
    """
    if not gold:
        return {}
    both = [np.array(x) for x in zip(*map(COMPARED[script], gold, answers), strict=True)]
    answerable = np.array([len(texts) > 0 for texts in gold])
    if answerable.all():
        return {name: float(values.mean()) for name, values in zip(_NAMES, both, strict=True)}
    answered = np.array([answer != "" for answer in answers])
    silent = (np.asarray(none_scores) > threshold) | ~answered
    scores: Scores = {"unanswerable": float(silent[~answerable].mean())}
    for name, values in zip(_NAMES, both, strict=True):
        limited = with_threshold(values, none_scores, answerable, threshold)
        best, at = best_threshold(values, none_scores, answerable, answered)
        scores |= {name: float(limited.mean()), f"best_{name}": best, f"best_{name}_threshold": at}
        if answerable.any():
            scores[f"answerable_{name}"] = float(limited[answerable].mean())
    return scores


_NAMES = ("exact", "f1")


def _shown(questions: pa.Table, given: list[str]) -> pa.Table:
    """Predictions as they are written: `predicted` is the answer given, "" for none."""
    rest = questions.drop_columns(["answer"])
    return rest.add_column(rest.column_names.index("best"), "predicted", pa.array(given, pa.string()))


def best_of_windows(table: pa.Table, best: int) -> pa.Table:
    """A row for each question out of one for each window, the windows of a question one after the other.

    Returns:
        id, number (of its first window), text, answers, is_impossible; `answer`, the text of the best span, "" where
        no window has any; `none_score`, by how much "none" scores higher than it (inf without one); `best`, the best
        spans {text, score, start, stop}, at most so many: characters of `text_pair`; of equal ones the earlier first.
    """
    names, windows = _names(table["id"].to_pylist())
    first = np.flatnonzero((windows == "0") | np.append(True, names[1:] != names[:-1]))
    question = np.repeat(np.arange(len(first)), np.diff(first, append=len(names)))
    scores, offsets = Ragged.of(table["scores"])
    starts, stops = (Ragged.of(table[name]).values for name in ("starts", "stops"))
    of = np.repeat(question, np.diff(offsets))
    # A span that two windows have counts once, by its best score.
    order = np.lexsort((-scores, stops, starts, of))
    same = [np.diff(x[order], prepend=-1) == 0 for x in (of, starts, stops)]
    order = order[~np.logical_and.reduce(same)]
    order = order[np.lexsort((stops[order], starts[order], -scores[order], of[order]))]
    of = of[order]
    counts = np.bincount(of, minlength=len(first))
    kept = order[ranges(bounds(counts)[:-1], np.minimum(counts, best))]
    each = bounds(np.minimum(counts, best))
    found = pa.concat_arrays([chunk.flatten() for chunk in table["texts"].chunks]).take(pa.array(kept))
    spans = pa.StructArray.from_arrays(
        [found, pa.array(scores[kept]), pa.array(starts[kept]), pa.array(stops[kept])],
        ["text", "score", "start", "stop"],
    )
    has = np.diff(each) > 0
    top = np.full(len(first), -np.inf)
    top[has] = scores[kept][each[:-1][has]]
    answer = np.full(len(first), "", object)
    answer[has] = found.take(pa.array(each[:-1][has])).to_pylist()
    none = np.minimum.reduceat(table["none"].to_numpy(), first).astype(np.float64)
    own = table.select(["number", "text", "answers", "is_impossible"]).take(pa.array(first))
    made = {
        "answer": pa.array(answer, pa.string()),
        "none_score": pa.array(none - top),
        "best": pa.ListArray.from_arrays(pa.array(each, pa.int32()), spans),
    }
    return pa.table(
        {"id": pa.array(names[first]), **dict(zip(own.column_names, own.columns, strict=True)), **made}
    )


def _names(ids: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Question and window of rows' ids `<question>#<window>`."""
    parts = [name.rpartition("#")[::2] for name in ids]
    return np.array([p[0] for p in parts], object), np.array([p[1] for p in parts], object)


SPAN = Measure(
    (
        "id",
        "text",
        "text_pair",
        "token_type_ids",
        "char_starts",
        "char_stops",
        "is_max_context",
        "is_impossible",
        "answers",
    ),
    _read,
    _score,
    known=lambda rows: _known(rows.texts["answers"], rows.scalars["is_impossible"].astype(np.bool_)),
)
