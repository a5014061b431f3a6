from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.dedup import minhash
from pipelines.dedup.hashing import constants, mix
from pipelines.dedup.minhash import Banding, band_keys, signatures
from pipelines.dedup.shingles import Sets
from pipelines.ragged import bounds


def make(lists: list[np.ndarray]) -> Sets:
    return Sets(np.concatenate([np.zeros(0, np.uint32), *lists]), bounds([len(x) for x in lists]))


def random_sets(seed: int, sizes: list[int]) -> Sets:
    dice = np.random.default_rng(seed)
    return make(
        [np.unique(dice.integers(0, 2**32, size, dtype=np.uint64).astype(np.uint32)) for size in sizes]
    )


def slow(sets: Sets, permutations: int) -> np.ndarray:
    factors = [(int(c) >> 32) | 1 for c in constants(minhash._PERMUTATION, permutations)]
    rows = [sets.values[a:b].tolist() for a, b in zip(sets.offsets[:-1], sets.offsets[1:], strict=True)]
    return np.array(
        [[min((f * v % 2**32 for v in row), default=2**32 - 1) for row in rows] for f in factors], np.uint32
    ).reshape(permutations, len(rows))


@given(st.integers(0, 99), st.lists(st.integers(0, 700), max_size=8))
def test_signatures_are_those_of_a_loop(seed: int, sizes: list[int]) -> None:
    sets = random_sets(seed, sizes)
    assert (signatures(sets, 3) == slow(sets, 3)).all()


@pytest.mark.parametrize("sizes", [[1] * 5000, [100_000], [1, 3, 300, 40_000, 2] * 3, [0, 0], []])
def test_whatever_the_sizes(sizes: list[int]) -> None:
    sets = random_sets(1, sizes)
    assert (signatures(sets, 2) == slow(sets, 2)).all()


@pytest.mark.parametrize("size", [10, 100, 1000])
@pytest.mark.parametrize("similarity", [0.5, 0.8])
def test_recall_is_that_of_random_permutations(size: int, similarity: float) -> None:
    """Multiplication is not a random permutation; what matters is that bands find what they promise."""
    dice, banding, pairs = np.random.default_rng(7), Banding.of(0.8), 1500
    common = round(2 * size * similarity / (1 + similarity))
    true = common / (2 * size - common)
    lists = []
    for _ in range(pairs):
        union = dice.choice(2**32, 2 * size - common, replace=False).astype(np.uint32)
        lists += [union[:size], union[len(union) - size :]]
    found = signatures(make(lists), banding.permutations)
    same = (found[:, ::2] == found[:, 1::2]).mean()
    assert abs(same - true) < 4 * np.sqrt(true * (1 - true) / (pairs * banding.permutations)) + 0.004
    keys = band_keys(found, banding, np.zeros(found.shape[1], np.uint64))
    recall = (keys[:, ::2] == keys[:, 1::2]).any(axis=0).mean()
    expected = banding.recall(true)
    assert abs(recall - expected) < 4 * np.sqrt(expected * (1 - expected) / pairs) + 0.004


@pytest.mark.parametrize("threshold", [0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
def test_bands_find_what_is_at_the_threshold(threshold: float) -> None:
    banding = Banding.of(threshold)
    assert banding.recall(threshold) >= 0.995
    if banding.bands > 1:
        assert Banding(banding.bands - 1, banding.rows).recall(threshold) < 0.995


def test_keys_tell_bands_salts_and_lone_elements_apart() -> None:
    found, banding, none = np.full((6, 4), 9, np.uint32), Banding(3, 2), np.zeros(4, np.uint64)
    keys = band_keys(found, banding, none)
    assert (keys == keys[:, :1]).all()
    salted = band_keys(found, banding, none, salt=1)
    lone = band_keys(found, banding, none + np.uint64(1))
    assert len({int(k) for some in (keys, salted, lone) for k in some[:, 0]}) == 9
    found[0, 1] = 8
    assert (band_keys(found, banding, none) == keys).tolist() == [
        [True, False, True, True],
        [True] * 4,
        [True] * 4,
    ]


def test_mixing_is_a_bijection() -> None:
    values = np.arange(100_000, dtype=np.uint64)
    assert len(np.unique(mix(values))) == len(values)


def test_constants_are_those_of_splitmix64() -> None:
    """Not of a library whose streams may change: equal documents get equal keys for ever."""

    def splitmix(state: int) -> int:
        z = state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)

    expected = [splitmix(((3 << 32) + i) * 0x9E3779B97F4A7C15 % 2**64) | 1 for i in (1, 2, 3)]
    assert constants(3, 3).tolist() == expected
