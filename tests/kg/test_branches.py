"""The cache of branches' tokens."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg import KnowledgeGraph
from kg.tree import branches
from kg.tree.branches import BranchTokens, branch_text
from tests.kg.handmade import graph_of, tokenize


class Listener:
    """A tokenizer that remembers what it was asked."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def __call__(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        self.batches.append(texts)
        return tokenize(texts)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeGraph:
    lines = ("甲甲\t类\t水果", "乙乙\t类\t水果", "丙丙\t类\t花", "丁丁\t属\t花", "戊戊\t\t花 草")
    graph = graph_of(tmp_path_factory.mktemp("kg"), *lines)
    said = [(graph.subject(t), graph.predicate(t), graph.object(t)) for t in range(5)]
    assert sorted(said) == sorted(tuple(line.split("\t")) for line in lines)
    return graph


def triples(graph: KnowledgeGraph, *subjects: str) -> np.ndarray:
    return np.array([graph.triples_of(graph.subject_id(subject))[0] for subject in subjects])


def ids_of(*texts: str) -> list[int]:
    return [ord(char) for text in texts for char in text if char != " "]


def test_each_object_is_tokenized_once_in_one_batch(graph: KnowledgeGraph) -> None:
    listener = Listener()
    cache = BranchTokens(graph, listener, False)
    ids, lengths = cache.get(triples(graph, "甲甲", "乙乙", "甲甲"))
    assert (ids.tolist(), lengths.tolist()) == (ids_of("水果", "水果", "水果"), [2, 2, 2])
    ids, lengths = cache.get(triples(graph, "丁丁", "乙乙", "丙丙"))
    assert (ids.tolist(), lengths.tolist()) == (ids_of("花", "水果", "花"), [1, 2, 1])
    assert listener.batches == [["水果"], ["花"]]


def test_with_predicates_each_pair_is_tokenized_once(graph: KnowledgeGraph) -> None:
    listener = Listener()
    cache = BranchTokens(graph, listener, True)
    ids, lengths = cache.get(triples(graph, "丁丁", "甲甲", "乙乙", "戊戊", "丙丙"))
    assert ids.tolist() == ids_of("属花", "类水果", "类水果", "花草", "类花")
    assert lengths.tolist() == [2, 3, 3, 2, 2]
    assert sorted(listener.batches[0]) == sorted(["属 花", "类 水果", "花 草", "类 花"])
    cache.get(triples(graph, "丙丙", "乙乙"))
    assert len(listener.batches) == 1


def test_the_text_of_a_branch(graph: KnowledgeGraph) -> None:
    told = [[branch_text(graph, t, shown) for t in triples(graph, "甲甲", "戊戊")] for shown in (False, True)]
    assert told == [["水果", "花 草"], ["类 水果", "花 草"]]


@settings(max_examples=60, deadline=None)
@given(
    questions=st.lists(st.lists(st.integers(0, 4), min_size=1), min_size=1, max_size=6),
    most=st.integers(0, 5),
    texts=st.integers(0, 4),
    predicate=st.booleans(),
)
def test_a_full_cache_starts_anew_and_stays_right(
    graph: KnowledgeGraph, questions: list[list[int]], most: int, texts: int, predicate: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(branches, "MAX_CACHED_TOKENS", most)
        patch.setattr(branches, "MAX_CACHED_TEXTS", texts)
        cache = BranchTokens(graph, tokenize, predicate)
        for question in questions:
            ids, lengths = cache.get(np.array(question))
            told = [branch_text(graph, t, predicate) for t in question]
            assert ids.tolist() == ids_of(*told)
            assert lengths.tolist() == [len(ids_of(text)) for text in told]


def test_a_full_cache_forgets(graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branches, "MAX_CACHED_TOKENS", 1)
    listener = Listener()
    cache = BranchTokens(graph, listener, False)
    for subject in ("甲甲", "丙丙", "甲甲"):
        cache.get(triples(graph, subject))
    assert listener.batches == [["水果"], ["花"], ["水果"]]


def test_no_triples_ask_for_nothing(graph: KnowledgeGraph) -> None:
    listener = Listener()
    ids, lengths = BranchTokens(graph, listener, False).get(np.empty(0, np.int64))
    assert (len(ids), len(lengths), listener.batches) == (0, 0, [])


def test_a_tokenizer_that_answers_wrongly_is_told(graph: KnowledgeGraph) -> None:
    def forgetful(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(3, np.int32), np.array([0, 3])

    with pytest.raises(ValueError, match="was given 3 texts and returned 2 offsets"):
        BranchTokens(graph, forgetful, False).get(np.arange(5))
