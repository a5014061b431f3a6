"""Chinese passages and dialogues with multiple-choice questions: C3, as its authors and CLUE publish it.

A file is a list of [[line, ...], [{question, choice: [2 to 4 options], answer}, ...], id]; the lines of a dialogue,
or the one text, are joined by line ends. Also read, in a list or one a line: single questions
({context, question, choice, answer, id}).

An answer is an option's text (or a letter or an index from 0, where no option is that text). The two
halves of C3, dialogues and mixed texts, give out the same ids to different passages, so the id of a
question is `<path>:<id>-<k>`, k counting a passage's questions from 0.
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

_MARKS = {1: {None: MARK}}
_LAYOUTS = (
    "passages of C3 ([[line, ...], [{question, choice, answer}, ...], id])",
    "single questions ({context, question, choice, answer})",
)


def read_c3(
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
        ValueError: the file is no JSON, or its first record is in none of the layouts.
    """
    choices = Choices(layout, language, split, sink, letters=False)
    known = False
    for found in read_json(file, part, sink, numbers, marks=_MARKS, inside="data"):
        record = found.value
        if (
            isinstance(record, list)
            and len(record) in (2, 3)
            and all(isinstance(x, list) for x in record[:2])
        ):
            known = True
            _passage(found, part.name, choices, sink)
        elif isinstance(record, dict) and {"context", "question"} <= record.keys():
            known = True
            context = _joined(record["context"])
            _question(
                found, found.at, found.place, record, context, _id(part.name, record.get("id")), choices, sink
            )
        else:
            unknown_layout(found, part.name, _LAYOUTS, sink, first=not known)
        if sink.ready:
            yield from sink.take()


def _passage(found: Found, name: str, choices: Choices, sink: Sink) -> None:
    lines, questions, *rest = found.value
    id_ = _id(name, rest[0] if rest else None)
    lines = _joined(lines)
    for k, (at, question) in enumerate(zip(found.marks, questions, strict=True)):
        _question(
            found, at, f"{found.place}[1][{k}]", question, lines, f"{id_}-{k}" if id_ else None, choices, sink
        )


def _question(
    found: Found,
    at: int,
    place: str,
    record: Any,
    lines: Any,
    doc_id: str | None,
    choices: Choices,
    sink: Sink,
) -> None:
    try:
        if not isinstance(record, dict):
            raise FieldError("bad_type", "a question must be an object")
        if found.text.surrogates:
            no_surrogates([record, lines, doc_id])
        options = record.get("choice", record.get("options"))
        choices.add(found.text.byte(at), doc_id, lines, record.get("question"), options, record.get("answer"))
    except FieldError as error:
        found.text.reject(sink, at, error.reason, told_of(doc_id, place, error))


def _joined(lines: Any) -> Any:
    """The text of a passage; what is none stays what it is, to be refused with each of its questions."""
    if isinstance(lines, list) and all(isinstance(line, str) for line in lines):
        return "\n".join(lines)
    return lines


def _id(name: str, value: Any) -> str | None:
    """The id of a passage or question, which is one of its file; None where it has none that is text."""
    if isinstance(value, (list, dict)):
        return None
    text = as_text(value, "id")
    return f"{name}:{text}" if text else None
