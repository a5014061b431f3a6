"""JSON lines: one object a line; or one array of objects in a file, see `jsonarray`.

What is JSON and what is not is the business of `strictjson`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from corpora.readers.fields import Mapper, value_picker
from corpora.readers.jsonarray import is_array, read_array
from corpora.readers.lines import LineNumbers, TooLong, part_lines
from corpora.readers.sink import FieldError, Sink
from corpora.readers.strictjson import no_surrogates, not_json, strict_decoder

if TYPE_CHECKING:
    from corpora.blocks import Part
    from corpora.layout import InputConfig


def read_jsonl(
    file: BinaryIO, part: Part, layout: InputConfig, mapper: Mapper, sink: Sink, numbers: LineNumbers
) -> Iterator[pa.Table]:
    """Tables of the part's records as they fill; the last rows stay in the sink."""
    if part.start == 0 and is_array(part.path):
        yield from read_array(file, part, layout, mapper, sink)
        return
    pick = value_picker(layout)
    decode = strict_decoder().decode
    for found in part_lines(file, part, layout.encoding, numbers=numbers):
        if isinstance(found, TooLong):
            sink.too_long(found)
            continue
        for i, (byte, line) in enumerate(zip(found.starts, found.lines, strict=True)):
            if not line.strip(b" \t\r"):
                continue
            try:
                record = _parse(decode, sink.decode(line, byte))
                values = pick(record)
                if b"\\u" in line:
                    no_surrogates(values)
                mapper.add(byte, *values)
            except FieldError as error:
                sink.reject(byte, found.first + i, error.reason, error.detail, line)
        yield from sink.take()


def _parse(decode: Any, text: str) -> dict[str, Any]:
    try:
        record = decode(text)
    except (ValueError, RecursionError) as error:
        raise not_json(error) from None
    if not isinstance(record, dict):
        found = "a list" if isinstance(record, list) else "a bare value"
        raise FieldError("bad_json", f"a record must be an object, found {found}")
    return record
