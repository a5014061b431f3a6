"""Plain text: a document is a file, a line, or the lines between blank lines.

Text keeps its inner line ends as they are, CRLF too; the line end that closes a line or
paragraph is not part of it. A document of a whole file is the file's every character.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

from corpora.readers.fields import not_empty
from corpora.readers.lines import (
    BOM,
    HEAD,
    MAX_RECORD_BYTES,
    LineNumbers,
    TooLong,
    check_start,
    part_lines,
    read_paragraphs,
)
from corpora.readers.sink import FieldError, Sink

if TYPE_CHECKING:
    from corpora.blocks import Part
    from corpora.layout import InputConfig


def read_text(
    file: BinaryIO, part: Part, layout: InputConfig, sink: Sink, numbers: LineNumbers
) -> Iterator[pa.Table]:
    """Tables of the part's documents as they fill; the last rows stay in the sink."""
    if layout.document == "file":
        _whole(file, part, layout.encoding, sink)
        yield from sink.take()
    elif layout.document == "line":
        yield from _lines(file, part, layout.encoding, sink, numbers)
    else:
        for found in read_paragraphs(file, part, layout.encoding, numbers=numbers):
            if isinstance(found, TooLong):
                sink.too_long(found)
            else:
                _add(sink, found.start, found.first, found.raw)
            if sink.ready:
                yield from sink.take()


def _lines(file: BinaryIO, part: Part, encoding: str, sink: Sink, numbers: LineNumbers) -> Iterator[pa.Table]:
    for found in part_lines(file, part, encoding, numbers=numbers):
        if isinstance(found, TooLong):
            sink.too_long(found)
            continue
        for i, (byte, line) in enumerate(zip(found.starts, found.stripped(), strict=True)):
            if line.strip(b" \t\r"):
                _add(sink, byte, found.first + i, line)
        yield from sink.take()


def _whole(file: BinaryIO, part: Part, encoding: str, sink: Sink) -> None:
    raw = b""
    while len(raw) <= MAX_RECORD_BYTES and (data := file.read(MAX_RECORD_BYTES + 1 - len(raw))):
        raw = raw + data if raw else data
    check_start(part.name, raw[:16], encoding)
    start = len(BOM) if encoding == "utf-8" and raw.startswith(BOM) else 0
    if len(raw) > MAX_RECORD_BYTES:
        sink.too_long(TooLong(start, 0, raw[start : start + HEAD]))
    elif raw:  # an empty file is no document
        _add(sink, start, 0, raw[start:], whole_file=True)


def _add(sink: Sink, byte: int, first: int, raw: bytes, *, whole_file: bool = False) -> None:
    try:
        sink.row(byte, not_empty(sink.decode(raw, byte), "document"), whole_file=whole_file)
    except FieldError as error:
        sink.reject(byte, first, error.reason, error.detail, raw)
