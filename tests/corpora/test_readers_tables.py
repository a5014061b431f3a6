"""TSV and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.layout import InputConfig
from corpora.readers import quoted
from corpora.readers.columns import ColumnError
from tests.corpora.conftest import Read, read_layout

CLASSIFY = {"label": "label", "task": "classify"}


# --- TSV --------------------------------------------------------------------------------------


def test_tsv_columns_are_found_by_name_and_quotes_are_text(read: Callable[..., Read]) -> None:
    body = 'label\ttext_a\tid\n1\t"好" he said\tx\n0\t""\ty\n'.encode()
    got = read(body, format="tsv", text="text_a", id="id", **CLASSIFY)
    assert got.texts == ['"好" he said', '""']
    assert [r["label"] for r in got.rows] == ["1", "0"] and [r["doc_id"] for r in got.rows] == ["x", "y"]
    assert [r["source"] for r in got.rows] == ["a.txt@16", "a.txt@34"]
    assert [body[int(r["source"].split("@")[1]) :][:1] for r in got.rows] == [b"1", b"0"]


def test_tsv_ragged_and_empty_rows_are_rejected(read: Callable[..., Read]) -> None:
    rows = ["a\t1", "b", "c\t1\t2", "\t1", "\t", "d\t", " \t1", "e\t2"]
    got = read(("text\tlabel\r\n" + "\r\n".join(rows)).encode(), format="tsv", **CLASSIFY, block_bytes=7)
    assert [(r["text"], r["label"]) for r in got.rows] == [("a", "1"), ("d", None), ("e", "2")]
    assert [(r.line, r.reason) for r in got.rejects] == [
        (3, "unequal_fields"),
        (4, "unequal_fields"),
        (5, "empty_text"),
        (6, "empty_text"),
        (8, "empty_text"),
    ]
    assert got.rejects[1].detail == "3 fields in a file of 2 columns" and got.rejects[1].excerpt == "c\t1\t2"


def test_tsv_without_a_header_line(read: Callable[..., Read]) -> None:
    got = read(b"1\ta\n0\tb\n", format="tsv", header=["label", "text"], **CLASSIFY)
    assert [(r["text"], r["label"]) for r in got.rows] == [("a", "1"), ("b", "0")]


def test_tsv_the_header_belongs_to_every_range(read: Callable[..., Read]) -> None:
    rows = [f"{i}\tline {i}" for i in range(200)]
    body = ("\n" * 20 + "label\ttext\n" + "\n".join(rows)).encode()
    got = read(body, format="tsv", **CLASSIFY, block_bytes=5)
    assert got.blocks > 300
    assert [(r["label"], r["text"]) for r in got.rows] == [tuple(r.split("\t")) for r in rows]


def test_tsv_pairs_and_scores(read: Callable[..., Read]) -> None:
    body = b"a\tb\ts\nx\ty\t3.5\nx\t\t1\nx\ty\t\nx\ty\tbad\n"
    got = read(body, format="tsv", text="a", text_pair="b", label="s", score=True, task="classify")
    assert [(r["text"], r["text_pair"], r["label_score"]) for r in got.rows] == [
        ("x", "y", 3.5),
        ("x", "y", None),
    ]
    assert got.reasons == ["empty_text", "bad_score"]


def test_a_column_that_vanishes_after_the_plan_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(b"text\tlabel\nx\t1\n")
    layout = InputConfig(format="tsv", files={"train": ["a.tsv"]}, label="label")
    from corpora.plan import plan_blocks
    from corpora.readers import read_block

    blocks = plan_blocks(layout, str(tmp_path), 1000)
    (tmp_path / "a.tsv").write_bytes(b"text\tlbael\nx\t1\n")
    with pytest.raises(ColumnError, match="did you mean 'lbael'"):
        list(read_block(blocks[0], layout, "classify", "zh", lambda _: None))


def test_header_trouble_is_named(read: Callable[..., Read]) -> None:
    with pytest.raises(ColumnError, match="longer than"):
        read(b"x" * (1 << 20) + b"\ty\n", format="tsv")
    with pytest.raises(ColumnError, match="not valid utf-8"):
        read(b"text\xff\ty\n", format="tsv")
    with pytest.raises(ColumnError, match="not CSV"):
        read(b'text,"y\n', format="csv")


@pytest.mark.parametrize("name", ["chnsenticorp", "medical_ner"])
@pytest.mark.parametrize("block_bytes", [64 << 20, 50_000])
def test_real_tsv_files_are_read_whole(real_data: Path, name: str, block_bytes: int) -> None:
    task = "classify" if name == "chnsenticorp" else "tag"
    for split in ("train", "dev", "test"):
        path = f"kbert/{name}/{split}.tsv"
        layout = InputConfig(format="tsv", files={split: [path]}, text="text_a", label="label")
        got = read_layout(layout, real_data, task, "zh", block_bytes, 1 << 20)
        raw = (real_data / path).read_bytes()
        header, *lines = raw.decode().removesuffix("\n").split("\n")
        assert len(got.rows) + len(got.rejects) == len(lines) and not got.rejects
        at = header.split("\t").index("text_a"), header.split("\t").index("label")
        orphans = 0
        for row, line in zip(got.rows, lines, strict=True):
            text, label = (line.split("\t")[i] for i in at)
            if task == "classify":
                assert (row["text"], row["label"]) == (text, label)
                continue
            tokens, labels = text.split(" "), label.split(" ")
            assert row["tag_labels"] == labels and row["text"] == "".join(tokens)
            spans = zip(row["tag_starts"], row["tag_stops"], strict=True)
            assert [row["text"][a:b] for a, b in spans] == tokens
            for before, now in zip(["O", *labels], labels, strict=False):
                orphans += now.startswith("I") and before[1:] != now[1:]
        assert got.counts["orphan_inside"] == orphans


# --- CSV --------------------------------------------------------------------------------------


def test_csv_quoted_line_ends_and_exact_bytes(read: Callable[..., Read]) -> None:
    records = ["好,1", '"a, ""b""\n\nc",2', '"x\r\ny",3', "plain,4", '"",5', "z,6"]
    body = "\r\n".join(["text,label", *records]).encode()
    got = read(body, format="csv", **CLASSIFY)
    assert got.texts == ["好", 'a, "b"\n\nc', "x\r\ny", "plain", "z"]
    assert [r["label"] for r in got.rows] == list("12346")
    (reject,) = got.rejects
    assert (reject.reason, reject.line) == ("empty_text", 9)
    places = [int(r["source"].split("@")[1]) for r in got.rows]
    expected = [body.index(r.encode()) for r in records]
    assert places == expected[:4] + expected[5:] and reject.byte == expected[4]


def test_csv_nul_lone_cr_and_bad_bytes(read: Callable[..., Read]) -> None:
    body = b'text,label\na\0b,1\nc\rd,2\n"e\rf\0\ng",3\n"bad\n\xff",4\nh,5\n'
    got = read(body, format="csv", **CLASSIFY)
    assert got.texts == ["a\0b", "c\rd", "e\rf\0\ng", "h"]
    (reject,) = got.rejects
    assert (reject.reason, reject.line) == ("bad_encoding", 6)
    assert f"offset {body.index(bytes([255]))} of the file" in reject.detail


def test_csv_long_fields_are_read(read: Callable[..., Read]) -> None:
    text = "长" * 200_000  # past the csv module's own limit of 131,072
    assert read(f'text,label\n"{text}",1\n'.encode(), format="csv").texts == [text]


def test_csv_ragged_rows_and_wrong_quotes_are_rejected(read: Callable[..., Read]) -> None:
    body = b'text,label\na,1\nb\nc,1,2\n"d"x,1\ne"f,1\n,1\ng,2\n'
    got = read(body, format="csv", **CLASSIFY)
    assert got.texts == ["a", 'e"f', "g"]
    assert [(r.line, r.reason) for r in got.rejects] == [
        (3, "unequal_fields"),
        (4, "unequal_fields"),
        (5, "bad_csv"),
        (7, "empty_text"),
    ]


def test_csv_every_line_that_an_open_quote_swallows_is_counted(read: Callable[..., Read]) -> None:
    lines = [f"line {i},1" for i in range(20)]
    lines[5] = '"' + lines[5]
    got = read("\n".join(["text,label", *lines]).encode(), format="csv", **CLASSIFY)
    assert got.texts == [f"line {i}" for i in range(5)]
    assert [(r.reason, r.line) for r in got.rejects] == [("bad_csv", i) for i in range(7, 22)]
    lines[12] = '"line 12",1'  # ends the open field where no quote can be
    got = read("\n".join(["text,label", *lines]).encode(), format="csv", **CLASSIFY)
    assert got.texts == [f"line {i}" for i in (*range(5), *range(13, 20))]
    assert [r.line for r in got.rejects] == list(range(7, 15))


def test_csv_an_endless_record_is_given_up_in_bounds(
    read: Callable[..., Read], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quoted, "MAX_RECORD_LINES", 4)
    endless = ['"a', *"bcdefgh", 'i",1']
    got = read("\n".join(["text,label", "first,1", *endless, "last,2"]).encode(), format="csv", **CLASSIFY)
    assert got.texts == ["first", "last"]
    assert [(r.reason, r.line) for r in got.rejects] == [("record_too_long", i) for i in range(3, 12)]
    # The line past the limit may itself be the one that closes the field.
    got = read(b'text,label\n"a\nb\nc\nd\ne",1\nlast,2\n', format="csv", **CLASSIFY)
    assert got.texts == ["last"] and len(got.rejects) == 5
    got = read(b'text,label\n"a\nb\nc\nd",1\nlast,2\n', format="csv", **CLASSIFY)
    assert got.texts == ["a\nb\nc\nd", "last"]


_CELL = st.text(st.sampled_from('ab,"\n\r 中\0\u2028'), max_size=6).map(lambda s: s + "x")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(_CELL, _CELL), max_size=12), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_csv_that_the_csv_module_writes_comes_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], end: str, quote_all: bool
) -> None:
    out = io.StringIO()
    # NUL is quoted by no version of the csv module, and need not be.
    writer = csv.writer(out, lineterminator=end, quoting=csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL)
    places = []
    writer.writerow(["text", "label"])
    for row in rows:
        places.append(len(out.getvalue().encode()))
        writer.writerow(row)
    folder = tmp_path_factory.mktemp("csv")
    (folder / "a.csv").write_bytes(out.getvalue().encode())
    layout = InputConfig(format="csv", files={"train": ["a.csv"]}, label="label")
    got = read_layout(layout, folder, "classify", "zh", 10, 20)
    assert [(r["text"], r["label"]) for r in got.rows] == rows and not got.rejects
    assert [r["source"] for r in got.rows] == [f"a.csv@{p}" for p in places]
