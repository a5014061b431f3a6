"""Rules of `.spo` lines: every line is a triple, skipped and counted, or rejected with a reason."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg import GraphError, ReadCounts, RejectedLine, read_spo, triples


def read(path: Path, content: bytes) -> tuple[list[tuple[str, str, str]], ReadCounts, list[RejectedLine]]:
    path.write_bytes(content)
    counts = ReadCounts()
    rejects: list[RejectedLine] = []
    rows = [row[:3] for row in read_spo([str(path)], rejects.append, counts=counts)]
    return rows, counts, rejects


def check_counts(counts: ReadCounts) -> None:
    skipped = counts.blank + counts.comments + counts.self_triples
    assert counts.lines == counts.triples + skipped + sum(counts.rejected.values())


def test_c13_wrong_field_counts_and_blanks(tmp_path: Path) -> None:
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
    path = tmp_path / "a.spo"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
    counts = ReadCounts()
    rejects: list[RejectedLine] = []
    rows = list(read_spo([str(path)], rejects.append, counts=counts))
    assert rows == [
        ("苹果", "", "水果", str(path), 5),
        ("苹果", "类别", "水果", str(path), 6),
        ("苹果", "类别", "红果", str(path), 7),
    ]
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
        lines=9,
        blank=1,
        comments=1,
        triples=3,
        empty_predicates=1,
        rejected={"empty_object": 1, "empty_subject": 1, "wrong_field_count": 2},
    )


def test_c14_self_triples_are_skipped_and_counted(tmp_path: Path) -> None:
    rows, counts, rejects = read(tmp_path / "a.spo", "甲乙\t类\t甲乙\n甲乙\t类\t丙丁\n".encode())
    assert rows == [("甲乙", "类", "丙丁")]
    assert (counts.self_triples, rejects) == (1, [])


def test_c04_only_lf_ends_a_line(tmp_path: Path) -> None:
    content = "甲\u2028乙\t类\x0c别\t丙\x85丁\r戊\n".encode()
    rows, counts, _ = read(tmp_path / "a.spo", content)
    assert rows == [("甲\u2028乙", "类\x0c别", "丙\x85丁\r戊")]
    assert counts.lines == 1


def test_fields_are_trimmed_of_unicode_white_space_and_keep_it_inside(tmp_path: Path) -> None:
    rows, _, _ = read(tmp_path / "a.spo", "\u3000New\u00a0York \t is a\t\u2003big city\u3000\r\n".encode())
    assert rows == [("New\u00a0York", "is a", "big city")]


def test_white_space_lines_are_blank_whatever_their_tabs(tmp_path: Path) -> None:
    rows, counts, rejects = read(tmp_path / "a.spo", " \n\t\t\n\u3000\t\n\r\n\t\t\t\n".encode())
    assert (rows, rejects, counts.blank, counts.lines) == ([], [], 5, 5)


def test_comments_start_with_a_hash_even_behind_white_space(tmp_path: Path) -> None:
    rows, counts, rejects = read(tmp_path / "a.spo", b"#a\tb\tc\n  # a\n#\ta\n# a\t\t\nC#\tis\tlanguage\n")
    assert (rows, rejects, counts.comments) == ([("C#", "is", "language")], [], 4)


def test_byte_order_mark_and_missing_last_line_end(tmp_path: Path) -> None:
    rows, counts, _ = read(tmp_path / "a.spo", b"\xef\xbb\xbf" + "甲乙\t类\t丙\n丁戊\t类\t己".encode())
    assert rows == [("甲乙", "类", "丙"), ("丁戊", "类", "己")]
    assert counts.lines == 2


def test_lines_that_are_not_utf8_are_rejected_alone(tmp_path: Path) -> None:
    good = "甲乙\t类\t丙\n".encode()
    content = good + "糖尿病\t类\t病\n".encode("gbk") + good.replace("丙".encode(), b"\xed\xa0\x80") + good
    rows, counts, rejects = read(tmp_path / "a.spo", content)
    assert rows == [("甲乙", "类", "丙")] * 2
    assert [(r.line, r.reason) for r in rejects] == [(2, "bad_encoding"), (3, "bad_encoding")]
    check_counts(counts)


def test_files_of_other_encodings_have_no_good_line(tmp_path: Path) -> None:
    rows, counts, _ = read(tmp_path / "a.spo", "甲乙\t类\t丙\n".encode("utf-16"))
    assert rows == []
    check_counts(counts)


def test_control_characters_and_single_characters_are_subjects(tmp_path: Path) -> None:
    rows, _, _ = read(
        tmp_path / "a.spo", "\x00\t类\t丙\n。\t类\t号\na\x01b\t类\t丙\n甲\x00\t类\t丙\n".encode()
    )
    assert [s for s, _, _ in rows] == ["\x00", "。", "a\x01b", "甲\x00"]


def test_files_are_read_in_the_order_given_with_their_own_line_numbers(tmp_path: Path) -> None:
    b, a = tmp_path / "b.spo", tmp_path / "a.spo"
    b.write_text("乙乙\t类\t丙\n", encoding="utf-8")
    a.write_text("\n甲甲\t类\t丙\n", encoding="utf-8")
    rows = list(read_spo([str(b), str(a)], lambda _: None))
    assert [row[3:] for row in rows] == [(str(b), 1), (str(a), 2)]


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"nowhere\.spo does not exist"):
        list(read_spo([str(tmp_path / "nowhere.spo")], lambda _: None))
    with pytest.raises(GraphError, match="is a folder"):
        list(read_spo([str(tmp_path)], lambda _: None))


def test_another_opener_serves_remote_files() -> None:
    rows = list(
        read_spo(["gs://bucket/a.spo"], lambda _: None, open_binary=lambda _: io.BytesIO(b"ab\tis\tc\n"))
    )
    assert rows == [("ab", "is", "c", "gs://bucket/a.spo", 1)]


def test_a_line_past_the_limit_is_rejected_and_the_next_one_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triples, "BLOCK_BYTES", 64)
    monkeypatch.setattr(triples, "MAX_LINE_BYTES", 200)
    good = "甲乙\t类\t丙\n".encode()
    long = "丁戊\t类\t".encode() + b"x" * 1000 + b"\n"
    rows, counts, rejects = read(tmp_path / "a.spo", good + long + good)
    assert rows == [("甲乙", "类", "丙")] * 2
    (reject,) = rejects
    assert (reject.line, reject.byte, reject.reason) == (2, len(good), "line_too_long")
    assert reject.detail == f"a line of {len(long)} bytes, at most 200"
    assert counts.lines == 3
    assert [r[4] for r in read_spo([str(tmp_path / "a.spo")], lambda _: None)] == [1, 3]


fields = st.text("甲a# \u3000\t\r", max_size=4) | st.sampled_from(["甲", "a\t类\tb"])


@settings(max_examples=200, deadline=None)
@given(
    lines=st.lists(st.lists(fields, max_size=4).map("\t".join), max_size=12),
    block=st.integers(1, 40),
    limit=st.integers(4, 30),
    last=st.booleans(),
)
def test_blocks_equal_a_loop_over_lines(
    lines: list[str], block: int, limit: int, last: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = "\n".join(lines) + ("\n" if last and lines else "")
    expected: list[tuple[str, str, str, int]] = []
    reasons: Counter[str] = Counter()
    for number, line in enumerate(
        content.split("\n")[: None if content and not content.endswith("\n") else -1], 1
    ):
        parts = [part.strip(triples.WHITE_SPACE) for part in line.split("\t")]
        if len(line.encode()) + 1 > limit:
            reasons["line_too_long"] += 1
        elif not any(parts):
            reasons["blank"] += 1
        elif parts[0].startswith("#"):
            reasons["comments"] += 1
        elif len(parts) != 3:
            reasons["wrong_field_count"] += 1
        elif not parts[0]:
            reasons["empty_subject"] += 1
        elif not parts[2]:
            reasons["empty_object"] += 1
        elif parts[0] == parts[2]:
            reasons["self_triples"] += 1
        else:
            expected.append((parts[0], parts[1], parts[2], number))
    counts = ReadCounts()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triples, "BLOCK_BYTES", block)
        patch.setattr(triples, "MAX_LINE_BYTES", limit)
        stream = io.BytesIO(content.encode())
        rows = list(read_spo(["x"], lambda _: None, counts=counts, open_binary=lambda _: stream))
    assert [(s, p, o, n) for s, p, o, _, n in rows] == expected
    found = {
        "blank": counts.blank,
        "comments": counts.comments,
        "self_triples": counts.self_triples,
        **counts.rejected,
    }
    assert {k: v for k, v in found.items() if v} == dict(reasons)
    check_counts(counts)


@pytest.mark.parametrize(("name", "lines", "selves"), [("HowNet", 52_576, 152), ("Medical", 13_864, 0)])
def test_every_line_of_the_real_graphs_is_accounted_for(
    real_data: Path, name: str, lines: int, selves: int
) -> None:
    path = real_data / "kg" / f"{name}.spo"
    counts = ReadCounts()
    rows = list(read_spo([str(path)], lambda _: None, counts=counts))
    assert (counts.lines, counts.self_triples, counts.rejected) == (lines, selves, {})
    assert len(rows) == counts.triples == lines - selves
    check_counts(counts)
