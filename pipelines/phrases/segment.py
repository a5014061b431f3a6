"""Words to units, greedily: from left to right the longest phrase that begins at a word, else the word alone.

All words of a block walk the lexicon's automaton at once, a word further each time, as far as their sentence goes;
then the leftmost phrases are picked (`kg.match.leftmost`). English text with given words goes through at tens of
millions of characters a second (`tests/bench/bench_phrases.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kg.match.leftmost import leftmost
from pipelines.phrases.lexicon import NO_WORD, PhraseLexicon
from pipelines.ragged import Ints, ranges

_STRIDE = 1 << 16
"""Words that walk together: their arrays stay in the processor's cache."""


class Phrases(NamedTuple):
    """P phrases, which do not overlap, in order."""

    starts: Ints
    """[P], first word"""
    stops: Ints
    """[P], one past the last"""
    ranks: NDArray[np.int32]
    """[P], index among the lexicon's entries"""


def find_phrases(lexicon: PhraseLexicon, letters: NDArray[np.uint64], sentences: Ints) -> Phrases:
    """Phrases among n words, none over the end of a sentence.

    Args:
        letters: uint64[n], the words as `lexicon.letters` numbers them.
        sentences: int64[n], the sentence that each word is of, non-decreasing.
    """
    count = len(letters)
    onward = np.append(letters, NO_WORD)  # what a phrase may go on with
    onward[1:-1][np.diff(sentences) != 0] = NO_WORD
    length, state = np.zeros(count, np.int64), np.zeros(count, np.uint64)
    for begin in range(0, count, _STRIDE):
        end = min(begin + _STRIDE, count)
        starts, states = np.arange(begin, end), lexicon.automaton.first(letters[begin:end])
        for depth in range(1, lexicon.longest):
            alive, states, entries = lexicon.automaton.step(states, onward.take(starts + depth, mode="clip"))
            starts = starts.take(alive)
            found = lexicon.automaton.at_key(entries)
            at = starts.take(found)
            length[at] = depth + 1
            state[at] = states.take(found)
            further = lexicon.automaton.goes_on(entries)
            if not len(further):
                break
            starts, states = starts.take(further), states.take(further)
    begins = np.flatnonzero(length)
    stops = begins + length.take(begins)
    taken = leftmost(begins, stops, count)
    begins = begins.take(taken)
    return Phrases(begins, stops.take(taken), lexicon.ranks(state.take(begins)))


def units(lexicon: PhraseLexicon, words: Sequence[str] | pa.Array, sentences: Ints) -> Ints:
    """First word of every unit (a phrase, or a word in none), int64[U]; `sentences` as in `find_phrases`."""
    return np.flatnonzero(openings(find_phrases(lexicon, lexicon.letters(words), sentences), len(words)))


def openings(phrases: Phrases, words: int) -> NDArray[np.bool_]:
    """bool[words]: whether each word opens a unit."""
    opens: NDArray[np.bool_] = np.ones(words, bool)
    opens[ranges(phrases.starts + 1, phrases.stops - phrases.starts - 1)] = False
    return opens
