"""CSV: every record is a triple, left out, or rejected; what a broken quote runs over is rejected line by line."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg.errors import GraphError
from kg.read import quoted
from tests.kg.read.reading import WHITE, Slow, blocks_of, read

HEAD = b"subject,predicate,object\n"


def test_quoted_fields_hold_delimiters_quotes_and_line_ends() -> None:
    content = HEAD + '甲,"类,别","说""好""\n第二行"\r\n\n"乙",是,5" 屏\n丙,,"a\r\nb"\n'.encode()
    rows, counts, rejects = read(content, "a.csv")
    assert rows == [
        ("甲", "类,别", '说"好"\n第二行', 2),
        ("乙", "是", '5" 屏', 5),
        ("丙", "", "a\r\nb", 6),
    ]
    assert rejects == []
    assert (counts.left_out, counts.empty_predicates, counts.read) == ({"header": 1, "blank": 1}, 1, 5)


def test_columns_by_name_order_and_delimiter() -> None:
    content = "\ufeff名称;值;x;属性\n甲;乙;1;类\n丙;丁;2\n".encode()
    columns = {"subject": "名称", "predicate": "属性", "object": "值"}
    rows, _, rejects = read(content, "a.csv", columns=columns, delimiter=";")
    assert rows == [("甲", "类", "乙", 2)]
    assert [(r.line, r.reason, r.detail) for r in rejects] == [
        (3, "wrong_field_count", "expected 4 fields, found 3 fields")
    ]
    rows, counts, _ = read(b"a\tb\nc\td\n", "a.csv", columns={"subject": 2, "object": 1}, delimiter="\t")
    assert [row[:3] for row in rows] == [("b", "", "a"), ("d", "", "c")]  # numbers alone: no header
    assert counts.left_out == {}


@pytest.mark.parametrize("columns", [None, {"subject": "s", "object": "object"}])
def test_a_header_that_lacks_a_column_is_shown(columns: dict[str, str] | None) -> None:
    with pytest.raises(
        GraphError, match=r"columns\.subject: no column is called '\w+' in a\.csv.*'subj', 'object'"
    ):
        read(b"\n subj ,object\na,b\n", "a.csv", columns=columns)


def test_rejects_have_the_line_and_byte_where_their_record_starts() -> None:
    content = HEAD + b'"a\nb",x,c\n,x,c\nd,x,"\n"\ne,x\nf,x,\x07\n'
    rows, _, rejects = read(content, "a.csv")
    assert rows == [("a\nb", "x", "c", 2)]
    found = [(r.line, r.reason, content[r.byte : r.byte + 3]) for r in rejects]
    assert found == [
        (4, "empty_subject", b",x,"),
        (5, "empty_object", b"d,x"),
        (7, "wrong_field_count", b"e,x"),
        (8, "control_character", b"f,x"),
    ]
    assert rejects[1].excerpt == 'd,x,"'


def test_c04_only_lf_ends_a_line() -> None:
    content = HEAD + "甲\u2028乙,类\x0c别,丙\x85丁\r戊\n".encode()
    assert read(content, "a.csv")[0] == [("甲\u2028乙", "类\x0c别", "丙\x85丁\r戊", 2)]


def test_hashes_are_no_comments() -> None:
    assert read(HEAD + b"#1,is,first\n", "a.csv")[0] == [("#1", "is", "first", 2)]


def test_a_misplaced_quote_costs_the_lines_of_its_record() -> None:
    content = HEAD + b'a,b,"c\nd,e,f\ng,"h",i\nj,k,l\n'
    rows, counts, rejects = read(content, "a.csv")
    assert rows == [("j", "k", "l", 5)]
    assert [(r.line, r.reason) for r in rejects] == [(n, "bad_syntax") for n in (2, 3, 4)]
    assert rejects[1].detail.startswith("in the record of line 2: ")
    assert counts.read == 5


def test_an_open_quote_at_the_end() -> None:
    rows, _, rejects = read(HEAD + b'a,b,c\nd,e,"f\ng,h,i\n', "a.csv")
    assert [row[3] for row in rows] == [2]
    assert [(r.line, r.reason) for r in rejects] == [(3, "bad_syntax"), (4, "bad_syntax")]


def test_an_open_quote_swallows_no_more_than_the_limit() -> None:
    lines = [b"a%d,b,c\n" % i for i in range(300)]
    lines[20] = b'a20,b,"c\n'
    with blocks_of(100, 400):
        rows, counts, rejects = read(HEAD + b"".join(lines), "a.csv")
    lost = [r.line for r in rejects]
    assert {r.reason for r in rejects} == {"line_too_long"}
    assert lost == list(range(22, 22 + len(lost)))
    assert 400 <= sum(len(lines[line - 2]) for line in lost) <= 700
    assert [row[3] for row in rows] == [n for n in range(2, 302) if n not in lost]
    assert counts.read == 301
    assert "is a quote open?" in rejects[0].detail


def test_a_line_that_is_too_long_ends_its_record() -> None:
    content = HEAD + b"a,b,c\n" + b"x" * 1000 + b'\nd,e,"f\n' + b"y" * 1000 + b'\ng,h,"i"\n'
    with blocks_of(64, 200):
        rows, _, rejects = read(content, "a.csv")
    assert [row[0] for row in rows] == ["a", "g"]
    assert [(r.line, r.reason) for r in rejects] == [(n, "line_too_long") for n in (3, 4, 5)]


def test_a_record_with_bytes_that_are_not_utf8_is_rejected_alone() -> None:
    content = HEAD + b'a,b,"c\n\xff"\nd,e,f\n\xed\xa0\x80,e,f\n'
    for block in (1 << 20, 8):
        with blocks_of(block):
            rows, _, rejects = read(content, "a.csv")
        assert [row[3] for row in rows] == [4]
        assert [(r.line, r.reason) for r in rejects] == [(2, "bad_encoding"), (5, "bad_encoding")]


def test_a_record_with_such_bytes_is_rejected_where_it_ends_blocks_later() -> None:
    with blocks_of(8):
        rows, _, rejects = read(HEAD + b'a,b,"\xff\n' + b"c\n" * 20 + b'"\nd,e,f\n', "a.csv")
    assert [row[3] for row in rows] == [24]
    assert [(r.line, r.reason) for r in rejects] == [(2, "bad_encoding")]


def test_long_fields_are_read() -> None:
    (row,) = read(HEAD + b'a,b,"' + (b"c" * 999 + b"\n") * 10_000 + b'd"\n', "a.csv")[0]
    assert len(row[2]) == 10_000_001


def test_a_record_of_too_many_lines_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quoted, "MAX_RECORD_LINES", 50)
    monkeypatch.setattr(quoted, "_PART_LINES", 8)
    kept = b'a,b,"' + b"\n" * 30 + b'c"\n'
    rows, counts, rejects = read(HEAD + kept + b'a,b,"c\n' + b"\n" * 100 + b"d,e,f\n", "a.csv")
    assert [row[3] for row in rows] == [2, 134]
    assert [r.line for r in rejects] == list(range(33, 33 + len(rejects)))
    assert 50 < len(rejects) <= 58
    assert counts.left_out == {"header": 1, "blank": 101 - len(rejects)}


def slow_csv(content: bytes, delimiter: str) -> Slow:
    """Fields by hand, for content without broken quotes."""
    slow = Slow()
    header = None
    text = content.decode().removeprefix("\ufeff")
    number, at = 1, 0
    while at < len(text):
        start, fields, field, quoted = number, [], "", False
        while at < len(text):
            char = text[at]
            if quoted:
                if char == '"' and text[at + 1 : at + 2] == '"':
                    at += 1
                    field += char
                elif char == '"':
                    quoted = False
                else:
                    field += char
                    number += char == "\n"
            elif char == '"' and not field:
                quoted = True
            elif char == delimiter:
                fields.append(field)
                field = ""
            elif char == "\n":
                number += 1
                at += 1
                break
            else:
                field += char
            at += 1
        fields = [part.strip(WHITE) for part in (*fields, field)]
        if not any(fields):
            slow.left_out["blank"] += 1
        elif header is None:
            header = fields
            slow.left_out["header"] += 1
        elif len(fields) != len(header):
            slow.rejected.append((start, "wrong_field_count"))
        else:
            slow.triple(start, *(fields[header.index(role)] for role in ("subject", "predicate", "object")))
    return slow


cells = st.text('甲"\n\r, ;\t\x00\x1b\x85', max_size=4) | st.sampled_from(["ab", "甲乙"])


@settings(max_examples=300, deadline=None)
@given(
    records=st.lists(st.lists(cells, min_size=1, max_size=4), max_size=10),
    header=st.permutations(["subject", "predicate", "object", "x"]).map(lambda names: names[:3] if "x" in names[3:] else names),
    delimiter=st.sampled_from(",;\t"),
    end=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    block=st.integers(3, 60),
)  # fmt: skip
def test_blocks_equal_a_loop_over_characters(
    records: list[list[str]], header: list[str], delimiter: str, end: str, quoting: Any, block: int
) -> None:
    sink = io.StringIO()
    writer = csv.writer(sink, delimiter=delimiter, lineterminator=end, quoting=quoting)
    writer.writerows([header, *records])
    content = sink.getvalue().encode()
    with blocks_of(block):
        found = read(content, "a.csv", delimiter=delimiter)
    slow_csv(content, delimiter).check(found)


@settings(max_examples=300, deadline=None)
@given(
    content=st.lists(st.sampled_from([b'"', b"\n", b",", b"a", b"\r", b"\xff", b'"\n', b",b,c\n"]), max_size=40).map(b"".join),
    block=st.integers(3, 60),
    limit=st.integers(len(HEAD), 60),
)  # fmt: skip
def test_any_bytes_end_in_counts_and_lines_go_up(content: bytes, block: int, limit: int) -> None:
    with blocks_of(block, limit):
        rows, _, rejects = read(HEAD + content, "a.csv")
    numbers = [row[3] for row in rows]
    assert numbers == sorted(set(numbers))
    lost = [r.line for r in rejects]
    assert lost == sorted(set(lost))
    assert not set(lost) & set(numbers)
    starts = [0, *(i + 1 for i, byte in enumerate(HEAD + content) if byte == 10)]
    assert [r.byte for r in rejects] == [starts[line - 1] for line in lost]
