"""Which words, phrases and pieces make a coarse vocabulary.

Words and phrases stand in the order of their counts, ties by code point; as many of the first ones are taken as have
room beside the pieces of all the others. So the more words are taken, the fewer pieces are needed, and the largest
number that fits is the answer. A phrase that is not taken falls to its words, which then occur more often: it is
counted anew until no further phrase falls. Words that occur in phrases alone have pieces, too: the edge of a row may
part them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.encode.tokenizer import Tokenizer
from pipelines.ragged import Ints
from pipelines.vocab.wordpiece import PREFIX, SPECIALS

_ROUNDS = 8
_NEVER = np.iinfo(np.int64).max
"""Rank of what is not taken, however many are."""


@dataclass(frozen=True)
class Counted:
    """Units of a corpus."""

    words: Mapping[str, int]
    """Of those that stand alone: frequent ones, and those that occur in phrases"""
    phrases: Mapping[str, int]
    pieces: Mapping[str, int]
    """Fine tokens of all other words"""


class Chosen(NamedTuple):
    pieces: list[str]
    """By falling count"""
    units: list[str]
    """Words and phrases by falling count"""
    fallen: list[tuple[str, int]]
    """The most frequent ones that found no room, and their counts"""
    lost_pieces: int
    """Pieces that words need and that have no room"""

    @property
    def entries(self) -> list[str]:
        return [*SPECIALS, *self.pieces, *self.units]


_NOT_IN_A_LINE = ("Cc", "Zl", "Zp")


def fits_a_line(text: str) -> bool:
    """Whether readers of a vocabulary, who cut at line ends and may strip white space, find `text` as it is."""
    return (
        bool(text)
        and text == text.strip()
        and not any(unicodedata.category(c) in _NOT_IN_A_LINE for c in text)
    )


def _may_be_a_unit(text: str) -> bool:
    return fits_a_line(text) and text not in SPECIALS and not (text.startswith(PREFIX) and text != PREFIX)


def choose(
    counted: Counted, tokenizer: Tokenizer, size: int, min_count: int, share: float, show: int = 20
) -> Chosen:
    """The vocabulary of at most `size` entries.

    Args:
        min_count: of words and phrases that are taken.
        share: most pieces, as a share of `size`.
        show: most entries of `fallen`.
    """
    problem = _Problem(counted, tokenizer)
    most_pieces = min(int(share * size), size - len(SPECIALS))
    fallen = ~problem.fit_phrases
    for _ in range(_ROUNDS):
        ranked = problem.rank(fallen, min_count)
        taken = ranked.most(size - len(SPECIALS), most_pieces)
        further = problem.fallen_phrases(ranked, taken)
        if (further == fallen).all():
            break
        fallen = further
    return problem.chosen(ranked, taken, fallen, most_pieces, show)


class _Ranked(NamedTuple):
    """Candidates by falling count. Words, then phrases, have numbers."""

    order: Ints
    """[K] numbers"""
    counts: Ints
    """[K]"""
    ranks: Ints
    """Place of every number in the order; `_NEVER` for no candidate"""
    needed: Ints
    """[P] Most candidates that may be taken so that a piece is needed yet: it is if so many or fewer are"""

    def most(self, room: int, most_pieces: int) -> int:
        """How many candidates can be taken so that they and the pieces have room."""
        numbers = np.arange(len(self.order) + 1)
        pieces = len(self.needed) - np.searchsorted(np.sort(self.needed), numbers)
        fits = numbers + np.minimum(pieces, most_pieces) <= room
        return int(np.flatnonzero(fits)[-1])


class _Problem:
    """Shapes: N words, M phrases, P pieces."""

    def __init__(self, counted: Counted, tokenizer: Tokenizer) -> None:
        self._phrases = sorted(counted.phrases)
        parts = [phrase.split(" ") for phrase in self._phrases]
        self._words = sorted(counted.words.keys() | {word for part in parts for word in part})
        self._names = [*self._words, *self._phrases]
        number = {word: i for i, word in enumerate(self._words)}
        self._alone = np.fromiter((counted.words.get(w, 0) for w in self._words), np.int64, len(self._words))
        self._phrase_counts = np.fromiter((counted.phrases[p] for p in self._phrases), np.int64, len(parts))
        self._part_sizes = np.fromiter(map(len, parts), np.int64, len(parts))
        self._parts = np.fromiter(
            (number[w] for part in parts for w in part), np.int64, self._part_sizes.sum()
        )
        self._fit_words: NDArray[np.bool_] = np.fromiter(
            map(_may_be_a_unit, self._words), bool, len(self._words)
        )
        self.fit_phrases: NDArray[np.bool_] = np.fromiter(
            map(_may_be_a_unit, self._phrases), bool, len(parts)
        )
        self._pieces_of(tokenizer, counted.pieces)
        # The same string may be a word and a piece: it has one entry then.
        self._as_unit = np.fromiter((number.get(p, -1) for p in self._pieces), np.int64, len(self._pieces))

    def _pieces_of(self, tokenizer: Tokenizer, others: Mapping[str, int]) -> None:
        """Number the pieces, and say which each word is made of."""
        ids, offsets = tokenizer.encode_ids(self._words)
        seen = np.unique(ids).tolist()
        surfaces = {i: tokenizer.surface(i) or "" for i in seen}
        usable = {p for p in {*surfaces.values(), *others} if fits_a_line(p) and p not in SPECIALS}
        self._pieces = sorted(usable)
        number = {piece: i for i, piece in enumerate(self._pieces)}
        of_id = np.full(tokenizer.vocab_size, -1, np.int64)
        of_id[seen] = [number.get(surfaces[i], -1) for i in seen]
        owners, pieces = np.repeat(np.arange(len(self._words)), np.diff(offsets)), of_id[ids]
        self._owners, self._owned = owners[pieces >= 0], pieces[pieces >= 0]
        self._others = np.fromiter((others.get(p, 0) for p in self._pieces), np.int64, len(self._pieces))
        self._fit_words &= np.diff(offsets) > 0  # no token, no row that the word is in

    def counts(self, fallen: NDArray[np.bool_]) -> Ints:
        """Of words, [N], where those phrases fell to theirs."""
        more = np.repeat(np.where(fallen, self._phrase_counts, 0), self._part_sizes)
        counts = self._alone.copy()
        np.add.at(counts, self._parts, more)
        return counts

    def rank(self, fallen: NDArray[np.bool_], min_count: int) -> _Ranked:
        """Candidates beside phrases that fell."""
        counts = self.counts(fallen)
        everything = np.append(counts, self._phrase_counts)
        may = np.append(self._fit_words, ~fallen) & (everything >= min_count)
        names, values = self._names, everything.tolist()
        numbers = sorted(np.flatnonzero(may).tolist(), key=lambda i: (-values[i], names[i]))
        order = np.array(numbers, np.int64)
        ranks = np.full(len(names), _NEVER)
        ranks[order] = np.arange(len(order))
        return _Ranked(order, everything[order], ranks, self._needed(ranks))

    def _needed(self, ranks: Ints) -> Ints:
        needed = np.where(self._others > 0, _NEVER, -1)
        np.maximum.at(needed, self._owned, ranks[self._owners])
        as_unit = self._as_unit >= 0
        needed[as_unit] = np.minimum(needed[as_unit], ranks[self._as_unit[as_unit]])
        return needed

    def fallen_phrases(self, ranked: _Ranked, taken: int) -> NDArray[np.bool_]:
        result: NDArray[np.bool_] = ranked.ranks[len(self._words) :] >= taken
        return result

    def chosen(
        self, ranked: _Ranked, taken: int, fallen: NDArray[np.bool_], most_pieces: int, show: int
    ) -> Chosen:
        names = self._names
        units = [names[i] for i in ranked.order[:taken].tolist()]
        left = ranked.order[taken : taken + show].tolist()
        falls = ranked.ranks[: len(self._words)] >= taken
        counts = np.where(falls, self.counts(fallen), 0)
        times = self._others.copy()
        np.add.at(times, self._owned, counts[self._owners])
        present = set(units)
        wanted = self._others > 0
        wanted[self._owned[falls[self._owners]]] = True
        needed = [i for i in np.flatnonzero(wanted).tolist() if self._pieces[i] not in present]
        needed.sort(key=lambda i: (-times[i], self._pieces[i]))
        return Chosen(
            pieces=[self._pieces[i] for i in needed[:most_pieces]],
            units=units,
            fallen=[(names[i], n) for i, n in zip(left, ranked.counts[taken:].tolist(), strict=False)],
            lost_pieces=max(0, len(needed) - most_pieces),
        )
