"""From the fields of one record to a row: the rules that JSONL, TSV and CSV share.

A record gives one raw value for each role (text, second text, label, id, language). Values of
TSV and CSV are strings; those of JSONL may be any JSON value. A missing field and a null are
the same; so is an empty cell of a TSV or CSV file, which has no other way to say it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from corpora.layout import InputConfig
from corpora.readers.sink import FieldError, Sink

MAX_FLOAT32 = 3.4028234663852886e38
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


class Values(NamedTuple):
    """Raw values of one record, None where the field is missing or not asked for."""

    text: Any
    text_pair: Any
    label: Any
    id: Any
    language: Any


def field_names(layout: InputConfig) -> Values:
    """Names of the fields of each role, in the order of Values; None where a role is not used."""
    return Values(layout.text, layout.text_pair, layout.label, layout.id, layout.language)


class Mapper:
    """Turns Values into rows of a sink by a task's rules; raises FieldError for a bad record."""

    def __init__(self, layout: InputConfig, task: str, language: str, sink: Sink) -> None:
        self._layout, self._language, self._sink = layout, language, sink
        self._text_name, self._pair_name, self._id_name = layout.text, layout.text_pair, layout.id
        self._tag = task == "tag"
        self._label_name = layout.label if task == "classify" else None
        self._score = layout.score

    def add(self, byte: int, text: Any, text_pair: Any, label: Any, id_: Any, language: Any) -> None:
        """Add the record at `byte`; the other arguments are Values.

        Raises:
            FieldError: `missing_text`, `empty_text`, `missing_label`, `empty_label`, `missing_id`,
                `bad_type`, `bad_score`, `empty_token` or `unequal_counts`.
        """
        doc_id = None
        if self._id_name is not None:
            doc_id = as_text(id_, self._id_name)
            if not doc_id:
                raise FieldError("missing_id", f"the id field {self._id_name!r} is missing or empty")
        if language is not None and not isinstance(language, str):
            raise wrong_type(self._layout.language, "a string", language)
        language = language or None
        if self._tag:
            self._tagged(byte, text, label, doc_id, language)
            return
        text = self._text(text, self._text_name)
        text_pair = None if self._pair_name is None else self._text(text_pair, self._pair_name)
        name, score = None, None
        if self._label_name is not None:
            if self._score:
                score = as_score(label, self._label_name)
            else:
                name = as_text(label, self._label_name)
                if name == "":
                    raise FieldError("empty_label", f"the label field {self._label_name!r} is empty")
        self._sink.row(
            byte,
            text,
            doc_id=doc_id,
            text_pair=text_pair,
            language=language,
            label=name,
            label_score=score,
        )

    def _text(self, value: Any, field: str) -> str:
        if value is None:
            raise FieldError("missing_text", f"the text field {field!r} is missing or null")
        if not isinstance(value, str):
            raise wrong_type(field, "a string", value)
        return not_empty(value, field)

    def _tagged(self, byte: int, text: Any, label: Any, doc_id: str | None, language: str | None) -> None:
        layout = self._layout
        if text is None:
            raise FieldError("missing_text", f"the text field {layout.text!r} is missing or null")
        if label is None:
            raise FieldError("missing_label", f"the label field {layout.label!r} is missing or empty")
        tokens, labels = split_pairs(
            _as_list(text, layout.text, layout.separator, numbers=False),
            _as_list(label, layout.label or "", layout.separator, numbers=True),
            layout.separator,
            runs_of_tokens=isinstance(text, str),
            runs_of_labels=isinstance(label, str),
        )
        joiner = joiner_of(layout, language or self._language)
        self._sink.tagged(byte, tokens, labels, joiner, doc_id=doc_id, language=language)


def split_pairs(
    tokens: Sequence[str],
    labels: Sequence[str],
    separator: str,
    *,
    runs_of_tokens: bool,
    runs_of_labels: bool,
) -> tuple[Sequence[str], Sequence[str]]:
    """Tokens and labels of one sequence, as many of the one as of the other, none of them empty.

    In a field that was split (`runs_of_...`), a run of separators, or one at either end, counts as
    one if the counts are equal then; in a list, an empty entry is an error.

    Raises:
        FieldError: `empty_text`, `empty_token`, `empty_label`, `unequal_counts`.
    """
    if "" in tokens:
        if not runs_of_tokens:
            raise FieldError("empty_token", f"source token {tokens.index('') + 1} is empty")
        tokens = [t for t in tokens if t]
    if "" in labels:
        if not runs_of_labels:
            raise FieldError("empty_label", f"label {labels.index('') + 1} is empty")
        labels = [t for t in labels if t]
    if all(t.isspace() for t in tokens):
        raise FieldError("empty_text", "the sequence has no source token")
    if len(tokens) != len(labels):
        raise FieldError(
            "unequal_counts",
            f"{len(tokens)} source tokens but {len(labels)} labels (separated by {separator!r})",
        )
    return tokens, labels


def joiner_of(layout: InputConfig, language: str) -> str:
    """What stands between the source tokens of a labelled sequence in its text."""
    if layout.joiner is not None:
        return layout.joiner
    return "" if language.lower().startswith("zh") else " "


def not_empty(text: str, field: str) -> str:
    """`text`, unless it is empty or white space: FieldError `empty_text`."""
    if not text or text.isspace():
        what = "holds only white space" if text else "is empty"
        raise FieldError("empty_text", f"the text field {field!r} {what}")
    return text


def as_text(value: Any, field: str) -> str | None:
    """An id or a label as text: numbers and booleans as JSON spells them."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return repr(value)
    raise wrong_type(field, "a string or a number", value)


def as_score(value: Any, field: str) -> float | None:
    """A regression target that float32 can hold; None for a missing one."""
    if value is None:
        return None
    if isinstance(value, str):
        if not _NUMBER.fullmatch(value.strip(" ")):
            raise FieldError("bad_score", f"{field!r} must be a number, found {value[:100]!r}")
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise wrong_type(field, "a number", value)
    try:
        score = float(value)
    except OverflowError:
        score = math.inf
    if not abs(score) <= MAX_FLOAT32:
        raise FieldError("bad_score", f"{field!r} must be a finite number that float32 can hold")
    return score


def _as_list(value: Any, field: str, separator: str, *, numbers: bool) -> Sequence[str]:
    if isinstance(value, str):
        return value.split(separator)
    if not isinstance(value, list):
        raise wrong_type(field, "a string or a list of strings", value)
    if not all(isinstance(v, str) for v in value):
        if not numbers:
            bad = next(v for v in value if not isinstance(v, str))
            raise wrong_type(field, "a list of strings", bad)
        return [as_text(v, field) or "" for v in value]
    return value


def wrong_type(field: str | None, expected: str, value: Any) -> FieldError:
    """FieldError `bad_type` in the words of JSON."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    found = names.get(type(value), "a number")
    return FieldError("bad_type", f"{field!r} must be {expected}, found {found}")
