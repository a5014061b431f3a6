"""Lines of a byte range of a file, found fast and the same whatever the ranges are.

Only LF ends a line, with a CR directly before it (CRLF) as part of that end. U+2028, U+2029,
U+0085, form feed and a lone CR are data. The bare limit of reading lines in Python is
`bytes.split(b"\\n")` on data in memory: lines with the byte offset of each take 2.1 to 2.6 times that
(lines of 250 to 850 bytes, some 400 MB/s on one busy core), a tenth of what the rest of a record costs
(`tests/bench/bench_readers.py`).

Ranges. A line belongs to the range that holds its first byte. A paragraph (lines up to a blank
one) belongs to the range after the first blank line that starts at or past the range's start;
each range can thus be read without looking back, and ranges that cover a file cover its
paragraphs exactly once, wherever the cuts are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from corpora import files

if TYPE_CHECKING:
    from corpora.blocks import Part

MAX_RECORD_BYTES = 64 * 2**20
"""A longer record is rejected, and never held in memory."""
CHUNK = 1 << 20
"""Bytes a read: large enough to vanish against the work on them, small against a batch."""
LOOKAHEAD = 1 << 16
"""Bytes a read past the range's end, where only the rest of one record is wanted."""
HEAD = 1024
"""Bytes kept of a record that is too long, for the reject's excerpt."""
MAX_COUNTED = 2**30
"""Line numbers of rejects are counted from the file's start up to this far; past it only bytes are told."""
BOM = b"\xef\xbb\xbf"

_NOT_TEXT = {
    b"\xff\xfe": "UTF-16 text; convert it with `iconv -f UTF-16 -t UTF-8`",
    b"\xfe\xff": "UTF-16 text; convert it with `iconv -f UTF-16 -t UTF-8`",
    b"\x1f\x8b\x08": "gzip data; name the file .gz",
    b"\x28\xb5\x2f\xfd": "Zstandard data; name the file .zst",
    b"PK\x03\x04": "a ZIP archive; unpack it",
}


class Lines(NamedTuple):
    """Successive lines: `starts` are byte offsets of the lines in the file (decompressed).

    `lines` are without LF, and without the CR of a CRLF if `stripped`; `first` counts the lines of
    the range before these; `ended` is false only for a last line that no LF ends.
    """

    starts: list[int]
    lines: list[bytes]
    first: int
    ended: bool
    has_cr: bool

    def stripped(self) -> list[bytes]:
        """The lines without the CR of CRLF."""
        if not self.has_cr or not self.ended:
            return self.lines
        return [line[:-1] if line.endswith(b"\r") else line for line in self.lines]


class TooLong(NamedTuple):
    """A record longer than the limit: where it starts, and its first bytes."""

    start: int
    first: int
    head: bytes


class Paragraph(NamedTuple):
    """What stands between blank lines, without its last line end.

    `start` is the byte offset of its first byte; `first` lines of the range come before it.
    """

    start: int
    first: int
    raw: bytes


@dataclass
class LineNumbers:
    """1-based line numbers for rejects, counted only when the first is asked for.

    A range that starts at byte 0 knows them; of a later one the file is read again up to the
    range, once. None where that would cost too much (remote, or further than MAX_COUNTED).
    """

    part: Part
    origin: int = 0
    """Byte offset of the range's first line."""
    _before: int | None = None

    def number(self, first: int) -> int | None:
        """Number of the line that `first` lines of the range come before."""
        if self.part.start == 0:
            return first + 1
        if files.is_uri(self.part.path) or self.origin > MAX_COUNTED:
            return None
        if self._before is None:
            self._before = _count_lines(self.part.path, self.origin)
        return self._before + first + 1


def _count_lines(path: str, stop: int) -> int:
    count = 0
    with files.open_read(path) as file:
        while stop > 0 and (data := file.read(min(CHUNK, stop))):
            count += data.count(b"\n")
            stop -= len(data)
    return count


def check_start(name: str, head: bytes, encoding: str) -> None:
    """Raise ValueError where the first bytes of a file show that it is no text at all."""
    for magic, what in _NOT_TEXT.items():
        if encoding == "utf-8" and head.startswith(magic):
            raise ValueError(f"{name} is not text in {encoding}: it starts like {what}")


def read_lines(
    file: BinaryIO,
    start: int,
    stop: int | None,
    *,
    first: int = 0,
    chunk: int = CHUNK,
    limit: int = MAX_RECORD_BYTES,
) -> Iterator[Lines | TooLong]:
    """Lines whose first byte is in [start, stop), in order; memory is bounded by chunk and limit."""
    at = start
    if start > 0:
        found = _next_line(file, start, stop)
        if found is None:
            return
        at = found
        file.seek(at)
    origin = at  # where the line being gathered starts
    pieces: list[bytes] = []
    held = 0
    skipping = False  # inside a line that is too long
    while True:
        past = stop is not None and at >= stop
        if past and not held:
            return
        data = file.read(LOOKAHEAD if past else chunk if stop is None else min(chunk, stop - at))
        at += len(data)
        if not data:
            if held:
                yield _lines(origin, b"".join(pieces), first, ended=False)
            return
        if skipping:
            cut = data.find(b"\n")
            if cut < 0:
                continue
            skipping = False
            origin, first, data = at - len(data) + cut + 1, first + 1, data[cut + 1 :]
        cut = data.find(b"\n") if past else data.rfind(b"\n")
        if cut >= 0:
            pieces.append(data[:cut])
            body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            yield from _within(_lines(origin, body, first, ended=True), len(body), limit)
            if past:
                return
            origin, first = at - len(data) + cut + 1, first + body.count(b"\n") + 1
            pieces, held, data = [], 0, data[cut + 1 :]
        if data:
            pieces.append(data)
            held += len(data)
        if held > limit:
            yield TooLong(origin, first, b"".join(pieces)[:HEAD])
            pieces, held, skipping = [], 0, True


def _next_line(file: BinaryIO, start: int, stop: int | None) -> int | None:
    """Offset of the first line that starts at or past `start` and before `stop`."""
    at = start - 1
    file.seek(at)
    while (stop is None or at < stop) and (data := file.read(LOOKAHEAD)):
        cut = data.find(b"\n")
        if cut >= 0:
            found = at + cut + 1
            return found if stop is None or found < stop else None
        at += len(data)
    return None


def _lines(origin: int, body: bytes, first: int, *, ended: bool) -> Lines:
    lines = body.split(b"\n")
    starts = list(accumulate([len(line) + 1 for line in lines[:-1]], initial=origin))
    return Lines(starts, lines, first, ended, b"\r" in body)


def _within(found: Lines, size: int, limit: int) -> Iterator[Lines | TooLong]:
    """The lines as they are, or where one is longer than `limit`, the runs between such lines."""
    if size <= limit or max(map(len, found.lines)) <= limit:
        yield found
        return
    begin = 0
    for i, line in enumerate([*found.lines, None]):
        if line is not None and len(line) <= limit:
            continue
        if i > begin:
            yield found._replace(
                starts=found.starts[begin:i], lines=found.lines[begin:i], first=found.first + begin
            )
        if line is not None:
            yield TooLong(found.starts[i], found.first + i, line[:HEAD])
        begin = i + 1


def part_lines(
    file: BinaryIO,
    part: Part,
    encoding: str,
    *,
    numbers: LineNumbers | None = None,
    limit: int = MAX_RECORD_BYTES,
) -> Iterator[Lines | TooLong]:
    """Lines of a part, without the byte order mark of the file.

    The first line then starts at byte 3, and still belongs to the range of byte 0. `numbers` learns
    where the range's first line is.
    """
    fresh = True
    for found in read_lines(file, part.start, part.stop, limit=limit):
        if fresh:
            fresh = False
            start, head = (
                (found.starts[0], found.lines[0]) if isinstance(found, Lines) else (found.start, found.head)
            )
            if numbers is not None:
                numbers.origin = start
            if start == 0:
                check_start(part.name, head, encoding)
                if encoding == "utf-8" and head.startswith(BOM):
                    found = _without_mark(found)
        yield found


def _without_mark(found: Lines | TooLong) -> Lines | TooLong:
    if isinstance(found, TooLong):
        return found._replace(start=len(BOM), head=found.head[len(BOM) :])
    return found._replace(
        starts=[len(BOM), *found.starts[1:]], lines=[found.lines[0][len(BOM) :], *found.lines[1:]]
    )


def is_blank(line: bytes) -> bool:
    """Whether a line holds nothing but spaces, tabs and carriage returns."""
    return not line.strip(b" \t\r")


def read_paragraphs(
    file: BinaryIO,
    part: Part,
    encoding: str,
    *,
    numbers: LineNumbers | None = None,
    limit: int = MAX_RECORD_BYTES,
) -> Iterator[Paragraph | TooLong]:
    """Paragraphs of a part: runs of lines that are not blank; blank runs are one boundary.

    A paragraph longer than `limit` comes as TooLong.
    """
    gather = _Gather(limit, started=part.start == 0)
    count = 0
    for found in part_lines(file, part, encoding, numbers=numbers, limit=limit):
        yield from gather.add(found)
        count = found.first + (len(found.lines) if isinstance(found, Lines) else 1)
    # Past the range's end: what lies before the first blank line there is still this range's, unless
    # no blank line starts inside the range, and its paragraphs would begin where they end.
    if part.stop is not None and gather.started:
        for found in read_lines(file, part.stop, None, first=count, chunk=LOOKAHEAD, limit=limit):
            blank = None
            if isinstance(found, Lines):
                blank = next((i for i, line in enumerate(found.lines) if is_blank(line)), None)
                if blank is not None:
                    found = found._replace(starts=found.starts[:blank], lines=found.lines[:blank])
            yield from gather.add(found)
            if blank is not None:
                break
    yield from gather.close()


class _Gather:
    """Puts lines together to paragraphs, over any number of reads."""

    def __init__(self, limit: int, *, started: bool) -> None:
        self.limit = limit
        self.started = started
        """Whether a blank line of this range has been met: what comes before is another range's."""
        self.lines: list[bytes] = []
        self.runs: list[bytes] = []
        """Lines before those, joined: many tiny objects would take far more than their bytes."""
        self.start = self.first = self.held = 0
        self.dropping = False
        self.ended = True

    def add(self, found: Lines | TooLong) -> Iterator[Paragraph | TooLong]:
        if isinstance(found, TooLong):
            if self.started and not self.dropping:
                yield self._drop(found)
            return
        for i, line in enumerate(found.lines):
            if not line.strip(b" \t\r"):
                yield from self.close()
                self.started = True
            elif self.started and not self.dropping:
                if not self.lines:
                    self.start, self.first, self.held = found.starts[i], found.first + i, 0
                elif len(self.lines) >= 4096:
                    self.runs.append(b"\n".join(self.lines))
                    self.lines = []
                self.lines.append(line)
                self.held += len(line) + 1
                self.ended = found.ended
                if self.held - 1 > self.limit:
                    yield self._drop(None)

    def _drop(self, line: TooLong | None) -> TooLong:
        """Give the paragraph up, because it or its next `line` is too long."""
        if self.lines or line is None:
            line = TooLong(self.start, self.first, b"\n".join(self.runs + self.lines)[:HEAD])
        self.lines, self.runs, self.dropping = [], [], True
        return line

    def close(self) -> Iterator[Paragraph]:
        """The paragraph gathered so far, if any."""
        if self.lines:
            raw = b"\n".join(self.runs + self.lines)
            if self.ended and raw.endswith(b"\r"):
                raw = raw[:-1]
            yield Paragraph(self.start, self.first, raw)
        self.lines, self.runs, self.dropping = [], [], False
