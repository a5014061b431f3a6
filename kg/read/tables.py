"""From columns of texts to a table of triples: what every format checks, and how it is counted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kg.read.records import Sink, TripleTable

Fault = tuple[np.ndarray, str, str]
"""bool[N], and the reason and detail of the rows that it names."""

CONTROL = frozenset(map(chr, (*range(9), *range(14, 32), 127, *range(128, 133), *range(134, 160))))
"""Category Cc without the white space in it: TAB, LF, VT, FF, CR and NEL may stand inside a field."""
CONTROL_DETAIL = "a field holds a control character"

_CONTROL = np.isin(np.arange(256), [ord(char) for char in CONTROL if ord(char) < 128])
_C1, _NEL = 0xC2, 0x85


def faults(subjects: pa.Array, objects: pa.Array, control: np.ndarray) -> tuple[np.ndarray, list[Fault]]:
    """Rows that are triples, bool[N], and why the others are malformed; no row has two reasons."""
    no_subject, no_object = is_empty(subjects), is_empty(objects)
    no_object &= ~no_subject
    control = control & ~(no_subject | no_object)
    return ~(no_subject | no_object | control), [
        (no_subject, "empty_subject", "the subject is empty"),
        (no_object, "empty_object", "the object is empty"),
        (control, "control_character", CONTROL_DETAIL),
    ]


def emit(
    sink: Sink, kept: np.ndarray, columns: tuple[pa.Array, pa.Array, pa.Array], lines: np.ndarray
) -> Iterator[TripleTable]:
    """The table of the rows `kept`, counted; `columns` are subjects, predicates, objects. Never an empty one."""
    count = int(kept.sum())
    if not count:
        return
    if count < len(kept):
        mask = pa.array(kept)
        columns = (columns[0].filter(mask), columns[1].filter(mask), columns[2].filter(mask))
        lines = lines[kept]
    sink.counts.triples += count
    sink.counts.empty_predicates += int(is_empty(columns[1]).sum())
    yield TripleTable(sink.path, *columns, lines=lines, file=sink.file)


def is_empty(strings: pa.Array) -> np.ndarray:
    """bool[N]"""
    return pc.equal(pc.binary_length(strings), 0).to_numpy(zero_copy_only=False)


def with_control(*columns: pa.LargeStringArray) -> np.ndarray:
    """bool[N]: rows with a control character in one of the columns, which hold no nulls."""
    found = np.zeros(len(columns[0]), np.bool_)
    for column in columns:
        _, offsets, data = column.buffers()
        if data is not None and len(column):
            ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
            at = control_characters(np.frombuffer(data, np.uint8)[: ends[-1]])
            found[np.searchsorted(ends, at[at >= ends[0]], side="right") - 1] = True
    return found


def control_characters(raw: np.ndarray) -> np.ndarray:
    """Where in UTF-8 bytes control characters start that are not white space, int64, in no order."""
    odd = raw < 32
    odd &= raw != 9
    odd &= raw != 10
    odd |= raw == 127
    single = np.flatnonzero(odd)
    wide = np.flatnonzero(raw[:-1] == _C1)
    after = raw[wide + 1]
    return np.concatenate((single[_CONTROL[raw[single]]], wide[(after < 0xA0) & (after != _NEL)]))
