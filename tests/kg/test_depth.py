"""Branches of branches, limits of rows, and the ends of the numbers' range."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kg import GraftPolicy, TreeBuilder, Trees, build_trees
from tests.kg.handmade import graph_of, tokenize, tokens, trees_of, trunks_of


def flat(trees: Trees) -> str:
    return "".join(tokens(trees.ids))


def counted(trees: Trees, *names: str) -> list[int]:
    return [trees.counters[name] for name in names]


def test_a_child_stands_behind_its_parent_and_counts_on(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "苹果\t类\t水果", "苹果\t色\t红色", "水果\t类\t植物", "红色\t类\t颜色")
    trees = trees_of(graph, "吃苹果了", depth=2)
    assert flat(trees) == "[CLS]吃苹果水果植物红色颜色了[SEP]"
    assert trees.soft_positions.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5]
    assert trees.branch.tolist() == [0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 0, 0]
    assert trees.mention.tolist() == [-1, -1, *[0] * 10, -1, -1]
    assert trees.trunk_index.tolist() == [0, 1, 2, 3, *[-1] * 8, 4, 5]
    assert trees.branch_parents.tolist() == [0, 1, 0, 3]
    assert trees.branch_parents.dtype == np.int16
    assert [graph.object(t) for t in trees.branch_triples] == ["水果", "植物", "红色", "颜色"]
    assert counted(trees, "branches", "mentions_depth_2", "branches_depth_2", "mentions") == [4, 2, 2, 1]


def test_depth_1_has_no_counters_of_depth_2(tmp_path: Path) -> None:
    trees = trees_of(graph_of(tmp_path, "苹果\t类\t水果", "水果\t类\t植物"), "苹果")
    assert flat(trees) == "[CLS]苹果水果[SEP]"
    assert not [name for name in trees.counters if "depth" in name]
    assert trees.branch_parents.tolist() == [0]


def test_depth_ends_at_2(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, *(f"{a * 2}\t类\t{b * 2}" for a, b in ("甲乙", "乙丙", "丙丁", "丁戊")))
    assert flat(trees_of(graph, "甲甲", depth=2)) == "[CLS]甲甲乙乙丙丙[SEP]"


def test_near_knowledge_comes_first(tmp_path: Path) -> None:
    """The branch of the last mention is kept before those of the first one's branch."""
    graph = graph_of(tmp_path, "甲甲\t类\t乙乙", "乙乙\t类\t一二", "乙乙\t类\t三", "丙丙\t类\t四五")
    trees = trees_of(graph, "甲甲丙丙", depth=2, max_length=6 + 5)
    assert flat(trees) == "[CLS]甲甲乙乙三丙丙四五[SEP]"
    assert counted(trees, "dropped_budget", "branches_depth_2") == [1, 1]
    row_limit = trees_of(graph, "甲甲丙丙", depth=2, branches_per_row=3)
    assert flat(row_limit) == "[CLS]甲甲乙乙一二丙丙四五[SEP]"
    assert counted(row_limit, "branches", "dropped_row_limit", "dropped_budget") == [3, 1, 0]


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ({"max_length": 4 + 2}, "dropped_budget"),
        ({"max_positions": 5}, "dropped_position"),
        ({"max_object_length": 2}, "dropped_object_too_long"),
        ({"exclude_predicates": frozenset("类")}, "dropped_predicate"),
    ],
)
def test_a_branch_that_was_dropped_leaves_no_orphan(
    tmp_path: Path, policy: dict[str, object], reason: str
) -> None:
    graph = graph_of(tmp_path, "甲甲\t类\t乙乙乙", "乙乙乙\t属\t一")
    trees = trees_of(graph, "甲甲", depth=2, **policy)
    assert flat(trees) == "[CLS]甲甲[SEP]"
    assert counted(trees, reason, "mentions_depth_2", "mentions_without_branch") == [1, 0, 1]


def test_an_orphan_of_the_row_limit_is_none_either(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "甲甲\t类\t乙乙", "甲甲\t类\t丙丙", "丙丙\t类\t丁", "乙乙\t类\t戊")
    trees = trees_of(graph, "甲甲", depth=2, branches_per_row=1)
    assert flat(trees) == "[CLS]甲甲乙乙[SEP]"
    assert counted(trees, "dropped_row_limit", "mentions_depth_2") == [2, 1]  # 丙丙 and 戊, not 丁


def test_a_child_past_the_last_position_where_its_parent_is_not(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "甲甲\t类\t乙乙", "乙乙\t类\t一二", "乙乙\t类\t三")
    trees = trees_of(graph, "甲甲", depth=2, max_positions=6)
    assert flat(trees) == "[CLS]甲甲乙乙三[SEP]"
    assert trees.soft_positions.max() == 5
    assert counted(trees, "dropped_position", "branches") == [1, 2]


def test_objects_without_tokens_neither_hang_nor_grow(tmp_path: Path) -> None:
    def nothing_for_x(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        return tokenize([text.replace("x", "") for text in texts])

    graph = graph_of(tmp_path, "甲甲\t类\txx", "甲甲\t类\t乙乙", "xx\t类\t丙", "乙乙\t类\tx", "乙乙\t类\t丁")
    builder = TreeBuilder(graph, GraftPolicy(depth=2), nothing_for_x)
    trees = builder.build(trunks_of(["甲甲"]))
    assert flat(trees) == "[CLS]甲甲乙乙丁[SEP]"
    assert counted(trees, "dropped_empty", "mentions_depth_2", "branches") == [2, 1, 2]


def test_loops_are_cut_after_folding(tmp_path: Path) -> None:
    graph = graph_of(
        tmp_path,
        "Apple\tis\tFruit", "fruit\thas\tＡＰＰＬＥ", "FRUIT\tlike\tapple", "fruit\tis\tplant",
        fold=("nfkc", "case"),
    )  # fmt: skip
    trees = trees_of(graph, "an apple", depth=2, branches_per_mention=3)
    assert flat(trees) == "[CLS]anappleFruitplant[SEP]"
    assert counted(trees, "dropped_loop", "branches") == [2, 2]


def test_what_never_matches_never_grows(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "甲甲\t类\t乙乙乙", "甲甲\t类\t丙", "乙乙乙\t类\t一", "丙\t类\t二")
    whole = {"depth": 2, "min_mention_length": 1}
    assert flat(trees_of(graph, "甲甲", **whole)) == "[CLS]甲甲乙乙乙一丙二[SEP]"
    assert flat(trees_of(graph, "甲甲", depth=2)) == "[CLS]甲甲乙乙乙一丙[SEP]"
    assert flat(trees_of(graph, "甲甲", **whole, max_mention_length=2)) == "[CLS]甲甲乙乙乙丙二[SEP]"
    assert flat(trees_of(graph, "甲甲", **whole, stop=frozenset({"丙"}))) == "[CLS]甲甲乙乙乙一丙[SEP]"


def test_the_mention_length_has_an_upper_end(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "甲乙丙\t类\t一", "甲乙\t类\t二")
    assert flat(trees_of(graph, "甲乙丙")) == "[CLS]甲乙丙一[SEP]"
    assert flat(trees_of(graph, "甲乙丙", max_mention_length=2)) == "[CLS]甲乙二丙[SEP]"


def test_children_in_both_texts_of_a_pair_have_their_segments_type(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "苹果\t类\t水果", "水果\t类\t植物")
    trees = build_trees(graph, GraftPolicy(depth=2), trunks_of(["苹果"], ["吃水果苹果"]), tokenize)
    assert flat(trees) == "[CLS]苹果水果植物[SEP]吃水果植物苹果水果植物[SEP]"
    assert trees.type_ids.tolist() == [0] * 8 + [1] * 12
    assert trees.mention.max() == 2
    assert trees.branch_parents.tolist() == [0, 1, 0, 0, 4]


def test_mentions_never_cross_a_separator(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "苹果\t类\t水果", "[SEP]\t类\t记号", "果[SEP]\t类\t记号")
    trees = build_trees(
        graph, GraftPolicy(min_mention_length=1), trunks_of(["苹", "苹"], ["果", None]), tokenize
    )
    assert flat(trees) == "[CLS]苹[SEP]果[SEP][CLS]苹[SEP]"
    assert trees.counters["mentions"] == 0


def test_a_row_has_at_most_so_many_branches(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "甲甲\t类\t一一", "甲甲\t类\t二", "乙乙\t类\t三")
    rows = trunks_of(["甲甲乙乙甲甲", "乙乙", "甲甲乙乙"])
    trees = build_trees(graph, GraftPolicy(branches_per_row=1), rows, tokenize)
    assert flat(trees) == "[CLS]甲甲一一乙乙甲甲[SEP][CLS]乙乙三[SEP][CLS]甲甲一一乙乙[SEP]"
    assert counted(trees, "mentions_grafted", "mentions_without_branch", "dropped_row_limit") == [3, 3, 6]
    # A branch that does not fit takes no place of those that do.
    tight = build_trees(
        graph, GraftPolicy(branches_per_row=2, max_length=8 + 2), trunks_of(["乙乙甲甲乙乙"]), tokenize
    )
    assert flat(tight) == "[CLS]乙乙三甲甲二乙乙[SEP]"
    assert counted(tight, "dropped_budget", "dropped_row_limit") == [1, 1]


# --- the ends of int16 --------------------------------------------------------------------------


def different(count: int) -> list[str]:
    """Characters that are each a token."""
    chars = [chr(point) for point in range(0x3400, 0xFA00) if chr(point).isalpha()]
    assert len(chars) >= count
    return chars[:count]


@pytest.mark.parametrize("depth", [1, 2])
def test_as_many_branches_as_a_row_can_have(tmp_path: Path, depth: int) -> None:
    objects = different(32_800)
    lines = [f"AB\t类\t{char}" for char in objects] if depth == 1 else ["AB\t类\tCD"]
    lines += [f"CD\t类\t{char}" for char in objects] if depth == 2 else []
    graph = graph_of(tmp_path, *lines)
    limit = 32_767
    policy = {"branches_per_mention": limit, "max_length": limit, "max_positions": limit, "depth": depth}
    trees = trees_of(graph, "AB", **policy)
    assert len(trees.ids) == limit
    branches = limit - 4 - (depth - 1)
    assert counted(trees, "branches", "dropped_budget") == [branches, limit - branches + depth - 1]
    assert trees.branch.max() == branches and trees.branch.min() == 0
    assert trees.branch_parents.tolist() == [0] + [depth - 1] * (branches - 1)


def test_as_many_mentions_as_a_row_can_have(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "甲\t类\t乙")
    policy = {"min_mention_length": 1, "max_length": 32_767, "max_positions": 32_767}
    trees = trees_of(graph, "甲" * 32_765, trunk_length=32_767, **policy)
    assert counted(trees, "mentions", "branches", "dropped_budget") == [32_765, 0, 32_765]
    half = trees_of(graph, "甲" * 16_382, trunk_length=32_767, **policy)
    assert (half.mention.max(), half.branch.max(), len(half.ids)) == (16_381, 16_382, 32_766)
    assert (np.diff(half.mention[half.branch > 0]) == 1).all()
