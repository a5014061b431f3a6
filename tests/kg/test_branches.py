"""Which triples are candidates, and the cache of their tokens."""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg import KnowledgeGraph, branches
from kg.branches import branch_tokens, candidates
from tests.kg.handmade import graph_of, tokenize


@settings(max_examples=60, deadline=None)
@given(
    triples=st.lists(
        st.tuples(
            st.sampled_from(["甲甲", "乙乙", "丙丙"]),
            st.sampled_from("类属"),
            st.text("ab", min_size=1, max_size=3),
        ),
        min_size=1,
        max_size=40,
    ),
    count=st.integers(1, 5),
    longest=st.integers(1, 3),
    predicate=st.booleans(),
    ahead=st.integers(1, 8),
)
def test_candidates_equal_a_loop(
    triples: list[tuple[str, str, str]],
    count: int,
    longest: int,
    predicate: bool,
    ahead: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    graph = graph_of(tmp_path_factory.mktemp("kg"), *("\t".join(triple) for triple in triples))
    subjects = np.arange(graph.info.subjects)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(branches, "_LOOK_AHEAD", ahead)
        patch.setattr(branches, "_LOOK_AT_ONCE", ahead)
        found = candidates(graph, subjects, count, longest, predicate)
    for subject in subjects.tolist():
        kept: list[int] = []
        seen: set[str] = set()
        long = again = 0
        for triple in graph.triples_of(subject):
            if len(kept) == count:
                break
            object_ = graph.object(triple)
            if len(object_) > longest:
                long += 1
            elif object_ in seen and not predicate:
                again += 1
            else:
                seen.add(object_)
                kept.append(triple)
        assert found.triples[found.offsets[subject] : found.offsets[subject + 1]].tolist() == kept
        assert (found.too_long[subject], found.repeated[subject]) == (long, again)


class Listener:
    """A tokenizer that remembers what it was asked."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def __call__(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        self.batches.append(texts)
        return tokenize(texts)


@pytest.fixture
def graph(tmp_path: Path) -> KnowledgeGraph:
    return graph_of(tmp_path, "甲甲\t类\t水果", "乙乙\t类\t水果", "丙丙\t类\t花", "丁丁\t属\t花")


def ids_of(*texts: str) -> list[int]:
    return [ord(char) for text in texts for char in text]


def test_each_object_is_tokenized_once_in_one_batch(graph: KnowledgeGraph) -> None:
    listener = Listener()
    cache = branch_tokens(graph, listener, False)
    ids, lengths = cache.get(np.array([0, 1, 0]))
    assert (ids.tolist(), lengths.tolist()) == (ids_of("水果", "水果", "水果"), [2, 2, 2])
    ids, lengths = branch_tokens(graph, listener, False).get(np.array([3, 1, 2]))
    assert (ids.tolist(), lengths.tolist()) == (ids_of("花", "水果", "花"), [1, 2, 1])
    assert listener.batches == [["水果"], ["花"]]


def test_another_tokenizer_or_form_starts_a_new_cache(graph: KnowledgeGraph) -> None:
    one, two = Listener(), Listener()
    everything = np.arange(4)
    branch_tokens(graph, one, False).get(everything)
    branch_tokens(graph, two, False).get(everything)
    told = [f"{graph.predicate(t)}{graph.object(t)}" for t in range(4)]
    assert branch_tokens(graph, two, True).get(everything)[0].tolist() == ids_of(*told)
    assert (len(one.batches), len(two.batches)) == (1, 2)


def test_a_full_cache_starts_anew_and_stays_right(
    graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(branches, "MAX_CACHED_TOKENS", 1)
    listener = Listener()
    for triples in ([0], [2], [0, 2], [3, 1]):
        ids, _ = branch_tokens(graph, listener, False).get(np.array(triples))
        assert ids.tolist() == ids_of(*(graph.object(t) for t in triples))
    assert len(listener.batches) > 2


def test_threads_share_a_cache(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, *(f"甲{k}\t类\t物{k}" for k in range(500)))
    wrong: list[int] = []

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        for _ in range(50):
            triples = random.integers(0, 500, 20)
            ids, _ = branch_tokens(graph, tokenize, False).get(triples)
            if ids.tolist() != ids_of(*(graph.object(int(t)) for t in triples)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_graph_takes_its_cache_along_when_it_goes(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "甲甲\t类\t水果")
    cache = weakref.ref(branch_tokens(graph, tokenize, False))
    assert cache() is not None
    del graph
    gc.collect()
    assert cache() is None


def test_a_tokenizer_that_answers_wrongly_is_told(graph: KnowledgeGraph) -> None:
    def forgetful(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(3, np.int32), np.array([0, 3])

    with pytest.raises(ValueError, match="was given 2 texts and returned 2 offsets"):
        branch_tokens(graph, forgetful, False).get(np.arange(4))
