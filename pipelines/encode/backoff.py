"""Coarse columns of rows: a phrase, else its words, else their pieces, else [UNK].

A unit that stands whole in the row and is in the coarse vocabulary is one coarse token. A phrase that is not in it,
or that the row's edge cuts, falls to those of its words that stand in the row; a word that is not, to its fine tokens
in the row, each looked up by its string; and if any of these is missing, the word is one coarse [UNK], as WordPiece
does with words. A single word that the row's edge cuts keeps its whole word's coarse token. So every fine token has
one coarse token, and every coarse token has fine tokens.

Suffixes as in `pipelines.encode.columns`; `_i` fine tokens of all rows that are no special tokens. A *run* is what of
a word or a unit stands in a segment of a row: fine tokens side by side.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from pipelines.encode.coarse import LACKING, CoarseVocabulary, Units
from pipelines.encode.columns import Frame, Trunk
from pipelines.encode.lists import List
from pipelines.ragged import Ints


def coarse_columns(
    trunk: Trunk, tied: Ints, units: Units, vocabulary: CoarseVocabulary
) -> tuple[dict[str, List], Counter[str]]:
    """The `coarse` group, and what was counted.

    Args:
        tied: int64[N], word of each fine token of the block, as `source.attach` returns it.
        units: of those words.

    Counters: `coarse_tokens` and `unknown_coarse_tokens`, special tokens apart; `coarse_phrases`, phrases that are one
    token; `coarse_fallen_words`, words of phrases that are not; `coarse_pieced_words`, words made of their pieces, and
    `coarse_pieces`, those pieces.
    """
    lengths_r2 = trunk.rows.stops - trunk.rows.starts
    segment_i = np.repeat(np.arange(lengths_r2.size), lengths_r2.ravel())
    word_i = tied[trunk.source]
    fine_i = trunk.ids_t[trunk.frame.inner]
    unit_of, word_ids = np.append(units.unit, LACKING), np.append(units.words, LACKING)  # the last of no word

    words = _Runs(segment_i, word_i)
    phrases = _Runs(segment_i, unit_of[word_i])
    unit = phrases.values
    in_block = np.bincount(units.unit[tied[tied >= 0]], minlength=len(units.sizes))
    in_block = np.append(in_block, LACKING)  # fine tokens of each unit
    whole = (phrases.sizes == in_block[unit]) & (np.append(units.ids, LACKING)[unit] != LACKING)
    by_phrase_i = np.repeat(whole, phrases.sizes)

    known = word_ids[words.values] != LACKING
    piece_i = vocabulary.pieces[fine_i]
    pieced = ~known & (np.add.reduceat(piece_i == LACKING, words.starts) == 0 if len(words.starts) else known)
    by_pieces_i = np.repeat(pieced, words.sizes) & ~by_phrase_i

    opens_i = np.where(by_phrase_i, phrases.opens, words.opens | by_pieces_i)
    ids_i = np.where(by_pieces_i, piece_i, word_ids[word_i])
    ids_i[by_phrase_i] = np.append(units.ids, LACKING)[unit_of[word_i[by_phrase_i]]]
    ids_i[ids_i == LACKING] = vocabulary.special_ids["unk"]

    lengths = np.bincount(segment_i[opens_i], minlength=lengths_r2.size).reshape(-1, 2)
    frame = Frame.of(lengths, trunk.rows.texts[:, 1] >= 0, trunk.rows.unended)
    ids = ids_i[opens_i]
    alone = ~by_phrase_i[words.starts]  # words that stand for themselves
    counters = Counter(
        coarse_tokens=len(ids),
        unknown_coarse_tokens=int((ids == vocabulary.special_ids["unk"]).sum()),
        coarse_phrases=int(whole.sum()),
        coarse_fallen_words=int((alone & (np.append(units.sizes, 1)[unit_of[words.values]] > 1)).sum()),
        coarse_pieced_words=int((alone & pieced).sum()),
        coarse_pieces=int(by_pieces_i.sum()),
    )
    return {
        "coarse_ids": (frame.fill(ids, vocabulary.special_ids), frame.offsets_r),
        "coarse_token_type_ids": (frame.types_t, frame.offsets_r),
        "coarse_index": (_index(trunk, frame, frame.inner[np.cumsum(opens_i) - 1]), trunk.frame.offsets_r),
    }, counters


class _Runs:
    """Stretches of equal values, each in one segment."""

    def __init__(self, segment_i: Ints, value_i: Ints) -> None:
        self.opens: NDArray[np.bool_] = np.ones(len(value_i), bool)
        self.opens[1:] = (value_i[1:] != value_i[:-1]) | (segment_i[1:] != segment_i[:-1])
        self.starts = np.flatnonzero(self.opens)
        self.sizes: Ints = np.diff(np.append(self.starts, len(value_i)))
        self.values = value_i[self.starts]


def _index(trunk: Trunk, frame: Frame, at_i: Ints) -> NDArray[np.int16]:
    """Coarse token of every fine token, from the absolute ones of those that are no special tokens."""
    fine = trunk.frame.offsets_r
    at = np.zeros(len(trunk.ids_t), np.int64)
    at[fine[1:] - 1] = frame.offsets_r[1:] - 1  # the last [SEP], if the row has one
    at[fine[:-1]] = frame.offsets_r[:-1]
    paired = trunk.rows.texts[:, 1] >= 0
    at[trunk.frame.begins_r2[paired, 1] - 1] = frame.begins_r2[paired, 1] - 1
    at[trunk.frame.inner] = at_i
    relative = at - np.repeat(frame.offsets_r[:-1], np.diff(fine))
    return relative.astype(np.int16)
