"""CSV: fields between delimiters, in double quotes where they hold delimiters, quotes or line ends.

The csv module parses, strictly: a quote where none can be is an error and not a guess. Where a quoted
field never closes, or closes wrongly, nobody can say which of the lines it ran over were records: each
of them is rejected, and the next record starts behind them. A record that does not end within
MAX_LINE_BYTES and MAX_RECORD_LINES is given up the same way, so that an open quote loses little.
"""

from __future__ import annotations

import csv
import io
import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from kg.read import lines
from kg.read.lines import WHITE_SPACE, Block, TooLong
from kg.read.options import ROLES, ReadOptions
from kg.read.records import EXCERPT_CHARS, Sink, TripleTable
from kg.read.tables import CONTROL, CONTROL_DETAIL, control_characters, emit
from kg.read.tsv import Layout, find_columns, has_header, remark_header

MAX_RECORD_LINES = 1 << 14
_OPEN = "a quote opened here is never closed"
_PART_LINES = 1 << 10

# The csv module takes a lone CR for a line end, and NUL for an error in Python 3.10. They are data here:
# while it parses, code points that no decoded text can hold stand for them.
_LONE_CR = re.compile("\r(?!\n)")
_SHOW = str.maketrans("\udd0d\udd00", "\r\0")


def read_csv(stream: BinaryIO, options: ReadOptions, sink: Sink) -> Iterator[TripleTable]:
    """Tables of the file's triples. Raises GraphError where the header lacks a column that is needed."""
    # The limit is the whole process's, and only ever raised: to what one record may hold at most.
    csv.field_size_limit(max(csv.field_size_limit(), lines.MAX_LINE_BYTES + 2 * lines.BLOCK_BYTES))
    if options.columns is None:
        options = ReadOptions(columns={role: role for role in ROLES}, delimiter=options.delimiter)
    feed, rows = _Feed(stream, sink), _Rows(options, sink)
    while feed.more:
        base = feed.next_line
        records = csv.reader(feed.physical_lines(), delimiter=options.delimiter, strict=True)
        while True:
            feed.record = first = base + records.line_num
            try:
                fields = next(records)
            except StopIteration:
                break
            except csv.Error as error:
                feed.reject_all(
                    first,
                    base + records.line_num,
                    "bad_syntax",
                    _OPEN if "unexpected end" in str(error) else str(error),
                )
                continue
            except _RecordTooLongError as error:
                feed.reject_all(first, feed.next_line, "line_too_long", str(error))
                break
            sink.counts.read += 1
            if feed.damaged and feed.is_damaged(first, base + records.line_num):
                feed.reject(first, "bad_encoding", "expected UTF-8, found bytes that are not")
            else:
                rows.add(fields, first, feed)
            if feed.turned:
                feed.turned = False
                yield from rows.take()
    yield from rows.take()


class _Rows:
    """The triples that were read and not yet handed on."""

    def __init__(self, options: ReadOptions, sink: Sink) -> None:
        self._options, self._sink = options, sink
        self._layout: Layout | None = None
        self._columns: tuple[list[str], list[str], list[str]] = ([], [], [])
        self._lines: list[int] = []

    def add(self, fields: list[str], line: int, feed: _Feed) -> None:
        """Sort a record in: blank, the header, rejected, or a triple."""
        layout = self._layout
        if layout is not None and len(fields) == layout.fields and not feed.odd:  # nearly every record
            subject, object_ = (
                fields[layout.subject].strip(WHITE_SPACE),
                fields[layout.object].strip(WHITE_SPACE),
            )
            if subject and object_:
                predicate = "" if layout.predicate is None else fields[layout.predicate].strip(WHITE_SPACE)
                self._append(subject, predicate, object_, line)
                return
        if feed.odd:
            fields = [field.translate(_SHOW) for field in fields]
        fields = [field.strip(WHITE_SPACE) for field in fields]
        if not any(fields):
            self._sink.leave_out("blank")
        elif layout is None:
            self._layout = find_columns(self._options, fields, self._sink.path)
            if has_header(self._options):
                self._sink.leave_out("header")
            else:
                remark_header(fields, self._sink, line)
                self.add(fields, line, feed)
        elif len(fields) != layout.fields:
            some = f"{len(fields)} field{'s' if len(fields) > 1 else ''}"
            feed.reject(line, "wrong_field_count", f"expected {layout.fields} fields, found {some}")
        else:
            subject, object_ = fields[layout.subject], fields[layout.object]
            predicate = "" if layout.predicate is None else fields[layout.predicate]
            if not subject:
                feed.reject(line, "empty_subject", "the subject is empty")
            elif not object_:
                feed.reject(line, "empty_object", "the object is empty")
            elif not CONTROL.isdisjoint(f"{subject}{predicate}{object_}"):
                feed.reject(line, "control_character", CONTROL_DETAIL)
            else:
                self._append(subject, predicate, object_, line)

    def _append(self, subject: str, predicate: str, object_: str, line: int) -> None:
        subjects, predicates, objects = self._columns
        subjects.append(subject)
        predicates.append(predicate)
        objects.append(object_)
        self._lines.append(line)

    def take(self) -> Iterator[TripleTable]:
        subjects, predicates, objects = (pa.array(column, pa.large_string()) for column in self._columns)
        numbers = np.array(self._lines, np.int64)
        for part in (*self._columns, self._lines):
            part.clear()
        yield from emit(self._sink, np.ones(len(numbers), np.bool_), (subjects, predicates, objects), numbers)


class _RecordTooLongError(Exception):
    pass


class _Feed:
    """Physical lines for the csv module, and where those of the current record lie."""

    def __init__(self, stream: BinaryIO, sink: Sink) -> None:
        self._sink = sink
        self._blocks = lines.read_blocks(stream, sink.path)
        self._recent: list[Block | TooLong] = []  # all that the current record has lines of
        self._texts: Iterator[str] = iter(())  # lines of the last block that were not read
        self._part: list[str] = []  # lines that were taken from it and not given on
        self.more = True
        self.record = 1
        """Number of the first line of the current record; set from outside."""
        self.next_line = 1
        """Number of the first line that was not given on yet."""
        self.turned = False
        """A block was read; reset from outside."""
        self.odd = False
        """A block had control characters or code points that are hidden from the csv module."""
        self.damaged: list[int] = []
        """Lines that are not UTF-8, ascending; those before the current record are forgotten."""

    def physical_lines(self) -> Iterator[str]:
        """The lines that were not read yet, with their line ends.

        Raises _RecordTooLongError where the current record does not end within the limits; what follows
        comes from the next call.
        """
        while True:
            self._part = self._part or list(islice(self._texts, _PART_LINES))
            if self._part:
                self._check_length()
                part, self._part = self._part, []
                self.next_line += len(part)
                yield from part
                continue
            block = next(self._blocks, None)
            if block is None:
                self.more = False
                return
            self._recent = [part for part in self._recent if part.line + _count(part) > self.record]
            self._recent.append(block)
            if isinstance(block, TooLong):
                self.next_line += 1
                raise _RecordTooLongError(block.detail)
            self.damaged = self.damaged[bisect_left(self.damaged, self.record) :]
            self._texts = io.StringIO(self._decode(block), newline="\n")
            self.turned = True

    def _check_length(self) -> None:
        """Give a record up that goes on, before its next lines are given on."""
        count = self.next_line - self.record
        if count > 0:
            size = self._find(self.next_line)[0] - self._find(self.record)[0]
            if size > lines.MAX_LINE_BYTES or count > MAX_RECORD_LINES:
                raise _RecordTooLongError(
                    f"a record of more than {size:,} bytes in {count:,} lines, at most "
                    f"{lines.MAX_LINE_BYTES:,} in {MAX_RECORD_LINES:,}; is a quote open?"
                )

    def _decode(self, block: Block) -> str:
        try:
            text = block.data.decode()
        except UnicodeDecodeError:
            self.damaged += (block.line + block.undecodable()).tolist()
            text = block.data.decode("utf-8", "replace")  # to know where the record ends
        text, hidden = _LONE_CR.subn("\udd0d", text) if "\r" in text else (text, 0)
        self.odd = self.odd or hidden > 0 or len(control_characters(block.raw)) > 0
        return text.replace("\0", "\udd00")

    def is_damaged(self, start: int, stop: int) -> bool:
        at = bisect_left(self.damaged, start)
        return at < len(self.damaged) and self.damaged[at] < stop

    def reject(self, line: int, reason: str, detail: str) -> None:
        byte, head = self._find(line)
        self._sink.reject(line, byte, reason, detail, head)

    def reject_all(self, start: int, stop: int, reason: str, detail: str) -> None:
        """Reject every physical line of the record."""
        for line in range(start, stop):
            self._sink.counts.read += 1
            inside = (
                f"inside the quote of line {start}"
                if detail == _OPEN
                else f"in the record of line {start}: {detail}"
            )
            self.reject(line, reason, detail if line == start else inside)

    def _find(self, line: int) -> tuple[int, bytes]:
        """First byte and beginning of a line of the current record."""
        part = next(part for part in reversed(self._recent) if part.line <= line)
        if isinstance(part, TooLong):
            return part.byte, part.head
        start = int(part.starts[line - part.line])
        stop = min(int(part.stops[line - part.line]), start + 4 * EXCERPT_CHARS)
        return part.byte + start, part.data[start:stop]


def _count(part: Block | TooLong) -> int:
    return 1 if isinstance(part, TooLong) else len(part.stops)
