"""Turtle and TriG without their traps: a stream of bytes that ends in an error before the parser does harm.

The parser needs stack for each level of terms within terms, `<<( s p <<( ... )>> )>>`, and ends the process
at some ten thousand. And whatever uses a prefix or a base takes memory for all of its IRI: a megabyte of
prefix and a megabyte of names with it would be hundreds of gigabytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import BinaryIO

from kg.errors import GraphError
from kg.read.lines import BOM, read_fully

MAX_TERMS = 4096
"""Quoted triple terms that may open before a statement ends."""
MAX_NAMESPACE = 4096
"""Bytes of the IRI of a prefix or base."""
TERM = b"<<("

_HELD = 1 << 18
_SERVED = 1 << 14
_SPACE = rb"(?:\s|#[^\n]{0,1000}\n)"
_LONG_NAMESPACE = re.compile(
    rb"(?:@|(?m:^)\s*|[.>}]\s*)(?i:base%s*|prefix%s+[^\s<>\"#:]{0,200}:%s*)<[^>]{%d}"
    % (_SPACE, _SPACE, _SPACE, MAX_NAMESPACE + 1)
)
_OVERLAP = 2 * MAX_NAMESPACE


class PlainText:
    """The file without a byte order mark, for pyoxigraph to read.

    `emitted` tells how many statements the parser has given so far: none comes out of an open term, so the
    terms that opened since the last one bound how deep they nest. Reading raises GraphError naming the file
    where they are more than MAX_TERMS, where a prefix or base is longer than MAX_NAMESPACE, and where the
    stream cannot be read.
    """

    place = "at its end"

    def __init__(self, stream: BinaryIO, path: str, emitted: Callable[[], int]) -> None:
        self._stream, self._path, self._emitted = stream, path, emitted
        self._held, self._at = read_fully(stream, path, _HELD).removeprefix(BOM), 0
        self._check_namespaces(b"")
        self._tail = b""
        self._statements = self._open = self._last = 0

    def read(self, size: int = -1) -> bytes:
        if self._at == len(self._held):
            before = self._held[-_OVERLAP:]
            self._held, self._at = read_fully(self._stream, self._path, _HELD), 0
            self._check_namespaces(before)
        size = min(size, _SERVED) if size > 0 else _SERVED
        part = self._held[self._at : self._at + size]
        self._at += len(part)
        self._check_terms(part)
        return part

    def _check_namespaces(self, before: bytes) -> None:
        text = before + self._held
        lower = text.lower()  # most of a file has neither word, and the pattern is slow
        if (b"base" in lower or b"prefix" in lower) and _LONG_NAMESPACE.search(text):
            raise GraphError(
                f"{self._path}: a prefix or base of more than {MAX_NAMESPACE:,} bytes; this is no IRI that "
                "anybody uses. Mend the file, or convert it to N-Triples"
            )

    def _check_terms(self, part: bytes) -> None:
        statements = self._emitted()
        if statements != self._statements:  # the last one ended in the part before this one
            self._statements, self._open = statements, self._last
        part = self._tail + part
        self._last = part.count(TERM)
        self._open += self._last
        self._tail = part[-len(TERM) + 1 :]
        if self._open > MAX_TERMS:
            raise GraphError(
                f"{self._path}, behind statement {statements:,}: more than {MAX_TERMS:,} triple terms "
                f"({TERM.decode()} ... )>>) open in one statement. Mend the file"
            )
