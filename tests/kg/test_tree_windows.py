"""Rows that share a text: it is searched once, and a window minds the mentions that it has a token of."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg import GraftPolicy, KnowledgeGraph, Trees, Trunks, Words, build_trees
from kg.match import Matcher
from tests.kg.handmade import CLS, SEP, graph_of, tokenize, tokens

TRIPLES = ("北京\t类别\t首都", "北京大学\t在\t中", "苹果\t类\t水果", "ﬁn\t是\t鳍")


def windows_of(texts: Sequence[str], spans: Sequence[tuple[int, int, int]], *, windows: bool) -> Trunks:
    """[CLS] 问 [SEP] text [SEP] for every (text, first character, one past the last); a token a character."""
    rows = [
        [(CLS, 0, 0, 0, True), (ord("问"), 0, 0, 1, False), (SEP, 0, 0, 0, True)]
        + [(ord(texts[t][i]), 1, i, i + 1, False) for i in range(a, b)]
        + [(SEP, 1, 0, 0, True)]
        for t, a, b in spans
    ]
    flat = [token for row in rows for token in row]
    dtypes = (np.int32, np.int8, np.int32, np.int32, np.bool_)
    columns = [np.array([token[k] for token in flat], d) for k, d in enumerate(dtypes)]
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    segments = (["问"] * len(spans), [texts[t] for t, _, _ in spans])
    return Trunks(offsets, *columns, segments, windows=windows)


def with_words(trunks: Trunks, spans: Sequence[tuple[int, int, int]]) -> Trunks:
    """Words of two characters; each window has those that it has a token of."""
    cuts = [[(i, min(i + 2, b + 1)) for i in range(a - a % 2, b, 2)] for _, a, b in spans]
    cuts = [
        [(i, j) for i, j in row if j <= len(t or "")] for row, t in zip(cuts, trunks.texts[1], strict=True)
    ]
    flat = np.array([word for row in cuts for word in row], np.int32).reshape(-1, 2)
    second = Words(flat[:, 0], flat[:, 1], np.cumsum([0, *map(len, cuts)]).astype(np.int64))
    none = Words(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(len(spans) + 1, np.int64))
    return dataclasses.replace(trunks, words=(none, second))


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeGraph:
    return graph_of(tmp_path_factory.mktemp("windows"), *TRIPLES)


@pytest.fixture(scope="module")
def folded(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeGraph:
    return graph_of(tmp_path_factory.mktemp("folded"), *TRIPLES, fold=("case", "nfkc"))


def test_mentions_of_other_windows_are_nobodys_loss(graph: KnowledgeGraph) -> None:
    text = "北京大学很好苹果好"
    spans = [(0, 0, 5), (0, 2, 8), (0, 4, 9)]
    trees = build_trees(graph, GraftPolicy(), windows_of([text], spans, windows=True), tokenize)
    rows = np.split(trees.ids, trees.row_offsets[1:-1])
    assert ["".join(tokens(row)) for row in rows] == [
        "[CLS]问[SEP]北京大学中很[SEP]",
        "[CLS]问[SEP]大学很好苹果水果[SEP]",  # 北京大学 was cut, and never becomes 北京
        "[CLS]问[SEP]很好苹果水果好[SEP]",
    ]
    assert trees.counters["mentions"] == 4
    assert trees.counters["dropped_anchor_cut"] == 1
    whole = build_trees(graph, GraftPolicy(), windows_of([text], spans, windows=False), tokenize)
    assert whole.counters["mentions"] == 6
    assert whole.counters["dropped_anchor_cut"] == 3
    assert same_columns(trees, whole)


def same_columns(a: Trees, b: Trees) -> bool:
    names = [f.name for f in dataclasses.fields(Trees) if f.name != "counters"]
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in names)


PARTS = st.lists(
    st.sampled_from(["北京", "北", "大学", "苹果", "好", "ﬁn", "e\u0301", " "]), min_size=1, max_size=30
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(PARTS.map("".join), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(1, 20)), min_size=1, max_size=6),
    st.booleans(),
    st.booleans(),
)
def test_windows_have_the_trees_of_rows_that_were_cut(
    graph: KnowledgeGraph,
    folded: KnowledgeGraph,
    texts: list[str],
    places: list[tuple[int, int, int]],
    fold: bool,
    by_words: bool,
) -> None:
    """Alone or together, as windows or as cut texts: the same trees; only the mentions counted differ."""
    spans = [(t % len(texts), a, a + n) for t, a, n in places]
    spans = [(t, min(a, len(texts[t]) - 1), min(b, len(texts[t]))) for t, a, b in spans]
    spans = [(t, a, max(b, a + 1)) for t, a, b in spans]
    used = folded if fold else graph
    policy = GraftPolicy(match="words" if by_words else "longest")

    def trunks(chosen: Sequence[tuple[int, int, int]], windows: bool) -> Trunks:
        made = windows_of(texts, chosen, windows=windows)
        return with_words(made, chosen) if by_words else made

    together = build_trees(used, policy, trunks(spans, True), tokenize)
    assert same_columns(together, build_trees(used, policy, trunks(spans, False), tokenize))
    alone = [build_trees(used, policy, trunks([span], True), tokenize) for span in spans]
    for name in ("ids", "soft_positions", "mention", "branch_triples"):
        assert getattr(together, name).tolist() == [v for tree in alone for v in getattr(tree, name).tolist()]
    for name, count in together.counters.items():
        assert count == sum(tree.counters[name] for tree in alone)


def test_a_text_is_searched_once(graph: KnowledgeGraph) -> None:
    trunks = windows_of(["北京很好", "苹果"], [(0, 0, 3), (1, 0, 2), (0, 2, 4), (0, 0, 4)], windows=True)
    with mock.patch.object(Matcher, "longest", autospec=True, side_effect=Matcher.longest) as search:
        build_trees(graph, GraftPolicy(), trunks, tokenize)
    (((_, texts), _),) = search.call_args_list
    assert sorted(texts) == sorted(["问", "北京很好", "苹果"])


def test_of_a_long_text_a_windows_words_are_looked_at_alone(graph: KnowledgeGraph) -> None:
    spans = [(0, 500, 504)]
    trunks = with_words(windows_of(["北京" * 500], spans, windows=True), spans)
    with mock.patch.object(Matcher, "words", autospec=True, side_effect=Matcher.words) as search:
        trees = build_trees(graph, GraftPolicy(match="words"), trunks, tokenize)
    (((_, texts, *_), _),) = search.call_args_list
    assert max(map(len, texts)) < 100
    assert trees.counters["mentions_grafted"] == 2
