"""ConceptNet's assertions: uri, relation, start, end and JSON between TABs, 34 million lines of all languages.

`/c/en/apple_pie/n/wn` is the concept `apple pie` of English (part of speech and sense are dropped), and
`/r/IsA` the relation `IsA` (the last part, where there are more). A line is a triple where both ends are
concepts of the language asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kg.read.fields import split
from kg.read.lines import WHITE_SPACE, Block, sifted_blocks
from kg.read.options import ReadOptions
from kg.read.records import Sink, TripleTable
from kg.read.tables import emit, faults

_FIELDS, _RELATION, _START, _END = 5, 1, 2, 3


def read_conceptnet(stream: BinaryIO, options: ReadOptions, sink: Sink) -> Iterator[TripleTable]:
    """Tables of the file's triples, a block at a time. Raises GraphError where no language is given."""
    language = options.concept_language(sink.path).lower()
    for block in sifted_blocks(stream, sink):
        yield from _triples(block, f"/c/{language}/", sink)


def _triples(block: Block, prefix: str, sink: Sink) -> Iterator[TripleTable]:
    fields = split(block, _FIELDS, (_START, _RELATION, _END))
    starts, relations, ends = fields.columns
    relations = pc.utf8_rtrim(relations, characters="/")
    kept, wrong = faults(starts, ends, fields.control)
    relation = _starts_with(relations, "/r/")
    wrong.append((kept & ~relation, "bad_syntax", "expected a relation such as /r/IsA in the second field"))
    kept &= relation

    ours = _starts_with(starts, prefix) & _starts_with(ends, prefix)
    concepts = ours.copy()
    others = np.flatnonzero(kept & ~ours)
    concepts[others] = _is_concept(starts, others) & _is_concept(ends, others)
    sink.leave_out("not_a_concept", int((kept & ~concepts).sum()))
    sink.leave_out("other_language", int((kept & concepts & ~ours).sum()))
    kept &= ours

    index = fields.index
    chosen = pa.array(kept)
    columns = [column.filter(chosen) for column in (starts, relations, ends)]
    subjects, objects = (_term(columns[k], len(prefix)) for k in (0, 2))
    whole, empty = faults(subjects, objects, np.zeros(len(subjects), np.bool_))
    block.reject_all(index, wrong)
    block.reject_all(index[kept], empty)
    predicates = pc.replace_substring_regex(columns[1], r"(?s)^.*/", "")
    yield from emit(sink, whole, (subjects, predicates, objects), block.line + index[kept])


def _starts_with(strings: pa.Array, prefix: str) -> np.ndarray:
    return pc.starts_with(strings, prefix).to_numpy(zero_copy_only=False)


def _is_concept(uris: pa.Array, rows: np.ndarray) -> np.ndarray:
    """Whether the URIs at `rows` name a concept of some language."""
    found = pc.match_substring_regex(uris.take(pa.array(rows)), r"^/c/[^/]+/")
    return found.to_numpy(zero_copy_only=False)


def _term(uris: pa.Array, start: int) -> pa.Array:
    """The words of concepts, whose language ends at character `start`."""
    terms = pc.utf8_slice_codeunits(uris, start, None)
    terms = pc.replace_substring_regex(terms, r"(?s)/.*$", "")
    return pc.utf8_trim(pc.replace_substring(terms, "_", " "), characters=WHITE_SPACE)
