"""JSON lines: one object a line.

Control characters may stand raw in strings, as corpora have them; everything else is JSON to
the letter: duplicate keys, NaN and lone surrogates are rejected, since whichever value
one would take could be the wrong one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

import pyarrow as pa

from corpora.readers.fields import Mapper, field_names
from corpora.readers.lines import LineNumbers, TooLong, part_lines
from corpora.readers.sink import FieldError, Sink

if TYPE_CHECKING:
    from corpora.blocks import Part
    from corpora.layout import InputConfig


def read_jsonl(
    file: BinaryIO, part: Part, layout: InputConfig, mapper: Mapper, sink: Sink, numbers: LineNumbers
) -> Iterator[pa.Table]:
    """Tables of the part's records as they fill; the last rows stay in the sink."""
    names = field_names(layout)
    decode = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, strict=False).decode
    for found in part_lines(file, part, layout.encoding, numbers=numbers):
        if isinstance(found, TooLong):
            sink.too_long(found)
            continue
        for i, (byte, line) in enumerate(zip(found.starts, found.lines, strict=True)):
            if not line.strip(b" \t\r"):
                continue
            try:
                record = _parse(decode, sink.decode(line, byte))
                values = [None if n is None else record.get(n) for n in names]
                if b"\\u" in line:
                    _no_surrogates(values)
                mapper.add(byte, *values)
            except FieldError as error:
                sink.reject(byte, found.first + i, error.reason, error.detail, line)
        yield from sink.take()


def _parse(decode: Any, text: str) -> dict[str, Any]:
    try:
        record = decode(text)
    except json.JSONDecodeError as error:
        raise FieldError("bad_json", f"{error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise FieldError("bad_json", "nested too deep") from None
    except ValueError as error:  # an integer of thousands of digits
        raise FieldError("bad_json", str(error)) from None
    if not isinstance(record, dict):
        found = "a list" if isinstance(record, list) else "a bare value"
        raise FieldError("bad_json", f"a record must be an object, found {found}")
    return record


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key in map(itemgetter(0), pairs) if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise FieldError("duplicate_key", f"the key {twice!r} stands twice in one object")
    return record


def _constant(name: str) -> NoReturn:
    raise FieldError("bad_json", f"{name} is not JSON")


def _no_surrogates(values: list[Any]) -> None:
    for value in values:
        for text in value if isinstance(value, list) else (value,):
            if isinstance(text, str):
                try:
                    text.encode()
                except UnicodeEncodeError as error:
                    code = ord(text[error.start])
                    raise FieldError(
                        "bad_unicode", f"a string holds the lone surrogate \\u{code:04x}"
                    ) from None
