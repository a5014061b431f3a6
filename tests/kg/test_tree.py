"""Sentence trees: what is grafted, what is dropped and counted, and the exact columns."""

from __future__ import annotations

import dataclasses
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg import (
    GraftPolicy,
    GraphError,
    KnowledgeGraph,
    TreeBuilder,
    Trees,
    Trunks,
    Words,
    build_trees,
)
from kg.tree import branches, candidates, graft
from tests.kg.handmade import CLS, SEP, graph_of, tokenize, tokens, trees_of, trunks_of


def counted(trees: Trees, *names: str) -> list[int]:
    return [trees.counters[name] for name in names]


def columns(trees: Trees) -> list[list[int]]:
    return [getattr(trees, name).tolist() for name in ("soft_positions", "branch", "mention", "trunk_index")]


def test_c02_labels_and_predictions_are_the_trunks(tmp_path: Path) -> None:
    """B-LOC I-LOC O, with 首都 grafted: predictions for its tokens are nobody's."""
    trees = trees_of(graph_of(tmp_path, "北京\t类别\t首都"), "北京好")
    assert tokens(trees.ids) == ["[CLS]", "北", "京", "首", "都", "好", "[SEP]"]
    on_trunk = trees.trunk_index >= 0
    assert on_trunk.tolist() == [True, True, True, False, False, True, True]
    labels = np.array(["-", "B-LOC", "I-LOC", "O", "-"])
    assert np.where(on_trunk, labels[trees.trunk_index], "[ENT]").tolist() == [
        "-", "B-LOC", "I-LOC", "[ENT]", "[ENT]", "O", "-",
    ]  # fmt: skip
    predicted = np.array(["O", "B-LOC", "I-LOC", "B-LOC", "I-LOC", "O", "O"])
    back = np.empty(5, object)
    back[trees.trunk_index[on_trunk]] = predicted[on_trunk]
    assert back.tolist() == ["O", "B-LOC", "I-LOC", "O", "O"]


def test_c05_truncation_never_cuts_a_branch_the_trunk_or_the_last_sep(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "苹果\t类别\t水果")
    six = trees_of(graph, "苹果好", trunk_length=6, max_length=6)
    assert tokens(six.ids) == ["[CLS]", "苹", "果", "好", "[SEP]"]
    assert counted(six, "mentions", "branches", "dropped_budget", "mentions_without_branch") == [1, 0, 1, 1]
    assert (six.mention == -1).all()

    seven = trees_of(graph, "苹果好", trunk_length=7, max_length=7)
    assert tokens(seven.ids) == ["[CLS]", "苹", "果", "水", "果", "好", "[SEP]"]
    assert columns(seven) == [
        [0, 1, 2, 3, 4, 3, 4],
        [0, 0, 0, 1, 1, 0, 0],
        [-1, 0, 0, 0, 0, -1, -1],
        [0, 1, 2, -1, -1, 3, 4],
    ]
    assert counted(seven, "branches", "dropped_budget", "mentions_grafted") == [1, 0, 1]

    four = trees_of(graph, "苹果好", trunk_length=4, max_length=4)
    assert tokens(four.ids) == ["[CLS]", "苹", "果", "[SEP]"]
    assert counted(four, "branches", "dropped_budget") == [0, 1]

    three = trees_of(graph, "苹果好", trunk_length=3, max_length=8)
    assert tokens(three.ids) == ["[CLS]", "苹", "[SEP]"]
    assert counted(three, "mentions", "branches", "dropped_anchor_cut") == [1, 0, 1]


def test_c06_object_choice_is_file_order(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, *(f"甲词\t类\tA{k}" for k in (1, 2, 3, 4)))
    trees = trees_of(graph, "甲词", branches_per_mention=2)
    assert [graph.object(t) for t in trees.branch_triples] == ["A1", "A2"]
    assert tokens(trees.ids) == ["[CLS]", "甲", "词", "A", "1", "A", "2", "[SEP]"]
    assert columns(trees)[:3] == [
        [0, 1, 2, 3, 4, 3, 4, 3],
        [0, 0, 0, 1, 1, 2, 2, 0],
        [-1, 0, 0, 0, 0, 0, 0, -1],
    ]


def test_c14_a_cycle_yields_one_branch_per_mention(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "甲乙\t类\t甲乙", "甲乙\t类\t丙丁", "甲乙\t类\t丙丁", "丙丁\t类\t甲乙")
    trees = trees_of(graph, "甲乙和丙丁", branches_per_mention=5)
    assert "".join(tokens(trees.ids)) == "[CLS]甲乙丙丁和丙丁甲乙[SEP]"
    assert counted(trees, "mentions", "branches") == [2, 2]


def test_c14_cycles_are_cut_at_depth_2(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "甲乙\t类\t丙丁", "丙丁\t类\t甲乙", "丙丁\t类\t丙丁", "丙丁\t色\t红")
    trees = trees_of(graph, "甲乙和丙丁", branches_per_mention=5, depth=2)
    assert "".join(tokens(trees.ids)) == "[CLS]甲乙丙丁红和丙丁甲乙红[SEP]"
    assert trees.branch_parents.tolist() == [0, 1, 0, 0]
    assert counted(trees, "branches", "branches_depth_2", "mentions_depth_2", "dropped_loop") == [4, 1, 2, 2]


PARAGRAPH = "甲城位于乙省。" * 80


def test_c15_objects_that_are_paragraphs_are_passed_over(tmp_path: Path) -> None:
    assert len(PARAGRAPH) == 560
    graph = graph_of(
        tmp_path, f"甲城\tBaiduCARD\t{PARAGRAPH}", "甲城\t类\t城市", "甲城\t省\t乙省", "甲城\t国\t丙国"
    )
    trees = trees_of(graph, "我住甲城", max_length=128)
    assert "".join(tokens(trees.ids)) == "[CLS]我住甲城城市乙省[SEP]"
    assert counted(trees, "branches", "dropped_object_too_long") == [2, 1]
    whole = trees_of(
        graph, "我住甲城", max_length=128, max_positions=1024, max_object_length=1000, branches_per_mention=1
    )
    assert "".join(tokens(whole.ids)) == "[CLS]我住甲城[SEP]"
    assert counted(whole, "dropped_object_too_long", "dropped_budget") == [0, 1]


def test_c15_a_subject_with_nothing_but_paragraphs_is_a_mention_without_a_branch(tmp_path: Path) -> None:
    trees = trees_of(graph_of(tmp_path, f"甲城\tBaiduCARD\t{PARAGRAPH}"), "我住甲城", max_length=128)
    assert "".join(tokens(trees.ids)) == "[CLS]我住甲城[SEP]"
    names = ("mentions", "mentions_without_branch", "branches", "dropped_object_too_long")
    assert counted(trees, *names) == [1, 1, 0, 1]
    assert len(trees.mention_subjects) == 0


@pytest.mark.parametrize("length", [18, 21])
def test_c15_a_subject_longer_than_the_row_has_no_branch(tmp_path: Path, length: int) -> None:
    subject = "甲乙丙丁戊己庚辛壬癸子丑寅卯辰巳午未申酉戌"[:length]
    trees = trees_of(graph_of(tmp_path, f"{subject}\t类\t病"), subject, trunk_length=16, max_length=16)
    assert len(trees.ids) == 16
    assert counted(trees, "branches", "dropped_anchor_cut") == [0, 1]


def test_c17_the_entity_with_digits_is_grafted_whole(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "糖类抗原19-9\t类别\t指标")
    trees = trees_of(graph, "查糖类抗原19-9升高")
    assert "".join(tokens(trees.ids)) == "[CLS]查糖类抗原19-9指标升高[SEP]"
    assert graph.hits(trees.mention_subjects) == [("糖类抗原19-9", 1)]


def test_c17_stop_list_and_least_length(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "舒适\t职业\t作家", "很\t类\t副词")
    assert "".join(tokens(trees_of(graph, "很舒适").ids)) == "[CLS]很舒适作家[SEP]"
    assert "".join(tokens(trees_of(graph, "很舒适", stop=frozenset({"舒适"})).ids)) == "[CLS]很舒适[SEP]"
    assert "".join(tokens(trees_of(graph, "很舒适", min_mention_length=3).ids)) == "[CLS]很舒适[SEP]"
    assert "".join(tokens(trees_of(graph, "很舒适", min_mention_length=1).ids)) == "[CLS]很副词舒适作家[SEP]"


def test_c19_no_soft_position_past_the_table(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "实体\t类\t四字对象")
    text = "长" * 508 + "实体"
    trees = trees_of(graph, text, max_length=1024, max_positions=512)
    assert len(trees.ids) == 512 and trees.soft_positions.max() == 511
    assert counted(trees, "mentions", "branches", "dropped_position") == [1, 0, 1]
    earlier = trees_of(graph, text[:505] + "实体", max_length=1024, max_positions=512)
    assert counted(earlier, "branches", "dropped_position") == [1, 0]
    assert earlier.soft_positions.max() == 511
    short = graph_of(tmp_path, "实体\t类\t四字对象", "实体\t类\t短", name="short")
    both = trees_of(short, text, max_length=1024, max_positions=512)
    assert counted(both, "branches", "dropped_position") == [1, 1]


def test_c20_entities_at_the_ends_and_twice(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "苹果\t类别\t水果")
    alone = trees_of(graph, "苹果")
    assert list(zip(tokens(alone.ids), alone.soft_positions.tolist(), strict=True)) == [
        ("[CLS]", 0),
        ("苹", 1),
        ("果", 2),
        ("水", 3),
        ("果", 4),
        ("[SEP]", 3),
    ]
    assert "".join(tokens(trees_of(graph, "我爱苹果").ids)) == "[CLS]我爱苹果水果[SEP]"
    twice = trees_of(graph, "苹果和苹果")
    assert "".join(tokens(twice.ids)) == "[CLS]苹果水果和苹果水果[SEP]"
    assert columns(twice)[1:3] == [
        [0, 0, 0, 1, 1, 0, 0, 0, 2, 2, 0],
        [-1, 0, 0, 0, 0, -1, 1, 1, 1, 1, -1],
    ]
    assert twice.branch_triples.tolist() == [0, 0]


def test_rows_of_a_block_do_not_touch_and_branches_have_their_segments_type(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "苹果\t类\t水果", "果树\t类\t植物")
    trunks = trunks_of(["我爱苹", "苹果", "", "好"], ["果树", None, "苹果", "果树苹果"])
    trees = build_trees(graph, GraftPolicy(), trunks, tokenize)
    rows = [slice(a, b) for a, b in zip(trees.row_offsets[:-1], trees.row_offsets[1:], strict=True)]
    assert ["".join(tokens(trees.ids[row])) for row in rows] == [
        "[CLS]我爱苹[SEP]果树植物[SEP]",
        "[CLS]苹果水果[SEP]",
        "[CLS][SEP]苹果水果[SEP]",
        "[CLS]好[SEP]果树植物苹果水果[SEP]",
    ]
    assert trees.type_ids[rows[0]].tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]
    assert trees.branch[rows[3]].tolist() == [0, 0, 0, 0, 0, 1, 1, 0, 0, 2, 2, 0]
    assert trees.mention[rows[3]].tolist() == [-1, -1, -1, 0, 0, 0, 0, 1, 1, 1, 1, -1]
    assert trees.branch_offsets.tolist() == [0, 1, 2, 3, 5]
    assert [getattr(trees, name).dtype for name in ("ids", "type_ids", "branch", "row_offsets")] == [
        np.int32,
        np.int8,
        np.int16,
        np.int64,
    ]


def test_branches_that_do_not_fit_leave_room_for_smaller_ones(tmp_path: Path) -> None:
    graph = graph_of(
        tmp_path, "甲甲\t类\t一二三", "甲甲\t类\t四", "乙乙\t类\t五六七八", "乙乙\t类\t九", "丙丙\t类\t十"
    )
    trees = trees_of(graph, "甲甲乙乙丙丙", max_length=8 + 5)
    assert "".join(tokens(trees.ids)) == "[CLS]甲甲一二三四乙乙九丙丙[SEP]"
    assert counted(trees, "branches", "dropped_budget") == [3, 2]


def test_only_the_first_objects_compete_and_a_dropped_one_is_not_replaced(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "甲甲\t类\t一二三四五", "甲甲\t类\t六")
    trees = trees_of(graph, "甲甲", max_length=4 + 2, branches_per_mention=1)
    assert "".join(tokens(trees.ids)) == "[CLS]甲甲[SEP]"
    assert counted(trees, "branches", "dropped_budget") == [0, 1]


def test_the_same_object_under_two_predicates(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "苹果\t类\t水果", "苹果\t属\t水果", "苹果\t色\t红", "苹果\t\t甜")
    plain = trees_of(graph, "苹果", branches_per_mention=2)
    assert "".join(tokens(plain.ids)) == "[CLS]苹果水果红[SEP]"
    assert counted(plain, "dropped_object_repeated") == [1]
    told = trees_of(graph, "苹果", branches_per_mention=4, predicate=True)
    assert "".join(tokens(told.ids)) == "[CLS]苹果类水果属水果色红甜[SEP]"
    assert counted(told, "dropped_object_repeated", "branches") == [0, 4]


def test_predicate_and_object_are_two_words(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "Tim Cook\tCEO\tApple", "Tim Cook\t\tAmerican")
    seen: list[str] = []

    def listen(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        seen.extend(texts)
        return tokenize(texts)

    build_trees(graph, GraftPolicy(predicate=True), trunks_of(["Tim Cook"]), listen)
    assert sorted(seen) == ["American", "CEO Apple"]


def test_objects_without_tokens_make_no_branch(tmp_path: Path) -> None:
    def nothing_for_soft_hyphens(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        return tokenize([text.replace("\u00ad", "") for text in texts])

    graph = graph_of(tmp_path, "甲甲\t类\t\u00ad", "甲甲\t类\t乙")
    trees = build_trees(graph, GraftPolicy(), trunks_of(["甲甲"]), nothing_for_soft_hyphens)
    assert "".join(tokens(trees.ids)) == "[CLS]甲甲乙[SEP]"
    assert counted(trees, "branches", "dropped_empty") == [1, 1]


def words_of(text: str) -> list[tuple[int, int]]:
    """Tokens by hand: `unbelieve|able`, one [UNK] for a run with `☃`, single characters else."""
    spans, start = [], 0
    for word in text.split(" "):
        pieces = [(0, 9), (9, len(word))] if word.startswith("unbelieve") else [(0, len(word))]
        if word and "一" <= word[0] <= "鿿":
            pieces = [(k, k + 1) for k in range(len(word))]
        spans += [(start + a, start + b) for a, b in pieces if b > a]
        start += len(word) + 1
    return spans


@pytest.mark.parametrize(
    ("text", "subject", "anchor"),
    [
        ("the unbelieveable New York", "unbelieveable", [2, 3]),
        ("the unbelieveable New York", "New York", [4, 5]),
        ("in New York", "New York", [2, 3]),
        ("New York☃ unbelieveable", "New York", []),  # the token goes on past the mention
        ("☃New York", "New York", []),
    ],
)
def test_anchors_are_whole_tokens_or_dropped(
    tmp_path: Path, text: str, subject: str, anchor: list[int]
) -> None:
    graph = graph_of(tmp_path, f"{subject}\tis\tit")
    trees = build_trees(graph, GraftPolicy(), trunks_of([text], pieces=words_of), tokenize)
    assert trees.trunk_index[(trees.mention == 0) & (trees.branch == 0)].tolist() == anchor
    assert counted(trees, "mentions", "dropped_unaligned", "dropped_anchor_cut") == [1, int(not anchor), 0]


def test_a_character_that_has_no_token_at_the_edge_unaligns_the_mention(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "\u200b甲乙\t类\t丙", "丁\u200b戊\t类\t己")

    def no_zero_width(text: str) -> list[tuple[int, int]]:
        return [(i, i + 1) for i, char in enumerate(text) if char != "\u200b"]

    trunks = trunks_of(["x\u200b甲乙y", "丁\u200b戊y"], pieces=no_zero_width)
    trees = build_trees(graph, GraftPolicy(), trunks, tokenize)
    assert counted(trees, "mentions", "dropped_unaligned", "branches") == [2, 1, 1]
    assert "".join(tokens(trees.ids[trees.row_offsets[1] :])) == "[CLS]丁戊己y[SEP]"


def test_a_special_token_in_the_midst_unaligns_the_mention(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "苹果\t类\t水果")
    trunks = trunks_of(["苹x果苹果"])  # the x becomes a special token, and no character
    special = trunks.special.copy()
    special[2] = True
    starts, stops = trunks.char_starts.copy(), trunks.char_stops.copy()
    starts[3:-1] -= 1
    stops[3:-1] -= 1
    trunks = dataclasses.replace(
        trunks, special=special, char_starts=starts, char_stops=stops, texts=(["苹果苹果"], [None])
    )
    trees = build_trees(graph, GraftPolicy(), trunks, tokenize)
    assert "".join(tokens(trees.ids)) == "[CLS]苹x果苹果水果[SEP]"
    assert counted(trees, "mentions", "dropped_unaligned", "branches") == [2, 1, 1]


def test_tokens_that_share_a_character_are_one_anchor(tmp_path: Path) -> None:
    """Byte-level tokenizers give several tokens to one character."""

    def two_each(text: str) -> list[tuple[int, int]]:
        return [(i, i + 1) for i in range(len(text)) for _ in "ab"]

    graph = graph_of(tmp_path, "甲乙\t类\t丙")
    trees = build_trees(graph, GraftPolicy(), trunks_of(["子甲乙丑"], pieces=two_each), tokenize)
    assert trees.mention.tolist() == [-1, -1, -1, 0, 0, 0, 0, 0, -1, -1, -1]


def test_match_words_takes_the_words_given(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "苹果\t类\t水果", "果树\t类\t植物")
    trunks = trunks_of(["苹果树", "苹果树", "好"], [None, "果树", "苹果树"])
    words = (
        Words(np.array([0, 1, 0, 2, 0]), np.array([1, 3, 2, 3, 1]), np.array([0, 2, 4, 5])),
        Words(np.array([0, 0]), np.array([2, 3]), np.array([0, 0, 1, 2])),
    )
    trunks = dataclasses.replace(trunks, words=words)
    trees = build_trees(graph, GraftPolicy(match="words"), trunks, tokenize)
    rows = np.split(trees.ids, trees.row_offsets[1:-1])
    assert ["".join(tokens(row)) for row in rows] == [
        "[CLS]苹果树植物[SEP]",
        "[CLS]苹果水果树[SEP]果树植物[SEP]",
        "[CLS]好[SEP]苹果树[SEP]",
    ]
    with pytest.raises(GraphError, match="needs the words of the segmentation"):
        build_trees(graph, GraftPolicy(match="words"), dataclasses.replace(trunks, words=None), tokenize)
    alone = dataclasses.replace(
        trunks_of(["苹果树"]), words=(Words(np.array([0]), np.array([2]), np.array([0, 1])), None)
    )
    assert counted(build_trees(graph, GraftPolicy(match="words"), alone, tokenize), "branches") == [1]


def test_c18_special_tokens_in_objects_are_ordinary_text(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "甲乙\t类\t[SEP]")
    trees = trees_of(graph, "甲乙")
    assert trees.ids.tolist().count(SEP) == 1 and trees.ids.tolist().count(CLS) == 1
    assert "".join(tokens(trees.ids[3:8])) == "[SEP]"


@pytest.mark.parametrize("texts", [[], [""], ["没有提到"], ["", "", ""]])
def test_rows_without_mentions_are_their_trunks(tmp_path: Path, texts: list[str]) -> None:
    graph = graph_of(tmp_path, "苹果\t类\t水果")
    trunks = trunks_of(texts)
    trees = build_trees(graph, GraftPolicy(), trunks, tokenize)
    np.testing.assert_array_equal(trees.ids, trunks.ids)
    np.testing.assert_array_equal(trees.row_offsets, trunks.row_offsets)
    assert trees.branch_offsets.tolist() == [0] * (len(texts) + 1)
    assert not trees.branch.any() and (trees.mention == -1).all()
    assert set(trees.counters.values()) == {0}


COLUMNS = (
    "ids", "type_ids", "soft_positions", "branch", "mention", "trunk_index", "branch_triples",
    "branch_parents", "mention_subjects",
)  # fmt: skip


def same(one: Trees, parts: list[Trees]) -> None:
    """The rows of `one` are those of `parts`, one after another."""
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(one, name), np.concatenate([getattr(p, name) for p in parts]))
    for name in ("row_offsets", "branch_offsets"):
        lengths = np.concatenate([np.diff(getattr(part, name)) for part in parts])
        np.testing.assert_array_equal(np.diff(getattr(one, name)), lengths)
    assert one.counters == {name: sum(part.counters[name] for part in parts) for name in one.counters}


SUBJECTS = ("甲甲", "甲乙", "乙甲", "乙乙", "丙甲", "丙乙")
OBJECTS = (*SUBJECTS, "丁", "丁丁", "戊戊戊", "己己己己己", "庚", "辛辛")
LINES = [
    f"{subject}\t{predicate}\t{OBJECTS[(3 * k + step * step) % len(OBJECTS)]}"
    for k, subject in enumerate(SUBJECTS)
    for step in range(k + 2)
    for predicate in "类属"
]


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(st.text("甲乙丙丁", max_size=9), min_size=1, max_size=8),
    cuts=st.lists(st.integers(0, 8), max_size=3),
    data=st.data(),
    rank=st.sampled_from(["file", "shortest", "most_frequent", "least_frequent"]),
    depth=st.sampled_from([1, 2]),
    limits=st.tuples(st.integers(12, 40), st.none() | st.integers(1, 4)),
    small=st.booleans(),
)
def test_a_row_is_the_same_in_any_block_in_any_order_and_with_any_cache(
    shared_graph: KnowledgeGraph,
    texts: list[str],
    cuts: list[int],
    data: st.DataObject,
    rank: str,
    depth: int,
    limits: tuple[int, int | None],
    small: bool,
) -> None:
    policy = GraftPolicy(
        rank=rank, depth=depth, max_length=limits[0], branches_per_row=limits[1], branches_per_mention=3
    )  # type: ignore[arg-type]
    order = data.draw(st.permutations(range(len(texts))))
    edges = sorted({0, len(texts), *(min(cut, len(texts)) for cut in cuts)})
    with pytest.MonkeyPatch.context() as patch:
        alone = [build_trees(shared_graph, policy, trunks_of([text]), tokenize) for text in texts]
        if small:  # caches that start anew all the time, groups of rows of one row each
            patch.setattr(candidates, "MAX_CACHED_TRIPLES", 3)
            patch.setattr(branches, "MAX_CACHED_TEXTS", 2)
            patch.setattr(graft, "_AT_ONCE", 4)
        builder = TreeBuilder(shared_graph, policy, tokenize)
        same(builder.build(trunks_of([texts[k] for k in order])), [alone[k] for k in order])
        for a, b in pairwise(edges):
            same(builder.build(trunks_of(texts[a:b])), alone[a:b])


@pytest.fixture(scope="module")
def shared_graph(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeGraph:
    return graph_of(tmp_path_factory.mktemp("kg"), *LINES)


def test_rows_decided_in_several_groups_keep_their_budgets_and_parents(
    shared_graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = GraftPolicy(depth=2, max_length=20, branches_per_row=4, branches_per_mention=1)
    blocks = trunks_of(["丁", "乙甲", "丙甲甲乙丙乙", "甲乙乙乙丙甲", "", "丙乙丙乙丙乙丙乙"])
    whole = build_trees(shared_graph, policy, blocks, tokenize)
    for name in ("branches_depth_2", "dropped_row_limit", "dropped_budget"):
        assert whole.counters[name] > 0
    monkeypatch.setattr(graft, "_AT_ONCE", 1)
    same(build_trees(shared_graph, policy, blocks, tokenize), [whole])


def test_threads_share_a_builder(shared_graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "MAX_CACHED_TRIPLES", 8)
    monkeypatch.setattr(branches, "MAX_CACHED_TEXTS", 4)
    builder = TreeBuilder(shared_graph, GraftPolicy(depth=2), tokenize)
    blocks = [trunks_of(["甲甲乙乙丙甲"[k : k + n]]) for k in range(6) for n in (2, 4, 6)]
    expected = [build_trees(shared_graph, GraftPolicy(depth=2), block, tokenize) for block in blocks]

    def work(seed: int) -> int:
        for k in np.random.default_rng(seed).integers(0, len(blocks), 60).tolist():
            same(builder.build(blocks[k]), [expected[k]])
        return seed

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [0, 1, 2, 3]


# --- misuse -------------------------------------------------------------------------------------


def test_trunks_that_exceed_a_budget_are_refused(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "苹果\t类\t水果")
    trunks = trunks_of(["好", "我爱苹果"])
    for name in ("max_length", "max_positions"):
        policy = GraftPolicy(max_length=5) if name == "max_length" else GraftPolicy(max_positions=5)
        with pytest.raises(GraphError, match=f"the trunk of row 1 has 6 tokens, {name} is 5"):
            build_trees(graph, policy, trunks, tokenize)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"char_stops": np.array([0, 1, 2, 9, 4, 0], np.int32)}, "row 0: a token's offsets are outside"),
        ({"char_starts": np.array([0, 2, 1, 2, 3, 0], np.int32)}, "row 0"),
        ({"type_ids": np.array([0, 1, 0, 0, 0, 0], np.int8)}, "row 0"),
        ({"type_ids": np.array([0, 2, 0, 0, 0, 0], np.int8)}, "type_ids must be 0"),
        ({"row_offsets": np.array([0, 5])}, "row_offsets must run from 0 to the 6 tokens"),
        ({"special": np.zeros(3, np.bool_)}, "special has 3 values for 6 tokens"),
        ({"texts": ([], [])}, "expected 1 texts of segment A and of segment B, found 0 and 0"),
    ],
)
def test_trunks_that_contradict_themselves_are_refused(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    graph = graph_of(tmp_path, "苹果\t类\t水果")
    trunks: Trunks = dataclasses.replace(trunks_of(["我爱苹果"]), **change)  # type: ignore[arg-type]
    with pytest.raises(GraphError, match=message):
        build_trees(graph, GraftPolicy(), trunks, tokenize)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"match": "all"}, "match must be 'longest' or 'words', found 'all'"),
        ({"rank": "random"}, "rank must be 'file', 'shortest', 'most_frequent' or 'least_frequent', found"),
        ({"depth": 3}, "depth must be 1 or 2, found 3"),
        ({"branches_per_mention": 0}, "branches_per_mention must be at least 1, found 0"),
        ({"branches_per_mention": 40_000}, "branches_per_mention must be at most 32767"),
        ({"branches_per_row": 0}, "branches_per_row must be at least 1, found 0"),
        ({"max_length": 40_000}, "max_length must be at most 32767"),
        ({"max_positions": 0}, "max_positions"),
        ({"min_mention_length": 0}, "min_mention_length"),
        ({"max_mention_length": 1}, "max_mention_length is 1, below min_mention_length 2"),
        ({"include_predicates": frozenset()}, "include_predicates is empty"),
        (
            {"include_predicates": frozenset("类属"), "exclude_predicates": frozenset("属色")},
            "'属' is in include_predicates and in exclude_predicates",
        ),
    ],
)
def test_policies_out_of_range_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        GraftPolicy(**wrong)  # type: ignore[arg-type]


# --- size ---------------------------------------------------------------------------------------


def test_a_million_objects_of_one_subject_are_not_looked_at(tmp_path: Path) -> None:
    source = "".join(f"甲词\t类\tA{k}\n" for k in range(1_000_000))
    graph = graph_of(tmp_path, source.rstrip("\n"), "乙词\t类\tB")
    trunks = trunks_of(["甲词和乙词"] * 200)
    build_trees(graph, GraftPolicy(), trunks_of(["词"]), tokenize)
    tracemalloc.start()
    start = time.process_time()
    trees = build_trees(graph, GraftPolicy(), trunks, tokenize)
    seconds, (_, peak) = time.process_time() - start, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert trees.counters["branches"] == 600
    assert {graph.object(t) for t in trees.branch_triples} == {"A0", "A1", "B"}
    assert seconds < 0.5
    assert peak < 16 * 2**20


def test_a_million_objects_that_are_all_too_long_are_counted_in_bounded_memory(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "".join(f"甲词\t类\tA{k:06d}\n" for k in range(300_000)) + "甲词\t类\tB")
    tracemalloc.start()
    trees = trees_of(graph, "甲词", max_object_length=3)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert counted(trees, "branches", "dropped_object_too_long") == [1, 300_000]
    assert peak < 16 * 2**20


def test_a_great_many_candidates_are_decided_in_bounded_memory(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, *(f"甲词\t类\tA{k}" for k in range(8_000)))
    builder = TreeBuilder(graph, GraftPolicy(branches_per_mention=8_000, max_length=16), tokenize)
    builder.build(trunks_of(["甲词"]))
    trunks = trunks_of(["甲词"] * 250)
    tracemalloc.start()
    trees = builder.build(trunks)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert counted(trees, "branches", "dropped_budget") == [250 * 6, 250 * 7_994]
    assert peak < 64 * 2**20


@pytest.mark.parametrize("name", ["stop", "include_predicates", "exclude_predicates"])
def test_one_string_is_not_a_set_of_its_characters(tmp_path: Path, name: str) -> None:
    with pytest.raises(GraphError, match=f"{name} must be a set of strings, found one string, 'abc'"):
        GraftPolicy(**{name: "abc"})  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="stop: expected several strings, found one, 'abc'"):
        graph_of(tmp_path, "甲乙\t类\t丙").matcher(stop="abc")
