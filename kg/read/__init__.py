"""Reading triples from files: tab-separated, CSV, RDF, ConceptNet.

    for table in read_tables(paths, on_reject, options=ReadOptions(), counts=counts): ...

What is read ends in exactly one count: `read == triples + sum(left_out) + sum(rejected)`. Left out is
what is well formed and no triple by the rules, rejected what is malformed; each rejected one goes to
`on_reject` with file, line, reason and excerpt. What is read are lines (tsv, ConceptNet, N-Triples,
N-Quads), records (CSV), or statements (Turtle, TriG, RDF/XML).

Lines
    Only LF ends a line; a CR before it belongs to the line's end. A byte order mark at the start of a
    file is not part of the first line. Rejected: `line_too_long` (over 16 MiB), `bad_encoding` (not
    UTF-8). Left out: `blank` (white space only), `comment` (the first character that is no white space
    is `#`). Checks are made in this order, and in the order below; the first that a line fails counts.

Fields
    are trimmed of Unicode white space; white space inside stays, whatever it is. Rejected:
    `wrong_field_count`, `empty_subject`, `empty_object`, and `control_character` where a field that is
    used holds one that is no white space (NUL, ESC, ...). An empty predicate is accepted and counted.

tsv     `.spo` has exactly the fields subject, predicate, object. `.tsv` and `.txt` have these or subject
        and object, as the first line that is neither blank nor comment has two fields or not. With
        `columns` that line tells how many fields each line must have; where a column is named it is
        the `header` (left out). Columns that have no role are ignored.
csv     Records by RFC 4180, strictly, with a header that names subject, predicate and object, or as
        `columns` says. No comments; a record of empty fields is blank. A record with a misplaced or
        open quote is rejected line by line (`bad_syntax`; `line_too_long` over 16 MiB or 16,384 lines),
        and reading goes on behind it. The line of a triple is the first of its record.
rdf     by pyoxigraph, `.nt .nq .ttl .trig .rdf .owl`; graph names are dropped. N-Triples and N-Quads: a
        malformed line is rejected (`bad_syntax`). Turtle, TriG, RDF/XML: the first error is a GraphError
        with file and line, and since their parser tells no positions, the line of a triple is its number
        in the file. Then for each statement: a literal of another language is left out
        (`other_language`); subject and object become their labels, from whichever file, and where a node
        has none, is blank or is a triple itself, the statement is left out (`no_label`; with
        `unlabelled="local_name"` IRIs have what follows their last `/` or `#`, percent-decoded, `_` as
        space). A predicate without a label always has its local name. Literals are their lexical form,
        whatever their type. Malformed are an empty literal (`empty_object`) and control characters.
        A literal under one of the `labels` properties is left out as `label`; the rest are triples.
        With a language, literals and labels in it (`zh`), in a variety of it (`zh-CN`) or without a tag
        are taken; `kg.read.labels` says which label wins.
conceptnet  (names that start with `conceptnet-assertions`) Five fields; the second has to be a relation,
        `/r/IsA`, else `bad_syntax`. Left out: `not_a_concept` where an end is no `/c/<language>/...`, then
        `other_language`. `/c/en/apple_pie/n` is `apple pie`.

Memory is bounded by a block of the file (2 MiB and what it takes as columns) or a line, except for the
labels of RDF, which are held as columns. Deterministic: nothing depends on how files fall into blocks.
"""

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
