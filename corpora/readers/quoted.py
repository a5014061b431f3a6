"""CSV: fields between commas, in double quotes where they hold commas, quotes or line ends.

The csv module parses, strictly: a quote where none can be is an error and not a guess. It pulls
physical lines from `_Feed`, which knows the byte each record starts at. Where a quoted field
never closes, or closes wrongly, nobody can say which of the lines it ran over were records: each
of them is rejected, so that the share of rejects tells how much was lost.
"""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

from corpora.readers.columns import find_columns
from corpora.readers.fields import Mapper
from corpora.readers.lines import HEAD, MAX_RECORD_BYTES, LineNumbers, Lines, TooLong, part_lines
from corpora.readers.sink import FieldError, Sink, bad_encoding
from corpora.readers.tsv import Picker

if TYPE_CHECKING:
    from corpora.blocks import Part
    from corpora.layout import InputConfig

MAX_RECORD_LINES = 1 << 20
"""Physical lines that one record may run over, so that an open quote is given up within bounds."""

# The csv module takes a lone CR for a line end, and NUL for an error in Python 3.10. They are data
# here: while it parses, code points that no decoded text can hold stand for them.
_HIDE = str.maketrans("\r\0", "\udd0d\udd00")
_SHOW = str.maketrans("\udd0d\udd00", "\r\0")


def read_csv(
    file: BinaryIO, part: Part, layout: InputConfig, mapper: Mapper, sink: Sink, numbers: LineNumbers
) -> Iterator[pa.Table]:
    """Tables of the part's records as they fill; the last rows stay in the sink."""
    columns = find_columns(part.path, part.name, layout, may_lack_label=mapper.may_lack_label)
    if columns is None:
        return
    # The limit is the whole process's; it is only ever raised, to what one record may hold at most.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_RECORD_BYTES))
    pick = Picker(columns)
    feed = _Feed(part_lines(file, part, layout.encoding, numbers=numbers), layout.encoding, sink)
    rows = csv.reader(feed, strict=True)
    while True:
        feed.begin()
        try:
            fields = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            feed.reject_all("bad_csv", str(error))
        except _RecordTooLongError:
            feed.reject_all(
                "record_too_long",
                f"the record is longer than {MAX_RECORD_BYTES:,} bytes or {MAX_RECORD_LINES:,} lines",
            )
            feed.skip_quoted()
            rows = csv.reader(feed, strict=True)
        else:
            _add(fields, feed, columns.header, pick, mapper, sink)
        if sink.ready:
            yield from sink.take()


def _add(
    fields: list[str], feed: _Feed, header: int | None, pick: Picker, mapper: Mapper, sink: Sink
) -> None:
    byte = feed.starts[0]
    if byte == header or not fields or (len(fields) == 1 and not fields[0].strip(" ")):
        return  # the header, or a blank line
    try:
        if feed.damage is not None:
            raise feed.damage
        if feed.hidden:
            fields = [field.translate(_SHOW) for field in fields]
        mapper.add(byte, *pick(fields))
    except FieldError as error:
        sink.reject(byte, feed.first, error.reason, error.detail, feed.head)


class _RecordTooLongError(Exception):
    pass


class _Feed:
    """Physical lines for the csv module, and where those of the current record lie."""

    def __init__(self, found: Iterator[Lines | TooLong], encoding: str, sink: Sink) -> None:
        self._encoding, self._sink = encoding, sink
        self._lines = self._each(found)
        self.begin()

    def begin(self) -> None:
        """A new record starts with the next line."""
        self.starts = array("q")
        """Byte of each physical line of the record."""
        self.first = 0
        self.head = b""
        self.damage: FieldError | None = None
        self.hidden = False
        self._size = 0
        self._open = False

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        byte, first, raw, end = next(self._lines)
        if not self.starts:
            self.first, self.head = first, raw[:HEAD]
        self.starts.append(byte)
        self._size += len(raw)
        if end is None:
            # A line too long to look for quotes in; where it ends is where its record does, most likely.
            raise _RecordTooLongError
        if self._size > MAX_RECORD_BYTES or len(self.starts) > MAX_RECORD_LINES:
            self._open = raw.count(b'"') % 2 == 0  # only a quoted field goes on over a line's end
            raise _RecordTooLongError
        try:
            text = raw.decode(self._encoding)
        except UnicodeDecodeError as error:
            # Go on, to know where the record ends.
            self.damage = self.damage or bad_encoding(error, raw, byte, self._encoding)
            text = raw.decode(self._encoding, "replace")
        if "\r" in text or "\0" in text:
            self.hidden = True
            text = text.translate(_HIDE)
        return text + end

    def reject_all(self, reason: str, detail: str) -> None:
        """Reject every physical line of the record."""
        start = self.starts[0]
        self._sink.reject(start, self.first, reason, detail, self.head)
        inside = f"a line inside the record at byte {start}: {detail}"
        for i, byte in enumerate(self.starts[1:], self.first + 1):
            self._sink.reject(byte, i, reason, inside, b"")

    def skip_quoted(self) -> None:
        """Reject lines until one with an odd number of quotes closes the field that is too long."""
        if not self._open:
            return
        for byte, first, raw, _ in self._lines:
            self._sink.reject(byte, first, "record_too_long", "the rest of a record that is too long", raw)
            if raw.count(b'"') % 2:
                return

    def _each(self, found: Iterator[Lines | TooLong]) -> Iterator[tuple[int, int, bytes, str | None]]:
        for item in found:
            if isinstance(item, TooLong):
                yield item.start, item.first, item.head, None
                continue
            for i, (byte, line) in enumerate(zip(item.starts, item.lines, strict=True)):
                end = "\n" if item.ended else ""
                if item.ended and line.endswith(b"\r"):
                    line, end = line[:-1], "\r\n"
                yield byte, item.first + i, line, end
