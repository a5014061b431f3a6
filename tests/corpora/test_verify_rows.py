"""Every rule of shard rows' base, syntax, coarse and label columns fires, and only where it should."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

from corpora.verify import verify
from corpora.verify.report import Findings
from corpora.verify.syntax import _check_intervals
from corpora.verify.view import View, endless
from tests.corpora.breaking import at, breaks, expect, put
from tests.rows import (
    GROUPS,
    LABELS,
    MASK,
    PAD,
    SEP,
    TRIPLES,
    UNK,
    VOCAB,
    depth_first,
    make_rows,
    rows_schema,
    write_folder,
)

PAIR = {
    # [CLS] a b cd [SEP] ef g [SEP] with a, b of one word
    "id": "by-hand#0",
    "text": "ab cd",
    "text_pair": "ef g",
    "input_ids": [2, 10, 11, 12, 3, 13, 14, 3],
    "token_type_ids": [0, 0, 0, 0, 0, 1, 1, 1],
    "char_starts": [0, 0, 1, 3, 0, 0, 3, 0],
    "char_stops": [0, 1, 2, 5, 0, 2, 4, 0],
    "word_index": [-1, 0, 0, 1, -1, 2, 3, -1],
    "word_heads": [1, 1, 2, 2],
    "word_deprels": [1, 3, 3, 2],
    "word_dfs_in": [1, 0, 2, 3],
    "word_dfs_out": [2, 2, 4, 4],
    "sentence_index": [0, 0, 1, 1],
    "coarse_ids": [2, 20, 21, 3, 22, 3],
    "coarse_token_type_ids": [0, 0, 0, 0, 1, 1],
    "coarse_index": [0, 1, 1, 2, 3, 4, 4, 5],
    # anchor a b with branches 1 (two tokens) and 2 (one token); anchor ef with branch 3
    "tree_ids": [2, 10, 11, 30, 31, 32, 12, 3, 13, 33, 14, 3],
    "tree_token_type_ids": [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1],
    "tree_soft_positions": [0, 1, 2, 3, 4, 3, 3, 4, 5, 6, 6, 7],
    "tree_branch": [0, 0, 0, 1, 1, 2, 0, 0, 0, 3, 0, 0],
    "tree_mention": [-1, 0, 0, 0, 0, 0, -1, -1, 1, 1, -1, -1],
    "tree_trunk_index": [0, 1, 2, -1, -1, -1, 3, 4, 5, -1, 6, 7],
    "branch_triples": [7, 8, 9],
    "branch_parents": [0, 0, 0],
    "label": 1,
}


def cut(**lengths: int):
    """Shorten list columns."""
    return lambda row: row.update({name: row[name][:length] for name, length in lengths.items()})


def both(column: str, tree_column: str, index: int, tree_index: int, value: int):
    """Change a token in the trunk and in the tree alike."""

    def change(row):
        row[column][index] = value
        row[tree_column][tree_index] = value

    return change


CASES = [
    breaks("nulls", "text", put(text=None)),
    breaks("nulls", "list", put(input_ids=None)),
    breaks("nulls", "item", at("word_index", 2, None)),
    breaks("lengths", "T", cut(char_stops=7)),
    breaks("lengths", "W", cut(word_dfs_in=3)),
    breaks("lengths", "C", cut(coarse_token_type_ids=5)),
    breaks("lengths", "F", cut(tree_mention=11)),
    breaks("max_length", "long", put(text="a" * 70, **{  # 70 one-letter words
        "text_pair": None, "label": None,
        "input_ids": [2, *[10] * 70, 3], "token_type_ids": [0] * 72,
        "char_starts": [0, *range(70), 0], "char_stops": [0, *range(1, 71), 0],
        "word_index": [-1, *range(70), -1], "word_heads": [*range(70)], "word_deprels": [0] * 70,
        "word_dfs_in": [*range(70)], "word_dfs_out": [*range(1, 71)], "sentence_index": [0] * 70,
        "coarse_ids": [2, 20, 3], "coarse_token_type_ids": [0] * 3, "coarse_index": [0, *[1] * 70, 2],
        "tree_ids": [2, *[10] * 70, 3], "tree_token_type_ids": [0] * 72, "tree_soft_positions": [*range(72)],
        "tree_branch": [0] * 72, "tree_mention": [-1] * 72, "tree_trunk_index": [*range(72)],
        "branch_triples": [], "branch_parents": [],
    })),
    breaks("token_ids", "beyond", both("input_ids", "tree_ids", 1, 1, VOCAB)),
    breaks("token_ids", "negative", both("input_ids", "tree_ids", 1, 1, -1)),
    breaks("special_tokens", "no-cls", at("input_ids", 0, 10)),
    breaks("special_tokens", "no-last-sep", at("input_ids", 7, 10)),
    breaks("special_tokens", "no-middle-sep", at("input_ids", 4, 10)),
    breaks("special_tokens", "sep-inside", at("input_ids", 2, SEP)),
    breaks("special_tokens", "cls-inside", at("input_ids", 2, 2)),
    breaks("special_tokens", "mask-inside", at("input_ids", 2, MASK)),
    breaks("special_tokens", "pad-inside", at("input_ids", 2, PAD)),
    breaks("special_tokens", "pair-without-text", put(text_pair=None)),
    breaks("token_types", "early", lambda r: (at("token_type_ids", 4, 1)(r), at("tree_token_type_ids", 7, 1)(r))),
    breaks("token_types", "late", lambda r: (at("token_type_ids", 7, 0)(r), at("tree_token_type_ids", 11, 0)(r))),
    breaks("token_types", "two", lambda r: (at("token_type_ids", 7, 2)(r), at("tree_token_type_ids", 11, 2)(r))),
    breaks("offsets", "empty", at("char_stops", 2, 1)),
    breaks("offsets", "negative", at("char_starts", 1, -1)),
    breaks("offsets", "beyond-a", at("char_stops", 3, 6)),
    breaks("offsets", "beyond-b", at("char_stops", 6, 5)),  # text A would be long enough
    breaks("offsets", "backwards", lambda r: r.update(char_starts=[0, 1, 0, 3, 0, 0, 3, 0], char_stops=[0, 2, 1, 5, 0, 2, 4, 0])),
    breaks("offsets", "special", at("char_stops", 4, 1)),
    breaks("word_index", "none", at("word_index", 1, -1)),
    breaks("word_index", "special", at("word_index", 4, 1)),
    breaks("word_index", "gap", put(word_index=[-1, 0, 0, 2, -1, 2, 3, -1])),
    breaks("word_index", "falls", put(word_index=[-1, 0, 1, 0, -1, 2, 3, -1])),
    breaks("word_index", "first", put(word_index=[-1, 1, 1, 1, -1, 2, 3, -1])),
    breaks("word_index", "spans-segments", put(word_index=[-1, 0, 0, 1, -1, 1, 2, -1])),
    breaks("word_index", "beyond", at("word_index", 6, 4)),
    breaks("word_index", "unused", put(word_index=[-1, 0, 0, 1, -1, 2, 2, -1])),
    breaks("heads_range", "beyond", at("word_heads", 0, 4)),
    breaks("heads_range", "negative", at("word_heads", 0, -1)),
    breaks("heads_sentence", "other", put(word_heads=[1, 2, 2, 2], word_dfs_in=[2, 1, 0, 3], word_dfs_out=[3, 3, 4, 4])),
    breaks("heads_cycle", "two", put(word_heads=[1, 0, 2, 2]), "dfs"),
    breaks("deprels", "beyond", at("word_deprels", 0, 4)),
    breaks("deprels", "negative", at("word_deprels", 0, -1)),
    breaks("dfs", "too-wide", at("word_dfs_out", 0, 3)),
    breaks("dfs", "too-narrow", at("word_dfs_out", 1, 1)),
    breaks("dfs", "repeated", put(word_dfs_in=[1, 0, 2, 2], word_dfs_out=[2, 2, 4, 3])),
    breaks("dfs", "out-of-range", put(word_dfs_in=[1, 0, 4, 5], word_dfs_out=[2, 2, 6, 6])),
    breaks("dfs", "negative", at("word_dfs_in", 1, -1)),
    breaks("dfs", "swapped", put(word_dfs_in=[0, 1, 2, 3], word_dfs_out=[1, 3, 4, 4])),
    breaks("sentence_index", "falls", put(sentence_index=[1, 1, 0, 0])),
    breaks("sentence_index", "negative", put(sentence_index=[-1, -1, 1, 1])),
    breaks("sentence_index", "spans-segments", put(sentence_index=[0, 0, 0, 0])),
    breaks("coarse_ids", "beyond", at("coarse_ids", 1, 60)),
    breaks("coarse_ids", "negative", at("coarse_ids", 1, -2)),
    breaks("coarse_special_tokens", "no-cls", at("coarse_ids", 0, 20)),
    breaks("coarse_special_tokens", "no-sep", at("coarse_ids", 5, 20)),
    breaks("coarse_special_tokens", "one-sep", at("coarse_ids", 3, 20)),
    breaks("coarse_special_tokens", "mask-inside", at("coarse_ids", 1, MASK)),
    breaks("coarse_special_tokens", "empty", put(coarse_ids=[], coarse_token_type_ids=[])),
    breaks("coarse_token_types", "late", at("coarse_token_type_ids", 5, 0)),
    breaks("coarse_index", "first", at("coarse_index", 0, 1)),
    breaks("coarse_index", "gap", put(coarse_index=[0, 1, 1, 1, 3, 4, 4, 5])),
    breaks("coarse_index", "falls", put(coarse_index=[0, 1, 2, 1, 3, 4, 4, 5])),
    breaks("coarse_index", "short", put(coarse_index=[0, 1, 1, 2, 3, 4, 4, 4])),
    breaks("coarse_index", "special", put(coarse_index=[0, 1, 2, 2, 2, 3, 4, 5])),
    breaks("label", "beyond", put(label=2)),
    breaks("label", "negative", put(label=-1)),
    breaks("label", "null-for-a-pair", put(label=None)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_broken_row_is_found(case, tmp_path):
    schema = rows_schema("pretrain", GROUPS)
    expect(tmp_path, case, PAIR, make_rows(4, "pretrain", GROUPS, 9), schema, "encode", "pretrain")


def other_task(task: str, **labels) -> dict:
    row = {**PAIR, "text_pair": None}
    single = {"input_ids": 5, "token_type_ids": 5, "char_starts": 5, "char_stops": 5}
    row |= {name: PAIR[name][:length] for name, length in single.items()}
    del row["label"]
    row |= labels
    return {name: row[name] for name in rows_schema(task, ()).names}


CLASSIFY_CASES = [
    breaks("label", "beyond", put(label=len(LABELS))),
    breaks("label", "negative", put(label=-1)),
    breaks("label", "nan", put(label_score=float("nan"))),
    breaks("label", "infinite", put(label_score=float("-inf"))),
]
TAG_CASES = [
    breaks("token_labels", "beyond", at("token_labels", 1, len(LABELS))),
    breaks("token_labels", "negative", at("token_labels", 1, -1)),
    breaks("token_labels", "special", at("token_labels", 4, 0)),
    breaks("token_labels", "second-piece", at("token_labels", 2, 1)),
    breaks("lengths", "U", put(tag_stops=[3])),
    breaks("lengths", "labels-of-the-tree", put(token_labels=[-100, 0, -100, -100, -100, 2, -100])),
    breaks("tags", "empty", at("tag_stops", 1, 3)),
    breaks("tags", "negative", at("tag_starts", 0, -1)),
    breaks("tags", "beyond", at("tag_stops", 1, 6)),
    breaks("tags", "overlap", at("tag_starts", 1, 2)),
    breaks("tags", "order", put(tag_starts=[3, 0], tag_stops=[5, 3])),
    breaks("token_tags", "cut-short", at("tag_stops", 1, 4)),
    breaks("token_tags", "begun-late", at("tag_starts", 1, 4)),
    breaks("token_tags", "lost", put(tag_starts=[0], tag_stops=[3])),
    breaks("token_tags", "lost-first", put(tag_starts=[3], tag_stops=[5])),
    breaks("token_tags", "none", put(tag_starts=[], tag_stops=[])),
    breaks("token_tags", "without-token", put(tag_starts=[0, 2, 3], tag_stops=[2, 3, 5])),
    breaks("token_tags", "across-two", put(tag_starts=[0, 3, 4], tag_stops=[3, 4, 5])),
]


@pytest.mark.parametrize("case", CLASSIFY_CASES, ids=str)
def test_a_broken_class_label_is_found(case, tmp_path):
    row = other_task("classify", label=2, label_score=0.5)
    expect(
        tmp_path,
        case,
        row,
        make_rows(5, "classify", (), 9),
        rows_schema("classify", ()),
        "encode",
        "classify",
    )


@pytest.mark.parametrize("case", TAG_CASES, ids=str)
def test_a_broken_token_label_is_found(case, tmp_path):
    row = other_task("tag", token_labels=[-100, 0, -100, 2, -100], tag_starts=[0, 3], tag_stops=[3, 5])
    expect(tmp_path, case, row, make_rows(5, "tag", (), 9), rows_schema("tag", ()), "encode", "tag")


def test_a_label_without_a_pair_is_found(tmp_path):
    row = next(r for r in make_rows(6, "pretrain", (), 20) if r["text_pair"] is None)
    case = breaks("label", "single", put(label=0))
    expect(
        tmp_path,
        case,
        row,
        make_rows(5, "pretrain", (), 9),
        rows_schema("pretrain", ()),
        "encode",
        "pretrain",
    )


@pytest.mark.parametrize("task", ["pretrain", "classify", "tag"])
@pytest.mark.parametrize("groups", [g for n in range(4) for g in itertools.combinations(GROUPS[1:], n)])
def test_valid_rows_are_clean_and_counted(task, groups, tmp_path):
    rows = make_rows(9, task, groups, 90)
    schema = rows_schema(task, groups)
    splits = {"train": [rows[:50], [], rows[50:]], "dev": [[]], "test": [rows[:3]]}
    folder = write_folder(tmp_path, schema, splits, task=task, max_batch_rows=16)
    report = verify(str(folder))
    assert report.ok, "\n".join(report.render())
    counts = report.counts
    assert (counts["shards"], counts["rows"]) == (5, 93)
    assert counts["tokens"] == sum(len(r["input_ids"]) for r in rows + rows[:3])
    assert counts["words"] == (
        sum(len(r["word_heads"]) for r in rows + rows[:3]) if "syntax" in groups else 0
    )
    assert report.render()[0].startswith("ok: 5 shards, 93 rows, ")


# --- the clever checks against slow ones ------------------------------------------------------


@pytest.mark.parametrize("words", [1, 2, 3])
def test_intervals_are_accepted_exactly_where_they_tell_ancestors(words):
    """All heads, entries and exits there are for up to three words, against the definition."""
    span = range(words)
    rows, want = [], []
    for heads in itertools.product(span, repeat=words):
        lines = []
        for word in span:
            line = [word]
            while heads[line[-1]] not in line:
                line.append(heads[line[-1]])
            lines.append((line, heads[line[-1]] == line[-1]))
        for enter in itertools.permutations(span):
            for leave in itertools.product(range(words + 2), repeat=words):
                rows.append((heads, enter, leave))
                want.append(
                    not all(ends for _, ends in lines)
                    or any(
                        (enter[a] <= enter[b] < leave[a]) != (a in lines[b][0]) for a in span for b in span
                    )
                    or any(leave[a] > words for a in span)
                )
    schema = rows_schema("pretrain", ("syntax",))
    names = ("word_heads", "word_dfs_in", "word_dfs_out")
    columns = {n: pa.array([r[i] for r in rows], schema.field(n).type) for i, n in enumerate(names)}
    batch = pa.record_batch({"id": pa.array(["x"] * len(rows)), **columns})
    view = View(batch, np.arange(len(rows)), "s", Findings())
    shape = view.shape("word_heads")
    _check_intervals(view, view.flat("word_heads") + shape.offsets[shape.row], np.zeros(len(shape.row), bool))
    assert view.bad.tolist() == want
    assert not all(want) and any(want)


def test_cycles_of_every_length_are_found():
    for length in (2, 3, 7, 64, 1000):
        heads = np.concatenate([[0, 0], np.roll(np.arange(length), -1) + 2, [2]])
        assert endless(heads).tolist() == [False, False] + [True] * (length + 1)
    chain = np.maximum(np.arange(5000) - 1, 0)
    assert not endless(chain).any() and not endless(np.zeros(0, np.int64)).any()


def test_depth_first_of_the_tests_is_the_definition():
    assert depth_first([1, 1, 2, 2]) == (PAIR["word_dfs_in"], PAIR["word_dfs_out"])


def test_unknown_tokens_are_text(tmp_path):
    row = {**PAIR, "input_ids": [2, UNK, 11, 12, 3, 13, 14, 3], "tree_ids": [2, UNK, *PAIR["tree_ids"][2:]]}
    folder = write_folder(tmp_path, rows_schema("pretrain", GROUPS), {"train": [[row]]}, task="pretrain")
    assert verify(str(folder)).ok and TRIPLES > 9
