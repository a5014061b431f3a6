"""TSV: one record a line, fields between TABs, quotes plain text.

The header line belongs to every byte range of its file: a range that does not start with it
reads it from the file's start.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from corpora.readers.columns import Columns, find_columns
from corpora.readers.fields import Mapper
from corpora.readers.lines import LineNumbers, TooLong, part_lines
from corpora.readers.sink import FieldError, Sink

if TYPE_CHECKING:
    from corpora.blocks import Part
    from corpora.layout import InputConfig


def read_tsv(
    file: BinaryIO, part: Part, layout: InputConfig, mapper: Mapper, sink: Sink, numbers: LineNumbers
) -> Iterator[pa.Table]:
    """Tables of the part's records as they fill; the last rows stay in the sink."""
    columns = find_columns(part.path, part.name, layout, may_lack_label=mapper.may_lack_label)
    if columns is None:
        return
    pick = Picker(columns)
    for found in part_lines(file, part, layout.encoding, numbers=numbers):
        if isinstance(found, TooLong):
            sink.too_long(found)
            continue
        for i, (byte, line) in enumerate(zip(found.starts, found.stripped(), strict=True)):
            # A line of TABs is a record of empty fields; one of spaces is a stray blank line.
            if byte == columns.header or not line.strip(b" "):
                continue
            try:
                mapper.add(byte, *pick(sink.decode(line, byte).split("\t")))
            except FieldError as error:
                sink.reject(byte, found.first + i, error.reason, error.detail, line)
        yield from sink.take()


class Picker:
    """Takes the fields of each role out of a record's fields.

    An empty cell of any but the texts is a missing value. Raises FieldError `unequal_fields`.
    """

    def __init__(self, columns: Columns) -> None:
        self._count = columns.count
        text, text_pair = columns.index[:2]
        self._several = [role if isinstance(role, list) else None for role in (text, text_pair)]
        # A role that is not used gets the None that is put behind the fields.
        single = [i if isinstance(i, int) else columns.count for i in columns.index]
        self._roles = itemgetter(*single)

    def __call__(self, fields: list[Any]) -> tuple[Any, Any, Any, Any, Any]:
        if len(fields) != self._count:
            raise FieldError("unequal_fields", f"{len(fields)} fields in a file of {self._count} columns")
        fields.append(None)
        text, text_pair, label, id_, language = self._roles(fields)
        if self._several != [None, None]:
            of_text, of_pair = self._several
            text = text if of_text is None else [fields[i] for i in of_text]
            text_pair = text_pair if of_pair is None else [fields[i] for i in of_pair]
        return text, text_pair, label or None, id_ or None, language or None
