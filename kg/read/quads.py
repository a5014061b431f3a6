"""Statements of RDF files as columns, parsed by pyoxigraph."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from kg.errors import GraphError
from kg.read.lines import Block, sifted_blocks
from kg.read.options import ending
from kg.read.rdftext import TERM, PlainText
from kg.read.rdfxml import PlainXml
from kg.read.records import Sink

LINES = {".nt": "N_TRIPLES", ".nq": "N_QUADS"}
DOCUMENTS = {".ttl": "TURTLE", ".trig": "TRIG", ".rdf": "RDF_XML", ".owl": "RDF_XML"}
IRI, BLANK = -1, -2
MAX_IRI = 1 << 14
"""Characters of an IRI."""
MAX_LINE_TERMS = 64
"""Triple terms in a line of N-Triples: the parser ends the process where thousands nest."""
_GROUP = 4096
_ROWS = 1 << 16
_CHARS = 1 << 23
_LF, _CR = 10, 13

_WHERE = re.compile(r"^Parser error (?:at|between) line 1 (?:between )?|\s*\(line 1\)$")


@dataclass(frozen=True)
class Quads:
    """Statements in file order, N rows; which graph they are in is dropped."""

    subjects: pa.LargeStringArray  # [N] IRIs, null for blank nodes
    predicates: pa.LargeStringArray  # [N] IRIs
    objects: pa.LargeStringArray  # [N] IRIs or lexical forms, null for blank nodes and triples as objects
    kinds: np.ndarray  # int8[N]: IRI, BLANK, or what `classify` said of the literal's language
    lines: np.ndarray  # int64[N], 1-based; in Turtle, TriG and RDF/XML the number of the statement
    bytes: np.ndarray  # int64[N], first byte of the line, -1 where it is not known


class Languages(dict[str | None, int]):
    """Language tag to class, worked out once a tag."""

    def __init__(self, classify: Callable[[str | None], int]) -> None:
        super().__init__()
        self._classify = classify

    def __missing__(self, tag: str | None) -> int:
        found = self[tag] = self._classify(tag)
        return found


def oxigraph() -> Any:
    """pyoxigraph. Raises GraphError with the line that installs it."""
    try:
        import pyoxigraph
    except ImportError:
        raise GraphError("reading RDF needs pyoxigraph: pip install pyoxigraph") from None
    return pyoxigraph


def read_quads(
    stream: BinaryIO, sink: Sink, languages: Languages, wanted: re.Pattern[bytes] | None = None
) -> Iterator[Quads]:
    """The statements of a file, some thousands at a time; lines and statements are counted as read.

    With `wanted`, lines of N-Triples and N-Quads in which it finds nothing may be passed over.
    Raises GraphError naming file and line where Turtle, TriG or RDF/XML is malformed.
    """
    kind = ending(sink.path)
    if kind in LINES:
        for block in sifted_blocks(stream, sink):
            if wanted is not None:
                _narrow(block, wanted)
            yield from _parse_block(block, LINES[kind], languages)
    elif kind in DOCUMENTS:
        yield from _parse_document(stream, DOCUMENTS[kind], sink, languages)
    else:
        raise GraphError(
            f"{sink.path}: which RDF syntax this is, the name has to tell; expected one that ends in "
            f"{' '.join((*LINES, *DOCUMENTS))} (and .gz, .bz2 or .zst after it)"
        )


class _LongIriError(ValueError):
    """The statement behind those that were added has an IRI that is longer than MAX_IRI."""


class _Builder:
    """Columns of statements as they grow."""

    def __init__(self, languages: Languages) -> None:
        self._languages = languages
        self._subjects: list[str | None] = []
        self._predicates: list[str] = []
        self._objects: list[str | None] = []
        self._kinds: list[int] = []
        self._chars = 0

    def __len__(self) -> int:
        return len(self._kinds)

    @property
    def full(self) -> bool:
        return self._chars > _CHARS or len(self._kinds) >= _ROWS

    def extend(self, quads: Iterable[Any], chars: float = math.inf) -> None:
        """Add statements, until more than `chars` characters are held; what came before an error stays.

        Raises _LongIriError, and SyntaxError and MemoryError as the parser does.
        """
        ox = oxigraph()
        node, literal, languages = ox.NamedNode, ox.Literal, self._languages
        text: str | None
        for quad in quads:
            subject, predicate, object_ = quad.subject, quad.predicate.value, quad.object
            named = subject.value if type(subject) is node else None
            if type(object_) is node:
                text, kind = object_.value, IRI
            elif type(object_) is literal:
                text, kind = object_.value, languages[object_.language]
            else:
                text, kind = None, BLANK
            size = len(named or "") + len(predicate) + len(text or "")
            if size > MAX_IRI:
                _check_iris(named or "", predicate, (text or "") if kind == IRI else "")
            self._subjects.append(named)
            self._predicates.append(predicate)
            self._objects.append(text)
            self._kinds.append(kind)
            self._chars += size
            if self._chars > chars:
                return

    def truncate(self, size: int) -> None:
        for column in (self._subjects, self._predicates, self._objects, self._kinds):
            del column[size:]

    def take(self, numbers: np.ndarray, starts: np.ndarray) -> Quads:
        strings = (pa.array(c, pa.large_string()) for c in (self._subjects, self._predicates, self._objects))
        subjects, predicates, objects = strings
        quads = Quads(subjects, predicates, objects, np.array(self._kinds, np.int8), numbers, starts)
        self.truncate(0)
        self._chars = 0
        return quads


def _check_iris(*iris: str) -> None:
    longest = max(map(len, iris))
    if longest > MAX_IRI:
        raise _LongIriError(f"an IRI of {longest:,} characters, at most {MAX_IRI:,}")


def _narrow(block: Block, wanted: re.Pattern[bytes]) -> None:
    at = np.array([found.start() for found in wanted.finditer(block.data)], np.int64)
    some = np.zeros(len(block.kept), np.bool_)
    some[np.searchsorted(block.stops, at, side="right")] = True
    block.kept &= some


def _parse_block(block: Block, kind: str, languages: Languages) -> Iterator[Quads]:
    """The statements of the kept lines, one a line; the others are rejected.

    A whole block is parsed at once. Where the parser stops, the line it stopped at is parsed alone, and
    the block from the next line on: what the parser makes of the lines behind an error is not relied on.
    """
    format = getattr(oxigraph().RdfFormat, kind)
    _reject_carriage_returns(block)
    _reject_nested_terms(block)
    index = np.flatnonzero(block.kept)
    data = block.data
    if len(index) < len(block.kept):
        data = block.raw[np.repeat(block.kept, block.stops - block.starts)].tobytes()
    starts = np.concatenate(([0], np.cumsum((block.stops - block.starts)[index])))
    builder = _Builder(languages)
    at = 0
    while at < len(index):
        before = len(builder)
        rest = io.BytesIO(data)
        rest.seek(int(starts[at]))
        stop = len(index)
        try:
            builder.extend(oxigraph().parse(rest, format=format))
        except _LongIriError:
            stop = at + len(builder) - before
        except (SyntaxError, MemoryError) as error:
            line = getattr(error, "lineno", None) or 1
            stop = at + min(len(builder) - before, line - 1)
        builder.truncate(before + stop - at)
        if stop < len(index):
            alone = data[starts[stop] : starts[stop + 1]]
            wrong = _parse_line(alone, format, builder)
            if wrong:
                block.reject(int(index[stop]), "bad_syntax", wrong)
        at = stop + 1
    good = np.flatnonzero(block.kept)
    if len(good):
        yield builder.take(block.line + good, block.byte + block.starts[good])


def _parse_line(line: bytes, format: Any, builder: _Builder) -> str:
    """Add the one statement of a line; what is wrong with it, where it has none."""
    before = len(builder)
    try:
        builder.extend(oxigraph().parse(line, format=format))
    except (SyntaxError, MemoryError, _LongIriError) as error:
        builder.truncate(before)
        return _WHERE.sub("", str(getattr(error, "msg", None) or error))
    return ""


def _reject_carriage_returns(block: Block) -> None:
    """A CR ends a statement, too, where only LF ends a line: one line could hold two statements."""
    inside = np.flatnonzero((block.raw[:-1] == _CR) & (block.raw[1:] != _LF))
    for i in np.unique(np.searchsorted(block.stops, inside, side="right")).tolist():
        if block.kept[i] and b"\r" in block.bytes_of(i).rstrip():
            block.reject(i, "bad_syntax", "a carriage return inside the line")


def _reject_nested_terms(block: Block) -> None:
    if block.data.count(TERM) <= MAX_LINE_TERMS:
        return
    at = np.array([found.start() for found in re.finditer(re.escape(TERM), block.data)], np.int64)
    counts = np.bincount(np.searchsorted(block.stops, at, side="right"), minlength=len(block.stops))
    for i in np.flatnonzero(block.kept & (counts > MAX_LINE_TERMS)).tolist():
        block.reject(i, "bad_syntax", f"{counts[i]} triple terms in the line, at most {MAX_LINE_TERMS}")


def _parse_document(stream: BinaryIO, kind: str, sink: Sink, languages: Languages) -> Iterator[Quads]:
    ox = oxigraph()
    builder = _Builder(languages)
    number = 1
    source: Any
    if kind == "RDF_XML":
        source = PlainXml(stream, sink.path)
    else:
        source = PlainText(stream, sink.path, lambda: number - 1 + len(builder))
    # IRIs serve as keys only, so those that are not quite IRIs do no harm and are let through.
    quads = ox.parse(source, format=getattr(ox.RdfFormat, kind), lenient=True)
    while True:
        before = len(builder)
        try:
            builder.extend(islice(quads, _GROUP), _CHARS)
        except (SyntaxError, MemoryError, _LongIriError) as error:
            line = getattr(error, "lineno", None)
            where = f"line {line}" if line else source.place
            if isinstance(error, _LongIriError):
                where = f"statement {number + len(builder)}"
            what = str(getattr(error, "msg", None) or error)
            raise GraphError(
                f"{sink.path}, {where}: {what}. Mend the file, or convert it to N-Triples, where a "
                "malformed line is passed over and counted"
            ) from None
        ended = len(builder) == before
        if builder.full or (ended and len(builder)):
            count = len(builder)
            sink.counts.read += count
            yield builder.take(np.arange(number, number + count), np.full(count, -1))
            number += count
        if ended:
            return
