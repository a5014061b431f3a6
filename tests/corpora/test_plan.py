from __future__ import annotations

import dataclasses
import gzip
import os
from pathlib import Path

import pytest

from corpora.blocks import Block, Part
from corpora.layout import InputConfig
from corpora.plan import plan_blocks
from corpora.readers.columns import ColumnError


def _plan(folder: Path, block_bytes: int = 100, **layout: object) -> list[Block]:
    return plan_blocks(InputConfig.model_validate({"format": "jsonl", **layout}), str(folder), block_bytes)


def _ranges(blocks: list[Block]) -> list[list[tuple[str, int, int | None]]]:
    return [[(p.name, p.start, p.stop) for p in b.parts] for b in blocks]


def test_large_files_are_cut_evenly_and_small_ones_packed(tmp_path: Path) -> None:
    for name, size in {"a": 60, "b": 30, "c": 20, "d": 250, "e": 0, "f": 100, "g": 1}.items():
        (tmp_path / f"{name}.jsonl").write_bytes(b"x" * size)
    blocks = _plan(tmp_path, files="*.jsonl")
    assert _ranges(blocks) == [
        [("a.jsonl", 0, 60), ("b.jsonl", 0, 30)],
        [("c.jsonl", 0, 20)],
        [("d.jsonl", 0, 83)],
        [("d.jsonl", 83, 166)],
        [("d.jsonl", 166, 250)],
        [("f.jsonl", 0, 100)],
        [("g.jsonl", 0, 1)],
    ]
    assert [b.bytes for b in blocks] == [90, 20, 83, 83, 84, 100, 1]
    assert blocks[2].shard_name == "train-00002-of-00007.arrow" and {b.count for b in blocks} == {7}
    assert blocks[0].parts[0] == Part(str(tmp_path / "a.jsonl"), "a.jsonl", 0, 60)
    with pytest.raises(dataclasses.FrozenInstanceError):
        blocks[0].index = 1  # type: ignore[misc]


def test_what_cannot_be_entered_in_its_middle_stays_whole(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(os.urandom(500)))
    (tmp_path / "a.csv").write_bytes(b"text\n" + b"x" * 500)
    (tmp_path / "a.txt").write_bytes(b"x" * 500)
    assert _ranges(_plan(tmp_path, files="a.jsonl.gz")) == [[("a.jsonl.gz", 0, None)]]
    assert _ranges(_plan(tmp_path, files="a.csv", format="csv")) == [[("a.csv", 0, None)]]
    whole = _plan(tmp_path, files="a.txt", format="text", document="file")
    assert _ranges(whole) == [[("a.txt", 0, None)]]
    bank = {"files": "a.txt", "format": "conllu"}
    assert [len(_plan(tmp_path, document=d, **bank)) for d in ("blank_line", "newdoc", "file")] == [5, 1, 1]
    for document in ("line", "blank_line"):
        assert len(_plan(tmp_path, files="a.txt", format="text", document=document)) == 5


def test_compressed_files_weigh_what_they_hold(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.gz").write_bytes(b"x" * 30)
    assert len(_plan(tmp_path, 119, files="*.gz")) == 3
    assert len(_plan(tmp_path, 240, files="*.gz")) == 2


def test_splits_and_patterns_keep_the_order_of_the_config(tmp_path: Path) -> None:
    for name in ("z", "a", "m1", "m0"):
        (tmp_path / name).write_bytes(b"x")
    blocks = _plan(tmp_path, files={"test": "z", "train": ["m*", "./a"]})
    assert [b.split for b in blocks] == ["test", "train"]
    assert [p.name for p in blocks[1].parts] == ["m0", "m1", "./a"]
    assert [p.name for p in _plan(tmp_path / "..", files=f"{tmp_path}/a")[0].parts] == [f"{tmp_path}/a"]


def test_the_plan_does_not_depend_on_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(b"x" * 250)
    first = _plan(tmp_path, files="*")
    monkeypatch.chdir("/")
    assert _plan(tmp_path, files="*") == first


def test_a_split_of_empty_files_is_one_block_without_records(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    blocks = _plan(tmp_path, files="a")
    assert blocks == [Block("train", 0, 1, (), 0)]


def test_a_file_named_twice_in_a_split_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"x")
    for patterns in (
        ["a.jsonl", "*.jsonl"],
        ["a.jsonl", "./a.jsonl"],
        ["a.jsonl", str(tmp_path / "a.jsonl")],
    ):
        with pytest.raises(ValueError, match=r"named by 'a.jsonl' and by .*twice"):
            _plan(tmp_path, files=patterns)
    _plan(tmp_path, files={"train": "a.jsonl", "dev": "a.jsonl"})


def test_columns_are_checked_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(b"label\ttext_a\n1\tx\n")
    (tmp_path / "b.tsv").write_bytes(b"\xef\xbb\xbftext_a\tlable\r\nx\t1\r\n")
    (tmp_path / "c.tsv").write_bytes(b"label\tlabel\ttext_a\n")
    (tmp_path / "blank.tsv").write_bytes(b"\n\n")
    (tmp_path / "bare.tsv").write_bytes(b"x\t1\n")
    layout = {"format": "tsv", "text": "text_a", "label": "label"}
    assert len(_plan(tmp_path, files=["a.tsv", "blank.tsv"], **layout)) == 1
    with pytest.raises(ColumnError) as caught:
        _plan(tmp_path, files=["a.tsv", "b.tsv"], **layout)
    for part in ("b.tsv", "'label'", "input.label", "columns: 'text_a', 'lable'", "did you mean 'lable'?"):
        assert part in str(caught.value)
    with pytest.raises(ColumnError, match="2 times"):
        _plan(tmp_path, files="c.tsv", **layout)
    with pytest.raises(ColumnError, match=r"input.header has no column 'text_a'"):
        _plan(tmp_path, files="bare.tsv", **layout, header=["text", "label"])


@pytest.mark.parametrize(
    ("format_", "header", "message"),
    [
        ("csv", b"label\ttext_a\n", r"one column of TABs: 'label\\ttext_a'; is it a file of `format: tsv`\?"),
        ("tsv", b"label,text_a\n", r"one column of commas: 'label,text_a'; is it a file of `format: csv`\?"),
    ],
)
def test_a_table_read_with_the_other_separator_is_told(
    tmp_path: Path, format_: str, header: bytes, message: str
) -> None:
    (tmp_path / "a").write_bytes(header)
    with pytest.raises(ColumnError, match=message):
        _plan(tmp_path, files="a", format=format_, text="text_a", label="label")


def test_blocks_follow_the_size_of_the_corpus_by_default(tmp_path: Path) -> None:
    layout = InputConfig(format="jsonl", files={"train": ["a"]})
    for size, count in ((2**20, 1), (5 * 2**20, 5), (640 * 2**20, 80)):  # 1 MiB at least, 8 MiB at most
        with (tmp_path / "a").open("wb") as file:
            file.truncate(size)
        assert len(plan_blocks(layout, str(tmp_path))) == count


def test_missing_files_stop_the_plan(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no\*\.txt"):
        _plan(tmp_path, files="no*.txt")
    with pytest.raises(ValueError, match="block_bytes"):
        _plan(tmp_path, 0, files="no*.txt")


@pytest.mark.parametrize(
    "encoding", ["utf-16", "utf-16-le", "utf-7", "iso2022_jp", "hz", "cp037", "unicode_escape"]
)
def test_encodings_that_cannot_be_cut_at_line_ends_are_refused(encoding: str) -> None:
    with pytest.raises(ValueError, match=f"iconv -f {encoding} -t UTF-8"):
        InputConfig(format="text", files={"train": ["a"]}, encoding=encoding)


@pytest.mark.parametrize("encoding", ["gbk", "gb18030", "big5", "shift_jis", "cp1252", "utf-8", "utf-8-sig"])
def test_encodings_that_hold_ascii_are_known(encoding: str) -> None:
    assert InputConfig(format="text", files={"train": ["a"]}, encoding=encoding).encoding
    with pytest.raises(ValueError, match="unknown encoding"):
        InputConfig(format="text", files={"train": ["a"]}, encoding="utf-ate")


@pytest.mark.parametrize(
    ("key", "value", "format_"),
    [
        ("document", "line", "jsonl"),
        ("header", ["text"], "jsonl"),
        ("id", "id", "text"),
        ("text", "body", "text"),
        ("separator", "|", "conll"),
    ],
)
def test_settings_a_format_cannot_heed_are_errors(key: str, value: object, format_: str) -> None:
    with pytest.raises(ValueError, match=f"{key!r} is for format"):
        InputConfig.model_validate({"format": format_, "files": "a", key: value})
