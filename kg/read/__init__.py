"""Reading triples from files, so that every line of a file ends in exactly one count."""

from kg.read.options import ReadOptions
from kg.read.reader import read_tables, read_triples
from kg.read.records import OnReject, OpenBinary, ReadCounts, RejectedLine, TripleTable, open_local

__all__ = [
    "OnReject",
    "OpenBinary",
    "ReadCounts",
    "ReadOptions",
    "RejectedLine",
    "TripleTable",
    "open_local",
    "read_tables",
    "read_triples",
]
