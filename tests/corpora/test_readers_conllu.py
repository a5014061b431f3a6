"""Treebanks: sentences and documents with the words and trees that they bring."""

from __future__ import annotations

import bz2
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.layout import InputConfig
from corpora.readers import lines as lines_module
from tests.corpora.conftest import Read, read_layout


def word(id_: object, form: str, head: object = "_", rel: str = "_", misc: str = "_", pos: str = "_") -> str:
    return "\t".join(
        (str(id_), form, "_", pos, pos.lower() if pos != "_" else "_", "_", str(head), rel, "_", misc)
    )


DONT_GO = "\n".join(
    (
        "# sent_id = a",
        "# text = Don't go.",
        word("1-2", "Don't"),
        word(1, "Do", 3, "aux", pos="AUX"),
        word(2, "n't", 3, "advmod", pos="PART"),
        word(3, "go", 0, "root", "SpaceAfter=No", "VERB"),
        word("3.1", "there"),
        word(4, ".", 3, "punct", pos="PUNCT"),
    )
)
AU_LIT = "\n".join(
    (
        "# text = Va au lit !",
        word(1, "Va", 0, "root", pos="VERB"),
        word("2-3", "au"),
        word(2, "à", 4, "case", pos="ADP"),
        word(3, "le", 4, "det", pos="DET"),
        word(4, "lit", 1, "obl", pos="NOUN"),
        word(5, "!", 1, "punct", pos="PUNCT"),
    )
)
ANNOTATIONS = [
    "sentence_starts",
    "sentence_stops",
    "word_starts",
    "word_stops",
    "word_heads",
    "word_deprels",
    "word_pos",
]


@pytest.fixture
def read_bank(read: Callable[..., Read]) -> Callable[..., Read]:
    def run(text: str | bytes, **layout: Any) -> Read:
        data = text if isinstance(text, bytes) else text.encode()
        return read(data, format="conllu", **{"corpus_language": "en", "name": "a.conllu", **layout})

    return run


@pytest.mark.parametrize("end", ["", "\n", "\n\n\n", "\r\n\r\n"])
def test_c28_ranges_and_empty_nodes(read_bank: Callable[..., Read], end: str) -> None:
    text = DONT_GO.replace("\n", "\r\n") if "\r" in end else DONT_GO
    got = read_bank(text + end)
    (row,) = got.rows
    assert {name: row[name] for name in ANNOTATIONS} == {
        "sentence_starts": [0],
        "sentence_stops": [9],
        "word_starts": [0, 2, 6, 8],
        "word_stops": [2, 5, 8, 9],
        "word_heads": [2, 2, 2, 2],
        "word_deprels": ["aux", "advmod", "root", "punct"],
        "word_pos": ["AUX", "PART", "VERB", "PUNCT"],
    }
    assert (row["text"], row["doc_id"], row["source"]) == ("Don't go.", "a.conllu@0", "a.conllu@0")
    assert row["tag_labels"] is None and row["word_heads_pair"] is None
    assert got.counts == {"empty_nodes": 1} and not got.rejects


def test_c28_the_rest(read_bank: Callable[..., Read]) -> None:
    # `5-5`, with and without the word's own line; a form with an inner space; no `# text`.
    got = read_bank(word("1-1", "x y", 0, "root") + "\n" + word(2, "z", 1, "dep", "SpaceAfter=No"))
    assert got.texts == ["x y z"] and got.counts == {"single_word_ranges": 1}
    assert (got.rows[0]["word_starts"], got.rows[0]["word_stops"]) == ([0, 4], [3, 5])
    # HEAD `_` on any word: the sentence has no parse, its words stay.
    for head in ("_", 0):
        (row,) = read_bank(word(1, "a", head) + "\n" + word(2, "b")).rows
        assert row["word_starts"] == [0, 2] and row["word_heads"] is None and row["word_deprels"] is None
        assert row["word_pos"] is None
    # In a document where another sentence has one, it is marked with -1.
    (row,) = read_bank(AU_LIT + "\n\n" + word(1, "a") + "\n\n" + AU_LIT, document="file").rows
    assert row["word_heads"] == [0, 2, 0, 0, -1, 5, 7, 5, 5]
    assert row["word_deprels"][4] == "" and row["word_pos"][4] == ""
    assert row["doc_id"] == "a.conllu"


def test_words_that_do_not_spell_their_token_become_one(read_bank: Callable[..., Read]) -> None:
    got = read_bank(AU_LIT, task="tag")
    (row,) = got.rows
    assert [row["text"][a:b] for a, b in zip(row["word_starts"], row["word_stops"], strict=True)] == [
        "Va",
        "au",
        "lit",
        "!",
    ]
    assert row["word_heads"] == [0, 2, 0, 0]
    assert row["word_deprels"] == ["root", "case", "obl", "punct"]
    assert row["tag_labels"] == row["word_pos"] == ["VERB", "ADP", "NOUN", "PUNCT"]
    assert got.counts == {"multiwords_merged": 1}


def test_one_tree_a_sentence_and_a_relation_a_word(read_bank: Callable[..., Read]) -> None:
    rows = [word(1, "a", 2, "x"), word(2, "b", 0), word(3, "c", 0, "root"), word(4, "d", 3)]
    got = read_bank("\n".join(rows))
    assert got.rows[0]["word_heads"] == [1, 1, 1, 2]
    assert got.rows[0]["word_deprels"] == ["x", "root", "dep", "dep"]
    assert got.counts == {"extra_roots": 1}


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        (None, ["AUX", "PART", "VERB", "PUNCT"]),
        ("upos", ["AUX", "PART", "VERB", "PUNCT"]),
        ("xpos", ["aux", "part", "verb", "punct"]),
        ("deprel", ["aux", "advmod", "root", "punct"]),
    ],
)
def test_labels_of_words(read_bank: Callable[..., Read], label: str | None, expected: list[str]) -> None:
    (row,) = read_bank(DONT_GO, task="tag", label=label).rows
    assert row["tag_labels"] == expected
    assert (row["tag_starts"], row["tag_stops"]) == (row["word_starts"], row["word_stops"])
    got = read_bank(DONT_GO + "\n\n" + word(1, "a", 0), task="tag", label=label)
    assert got.texts == ["Don't go."] and got.reasons == ["missing_label"]
    assert (got.rejects[0].line, "word 1" in got.rejects[0].detail) == (10, True)


def test_settings_that_make_no_sense_are_errors() -> None:
    for keys, message in (
        ({"label": "pos"}, "upos, xpos, deprel; found 'pos'"),
        ({"id": "newdoc"}, "sent_id; found 'newdoc'"),
        ({"id": "sent_id", "document": "newdoc"}, "newdoc; found 'sent_id'"),
        ({"id": "newdoc", "document": "file"}, "a file's id is its path; found 'newdoc'"),
        ({"document": "line"}, "blank_line, newdoc, file; found 'line'"),
    ):
        with pytest.raises(ValueError, match=message):
            InputConfig.model_validate({"format": "conllu", "files": "a", **keys})
    with pytest.raises(ValueError, match="document: with format 'text' it can be file, line, blank_line"):
        InputConfig.model_validate({"format": "text", "files": "a", "document": "newdoc"})


# --- documents --------------------------------------------------------------------------------


def _sentences(*texts: str, marks: dict[int, str] | None = None) -> str:
    """One-word sentences; a text that ends in `|` has SpaceAfter=No."""
    blocks = []
    for i, text in enumerate(texts):
        mark = [(marks or {})[i]] if i in (marks or {}) else []
        misc = "SpaceAfter=No" if text.endswith("|") else "_"
        blocks.append("\n".join([*mark, word(1, text.rstrip("|"), 0, "root", misc, "X")]))
    return "\n\n".join(blocks)


def test_documents_are_joined_as_the_treebank_says(read_bank: Callable[..., Read]) -> None:
    marks = {0: "# newdoc id = d0", 2: "# newpar", 4: "# newdoc", 5: "# newpar id = p"}
    text = _sentences("A", "b|", "c|", "d", "E", "f", "g", marks=marks)
    got = read_bank(text, document="newdoc")
    assert got.texts == ["A b\ncd", "E\nf g"]
    assert [row["sentence_starts"] for row in got.rows] == [[0, 2, 4, 5], [0, 2, 4]]
    assert [row["word_starts"] for row in got.rows] == [[0, 2, 4, 5], [0, 2, 4]]
    assert [row["word_heads"] for row in got.rows] == [[0, 1, 2, 3], [0, 1, 2]]
    assert read_bank(text, document="newdoc", corpus_language="zh").texts == ["Ab\ncd", "E\nfg"]
    assert read_bank(text, document="file").texts == ["A b\ncd\nE\nf g"]
    assert read_bank(text, document="blank_line").texts == list("AbcdEfg")
    # A mark may stand before a blank line, and what comes before the first mark is a document, too.
    assert read_bank("# global.columns = x\n\n" + _sentences("A", "b") + "\n\n# newdoc\n\n" + _sentences("C")
                     , document="newdoc").texts == ["A b", "C"]  # fmt: skip


def test_a_bad_sentence_costs_itself_alone(read_bank: Callable[..., Read]) -> None:
    bad = "# newdoc id = d1\n# x\n" + word(1, "bad", 7, "root")
    text = "\n\n".join((_sentences("A"), bad, _sentences("B", "c")))
    for document, texts in (("blank_line", ["A", "B", "c"]), ("newdoc", ["A", "B c"]), ("file", ["A\nB c"])):
        for block_bytes in (20, 1 << 20):
            got = read_bank(text, document=document, block_bytes=block_bytes)
            assert got.texts == texts  # the mark on the bad sentence counts
            (reject,) = got.rejects
            assert (reject.reason, reject.line, reject.byte) == ("bad_conllu", 5, text.index("# newdoc"))
            assert "HEAD '7' of word 1" in reject.detail and reject.excerpt.startswith("# newdoc")


@pytest.mark.parametrize(
    ("bad", "reason", "line"),
    [
        (b"1 a _ _ _ _ 0 root _ _", "bad_conllu", 3),
        (b"# text = ab\n" + word(1, "b", 0).encode(), "bad_conllu", 4),
        (word(1, "a", 2).encode() + b"\n" + word(2, "b", 1).encode(), "bad_conllu", 3),
        (word(1, "\u3000", 0).encode(), "empty_token", 3),
        (word(1, "a", 0).encode().replace(b"a", b"\xff"), "bad_encoding", 3),
        (word(1, "x" * (4 << 20), 0).encode(), "record_too_long", 3),
        (word("1" * 5000, "a", 0).encode(), "bad_conllu", 3),
        (word(1, "a", "9" * 5000).encode(), "bad_conllu", 3),
        (word("1-" + "9" * 5000, "a", 0).encode(), "bad_conllu", 3),
    ],
)
def test_bad_sentences_name_the_line(
    read_bank: Callable[..., Read], bad: bytes, reason: str, line: int
) -> None:
    good = word(1, "ok", 0).encode()
    got = read_bank(good + b"\n\n" + bad + b"\n\n" + good)
    assert got.texts == ["ok", "ok"]
    assert [(r.reason, r.line, r.byte) for r in got.rejects] == [(reason, line, len(good) + 2)]
    json.loads(got.rejects[0].to_json())


@pytest.mark.parametrize("said", ["ab", "b c"])
def test_a_wrong_text_is_told_at_a_line_of_the_file_alone(read_bank: Callable[..., Read], said: str) -> None:
    good = word(1, "ok", 0)
    (reject,) = read_bank(f"{good}\n\n# text = {said}\n{word(1, 'b', 0)}\n").rejects
    assert reject.line == 4 and "`# text`" in reject.detail
    assert "line" not in reject.detail


def test_a_document_that_is_too_long_is_rejected_and_not_held(
    read_bank: Callable[..., Read], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corpora.readers.conllu.MAX_RECORD_BYTES", 100)
    text = _sentences("a", *["b"] * 20, "c", marks={1: "# newdoc", 21: "# newdoc"})
    got = read_bank(text, document="newdoc")
    assert got.texts == ["a", "c"] and got.reasons == ["record_too_long"]
    assert got.rejects[0].line == 3


# --- ids --------------------------------------------------------------------------------------


def test_ids_are_unique_whatever_the_treebank_says(read_bank: Callable[..., Read], tmp_path: Path) -> None:
    for name in ("x.conllu", "y.conllu"):
        (tmp_path / name).write_text(DONT_GO + "\n\n" + DONT_GO)
    layout = InputConfig.model_validate({"format": "conllu", "files": "*.conllu"})
    ids = [row["doc_id"] for row in read_layout(layout, tmp_path, "pretrain", "en", 50, 100).rows]
    assert len(set(ids)) == 4 and ids[0] == "x.conllu@0"


def test_ids_of_the_treebank_where_asked_for(read_bank: Callable[..., Read]) -> None:
    got = read_bank(DONT_GO + "\n\n" + AU_LIT, id="sent_id")
    assert [row["doc_id"] for row in got.rows] == ["a"] and got.rows[0]["source"] == "a.conllu@0"
    assert got.reasons == ["missing_id"] and got.rejects[0].line == 10
    text = _sentences("A", "b", "c", marks={1: "# newdoc id = d1"})
    got = read_bank(text, id="newdoc", document="newdoc")
    assert [(row["doc_id"], row["text"]) for row in got.rows] == [("d1", "b c")]
    assert got.reasons == ["missing_id"] and got.rejects[0].line == 1


# --- blocks -----------------------------------------------------------------------------------

_PIECES = st.lists(
    st.sampled_from(
        [
            DONT_GO,
            AU_LIT,
            "# newdoc id = d",
            "# newpar",
            "\n\n",
            "\n\n",
            "\n\n",
            "\n",
            "\r\n\r\n",
            " \n",
            "\t\n",
            word(1, "是", 0, "root", "SpaceAfter=No", "VERB"),
            word(2, "e\u2028\u0085", 1, "x"),
            word(1, "a"),
            "broken",
        ]
    ),
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(_PIECES, st.integers(1, 400), st.integers(1, 400), st.sampled_from(["pretrain", "tag"]), st.booleans())
def test_blocks_of_any_size_give_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory,
    pieces: list[str],
    block_bytes: int,
    batch_bytes: int,
    task: str,
    mark: bool,
) -> None:
    folder = tmp_path_factory.mktemp("conllu")
    raw = (b"\xef\xbb\xbf" if mark else b"") + "".join(pieces).encode()
    (folder / "a").write_bytes(raw)
    for document in ("blank_line", "newdoc"):
        layout = InputConfig.model_validate({"format": "conllu", "files": "a", "document": document})
        whole = read_layout(layout, folder, task, "zh", 1 << 20, 1 << 20)
        cut = read_layout(layout, folder, task, "zh", block_bytes, batch_bytes)
        assert (cut.rows, cut.rejects, cut.counts) == (whole.rows, whole.rejects, whole.counts)
        assert len({row["doc_id"] for row in whole.rows}) == len(whole.rows)
        for row in whole.rows:
            _check_annotations(row)
    for row in read_layout(
        InputConfig.model_validate({"format": "conllu", "files": "a"}), folder, task, "zh", 1 << 20, 1 << 20
    ).rows:  # the id leads to the sentence
        at = int(row["source"].rpartition("@")[2])
        assert raw[at - 1 : at] in (b"", b"\n", b"\xbf") and raw[at : at + 1] not in (b"\n", b" ", b"\r")


def _check_annotations(row: dict[str, Any]) -> None:
    """What `verify` asks of annotated documents: words tile the ink, sentences hold them, one tree in each."""
    text, starts, stops = row["text"], row["word_starts"], row["word_stops"]
    covered = np.zeros(len(text), int)
    for a, b in zip(starts, stops, strict=True):
        covered[a:b] += 1
        assert not text[a:b].isspace()
    assert covered.max() == 1 and all(c or ch.isspace() for c, ch in zip(covered, text, strict=True))
    assert starts == sorted(starts)
    sentence = np.searchsorted(row["sentence_starts"], starts, side="right") - 1
    assert (np.array(stops) <= np.array(row["sentence_stops"])[sentence]).all()
    heads = row["word_heads"]
    if heads is None:
        return
    for s in range(len(row["sentence_starts"])):
        own = np.flatnonzero(sentence == s).tolist()
        if any(heads[w] == -1 for w in own):
            assert all(heads[w] == -1 for w in own)
            continue
        assert sum(heads[w] == w for w in own) == 1
        for w in own:
            for _ in own:
                w = heads[w]
                assert w in own
            assert heads[w] == w


def test_compressed_treebanks(read_bank: Callable[..., Read]) -> None:
    raw = ("\n\n".join([DONT_GO, AU_LIT] * 50)).encode()
    plain = read_bank(raw, document="newdoc").texts + read_bank(raw).texts
    for name, data in (
        ("a.gz", gzip.compress(raw)),
        ("a.bz2", bz2.compress(raw)),
        ("a.zst", zstandard.compress(raw)),
    ):
        got = (
            read_bank(data, name=name, document="newdoc").texts
            + read_bank(data, name=name, block_bytes=50).texts
        )
        assert got == plain
    with pytest.raises(ValueError, match=r"a\.gz is truncated"):
        read_bank(gzip.compress(raw)[:-9], name="a.gz")


def test_line_numbers_far_into_a_file(
    read_bank: Callable[..., Read], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "\n\n".join([DONT_GO] * 5 + ["bad"])
    assert read_bank(text, block_bytes=60).rejects[0].line == 46
    monkeypatch.setattr(lines_module, "MAX_COUNTED", 10)
    assert read_bank(text, block_bytes=60).rejects[0].line is None


@pytest.mark.parametrize(
    ("name", "language", "sentences", "documents"),
    [
        ("en_ewt/dev", "en", 2001, 318),
        ("zh/gsdsimp-dev", "zh", 500, 1),
        ("zh/hk", "zh", 1004, 1),
        ("zh/cfl", "zh", 451, 1),
    ],
)
def test_real_treebanks_read_whole(
    real_data: Path, name: str, language: str, sentences: int, documents: int
) -> None:
    keys = {"format": "conllu", "files": f"ud/{name}.conllu"}
    whole = read_layout(InputConfig.model_validate(keys), real_data, "tag", language, 1 << 30, 1 << 20)
    assert len(whole.rows) == sentences and not whole.rejects
    cut = read_layout(InputConfig.model_validate(keys), real_data, "tag", language, 100_000, 1 << 16)
    assert cut.rows == whole.rows and cut.blocks > 5
    together = InputConfig.model_validate({**keys, "document": "newdoc"})
    joined = read_layout(together, real_data, "pretrain", language, 1 << 30, 1 << 20)
    assert len(joined.rows) == documents and not joined.rejects
    assert sum(len(r["word_starts"]) for r in joined.rows) == sum(len(r["word_starts"]) for r in whole.rows)
    assert sum(len(r["sentence_starts"]) for r in joined.rows) == sentences
    for row in whole.rows + joined.rows[:3]:
        _check_annotations(row)
