"""Tab-separated triples: every line is a triple, left out, or rejected, each for one reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kg.errors import GraphError
from kg.read import ReadCounts, ReadOptions, read_triples
from tests.kg.read.reading import WHITE, Slow, blocks_of, read, read_files


def triples(content: str | bytes, name: str = "a.spo", **options: Any) -> list[tuple[str, str, str]]:
    rows, _, rejects = read(content.encode() if isinstance(content, str) else content, name, **options)
    assert rejects == []
    return [row[:3] for row in rows]


def test_c13_wrong_field_counts_and_blanks() -> None:
    lines = [
        "苹果\t类别\t",
        "\t类别\t水果",
        "苹果\t类别\t水果\t多余",
        "苹果 类别 水果",
        "苹果\t\t水果",
        " 苹果\t类别\t水果 ",
        "苹果\t类别\t红果\r",
        "",
        "#注释",
    ]
    rows, counts, rejects = read(("\n".join(lines) + "\n").encode())
    assert rows == [("苹果", "", "水果", 5), ("苹果", "类别", "水果", 6), ("苹果", "类别", "红果", 7)]
    assert [(r.line, r.reason) for r in rejects] == [
        (1, "empty_object"),
        (2, "empty_subject"),
        (3, "wrong_field_count"),
        (4, "wrong_field_count"),
    ]
    assert rejects[2].detail == "expected 3 fields separated by TAB, found 4 fields"
    assert rejects[3].detail == "expected 3 fields separated by TAB, found 1 field"
    assert rejects[3].excerpt == "苹果 类别 水果"
    assert rejects[3].byte == len("\n".join(lines[:3]).encode()) + 1
    assert counts == ReadCounts(
        read=9,
        triples=3,
        empty_predicates=1,
        left_out={"blank": 1, "comment": 1},
        rejected={"empty_object": 1, "empty_subject": 1, "wrong_field_count": 2},
    )


def test_c04_only_lf_ends_a_line() -> None:
    content = "甲\u2028乙\t类\x0c别\t丙\x85丁\r戊\u2029己\n".encode()
    rows, counts, _ = read(content)
    assert rows == [("甲\u2028乙", "类\x0c别", "丙\x85丁\r戊\u2029己", 1)]
    assert counts.read == 1


def test_fields_are_trimmed_of_unicode_white_space_and_keep_it_inside() -> None:
    line = "\u3000New\u00a0York \t is a\t\u2003big city\u3000\r\n"
    assert triples(line) == [("New\u00a0York", "is a", "big city")]


def test_white_space_lines_are_blank_whatever_their_tabs() -> None:
    rows, counts, rejects = read(" \n\t\t\n\u3000\t\n\r\n\t\t\t\n".encode())
    assert (rows, rejects, counts.left_out) == ([], [], {"blank": 5})


def test_comments_start_with_a_hash_even_behind_white_space() -> None:
    rows, counts, rejects = read("#a\tb\tc\n  # a\n#\ta\n\u3000# a\t\t\nC#\tis\tlanguage\n".encode())
    assert (rows, rejects, counts.left_out) == ([("C#", "is", "language", 5)], [], {"comment": 4})


def test_byte_order_mark_and_missing_last_line_end() -> None:
    content = b"\xef\xbb\xbf" + "甲乙\t类\t丙\n丁戊\t类\t己".encode()
    assert triples(content) == [("甲乙", "类", "丙"), ("丁戊", "类", "己")]


def test_lines_that_are_not_utf8_are_rejected_alone() -> None:
    good = "甲乙\t类\t丙\n".encode()
    surrogate = good.replace("丙".encode(), b"\xed\xa0\x80")
    rows, _, rejects = read(good + "糖尿病\t类\t病\n".encode("gbk") + surrogate + good)
    assert [row[3] for row in rows] == [1, 4]
    assert [(r.line, r.reason) for r in rejects] == [(2, "bad_encoding"), (3, "bad_encoding")]


def test_files_of_other_encodings_have_no_good_line() -> None:
    rows, counts, _ = read("甲乙\t类\t丙\n".encode("utf-16"))
    assert (rows, counts.triples) == ([], 0)


@pytest.mark.parametrize(
    "char", ["\x00", "\x01", "\x08", "\x0e", "\x1b", "\x1f", "\x7f", "\x80", "\x84", "\x86", "\x9f"]
)
def test_control_characters_are_malformed(char: str) -> None:
    rows, _, rejects = read(
        f"{char}\t类\t丙\n甲\t类{char}\t丙\n甲\t类\t{char}丙\n甲\t类\t丙 {char} \n".encode()
    )
    assert rows == []
    assert [(r.line, r.reason) for r in rejects] == [(n, "control_character") for n in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    "char", ["\x0b", "\x0c", "\r", "\x85", "\xa0", "\xad", "\u200b", "\u2028", "\ufeff", "\U0001f600"]
)
def test_white_space_and_format_characters_are_no_control_characters(char: str) -> None:
    assert triples(f"甲{char}乙\t类\t丙\n") == [(f"甲{char}乙", "类", "丙")]


def test_control_characters_in_comments_and_ignored_columns_do_no_harm() -> None:
    columns = {"subject": 1, "object": 3}
    rows, counts, rejects = read(b"# \x00\na\t\x1b\tb\tc\x00\n", "a.tsv", columns=columns)
    assert (rows, rejects, counts.left_out) == ([("a", "", "b", 2)], [], {"comment": 1})


def test_two_or_three_fields_by_the_first_line_that_counts() -> None:
    content = b"# a\tb\tc\n\n\xff\tx\nab\tc\nab\tis\tc\n"
    rows, counts, rejects = read(content, "a.tsv")
    assert rows == [("ab", "", "c", 4)]
    assert [(r.line, r.reason) for r in rejects] == [(3, "bad_encoding"), (5, "wrong_field_count")]
    assert rejects[1].detail == "expected 2 fields separated by TAB, found 3 fields"
    assert counts.empty_predicates == 1
    assert triples("ab\tis\tc\n", "a.txt.bz2") == [("ab", "is", "c")]
    rows, _, rejects = read(b"ab\ta\tb\tc\nab\tis\tc\n", "a.TSV")  # four fields decide for three
    assert ([row[3] for row in rows], [r.line for r in rejects]) == ([2], [1])
    _, _, rejects = read(b"ab\tc\n", "a.spo")
    assert [r.reason for r in rejects] == ["wrong_field_count"]


def test_columns_by_number() -> None:
    content = b"1\tis\tab\tx\n2\thas\tcd\ty\n3\tcd\ty\n"
    rows, _, rejects = read(content, "a.tsv", columns={"subject": 3, "predicate": 2, "object": 4})
    assert rows == [("ab", "is", "x", 1), ("cd", "has", "y", 2)]
    assert rejects[0].detail == "expected 4 fields separated by TAB, found 3 fields"
    rows, counts, _ = read(content, "a.spo", columns={"subject": 4, "object": 1})
    assert [row[:3] for row in rows] == [("x", "", "1"), ("y", "", "2")]
    assert counts.empty_predicates == 2


def test_columns_by_name_have_a_header() -> None:
    content = b"\xef\xbb\xbfid\t name \tvalue\r\n1\tab\tc\n2\tde\tf\n"
    rows, counts, _ = read(content, "a.tsv", columns={"object": "value", "subject": "name"})
    assert rows == [("ab", "", "c", 2), ("de", "", "f", 3)]
    assert counts.left_out == {"header": 1}
    rows, counts, _ = read(content, "a.tsv", columns={"object": "value", "subject": 1})
    assert [row[:3] for row in rows] == [("1", "", "c"), ("2", "", "f")]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"subject": "nam", "object": "value"}, r"columns.subject: no column is called 'nam' in a\.tsv.*'id', 'name', 'value', 'value'"),
        ({"subject": "name", "object": "value"}, "columns.object: more than one column is called 'value'"),
        ({"subject": "name", "object": 5}, r"columns.object: column 5 was asked for, and the first line of a\.tsv has 4"),
        ({"subject": "name", "object": 2}, "two roles share a column"),
    ],
)  # fmt: skip
def test_columns_that_are_not_there_are_named(columns: dict[str, str | int], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        read(b"id\tname\tvalue\tvalue\n", "a.tsv", columns=columns)


def test_files_are_read_in_the_order_given_with_their_own_line_numbers() -> None:
    rows, counts, _ = read_files(
        {"b.spo": b"bb\tis\tc\n", "a.spo": b"\naa\tis\tc", "e.spo": b"", "c.tsv": b"cc\td\n"}
    )
    assert [(row[0], *row[3:]) for row in rows] == [
        ("bb", "b.spo", 1),
        ("aa", "a.spo", 2),
        ("cc", "c.tsv", 1),
    ]
    assert counts.read == 4


def test_missing_files_folders_and_compressed_ones_are_named(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"nowhere\.spo does not exist"):
        list(read_triples([str(tmp_path / "nowhere.spo")], lambda _: None))
    with pytest.raises(GraphError, match="is a folder"):
        list(read_triples([str(tmp_path)], lambda _: None, options=ReadOptions(format="tsv")))
    with pytest.raises(GraphError, match=r"a\.spo\.gz is compressed.*open_binary"):
        list(read_triples([str(tmp_path / "a.spo.gz")], lambda _: None))


def test_a_local_file_is_opened_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "a.spo"
    path.write_bytes(b"ab\tis\tc\n")
    assert list(read_triples([path], lambda _: None)) == [("ab", "is", "c", str(path), 1)]  # type: ignore[list-item]


@pytest.mark.parametrize("last", [b"\n", b""])
def test_a_line_past_the_limit_is_rejected_and_the_next_one_read(last: bytes) -> None:
    good = "甲乙\t类\t丙\n".encode()
    long = "丁戊\t类\t".encode() + b"x" * 1000 + b"\n"
    with blocks_of(64, 200):
        rows, _, rejects = read(good + long + good + b"x\n" + good.strip() + last)
    assert [row[3] for row in rows] == [1, 3, 5]
    reject, after = rejects
    assert (after.line, after.byte) == (4, len(good + long + good))
    assert (reject.line, reject.byte, reject.reason) == (2, len(good), "line_too_long")
    assert reject.detail == f"a line of {len(long)} bytes, at most 200"
    with blocks_of(64, 200):
        rows, _, rejects = read(good + long.strip() + last)
    assert ([row[3] for row in rows], [r.line for r in rejects]) == ([1], [2])


def slow_tsv(content: bytes, name: str, limit: int, columns: dict[str, int] | None = None) -> Slow:
    slow = Slow()
    expected = 3 if name.endswith(".spo") and columns is None else None
    for number, line in slow.lines(content, limit):
        fields = [field.strip(WHITE) for field in line.split("\t")]
        if expected is None:
            expected = len(fields) if columns else 2 if len(fields) == 2 else 3
        places = columns or (
            {"subject": 1, "object": 2} if expected == 2 else {"subject": 1, "predicate": 2, "object": 3}
        )
        if len(fields) != expected:
            slow.rejected.append((number, "wrong_field_count"))
        else:
            predicate = fields[places["predicate"] - 1] if "predicate" in places else ""
            slow.triple(number, fields[places["subject"] - 1], predicate, fields[places["object"] - 1])
    return slow


fields = st.text("甲é# \u3000\r\x00\x85\x1b\x9b\u2028", max_size=4) | st.sampled_from(
    ["甲", "ab", "a\t类\tb"]
)
contents = st.lists(
    st.lists(fields, min_size=1, max_size=5).map(lambda parts: "\t".join(parts).encode())
    | st.sampled_from(
        [b"", b"# a", b"a\tb\tc", b"a\tb", b"\xff\tb\tc", b"a\t\xed\xa0\x80\tc", b"\xc2\tb\tc"]
    ),
    max_size=12,
).map(b"\n".join)


@settings(max_examples=400, deadline=None)
@given(
    content=contents,
    name=st.sampled_from(["a.spo", "a.tsv", "a.txt.gz"]),
    columns=st.none() | st.sampled_from([{"subject": 1, "object": 1 + 1}, {"object": 1, "subject": 3, "predicate": 2}]),
    block=st.integers(1, 40),
    limit=st.integers(4, 40),
    start=st.sampled_from([b"", b"\xef\xbb\xbf"]),
)  # fmt: skip
@example(b"a\tb\tc\n", "a.spo", None, 3, 5, b"\xef\xbb\xbf")
def test_blocks_equal_a_loop_over_lines(
    content: bytes, name: str, columns: dict[str, int] | None, block: int, limit: int, start: bytes
) -> None:
    try:
        with blocks_of(block, limit):
            found = read(start + content, name, columns=columns)
    except GraphError as error:
        assert columns and "was asked for" in str(error)
        return
    slow_tsv(start + content, name, limit, columns).check(found)


@pytest.mark.parametrize(("name", "lines"), [("HowNet", 52_576), ("Medical", 13_864)])
def test_every_line_of_the_real_graphs_is_a_triple(real_data: Path, name: str, lines: int) -> None:
    counts = ReadCounts()
    rows = list(read_triples([str(real_data / "kg" / f"{name}.spo")], lambda _: None, counts=counts))
    assert counts == ReadCounts(read=lines, triples=lines)
    assert [row[4] for row in rows] == list(range(1, lines + 1))
