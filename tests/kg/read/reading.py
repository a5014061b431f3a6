"""Reading bytes under a name, and the rules of `kg.read` as slow loops over lines."""

from __future__ import annotations

import io
import unicodedata
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kg.read import ReadCounts, ReadOptions, RejectedLine, lines, read_tables, read_triples

Row = tuple[str, str, str, int]
WHITE = (
    "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
)


def read_files(
    files: dict[str, bytes], **options: Any
) -> tuple[list[tuple[str, str, str, str, int]], ReadCounts, list[RejectedLine]]:
    """Triples, counts and rejects of files given as bytes; the counts add up."""
    counts = ReadCounts()
    rejects: list[RejectedLine] = []
    rows = list(
        read_triples(
            list(files),
            rejects.append,
            options=ReadOptions(**options),
            counts=counts,
            open_binary=lambda path: io.BytesIO(files[path]),
        )
    )
    assert counts.read == counts.triples + sum(counts.left_out.values()) + sum(counts.rejected.values())
    assert counts.triples == len(rows)
    assert counts.empty_predicates == sum(not row[1] for row in rows)
    assert Counter(counts.rejected) == Counter(reject.reason for reject in rejects)
    assert all(0 not in part.values() for part in (counts.left_out, counts.rejected))
    return rows, counts, rejects


def read(
    content: bytes, name: str = "a.spo", **options: Any
) -> tuple[list[Row], ReadCounts, list[RejectedLine]]:
    """The same of one file."""
    rows, counts, rejects = read_files({name: content}, **options)
    return [(s, p, o, line) for s, p, o, _, line in rows], counts, rejects


def tables_of(content: bytes, name: str, **options: Any) -> list[Any]:
    return list(
        read_tables(
            [name], lambda _: None, options=ReadOptions(**options), open_binary=lambda _: io.BytesIO(content)
        )
    )


@contextmanager
def blocks_of(size: int, limit: int = 1 << 20) -> Iterator[None]:
    """Files are read in blocks of `size` bytes, and a line may have `limit`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES", size)
        patch.setattr(lines, "MAX_LINE_BYTES", limit)
        yield


class Slow:
    """What became of each line, by a loop."""

    def __init__(self) -> None:
        self.triples: list[Row] = []
        self.left_out: Counter[str] = Counter()
        self.rejected: list[tuple[int, str]] = []

    def check(self, found: tuple[list[Row], ReadCounts, list[RejectedLine]]) -> None:
        rows, counts, rejects = found
        assert rows == self.triples
        assert counts.left_out == dict(self.left_out)
        assert sorted((r.line, r.reason) for r in rejects) == sorted(self.rejected)

    def triple(self, line: int, subject: str, predicate: str, object_: str) -> None:
        """The checks that all fields have in common."""
        if not subject:
            self.rejected.append((line, "empty_subject"))
        elif not object_:
            self.rejected.append((line, "empty_object"))
        elif has_control(subject + predicate + object_):
            self.rejected.append((line, "control_character"))
        else:
            self.triples.append((subject, predicate, object_, line))

    def lines(self, content: bytes, limit: int = 1 << 20) -> Iterator[tuple[int, str]]:
        """Number and text of the lines that are neither malformed as such, nor blank, nor comments."""
        content = content.removeprefix(b"\xef\xbb\xbf")
        raw = content.split(b"\n")
        if not raw[-1]:
            raw.pop()
        for number, line in enumerate(raw, 1):
            if len(line) + 1 > limit:
                self.rejected.append((number, "line_too_long"))
                continue
            try:
                text = line.decode()
            except UnicodeDecodeError:
                self.rejected.append((number, "bad_encoding"))
                continue
            if not text.strip(WHITE):
                self.left_out["blank"] += 1
            elif text.strip(WHITE).startswith("#"):
                self.left_out["comment"] += 1
            else:
                yield number, text


def has_control(text: str) -> bool:
    return any(unicodedata.category(char) == "Cc" and char not in WHITE for char in text)
