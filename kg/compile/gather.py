"""All triples of some files as numbered strings, without those that are left out for their length.

N rows in the order of files and lines. A row costs 18 bytes (three string numbers, file, line), each
different string its bytes; what is too long is left out block by block and never held.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kg.errors import GraphError
from kg.read import OnReject, OpenBinary, ReadCounts, ReadOptions, TripleTable, read_tables
from kg.strings import MAX_NUMBER, Encoder, lengths

MAX_FILES = 2**16
MAX_LINE = 2**32 - 1


@dataclass(frozen=True)
class Limits:
    """In characters as they are written, before folding."""

    min_subject: int
    max_subject: int
    max_object: int


@dataclass
class Rows:
    """Strings in order of first appearance, and for each row its string numbers, file and line."""

    subjects: pa.LargeStringArray
    predicates: pa.LargeStringArray
    objects: pa.LargeStringArray
    subject: np.ndarray  # int32[N]
    predicate: np.ndarray  # int32[N]
    object: np.ndarray  # int32[N]
    file: np.ndarray  # uint16[N]
    line: np.ndarray  # uint32[N], from 1


def gather(
    paths: Sequence[str],
    on_reject: OnReject,
    *,
    options: ReadOptions,
    limits: Limits,
    counts: ReadCounts,
    open_binary: OpenBinary,
) -> Rows:
    """Reads all files; what becomes of their lines is counted in `counts`.

    Raises GraphError where a file cannot be read, or there is more than the format can number.
    """
    if len(paths) > MAX_FILES:
        raise GraphError(
            f"{len(paths):,} triples files, at most {MAX_FILES:,} fit in a graph; join some of them"
        )
    encoders = (Encoder("subjects"), Encoder("predicates"), Encoder("objects"))
    files, lines = [np.empty(0, np.uint16)], [np.empty(0, np.uint32)]
    total = 0
    for table in read_tables(paths, on_reject, options=options, counts=counts, open_binary=open_binary):
        columns, line = _clean(table, limits, counts.left_out)
        total += len(line)
        if total > MAX_NUMBER:
            raise GraphError(f"more than {MAX_NUMBER:,} triples in all; compile them into several graphs")
        if len(line) and int(line.max()) > MAX_LINE:
            raise GraphError(f"{table.path} has more than {MAX_LINE:,} lines; split the file")
        for encoder, column in zip(encoders, columns, strict=True):
            encoder.add(column)
        files.append(np.full(len(line), table.file, np.uint16))
        lines.append(line.astype(np.uint32))
    (subjects, subject), (predicates, predicate), (objects, object_) = (e.finish() for e in encoders)
    return Rows(
        subjects, predicates, objects, subject, predicate, object_, np.concatenate(files), np.concatenate(lines)
    )  # fmt: skip


def _clean(
    table: TripleTable, limits: Limits, left_out: dict[str, int]
) -> tuple[tuple[pa.LargeStringArray, ...], np.ndarray]:
    """Columns and lines of the rows within `limits`; the first limit that a row exceeds is its reason."""
    columns, line = (table.subjects, table.predicates, table.objects), table.lines
    subject = lengths(table.subjects)
    reasons = {
        "subject_too_short": subject < limits.min_subject,
        "subject_too_long": subject > limits.max_subject,
        "object_too_long": lengths(table.objects) > limits.max_object,
    }
    kept = np.ones(len(line), np.bool_)
    for reason, hit in reasons.items():
        if count := int((hit & kept).sum()):
            left_out[reason] = left_out.get(reason, 0) + count
            kept &= ~hit
    if kept.all():
        return columns, line
    mask = pa.array(kept)
    return tuple(column.filter(mask) for column in columns), line[kept]
