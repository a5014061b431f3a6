"""Words added to jieba's dictionary so that text without them is cut as before.

jieba weighs a word by its count against the sum of all counts, and `add_word` raises that sum: the more words are
added, the dearer every word becomes, and text that has none of them may be cut otherwise. Here the sum stays what it
is. Nor does the beginning of a word, which jieba's dictionary holds with a count of 0, change anything: it opens no
route through a text.

A word without a count gets one that makes it likelier than the likeliest way to cut it, as jieba's `suggest_freq`
does it. That depends on the other words, so jieba's answers depend on their order. Here shorter words come first, as
only they can be parts of others: the order in which words are given does not matter. All words of a length are
weighed at once, on the automaton that finds mentions (`kg.match.automaton`).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, repeat

import numpy as np
from numpy.typing import NDArray

from kg.match.automaton import Automaton, build

_GROUP = 1 << 16
"""Words that are weighed at once."""


def add_words(counts: dict[str, int], total: int, entries: Iterable[tuple[str, int | None]]) -> None:
    """Add words to jieba's dictionary in place.

    Args:
        counts: of words, and 0 for what is only the beginning of words (`Tokenizer.FREQ`).
        total: the sum of all counts (`Tokenizer.total`), which is to stay.
        entries: words, none empty, and their counts of 1 or more, None where not known; of several the largest counts.
    """
    given: dict[str, int] = {}
    for word, count in entries:
        if given.setdefault(word, count or 0) < (count or 0):
            given[word] = count or 0
    added = sorted(given)
    values = list(map(given.__getitem__, added))
    if not all(values):
        values = _suggested(counts, total, given)
    counts.update(zip(added, values, strict=True))
    before = ""
    for word in added:  # a beginning that the word before has is there already
        length = len(word) - 1
        while length and not before.startswith(word[:length]):
            counts.setdefault(word[:length], 0)
            length -= 1
        before = word


def _suggested(counts: dict[str, int], total: int, given: dict[str, int]) -> list[int]:
    """Counts of the words `given`, sorted, with counts for those given with 0."""
    characters = {character for word, count in given.items() if not count for character in word}
    parts = (
        word for word, count in counts.items() if count and word not in given and characters.issuperset(word)
    )
    names = sorted(chain(parts, given))
    lengths = np.fromiter(map(len, names), np.int64, len(names))
    letters = np.frombuffer("".join(names).encode("utf-32-le", "surrogatepass"), np.uint32)
    starts = np.cumsum(lengths) - lengths
    automaton = Automaton(build(letters, lengths))
    here = np.fromiter(map(given.get, names, repeat(-1)), np.int64, len(names))
    there = np.fromiter(map(counts.get, names, repeat(0)), np.float64, len(names))
    known = np.where(here > 0, here, there)
    asked = np.flatnonzero(here == 0)
    for length in np.unique(lengths[asked]).tolist():
        same = asked[lengths[asked] == length]
        for low in range(0, len(same), _GROUP):  # none of these is a part of another
            group = same[low : low + _GROUP]
            words = letters[starts[group][:, None] + np.arange(length)].astype(np.uint64)
            share = _likeliest(automaton, words, known / total, total)
            known[group] = np.maximum(np.floor(share * total) + 1, known[group])
    found: list[int] = known[here >= 0].astype(np.int64).tolist()
    return found


def _likeliest(
    automaton: Automaton, words: NDArray[np.uint64], shares: NDArray[np.float64], total: int
) -> NDArray[np.float64]:
    """Likelihood of the likeliest way to cut each of n words of one length, float64[n].

    A product of shares and no sum of logarithms: its last digit is the same on every machine.

    Args:
        words: [n, length], code points.
        shares: of the automaton's keys, 0 where a key is no word yet. A character that begins no word counts as
            seen once.
    """
    count, length = words.shape
    best = np.ones((length + 1, count))
    for begin in reversed(range(length)):
        top = np.zeros(count)
        states = automaton.first(words[:, begin])
        which = np.flatnonzero(states)
        states = states[which]
        for stop in range(begin + 1, length + 1):
            key = automaton.key(states)
            share = np.where(key >= 0, shares.take(key, mode="clip"), 0.0)
            top[which] = np.maximum(top[which], share * best[stop, which])
            if stop == length or not len(which):
                break
            on, states, _ = automaton.step(states, words[which, stop])
            which = which[on]
        best[begin] = np.where(top > 0, top, best[begin + 1] / total)
    return best[0]
