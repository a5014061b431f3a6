"""Labelled sequences: separated columns (TSV) and a token a line (CoNLL)."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.layout import InputConfig
from tests.corpora.conftest import Read, read_layout

TAG: dict[str, Any] = {"format": "tsv", "header": ["text", "label"], "label": "label", "task": "tag"}
CONLL: dict[str, Any] = {"format": "conll", "task": "tag"}


def test_source_tokens_have_exact_offsets(read: Callable[..., Read]) -> None:
    body = "北 京 2020 年\tB-LOC I-LOC O O\nA bc d\tO B-X I-X".encode()
    for joiner, language, texts in (
        (None, "zh", ["北京2020年", "Abcd"]),
        (None, "en", ["北 京 2020 年", "A bc d"]),
        ("", "en", ["北京2020年", "Abcd"]),
        ("::", "zh", ["北::京::2020::年", "A::bc::d"]),
    ):
        got = read(body, joiner=joiner, corpus_language=language, **TAG)
        assert got.texts == texts
        for row, tokens in zip(got.rows, (["北", "京", "2020", "年"], ["A", "bc", "d"]), strict=True):
            spans = zip(row["tag_starts"], row["tag_stops"], strict=True)
            assert [row["text"][a:b] for a, b in spans] == tokens
    assert got.rows[0]["tag_labels"] == ["B-LOC", "I-LOC", "O", "O"]
    assert got.rows[0]["label"] is None and got.rows[0]["text_pair"] is None


def test_c29_ragged_and_blank_rows(read: Callable[..., Read]) -> None:
    rows = [
        "甲 乙\tO O",
        "好\t",
        "中 国 人\tB-LOC I-LOC",
        "中  国\tB-LOC I-LOC",
        " 中 国 \t B-LOC  I-LOC ",
        "\tO",
        "中  国\tO O O",
        "丙\tO",
    ]
    got = read("\n".join(rows).encode(), block_bytes=9, **TAG)
    assert got.texts == ["甲乙", "中国", "中国", "丙"]
    assert [r["tag_labels"] for r in got.rows[1:3]] == [["B-LOC", "I-LOC"]] * 2
    assert [(r.line, r.reason) for r in got.rejects] == [
        (2, "missing_label"),
        (3, "unequal_counts"),
        (6, "empty_text"),
        (7, "unequal_counts"),
    ]
    assert got.rejects[1].detail.startswith("3 source tokens but 2 labels")
    assert all(label for row in got.rows for label in row["tag_labels"])


def test_c29_orphans_are_counted_and_kept_or_begun(read: Callable[..., Read]) -> None:
    rows = [
        "a b\tI-X I-X",
        "a b c d\tB-X I-Y I-Y I-X",
        "a b\tB-X I-X",
        "a b\tO I-X",
        "a b c\tB_X I-X O",
        "a b\tB I",
        "a b\tO I",
    ]
    body = "\n".join(rows).encode()
    keep = read(body, **TAG)
    begin = read(body, orphan_inside="begin", **TAG)
    assert [r["tag_labels"] for r in keep.rows] == [row.split("\t")[1].split(" ") for row in rows]
    assert [r["tag_labels"] for r in begin.rows] == [
        ["B-X", "I-X"],
        ["B-X", "B-Y", "I-Y", "B-X"],
        ["B-X", "I-X"],
        ["O", "B-X"],
        ["B_X", "I-X", "O"],
        ["B", "I"],
        ["O", "B"],
    ]
    assert keep.counts == begin.counts == {"orphan_inside": 5}
    assert read(b"a\tO\n", **TAG).counts == {}


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.lists(st.sampled_from(["O", "B-X", "I-X", "B-Y", "I-Y", "I"]), min_size=1, max_size=6),
        min_size=1,
        max_size=8,
    ),
    st.integers(1, 40),
)
def test_orphans_are_what_a_loop_finds(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], batch_bytes: int
) -> None:
    folder = tmp_path_factory.mktemp("orphans")
    (folder / "a").write_text("".join(f"{' '.join('t' * len(r))}\t{' '.join(r)}\n" for r in rows))
    layout = InputConfig(
        format="tsv", header=["text", "label"], label="label", orphan_inside="begin", files={"train": ["a"]}
    )
    got = read_layout(layout, folder, "tag", "en", 1000, batch_bytes)
    count = 0
    for row, labels in zip(got.rows, rows, strict=True):
        before = "O"
        for label, now in zip(labels, row["tag_labels"], strict=True):
            orphan = label[0] == "I" and (before == "O" or before[1:] != label[1:])
            assert now == ("B" + label[1:] if orphan else label)
            count += orphan
            before = label
    assert got.counts["orphan_inside"] == count


def test_another_separator(read: Callable[..., Read]) -> None:
    got = read(b"New York|is|big\tB-LOC|O|O", separator="|", corpus_language="en", **TAG)
    assert got.texts == ["New York is big"] and got.rows[0]["tag_starts"] == [0, 9, 12]
    with pytest.raises(ValueError, match="no line end"):
        InputConfig(format="tsv", files={"train": ["a"]}, separator="\n")


def test_no_separator_makes_every_character_a_token(read: Callable[..., Read]) -> None:
    for language in ("zh", "en"):
        got = read("A 北e\tOOBI".encode(), separator="", corpus_language=language, **TAG)
        assert got.texts == ["A 北e"] and got.rows[0]["tag_labels"] == list("OOBI")
        assert got.rows[0]["tag_starts"] == [0, 1, 2, 3]
    assert read("A北\tO".encode(), separator="", **TAG).reasons == ["unequal_counts"]


def test_c29_conll_blank_runs_are_one_boundary(read: Callable[..., Read]) -> None:
    got = read("北 B-LOC\n\n\n京 I-LOC\n".encode(), **CONLL)
    assert [(r["text"], r["tag_labels"]) for r in got.rows] == [("北", ["B-LOC"]), ("京", ["I-LOC"])]
    assert got.counts == {"orphan_inside": 1}
    begun = read("北 B-LOC\n\n\n京 I-LOC\n".encode(), orphan_inside="begin", **CONLL)
    assert begun.rows[1]["tag_labels"] == ["B-LOC"] and begun.counts == {"orphan_inside": 1}


def test_conll_columns(read: Callable[..., Read]) -> None:
    body = (
        "-DOCSTART- -X- -X- O\n\nEU NNP I-NP B-ORG\r\nrejects VBZ I-VP O\r\n \r\nNew York\tNNP\tB-LOC\n"
        "\u3000\tX\tO\n\n-DOCSTART-\nlast   O\n"
    )
    got = read(body.encode(), corpus_language="en", **CONLL)
    assert got.texts == ["EU rejects", "New York \u3000", "last"] and not got.rejects
    assert [r["tag_labels"] for r in got.rows] == [["B-ORG", "O"], ["B-LOC", "O"], ["O"]]
    assert got.rows[0]["doc_id"] == f"a.txt@{body.index('EU')}"
    # Without labels to learn, a column of tokens is text.
    got = read("北\n京\n\n好\n".encode(), format="conll", task="pretrain")
    assert got.texts == ["北京", "好"] and got.rows[0]["tag_labels"] is None
    with pytest.raises(ValueError, match="conll"):
        read(b"a O", format="conll", task="classify")


def test_conll_sentences_that_cannot_be_read_are_rejected(read: Callable[..., Read]) -> None:
    body = "甲 O\n\n乙\n丙 O\n\n丁\t\n\n\tO\n\n\u3000\tO\n\n戊 O".encode()
    got = read(body, block_bytes=4, **CONLL)
    assert got.texts == ["甲", "戊"]
    assert [(r.line, r.reason) for r in got.rejects] == [
        (3, "missing_label"),
        (6, "missing_label"),
        (8, "empty_token"),
        (10, "empty_text"),
    ]
    assert got.rejects[0].detail == "line 1 of the sentence has no label, and others have one: '乙'"
    assert got.rejects[1].detail.startswith("line 1 of the sentence has no label: '丁")
    assert got.rejects[1].detail.endswith("a test set without labels needs `input.label_optional: true`")


UNLABELLED = "北\n京\n\n好\t\n年\n\n甲 O\n乙\n\n\n丙 B-X\n".encode()


def test_a_conll_sentence_without_any_label_is_one_of_a_test_set(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(UNLABELLED)
    layout = InputConfig(format="conll", label_optional=True, files={"test": ["a"]})
    for block_bytes in (1 << 20, 4):
        got = read_layout(layout, tmp_path, "tag", "en", block_bytes, 1)
        assert got.texts == ["北 京", "好 年", "丙"]
        assert [r["tag_labels"] for r in got.rows] == [None, None, ["B-X"]]
        assert [(r["tag_starts"], r["tag_stops"]) for r in got.rows[:2]] == [([0, 2], [1, 3])] * 2
        assert [(r.line, r.reason) for r in got.rejects] == [(7, "missing_label")]
        assert "line 2 of the sentence has no label, and others have one: '乙'" in got.rejects[0].detail


@pytest.mark.parametrize(
    "keys", [{"files": {"train": ["a"]}}, {"files": {"own": ["a"]}, "train_splits": ["own"]}]
)
def test_a_conll_sentence_of_a_split_that_trains_has_its_labels(tmp_path: Path, keys: dict[str, Any]) -> None:
    (tmp_path / "a").write_bytes(UNLABELLED)
    layout = InputConfig(format="conll", label_optional=True, **keys)
    got = read_layout(layout, tmp_path, "tag", "en", 1 << 20, 1 << 20)
    assert got.texts == ["丙"] and got.reasons == ["missing_label"] * 3
    assert got.rejects[0].detail.endswith("only splits that do not train may lack it: name its split `test`")


def test_records_that_lack_their_labels_are_told_the_way_out(read: Callable[..., Read]) -> None:
    got = read("好\t\n".encode(), **TAG)
    assert got.rejects[0].detail.endswith("a test set without labels needs `input.label_optional: true`")


@pytest.mark.parametrize("format", ["tsv", "jsonl"])
def test_a_test_set_needs_no_field_of_labels(tmp_path: Path, format: str) -> None:
    body = {"tsv": "text\n北 京\n", "jsonl": '{"text": "北 京"}\n'}[format]
    (tmp_path / "a").write_text(body, encoding="utf-8")
    layout = InputConfig(format=format, label_optional=True, files={"test": ["a"]})
    (row,) = read_layout(layout, tmp_path, "tag", "zh", 1 << 20, 1 << 20).rows
    assert (row["text"], row["tag_starts"], row["tag_labels"]) == ("北京", [0, 1], None)
    (row,) = read_layout(layout, tmp_path, "classify", "zh", 1 << 20, 1 << 20).rows
    assert (row["text"], row["label"]) == ("北 京", None)


def test_many_sequences_in_many_batches(read: Callable[..., Read]) -> None:
    rng = random.Random(3)
    rows = [
        [rng.choice(["北", "ab", "c", "2020", "👍"]) for _ in range(rng.randint(1, 9))] for _ in range(300)
    ]
    body = "".join(f"{' '.join(r)}\t{' '.join(rng.choice('OBI') for _ in r)}\n" for r in rows).encode()
    got = read(body, batch_bytes=64, block_bytes=500, corpus_language="en", **TAG)
    assert len(got.tables) > 50 and len(got.rows) == 300
    for row, tokens in zip(got.rows, rows, strict=True):
        spans = zip(row["tag_starts"], row["tag_stops"], strict=True)
        assert [row["text"][a:b] for a, b in spans] == tokens


def test_real_corpus_as_columns_gives_the_same_sequences(real_data: Path, tmp_path: Path) -> None:
    path = real_data / "kbert/medical_ner/test.tsv"
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n")[1:] if line]
    blocks = ["".join(f"{t} {x}\n" for t, x in zip(a.split(" "), b.split(" "), strict=True)) for a, b in rows]
    (tmp_path / "a.conll").write_text("\n".join(blocks), encoding="utf-8")
    conll = InputConfig(format="conll", files={"test": ["a.conll"]})
    tsv = InputConfig(format="tsv", files={"test": [str(path)]}, text="text_a", label="label")
    one = read_layout(conll, tmp_path, "tag", "zh", 3000, 1 << 20)
    two = read_layout(tsv, tmp_path, "tag", "zh", 3000, 1 << 20)
    keys = ("text", "tag_starts", "tag_stops", "tag_labels")
    assert [[r[k] for k in keys] for r in one.rows] == [[r[k] for k in keys] for r in two.rows]
    assert len(one.rows) == len(rows) and one.counts == two.counts
