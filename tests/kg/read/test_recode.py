"""Other encodings: the same triples as from UTF-8, and lines that do not decode are rejected alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kg.errors import GraphError
from kg.read import ReadOptions
from tests.kg.read.reading import blocks_of, read

TEXT = "北京\t首都\t中国\n\n# 注\n京\t類別\t字\r\n錯\t\n上海\t位于\t华东"


@pytest.mark.parametrize("name", ["a.spo", "a.tsv"])
@pytest.mark.parametrize("encoding", ["gb18030", "GBK", "utf-8-sig"])
@given(size=st.integers(1, 60))
def test_the_same_as_from_utf8(name: str, encoding: str, size: int) -> None:
    expected = read(TEXT.encode(), name)
    with blocks_of(size):
        rows, counts, rejects = read(TEXT.encode(encoding), name, encoding=encoding)
    assert (rows, counts) == (expected[0], expected[1])
    assert [(r.line, r.reason, r.excerpt) for r in rejects] == [
        (r.line, r.reason, r.excerpt) for r in expected[2]
    ]


def test_lines_that_do_not_decode_are_rejected_alone() -> None:
    lines = ["甲\tp\t乙".encode("gbk"), b"\xff\tp\tq", b"a\r\tp\t\x80", "丙\tp\t丁".encode("gbk")]
    rows, _, rejects = read(b"\n".join(lines), "a.spo", encoding="gbk")
    assert rows == [("甲", "p", "乙", 1), ("丙", "p", "丁", 4)]
    assert [(r.line, r.byte, r.reason, r.detail) for r in rejects] == [
        (n, -1, "bad_encoding", "expected gbk, found bytes that are not") for n in (2, 3)
    ]


def test_csv_and_lines_that_are_too_long() -> None:
    content = 'subject,predicate,object\n甲,,"乙\n丙"\n' + "长" * 300 + ",,x\n丁,,戊\n"
    with blocks_of(32, 100):
        rows, _, rejects = read(content.encode("gb18030"), "a.csv", encoding="gb18030")
    assert rows == [("甲", "", "乙\n丙", 2), ("丁", "", "戊", 5)]
    assert [(r.line, r.reason) for r in rejects] == [(4, "line_too_long")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoding": "gb2313"}, "encoding: expected an encoding such as .* found 'gb2313'"),
        ({"encoding": "utf-16"}, "iconv -f utf-16 -t UTF-8"),
        ({"encoding": "hz"}, "iconv -f hz"),
        ({"encoding": "gbk", "format": "rdf"}, "rdf is always UTF-8"),
    ],
)
def test_encodings_that_do_not_fit(options: dict, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        ReadOptions(**options)
