"""Questions on a text: overlapping windows [CLS] question [SEP] text [SEP], and where the answer is in them.

BERT's way with SQuAD (Devlin et al. 2019, section 4.2, and `run_squad.py` of the authors' code), with these
differences: a cut parts no grapheme cluster, answers are found by characters and never by splitting at white
space, and an answer that does not lie on whole tokens is left out or widened by config instead of silently
approximated. Everything is computed for all questions of a batch at once.

Shapes: P questions, G gold answers of all questions, R windows, N flat tokens of all texts, T tokens of all windows.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipelines.config import ConfigError
from pipelines.encode.assemble import Cutter, Rows
from pipelines.encode.source import Texts
from pipelines.encode.tokenizer import Tokens
from pipelines.encode_config import EncodeConfig, SpanConfig
from pipelines.ragged import Ints, bounds, ranges

_SPECIAL = 3
"""Special tokens of a window."""
_UNKNOWN = -1
_TOGETHER = 1 << 20
"""Tokens of windows that are compared at a time, more only for one question: what bounds memory."""


def check_span(encode: EncodeConfig) -> None:
    """Raise ConfigError unless every window has room for text, and windows leave no gap."""
    question, stride = encode.span.max_question, encode.span.doc_stride
    budget = encode.max_length - _SPECIAL - question
    sum_up = f"encode.max_length = {encode.max_length} less {_SPECIAL} special tokens less encode.span.max_question"
    if budget < 1:
        raise ConfigError(
            f"encode.span.max_question is {question}: a window would have {budget} tokens of the text ({sum_up}). "
            "Raise encode.max_length or lower encode.span.max_question."
        )
    if stride > budget:
        raise ConfigError(
            f"encode.span.doc_stride is {stride}, but a window behind a question of {question} tokens has "
            f"{budget} tokens of the text ({sum_up}): what lies between two windows would be lost. Lower "
            f"encode.span.doc_stride to {budget} or less, or raise encode.max_length."
        )


# --- answers ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answers:
    """Gold answers of P questions: question p has answers `offsets[p]:offsets[p + 1]`."""

    starts: Ints
    """[G], characters of the question's text; negative where unknown"""
    stops: Ints
    """[G]"""
    offsets: Ints
    """[P+1]"""


@dataclass(frozen=True)
class Targets:
    """What a model is to find for each of P questions."""

    starts: Ints
    """[P], first flat token; -1 without a target"""
    stops: Ints
    """[P], one past the last; -1 without a target"""
    located: NDArray[np.bool_]
    """[P], some gold answer's place in the text is known, whether on whole tokens or not"""
    touched: NDArray[np.bool_]
    """[P], and some token holds one of its characters"""
    widened: NDArray[np.bool_]
    """[P], the target's tokens stand for more than the answer"""

    def only(self, keep: NDArray[np.bool_]) -> Targets:
        """Those of some of the questions."""
        return Targets(*(column[keep] for column in vars(self).values()))


def find_targets(texts: Texts, tokens: Tokens, contexts: Ints, answers: Answers, misaligned: str) -> Targets:
    """The tokens of the first gold answer of each question that can be a target.

    It can if its place is known, some token holds one of its characters, and (with `misaligned: drop`) its
    first token begins and its last one ends with it. What lies at its edges without being in any token (white
    space, controls) does not count; nor does white space that a token of some tokenizers has at its edge, nor marks
    on the answer's last letter that the gold answer lacks (a variation selector of an emoji).

    Args:
        contexts: [P], text that each question is about.
    """
    count = len(contexts)
    question = np.repeat(np.arange(count), np.diff(answers.offsets))
    known = np.flatnonzero((answers.starts >= 0) & (answers.stops > answers.starts))
    text = contexts[question[known]]
    begin, end = answers.starts[known], answers.stops[known]
    owner = np.repeat(np.arange(len(tokens.offsets) - 1), np.diff(tokens.offsets))
    # One number line for all texts. Neither edge of tokens ever goes back on it.
    first = np.searchsorted(texts.chars[owner] + tokens.stops, texts.chars[text] + begin, "right")
    stop = np.searchsorted(texts.chars[owner] + tokens.starts, texts.chars[text] + end, "left")
    held = first < stop
    loose = np.zeros(len(known), dtype=bool)
    at_first, at_last = first[held], stop[held] - 1
    loose[held] = (tokens.starts[at_first] < begin[held]) | (tokens.stops[at_last] > end[held])
    for i in np.flatnonzero(loose).tolist():
        string = texts.strings[text[i]]
        over = string[tokens.starts[first[i]] : begin[i]] + string[end[i] : tokens.stops[stop[i] - 1]]
        loose[i] = any(not (char.isspace() or unicodedata.category(char) == "Mn") for char in over)
    fit = np.flatnonzero(held & ~loose if misaligned == "drop" else held)
    of, place = np.unique(question[known[fit]], return_index=True)  # the first of each question
    chosen = fit[place]
    starts, stops = np.full(count, _UNKNOWN, np.int64), np.full(count, _UNKNOWN, np.int64)
    starts[of], stops[of] = first[chosen], stop[chosen]
    located, touched, widened = (np.zeros(count, dtype=bool) for _ in range(3))
    located[question[known]] = True
    touched[question[known[held]]] = True
    widened[of] = loose[chosen]
    return Targets(starts, stops, located, touched, widened)


# --- windows ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Windows:
    """R windows as rows, and what only this task has."""

    rows: Rows
    questions: Ints
    """[R], question of each, an index into the P of them"""
    answer_starts: NDArray[np.int16]
    """[R], token of the window; 0 without an answer in it"""
    answer_stops: NDArray[np.int16]
    """[R]; 1 without"""
    max_context: NDArray[np.bool_]
    """[T]"""


def span_rows(
    tokens: Tokens,
    pairs: Ints,
    documents: Ints,
    targets: Targets,
    config: SpanConfig,
    max_length: int,
    cutter: Cutter,
) -> Windows:
    """All windows of P questions, in order.

    Args:
        pairs: [P, 2], texts of the question and of what it is about; each has tokens.
        documents: [P], document of each.

    Counters: `questions_cut`; `answers_widened`; `windowed_questions`, those with more than one
    window; `answers_in_no_window`, targets that no window holds whole.
    """
    asked = tokens.offsets[pairs[:, 0]]
    ends = np.minimum(tokens.offsets[pairs[:, 0] + 1], asked + config.max_question)
    cut = np.flatnonzero(ends < tokens.offsets[pairs[:, 0] + 1])
    for p in cut.tolist():
        ends[p] = cutter.stop(int(pairs[p, 0]), int(asked[p]), int(ends[p]))
    budgets = max_length - _SPECIAL - (ends - asked)
    starts, stops, offsets = _spans(tokens, pairs[:, 1], budgets, config.doc_stride, cutter)
    owner = np.repeat(np.arange(len(pairs)), np.diff(offsets))

    inside = (
        (targets.starts[owner] >= starts) & (targets.stops[owner] <= stops) & (targets.starts[owner] >= 0)
    )
    shift = (ends - asked + 2)[owner] - starts  # [CLS], the question and [SEP] stand before
    found = np.zeros(len(pairs), dtype=bool)
    found[owner[inside]] = True
    counters = Counter(
        questions_cut=len(cut),
        windowed_questions=int((np.diff(offsets) > 1).sum()),
        answers_widened=int(targets.widened.sum()),
        answers_in_no_window=int(((targets.starts >= 0) & ~found).sum()),
    )
    rows = Rows(
        documents[owner],
        pairs[owner],
        np.stack((asked[owner], starts), axis=1),
        np.stack((ends[owner], stops), axis=1),
        None,
        counters,
    )
    return Windows(
        rows,
        owner,
        np.where(inside, targets.starts[owner] + shift, 0).astype(np.int16),
        np.where(inside, targets.stops[owner] + shift, 1).astype(np.int16),
        _max_context(rows, owner, tokens.offsets[pairs[:, 1]], np.diff(tokens.offsets)[pairs[:, 1]]),
    )


def _spans(
    tokens: Tokens, contexts: Ints, budgets: Ints, stride: int, cutter: Cutter
) -> tuple[Ints, Ints, Ints]:
    """First flat token [R] and one past the last [R] of all windows, and offsets [P+1] of the questions'.

    Windows begin every `stride` tokens until the text's end is reached. Few cuts part a cluster: the windows of
    those questions are made again one by one, each cut moved back to where it parts none.
    """
    low, high = tokens.offsets[contexts], tokens.offsets[contexts + 1]
    counts = 1 + np.maximum(-((budgets - (high - low)) // stride), 0)
    offsets = bounds(counts)
    owner = np.repeat(np.arange(len(contexts)), counts)
    number = np.arange(len(owner)) - offsets[owner]
    starts = low[owner] + number * stride
    stops = np.minimum(starts + budgets[owner], high[owner])

    inner_starts, inner_stops = number > 0, stops < high[owner]
    parted = _parting(np.concatenate((starts[inner_starts], stops[inner_stops])), tokens, cutter)
    if not len(parted):
        return starts, stops, offsets
    dirty = np.zeros(len(contexts), dtype=bool)
    dirty[owner[(inner_starts & np.isin(starts, parted)) | (inner_stops & np.isin(stops, parted))]] = True
    again = {
        p: _one_by_one(int(contexts[p]), int(low[p]), int(high[p]), int(budgets[p]), stride, cutter)
        for p in np.flatnonzero(dirty).tolist()
    }
    counts[list(again)] = [len(spans) for spans in again.values()]
    moved = bounds(counts)
    fixed = np.repeat(~dirty, counts)
    result = np.zeros((int(moved[-1]), 2), np.int64)
    result[fixed] = np.stack((starts, stops), axis=1)[~dirty[owner]]
    result[~fixed] = [span for spans in again.values() for span in spans]
    return result[:, 0], result[:, 1], moved


def _parting(cuts: Ints, tokens: Tokens, cutter: Cutter) -> Ints:
    """Those of the flat tokens `cuts` right before which a cut parts a cluster."""
    places = np.unique(cuts)
    texts = np.searchsorted(tokens.offsets, places, "right") - 1
    clean = [cutter.is_clean(t, at) for t, at in zip(texts.tolist(), places.tolist(), strict=True)]
    return places[~np.array(clean, dtype=bool)]


def _one_by_one(
    text: int, low: int, high: int, budget: int, stride: int, cutter: Cutter
) -> Sequence[tuple[int, int]]:
    """Windows of one text with clean cuts where there are any; each begins and ends behind the one before."""
    spans: list[tuple[int, int]] = []
    start, reached = low, low
    while True:
        stop = min(start + budget, high)
        if stop < high:
            stop = cutter.stop(text, max(start, reached), stop)
        spans.append((start, stop))
        if stop == high:
            return spans
        start, reached = cutter.stop(text, start, min(start + stride, stop)), stop


def _max_context(rows: Rows, owner: Ints, low: Ints, sizes: Ints) -> NDArray[np.bool_]:
    """bool[T]: whether a token of the text has most context in this window, of all that hold it.

    Args:
        owner: [R], question of each window, rising; low, sizes: [P], first flat token and tokens of its text.
    """
    offsets = bounds(rows.lengths())
    starts, lengths = rows.starts[:, 1], rows.stops[:, 1] - rows.starts[:, 1]
    # Tokens of all questions' texts side by side: a text that several questions share counts for each.
    places = starts + (bounds(sizes)[:-1] - low)[owner]
    best = np.zeros(int(offsets[-1]), dtype=bool)
    last = np.flatnonzero(np.diff(owner, append=-1)) + 1  # behind each question's last window
    done = bounds(lengths)
    start = 0
    while start < len(lengths):
        at = int(np.searchsorted(done[last], done[start] + _TOGETHER, "right")) - 1
        stop = int(last[max(at, int(np.searchsorted(last, start, "right")))])
        part = slice(start, stop)
        flags = _most(places[part] - places[start], lengths[part])
        best[ranges(offsets[start + 1 : stop + 1] - 1 - lengths[part], lengths[part])] = flags
        start = stop
    return best


def _most(places: Ints, lengths: Ints) -> NDArray[np.bool_]:
    """Of windows that lie at `places` of one line of tokens: those tokens of each that have most context there.

    BERT's rule: the smaller number of tokens at its left and right, plus a hundredth of the window's
    tokens of the text; of equals the first window.
    """
    window = np.repeat(np.arange(len(lengths)), lengths)
    left = np.arange(len(window)) - bounds(lengths)[window]
    score = np.minimum(left, lengths[window] - 1 - left) + 0.01 * lengths[window]
    token = places[window] + left
    most = np.full(int((places + lengths).max()), -1.0)
    np.maximum.at(most, token, score)
    high = np.flatnonzero(score == most[token])
    first = np.full(len(most), len(window))
    np.minimum.at(first, token[high], high)
    flags: NDArray[np.bool_] = first[token] == np.arange(len(window))
    return flags
