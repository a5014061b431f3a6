"""Rules of one window of a question (task `span`), and of the answers of an annotated document.

T tokens of a row, [CLS] question [SEP] text [SEP]; A of them are [CLS], the question and its [SEP].
"""

from __future__ import annotations

import numpy as np

from corpora.verify.edges import trimmed
from corpora.verify.facts import RowFacts
from corpora.verify.view import Bools, Ints, View, numbers

NULL_SPAN = (0, 1)
"""First token of an answer and one past its last where the window holds none: [CLS] alone."""


def has_answer(view: View) -> Bools:
    """bool[R]: whether the span of each row is not the null span."""
    start, stop = numbers(view.column("answer_start")), numbers(view.column("answer_stop"))
    return (start != NULL_SPAN[0]) | (stop != NULL_SPAN[1])


def check_answers(view: View, special: Bools, segment: Ints, facts: RowFacts) -> None:
    """The span, what it says, and which tokens may have most context.

    `special` bool[T of all rows], `segment` int64[T of all rows]; rows of `view` are known to have
    their control tokens in place and a second text.
    """
    tokens = view.shape("input_ids")
    before = tokens.per_row(segment == 0)  # A
    start, stop = numbers(view.column("answer_start")), numbers(view.column("answer_stop"))
    answered = has_answer(view)
    view.fail_rows(
        "answer_span",
        answered & ~((start >= before) & (start < stop) & (stop < tokens.lengths)),
        lambda r: (
            f"the answer is tokens [{start[r]}, {stop[r]}), the text's are "
            f"[{before[r]}, {tokens.lengths[r] - 1}); without an answer expected [0, 1)"
        ),
    )
    impossible = view.column("is_impossible").to_numpy(zero_copy_only=False).astype(bool)
    given = view.shape("answers").lengths
    view.fail_rows(
        "impossible",
        impossible & (answered | (given > 0)),
        lambda r: f"is_impossible, but {given[r]} answers and the span [{start[r]}, {stop[r]})",
    )
    _check_texts(view, np.flatnonzero(answered & ~view.bad), start, stop, facts.misaligned == "widen")
    best = view.flat("is_max_context")
    view.fail(
        "max_context",
        tokens,
        best & (special | (segment == 0)),
        lambda i: f"token {tokens.position[i]} has most context, but is no token of the text",
    )


def _check_texts(view: View, rows: Ints, start: Ints, stop: Ints, wider: bool) -> None:
    """What tokens [start, stop) stand for is an answer, or holds one where answers may be `wider`."""
    tokens, answers = view.shape("input_ids"), view.column("answers")
    starts, stops = view.flat("char_starts"), view.flat("char_stops")
    texts = view.column("text_pair")
    wrong: dict[int, str] = {}
    for r in rows.tolist():
        first, last = int(tokens.offsets[r] + start[r]), int(tokens.offsets[r] + stop[r] - 1)
        found = trimmed(texts[r].as_py()[starts[first] : stops[last]])
        wanted = [trimmed(answer) for answer in answers[r].as_py()]
        if not (any(w in found for w in wanted) if wider else found in wanted):
            wrong[r] = f"{_short(found)}, expected {' or '.join(map(_short, wanted[:3])) or 'no answer'}"
    flags = np.zeros(len(view), bool)
    flags[list(wrong)] = True
    view.fail_rows("answer_text", flags, lambda r: f"the answer's tokens stand for {wrong[r]}")


def check_document_answers(view: View) -> None:
    """Answers of annotated documents stand in the second text where their offsets say."""
    starts, texts = view.column("answer_starts"), view.column("text_pair")
    answers = view.column("answers")
    wrong: dict[int, str] = {}
    for r in np.flatnonzero(view.shape("answers").lengths > 0).tolist():
        text = texts[r].as_py() or ""
        for answer, start in zip(answers[r].as_py(), starts[r].as_py(), strict=True):
            if start != -1 and (start < 0 or text[start : start + len(answer)] != answer):
                wrong[r] = f"{_short(answer)} does not stand at {start} of text_pair"
                break
    flags = np.zeros(len(view), bool)
    flags[list(wrong)] = True
    view.fail_rows("answers", flags, lambda r: wrong[r])
    impossible = view.column("is_impossible").fill_null(False).to_numpy(zero_copy_only=False)
    given = view.shape("answers").lengths
    view.fail_rows(
        "impossible", impossible & (given > 0), lambda r: f"is_impossible, but there are {given[r]} answers"
    )
    # Of a question without labels it is null.
    possible = ~view.column("is_impossible").fill_null(True).to_numpy(zero_copy_only=False)
    view.fail_rows(
        "impossible", possible & (given == 0), lambda r: "is_impossible is false, but there is no answer"
    )


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "...")
