from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from corpora.layout import InputConfig
from tests.corpora.conftest import Read, read_layout


def test_paragraphs_keep_their_inner_line_ends(read: Callable[..., Read]) -> None:
    got = read(b"a\r\nb\r\n\r\n \t\r\n  c \n d\n\ne", format="text")
    assert got.texts == ["a\r\nb", "  c \n d", "e"]
    assert [r["doc_id"] for r in got.rows] == ["a.txt@0", "a.txt@12", "a.txt@21"]
    assert all(r["doc_id"] == r["source"] for r in got.rows)
    assert all(r[k] is None for r in got.rows for k in ("text_pair", "language", "label", "tag_labels"))


def test_c21_stray_blank_lines_are_no_documents(read: Callable[..., Read]) -> None:
    for document in ("line", "blank_line"):
        got = read("甲。\n\n乙。\n\n丙。".encode(), format="text", document=document)
        assert got.texts == ["甲。", "乙。", "丙。"]
        got = read("\n\n \t\n甲。\n\n\n \r\n\r\n乙。\n\n\n".encode(), format="text", document=document)
        assert got.texts == ["甲。", "乙。"] and not got.rejects
        for blank in (b"\n", b"\n\n\r\n \t\n", b" ", b""):
            got = read(blank, format="text", document=document)
            assert got.rows == [] and got.rejects == [] and got.blocks == 1
    assert read("甲。\n乙。\n丙。".encode(), format="text").texts == ["甲。\n乙。\n丙。"]
    got = read(b'\n{"text": "a"}\n \t\r\n\n{"text": "b"}\n\n', format="jsonl")
    assert got.texts == ["a", "b"] and not got.rejects
    got = read(b"\n\ntext\tlabel\n\na\t1\n\r\n \nb\t2\n\n", format="tsv", label="label", task="classify")
    assert got.texts == ["a", "b"] and not got.rejects
    got = read(b"\n\ntext,label\n\na,1\n\r\n \nb,2\n\n", format="csv", label="label", task="classify")
    assert got.texts == ["a", "b"] and not got.rejects


def test_a_document_of_white_space_is_rejected(read: Callable[..., Read]) -> None:
    got = read("甲\n\u3000\u3000\n乙\n".encode(), format="text", document="line")
    assert got.texts == ["甲", "乙"] and got.reasons == ["empty_text"] and got.rejects[0].line == 2


def test_a_file_is_a_document(tmp_path: Path) -> None:
    for name, text in {"a.txt": "甲\r\n\n乙\n", "b.txt": "", "c.txt": " \n", "d.txt": "丁"}.items():
        (tmp_path / name).write_bytes(text.encode())
    layout = InputConfig(format="text", document="file", files={"train": ["*.txt"]})
    got = read_layout(layout, tmp_path, "pretrain", "zh", 1000, 1000)
    assert [(r["doc_id"], r["source"], r["text"]) for r in got.rows] == [
        ("a.txt", "a.txt@0", "甲\r\n\n乙\n"),
        ("d.txt", "d.txt@0", "丁"),
    ]
    assert got.blocks == 1
    (reject,) = got.rejects
    assert (reject.path, reject.reason, reject.line) == ("c.txt", "empty_text", 1)


def test_batches_hold_at_most_their_bytes(read: Callable[..., Read]) -> None:
    rows = ["x" * n for n in (40, 30, 30, 99, 1, 100, 500, 3)]
    got = read("\n".join(rows).encode(), format="text", document="line", batch_bytes=100)
    assert [[len(t) for t in table["text"].to_pylist()] for table in got.tables] == [
        [40, 30, 30],
        [99, 1],
        [100],
        [500],
        [3],
    ]
    got = read(
        "\n".join("中" * 8 for _ in range(20)).encode(), format="text", document="line", batch_bytes=100
    )
    assert got.texts == ["中" * 8] * 20
    assert all(sum(len(t.encode()) for t in table["text"].to_pylist()) <= 100 for table in got.tables)


def test_control_characters_are_data(read: Callable[..., Read]) -> None:
    text = "a\0b\x01c\x7fd\ufffe"
    for layout in ({"document": "line"}, {"document": "blank_line"}, {"document": "file"}):
        assert read(text.encode(), format="text", **layout).texts == [text]


@pytest.mark.parametrize("document", ["line", "blank_line"])
def test_rows_and_rejects_are_all_the_records(read: Callable[..., Read], document: str) -> None:
    records = [b"good", b"\xff", "中文".encode(), "\u3000".encode(), b"x" * 50]
    got = read(b"\n\n".join(records * 20), format="text", document=document, block_bytes=30)
    assert len(got.rows) == 60 and len(got.rejects) == 40
    assert {r.reason for r in got.rejects} == {"bad_encoding", "empty_text"}
