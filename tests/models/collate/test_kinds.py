"""Kinds of language model: by their shares, of each row alone, and never sequence to sequence without a second segment."""

from __future__ import annotations

import pickle
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.collate.collator import Collator
from models.collate.kinds import Kinds
from models.collate.sequences import Lists, Sequences
from models.masks import LM_KINDS
from models.stream.rows import Rows
from tests.models.collate.literal import as_rows
from tests.models.collate.mlm_literal import constant, key, splitmix
from tests.rows import make_rows

PUBLISHED = {"bidirectional": 1 / 3, "seq2seq": 1 / 3, "left_to_right": 1 / 6, "right_to_left": 1 / 6}
SEQ2SEQ = LM_KINDS.index("seq2seq")


def rows_of(pairs: list[bool], epoch: int = 0, first: int = 0) -> Sequences:
    """Rows of two tokens, of two segments or of one."""
    n = len(pairs)
    rows = Rows(np.arange(n) + first, np.full(n, epoch), np.ones(n, np.float32))
    types = np.array([[0, pair] for pair in pairs], np.int8).reshape(-1)
    columns = {"input_ids": np.zeros(2 * n, np.int32), "token_type_ids": types}
    return Sequences(rows, np.arange(n), Lists(np.arange(n + 1) * 2, columns))


def kinds(step: Kinds, sequences: Sequences) -> np.ndarray:
    found = step(sequences).scalars["lm_kind"]
    assert found.dtype == np.int64
    return found


def literal(shares: Mapping[str, float], seed: int, number: int, epoch: int, pair: bool) -> int:
    draw = (splitmix(key(seed, number, epoch, 0), constant(3)) >> 11) / 2**53
    may = [(LM_KINDS.index(k), share) for k, share in shares.items() if pair or k != "seq2seq"]
    total, end = sum(share for _, share in may), 0.0
    for kind, share in sorted(may):
        end += share / total
        if draw < end:
            return kind
    raise AssertionError


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(st.sampled_from(LM_KINDS), st.integers(1, 5), min_size=1),
    st.integers(0, 2**63 - 1),
    st.lists(st.booleans(), max_size=12),
    st.integers(0, 9),
)
def test_as_a_loop_draws(shares: dict[str, int], seed: int, pairs: list[bool], epoch: int) -> None:
    if set(shares) == {"seq2seq"}:
        pairs = [True for _ in pairs]
    found = kinds(Kinds(shares, seed), rows_of(pairs, epoch, 5))
    assert found.tolist() == [literal(shares, seed, 5 + i, epoch, pair) for i, pair in enumerate(pairs)]
    for i, pair in enumerate(pairs):  # in a batch of its own
        assert kinds(Kinds(shares, seed), rows_of([pair], epoch, 5 + i)).tolist() == [found[i]]


def test_shares_of_pairs_and_of_single_segments() -> None:
    n = 30_000
    found = kinds(Kinds(seed=3), rows_of([True] * n + [False] * n))
    for part, of in ((found[:n], 1.0), (found[n:], 2 / 3)):
        for number, kind in enumerate(LM_KINDS):
            expected = PUBLISHED[kind] / of if of == 1 or kind != "seq2seq" else 0.0
            assert abs((part == number).mean() - expected) <= 5 * np.sqrt(expected * (1 - expected) / n)


def test_epochs_and_seeds_differ() -> None:
    pairs = [True] * 400
    drawn = [kinds(Kinds(seed=seed), rows_of(pairs, epoch)) for seed in (0, 1) for epoch in (0, 1)]
    same = sum(share**2 for share in PUBLISHED.values())
    for i, a in enumerate(drawn):
        for b in drawn[:i]:
            assert abs((a == b).mean() - same) < 5 * np.sqrt(same * (1 - same) / 400)


def test_only_seq2seq_needs_pairs() -> None:
    assert (kinds(Kinds({"seq2seq": 1}), rows_of([True] * 9)) == SEQ2SEQ).all()
    with pytest.raises(
        ValueError, match=r"row 2 has no second segment, which 'seq2seq', the only kind with a share"
    ):
        Kinds({"seq2seq": 1, "bidirectional": 0})(rows_of([True, True, False]))


def test_in_a_batch() -> None:
    rows = as_rows(make_rows(1, "pretrain", (), 9), "pretrain", ())
    step = pickle.loads(pickle.dumps(Kinds(seed=4)))
    batch = Collator(steps=(step,))(rows)
    assert batch["lm_kind"].shape == (9,) and set(batch["lm_kind"].tolist()) <= set(range(4))
    single = ~(batch["token_type_ids"] == 1).any(1)
    assert SEQ2SEQ not in batch["lm_kind"][single].tolist()


@pytest.mark.parametrize(
    ("shares", "seed", "message"),
    [
        ({"left": 1}, 0, "shares of kinds name 'left'; known are bidirectional"),
        ({"seq2seq": -1}, 0, "share of 'seq2seq' must be a number from 0 on, found -1"),
        ({"seq2seq": float("inf")}, 0, "share of 'seq2seq' .* found inf"),
        ({"seq2seq": "1"}, 0, "share of 'seq2seq' .* found '1'"),
        ({"seq2seq": 0}, 0, "shares of kinds must have a sum above 0"),
        ({}, 0, "shares of kinds must have a sum above 0"),
        ({"seq2seq": 1}, 0.5, "seed of kinds must be a whole number"),
    ],
)
def test_bad_settings(shares: dict[str, float], seed: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Kinds(shares, seed)
