"""Reading `.spo` triples: subject TAB predicate TAB object, one a line, UTF-8.

The rules, so that every line of a file ends up in exactly one count:

- Only LF ends a line; a CR before it belongs to the line end. A byte order mark at the start of a
  file is not part of the first subject.
- Fields are trimmed of Unicode white space; white space inside a field stays.
- A line of white space only is `blank`; a line whose first field starts with `#` is a `comment`.
- A triple has exactly three fields and a subject and an object that are not empty. Anything else is
  rejected with its line and a reason: `bad_encoding`, `wrong_field_count`, `empty_subject`,
  `empty_object`, `line_too_long`. An empty *predicate* is accepted and counted: branches are made of
  the object unless predicates are asked for.
- A triple that names its subject as its object is skipped and counted as `self_triples`.

Duplicates are a matter of all files together and are dropped by `kg.compile`.

Files are read in blocks and split with array operations: about 2 million lines a second on one
core, where a loop of `line.split("\\t")` with the same checks reads a third of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kg.errors import GraphError

BLOCK_BYTES = 8 * 2**20
MAX_LINE_BYTES = 64 * 2**20
"""A longer line is rejected without being held in memory."""
EXCERPT_CHARS = 200
WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""What fields are trimmed of: the code points with Unicode's White_Space property."""

_BOM = b"\xef\xbb\xbf"
_TAB, _LF = 9, 10


@dataclass(frozen=True)
class RejectedLine:
    """A line that is no triple: `line` counts from 1, `byte` is the offset of its first byte."""

    path: str
    byte: int
    line: int
    reason: str
    detail: str
    excerpt: str


@dataclass
class ReadCounts:
    """What became of the lines: `lines` = blank + comments + self_triples + rejected + triples."""

    lines: int = 0
    blank: int = 0
    comments: int = 0
    self_triples: int = 0
    triples: int = 0
    empty_predicates: int = 0
    """Of `triples`, those without a predicate."""
    rejected: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class TripleTable:
    """Triples of one stretch of one file, in file order; N rows."""

    path: str
    subjects: pa.LargeStringArray  # [N]
    predicates: pa.LargeStringArray  # [N], may be empty strings
    objects: pa.LargeStringArray  # [N]
    lines: np.ndarray  # int64[N], 1-based


OnReject = Callable[[RejectedLine], None]
OpenBinary = Callable[[str], BinaryIO]


def open_local(path: str) -> BinaryIO:
    """A local file for reading. Raises GraphError naming the path where there is no such file."""
    if Path(path).is_dir():
        raise GraphError(f"{path} is a folder; name the .spo files in it")
    try:
        return Path(path).open("rb")
    except FileNotFoundError:
        raise GraphError(f"triples file {path} does not exist") from None
    except OSError as error:
        raise GraphError(f"triples file {path} cannot be read: {error}") from None


def read_spo(
    paths: Sequence[str],
    on_reject: OnReject,
    *,
    counts: ReadCounts | None = None,
    open_binary: OpenBinary = open_local,
) -> Iterator[tuple[str, str, str, str, int]]:
    """(subject, predicate, object, path, line) of every triple, in the order of paths and lines.

    `open_binary` opens a path for reading bytes, for files that are remote or compressed.
    """
    for table in read_tables(paths, on_reject, counts=counts, open_binary=open_binary):
        columns = (table.subjects.to_pylist(), table.predicates.to_pylist(), table.objects.to_pylist())
        for s, p, o, line in zip(*columns, table.lines.tolist(), strict=True):
            yield s, p, o, table.path, line


def read_tables(
    paths: Sequence[str],
    on_reject: OnReject,
    *,
    counts: ReadCounts | None = None,
    open_binary: OpenBinary = open_local,
) -> Iterator[TripleTable]:
    """The same triples as columns, a block of the file at a time; memory is bounded by the block."""
    counts = ReadCounts() if counts is None else counts
    for path in paths:
        reader = _FileReader(str(path), on_reject, counts)
        with open_binary(str(path)) as stream:
            for block in reader.blocks(stream):
                table = reader.table(block)
                if len(table.lines):
                    yield table


@dataclass
class _FileReader:
    path: str
    on_reject: OnReject
    counts: ReadCounts
    line: int = 1  # number of the next line
    byte: int = 0  # offset of its first byte

    def blocks(self, stream: BinaryIO) -> Iterator[bytes]:
        """Whole lines, about BLOCK_BYTES of them at a time; the last line gets a LF if it has none."""
        held = b""
        start = True
        while chunk := stream.read(BLOCK_BYTES):
            if start:
                start = False
                if chunk.startswith(_BOM):
                    self.byte = len(_BOM)
                    chunk = chunk[len(_BOM) :]
            held += chunk
            end = held.rfind(b"\n") + 1
            if end:
                yield held[:end]
                held = held[end:]
            elif len(held) > MAX_LINE_BYTES:
                held = self._skip_line(held, stream)
        if held:
            yield held if held.endswith(b"\n") else held + b"\n"

    def _skip_line(self, held: bytes, stream: BinaryIO) -> bytes:
        """Reject the line that `held` starts, read past it, return what follows it."""
        excerpt = held[: 4 * EXCERPT_CHARS]
        size = len(held)
        rest = b""
        while chunk := stream.read(BLOCK_BYTES):
            end = chunk.find(b"\n") + 1
            size += end or len(chunk)
            if end:
                rest = chunk[end:]
                break
        self.counts.lines += 1
        self._reject(self.line, self.byte, "line_too_long", _too_long(size), excerpt)
        self.line += 1
        self.byte += size
        return rest

    def table(self, block: bytes) -> TripleTable:
        """The triples of a block of whole lines; everything else is counted or rejected, in order."""
        raw = np.frombuffer(block, np.uint8)
        stops = np.flatnonzero(raw == _LF) + 1
        starts = np.concatenate(([0], stops[:-1]))
        tabs = np.searchsorted(np.flatnonzero(raw == _TAB), np.concatenate(([0], stops)))
        three = np.diff(tabs) == 2
        bad = _undecodable(block, starts, stops)
        long = np.flatnonzero(stops - starts > MAX_LINE_BYTES)
        three[bad] = three[long] = False
        rejects: list[tuple[int, str, str]] = [
            (i, "line_too_long", _too_long(int(stops[i] - starts[i]))) for i in long.tolist()
        ]
        bad = np.setdiff1d(bad, long, assume_unique=True)
        rejects += [(i, "bad_encoding", "expected UTF-8, found bytes that are not") for i in bad.tolist()]
        for i in np.setdiff1d(np.flatnonzero(~three), np.concatenate((bad, long))).tolist():
            first, *more = block[starts[i] : stops[i]].decode().split("\t")
            if not first.strip(WHITE_SPACE) and not "".join(more).strip(WHITE_SPACE):
                self.counts.blank += 1
            elif first.lstrip(WHITE_SPACE).startswith("#"):
                self.counts.comments += 1
            else:
                found = f"{len(more) + 1} field" + ("s" if more else "")
                rejects.append((i, "wrong_field_count", f"expected 3 fields separated by TAB, found {found}"))

        index = np.flatnonzero(three)
        subjects, predicates, objects = _split_fields(raw, starts, stops, three)
        no_subject, no_object = _equal(subjects, ""), _equal(objects, "")
        no_predicate = _equal(predicates, "")
        blank = no_subject & no_object & no_predicate
        comment = pc.starts_with(subjects, "#").to_numpy(zero_copy_only=False)
        lacks_subject = no_subject & ~blank
        lacks_object = no_object & ~no_subject & ~comment
        itself = _equal(subjects, objects) & ~no_subject & ~comment
        kept = ~(no_subject | no_object | comment | itself)
        rejects += [(int(i), "empty_subject", "the first field is empty") for i in index[lacks_subject]]
        rejects += [(int(i), "empty_object", "the third field is empty") for i in index[lacks_object]]
        for i, reason, detail in sorted(rejects):
            where = self.byte + int(starts[i])
            self._reject(self.line + i, where, reason, detail, block[starts[i] : stops[i]])

        counts = self.counts
        counts.lines += len(stops)
        counts.blank += int(blank.sum())
        counts.comments += int(comment.sum())
        counts.self_triples += int(itself.sum())
        counts.triples += int(kept.sum())
        counts.empty_predicates += int((no_predicate & kept).sum())
        lines = self.line + index[kept].astype(np.int64)
        self.line += len(stops)
        self.byte += len(block)
        if not kept.all():
            mask = pa.array(kept)
            subjects, predicates, objects = (a.filter(mask) for a in (subjects, predicates, objects))
        return TripleTable(self.path, subjects, predicates, objects, lines)

    def _reject(self, line: int, byte: int, reason: str, detail: str, raw: bytes) -> None:
        self.counts.rejected[reason] = self.counts.rejected.get(reason, 0) + 1
        excerpt = raw[: 4 * EXCERPT_CHARS].decode("utf-8", "replace").rstrip("\r\n")[:EXCERPT_CHARS]
        self.on_reject(RejectedLine(self.path, byte, line, reason, detail, excerpt))


def _too_long(size: int) -> str:
    return f"a line of {size} bytes, at most {MAX_LINE_BYTES}"


def _undecodable(block: bytes, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """Indices of the lines that are not UTF-8, int64."""
    if _is_utf8(block):
        return np.empty(0, np.int64)
    lines = zip(starts.tolist(), stops.tolist(), strict=True)
    return np.array([i for i, (start, stop) in enumerate(lines) if not _is_utf8(block[start:stop])], np.int64)


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _split_fields(
    raw: np.ndarray, starts: np.ndarray, stops: np.ndarray, three: np.ndarray
) -> tuple[pa.LargeStringArray, pa.LargeStringArray, pa.LargeStringArray]:
    """Trimmed fields of the lines that have three; `three` is bool over lines.

    The bytes of the block serve as the strings' buffer: a field is everything up to and with the
    separator that ends it, and trimming takes the separator off.
    """
    if not three.all():
        raw = raw[np.repeat(three, stops - starts)]
    offsets = np.concatenate(([0], np.flatnonzero((raw == _TAB) | (raw == _LF)) + 1)).astype(np.int64)
    count = len(offsets) - 1
    fields = pa.LargeStringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(raw))
    trimmed = pc.utf8_trim(fields, characters=WHITE_SPACE)
    first, second, third = (trimmed.take(pa.array(np.arange(k, count, 3))) for k in range(3))
    return first, second, third


def _equal(left: pa.Array, right: pa.Array | str) -> np.ndarray:
    return pc.equal(left, right).to_numpy(zero_copy_only=False)
