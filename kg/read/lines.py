"""Lines of a file as blocks of bytes: only LF ends a line, and no line has to fit into memory."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from kg.errors import GraphError
from kg.read.records import EXCERPT_CHARS, Sink

BLOCK_BYTES = 2 * 2**20
MAX_LINE_BYTES = 16 * 2**20
"""A longer line is rejected without being held in memory."""
WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""What fields are trimmed of: the code points with Unicode's White_Space property."""

BOM = b"\xef\xbb\xbf"
_LF = 10
_HASH = ord("#")


def read_fully(stream: BinaryIO, path: str, size: int) -> bytes:
    """`size` bytes, fewer only at the end. Raises GraphError naming the file that cannot be read on."""
    parts = []
    try:
        while size > 0 and (part := stream.read(size)):
            parts.append(part)
            size -= len(part)
    except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
        raise GraphError(
            f"{path} cannot be read to its end: {error}. Fetch or make the file again; "
            "nothing of it should be trusted"
        ) from error
    return parts[0] if len(parts) == 1 else b"".join(parts)


@dataclass(frozen=True)
class TooLong:
    """A line that did not fit into memory: its number, first byte, size in bytes, and how it begins."""

    line: int
    byte: int
    size: int
    head: bytes

    @property
    def detail(self) -> str:
        return _too_long(self.size)


class Block:
    """Whole lines of a file, M of them, and what is wrong with each."""

    def __init__(self, data: bytes, line: int, byte: int) -> None:
        self.data, self.line, self.byte = data, line, byte
        self.raw = np.frombuffer(data, np.uint8)
        """The bytes; the last is LF."""
        self.stops = np.flatnonzero(self.raw == _LF) + 1
        self.starts = np.concatenate(([0], self.stops[:-1]))
        """int64[M], where each line starts; `stops` is behind its LF."""
        self.kept = np.ones(len(self.stops), np.bool_)
        """bool[M], lines that were neither rejected nor left out."""
        self._rejects: list[tuple[int, str, str]] = []

    def bytes_of(self, index: int) -> bytes:
        return self.data[self.starts[index] : self.stops[index]]

    def undecodable(self) -> np.ndarray:
        """Indices of the lines that are not UTF-8, int64."""
        if _is_utf8(self.data):
            return np.empty(0, np.int64)
        found = [i for i in range(len(self.stops)) if not _is_utf8(self.bytes_of(i))]
        return np.array(found, np.int64)

    def reject(self, index: int, reason: str, detail: str) -> None:
        self.kept[index] = False
        self._rejects.append((index, reason, detail))

    def reject_all(self, index: np.ndarray, wrong: Iterable[tuple[np.ndarray, str, str]]) -> None:
        """Reject lines by masks over `index`, int64[N]: bool[N], reason, detail."""
        for mask, reason, detail in wrong:
            for i in index[mask].tolist():
                self.reject(i, reason, detail)

    def sift(self, sink: Sink) -> None:
        """Reject lines that are too long or not UTF-8, leave out those that are blank or comments."""
        for i in np.flatnonzero(self.stops - self.starts > MAX_LINE_BYTES).tolist():
            self.reject(i, "line_too_long", _too_long(int(self.stops[i] - self.starts[i])))
        for i in self.undecodable().tolist():
            if self.kept[i]:
                self.reject(i, "bad_encoding", "expected UTF-8, found bytes that are not")
        at = _behind_white(self.raw, self.starts)
        blank = self.kept & (self.raw[at] == _LF)
        comment = self.kept & (self.raw[at] == _HASH)
        for i in np.flatnonzero(self.kept & (_white_width(self.raw, at) > 0)).tolist():
            text = self.bytes_of(i).decode().lstrip(WHITE_SPACE)
            blank[i], comment[i] = not text, text.startswith("#")
        sink.leave_out("blank", int(blank.sum()))
        sink.leave_out("comment", int(comment.sum()))
        self.kept &= ~(blank | comment)

    def finish(self, sink: Sink) -> None:
        """Count the lines and hand the rejected ones over, in order."""
        sink.counts.read += len(self.stops)
        for i, reason, detail in sorted(self._rejects):
            start = int(self.starts[i])
            raw = self.data[start : min(int(self.stops[i]), start + 4 * EXCERPT_CHARS)]
            sink.reject(self.line + i, self.byte + start, reason, detail, raw)


def read_blocks(stream: BinaryIO, path: str) -> Iterator[Block | TooLong]:
    """Whole lines, about BLOCK_BYTES of them at a time; the last line gets a LF if it has none.

    A byte order mark at the start of the file is not part of the first line. Memory: MAX_LINE_BYTES and
    a few blocks, whatever the file holds.
    """
    held = read_fully(stream, path, max(BLOCK_BYTES, len(BOM)))
    line, byte = 1, 0
    if held.startswith(BOM):
        byte, held = len(BOM), held[len(BOM) :]
        held = held or read_fully(stream, path, BLOCK_BYTES)
    chunk = held
    while chunk:
        end = held.rfind(b"\n") + 1
        if end:
            block = Block(held[:end], line, byte)
            line, byte, held = line + len(block.stops), byte + end, held[end:]
            yield block
        elif len(held) > MAX_LINE_BYTES:
            size, rest = _skip_line(stream, path)
            size += len(held)
            yield TooLong(line, byte, size, held[: 4 * EXCERPT_CHARS])
            line, byte, held = line + 1, byte + size, rest
        chunk = read_fully(stream, path, BLOCK_BYTES)
        held += chunk
    if held:
        yield Block(held if held.endswith(b"\n") else held + b"\n", line, byte)


def sifted_blocks(stream: BinaryIO, sink: Sink) -> Iterator[Block]:
    """The blocks of a format of one line each, sifted; when the next one is asked for, they are counted."""
    for block in read_blocks(stream, sink.path):
        if isinstance(block, TooLong):
            sink.counts.read += 1
            sink.reject(block.line, block.byte, "line_too_long", block.detail, block.head)
        else:
            block.sift(sink)
            yield block
            block.finish(sink)


def _skip_line(stream: BinaryIO, path: str) -> tuple[int, bytes]:
    """Read on to the end of the line: bytes passed over, and what was read behind them."""
    size = 0
    while chunk := read_fully(stream, path, BLOCK_BYTES):
        end = chunk.find(b"\n") + 1
        size += end or len(chunk)
        if end:
            return size, chunk[end:]
    return size, b""


def _too_long(size: int) -> str:
    return f"a line of {size} bytes, at most {MAX_LINE_BYTES}"


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _behind_white(raw: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Where each line goes on behind its first characters of white space, some of them; never past its LF."""
    at = starts.copy()
    rows = np.arange(len(at))
    for _ in range(_WHITE_STEPS):
        width = _white_width(raw, at[rows])
        rows, width = rows[width > 0], width[width > 0]
        if not len(rows):
            break
        at[rows] += width
    return at


def _white_width(raw: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Bytes of the white space character at each index, int64 like `at`; 0 where there is none, and for LF."""
    first = raw[at]
    width = _WHITE_BYTE[first].astype(np.int64)
    wide = np.flatnonzero(_WHITE_LEAD[first])
    if len(wide):
        places, last = at[wide], len(raw) - 1
        code = first[wide].astype(np.int32) << 8 | raw[np.minimum(places + 1, last)]
        width[wide] = 2 * np.isin(code, _WHITE_TWO)
        width[wide] += 3 * np.isin(code << 8 | raw[np.minimum(places + 2, last)], _WHITE_THREE)
    return width


_WHITE_STEPS = 8  # of more, which is rare, Python takes care
_WIDE = [char.encode() for char in WHITE_SPACE if ord(char) > 127]
_WHITE_BYTE = np.isin(np.arange(256), [ord(char) for char in WHITE_SPACE if ord(char) < 128 and char != "\n"])
_WHITE_LEAD = np.isin(np.arange(256), [wide[0] for wide in _WIDE])
_WHITE_TWO = np.array([int.from_bytes(wide, "big") for wide in _WIDE if len(wide) == 2], np.int32)
_WHITE_THREE = np.array([int.from_bytes(wide, "big") for wide in _WIDE if len(wide) == 3], np.int32)
