"""Which triples are candidates, in which order, and what was passed over on the way."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg import GraftPolicy, KnowledgeGraph
from kg.tree import candidates, ranking
from kg.tree.candidates import CandidateFinder, Candidates
from kg.tree.ranking import Ranking
from tests.kg.handmade import graph_of
from tests.parity.kbert_reference import choose, read_knowledge

TRUNK = -2
names = ("predicate", "object_too_long", "object_repeated", "loop")
subjects = ["甲甲", "乙乙", "丙丙"]
triple_lists = st.lists(
    st.tuples(
        st.sampled_from(subjects),
        st.sampled_from("类属"),
        st.text("ab", min_size=1, max_size=3) | st.sampled_from(subjects),
    ),
    min_size=1,
    max_size=40,
)


@st.composite
def policies(draw: st.DrawFn) -> GraftPolicy:
    return GraftPolicy(
        branches_per_mention=draw(st.integers(1, 5)),
        max_object_length=draw(st.integers(1, 3)),
        predicate=draw(st.booleans()),
        rank=draw(st.sampled_from(["file", "shortest", "most_frequent", "least_frequent"])),
        exclude_predicates=draw(st.sampled_from([frozenset(), frozenset("类")])),
        depth=draw(st.sampled_from([1, 2])),
    )


def of(found: Candidates, graph: KnowledgeGraph, k: int) -> tuple[list[tuple[str, str]], dict[str, int]]:
    triples = found.triples[found.offsets[k] : found.offsets[k + 1]].tolist()
    passed = dict(zip(names, found.passed[k].tolist(), strict=True))
    told = [(graph.predicate(t), graph.object(t)) for t in triples]
    return told, {name: n for name, n in passed.items() if n}


@settings(max_examples=100, deadline=None)
@given(triples=triple_lists, policy=policies(), ahead=st.integers(1, 8), chunk=st.integers(1, 50))
def test_candidates_equal_a_loop(
    triples: list[tuple[str, str, str]],
    policy: GraftPolicy,
    ahead: int,
    chunk: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    lines = ["\t".join(triple) for triple in triples]
    knowledge = read_knowledge(lines)
    if not knowledge.triples:
        return
    graph = graph_of(tmp_path_factory.mktemp("kg"), *lines)
    everyone = range(graph.info.subjects)
    pairs = [(a, b) for a in everyone for b in (TRUNK, *everyone)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "_LOOK_AHEAD", ahead)
        patch.setattr(ranking, "CHUNK", chunk)
        patch.setattr(candidates, "_AT_ONCE", chunk)
        found = CandidateFinder(graph, policy).select(*np.array(pairs).T)
    for k, (subject, ancestor) in enumerate(pairs):
        path = [graph.subject_text(s) for s in (subject, ancestor) if s >= 0]
        chosen, passed = choose(knowledge, graph.subject_text(subject), path, policy)
        assert of(found, graph, k) == ([(t.predicate, t.object) for t in chosen], dict(passed))


@settings(max_examples=40, deadline=None)
@given(triples=triple_lists, policy=policies(), most=st.integers(0, 4), data=st.data())
def test_candidates_do_not_depend_on_what_was_asked_before(
    triples: list[tuple[str, str, str]],
    policy: GraftPolicy,
    most: int,
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    lines = ["\t".join(triple) for triple in triples]
    if not read_knowledge(lines).triples:
        return
    graph = graph_of(tmp_path_factory.mktemp("kg"), *lines)
    everyone = st.integers(0, graph.info.subjects - 1)
    questions = data.draw(
        st.lists(st.lists(st.tuples(everyone, everyone | st.just(TRUNK)), min_size=1), min_size=1, max_size=5)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "MAX_CACHED_TRIPLES", most)  # starts anew in the midst of it
        asked = CandidateFinder(graph, policy)
        for question in questions:
            found = asked.select(*np.array(question).T)
            for k, pair in enumerate(question):
                alone = CandidateFinder(graph, policy).select(*np.array([pair]).T)
                assert of(found, graph, k) == of(alone, graph, 0)


def texts(
    graph: KnowledgeGraph, policy: GraftPolicy, subject: str = "甲甲", ancestor: int = TRUNK
) -> list[str]:
    found = CandidateFinder(graph, policy).select(np.array([graph.subject_id(subject)]), np.array([ancestor]))
    return [graph.object(t) for t in found.triples.tolist()]


def test_ranks_and_their_ties(tmp_path: Path) -> None:
    graph = graph_of(
        tmp_path,
        "甲甲\t类\t丙丙丙", "甲甲\t类\t乙", "甲甲\t类\t甲", "甲甲\t属\t丁丁", "乙乙\t类\t丁丁", "丙丙\t类\t丁丁",
        "乙乙\t类\t丙丙丙",
    )  # fmt: skip
    by = {
        rank: texts(graph, GraftPolicy(rank=rank, branches_per_mention=9))  # type: ignore[arg-type]
        for rank in ("file", "shortest", "most_frequent", "least_frequent")
    }
    assert by == {
        "file": ["丙丙丙", "乙", "甲", "丁丁"],
        "shortest": ["乙", "甲", "丁丁", "丙丙丙"],  # 乙 is U+4E59, 甲 is U+7532
        "most_frequent": ["丁丁", "丙丙丙", "乙", "甲"],
        "least_frequent": ["乙", "甲", "丙丙丙", "丁丁"],
    }


@pytest.mark.parametrize("rank", ["shortest", "most_frequent", "least_frequent"])
def test_only_rank_file_depends_on_the_order_of_the_file(tmp_path: Path, rank: str) -> None:
    lines = [f"甲甲\t{p}\t{'物' * (k % 4 + 1)}{k % 7}" for k in range(40) for p in "类属"]
    lines += [f"乙乙\t类\t{'物' * (k % 4 + 1)}{k % 7}" for k in range(0, 40, 3)]
    one = graph_of(tmp_path, *lines, name="one")
    other = graph_of(tmp_path, *reversed(lines), name="other")
    for predicate in (False, True):
        policy = GraftPolicy(rank=rank, branches_per_mention=9, predicate=predicate)  # type: ignore[arg-type]
        told = [
            [(graph.predicate(t), graph.object(t)) for t in found.triples.tolist()]
            for graph in (one, other)
            for found in [CandidateFinder(graph, policy).select(np.array([0, 1]), np.array([TRUNK, TRUNK]))]
        ]
        assert told[0] == told[1]
    assert texts(one, GraftPolicy(branches_per_mention=9)) != texts(
        other, GraftPolicy(branches_per_mention=9)
    )


def test_an_object_counts_as_repeated_only_after_one_that_was_wanted(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "甲甲\t类\t水果", "甲甲\t属\t水果", "甲甲\t色\t红", "甲甲\t味\t红")
    policy = GraftPolicy(exclude_predicates=frozenset({"类"}), branches_per_mention=3)
    found = CandidateFinder(graph, policy).select(np.array([0]), np.array([TRUNK]))
    assert of(found, graph, 0) == (
        [("属", "水果"), ("色", "红")],
        {"predicate": 1, "object_repeated": 1},
    )
    only = GraftPolicy(include_predicates=frozenset({"味", "没有"}), branches_per_mention=3)
    found = CandidateFinder(graph, only).select(np.array([0]), np.array([TRUNK]))
    assert of(found, graph, 0) == ([("味", "红")], {"predicate": 3})


def test_loops_give_their_place_to_the_next(tmp_path: Path) -> None:
    """Many triples of 乙乙 lead back: the list that is kept between blocks is made longer."""
    graph = graph_of(
        tmp_path,
        "甲甲\t类\t乙乙", *(f"乙乙\t类{k}\t甲甲" for k in range(100)), "乙乙\t类\t丙", "乙乙\t类\t丁",
    )  # fmt: skip
    policy = GraftPolicy(depth=2, branches_per_mention=1, predicate=True)
    one, two = graph.subject_id("甲甲"), graph.subject_id("乙乙")
    finder = CandidateFinder(graph, policy)
    found = finder.select(np.array([two, two, one]), np.array([one, TRUNK, TRUNK]))
    assert [of(found, graph, k) for k in range(3)] == [
        ([("类", "丙")], {"loop": 100}),
        ([("类0", "甲甲")], {}),
        ([("类", "乙乙")], {}),
    ]
    again = finder.select(np.array([two]), np.array([TRUNK]))
    assert of(again, graph, 0) == ([("类0", "甲甲")], {})


def test_what_a_subject_says_of_itself_is_a_loop(tmp_path: Path) -> None:
    """Compiled graphs have no such triples; the rule stands for itself."""
    graph = graph_of(tmp_path, "甲甲\t类\t丙", "甲甲\t类\t丁")
    graph.object_subjects = np.where(np.arange(2) == graph.objects[0], 0, -1).astype(np.int32)
    found = CandidateFinder(graph, GraftPolicy()).select(np.array([0]), np.array([TRUNK]))
    assert of(found, graph, 0) == ([("类", "丁")], {"loop": 1})


# --- size -----------------------------------------------------------------------------------------

HUB = 300_000


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeGraph:
    """One subject with a great many objects, all but a few of them long."""
    lines = [f"甲甲\t类{k % 3}\t物物{k:06d}" for k in range(HUB)]
    return graph_of(tmp_path_factory.mktemp("hub"), *lines, "甲甲\t类\t短", "乙乙\t类\t物物000007")


@pytest.mark.parametrize(
    ("policy", "chosen", "passed"),
    [
        ({}, ["物物000000", "物物000001"], {}),
        ({"max_object_length": 3}, ["短"], {"object_too_long": HUB}),
        ({"rank": "shortest"}, ["短", "物物000000"], {}),
        ({"rank": "most_frequent"}, ["物物000007", "物物000000"], {}),
        ({"rank": "most_frequent", "max_object_length": 3}, ["短"], {"object_too_long": HUB}),
        (
            {
                "rank": "least_frequent",
                "include_predicates": frozenset({"类", "类1"}),
                "branches_per_mention": 1,
            },
            ["物物000001"],
            {"predicate": 1},
        ),
    ],
)
def test_a_hub_is_looked_through_once_and_in_bounded_memory(
    hub: KnowledgeGraph, policy: dict[str, object], chosen: list[str], passed: dict[str, int]
) -> None:
    finder = CandidateFinder(hub, GraftPolicy(**policy))  # type: ignore[arg-type]
    subject, trunk = np.array([hub.subject_id("甲甲")]), np.array([TRUNK])
    tracemalloc.start()
    found = finder.select(subject, trunk)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    told, counts = of(found, hub, 0)
    assert ([object_ for _, object_ in told], counts) == (chosen, passed)
    assert peak < 16 * 2**20
    start = time.process_time()
    for _ in range(20):
        finder.select(subject, trunk)
    assert time.process_time() - start < 0.1


def test_in_file_order_a_hub_is_hardly_looked_at(
    hub: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, reasons = [], Ranking.reasons

    def listen(self: Ranking, triples: np.ndarray) -> np.ndarray:
        looked.append(len(triples))
        return reasons(self, triples)

    monkeypatch.setattr(Ranking, "reasons", listen)
    policy = GraftPolicy(branches_per_mention=10, exclude_predicates=frozenset({"类0"}))
    found = CandidateFinder(hub, policy).select(
        np.arange(hub.info.subjects), np.full(hub.info.subjects, TRUNK)
    )
    assert len(found.triples) == 11
    assert found.passed[hub.subject_id("甲甲")].tolist() == [5, 0, 0, 0]
    assert sum(looked) < 50


def test_the_cache_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "MAX_CACHED_SUBJECTS", 50)
    graph = graph_of(tmp_path, *(f"甲{k}\t类\t物{j}" for k in range(300) for j in range(3)))
    finder = CandidateFinder(graph, GraftPolicy())
    for at in range(0, 300, 10):
        part = np.arange(at, at + 10)
        found = finder.select(part, np.full(10, TRUNK))
        assert len(found.triples) == 20
        assert len(finder._starts) <= 60 and len(finder._lists.triples) <= 120 and len(finder._slots) <= 60


@pytest.mark.parametrize("branches", [2, 300])
def test_two_hubs_that_name_only_each_other_take_a_while_and_no_more(tmp_path: Path, branches: int) -> None:
    """The pair is asked once, however many branches lead to it, and no round looks at what was found before."""
    count = 200_000
    lines = (f"{a}\tp{k}\t{b}" for k in range(count) for a, b in (("甲甲", "乙乙"), ("乙乙", "甲甲")))
    graph = graph_of(tmp_path, *lines)
    one, two = graph.subject_id("甲甲"), graph.subject_id("乙乙")
    last = frozenset({f"p{count - 1}"})  # one that is passed over, so that all are counted
    policy = GraftPolicy(depth=2, predicate=True, branches_per_mention=branches, exclude_predicates=last)
    finder = CandidateFinder(graph, policy)
    tracemalloc.start()
    start = time.process_time()
    found = finder.select(np.full(1000, two), np.full(1000, one))
    took = time.process_time() - start
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found.triples) == 0 and (found.passed == [1, 0, 0, count - 1]).all()
    assert took < 1 and peak < 100 * 2**20
