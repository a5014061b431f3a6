"""Source and target files."""

from __future__ import annotations

import bz2
import gzip
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora import parallel
from corpora.blocks import Block
from corpora.layout import InputConfig
from corpora.parallel import PairError, target_of
from corpora.plan import plan_blocks
from corpora.readers import lines
from tests.corpora.conftest import Read, read_layout

ReadPair = Callable[..., Read]


@pytest.fixture
def read_pair(tmp_path: Path) -> ReadPair:
    """`read_pair(source, target)`: write both files, plan them, read every block."""

    def run(source: str | bytes, target: str | bytes, block_bytes: int = 1 << 20, **layout: Any) -> Read:
        for name, body in (("a.src", source), ("a.tgt", target)):
            (tmp_path / name).write_bytes(body if isinstance(body, bytes) else body.encode())
        config = InputConfig(format="parallel", files={"train": "a.src"}, **layout)
        return read_layout(config, tmp_path, "seq2seq", "en", block_bytes, 1 << 20)

    return run


def pairs(got: Read) -> list[tuple[str, str]]:
    return [(row["text"], row["text_pair"]) for row in got.rows]


def test_line_n_belongs_to_line_n(read_pair: ReadPair) -> None:
    got = read_pair("\ufeffa b\r\nc\nlast", "A\r\nB\u2028B\x85\x0c\nLast\n")
    assert pairs(got) == [("a b", "A"), ("c", "B\u2028B\x85\x0c"), ("last", "Last")] and not got.rejects
    assert [r["doc_id"] for r in got.rows] == ["a.src@3", "a.src@8", "a.src@10"]
    assert all(r["label"] is None for r in got.rows)


def test_c10_c33_an_empty_side_drops_the_pair_and_shifts_nothing(read_pair: ReadPair) -> None:
    for block_bytes in (1 << 20, 4):
        got = read_pair("a\n\nc\n \t\n\ne\u3000\n", "A\nB\n\n \r\n\u3000\nE\n", block_bytes)
        assert pairs(got) == [("a", "A"), ("e\u3000", "E")]
        assert [(r.line, r.reason, r.byte, r.path) for r in got.rejects] == [
            (2, "empty_text", 2, "a.src"),
            (3, "empty_text", 3, "a.src"),
        ]
        assert got.rejects[0].detail == "line 2 of a.src is empty, line 2 of a.tgt is not"
        assert got.rejects[1].detail == "line 3 of a.tgt is empty, line 3 of a.src is not"


def test_c10_other_counts_stop_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "a.src").write_bytes("甲\n\n乙\u2029丙\n丁".encode())
    (tmp_path / "a.tgt").write_bytes(b"a\n\nb\nc\nd\n")
    layout = InputConfig(format="parallel", files={"train": "a.src"})
    for block_bytes in (1 << 20, 3):
        with pytest.raises(PairError, match=r"a\.src has 4 lines but a\.tgt has 5; line n of the one"):
            plan_blocks(layout, str(tmp_path), block_bytes)
    (tmp_path / "a.tgt").write_bytes(b"")
    with pytest.raises(PairError, match=r"has 4 lines but a\.tgt has 0"):
        plan_blocks(layout, str(tmp_path))
    (tmp_path / "a.src").write_bytes(b"")
    (block,) = plan_blocks(layout, str(tmp_path))
    assert block.parts == ()


def test_the_target_must_be_there_when_the_run_is_planned(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_bytes(b"a\n")
    layout = InputConfig(format="parallel", files={"train": "*.en"}, suffixes=(".en", ".zh"))
    with pytest.raises(FileNotFoundError, match=r"'a\.en' has no target file: expected 'a\.zh'"):
        plan_blocks(layout, str(tmp_path))
    (tmp_path / "a.zh").write_bytes("甲\n".encode())
    assert plan_blocks(layout, str(tmp_path))[0].parts[0].pair is not None
    every = layout.model_copy(update={"files": {"train": ["a.*"]}})
    with pytest.raises(PairError, match=r"'a\.zh' is a target file; write a pattern such as '\*\.en'"):
        plan_blocks(every, str(tmp_path))


def test_names_of_targets() -> None:
    assert target_of("d/train.src", (".src", ".tgt")) == "d/train.tgt"
    assert target_of("train.src.gz", (".src", ".tgt")) == "train.tgt.gz"
    assert target_of("gs://b/x.en.zst", (".en", ".zh")) == "gs://b/x.zh.zst"
    assert target_of("a.src.src", (".src", ".tgt")) == "a.src.tgt"
    with pytest.raises(PairError, match="does not end so"):
        target_of("train.txt", (".src", ".tgt"))


@pytest.mark.parametrize(
    ("ending", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".zst", zstandard.compress)]
)
def test_compressed_pairs(tmp_path: Path, ending: str, pack: Callable[[bytes], bytes]) -> None:
    source = [f"s{i}" for i in range(500)]
    (tmp_path / f"a.src{ending}").write_bytes(pack("\n".join(source).encode()))
    (tmp_path / f"a.tgt{ending}").write_bytes(pack("".join(f"{s.upper()}\n" for s in source).encode()))
    layout = InputConfig(format="parallel", files={"train": f"a.src{ending}"})
    got = read_layout(layout, tmp_path, "seq2seq", "en", 100, 300)
    assert pairs(got) == [(s, s.upper()) for s in source] and got.blocks == 1 and len(got.tables) > 5
    for count in (497, 510):
        (tmp_path / f"a.tgt{ending}").write_bytes(pack(b"x\n" * count))
        with pytest.raises(PairError, match=rf"a\.src{ending} has 500 lines but a\.tgt{ending} has {count}"):
            read_layout(layout, tmp_path, "seq2seq", "en", 100, 300)


def test_bad_sides_name_their_file(read_pair: ReadPair, monkeypatch: pytest.MonkeyPatch) -> None:
    got = read_pair(b"a\nb\nc\n", b"A\n\xffB\nC\n")
    assert pairs(got) == [("a", "A"), ("c", "C")]
    (reject,) = got.rejects
    assert (reject.reason, reject.line, reject.excerpt) == ("bad_encoding", 2, "b")
    assert reject.detail == "a.tgt: byte 0xff at offset 2 of the file (0 of the record) is not valid utf-8"
    monkeypatch.setattr(lines.part_lines, "__kwdefaults__", {"numbers": None, "limit": 10})
    for source, target, where in (
        ("a\nb\nc", "A\n" + "B" * 99 + "\nC", "a.tgt"),
        ("a\n" + "b" * 99 + "\nc", "A\nB\nC", "a.src"),
    ):
        got = read_pair(source, target)
        assert pairs(got) == [("a", "A"), ("c", "C")]
        assert [(r.reason, r.line) for r in got.rejects] == [("record_too_long", 2)]
        assert f"the line of {where} is longer" in got.rejects[0].detail


def test_another_encoding(read_pair: ReadPair) -> None:
    got = read_pair("源\n".encode("gb18030"), "标\n".encode("gb18030"), encoding="gb18030")
    assert pairs(got) == [("源", "标")]


def test_a_target_that_changes_after_planning_stops_the_run(tmp_path: Path) -> None:
    (tmp_path / "a.src").write_bytes(b"s\n" * 20)
    (tmp_path / "a.tgt").write_bytes(b"t\n" * 20)
    layout = InputConfig(format="parallel", files={"train": "a.src"})
    blocks = plan_blocks(layout, str(tmp_path), 30)
    (tmp_path / "a.tgt").write_bytes(b"t" * 20 + b"\n" * 20)
    with pytest.raises(PairError, match="was changed since the run was planned"):
        _read(blocks, layout)


def _read(blocks: list[Block], layout: InputConfig) -> list[dict[str, Any]]:
    from corpora.readers import read_block

    rows = []
    for block in blocks:
        again = Block.from_json(block.to_json())  # as it crosses a runner
        assert again == block
        for table in read_block(again, layout, "seq2seq", "en", lambda reject: None):
            rows += table.to_pylist()
    return rows


_LINE = st.text(st.sampled_from("ab中\u2028\r "), max_size=6)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(_LINE, _LINE), max_size=12),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.integers(1, 40),
    st.integers(1, 9),
)
def test_any_cut_gives_the_same_pairs(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[tuple[str, str]],
    end: str,
    ended: bool,
    block_bytes: int,
    chunk: int,
) -> None:
    folder = tmp_path_factory.mktemp("parallel")
    sides = []
    for side in (0, 1):
        body = "".join(record[side] + end for record in records)
        # An empty last line that nothing ends is no line at all.
        whole = ended or not records or not records[-1][0] or not records[-1][1]
        sides.append((body if whole else body.removesuffix(end)).encode())
    for name, body in zip(("a.src", "a.tgt"), sides, strict=True):
        (folder / name).write_bytes(body)
    layout = InputConfig(format="parallel", files={"train": "a.src"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "CHUNK", chunk)
        blocks = plan_blocks(layout, str(folder), block_bytes)
    rows = _read(blocks, layout)
    expected, at = [], 0
    for source, target in zip(*(_split(body) for body in sides), strict=True):
        if source.strip() and target.strip():
            expected.append((f"a.src@{at}", source, target))
        at = sides[0].find(b"\n", at) + 1
    assert [(r["doc_id"], r["text"], r["text_pair"]) for r in rows] == expected
    assert sum(block.bytes for block in blocks) == sum(map(len, sides))


def _split(body: bytes) -> list[str]:
    """Lines by the letter, without this project's help."""
    if not body:
        return []
    ended = body.endswith(b"\n")
    found = body.removesuffix(b"\n").split(b"\n")
    return [
        (line.removesuffix(b"\r") if ended or i < len(found) - 1 else line).decode()
        for i, line in enumerate(found)
    ]


@settings(max_examples=200, deadline=None)
@given(
    st.binary(max_size=30).map(lambda b: bytes(b"\na"[c % 2] for c in b)),
    st.sets(st.integers(1, 30)),
    st.integers(1, 9),
)
def test_ranges_begin_with_the_first_line_past_their_edge(
    tmp_path_factory: pytest.TempPathFactory, body: bytes, edges: set[int], chunk: int
) -> None:
    path = tmp_path_factory.mktemp("edges") / "a"
    path.write_bytes(body)
    starts = [0, *(i + 1 for i, byte in enumerate(body) if byte == ord("\n"))]
    starts = [s for s in starts if s < len(body)]
    rising = sorted(e for e in edges if e < len(body))
    first = sorted({next((s for s in starts if s >= edge), None) for edge in rising} - {None})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "CHUNK", chunk)
        marks, lines = parallel._starts_of_ranges(str(path), rising)
        places, again = parallel._starts_of_lines(str(path), [line for _, line in marks])
    assert marks == [(start, starts.index(start)) for start in first]
    assert places == first and lines == again == len(starts)


def test_blocks_are_even_in_both_files(tmp_path: Path) -> None:
    chance = random.Random(3)
    source = [("s" * chance.randrange(200)) + "." for _ in range(3000)]
    target = [("t" * chance.randrange(50)) + "." for _ in range(3000)]
    (tmp_path / "a.src").write_text("\n".join(source) + "\n")
    (tmp_path / "a.tgt").write_text("\n".join(target) + "\n")
    layout = InputConfig(format="parallel", files={"train": "a.src"})
    blocks = plan_blocks(layout, str(tmp_path), 20_000)
    assert (
        len(blocks) > 15 and max(b.bytes for b in blocks) < 25_000 and min(b.bytes for b in blocks) > 15_000
    )
    rows = _read(blocks, layout)
    assert [(r["text"], r["text_pair"]) for r in rows] == list(zip(source, target, strict=True))
