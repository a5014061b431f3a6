"""Mentions of subjects in the texts of rows, and the tokens that each covers exactly: its anchor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kg.errors import GraphError
from kg.match import Matcher, Mentions
from kg.tree.ragged import expand
from kg.tree.rows import Trunks, Words, check_offsets


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
    texts = [text or "" for pair in zip(*trunks.texts, strict=True) for text in pair]
    mentions = matcher.words(texts, *_interleave(trunks)) if by_words else matcher.longest(texts)
    return _align(trunks, texts, mentions)


def _align(trunks: Trunks, texts: list[str], mentions: Mentions) -> Anchors:
    # One number line for all texts: text k begins at base[k], and no two texts touch, so that one
    # binary search over all tokens finds the tokens of any mention.
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    base = np.cumsum(lengths + 1) - (lengths + 1)
    token = np.flatnonzero(~trunks.special)
    row_of = np.repeat(np.arange(len(trunks.row_offsets) - 1), np.diff(trunks.row_offsets))
    text = 2 * row_of[token] + trunks.type_ids[token]
    starts = base[text] + trunks.char_starts[token]
    stops = base[text] + trunks.char_stops[token]
    check_offsets(text, trunks.char_starts[token], starts, stops, base + lengths)

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
