"""Mentions of subjects in the texts of rows, and the tokens that each covers exactly: its anchor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kg.errors import GraphError
from kg.match import Matcher, Mentions
from kg.tree.ragged import expand
from kg.tree.rows import Trunks, Words, check_offsets

_AROUND = 32
"""Characters before and behind a window's words that folding may look at, far more than any one character has marks."""


@dataclass(frozen=True)
class Anchors:
    """A aligned mentions in order; tokens are counted over the whole block."""

    row: np.ndarray  # int64[A]
    first: np.ndarray  # int64[A], first token
    last: np.ndarray  # int64[A], last token
    subject: np.ndarray  # int64[A]
    mentions: Mentions  # all M of them; text 2r is segment A of row r, 2r + 1 its segment B
    exact: np.ndarray  # bool[M]: has an anchor
    within: np.ndarray  # bool[M]: truncation left all of it

    @property
    def counters(self) -> dict[str, int]:
        return {
            "mentions": len(self.exact),
            "dropped_anchor_cut": int((~self.exact & ~self.within).sum()),
            "dropped_unaligned": int((~self.exact & self.within).sum()),
        }


def find_anchors(matcher: Matcher, trunks: Trunks, by_words: bool) -> Anchors:
    """Mentions in each segment by itself, and their anchors.

    Raises GraphError where offsets do not fit their text, or words are wanted and not given.
    """
    line = _Line.of(trunks)
    if by_words:
        mentions = _words(matcher, line.texts, *_interleave(trunks), trunks.windows)
    else:
        mentions = _longest(matcher, line, trunks.windows)
    return _align(line, mentions)


@dataclass(frozen=True)
class _Line:
    """Tokens of all texts on one number line; text 2r is segment A of row r, 2r + 1 its segment B.

    Text k begins at `base[k]`, and no two texts touch, so that one binary search over all tokens finds the
    tokens of any mention.
    """

    texts: list[str]
    base: np.ndarray  # int64[2R]
    token: np.ndarray  # int64[n], tokens that are not special
    text: np.ndarray  # int64[n], rising
    starts: np.ndarray  # int64[n]
    stops: np.ndarray  # int64[n]

    @classmethod
    def of(cls, trunks: Trunks) -> _Line:
        texts = [text or "" for pair in zip(*trunks.texts, strict=True) for text in pair]
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        base = np.cumsum(lengths + 1) - (lengths + 1)
        token = np.flatnonzero(~trunks.special)
        row_of = np.repeat(np.arange(len(trunks.row_offsets) - 1), np.diff(trunks.row_offsets))
        text = 2 * row_of[token] + trunks.type_ids[token]
        starts = base[text] + trunks.char_starts[token]
        stops = base[text] + trunks.char_stops[token]
        check_offsets(text, trunks.char_starts[token], starts, stops, base + lengths)
        return cls(texts, base, token, text, starts, stops)

    def kept(self) -> tuple[np.ndarray, np.ndarray]:
        """Characters of each text, int64[2R], from its first token here to its last; 0 and 0 without any."""
        begins = np.searchsorted(self.text, np.arange(len(self.texts)))
        ends = np.searchsorted(self.text, np.arange(len(self.texts)), side="right")
        some = np.flatnonzero(begins < ends)
        low, high = np.zeros(len(self.texts), np.int64), np.zeros(len(self.texts), np.int64)
        low[some] = self.starts[begins[some]] - self.base[some]
        high[some] = self.stops[ends[some] - 1] - self.base[some]
        return low, high


def _longest(matcher: Matcher, line: _Line, windows: bool) -> Mentions:
    """Mentions of all texts. Rows that share a text (windows of it, choices about it) have it searched once."""
    number: dict[str, int] = {}
    which = np.fromiter(
        (number.setdefault(text, len(number)) for text in line.texts), np.int64, len(line.texts)
    )
    if len(number) == len(which) and not windows:
        return matcher.longest(line.texts)
    distinct = list(number)
    found = matcher.longest(distinct)
    sizes = np.fromiter(map(len, distinct), np.int64, len(distinct))
    base = (np.cumsum(sizes + 1) - (sizes + 1))[found.texts]
    edges = np.cumsum(np.concatenate(([0], sizes + 1)))  # where each distinct text begins on their own line
    low, high = line.kept() if windows else (np.zeros(len(which), np.int64), sizes[which])
    # Mentions do not overlap: those that reach into [low, high) lie side by side.
    first = np.searchsorted(base + found.stops, edges[which] + low, side="right")
    last = np.maximum(np.searchsorted(base + found.starts, edges[which] + high), first)
    chosen = expand(first, last - first)
    return Mentions(
        np.repeat(np.arange(len(which)), last - first).astype(np.int32),
        found.starts[chosen],
        found.stops[chosen],
        found.subjects[chosen],
    )


def _words(
    matcher: Matcher,
    texts: list[str],
    starts: np.ndarray,
    stops: np.ndarray,
    offsets: np.ndarray,
    windows: bool,
) -> Mentions:
    """Words that are mentions. Of a window's text only the part around its words is looked at: a long text has many
    windows."""
    if not windows:
        return matcher.words(texts, starts, stops, offsets)
    low, high = np.zeros(len(texts), np.int64), np.zeros(len(texts), np.int64)
    some = np.flatnonzero(np.diff(offsets))
    low[some] = np.maximum(starts[offsets[some]] - _AROUND, 0)
    high[some] = stops[offsets[some + 1] - 1] + _AROUND
    parts = [text[a:b] for text, a, b in zip(texts, low.tolist(), high.tolist(), strict=True)]
    shift = np.repeat(low, np.diff(offsets))
    found = matcher.words(parts, starts - shift, stops - shift, offsets)
    moved = low[found.texts].astype(np.int32)
    return Mentions(found.texts, found.starts + moved, found.stops + moved, found.subjects)


def _align(line: _Line, mentions: Mentions) -> Anchors:
    base, token, text, starts, stops = line.base, line.token, line.text, line.starts, line.stops
    of_text = mentions.texts.astype(np.int64)
    begin, end = base[of_text] + mentions.starts, base[of_text] + mentions.stops
    first = np.searchsorted(starts, begin)  # the first token that starts there or later
    last = np.searchsorted(starts, end) - 1  # the last one that starts before its end
    if len(token):
        exact = first <= last
        at_first, at_last = np.minimum(first, len(token) - 1), np.maximum(last, 0)
        exact &= (starts[at_first] == begin) & (stops[at_last] == end)
        # A special token inside a segment would be part of the anchor.
        exact &= token[at_last] - token[at_first] == at_last - at_first
    else:
        exact = np.zeros(len(begin), np.bool_)

    # Truncation keeps the tokens between the first and the last of a text.
    lost = np.flatnonzero(~exact)
    first_of = np.searchsorted(text, of_text[lost])
    end_of = np.searchsorted(text, of_text[lost], side="right")
    some = np.flatnonzero(first_of < end_of)
    lost, first_of, end_of = lost[some], first_of[some], end_of[some]
    within = exact.copy()
    within[lost] = (starts[first_of] <= begin[lost]) & (end[lost] <= stops[end_of - 1])
    return Anchors(
        of_text[exact] // 2,
        token[first[exact]],
        token[last[exact]],
        mentions.subjects[exact].astype(np.int64),
        mentions,
        exact,
        within,
    )


def _interleave(trunks: Trunks) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Words of the texts A0, B0, A1, B1, ...: (starts, stops, offsets [2R + 1])."""
    if trunks.words is None:
        raise GraphError("match 'words' needs the words of the segmentation in `Trunks.words`")
    rows = len(trunks.row_offsets) - 1
    none = Words(np.empty(0, np.int32), np.empty(0, np.int32), np.zeros(rows + 1, np.int64))
    a, b = trunks.words[0], trunks.words[1] or none
    counts = np.stack((np.diff(a.offsets), np.diff(b.offsets)), axis=1).ravel()
    firsts = np.stack((a.offsets[:-1], b.offsets[:-1] + len(a.starts)), axis=1).ravel()
    order = expand(firsts, counts)
    starts, stops = np.concatenate((a.starts, b.starts)), np.concatenate((a.stops, b.stops))
    return (
        starts[order].astype(np.int64),
        stops[order].astype(np.int64),
        np.concatenate(([0], np.cumsum(counts))),
    )
