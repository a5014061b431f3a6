"""Lines, paragraphs and their byte ranges; what does not depend on how blocks are cut."""

from __future__ import annotations

import bz2
import gzip
import io
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora import files
from corpora.layout import InputConfig
from corpora.readers import lines as lines_module
from corpora.readers.lines import Lines, TooLong, read_lines
from tests.corpora.conftest import Read, read_layout


def _flat(data: bytes, start: int, stop: int | None, **sizes: int) -> list[tuple[int, int, bytes | None]]:
    """(byte, lines before it, line or None if it is too long) of each line of a range."""
    found: list[tuple[int, int, bytes | None]] = []
    for item in read_lines(io.BytesIO(data), start, stop, **sizes):
        if isinstance(item, TooLong):
            found.append((item.start, item.first, None))
        else:
            stripped = item.stripped()
            found.extend((s, item.first + i, stripped[i]) for i, s in enumerate(item.starts))
    return found


def _by_hand(data: bytes, limit: int) -> list[tuple[int, int, bytes | None]]:
    expected: list[tuple[int, int, bytes | None]] = []
    at = 0
    pieces = data.split(b"\n")
    for i, line in enumerate(pieces):
        last = i == len(pieces) - 1
        if not (last and not line):
            content = line if last or not line.endswith(b"\r") else line[:-1]
            expected.append((at, i, content if len(line) <= limit else None))
        at += len(line) + 1
    return expected


@given(
    st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\n", b"\r\n", b"\r", b"\n\n", b"0123456789"])).map(
        b"".join
    ),
    st.lists(st.integers(0, 40), max_size=5),
    st.integers(1, 9),
    st.integers(2, 30),
)
def test_ranges_hold_every_line_once(data: bytes, cuts: list[int], chunk: int, limit: int) -> None:
    edges = [0, *sorted(min(c, len(data)) for c in cuts), len(data)]
    found: list[tuple[int, int, bytes | None]] = []
    for start, stop in itertools.pairwise(edges):
        part = _flat(data, start, stop, chunk=chunk, limit=limit)
        assert all(start <= s < stop for s, _, _ in part)
        before = data[: part[0][0]].count(b"\n") if part else 0
        found += [(s, before + n, line) for s, n, line in part]
    assert found == _by_hand(data, limit)
    assert _flat(data, 0, None, chunk=chunk, limit=limit) == _by_hand(data, limit)


def test_c04_only_lf_ends_a_line(read: Callable[..., Read]) -> None:
    data = '{"id":"a","text":"第一行\u2028第二行"}\n{"id":"b","text":"x\u0085y\u000cz"}\n'.encode()
    got = read(data, format="jsonl", id="id")
    assert [(r["doc_id"], len(r["text"])) for r in got.rows] == [("a", 7), ("b", 5)]
    assert got.texts == ["第一行\u2028第二行", "x\u0085y\u000cz"]
    odd = "a\u2029b\x0bc\x1cd\x1de\x1ef\rg\x00h"
    for document in ("line", "blank_line"):
        got = read(f"{odd}\r\n\r\n{odd}".encode(), format="text", document=document)
        assert got.texts == [odd, odd]
    got = read(f"text\tlabel\n{odd}\t1\r\n".encode(), format="tsv", label="label", task="classify")
    assert got.texts == [odd] and got.rows[0]["label"] == "1"
    got = read(
        f'text,label\r\n"{odd}",1\r\n{odd},2\r\n'.encode(), format="csv", label="label", task="classify"
    )
    assert got.texts == [odd, odd] and [r["label"] for r in got.rows] == ["1", "2"]
    got = read(f"{odd} O\n".encode(), format="conll", task="tag")
    assert got.texts == [odd]


def test_a_byte_order_mark_is_no_text(read: Callable[..., Read]) -> None:
    bom = b"\xef\xbb\xbf"
    for data, layout, text in (
        (b"ab\n", {"format": "text", "document": "line"}, "ab"),
        (b"ab\ncd\n", {"format": "text"}, "ab\ncd"),
        (b"ab\ncd\n", {"format": "text", "document": "file"}, "ab\ncd\n"),
        (b'{"text": "ab"}', {"format": "jsonl"}, "ab"),
        (b"ab\tcd\n", {"format": "tsv", "header": ["text", "x"]}, "ab"),
        (b"ab,cd\n", {"format": "csv", "header": ["text", "x"]}, "ab"),
        (b"ab O\n", {"format": "conll"}, "ab"),
    ):
        got = read(bom + data, block_bytes=2, **layout)
        assert got.texts == [text] and not got.rejects
        assert got.rows[0]["source"] == "a.txt@3"
        # Anywhere else it is a character like any other.
        assert read(data + bom + data, format="text").texts[0].count("\ufeff") == 1
    assert read(bom + b"text\tx\nab\tcd\n", format="tsv").texts == ["ab"]
    assert read(bom + b"text,x\nab,cd\n", format="csv").texts == ["ab"]
    assert read(bom + b"\n\n", format="text").rows == []


@pytest.mark.parametrize(
    ("magic", "hint"),
    [("ab".encode("utf-16"), "iconv"), (gzip.compress(b"ab", mtime=0), r"\.gz"), (b"PK\x03\x04xx", "ZIP")],
)
def test_files_that_are_no_text_stop_the_run(read: Callable[..., Read], magic: bytes, hint: str) -> None:
    for layout in ({"format": "text"}, {"format": "text", "document": "file"}, {"format": "tsv"}):
        with pytest.raises(ValueError, match=f"a.txt is not text.*{hint}"):
            read(magic, **layout)


def test_bad_bytes_reject_one_record_and_name_the_byte(read: Callable[..., Read]) -> None:
    for head, tail, layout in (
        (b"", b"", {"format": "text", "document": "line"}),
        (b'{"text": "', b'"}', {"format": "jsonl"}),
        (b"", b"", {"format": "tsv", "header": ["text"]}),
        (b'"', b'"', {"format": "csv", "header": ["text"]}),
    ):
        rows = [head + text + tail for text in ("好".encode(), b"ab\xffcd", "坏".encode())]
        got = read(b"\n".join(rows), **layout)
        assert got.texts == ["好", "坏"]
        (reject,) = got.rejects
        assert (reject.reason, reject.path, reject.byte, reject.line) == (
            "bad_encoding",
            "a.txt",
            len(rows[0]) + 1,
            2,
        )
        at = len(head) + 2
        assert f"byte 0xff at offset {reject.byte + at} of the file ({at} of the record)" in reject.detail
        assert "ab\ufffdcd" in reject.excerpt
        json.loads(reject.to_json())


def test_other_encodings_are_decoded_line_by_line(read: Callable[..., Read]) -> None:
    for encoding in ("gbk", "gb18030", "big5"):
        text = "中文\t丂\\誠"  # trail bytes of some of these are ASCII
        try:
            raw = text.encode(encoding)
        except UnicodeEncodeError:
            text = "中文\t功\\許"
            raw = text.encode(encoding)
        got = read(
            raw + b"\n" + raw + b"\n\xff\xff\n" + raw,
            format="text",
            document="line",
            encoding=encoding,
            block_bytes=7,
        )
        assert got.texts == [text] * 3 and got.reasons == ["bad_encoding"]


# --- ranges -----------------------------------------------------------------------------------

_PIECES = st.lists(
    st.sampled_from(
        [
            "中",
            "国",
            "a",
            "b c",
            " ",
            "\t",
            "\n",
            "\n",
            "\n\n",
            "\r\n",
            "\r\n\r\n",
            " \n",
            "\u2028",
            "\x85",
            "\r",
            '"',
            ",",
            "B-X",
            "\n\n\n",
        ]
    ),
    max_size=30,
).map("".join)
_LAYOUTS: list[dict[str, Any]] = [
    {"format": "text", "document": "line"},
    {"format": "text", "document": "blank_line"},
    {"format": "jsonl"},
    {"format": "tsv", "header": ["text", "label"], "label": "label"},
    {"format": "tsv", "header": ["text"]},
    {"format": "conll"},
]


def _everything(read: Read) -> tuple[list[dict[str, Any]], list[Any], dict[str, int]]:
    return read.rows, read.rejects, dict(read.counts)


@settings(max_examples=150, deadline=None)
@given(_PIECES, st.sampled_from(_LAYOUTS), st.integers(1, 40), st.integers(1, 60), st.booleans())
def test_blocks_of_any_size_give_the_same_records(
    tmp_path_factory: pytest.TempPathFactory,
    text: str,
    layout: dict[str, Any],
    block_bytes: int,
    batch_bytes: int,
    bom: bool,
) -> None:
    if layout["format"] == "jsonl":
        rows = [
            json.dumps({"text": line}, ensure_ascii=False) if line.strip() else line
            for line in text.split("\n")
        ]
        text = "\n".join(rows)
    folder = tmp_path_factory.mktemp("blocks")
    (folder / "a").write_bytes((b"\xef\xbb\xbf" if bom else b"") + text.encode())
    task = "tag" if "label" in layout or layout["format"] == "conll" else "pretrain"
    config = InputConfig(files={"train": ["a"]}, **layout)
    whole = read_layout(config, folder, task, "zh", 1 << 20, 1 << 20)
    cut = read_layout(config, folder, task, "zh", block_bytes, batch_bytes)
    assert _everything(cut) == _everything(whole)
    ids = [row["doc_id"] for row in whole.rows]
    assert len(ids) == len(set(ids))
    for row in whole.rows:  # the id leads to the record
        at = int(row["source"].rpartition("@")[2])
        raw = (folder / "a").read_bytes()[at:].decode()
        if layout["format"] in ("text", "tsv") and task == "pretrain":
            assert raw.startswith(row["text"])


def test_real_files_cut_small_give_the_same_records(real_data: Path) -> None:
    layout = InputConfig(
        format="tsv", files={"dev": ["kbert/medical_ner/dev.tsv"]}, text="text_a", label="label"
    )
    whole = read_layout(layout, real_data, "tag", "zh", 1 << 30, 1 << 30)
    cut = read_layout(layout, real_data, "tag", "zh", 1500, 4000)
    assert cut.blocks > 100 and len(cut.tables) > 100
    assert _everything(cut) == _everything(whole)


def test_line_numbers_of_rejects_count_from_the_start_of_the_file(
    read: Callable[..., Read], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [b'{"text": "%d"}' % i if i % 7 else b"{bad" for i in range(100)]
    got = read(b"\r\n".join(rows), format="jsonl", block_bytes=50)
    assert got.blocks > 10
    assert [r.line for r in got.rejects] == [i + 1 for i in range(0, 100, 7)]
    monkeypatch.setattr(lines_module, "MAX_COUNTED", 40)
    got = read(b"\r\n".join(rows), format="jsonl", block_bytes=50)
    assert [r.line for r in got.rejects][:3] == [1, None, None]


# --- records that are too long ----------------------------------------------------------------


def test_a_record_that_is_too_long_is_rejected_and_never_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """64 MiB is a lot for a test: the same code with a limit of 300 KB and records of 9 MB."""
    import tracemalloc

    limit = 300_000
    for name in ("part_lines", "read_paragraphs", "read_lines"):
        monkeypatch.setitem(getattr(lines_module, name).__kwdefaults__, "limit", limit)
    huge = b"x" * 9_000_000
    many = b"y\n" * 160_000
    path = tmp_path / "a"
    for layout, body in (
        ({"format": "text", "document": "line"}, b"one\n" + huge + b"\ntwo\n"),
        ({"format": "text"}, b"one\n\n" + huge + b"\n\ntwo\n"),
        ({"format": "text"}, b"one\n\n" + many + b"\n\ntwo\n"),
        ({"format": "jsonl"}, b'{"text": "one"}\n{"text": "' + huge + b'"}\n{"text": "two"}'),
        ({"format": "tsv", "header": ["text"]}, b"one\n" + huge + b"\ntwo\n"),
        ({"format": "csv", "header": ["text"]}, b"one\n" + huge + b"\ntwo\n"),
        ({"format": "conll"}, b"one O\n\n" + huge + b"\n\ntwo O\n"),
    ):
        path.write_bytes(body)
        for block_bytes in (1 << 30, 2_000_000):
            config = InputConfig(files={"train": ["a"]}, **layout)
            tracemalloc.start()
            got = read_layout(config, tmp_path, "pretrain", "en", block_bytes, 1 << 20)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert got.texts == ["one", "two"], layout
            assert got.reasons == ["record_too_long"]
            assert got.rejects[0].byte == body.find(b"\n", 0, 20) + 1 + (b"\n\n" in body[:20])
            assert got.rejects[0].line is not None and len(got.rejects[0].excerpt) == 200
            assert peak < 27e6  # a chunk of 1 MiB is up to half a million lines


def test_a_compressed_bomb_is_rejected_in_bounded_memory(read: Callable[..., Read]) -> None:
    import resource

    body = gzip.compress(b"\0" * (200 << 20), 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for layout in ({"format": "jsonl"}, {"format": "text"}, {"format": "text", "document": "file"}):
        got = read(body, name="a.gz", **layout)
        assert got.reasons == ["record_too_long"] and not got.rows
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 320 << 10


# --- compressed files -------------------------------------------------------------------------


def test_compressed_files_read_as_their_content(read: Callable[..., Read]) -> None:
    body = "".join(f'{{"text": "第{i}行"}}\n' for i in range(3000)).encode()
    plain = read(body, name="a", format="jsonl")
    assert len(plain.rows) == 3000
    for name, data in (
        ("a.gz", gzip.compress(body[:6000]) + gzip.compress(body[6000:])),
        ("a.bz2", bz2.compress(body[:6001]) + bz2.compress(body[6001:])),
        ("a.zst", zstandard.compress(body[:5]) + zstandard.compress(body[5:])),
    ):
        got = read(data, name=name, format="jsonl", block_bytes=100)
        assert got.texts == plain.texts and got.rows[7]["source"] == plain.rows[7]["source"].replace(
            "a@", f"{name}@"
        )


def test_c22_truncated_and_multi_member_corpora(read: Callable[..., Read]) -> None:
    body = b"".join(b'{"text": "line %d"}\n' % i for i in range(5000))
    whole = gzip.compress(body)
    with pytest.raises(files.CorruptFileError, match=r"a\.gz is truncated.*[\d,]+ decompressed bytes"):
        read(whole[:-20], name="a.gz", format="jsonl")
    assert len(read(whole + whole, name="a.gz", format="jsonl").rows) == 10_000
    assert len(read(bz2.compress(body) * 2, name="a.bz2", format="jsonl").rows) == 10_000
    for empty in (b"", gzip.compress(b"", mtime=0)):
        got = read(empty, name="a.gz", format="jsonl")
        assert not got.rows and not got.rejects and got.blocks == 1


def test_lines_is_what_bytes_split_gives() -> None:
    (found,) = read_lines(io.BytesIO(b"a\r\n\nb"), 0, 3)
    assert found == Lines([0], [b"a\r"], 0, True, True) and isinstance(found, Lines)
