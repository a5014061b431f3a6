"""Questions on texts: SQuAD 1.1 and 2.0, CMRC 2018, DRCD, and their like.

Layouts are known by their structure, not their names, and may stand in one file or one a line:

- SQuAD, DRCD, CMRC in SQuAD's style: articles {title, paragraphs: [{context, qas: [{id, question, answers: [{text,
  answer_start}], is_impossible}]}]}, in `data` of the file's object;
- CMRC 2018's own: a list of {context_id, context_text, title, qas: [{query_id, query_text, answers: [string]}]};
- Hugging Face: {id, title, context, question, answers: {text: [...], answer_start: [...]}}.

What makes a question a row is in `questions`. Its `source` is the byte of its own object. Where `input.holdout`
cuts splits out of the files, a question is read for the split of its text and passed over for the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from corpora.holdout import side
from corpora.readers.jsonfile import Found, read_json, told_of, unknown_layout
from corpora.readers.jsonwalk import MARK
from corpora.readers.lines import LineNumbers
from corpora.readers.questions import Questions
from corpora.readers.sink import FieldError, Sink
from corpora.readers.strictjson import no_surrogates

if TYPE_CHECKING:
    from corpora.blocks import Part
    from corpora.layout import InputConfig

_QAS = {"qas": {None: MARK}}
_MARKS = {"paragraphs": {None: _QAS}, **_QAS}
_USED = ("id", "question", "answers", "query_id", "query_text", "context", "title")
_LAYOUTS = (
    "articles of SQuAD ({title, paragraphs: [{context, qas}]}, in a list `data`)",
    "paragraphs of CMRC 2018 ({context_text, qas})",
    "single questions ({id, context, question, answers})",
)


def read_squad(
    file: BinaryIO, part: Part, layout: InputConfig, task: str, split: str, sink: Sink, numbers: LineNumbers
) -> Iterator[pa.Table]:
    """Tables of the file's questions as they fill; the last rows stay in the sink.

    Args:
        task: `span`, or `seq2seq`: rows are sources to ask from, and the questions.

    Raises:
        ValueError: the file is no JSON, or its first record is in none of the layouts.
    """
    # What belongs to no text is told of once, for the split that the file is named for.
    told = sink.without_rejects() if split in layout.holdout else sink
    reader = _Reader(Questions(layout, split, sink, ask=task == "seq2seq"), sink, told, layout, split)
    known = False
    for found in read_json(file, part, told, numbers, marks=_MARKS, inside="data"):
        if reader.record(found):
            known = True
        else:
            unknown_layout(found, part.name, _LAYOUTS, told, first=not known)
        if sink.ready:
            yield from sink.take()


class _Reader:
    def __init__(self, questions: Questions, sink: Sink, told: Sink, layout: InputConfig, split: str) -> None:
        self._questions, self._sink, self._told = questions, sink, told
        # A split that is neither cut out nor cut from has all of its texts.
        self._shares = layout.holdout if split in layout.holdout or layout.trains(split) else {}
        self._side = split if split in layout.holdout else None

    def record(self, found: Found) -> bool:
        """Every question of the record becomes a row or a reject; False if it is in no layout known."""
        record = found.value
        if not isinstance(record, dict):
            return False
        marks = iter(found.marks)
        if "paragraphs" in record and "qas" not in record:
            self._article(found, marks)
        elif "qas" in record and "paragraphs" not in record:
            self._paragraph(found, record, found.place, marks, record.get("title"))
        elif "question" in record and "context" in record:
            if self._holds(record["context"]):
                self._one(found, found.at, found.place, record, None)
        else:
            return False
        return True

    def _article(self, found: Found, marks: Iterator[int]) -> None:
        dot = "." if found.place else ""
        paragraphs = found.value["paragraphs"]
        if not isinstance(paragraphs, list):
            found.text.reject(
                self._told, found.at, "bad_type", f"{found.place}{dot}paragraphs must be a list"
            )
            return
        for i, paragraph in enumerate(paragraphs):
            place = f"{found.place}{dot}paragraphs[{i}]"
            self._paragraph(found, paragraph, place, marks, found.value.get("title"))

    def _paragraph(self, found: Found, paragraph: Any, place: str, marks: Iterator[int], title: Any) -> None:
        qas = paragraph.get("qas") if isinstance(paragraph, dict) else None
        if not isinstance(qas, list):
            detail = f"{place or 'the record'} must be an object with a list `qas` of questions"
            found.text.reject(self._told, found.at, "bad_type", detail)
            return
        around: tuple[Any, Any] | FieldError
        around = (paragraph.get("context", paragraph.get("context_text")), title)
        if found.text.surrogates:
            try:
                no_surrogates(list(around))
            except FieldError as error:
                around = error
        dot = "." if place else ""
        here = self._holds(paragraph.get("context", paragraph.get("context_text")))
        for i, qa in enumerate(qas):
            at = next(marks)
            if here:
                self._one(found, at, f"{place}{dot}qas[{i}]", qa, around)

    def _holds(self, text: Any) -> bool:
        """Whether the split that is read has the questions on this text; what is no text is on no side."""
        if not self._shares:
            return True
        return (side(self._shares, text) if isinstance(text, str) else None) == self._side

    def _one(
        self, found: Found, at: int, place: str, qa: Any, around: tuple[Any, Any] | FieldError | None
    ) -> None:
        """The question at the character `at`; `around` is its text and title, None if it has its own."""
        id_ = None
        try:
            if not isinstance(qa, dict):
                raise FieldError("bad_type", "a question must be an object")
            id_ = qa.get("id", qa.get("query_id"))
            if isinstance(around, FieldError):
                raise around
            if found.text.surrogates:
                no_surrogates([qa.get(key) for key in _USED])
            byte = found.text.byte(at)
            if around is None:
                self._questions.flat(byte, qa)
                return
            self._questions.add(
                byte,
                id_=id_,
                question=qa.get("question", qa.get("query_text")),
                context=around[0],
                answers=qa.get("answers"),
                impossible=qa.get("is_impossible"),
                title=around[1],
            )
        except FieldError as error:
            found.text.reject(self._sink, at, error.reason, told_of(id_, place, error))
