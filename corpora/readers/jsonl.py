"""JSON lines: one object a line; or one array of objects in a file, see `jsonarray`.

What is JSON and what is not is the business of `strictjson`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from corpora.readers.fields import Mapper, all_field_names, names_within, shown_names, value_picker
from corpora.readers.jsonarray import Item, array_items, is_array
from corpora.readers.lines import LineNumbers, TooLong, part_lines
from corpora.readers.sink import FieldError, Sink
from corpora.readers.strictjson import no_surrogates, not_json, strict_decoder

if TYPE_CHECKING:
    from corpora.blocks import Part
    from corpora.layout import InputConfig


_MISSING = ("missing_text", "missing_label", "missing_id")


def read_jsonl(
    file: BinaryIO, part: Part, layout: InputConfig, mapper: Mapper, sink: Sink, numbers: LineNumbers
) -> Iterator[pa.Table]:
    """Tables of the part's records as they fill; the last rows stay in the sink.

    Raises:
        ArrayError: the file is one array, and no JSON.
    """
    pick, wanted = value_picker(layout), set(all_field_names(layout))
    for item in json_items(file, part, layout.encoding, sink, numbers):
        record = item.value
        try:
            if item.wrong is not None:
                raise item.wrong
            if not isinstance(record, dict):
                found = "a list" if isinstance(record, list) else "a bare value"
                raise FieldError("bad_json", f"a record must be an object, found {found}")
            values = pick(record)
            if "\\u" in item.text:
                no_surrogates(values)
            mapper.add(item.byte, *values)
        except FieldError as error:
            detail = error.detail
            if error.reason in _MISSING:
                detail += _fields_there_are(record, wanted)
            sink.reject(item.byte, item.lines, error.reason, detail, item.text)
        if sink.ready:
            yield from sink.take()


def _fields_there_are(record: dict[str, Any], wanted: set[str]) -> str:
    """Where one of the `wanted` fields is not there at all, those that are, to be put behind what is missing."""
    names = list(names_within(record))
    if wanted <= set(names):
        return ""
    return f"; the record has the fields {shown_names(names)}" if names else "; the record is empty"


def json_items(file: BinaryIO, part: Part, encoding: str, sink: Sink, numbers: LineNumbers) -> Iterator[Item]:
    """The items of the part's array, or the values on its lines; lines that are no text are rejected here."""
    if part.start == 0 and is_array(part.path):
        yield from array_items(file, part.name, encoding)
        return
    decode = strict_decoder().decode
    for byte, first, text in json_lines(file, part, encoding, sink, numbers):
        try:
            value, wrong = decode(text), None
        except FieldError as error:
            value, wrong = None, error
        except (ValueError, RecursionError) as error:
            value, wrong = None, not_json(error)
        yield Item(byte, first, text, value, wrong)


def json_lines(
    file: BinaryIO, part: Part, encoding: str, sink: Sink, numbers: LineNumbers
) -> Iterator[tuple[int, int, str]]:
    """Lines that are not blank: the byte each starts at, the lines of the part before it, its text."""
    for found in part_lines(file, part, encoding, numbers=numbers):
        if isinstance(found, TooLong):
            sink.too_long(found)
            continue
        for first, (byte, line) in enumerate(zip(found.starts, found.lines, strict=True), found.first):
            if not line.strip(b" \t\r"):
                continue
            try:
                text = sink.decode(line, byte)
            except FieldError as error:
                sink.reject(byte, first, error.reason, error.detail, line)
                continue
            yield byte, first, text
