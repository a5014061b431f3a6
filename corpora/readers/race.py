"""Passages with multiple-choice questions: RACE and its like.

A record is in one of three layouts, and a file is one record, a list of them, or one a line:

- as published: {article, questions: [...], options: [[...]], answers: ["A", ...], id};
- a question each (Hugging Face): {article, question, options, answer, example_id};
- SG-Net's, in words: {article: [[word]], question: [word], options: [[word]], ground_truth, q_id}, whose words and
  sentences are kept as given annotations.

An answer is a letter, an index from 0 or an option's text; a letter is taken as one even where an option is
that letter. What composes the choices is in `choices`. The id of the k-th question (from 0) of a published
file is `<id>-<k>`; `example_id` is that of the passage, so such questions are named by their place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from corpora.readers.choices import Choices
from corpora.readers.fields import as_text
from corpora.readers.jsonfile import Found, read_json, told_of, unknown_layout
from corpora.readers.jsonwalk import MARK
from corpora.readers.lines import LineNumbers
from corpora.readers.sink import FieldError, Sink
from corpora.readers.strictjson import no_surrogates

if TYPE_CHECKING:
    from corpora.blocks import Part
    from corpora.layout import InputConfig

_MARKS = {"questions": {None: MARK}}
_ANSWERS = ("answer", "ground_truth", "label")
_LAYOUTS = (
    "passages of RACE ({article, questions, options, answers})",
    "single questions ({article, question, options, answer}), as text or in words",
)


def read_race(
    file: BinaryIO,
    part: Part,
    layout: InputConfig,
    language: str,
    split: str,
    sink: Sink,
    numbers: LineNumbers,
) -> Iterator[pa.Table]:
    """Tables of the file's questions as they fill; the last rows stay in the sink.

    Raises:
        ValueError: a file of several records is no JSON, or its first record is in none of the layouts.
    """
    choices = Choices(layout, language, split, sink, letters=True)
    known = False
    for found in read_json(file, part, sink, numbers, marks=_MARKS, lone=True):
        record = found.value
        if not isinstance(record, dict) or not {"article", "options"} <= record.keys():
            unknown_layout(found, part.name, _LAYOUTS, sink, first=not known)
        elif "questions" in record:
            known = True
            _passage(found, choices, sink)
        elif "question" in record:
            known = True
            _question(found, choices, sink)
        else:
            unknown_layout(found, part.name, _LAYOUTS, sink, first=not known)
        if sink.ready:
            yield from sink.take()


def _passage(found: Found, choices: Choices, sink: Sink) -> None:
    """A passage with all its questions."""
    record, text = found.value, found.text
    questions, options, answers = record["questions"], record["options"], record.get("answers")
    try:
        id_ = as_text(record.get("id"), "id")
        if found.text.surrogates:
            no_surrogates(record)
        lists = {"questions": questions, "options": options}
        if answers is not None:
            lists["answers"] = answers
        for name, value in lists.items():
            if not isinstance(value, list):
                raise FieldError("bad_type", f"{name!r} must be a list")
        if len({len(value) for value in lists.values()}) > 1:
            counts = ", ".join(f"{len(value)} {name}" for name, value in lists.items())
            raise FieldError("unequal_counts", f"found {counts}")
    except FieldError as error:
        text.reject(sink, found.at, error.reason, told_of(record.get("id"), found.place, error))
        return
    dot = "." if found.place else ""
    for k, (at, question) in enumerate(zip(found.marks, questions, strict=True)):
        answer = None if answers is None else answers[k]
        doc_id = f"{id_}-{k}" if id_ else None
        try:
            choices.add(text.byte(at), doc_id, record["article"], question, options[k], answer)
        except FieldError as error:
            place = f"{found.place}{dot}questions[{k}]"
            text.reject(sink, at, error.reason, told_of(doc_id, place, error))


def _question(found: Found, choices: Choices, sink: Sink) -> None:
    """A question of its own, as text or in words."""
    record = found.value
    id_: Any = record.get("q_id", record.get("id"))
    try:
        if found.text.surrogates:
            no_surrogates(record)
        answer = next((record[key] for key in _ANSWERS if record.get(key) is not None), None)
        add = choices.add_words if isinstance(record["article"], list) else choices.add
        doc_id = as_text(id_, "id") or None
        add(
            found.text.byte(found.at),
            doc_id,
            record["article"],
            record["question"],
            record["options"],
            answer,
        )
    except FieldError as error:
        found.text.reject(sink, found.at, error.reason, told_of(id_, found.place, error))
