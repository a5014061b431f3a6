"""Every decision with its reason: what is explained is what is built."""

from __future__ import annotations

import dataclasses
import tempfile
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg import GraftPolicy, GraphError, KnowledgeGraph, TreeBuilder, Trees, Trunks
from kg.tree import explain
from kg.tree.explain import BEYOND, Decision
from tests.kg.handmade import graph_of, tokenize, trunks_of
from tests.parity.kbert_reference import read_knowledge
from tests.parity.test_kbert import FOLDS, policies, triple_lists, words_of_rows


def explained(graph: KnowledgeGraph, text: str, length: int = 512, **policy: object) -> list[Decision]:
    builder = TreeBuilder(graph, GraftPolicy(**policy), tokenize)  # type: ignore[arg-type]
    return builder.explain(trunks_of([text], length=length))


def told(graph: KnowledgeGraph, decisions: list[Decision]) -> list[str]:
    """`object: outcome`, or `count outcome` where triples are not named."""
    return [
        f"{graph.object(d.triple)}: {d.outcome}" if d.triple >= 0 else f"{d.count} {d.outcome}"
        for d in decisions
    ]


def check_against(trees: Trees, decisions: list[Decision]) -> None:
    """Explained and built are the same decisions."""
    outcomes: Counter[str] = Counter()
    for decision in decisions:
        outcomes[decision.outcome] += decision.count
    for name, count in trees.counters.items():
        if name.startswith("dropped_"):
            assert (name, outcomes[name.removeprefix("dropped_")]) == (name, count)
    kept = [d for d in decisions if d.outcome == "kept"]
    assert all(d.triple >= 0 and d.count == 1 for d in kept)
    assert [d.triple for d in kept] == trees.branch_triples.tolist()
    rows = np.repeat(np.arange(len(trees.branch_offsets) - 1), np.diff(trees.branch_offsets))
    assert [d.row for d in kept] == rows.tolist()
    for at, decision in enumerate(kept):
        number = int(trees.branch_parents[at])
        parent = trees.branch_triples[trees.branch_offsets[decision.row] + number - 1] if number else -1
        assert decision.parent == parent
    anchors = {(d.row, d.segment, d.start) for d in decisions}
    assert len(anchors) == trees.counters["mentions"]


@settings(max_examples=150, deadline=None)
@given(
    triples=triple_lists,
    fold=st.sampled_from(FOLDS),
    trunk_length=st.integers(4, 24),
    listed=st.integers(0, 6),
    data=st.data(),
)
def test_what_is_explained_is_what_is_built(
    triples: list[tuple[str, str, str]],
    fold: tuple[str, ...],
    trunk_length: int,
    listed: int,
    data: st.DataObject,
) -> None:
    lines = ["\t".join(triple) for triple in triples]
    if not read_knowledge(lines, fold).triples:
        return
    subjects = sorted({s.strip() for s, _, _ in triples if s.strip()})
    text = st.lists(st.sampled_from([*subjects, "子", "a", " "]), max_size=8).map("".join)
    first = data.draw(st.lists(text, min_size=1, max_size=3))
    second = data.draw(st.lists(st.none() | text, min_size=len(first), max_size=len(first)))
    trunks = trunks_of(first, second, length=trunk_length)
    words = (words_of_rows(data.draw, first), words_of_rows(data.draw, second))
    trunks = dataclasses.replace(trunks, words=words)
    policy = data.draw(policies(int(np.diff(trunks.row_offsets).max()), subjects))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(explain, "LISTED", listed)
        graph = graph_of(Path(folder), *lines, fold=fold)
        builder = TreeBuilder(graph, policy, tokenize)
        decisions = builder.explain(trunks)
        trees = builder.build(trunks)
        check_against(trees, decisions)
        check_complete(graph, policy, decisions)


def check_complete(graph: KnowledgeGraph, policy: GraftPolicy, decisions: list[Decision]) -> None:
    """Each triple of a mention's subject is there once, by name or in a count."""
    of_mention: dict[tuple[int, int, int], list[Decision]] = {}
    for decision in decisions:
        of_mention.setdefault((decision.row, decision.segment, decision.start), []).append(decision)
    for mine in of_mention.values():
        if mine[0].outcome in ("unaligned", "anchor_cut"):
            assert len(mine) == 1
            continue
        from_trunk = [d for d in mine if d.parent == -1]
        named = [d.triple for d in from_trunk if d.triple >= 0]
        triples = graph.triples_of(mine[0].subject)
        assert len(set(named)) == len(named) and set(named) <= set(triples)
        assert sum(d.count for d in from_trunk) == len(triples)


def test_each_reason_has_its_name(tmp_path: Path) -> None:
    graph = graph_of(
        tmp_path, "苹果\t色\t红", "苹果\t类\t这个太长了", "苹果\t属\t水果", "苹果\t类\t水果", "苹果\t味\t\u00ad",
        "苹果\t类\t植物的", "苹果\t类\t甜", "苹果\t类\t圆", "苹果\t类\t香",
    )  # fmt: skip

    def nothing_for_soft_hyphens(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        return tokenize([text.replace("\u00ad", "") for text in texts])

    policy = GraftPolicy(
        branches_per_mention=5, max_object_length=4, exclude_predicates=frozenset({"色"}), max_length=4 + 4,
        max_positions=5,
    )  # fmt: skip
    builder = TreeBuilder(graph, policy, nothing_for_soft_hyphens)
    assert told(graph, builder.explain(trunks_of(["苹果"]))) == [
        "红: predicate",
        "这个太长了: object_too_long",
        "水果: kept",
        "水果: object_repeated",
        "\u00ad: empty",
        "植物的: position",
        "甜: kept",
        "圆: kept",
        "香: beyond_branches_per_mention",
    ]
    small = dataclasses.replace(policy, max_length=4 + 2, branches_per_mention=9)
    decisions = TreeBuilder(graph, small, nothing_for_soft_hyphens).explain(trunks_of(["苹果"]))
    assert told(graph, decisions)[-3:] == ["甜: budget", "圆: budget", "香: budget"]
    one = dataclasses.replace(policy, branches_per_row=1)
    decisions = TreeBuilder(graph, one, nothing_for_soft_hyphens).explain(trunks_of(["苹果"]))
    assert told(graph, decisions)[-3:] == ["甜: row_limit", "圆: row_limit", f"香: {BEYOND}"]


def test_mentions_that_are_dropped_say_why(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "苹果\t类\t水果", "果树\t类\t植物")
    cut = explained(graph, "我爱苹果和果树", length=5)
    assert [(d.start, d.stop, d.outcome, d.triple) for d in cut] == [
        (2, 4, "anchor_cut", -1),
        (5, 7, "anchor_cut", -1),
    ]

    def pairs(text: str) -> list[tuple[int, int]]:
        return [(k, min(k + 2, len(text))) for k in range(0, len(text), 2)]

    builder = TreeBuilder(graph, GraftPolicy(), tokenize)
    unaligned = builder.explain(trunks_of(["我苹果爱果树"], ["果树"], pieces=pairs))
    assert [(d.segment, d.start, d.outcome) for d in unaligned] == [
        (0, 1, "unaligned"),
        (0, 4, "kept"),
        (1, 0, "kept"),
    ]


def test_depth_2_names_the_branch_and_its_loops(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "苹果\t类\t水果", "苹果\t色\t红色", "水果\t例\t苹果", "水果\t类\t植物")
    decisions = explained(graph, "苹果", depth=2)
    assert told(graph, decisions) == ["水果: kept", "苹果: loop", "植物: kept", "红色: kept"]
    fruit = decisions[0].triple
    assert [d.parent for d in decisions] == [-1, fruit, fruit, -1]
    assert {d.subject for d in decisions} == {graph.subject_id("苹果")}


def test_a_loop_is_no_repetition_of_what_was_not_wanted(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "苹果\t类\t水果", "水果\t坏\t苹果", "水果\t例\t苹果", "水果\t如\t苹果")
    decisions = explained(graph, "苹果", depth=2, exclude_predicates=frozenset({"坏"}))
    assert told(graph, decisions) == [
        "水果: kept", "苹果: predicate", "苹果: loop", "苹果: object_repeated",
    ]  # fmt: skip


@pytest.mark.parametrize("rank", ["file", "shortest", "most_frequent"])
def test_a_subject_with_a_great_many_objects_is_listed_in_part(tmp_path: Path, rank: str) -> None:
    count = 100_000
    graph = graph_of(tmp_path, *(f"甲词\t类{k % 2}\tA{k:06d}" for k in range(count)))
    policy = {"rank": rank, "exclude_predicates": frozenset({"类0"}), "branches_per_mention": 40}
    tracemalloc.start()
    decisions = explained(graph, "甲词", max_positions=30, **policy)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(decisions) < 60 and peak < 16 * 2**20
    outcomes: Counter[str] = Counter()
    for decision in decisions:
        outcomes[decision.outcome] += decision.count
    assert outcomes == {"kept": 40, "predicate": 40, BEYOND: count - 80}
    assert told(graph, decisions)[:2] == ["A000000: predicate", "A000001: kept"]
    assert {d.outcome: d.count for d in decisions if d.triple < 0} == {"predicate": 24, BEYOND: count - 80}


def test_explain_refuses_what_build_refuses(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "苹果\t类\t水果")
    trunks: Trunks = trunks_of(["我爱苹果"])
    with pytest.raises(GraphError, match="the trunk of row 0 has 6 tokens, max_length is 5"):
        TreeBuilder(graph, GraftPolicy(max_length=5), tokenize).explain(trunks)
