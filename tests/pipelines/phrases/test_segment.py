from __future__ import annotations

from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.phrases import segment
from pipelines.phrases.lexicon import PhraseLexicon
from pipelines.phrases.segment import find_phrases, units
from tests.pipelines.phrases.slow import slow_units

LETTERS = st.sampled_from(["a", "b", "c", "A", "d e", ""])
PHRASES = st.lists(st.lists(st.sampled_from("abcA"), min_size=1, max_size=5).map(tuple), max_size=12)


def cut(words: str, *phrases: str, sentences: list[int] | None = None) -> list[int]:
    lexicon = PhraseLexicon([phrase.split(" ") for phrase in phrases], str.lower)
    names = words.split(" ")
    return units(lexicon, names, np.array(sentences or [0] * len(names))).tolist()


def test_the_longest_phrase_from_the_left_is_taken() -> None:
    assert cut("in New York City now", "new york", "york city", "new york city") == [0, 1, 4]
    assert cut("new york city", "new york", "york city") == [0, 2]
    assert cut("a b c d", "a b c d e", "b c") == [
        0,
        1,
        3,
    ]  # a longer one that breaks off leaves the next word free
    assert cut("a a a a a", "a a") == [0, 2, 4]
    assert cut("a b", "c d") == [0, 1]


def test_no_phrase_goes_over_the_end_of_a_sentence() -> None:
    assert cut("new york city", "new york", "new york city", sentences=[0, 0, 1]) == [0, 2]
    assert cut("new york", "new york", sentences=[3, 7]) == [0, 1]


@given(PHRASES, st.lists(LETTERS, max_size=40), st.lists(st.booleans(), min_size=40, max_size=40), st.data())
def test_units_equal_the_loop(
    phrases: list[tuple[str, ...]], words: list[str], breaks: list[bool], data: st.DataObject
) -> None:
    sentences = np.cumsum(breaks)[: len(words)].astype(np.int64)
    lexicon = PhraseLexicon(phrases, str.lower)
    folded = {tuple(w.lower() for w in phrase) for phrase in phrases if len(phrase) > 1}
    lowered = [w.lower() for w in words]
    expected = slow_units(folded, lowered, sentences.tolist())
    with mock.patch.object(segment, "_STRIDE", data.draw(st.sampled_from([1, 3, 1 << 16]))):
        assert units(lexicon, words, sentences).tolist() == expected
        assert units(lexicon, pa.array(words, pa.string()), sentences).tolist() == expected
        found = find_phrases(lexicon, lexicon.letters(words), sentences)
    assert [lexicon.entries()[r] for r in found.ranks] == [
        " ".join(lowered[a:b]) for a, b in zip(found.starts, found.stops, strict=True)
    ]


@pytest.mark.parametrize("size", [0, 1])
def test_few_words_and_no_phrases(size: int) -> None:
    lexicon = PhraseLexicon([], str.lower)
    assert units(lexicon, ["a"] * size, np.zeros(size, np.int64)).tolist() == list(range(size))
