from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.dedup.folding import code_points, fold
from pipelines.dedup.shingles import Sets, shingle_sets, words
from pipelines.ragged import bounds
from tests.pipelines.dedup import slow

TEXTS = st.lists(st.text("ab 好é,", max_size=12), max_size=6)


def sets_of(texts: list[str], n: int, *, characters: bool) -> Sets:
    folded = fold(code_points("".join(texts)), bounds([len(t) for t in texts]))
    units, offsets = (folded.codes, folded.offsets) if characters else words(folded)
    return shingle_sets(units, offsets, n)[0]


@settings(deadline=None)  # the first text pays for the table
@given(TEXTS, st.integers(1, 5), st.booleans())
def test_sets_are_those_of_a_loop(texts: list[str], n: int, characters: bool) -> None:
    found = sets_of(texts, n, characters=characters)
    assert len(found.sizes) == len(texts)
    expected = [slow.of_text(t, characters=characters, n=n) for t in texts]
    assert found.sizes.tolist() == [len(s) for s in expected]
    lists = [found.values[a:b].tolist() for a, b in zip(found.offsets[:-1], found.offsets[1:], strict=True)]
    hashes: dict[tuple[str, ...], set[int]] = {}
    for values, shingles in zip(lists, expected, strict=True):
        assert values == sorted(set(values))
        for shingle in shingles:
            hashes[shingle] = hashes.get(shingle, set(values)) & set(values)
    # Every shingle has a hash of its own, the same in all texts.
    assert all(hashes.values())
    for i, a in enumerate(lists):
        for j, b in enumerate(lists):
            assert len(set(a) & set(b)) == len(expected[i] & expected[j])


def test_a_short_text_is_one_shingle_and_an_empty_one_none() -> None:
    found = sets_of(["好", "", "好的", "好", "的好"], 5, characters=True)
    assert found.sizes.tolist() == [1, 0, 1, 1, 1]
    assert found.values[0] == found.values[2]
    assert len(set(found.values.tolist())) == 3


def test_words_are_what_lies_between_white_space() -> None:
    texts = ["a bc", "a,bca", "  a b\u3000 c", "", "bc A"]
    hashes, offsets = words(fold(code_points("".join(texts)), bounds([len(t) for t in texts])))
    assert np.diff(offsets).tolist() == [2, 1, 3, 0, 2]
    a, bc, abca, a_too, b, c, bc_too, a_again = hashes.tolist()
    assert (a, bc) == (a_too, bc_too) and a == a_again
    assert len({a, bc, abca, b, c}) == 5


@given(TEXTS, st.integers(1, 4))
def test_a_lone_shingle_has_its_whole_hash(texts: list[str], n: int) -> None:
    codes = code_points("".join(texts))
    sets, lone = shingle_sets(codes, bounds([len(t) for t in texts]), n)
    whole: dict[int, tuple[str, ...]] = {}
    for at, text in enumerate(texts):
        expected = slow.shingles(list(text), n)
        assert (int(lone[at]) != 0) == (len(expected) == 1)
        if len(expected) == 1:
            (shingle,) = expected
            assert whole.setdefault(int(lone[at]), shingle) == shingle
            assert int(lone[at]) >> 32 == sets.take(np.array([at])).values[0]


def test_hashes_of_many_shingles_do_not_collide_more_than_by_chance() -> None:
    texts = [f"{i:07d}" for i in range(20_000)]
    values = sets_of(texts, 7, characters=True).values
    assert len(values) - len(np.unique(values)) < 5  # 20,000 ** 2 / 2 ** 33 is 0.05


@given(st.lists(st.lists(st.integers(0, 2**32 - 1), max_size=6)), st.integers(0, 4), st.randoms())
def test_take_and_head(lists: list[list[int]], most: int, random) -> None:
    rows = [sorted(set(values)) for values in lists]
    sets = Sets(np.array([v for row in rows for v in row], np.uint32), bounds([len(r) for r in rows]))
    which = [random.randrange(len(rows)) for _ in range(7)] if rows else []
    taken = sets.take(np.array(which, np.int64))
    assert taken.values.tolist() == [v for w in which for v in rows[w]]
    assert sets.head(most).values.tolist() == [v for row in rows for v in row[:most]]
    assert sets.head(most).sizes.tolist() == [min(len(r), most) for r in rows]
