"""Words that share a surface become one: the tree stays a tree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.multiword import merge


def _merge(tokens: list[int], heads: list[int]) -> tuple[list[int], list[int], int]:
    found = merge(tokens, heads)
    return found.keep.tolist(), found.heads.tolist(), found.merged


def test_nothing_to_merge_changes_nothing() -> None:
    assert _merge([0, 1, 2], [1, 1, 1]) == ([0, 1, 2], [1, 1, 1], 0)
    assert _merge([], []) == ([], [], 0)


def test_the_word_that_governs_stands_for_the_token() -> None:
    # le prix (de le) vin: de and le hang from vin, vin from prix.
    assert _merge([0, 1, 2, 2, 3], [1, 1, 4, 4, 1]) == ([0, 1, 2, 4], [1, 1, 3, 1], 1)
    # (a b): a hangs from b, b from outside: b governs; c, a child of a, hangs from the merged word.
    assert _merge([5, 5, 7, 8], [1, 3, 0, 3]) == ([1, 2, 3], [2, 0, 2], 1)
    # The root is in the token: the merged word is the root.
    assert _merge([0, 0, 1], [1, 1, 0]) == ([1, 2], [0, 0], 1)


def test_of_two_heads_outside_the_one_nearer_the_root_counts() -> None:
    # (a b) x: a hangs from x, x from b, b is the root. Taking a, the first, would hang the token from its own child.
    assert _merge([0, 0, 1], [2, 1, 1]) == ([1, 2], [0, 0], 1)


def test_words_without_a_head() -> None:
    assert _merge([0, 0, 1], [-1, -1, -1]) == ([0, 2], [-1, -1], 1)
    assert _merge([0, 0, 1], [-1, 2, 2]) == ([1, 2], [1, 1], 1)


@pytest.mark.parametrize(
    ("tokens", "heads"), [([0, 1], [0]), ([1, 0], [0, 0]), ([0, 1], [0, 2]), ([0, 1], [0, -2])]
)
def test_what_makes_no_sense_is_refused(tokens: list[int], heads: list[int]) -> None:
    with pytest.raises(ValueError, match="must be"):
        merge(tokens, heads)


def test_a_cycle_ends() -> None:
    assert len(merge([0, 0, 1, 2], [1, 2, 3, 0]).keep) == 3


@st.composite
def _trees(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Tokens and heads of one to three trees, side by side, whose tokens do not reach across them."""
    tokens: list[int] = []
    heads: list[int] = []
    for _ in range(draw(st.integers(1, 3))):
        count, first = draw(st.integers(1, 12)), len(heads)
        order = draw(st.permutations(range(count)))
        own = [0] * count
        for place, word in enumerate(order):
            own[word] = order[draw(st.integers(0, place - 1))] if place else word
        heads += [first + head for head in own]
        last = tokens[-1] + 1 if tokens else 0
        tokens += (
            last + np.cumsum(draw(st.lists(st.integers(0, 1), min_size=count, max_size=count)))
        ).tolist()
    return tokens, heads


@given(_trees())
def test_one_tree_stays_one_tree(case: tuple[list[int], list[int]]) -> None:
    tokens, heads = case
    found = merge(tokens, heads)
    # One word a token, in order: spans that tiled the text with the tokens still do with the words.
    assert [tokens[k] for k in found.keep] == sorted(set(tokens))
    for word, (kept, head) in enumerate(zip(found.keep.tolist(), found.heads.tolist(), strict=True)):
        above = heads[kept]
        assert (head == word) == (tokens[above] == tokens[kept] and above == kept)
        if head != word:
            assert tokens[found.keep[head]] == tokens[above] != tokens[kept]
        at, steps = word, 0
        while found.heads[at] != at:
            at, steps = int(found.heads[at]), steps + 1
            assert steps < len(found.keep)  # no cycle
    roots = [found.keep[i] for i, h in enumerate(found.heads.tolist()) if h == i]
    assert [tokens[r] for r in roots] == sorted({tokens[i] for i, h in enumerate(heads) if h == i})


@given(_trees())
def test_the_governor_is_the_one_whose_head_lies_outside(case: tuple[list[int], list[int]]) -> None:
    tokens, heads = case
    for kept in merge(tokens, heads).keep.tolist():
        mates = [i for i, t in enumerate(tokens) if t == tokens[kept]]
        outside = [i for i in mates if heads[i] == i or heads[i] not in mates]
        if len(outside) == 1:
            assert kept == outside[0]
