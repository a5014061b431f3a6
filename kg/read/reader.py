"""Files in, triples out: picks the reader of each file's format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kg.read.conceptnet import read_conceptnet
from kg.read.labels import LabelTable, collect
from kg.read.options import ReadOptions, format_of
from kg.read.quoted import read_csv
from kg.read.rdf import read_rdf
from kg.read.recode import UTF8, recoded
from kg.read.records import OnReject, OpenBinary, ReadCounts, Sink, TripleTable, open_local
from kg.read.tsv import read_tsv

_DEFAULT = ReadOptions()
_READERS = {"tsv": read_tsv, "csv": read_csv, "conceptnet": read_conceptnet}


def read_tables(
    paths: Sequence[str],
    on_reject: OnReject,
    *,
    options: ReadOptions = _DEFAULT,
    counts: ReadCounts | None = None,
    open_binary: OpenBinary = open_local,
) -> Iterator[TripleTable]:
    """The triples of the files as columns, in the order of paths and lines; memory is bounded by a block.

    `open_binary` opens a path for reading bytes, for files that are remote or compressed. Raises
    GraphError where a path cannot be read, or is not what the options say.
    """
    counts = ReadCounts() if counts is None else counts
    names = [str(path) for path in paths]
    formats = [format_of(path, options) for path in names]
    labels: LabelTable | None = None
    for file, (path, format) in enumerate(zip(names, formats, strict=True)):
        sink = Sink(path, on_reject, counts, file)
        if format == "rdf" and labels is None:
            graphs = [name for name, kind in zip(names, formats, strict=True) if kind == "rdf"]
            labels = collect(graphs, options, open_binary, counts)
        with open_binary(path) as stream:
            if labels is not None and format == "rdf":
                yield from read_rdf(stream, options, sink, labels)
            else:
                coded = stream
                if options.encoding != UTF8 and format in ("tsv", "csv"):
                    coded, sink.encoding = recoded(stream, options.encoding, path), options.encoding
                yield from _READERS[format](coded, options, sink)


def read_triples(
    paths: Sequence[str],
    on_reject: OnReject,
    *,
    options: ReadOptions = _DEFAULT,
    counts: ReadCounts | None = None,
    open_binary: OpenBinary = open_local,
) -> Iterator[tuple[str, str, str, str, int]]:
    """(subject, predicate, object, path, line) of every triple: `read_tables`, row by row."""
    for table in read_tables(paths, on_reject, options=options, counts=counts, open_binary=open_binary):
        columns = (table.subjects.to_pylist(), table.predicates.to_pylist(), table.objects.to_pylist())
        for s, p, o, line in zip(*columns, table.lines.tolist(), strict=True):
            yield s, p, o, table.path, line
