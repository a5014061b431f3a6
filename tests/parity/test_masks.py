"""The models' masks against what the authors of K-BERT and of SG-Net published."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kg import GraftPolicy, KnowledgeGraph, TreeBuilder
from models.masks import Mask, same_sequence, syntax, visible
from tests.kg.handmade import graph_of, tokenize
from tests.parity.test_kbert_released import Released, trunk_of_words
from tests.parity.test_sgnet import (
    Question,
    columns,
    questions,  # noqa: F401
    sentences_of,
    span_mask,
)

TABLE = {"苹果": ["水果", "红"], "梨子": ["水果"], "子": ["很长的对象"]}


def dense(mask: Mask, **numbers: np.ndarray) -> np.ndarray:
    """bool[T, T] of one row."""
    return mask.dense({name: torch.from_numpy(x)[None] for name, x in numbers.items()})[0, 0].numpy()


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeGraph:
    lines = [f"{subject}\t类\t{thing}" for subject, things in TABLE.items() for thing in things]
    return graph_of(tmp_path_factory.mktemp("kg"), *lines)


@settings(max_examples=50, deadline=None)
@given(
    words=st.lists(st.sampled_from(["苹果", "果", "好", "梨子", "很甜的"]), max_size=12),
    more=st.integers(0, 8),
)
def test_released_visible_matrix(words: list[str], more: int, graph: KnowledgeGraph) -> None:
    """Where nothing is cut; of padding, which sees nothing there, what matters is that nobody sees it."""
    theirs = Released.row(["[CLS]", *words, "[SEP]"], TABLE)
    length = len(theirs.tokens)
    trees = TreeBuilder(graph, GraftPolicy(match="words", min_mention_length=1), tokenize).build(
        trunk_of_words(words)
    )
    parents = np.concatenate([[0], trees.branch_parents])[trees.branch]
    padded = {
        name: np.pad(column.astype(np.int32), (0, more))
        for name, column in {
            "branch": trees.branch,
            "mention": trees.mention,
            "parent": parents,
            "sequence_id": np.ones(length),
        }.items()
    }
    ours = dense(same_sequence & visible, **padded)
    np.testing.assert_array_equal(ours[:length], theirs.cut(length + more).visible[:length])
    assert not ours[length:, :length].any() and ours.diagonal().all()


def test_published_spans(questions: list[Question]) -> None:  # noqa: F811
    """Words in one, two or three pieces, as `convert_span.py` spreads a word's span over pieces."""
    words = 0
    for sentence in set(sentences_of(questions)):
        word_of = np.repeat(np.arange(len(sentence.words)), [1 + len(w) % 3 for w in sentence.words])
        start, stop = (x.astype(np.int32)[word_of] for x in columns(sentence.heads))
        published = np.array(span_mask(sentence.spans))[np.ix_(word_of, word_of)]
        np.testing.assert_array_equal(dense(syntax(), dfs_in=start, dfs_out=stop), published)
        np.testing.assert_array_equal(dense(syntax("descendants"), dfs_in=start, dfs_out=stop), published.T)
        words += len(sentence.words)
    assert words == 3274
