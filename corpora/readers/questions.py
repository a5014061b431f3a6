"""From one question on a text to a row: which answers count, and where in the text they stand.

A row's offsets count characters (code points) and always point at the answer, or are -1: given ones are only
believed where the text has the answer there. One that is wrong or missing is mended where the answer occurs
once; where it occurs several times, `input.ambiguous_answers` decides. Splits that train need one answer that
was found; others keep every question with its gold answers, as an evaluation must.

Counted, an answer each: `answers_repaired` (offset missing or wrong, and mended), `answers_located` (bare strings,
which bring no offset), `answers_ambiguous` (several places), `answers_not_found`, `answers_trimmed` (white space at
its edges), `answers_empty` (left out beside others); and `questions_unlabelled`.

For task `seq2seq` a row is what `asking` makes of the question. There is nothing to ask about where no answer is
known: such questions are no mistakes, and are left out and counted, as `questions_without_answer`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from corpora.layout import InputConfig
from corpora.readers import asking
from corpora.readers.fields import as_text, required_text, wrong_type
from corpora.readers.sink import FieldError, Sink


class Gold(NamedTuple):
    """A gold answer as the corpus gives it; `start` in the corpus' unit, None where it brings none."""

    text: str
    start: int | None
    bare: bool = False
    """Given as a string alone, in a layout that has no offsets."""


class Questions:
    """Turns questions of one split into rows of a sink; raises FieldError for one that cannot be used."""

    def __init__(self, layout: InputConfig, split: str, sink: Sink, *, ask: bool = False) -> None:
        """`ask`: rows are sources and targets, the questions, instead of questions and texts."""
        self._sink, self._ask, self._around = sink, ask, layout.context
        self._trains = layout.trains(split)
        self._ambiguous = layout.ambiguous_answers
        self._unit = layout.offset_unit
        self._context: Any = self  # the last text that was looked at (none yet), and what is known of it
        self._units: np.ndarray | None = None

    def flat(self, byte: int, record: dict[str, Any]) -> None:
        """A question with its text in one record, as Hugging Face's tables have it.

        Fields `id`, `title`, `context`, `question`, `answers` ({text: [...], answer_start: [...]}, or a list as
        in SQuAD's files), `is_impossible`. Without the last, as in SQuAD 2.0 there, an empty list of answers
        means that there is none.

        Raises:
            FieldError: as `add` does.
        """
        answers, impossible = record.get("answers"), record.get("is_impossible")
        if impossible is None and answers is not None:
            impossible = not (answers.get("text") if isinstance(answers, dict) else answers)
        self.add(
            byte,
            id_=record.get("id"),
            question=record.get("question"),
            context=record.get("context"),
            answers=answers,
            impossible=impossible,
            title=record.get("title"),
        )

    def add(
        self, byte: int, *, id_: Any, question: Any, context: Any, answers: Any, impossible: Any, title: Any
    ) -> None:
        """Add the question at `byte`. Arguments are values of the corpus, None where it has none.

        No `answers` at all: an unlabelled question of a test set, whose `is_impossible` is null.

        Raises:
            FieldError: `missing_text`, `empty_text`, `bad_type`, `missing_answers`, `empty_answer`, `contradiction`,
                and in splits that train `answer_not_in_context` and `ambiguous_answer`.
        """
        doc_id = as_text(id_, "id") or None
        question = required_text(question, "question")
        if context is not self._context:
            self._context, self._units = self, None
            context = self._context = required_text(context, "context")
        if impossible is not None and not isinstance(impossible, bool):
            raise wrong_type("is_impossible", "true or false", impossible)
        texts: list[str] | None = None
        starts: list[int] | None = None
        if answers is None and not impossible:
            if self._trains:
                raise FieldError(
                    "missing_answers", "the question has no field 'answers', and its split trains"
                )
            if not self._ask:
                self._sink.count("questions_unlabelled", 1)
            impossible = None
        else:
            texts, starts = self._answers([] if answers is None else gold_answers(answers), bool(impossible))
            impossible = bool(impossible)
        title = as_text(title, "title") or None
        if self._ask:
            if not texts or starts is None:
                self._sink.count("questions_without_answer", 1)
                return
            source = asking.source(asking.choose(texts, starts), context, self._around)
            self._sink.row(byte, source, doc_id=doc_id, text_pair=question, title=title)
            return
        self._sink.row(
            byte,
            question,
            doc_id=doc_id,
            text_pair=context,
            title=title,
            answers=texts,
            answer_starts=starts,
            is_impossible=impossible,
        )

    def _answers(self, golds: Sequence[Gold], impossible: bool) -> tuple[list[str], list[int]]:
        """Texts and offsets of the gold answers that say something."""
        texts = [text for gold in golds if (text := gold.text.strip())]
        if impossible and texts:
            raise FieldError(
                "contradiction", f"is_impossible is true, but there is the answer {texts[0][:100]!r}"
            )
        if not impossible and not golds:
            raise FieldError(
                "contradiction",
                "is_impossible is false or missing, but `answers` is empty; where answers are not known, "
                "leave the field out",
            )
        if len(texts) < len(golds):
            if not impossible and not texts:
                raise FieldError("empty_answer", "the answer is empty or white space")
            self._sink.count("answers_empty", len(golds) - len(texts))
            golds = [gold for gold in golds if gold.text.strip()]
        starts, lost = [], ""
        for gold, text in zip(golds, texts, strict=True):
            start, lost = self._locate(gold, text)
            starts.append(start)
        if self._trains and texts and max(starts) < 0:
            what = f"the answer {texts[-1][:100]!r} occurs"
            raise FieldError(
                lost,
                f"{what} nowhere in the text"
                if lost == "answer_not_in_context"
                else f"{what} several times in the text, and {_offset_of(golds[-1])}",
            )
        return texts, starts

    def _locate(self, gold: Gold, text: str) -> tuple[int, str]:
        """First character of the answer in the context, or -1 and the reason."""
        context, count = self._context, self._sink.count
        before = 0
        if len(text) != len(gold.text):
            count("answers_trimmed", 1)
            before = len(gold.text) - len(gold.text.lstrip())
        start = self._in_characters(gold.start)
        if start >= 0:
            if before and context.startswith(gold.text, start):
                return start + before, ""
            if context.startswith(text, start):
                return start, ""
        start = context.find(text)
        if start < 0:
            count("answers_not_found", 1)
            return -1, "answer_not_in_context"
        if context.find(text, start + 1) < 0:
            count("answers_located" if gold.bare else "answers_repaired", 1)
            return start, ""
        count("answers_ambiguous", 1)
        if (self._ambiguous or ("first" if gold.bare else "drop")) == "first":
            return start, ""
        return -1, "ambiguous_answer"

    def _in_characters(self, start: int | None) -> int:
        """The offset in characters; -1 where there is none, or it is within a character or past the end."""
        if start is None or start < 0:
            return -1
        if self._unit == "characters" or self._context.isascii():
            return start
        if self._units is None:
            self._units = _unit_starts(self._context, self._unit)
        if start > self._units[-1]:
            return -1
        at = int(np.searchsorted(self._units, start))
        return at if self._units[at] == start else -1


def gold_answers(answers: Any) -> list[Gold]:
    """The gold answers of a field `answers` in any of its shapes.

    Strings (CMRC 2018); objects of `text` and `answer_start` (SQuAD); one object of a list of each (Hugging Face).

    Raises:
        FieldError: `bad_type`.
    """
    if isinstance(answers, dict):
        texts, starts = answers.get("text"), answers.get("answer_start")
        if not isinstance(texts, list):
            raise wrong_type("answers.text", "a list of strings", texts)
        if starts is None:
            starts = [None] * len(texts)
        if not isinstance(starts, list) or len(starts) != len(texts):
            raise FieldError(
                "bad_type",
                "'answers.answer_start' must be a list of as many numbers as 'answers.text' has strings",
            )
        return [Gold(_string(t), _offset(s)) for t, s in zip(texts, starts, strict=True)]
    if not isinstance(answers, list):
        raise wrong_type("answers", "a list", answers)
    golds = []
    for answer in answers:
        if isinstance(answer, dict):
            golds.append(Gold(_string(answer.get("text")), _offset(answer.get("answer_start"))))
        else:
            golds.append(Gold(_string(answer), None, bare=True))
    return golds


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise wrong_type("answers", "strings, or objects with a string 'text'", value)
    return value


def _offset(value: Any) -> int | None:
    if value is None or type(value) is int:
        return value
    raise wrong_type("answer_start", "a whole number", value)


def _offset_of(gold: Gold) -> str:
    return "no offset says where" if gold.start is None else f"not at {gold.start}, the offset given"


def _unit_starts(text: str, unit: str) -> np.ndarray:
    """int64[characters]: the offset of each in UTF-16 units or in bytes of UTF-8."""
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    if unit == "utf16":
        widths = 1 + (codes > 0xFFFF).astype(np.int64)
    else:
        widths = 1 + (codes > 0x7F).astype(np.int64) + (codes > 0x7FF) + (codes > 0xFFFF)
    return np.cumsum(widths) - widths
