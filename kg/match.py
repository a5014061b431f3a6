"""Mentions of subjects in text: leftmost-longest over characters, many texts at once.

From left to right, at each position that can start a mention, the longest subject that is allowed
there is taken, and the search goes on after it. Allowed is a subject that is long enough, is not on
the stop list, and starts and stops at word boundaries (`kg.boundaries`); where the longest is not,
the next longest is tried. Characters are compared as they are: no folding of case, width or form.

One Python step per mention, none per character: positions are chosen with array operations
(`kg.prefilter`), the trie is asked only there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kg import prefilter
from kg.boundaries import inside_words
from kg.trie import has_longer, key_finder

_GROUP_CHARS = 1 << 20
"""Texts are joined up to this many characters: memory stays bounded for large blocks."""
_NEAR = 64
"""Longest piece of text that the trie is asked about at first; few subjects are longer."""


@dataclass(frozen=True)
class Mentions:
    """M mentions in order of text and position, all int32[M]; offsets in characters of the text."""

    texts: np.ndarray  # index of the text
    starts: np.ndarray
    stops: np.ndarray
    subjects: np.ndarray


class Matcher:
    """Finds mentions for one graph, one least length in characters and one stop list (subject ids)."""

    def __init__(
        self,
        trie: Any,
        filters: tuple[np.ndarray, np.ndarray, np.ndarray],
        longest: int,
        min_length: int,
        stop: Collection[int],
    ) -> None:
        self._trie = trie
        self._ones = filters[0] if min_length <= 1 else None
        self._twos, self._threes = filters[1:]
        self._longest = longest
        self._min_length = min_length
        self._stop = frozenset(stop)

    def longest(self, texts: Sequence[str]) -> Mentions:
        """Mentions in each of `texts`; none crosses from one to the next."""
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        group = np.cumsum(lengths) // _GROUP_CHARS
        edges = np.concatenate(([0], np.flatnonzero(np.diff(group)) + 1, [len(texts)]))
        found: list[list[int]] = [[], [], []]
        owners = []
        for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            starts, stops, subjects = self._group(texts[first:last], lengths[first:last])
            ends = np.cumsum(lengths[first:last])
            owner = np.searchsorted(ends, starts, side="right")
            base = (ends - lengths[first:last])[owner]
            owners.append(owner + first)
            for column, part in zip(found, (starts - base, stops - base, subjects), strict=True):
                column.append(part)
        if not owners:
            return Mentions(*(np.empty(0, np.int32) for _ in range(4)))
        columns = (owners, *found)
        return Mentions(*(np.concatenate(column).astype(np.int32) for column in columns))

    def words(
        self, texts: Sequence[str], starts: np.ndarray, stops: np.ndarray, offsets: np.ndarray
    ) -> Mentions:
        """Words that are subjects. Words of text k: `starts`, `stops` from `offsets[k]` to `offsets[k + 1]`."""
        owner = np.repeat(np.arange(len(texts)), np.diff(offsets))
        wanted = np.flatnonzero(stops - starts >= max(self._min_length, 1))
        find, stop = key_finder(self._trie), self._stop
        seen: dict[str, int] = {}  # a block has far fewer different words than words
        subjects = np.full(len(wanted), -1, np.int32)
        columns = (owner[wanted].tolist(), starts[wanted].tolist(), stops[wanted].tolist())
        for i, (text, first, last) in enumerate(zip(*columns, strict=True)):
            word = texts[text][first:last]
            subject = seen.get(word)
            if subject is None:
                subject = find(word)
                subject = seen[word] = -1 if subject in stop else subject
            subjects[i] = subject
        hit = subjects >= 0
        wanted = wanted[hit]
        columns_found = (owner[wanted], starts[wanted], stops[wanted], subjects[hit])
        return Mentions(*(column.astype(np.int32) for column in columns_found))

    def _group(self, texts: Sequence[str], lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mentions with offsets into the joined texts, int64."""
        joined = "".join(texts)
        codes = prefilter.code_points(joined)
        ends = np.cumsum(lengths)
        inside_at = inside_words(codes, (ends - lengths)[lengths > 0])
        positions = prefilter.candidates(codes, self._ones, self._twos, self._threes)
        positions = positions[~inside_at[positions]]
        limits = ends[np.searchsorted(ends, positions, side="right")]
        inside = inside_at.tobytes()
        near = min(self._longest, _NEAR)
        far = self._longest > near
        prefixes = self._trie.iter_prefixes_with_ids
        min_length, stop = self._min_length, self._stop
        starts, stops, subjects = [], [], []
        end = 0
        for start, limit in zip(positions.tolist(), limits.tolist(), strict=True):
            if start < end:
                continue
            piece = joined[start : start + near if start + near < limit else limit]
            if far and len(piece) == near and has_longer(self._trie, piece):
                piece = joined[start : min(start + self._longest, limit)]
            best = -1
            for prefix, subject in prefixes(piece):
                length = len(prefix)
                if length >= min_length and not inside[start + length] and subject not in stop:
                    best, end = subject, start + length
            if best >= 0:
                starts.append(start)
                stops.append(end)
                subjects.append(best)
        return (np.array(starts, np.int64), np.array(stops, np.int64), np.array(subjects, np.int64))
