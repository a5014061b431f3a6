"""Headers: told where they are read as triples, and what to say of their columns."""

from __future__ import annotations

import pytest

from kg.errors import GraphError
from tests.kg.read.reading import blocks_of, read


@pytest.mark.parametrize(
    ("content", "name", "options", "remark"),
    [
        ("head\trelation\ttail\na\tb\tc\n", "a.spo", {}, "{subject: head, predicate: relation, object: tail}"),
        ("# x\n\nSubject\tValue\na\tb\n", "a.tsv", {}, "`columns: {subject: Subject, object: Value}`"),
        ("object\tsubject\n", "a.txt", {"columns": {"subject": 2, "object": 1}}, "{subject: subject, object: object}"),
        ("主语,谓语,宾语\na,b,c\n", "a.csv", {"columns": {"subject": 1, "object": 3}}, "{subject: 主语,"),
        ("head\trelation\ttail\na\tb\tc\n", "a.tsv", {"columns": {"subject": "head", "object": "tail"}}, ""),
        ("head\tis\tround\nvalue\trelation\tvalue\n", "a.spo", {}, ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", [8, 1 << 20])
def test_a_header_that_is_read_as_a_triple(
    content: str, name: str, options: dict, remark: str, size: int
) -> None:
    with blocks_of(size):
        _, counts, _ = read(content.encode(), name, **options)
    if remark:
        (said,) = counts.remarks
        assert remark in said and "look like a header" in said and f"{name}, line " in said
    else:
        assert counts.remarks == []


@pytest.mark.parametrize(
    ("header", "remedy"),
    [
        (
            "name,rel,value",
            "give `columns: {subject: name, predicate: rel, object: value}`; where it is no header",
        ),
        ("value,rel,entity", "give `columns: {subject: entity, predicate: rel, object: value}`"),
        ("subject;predicate;object", "give `delimiter: ';'`"),
        ("subject\tobject", r"give `delimiter: '\\t'`"),
        ("a,b", "give `columns: {subject: a, object: b}`$"),
        ("name", "the first line has 'name'$"),
    ],
)
def test_columns_that_are_not_there_have_a_remedy(header: str, remedy: str) -> None:
    with pytest.raises(GraphError, match=remedy):
        read(f"{header}\na,b,c\n".encode(), "a.csv")


def test_a_quote_that_is_never_closed_is_named_where_it_opens() -> None:
    content = b'subject,predicate,object\na,b,c\nx,"y,z\nd,e,f\n'
    rows, _, rejects = read(content, "a.csv")
    assert rows == [("a", "b", "c", 2)]
    assert [(r.line, r.detail) for r in rejects] == [
        (3, "a quote opened here is never closed"),
        (4, "inside the quote of line 3"),
    ]
