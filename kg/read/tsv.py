"""Triples between TABs: `.spo` (exactly subject, predicate, object), `.tsv` and `.txt`, chosen columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from kg.errors import GraphError
from kg.read.fields import split
from kg.read.header import delimiter_hint, is_header, suggestion
from kg.read.lines import WHITE_SPACE, Block, sifted_blocks
from kg.read.options import ReadOptions, ending
from kg.read.records import Sink, TripleTable
from kg.read.tables import emit, faults


@dataclass(frozen=True)
class Layout:
    """How many fields a line has and which (0-based) have the roles; `predicate` may be None."""

    fields: int
    subject: int
    predicate: int | None
    object: int


def read_tsv(stream: BinaryIO, options: ReadOptions, sink: Sink) -> Iterator[TripleTable]:
    """Tables of the file's triples, a block at a time."""
    layout, begun = None, False
    if options.columns is None and ending(sink.path) == ".spo":
        layout = Layout(3, 0, 1, 2)
    for block in sifted_blocks(stream, sink):
        if not begun and block.kept.any():
            begun = True
            layout = _first_line(block, options, sink, layout)
        if layout is not None:
            yield from _triples(block, layout, sink)


def _first_line(block: Block, options: ReadOptions, sink: Sink, layout: Layout | None) -> Layout:
    """The layout by the first line that is kept, if there is none yet. A header is left out."""
    kept = np.flatnonzero(block.kept)
    fields = [field.strip(WHITE_SPACE) for field in block.bytes_of(int(kept[0])).decode().split("\t")]
    if not has_header(options):
        remark_header(fields, sink, block.line + int(kept[0]))
    if layout is not None:
        return layout
    if options.columns is None:
        return Layout(2, 0, None, 1) if len(fields) == 2 else Layout(3, 0, 1, 2)
    layout = find_columns(options, fields, sink.path)
    if has_header(options):
        block.kept[kept[0]] = False
        sink.leave_out("header")
    return layout


def remark_header(fields: list[str], sink: Sink, line: int) -> None:
    """Remark a first line that looks like a header and is read as a triple."""
    if is_header(fields):
        sink.counts.remarks.append(
            f"{sink.path}, line {line}: {', '.join(fields)} look like a header, and were read as a triple; if it is "
            f"one, give {suggestion(fields)}"
        )


def has_header(options: ReadOptions) -> bool:
    """Whether columns are named, so that the first line holds the names."""
    return any(isinstance(column, str) for column in (options.columns or {}).values())


def find_columns(options: ReadOptions, first: list[str], path: str) -> Layout:
    """Where `options.columns` are by the first line's fields; GraphError where one is not there."""
    places: dict[str, int] = {}
    for role, column in (options.columns or {}).items():
        if isinstance(column, int):
            if column > len(first):
                raise GraphError(
                    f"columns.{role}: column {column} was asked for, and the first line of {path} has "
                    f"{len(first)}"
                )
            places[role] = column - 1
        elif first.count(column) == 1:
            places[role] = first.index(column)
        else:
            names = ", ".join(repr(name[:80]) for name in first[:40])
            found = "more than one column" if column in first else "no column"
            remedy = delimiter_hint(first[0]) if len(first) == 1 else ""
            remedy = remedy or (f"give {suggestion(first)}" if len(first) > 1 else "")
            numbers = "; where it is no header, numbers: `columns: {subject: 1, predicate: 2, object: 3}`"
            raise GraphError(
                f"columns.{role}: {found} is called {column!r} in {path}; the first line has {names}"
                + (f": {remedy}{numbers if len(first) > 2 else ''}" if remedy else "")
            )
    if len(set(places.values())) < len(places):
        raise GraphError(f"columns: two roles share a column of {path}: {dict(options.columns or {})}")
    return Layout(len(first), places["subject"], places.get("predicate"), places["object"])


def _triples(block: Block, layout: Layout, sink: Sink) -> Iterator[TripleTable]:
    picks = [layout.subject, layout.object]
    if layout.predicate is not None:
        picks.append(layout.predicate)
    fields = split(block, layout.fields, picks)
    subjects, objects, *named = fields.columns
    predicates = named[0] if named else pa.array([""] * len(subjects), pa.large_string())
    kept, wrong = faults(subjects, objects, fields.control)
    block.reject_all(fields.index, wrong)
    yield from emit(sink, kept, (subjects, predicates, objects), block.line + fields.index)
