"""What readers take and give: streams of bytes in, columns of triples out, every line counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from kg.errors import GraphError

EXCERPT_CHARS = 200
COMPRESSED = (".gz", ".bz2", ".zst")


@dataclass(frozen=True)
class RejectedLine:
    """A line (or record) that is no triple: `line` counts from 1, `byte` is the offset of its first byte.

    `byte` is -1 where the parser of a format does not tell it (Turtle, TriG and RDF/XML),
    and in files of another encoding than UTF-8.
    """

    path: str
    byte: int
    line: int
    reason: str
    detail: str
    excerpt: str


@dataclass
class ReadCounts:
    """What became of what was read: `read` = `triples` + sum of `left_out` + sum of `rejected`."""

    read: int = 0
    """Lines, records of CSV, statements of Turtle, TriG and RDF/XML."""
    triples: int = 0
    empty_predicates: int = 0
    """Of `triples`, those without a predicate."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Well formed, and no triple by the rules: reason to count."""
    rejected: dict[str, int] = field(default_factory=dict)
    """Malformed: reason to count."""
    languages: set[str] = field(default_factory=set)
    """Of the literals in files of RDF, whether they were asked for or not."""
    remarks: list[str] = field(default_factory=list)
    """What was read by the rules, and may not be what was meant."""


@dataclass(frozen=True)
class TripleTable:
    """Triples of one stretch of one file, in file order; N rows."""

    path: str
    subjects: pa.LargeStringArray  # [N]
    predicates: pa.LargeStringArray  # [N], may be empty strings
    objects: pa.LargeStringArray  # [N]
    lines: np.ndarray  # int64[N], 1-based
    file: int = 0  # which of the files read this is, from 0


OnReject = Callable[[RejectedLine], None]
OpenBinary = Callable[[str], BinaryIO]


class Sink:
    """The counts of a run and where its rejects go, for one file."""

    def __init__(self, path: str, on_reject: OnReject, counts: ReadCounts, file: int = 0) -> None:
        self.path, self.counts, self.file, self._on_reject = path, counts, file, on_reject
        self.encoding = ""
        """Of the file, where it is not UTF-8; then bytes of the file are not known."""

    def leave_out(self, reason: str, count: int = 1) -> None:
        if count:
            self.counts.left_out[reason] = self.counts.left_out.get(reason, 0) + count

    def reject(self, line: int, byte: int, reason: str, detail: str, raw: bytes) -> None:
        """Reject the line (1-based) that starts at `byte`; `raw` is its beginning at least."""
        self.counts.rejected[reason] = self.counts.rejected.get(reason, 0) + 1
        if self.encoding:
            byte = -1
            if reason == "bad_encoding":
                detail = f"expected {self.encoding}, found bytes that are not"
        excerpt = raw[: 4 * EXCERPT_CHARS].decode("utf-8", "replace").rstrip("\r\n")[:EXCERPT_CHARS]
        self._on_reject(RejectedLine(self.path, byte, line, reason, detail, excerpt))


def open_local(path: str) -> BinaryIO:
    """A local file that is not compressed, for reading.

    Raises GraphError naming the path where there is no such file, or its name says that it is compressed.
    """
    if Path(path).is_dir():
        raise GraphError(f"{path} is a folder; name the files of triples in it")
    if path.lower().endswith(COMPRESSED):
        raise GraphError(
            f"{path} is compressed, and this reader opens plain files; "
            "give it `open_binary`, a function that opens a path and decompresses"
        )
    try:
        return Path(path).open("rb")
    except FileNotFoundError:
        raise GraphError(f"triples file {path} does not exist") from None
    except (OSError, ValueError) as error:
        raise GraphError(f"triples file {path} cannot be read: {error}") from None
