"""RDF through pyoxigraph: IRIs become the labels that the files give them, literals their text.

Labels may stand in any file and behind their use, so all files are read twice: first for the labels of
the language asked for (`kg.read.labels`), held as columns, then for the triples, a batch at a time.
N-Triples and N-Quads are parsed a block of lines at a time, and a line that is malformed is rejected
alone; in Turtle, TriG and RDF/XML nobody can say where the next statement starts, so the first error stops.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kg.read.labels import OTHER, LabelTable, classifier, local_names
from kg.read.lines import WHITE_SPACE
from kg.read.options import ReadOptions
from kg.read.quads import IRI, Languages, Quads, read_quads
from kg.read.records import EXCERPT_CHARS, Sink, TripleTable
from kg.read.tables import emit, faults, with_control

_NULL = pa.scalar(None, pa.large_string())
_BATCH_ROWS = 1 << 17
_BATCH_BYTES = 1 << 26


def read_rdf(stream: BinaryIO, options: ReadOptions, sink: Sink, labels: LabelTable) -> Iterator[TripleTable]:
    """Tables of the file's triples, a batch at a time, with the labels of all files."""
    # Looking labels up starts with a hash table of them all, so batches grow with their number.
    rows = max(_BATCH_ROWS, len(labels.iris) // 4)
    batch: list[Quads] = []
    languages = Languages(classifier(options.languages))
    for quads in read_quads(stream, sink, languages):
        batch.append(quads)
        size = sum(q.subjects.nbytes + q.objects.nbytes for q in batch)
        if size > _BATCH_BYTES or sum(len(q.kinds) for q in batch) >= rows:
            yield from _triples(_join(batch), options, sink, labels)
            batch = []
    if batch:
        yield from _triples(_join(batch), options, sink, labels)
    sink.counts.languages.update(tag for tag in languages if tag)


def _join(batch: list[Quads]) -> Quads:
    return Quads(
        *(
            pa.concat_arrays([getattr(q, name) for q in batch])
            for name in ("subjects", "predicates", "objects")
        ),
        *(np.concatenate([getattr(q, name) for q in batch]) for name in ("kinds", "lines", "bytes")),
    )


def _triples(quads: Quads, options: ReadOptions, sink: Sink, labels: LabelTable) -> Iterator[TripleTable]:
    """Every statement once: of another language, without a label, malformed, a label, or a triple."""
    literal = quads.kinds >= 0
    other = quads.kinds == OTHER
    properties = pa.array(options.labels, pa.large_string())
    label = literal & pc.is_in(quads.predicates, value_set=properties).to_numpy(zero_copy_only=False)

    def text_of(iris: pa.Array) -> pa.Array:
        known = labels.of(iris)
        return pc.coalesce(known, local_names(iris)) if options.unlabelled == "local_name" else known

    subjects = pc.if_else(pa.array(label), "-", text_of(quads.subjects))  # whose label it is does not matter
    nodes = pc.if_else(pa.array(quads.kinds == IRI), quads.objects, _NULL)
    objects = pc.if_else(
        pa.array(literal), pc.utf8_trim(quads.objects, characters=WHITE_SPACE), text_of(nodes)
    )
    coded = quads.predicates.dictionary_encode()
    names = pc.coalesce(labels.of(coded.dictionary), local_names(coded.dictionary), "")
    predicates = names.take(coded.indices)

    nameless = ~other & (pc.is_null(subjects).to_numpy(False) | pc.is_null(objects).to_numpy(False))
    sink.leave_out("other_language", int(other.sum()))
    sink.leave_out("no_label", int(nameless.sum()))
    rows = np.flatnonzero(~(other | nameless))
    chosen = pa.array(rows)
    columns = (subjects.take(chosen), predicates.take(chosen), objects.take(chosen))
    kept, wrong = faults(columns[0], columns[2], with_control(*columns))
    for i, reason, detail in sorted((i, r, d) for mask, r, d in wrong for i in np.flatnonzero(mask).tolist()):
        terms = (quads.subjects, quads.predicates, quads.objects)
        excerpt = " ".join(str(term[int(rows[i])])[:EXCERPT_CHARS] for term in terms)
        line, byte = int(quads.lines[rows[i]]), int(quads.bytes[rows[i]])
        sink.reject(line, byte, reason, detail, excerpt.encode())
    label = label[rows] & kept
    sink.leave_out("label", int(label.sum()))
    yield from emit(sink, kept & ~label, columns, quads.lines[rows])
