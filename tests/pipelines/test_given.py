"""Words and trees that the corpus brings: kept, completed, or refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given as randomly
from hypothesis import settings as limits
from hypothesis import strategies as st

from corpora.plan import plan_blocks
from corpora.records import Reject
from corpora.shards import open_shard
from pipelines.annotate.annotations import Relations
from pipelines.annotate.given import read_given
from pipelines.annotate.stage import Annotate
from pipelines.annotate.toolbox import Toolbox
from pipelines.config import Config, ConfigError
from pipelines.engine import Run, run_block
from tests.pipelines.raw import check_document, config, raw

HERE = str(Path(__file__))
TEXT = "Don't go. Yes"
DONT: dict[str, list[Any]] = {
    "sentence_starts": [0, 10],
    "sentence_stops": [9, 13],
    "word_starts": [0, 2, 6, 8, 10],
    "word_stops": [2, 5, 8, 9, 13],
    "word_heads": [2, 2, 2, 2, 4],
    "word_deprels": ["aux", "advmod", "root", "punct", "root"],
    "word_pos": ["AUX", "PART", "VERB", "PUNCT", "INTJ"],
}
FORMS = ["Do", "n't", "go", ".", "Yes"]


def brought(
    *documents: dict[str, Any] | None, suffix: str = "", without: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Columns of RAW_SCHEMA; None: nothing is given."""
    names = [name for name in DONT if name not in without]
    return {name + suffix: [d and d[name] for d in documents] for name in names}


def treebank(language: str = "en", parser: str = "default", **annotate: Any) -> Config:
    return config(language, format="conllu", files="f.conllu", annotate={"parser": parser, **annotate})


def annotate(settings: Config, table: pa.Table) -> tuple[list[dict[str, Any]], Counter[str], list[Reject]]:
    rejects: list[Reject] = []
    stage = Annotate(settings, HERE)
    stage.setup()
    found, counts = stage.annotate_table(table, rejects.append)
    found.validate(full=True)
    for row in (rows := found.to_pylist()):
        check_document(row)
        assert len(row["word_starts"]) > 0
    return rows, counts, rejects


def same_annotation(row: dict[str, Any], expected: dict[str, Any]) -> None:
    assert {name: row[name] for name in expected} == expected


# --- kept -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "parser"), [("en", "given"), ("en", "default"), ("de", "default"), ("qq", "given")]
)
def test_given_trees_are_kept_whatever_the_parser(language, parser):
    [row], counts, _ = annotate(treebank(language, parser), raw([TEXT], **brought(DONT)))
    same_annotation(row, DONT)
    assert (counts["words_given"], counts["trees_given"], counts["words"]) == (5, 2, 5)


def test_without_a_parser_given_words_are_used_and_trees_are_not():
    [row], counts, _ = annotate(treebank("qq", "none"), raw([TEXT], **brought(DONT)))
    assert row["word_stops"] == DONT["word_stops"] and "word_heads" not in row
    assert counts["words_given"] == 5 and "trees_given" not in counts


def test_a_tag_outside_the_17_is_x_and_a_missing_relation_dep():
    document = {
        **DONT,
        "word_pos": ["AUX", "", "verb", "PUNCT", "_"],
        "word_deprels": ["", "advmod", "ROOT", None, "x"],
    }
    [row], _, _ = annotate(treebank(), raw([TEXT], **brought(document)))
    assert row["word_pos"] == ["AUX", "X", "X", "PUNCT", "X"]
    assert row["word_deprels"] == ["dep", "advmod", "root", "dep", "root"]


@pytest.mark.parametrize("lost", ["word_deprels", "word_pos"])
def test_heads_may_come_without_relations_or_tags(lost):
    [row], _, _ = annotate(treebank(), raw([TEXT], **brought(DONT, without=(lost,))))
    assert row["word_heads"] == DONT["word_heads"]
    assert set(row[lost]) == ({"dep", "root"} if lost == "word_deprels" else {"X"})


def test_given_trees_become_one_tree_a_sentence_and_that_is_counted():
    document = {
        **DONT,
        "word_heads": [1, 0, 2, 4, 3],
    }  # a cycle, then heads across the sentence end, both ways
    [row], counts, _ = annotate(treebank(), raw([TEXT], **brought(document)))
    assert row["word_heads"] == [2, 0, 2, 2, 4] and counts["words_repaired"] == 3
    assert row["word_deprels"] == ["dep", "advmod", "root", "dep", "root"]


def test_long_given_sentences_are_cut_only_where_they_are_parsed():
    kept, _, _ = annotate(treebank(max_sentence_words=2), raw([TEXT], **brought(DONT)))
    same_annotation(kept[0], DONT)
    bare = {**DONT, "word_heads": [-1] * 4 + [4]}
    [row], counts, _ = annotate(treebank(max_sentence_words=2), raw([TEXT], **brought(bare)))
    assert row["sentence_starts"] == [0, 6, 10] and counts["sentences_cut"] == 1


# --- completed --------------------------------------------------------------------------------


def test_sentences_without_a_tree_are_parsed_on_their_given_words():
    bare = {**DONT, "word_heads": [-1] * 4 + [4], "word_deprels": ["x"] * 4 + ["root"]}
    [row], counts, _ = annotate(treebank(), raw([TEXT], **brought(bare)))
    assert row["word_starts"] == DONT["word_starts"] and counts["trees_given"] == 1
    assert row["word_heads"][:4] == [2, 2, 2, 2] and row["word_pos"] == DONT["word_pos"]
    assert "x" not in row["word_deprels"] and row["word_deprels"][2] == "root"
    tags = {
        **bare,
        "word_pos": ["INTJ", "", "_", None, ""],
    }  # a tag that is given stays, the others are the parser's
    [row], _, _ = annotate(treebank(), raw([TEXT], **brought(tags)))
    assert row["word_pos"] == ["INTJ", "PART", "VERB", "PUNCT", "X"]


def test_given_words_alone_are_parsed_as_they_are():
    [row], _, _ = annotate(
        treebank(), raw([TEXT], **brought(DONT, without=("word_heads", "word_pos", "word_deprels")))
    )
    assert row["word_starts"] == DONT["word_starts"] and row["word_heads"][1] == 2
    odd = {**DONT, "word_starts": [0, 6, 10], "word_stops": [5, 9, 13]}
    [row], _, _ = annotate(
        treebank(), raw([TEXT], **brought(odd, without=("word_heads", "word_pos", "word_deprels")))
    )
    assert row["word_stops"] == [5, 9, 13]


def test_given_words_are_parsed_as_segmented_ones_are():
    """What the segmenter finds, given: the same trees. Both with several sentences and texts."""
    texts = ["He saw her. She ran away, as he said.", "Go home", "It was late. I slept."]
    plain, counts, _ = annotate(config(), raw(texts))
    names = [name for name in DONT if name not in ("word_heads", "word_deprels", "word_pos")]
    table = raw(texts, **{name: [row[name] for row in plain] for name in names})
    again, counted, _ = annotate(config(), table)
    assert again == plain
    assert counted == counts | Counter(words_given=counts["words"], trees_given=0)


def test_given_and_other_texts_keep_their_order():
    texts = ["Well, no.", TEXT, "He slept. She ran.", TEXT]
    rows, _, _ = annotate(config(), raw(texts, **brought(None, DONT, None, {**DONT, "word_heads": [-1] * 5})))
    alone = [annotate(config(), raw([text]))[0][0] for text in texts]
    assert [r["text"] for r in rows] == texts
    assert rows[0]["word_heads"] == alone[0]["word_heads"] and rows[2]["word_heads"] == alone[2]["word_heads"]
    same_annotation(rows[1], DONT)


def test_both_texts_of_a_pair_may_bring_trees():
    settings = config(
        "de", label="label", text_pair="b", format="parquet", files="f.parquet", annotate={"parser": "given"}
    )
    table = raw([TEXT, TEXT, TEXT], text_pair=[TEXT, None, " "], label=["1"] * 3, **brought(DONT, DONT, DONT))
    pair = brought(DONT, None, None, suffix="_pair")
    for name, values in pair.items():
        table = table.set_column(
            table.schema.get_field_index(name),
            table.schema.field(name),
            pa.array([*values], table.schema.field(name).type),
        )
    rows, _, rejects = annotate(settings, table)
    assert rejects == [] and rows[0]["word_heads_pair"] == DONT["word_heads"]
    assert rows[1]["word_heads_pair"] is None and rows[2]["word_heads_pair"] == []


# --- refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("language", "parser"), [("en", "given"), ("de", "default")])
def test_what_has_no_tree_is_rejected_where_only_given_ones_count(language, parser):
    bare = {**DONT, "word_heads": [0, 0, 0, 0, -1]}
    table = raw([TEXT, TEXT, "Hi", " "], **brought(bare, DONT, None, None))
    rows, counts, rejects = annotate(treebank(language, parser), table)
    assert [row["doc_id"] for row in rows] == ["d1"] and counts["documents"] == 1
    assert [r.reason for r in rejects] == ["no_parse", "no_parse", "empty_text"]
    assert "sentence 2 has none: 'Yes'; name a parser as annotate.parser, or 'none'" in rejects[0].detail
    assert "found none" in rejects[1].detail and (rejects[1].path, rejects[1].byte) == ("f.txt", 2)


BAD = [
    {"word_starts": [0, 2, 6, 8], "word_stops": [2, 5, 8, 9]},  # `Yes` is in no word, and lists differ
    {"word_starts": [0, 2, 6, 8, 11]},  # `Y` is in no word
    {"word_starts": [0, 1, 6, 8, 10]},  # overlap
    {"word_starts": [0, 6, 2, 8, 10], "word_stops": [2, 8, 5, 9, 13]},  # not rising
    {"word_stops": [2, 5, 8, 9, 14]},  # past the end
    {"word_stops": [2, 5, 8, 9, 99], "sentence_stops": [9, 99]},  # far past it
    {"word_stops": [2, 2, 8, 9, 13]},  # an empty word
    {  # white space only, inside a sentence
        "sentence_starts": [0],
        "sentence_stops": [13],
        "word_starts": [0, 2, 5, 6, 10],
        "word_stops": [2, 5, 6, 9, 13],
    },
    {"word_starts": [-1, 2, 6, 8, 10]},
    {"word_starts": [0, 2, 6, 9, 10], "word_stops": [2, 5, 9, 10, 13]},  # white space only
    {
        "sentence_starts": [0, 8],
        "sentence_stops": [8, 13],
        "word_stops": [2, 5, 9, 10, 13],
        "word_starts": [0, 2, 6, 9, 10],
    },
    {"sentence_starts": [1, 10]},  # `Do` begins outside
    {"sentence_starts": [0, 6, 10], "sentence_stops": [7, 9, 13]},  # `go` crosses an end
    {"sentence_starts": [0], "sentence_stops": [9]},
    {"sentence_starts": [0, 9, 10], "sentence_stops": [9, 10, 13]},  # a sentence without a word
    {"sentence_starts": [0]},
    {"word_heads": [2, 2, 2, 2]},
    {"word_deprels": ["x"]},
    {"word_pos": ["X"] * 6},
    {"sentence_starts": None, "sentence_stops": None},
]


@pytest.mark.parametrize("change", BAD)
def test_words_that_cannot_be_used_reject_their_record_alone(change):
    table = raw(["Hi.", TEXT, TEXT], **brought(None, {**DONT, **change}, DONT))
    rows, _, rejects = annotate(config(), table)
    assert [row["doc_id"] for row in rows] == ["d0", "d2"]
    [reject] = rejects
    assert (reject.reason, reject.byte) == (
        "bad_annotations",
        1,
    ) and "expected words that rise" in reject.detail
    same_annotation(rows[1], DONT)


@pytest.mark.parametrize("format_", ["jsonl", "text", "wikipedia"])
def test_given_is_refused_for_a_format_that_brings_no_trees(format_):
    with pytest.raises(ConfigError, match=f"records of format '{format_}' bring no trees"):
        Annotate(config("en", format=format_, annotate={"parser": "given"}), HERE)


def test_a_language_without_a_parser_is_refused_elsewhere():
    with pytest.raises(ConfigError, match="no embedded parser for 'de'"):
        Annotate(config("de", format="parquet", files="f.parquet"), HERE)


# --- said -------------------------------------------------------------------------------------


def test_the_identity_says_that_trees_are_given():
    found = {
        (language, parser): Annotate(treebank(language, parser), HERE).identities()
        for language, parser in (("en", "given"), ("en", "default"), ("de", "default"), ("en", "none"))
    }
    names = {key: (value["parser"]["name"], value["segmenter"]["name"]) for key, value in found.items()}
    assert names == {
        ("en", "given"): ("given", "given"),
        ("en", "default"): ("given+en_ud_small", "given"),
        ("de", "default"): ("given", "given"),
        ("en", "none"): ("none", "given"),
    }
    prints = [Annotate(treebank(*key), HERE).fingerprint for key in found]
    assert len(set(prints)) == 4
    assert Annotate(config(), HERE).identities()["parser"]["name"] == "en_ud_small"


def test_a_treebank_needs_neither_segmenter_nor_parser_loaded(monkeypatch):
    for name in ("load_segmenter", "load_parser"):
        monkeypatch.setattr(f"pipelines.annotate.toolbox.{name}", lambda *a, **k: pytest.fail("loaded"))
    annotate(treebank("zh", "given"), raw([TEXT], **brought(DONT)))


def test_relations_of_a_treebank_join_those_of_the_dataset(tmp_path):
    lines = [
        "1\tHi\t_\tINTJ\t_\t_\t0\troot\t_\t_",
        "2\tyou\t_\tPRON\t_\t_\t1\tvocative:mine\t_\t_",
        "",
        "1\tHe\t_\t_\t_\t_\t_\t_\t_\t_",
        "2\tran\t_\t_\t_\t_\t_\t_\t_\t_",
        "",
    ]
    (tmp_path / "f.conllu").write_text("\n".join(lines) + "\n")
    settings = config("en", format="conllu", files=str(tmp_path / "f.conllu"))
    stage = Annotate(settings, str(tmp_path / "c.yaml"))
    stage.setup()
    [block] = plan_blocks(settings.input, str(tmp_path), 2**20)
    shards = []
    for name in ("a", "b"):
        Run(stage, [block], str(tmp_path / name)).prepare()
        record = run_block(stage, block, str(tmp_path / name), lambda totals: None)
        shards.append((tmp_path / name / block.shard_name).read_bytes())
        assert {"root", "vocative:mine"} < set(record.sets["deprels"])
        assert record.counters["trees_given"] == 1 and record.counters["words_given"] == 4
    assert shards[0] == shards[1]
    rows = open_shard(str(tmp_path / "a" / block.shard_name)).read_all().to_pylist()
    assert rows[0]["word_deprels"] == ["root", "vocative:mine"] and rows[1]["word_deprels"] == [
        "nsubj",
        "root",
    ]


def test_a_column_that_is_no_relation_is_named():
    words = 33_000
    text = "a " * words
    starts = list(range(0, 2 * words, 2))
    document = {
        "sentence_starts": [0],
        "sentence_stops": [2 * words - 1],
        "word_starts": starts,
        "word_stops": [s + 1 for s in starts],
        "word_heads": [0] * words,
        "word_deprels": [f"r{i}" for i in range(words)],
        "word_pos": ["X"] * words,
    }
    with pytest.raises(ValueError, match="more than 32,768 dependency relations"):
        annotate(treebank("en", "given"), raw([text], **brought(document)))


# --- reading ----------------------------------------------------------------------------------

WORD = st.sampled_from(["a", "\U00020000", "👨‍👩‍👧", "１", "x\u200by", "é"])
GAP = st.sampled_from([" ", "\u3000", "\n", "\u2003\t", ""])


@limits(deadline=None, max_examples=60)
@randomly(
    st.lists(st.lists(st.lists(st.tuples(WORD, GAP), min_size=1, max_size=4), max_size=3), max_size=4),
    st.data(),
)
def test_what_is_given_is_read_text_by_text(documents, data):
    """Against loops; tables may be slices and chunks."""
    rows: list[dict[str, Any]] = []
    texts: list[str] = []
    for sentences in documents:
        text, row = "", {name: [] for name in DONT}
        for sentence in sentences:
            base = len(row["word_starts"])
            there = data.draw(st.booleans())
            row["sentence_starts"].append(len(text))
            for word, gap in sentence:
                row["word_starts"].append(len(text))
                row["word_stops"].append(len(text) + len(word))
                row["word_heads"].append(base if there else -1)
                row["word_deprels"].append(word)
                row["word_pos"].append("NOUN")
                stop = len(text) + len(word)
                text += word + gap
            row["sentence_stops"].append(stop)
        texts.append(text)
        rows.append(row)
    columns = {name: [row[name] for row in rows] for name in DONT}
    table = raw(
        ["first", *texts, "last"], **{name: [None, *values, None] for name, values in columns.items()}
    )
    table = pa.concat_tables([table.slice(0, 2), table.slice(2)])
    relations = Relations()
    found, wrong = read_given(table, "", table["text"].to_pylist(), relations)
    assert wrong == {} and found[0] is None and found[-1] is None
    for row, given in zip(rows, found[1:-1], strict=True):
        assert given is not None
        assert given.starts.tolist() == row["word_starts"] and given.stops.tolist() == row["word_stops"]
        assert given.heads.tolist() == row["word_heads"]
        assert [relations.names[c] for c in given.deprels] == row["word_deprels"]
        begins = given.starts[given.of_sentence[:-1]].tolist()
        assert begins == row["sentence_starts"] and len(given.parsed) == len(begins)
        assert given.parsed.tolist() == [bool(given.heads[a] >= 0) for a in given.of_sentence[:-1]]


def test_lookups_of_a_treebank_config_need_words_alone():
    tools = Toolbox(treebank("en", "none"), HERE)
    annotator = tools.annotator("en")
    assert annotator is not None and annotator.segmenter is not None
    found = annotator.annotate(["Hi there"], [None], Relations())
    assert found.words.starts.tolist() == [0, 3] and found.heads is None
    assert np.array_equal(found.repaired, [0])
