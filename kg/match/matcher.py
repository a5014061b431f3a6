"""Mentions of subjects in text: leftmost-longest over characters, or given words, many texts at once.

From left to right, at each position that can start a mention, the longest subject that is allowed
there is taken, and the search goes on after it. Allowed is a subject that is not too short or too long
*as the text writes it*, is not on the stop list, and starts and stops at word boundaries
(`kg.match.boundaries`) and between whole characters of the text; where the longest is not allowed, the next
longest is tried. Text is compared with subjects after folding both by the graph's rule (`kg.match.fold`);
offsets are those of the text as it is.

No Python per character or mention. All positions of some ten thousand characters walk the automaton at
once (`kg.match.automaton`); of the spans found `kg.match.leftmost` picks those that stand from left to right.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kg.errors import GraphError
from kg.match.automaton import Automaton
from kg.match.boundaries import inside_words
from kg.match.fold import Folding
from kg.match.leftmost import leftmost
from kg.match.places import Places

_GROUP_CHARS = 1 << 20
"""Texts are joined up to this many characters: memory stays bounded for large blocks."""
_STRIDE = 1 << 16
"""Positions that walk together: their arrays stay in the processor's cache."""
_BETWEEN = 0x1FFFFF
"""What stands between two texts: more than any code point, so no subject has it."""


@dataclass(frozen=True)
class Mentions:
    """M mentions in order of text and position, all int32[M]; offsets in characters of the text."""

    texts: np.ndarray  # index of the text
    starts: np.ndarray
    stops: np.ndarray
    subjects: np.ndarray


@dataclass(frozen=True)
class _Folded:
    """Some texts as one row of folded code points."""

    codes: np.ndarray  # uint64[N], `_BETWEEN` after each text
    raw: (
        np.ndarray | None
    )  # int64[N + 1]: the raw character that each comes from; None where all are the same
    edge: np.ndarray  # bool[N + 1]: a mention may start or stop before this one
    text_starts: np.ndarray  # int64[n], raw


class Matcher:
    """Finds mentions for one graph and one choice of what may match."""

    def __init__(
        self,
        automaton: Automaton,
        folding: Folding,
        subjects: int,
        longest: int,
        *,
        min_length: int = 1,
        max_length: int | None = None,
        stop: Sequence[int] = (),
    ) -> None:
        """
        Args:
            subjects: how many there are; longest: code points of the longest one's key.
            min_length, max_length: characters of a mention, as the text writes it.
            stop: subject ids that never match.
        """
        self._automaton, self._folding = automaton, folding
        self._subjects, self._longest = subjects, longest
        self._min, self._max = max(min_length, 1), max_length
        self._stop = np.unique(np.asarray(stop, np.int32))

    def longest(self, texts: Sequence[str]) -> Mentions:
        """Mentions in each of `texts`; none crosses from one to the next. Raises ValueError for a text
        with a lone surrogate, which no file can hold."""
        found = []
        for first, group in _groups(texts):
            folded = self._fold(group)
            length, state = self._longest_at_each(folded)
            starts = np.flatnonzero(length)
            length = length.take(starts).astype(np.int64)
            picked = leftmost(starts, starts + length, len(folded.codes))
            starts = starts.take(picked)
            stops = starts + length.take(picked)
            found.append((first, folded, starts, stops, self._automaton.key(state.take(starts))))
        return _mentions([self._located(*part) for part in found])

    def words(
        self, texts: Sequence[str], starts: np.ndarray, stops: np.ndarray, offsets: np.ndarray
    ) -> Mentions:
        """Words that are subjects. Words of text k: `starts`, `stops` from `offsets[k]` to `offsets[k + 1]`.

        Words are what the segmentation says they are: no boundaries are asked for.
        """
        found = []
        for first, group in _groups(texts):
            folded = self._fold(group)
            part = slice(int(offsets[first]), int(offsets[first + len(group)]))
            owner = np.repeat(np.arange(len(group)), np.diff(offsets[first : first + len(group) + 1]))
            begin = folded.text_starts.take(owner) + starts[part]
            end = folded.text_starts.take(owner) + stops[part]
            wanted = np.flatnonzero(self._long_enough(end - begin))
            begin, end = begin.take(wanted), end.take(wanted)
            if folded.raw is not None:
                begin, end = np.searchsorted(folded.raw, begin), np.searchsorted(folded.raw, end)
            subject = self._automaton.exact(folded.codes, begin, end)
            hit = np.flatnonzero((subject >= 0) & self._wanted(subject))
            found.append((first, folded, begin.take(hit), end.take(hit), subject.take(hit)))
        return _mentions([self._located(*part) for part in found])

    def places(self, text: str, words: tuple[np.ndarray, np.ndarray] | None = None) -> Places:
        """Every place where a subject stands in a text: there may be `longest` times as many as characters.

        `words` (starts, stops) asks for the mentions among given words instead of the longest ones.
        """
        folded = self._fold([text])
        whole = self._whole(folded)
        rows = []
        for depth, starts, states in self._walk(
            folded, np.ones_like(folded.edge), self._longest, singles=True
        ):
            kept = np.flatnonzero(whole.take(starts) & whole.take(starts + depth))  # not part of a character
            starts = starts.take(kept)
            rows.append((starts, np.full(len(kept), depth), self._automaton.key(states.take(kept))))
        starts, lengths, subjects = (
            np.concatenate([row[k] for row in rows]) if rows else np.zeros(0, np.int64) for k in range(3)
        )
        order = np.argsort(starts, kind="stable")  # of one start the shorter ones came first
        starts, subjects = starts[order], subjects[order]
        stops = starts + lengths[order]
        edge = folded.edge.take(starts) & folded.edge.take(stops)
        if folded.raw is not None:
            starts, stops = folded.raw.take(starts), folded.raw.take(stops)
        if words is None:
            taken = self.longest([text])
        else:
            taken = self.words([text], words[0], words[1], np.array([0, len(words[0])]))
        size = len(text) + 1
        mentions = taken.starts.astype(np.int64) * size + taken.stops
        reasons = [  # the first that holds
            np.isin(starts * size + stops, mentions),
            stops - starts < self._min,
            stops - starts > (len(text) if self._max is None else self._max),
            ~self._wanted(subjects),
            edge,
        ]
        why = np.select(reasons, range(len(reasons)), len(reasons)).astype(np.int8)
        return Places(starts, stops, subjects, why)

    # --- the texts of a group -----------------------------------------------------------------

    def _fold(self, texts: Sequence[str]) -> _Folded:
        raw_codes = code_points("\0".join(texts) + "\0")
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        between = np.cumsum(lengths + 1) - 1
        text_starts = between - lengths
        inside = inside_words(raw_codes, text_starts)
        codes, raw = self._folding.fold_codes(raw_codes)
        folded = codes.astype(np.uint64)
        if raw is None:
            folded[between] = _BETWEEN
            return _Folded(folded, None, ~inside, text_starts)
        folded[np.searchsorted(raw, between)] = _BETWEEN
        edge = ~inside.take(raw)
        edge[1:] &= np.diff(raw) > 0
        return _Folded(folded, raw, edge, text_starts)

    @staticmethod
    def _whole(folded: _Folded) -> np.ndarray:
        """bool[N + 1]: whether a character of the text begins there."""
        if folded.raw is None:
            return np.ones(len(folded.edge), np.bool_)
        return np.concatenate(([True], np.diff(folded.raw) > 0))

    def _located(
        self, first: int, folded: _Folded, starts: np.ndarray, stops: np.ndarray, subjects: np.ndarray
    ) -> Mentions:
        """Mentions of the texts from `first` on, from folded offsets into their group."""
        if folded.raw is not None:
            starts, stops = folded.raw.take(starts), folded.raw.take(stops)
        owner = np.searchsorted(folded.text_starts, starts, side="right") - 1
        base = folded.text_starts.take(owner)
        if len(subjects) and (subjects.min() < 0 or subjects.max() >= self._subjects):
            raise GraphError("the automaton names subjects that are not there: compile the triples again")
        return Mentions(owner + first, starts - base, stops - base, subjects)

    # --- the search ---------------------------------------------------------------------------

    def _walk(
        self, folded: _Folded, may_start: np.ndarray, deepest: int, *, singles: bool
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """(length, starts int64[m], states uint64[m]) of all keys of up to `deepest` folded characters that
        start where `may_start` says so, bool[N + 1], ever longer ones at each stretch of the text; of length
        1 only if asked for."""
        codes, automaton = folded.codes, self._automaton
        last = len(codes) - 1  # nothing starts at the end mark
        for begin in range(0, last, _STRIDE):
            end = min(begin + _STRIDE, last)
            states = automaton.first(codes[begin:end])
            states *= may_start[begin:end]
            if singles:
                starts = np.flatnonzero(states)
                first = states.take(starts)
                single = np.flatnonzero(automaton.key(first) >= 0)
                yield 1, starts.take(single) + begin, first.take(single)
            # The first step goes from every position: the dead ones cost less than to leave them out.
            which, states, entries = automaton.step(states, codes[begin + 1 : end + 1])
            starts = which + begin
            for depth in range(2, deepest + 1):
                if not len(starts):
                    break
                keys = automaton.at_key(entries)
                yield depth, starts.take(keys), states.take(keys)
                onward = automaton.goes_on(entries)
                starts = starts.take(onward)
                which, states, entries = automaton.step(
                    states.take(onward), codes.take(starts + depth, mode="clip")
                )
                starts = starts.take(which)

    def _longest_at_each(self, folded: _Folded) -> tuple[np.ndarray, np.ndarray]:
        """(length int32[N], state uint64[N]) of the longest allowed subject that starts at each position;
        length 0 where there is none."""
        length: np.ndarray = np.zeros(len(folded.codes), np.int32)
        state: np.ndarray = np.zeros(len(folded.codes), np.uint64)
        deepest = self._longest
        if folded.raw is None and self._max is not None:  # folded text is as long as the text
            deepest = min(deepest, self._max)
        for depth, starts, states in self._walk(folded, folded.edge, deepest, singles=self._min == 1):
            allowed = np.flatnonzero(self._allowed(folded, starts, depth, states))
            starts = starts.take(allowed)
            length[starts] = depth
            state[starts] = states.take(allowed)
        return length, state

    def _allowed(self, folded: _Folded, starts: np.ndarray, depth: int, states: np.ndarray) -> np.ndarray:
        stops = starts + depth
        good = folded.edge.take(stops)
        if folded.raw is not None:
            good &= self._long_enough(folded.raw.take(stops) - folded.raw.take(starts))
        elif depth < self._min or (self._max is not None and depth > self._max):
            good[:] = False
        if len(self._stop):
            good &= self._wanted(self._automaton.key(states))
        return good

    def _long_enough(self, lengths: np.ndarray) -> np.ndarray:
        good = lengths >= self._min
        if self._max is not None:
            good &= lengths <= self._max
        return good

    def _wanted(self, subjects: np.ndarray) -> np.ndarray:
        """Whether each is off the stop list."""
        if not len(self._stop):
            return np.ones(len(subjects), np.bool_)
        at = np.searchsorted(self._stop, subjects)
        return self._stop.take(at, mode="clip") != subjects


def _groups(texts: Sequence[str]) -> Iterator[tuple[int, Sequence[str]]]:
    """(index of the first, texts) of stretches of about `_GROUP_CHARS` characters."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    group = np.cumsum(lengths) // _GROUP_CHARS
    edges = np.concatenate(([0], np.flatnonzero(np.diff(group)) + 1, [len(texts)])).tolist()
    for first, last in itertools.pairwise(edges):
        if last > first:
            yield first, texts[first:last]


def _mentions(parts: list[Mentions]) -> Mentions:
    if not parts:
        return Mentions(*(np.empty(0, np.int32) for _ in range(4)))
    names = ("texts", "starts", "stops", "subjects")
    columns = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
    return Mentions(*(column.astype(np.int32) for column in columns))


def code_points(text: str) -> np.ndarray:
    """uint32 code points of `text`."""
    try:
        return np.frombuffer(text.encode("utf-32-le"), np.uint32)
    except UnicodeEncodeError as error:
        raise ValueError(
            f"the text has a lone surrogate at character {error.start}; decode its source as UTF-8"
        ) from None
