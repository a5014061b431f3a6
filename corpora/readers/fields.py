"""From the fields of one record to a row: the rules that JSONL, TSV and CSV share.

A record gives one raw value for each role (text, second text, label, id, language). Values of
TSV and CSV are strings; those of JSONL may be any JSON value. A missing field and a null are
the same; so is an empty cell of a TSV or CSV file, which has no other way to say it.

The text may come from several fields, joined by line ends: its raw value is then a list of theirs.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from corpora.layout import InputConfig, Mark
from corpora.readers.mentions import check_place, insert_marks, mention_labels
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
    """Names of the fields of each role, in the order of Values; None where a role is not used.

    Those of the texts may be lists of names.
    """
    return Values(layout.text, layout.text_pair, layout.label, layout.id, layout.language)


def all_field_names(layout: InputConfig) -> Iterator[str]:
    """Names of the fields that are read, those of a list too."""
    for named in field_names(layout):
        yield from named if isinstance(named, list) else [] if named is None else [named]


def names_within(record: Mapping[str, Any], before: str = "", depth: int = 0) -> Iterator[str]:
    """Names of a record's fields, as `input.text` and its like may name them: of nested ones with dots."""
    for name, value in record.items():
        yield before + name
        if isinstance(value, Mapping) and depth < 8:
            yield from names_within(value, f"{before}{name}.", depth + 1)


def shown_names(names: Iterable[str], count: int = 20) -> str:
    """The first names of fields, each cut to what a message can hold."""
    first = list(itertools.islice(names, count + 1))
    return ", ".join(repr(name[:40]) for name in first[:count]) + (", ..." if len(first) > count else "")


def value_picker(layout: InputConfig) -> Callable[[Mapping[str, Any]], list[Any]]:
    """Takes Values out of a record of named fields: what `Mapper.add` wants, for formats that name them.

    A role of several fields gives a list of their values. A name that the record does not have leads into nested
    records by its dots. Raises FieldError `bad_mention` where the text is to be marked.
    """
    pickers = [_picker(name) for name in field_names(layout)]
    if layout.marks:
        pickers[0] = _marked(pickers[0], layout.marks)
    return lambda record: [pick(record) for pick in pickers]


def _picker(name: str | list[str] | None) -> Callable[[Mapping[str, Any]], Any]:
    if name is None:
        return lambda record: None
    if isinstance(name, list):
        pickers = [_picker(one) for one in name]
        return lambda record: [pick(record) for pick in pickers]
    if "." not in name:
        return lambda record: record.get(name)
    keys = name.split(".")

    def nested(record: Mapping[str, Any]) -> Any:
        if name in record:
            return record[name]
        value: Any = record
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    return nested


def _marked(
    pick: Callable[[Mapping[str, Any]], Any], marks: Sequence[Mark]
) -> Callable[[Mapping[str, Any]], Any]:
    fields = [(mark, _picker(mark.text), _picker(mark.start)) for mark in marks]

    def marked(record: Mapping[str, Any]) -> Any:
        text, places = pick(record), []
        if not isinstance(text, str):
            return text
        for mark, part, start in fields:
            said, at = part(record), start(record)
            check_place(text, said, at, mark.text)
            places.append((at, at + len(said), mark.left, mark.right))
        return insert_marks(text, places)

    return marked


class Mapper:
    """Turns Values into rows of a sink by a task's rules; raises FieldError for a bad record."""

    def __init__(
        self, layout: InputConfig, task: str, language: str, sink: Sink, split: str = "train"
    ) -> None:
        self._layout, self._language, self._sink = layout, language, sink
        self._text_name, self._pair_name, self._id_name = layout.text, layout.text_pair, layout.id
        self._tag = task == "tag"
        self._label_name = layout.label if task == "classify" else None
        self._score = layout.score
        self._skipped = frozenset(layout.skip_labels)
        self._list_joiner = " " if layout.joiner is None else layout.joiner
        self.may_lack_label = layout.may_lack_label(split)
        """Whether files and records of this split may come without labels."""

    def add(self, byte: int, text: Any, text_pair: Any, label: Any, id_: Any, language: Any) -> None:
        """Add the record at `byte`; the other arguments are Values.

        Raises:
            FieldError: `missing_text`, `empty_text`, `missing_label`, `empty_label`, `missing_id`,
                `bad_type`, `bad_score`, `empty_token`, `unequal_counts` or `bad_mention`.
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
                if name in self._skipped:
                    self._sink.count("labels_skipped", 1)
                    return
        self._sink.row(
            byte,
            text,
            doc_id=doc_id,
            text_pair=text_pair,
            language=language,
            label=name,
            label_score=score,
        )

    def _text(self, value: Any, field: str | list[str]) -> str:
        if isinstance(field, list):
            parts = [self._string(v, name) for v, name in zip(value, field, strict=True)]
            if all(part is None for part in parts):
                raise FieldError("missing_text", f"the text fields {field} are missing or null")
            return not_empty("\n".join(part for part in parts if part and not part.isspace()), field)
        text = value if isinstance(value, str) else self._string(value, field)
        if text is None:
            raise FieldError("missing_text", f"the text field {field!r} is missing or null")
        return not_empty(text, field)

    def _string(self, value: Any, field: str) -> str | None:
        """The text of one field: a string, or a list of them put together."""
        if value is None or isinstance(value, str):
            return value
        if not isinstance(value, list):
            raise wrong_type(field, "a string", value)
        for item in value:
            if not isinstance(item, str):
                raise wrong_type(field, "a string, or a list of strings", item)
        return self._list_joiner.join(v for v in value if v and not v.isspace())

    def _tagged(self, byte: int, text: Any, label: Any, doc_id: str | None, language: str | None) -> None:
        layout = self._layout
        text_name, label_name = str(layout.text), str(layout.label)
        if text is None:
            raise FieldError("missing_text", f"the text field {text_name!r} is missing or null")
        if label is None and not self.may_lack_label:
            raise FieldError(
                "missing_label",
                f"the label field {label_name!r} is missing or empty{where_labels_lack(layout)}",
            )
        by_character = not layout.separator and isinstance(text, str)
        if by_character and isinstance(label, dict):
            label, overlaps = mention_labels(text, label, label_name)
            if overlaps:
                self._sink.count("overlapping_mentions", overlaps)
        tokens = _as_list(text, text_name, layout.separator, numbers=False)
        labels = (
            ["O"] * len(tokens)  # put away below; until then nothing is unequal
            if label is None
            else _as_list(label, label_name, layout.separator, numbers=True)
        )
        tokens, labels = split_pairs(
            tokens,
            labels,
            layout.separator,
            runs_of_tokens=isinstance(text, str),
            runs_of_labels=isinstance(label, str),
        )
        joiner = joiner_of(layout, language or self._language)
        self._sink.tagged(
            byte, tokens, None if label is None else labels, joiner, doc_id=doc_id, language=language
        )


def where_labels_lack(layout: InputConfig) -> str:
    """How to say that labels are missing on purpose, for the end of a message."""
    if layout.label_optional:
        return "; only splits that do not train may lack it: name its split `test`"
    return "; a test set without labels needs `input.label_optional: true`"


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
    if layout.joiner is not None or not layout.separator:
        return layout.joiner or ""
    return "" if language.lower().startswith("zh") else " "


def not_empty(text: str, field: str | list[str]) -> str:
    """`text`, unless it is empty or white space: FieldError `empty_text`."""
    if not text or text.isspace():
        what = "holds only white space" if text else "is empty"
        raise FieldError("empty_text", f"the text field {field!r} {what}")
    return text


def required_text(value: Any, field: str) -> str:
    """A text that must be there. Raises FieldError `missing_text`, `bad_type`, `empty_text`."""
    if value is None:
        raise FieldError("missing_text", f"the text field {field!r} is missing or null")
    if not isinstance(value, str):
        raise wrong_type(field, "a string", value)
    return not_empty(value, field)


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
        return value.split(separator) if separator else list(value)
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
