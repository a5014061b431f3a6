"""Files in, triples out: picks the reader of each file's format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kg.errors import GraphError
from kg.read.options import ReadOptions, format_of
from kg.read.records import OnReject, OpenBinary, ReadCounts, Sink, TripleTable, open_local
from kg.read.tsv import read_tsv

_DEFAULT = ReadOptions()


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
    for path, format in zip(names, formats, strict=True):
        sink = Sink(path, on_reject, counts)
        if format != "tsv":
            raise GraphError(f"{path}: format {format} cannot be read")
        with open_binary(path) as stream:
            yield from read_tsv(stream, options, sink)


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
