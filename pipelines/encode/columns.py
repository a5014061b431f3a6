"""Spans of flat tokens to the columns of shard rows, all rows of a chunk at once.

Suffixes name the first dimension: `_r` rows, `_r2` rows by segment (A, B), `_t` trunk tokens of all
rows, `_w` words of all rows; `_n` tokens and `_d` words of the block. A list column is (values,
offsets [R+1]); its values count from the start of their own row. "Absolute" indices count over all
rows of the chunk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kg.tree
from corpora.graphemes import cluster_stop, joins
from pipelines import forest
from pipelines.encode.assemble import Rows
from pipelines.encode.lists import List
from pipelines.encode.source import Texts, Words
from pipelines.encode.tokenizer import Tokens
from pipelines.ragged import Ints, bounds, ranges


@dataclass(frozen=True)
class Frame:
    """[CLS] A [SEP], or [CLS] A [SEP] B [SEP], for rows whose segments have given lengths; the last [SEP] of
    some may be left out."""

    offsets_r: Ints
    lengths_r2: Ints
    begins_r2: Ints
    """Absolute position of each segment's first element"""
    types_t: NDArray[np.int8]

    @classmethod
    def of(
        cls, lengths_r2: Ints, paired_r: NDArray[np.bool_], unended_r: NDArray[np.bool_] | None = None
    ) -> Frame:
        """`unended_r`: rows with a segment B that no [SEP] ends."""
        a, b = lengths_r2[:, 0], lengths_r2[:, 1]
        second = np.where(paired_r, b + 1, 0)
        if unended_r is not None:
            second -= unended_r
        offsets = bounds(a + 2 + second)
        begins = np.stack((offsets[:-1] + 1, offsets[:-1] + a + 2), axis=1)
        zero_one = np.tile(np.array([0, 1], np.int8), len(a))
        return cls(
            offsets, lengths_r2, begins, np.repeat(zero_one, np.stack((a + 2, second), axis=1).ravel())
        )

    @cached_property
    def inner(self) -> Ints:
        """Absolute positions of what is no special token, A's and B's of each row in turn"""
        return ranges(self.begins_r2.ravel(), self.lengths_r2.ravel())

    @cached_property
    def seps(self) -> Ints:
        """Absolute positions of [SEP]."""
        after = self.begins_r2 + self.lengths_r2
        return np.concatenate((after[:, 0], after[after[:, 1] < self.offsets_r[1:], 1]))

    def fill(self, values: NDArray[np.int32], special: Mapping[str, int]) -> NDArray[np.int32]:
        """`values` in their places between the special tokens."""
        ids = np.empty(int(self.offsets_r[-1]), np.int32)
        ids[self.inner] = values
        return self.enclose(ids, special["cls"], special["sep"])

    def enclose(self, values_t: NDArray[np.int32], cls: int, sep: int) -> NDArray[np.int32]:
        """`values_t` itself, with what [CLS] and [SEP] have."""
        values_t[self.offsets_r[:-1]] = cls
        values_t[self.seps] = sep
        return values_t

    def spread(self, values_r2: NDArray[Any]) -> NDArray[Any]:
        """A value of each segment at all its positions; the [CLS] before A counts to A, all after A to B."""
        first = self.lengths_r2[:, 0] + 1
        return np.repeat(
            values_r2.ravel(), np.stack((first, np.diff(self.offsets_r) - first), axis=1).ravel()
        )


@dataclass(frozen=True)
class Trunk:
    """Trunk tokens of R rows and the texts that their offsets point into."""

    rows: Rows
    frame: Frame
    ids_t: NDArray[np.int32]
    starts_t: NDArray[np.int32]
    stops_t: NDArray[np.int32]
    char_base_r2: Ints
    """Character of the document at which each segment's text begins"""
    texts_r: list[str]
    pairs_r: list[str | None]

    def columns(self) -> dict[str, List]:
        offsets = self.frame.offsets_r
        return {
            "input_ids": (self.ids_t, offsets),
            "token_type_ids": (self.frame.types_t, offsets),
            "char_starts": (self.starts_t, offsets),
            "char_stops": (self.stops_t, offsets),
        }

    @cached_property
    def source(self) -> Ints:
        """Flat token (of the block) of each inner position"""
        return ranges(self.rows.starts.ravel(), self.frame.lengths_r2.ravel())

    @property
    def special_t(self) -> NDArray[np.bool_]:
        """Whether each token is [CLS] or [SEP]."""
        special = np.ones(len(self.ids_t), dtype=bool)
        special[self.frame.inner] = False
        return special

    def for_trees(
        self, words: tuple[kg.tree.Words, kg.tree.Words] | None, *, windows: bool = False
    ) -> kg.tree.Trunks:
        """The same in `kg`'s terms; `words` as `segment_words` gives them, for `match: words`; `windows` where
        rows are windows of their texts."""
        return kg.tree.Trunks(
            self.frame.offsets_r,
            self.ids_t,
            self.frame.types_t,
            self.starts_t,
            self.stops_t,
            self.special_t,
            (self.texts_r, self.pairs_r),
            words,
            windows,
        )


def lay_trunk(
    rows: Rows, texts: Texts, tokens: Tokens, special: Mapping[str, int], *, whole_texts: bool
) -> Trunk:
    """Ids, types and offsets.

    Args:
        special: ids of `cls` and `sep`.
        whole_texts: a segment's text is its whole text (labelled tasks), and offsets are those of
            the document. Otherwise it is the slice from the first kept token to the last
            (pretraining), up to the end of that one's grapheme cluster.
    """
    frame = Frame.of(rows.stops - rows.starts, rows.texts[:, 1] >= 0, rows.unended)
    strings, used = texts.strings, rows.texts >= 0
    base = np.zeros_like(rows.starts)
    if whole_texts:
        sides = [[strings[t] if t >= 0 else None for t in owner] for owner in rows.texts.T.tolist()]
    else:
        base[used] = tokens.starts[rows.starts[used]]
        ends = np.zeros_like(base)
        ends[used] = tokens.stops[rows.stops[used] - 1]
        row, side = np.nonzero(used)
        unsure = joins(texts.points, texts.chars[rows.texts[row, side]] + ends[row, side])
        for r, s in zip(row[unsure].tolist(), side[unsure].tolist(), strict=True):
            ends[r, s] = cluster_stop(strings[rows.texts[r, s]], int(ends[r, s]))
        sides = [
            [strings[t][a:b] if t >= 0 else None for t, a, b in zip(*spans, strict=True)]
            for spans in zip(rows.texts.T.tolist(), base.T.tolist(), ends.T.tolist(), strict=True)
        ]
    # A segment's tokens lie side by side in the block; what stands at special tokens is written over.
    at = frame.spread(rows.starts - frame.begins_r2)
    at += np.arange(len(at))
    ids, starts, stops = (
        flat.take(at, mode="clip") if len(flat) else np.zeros(len(at), np.int32) for flat in tokens[:3]
    )
    if not whole_texts:
        shift = frame.spread(base.astype(np.int32))
        starts -= shift
        stops -= shift
    frame.enclose(ids, special["cls"], special["sep"])
    frame.enclose(starts, 0, 0)
    frame.enclose(stops, 0, 0)
    first = [text for text in sides[0] if text is not None]
    return Trunk(rows, frame, ids, starts, stops, base, first, sides[1])


@dataclass(frozen=True)
class RowWords:
    """Words of R rows: those with a kept token, A's then B's."""

    offsets_r: Ints
    lengths_r2: Ints
    words_w: Ints
    """Word of the block that each is"""
    index_t: NDArray[np.int64]
    """Absolute word of each trunk token; -1 for special tokens and tokens of no word"""
    heads_w: Ints | None
    """Absolute"""
    sentences_w: NDArray[np.int16]


def lay_words(trunk: Trunk, words: Words, token_words: Ints) -> RowWords:
    """Which words each row has, and which of them each token belongs to.

    `words` and `token_words` are as `source.attach` returns them: every word has tokens, so the
    words of a span of tokens lie side by side. A head outside its segment makes the word a root.
    """
    begins, stops = trunk.rows.starts.ravel(), trunk.rows.stops.ravel()
    tied = np.flatnonzero(token_words >= 0)
    change = np.diff(token_words[tied], prepend=-1) != 0
    first = tied[change]  # first token of each word; the last is right before the next word's first tied one
    last = tied[np.append(np.flatnonzero(change)[1:], len(tied)) - 1] if len(tied) else first
    low = np.searchsorted(last, begins, "left")
    high = np.maximum(np.searchsorted(first, stops, "left"), low)
    empty = begins == stops
    low[empty] = high[empty] = 0

    lengths = (high - low).reshape(-1, 2)
    offsets = bounds(lengths.sum(axis=1))
    chosen = ranges(low, high - low)
    segment_begins = bounds(high - low)[:-1]

    index = np.full(len(trunk.ids_t), -1, np.int64)
    of_token = token_words[trunk.source]
    shift = np.repeat(segment_begins - low, stops - begins)
    index[trunk.frame.inner] = np.where(of_token >= 0, of_token + shift, -1)

    heads = None if words.heads is None else forest.cut(words.heads, low, high)[0]
    return RowWords(
        offsets, lengths, chosen, index, heads, _sentence_numbers(words.sentences[chosen], lengths, offsets)
    )


def _sentence_numbers(sentences_w: Ints, lengths_r2: Ints, offsets_r: Ints) -> NDArray[np.int16]:
    """Sentences of each row counted from 0, over both segments."""
    begins = np.zeros(len(sentences_w) + 1, dtype=bool)
    begins[:-1] = np.diff(sentences_w, prepend=-1) != 0
    begins[bounds(lengths_r2.ravel())[:-1]] = True
    count = np.cumsum(begins[:-1])
    first = np.append(count, 0)[offsets_r[:-1]]
    return (count - np.repeat(first, np.diff(offsets_r))).astype(np.int16)


def syntax_columns(trunk: Trunk, row_words: RowWords, words: Words) -> dict[str, List]:
    """The `syntax` group. Raises ValueError if the words carry no trees."""
    if row_words.heads_w is None or words.deprels is None:
        raise ValueError("the annotated documents carry no parses: annotate them with a parser")
    offsets = row_words.offsets_r
    entry, leave = forest.depth_first(row_words.heads_w, offsets)
    base = np.repeat(offsets[:-1], np.diff(trunk.frame.offsets_r))
    index = np.where(row_words.index_t >= 0, row_words.index_t - base, -1)
    return {
        "word_index": (index.astype(np.int16), trunk.frame.offsets_r),
        "word_heads": (forest.relative(row_words.heads_w, offsets).astype(np.int16), offsets),
        "word_deprels": (words.deprels[row_words.words_w], offsets),
        "word_dfs_in": (entry, offsets),
        "word_dfs_out": (leave, offsets),
        "sentence_index": (row_words.sentences_w, offsets),
    }


def segment_words(trunk: Trunk, row_words: RowWords, words: Words) -> tuple[kg.tree.Words, kg.tree.Words]:
    """Words of segment A and of segment B in characters of the segment's text.

    A word that the text's slice cut is left out: what remains of it is another string.
    """
    count = len(trunk.rows)
    segment = np.repeat(np.arange(2 * count), row_words.lengths_r2.ravel())
    row, side = segment // 2, segment % 2
    base = trunk.char_base_r2[row, side]
    starts = words.starts[row_words.words_w] - base
    stops = words.stops[row_words.words_w] - base
    sizes = np.array([[len(t or "") for t in texts] for texts in (trunk.texts_r, trunk.pairs_r)], np.int64)
    whole = (starts >= 0) & (stops <= sizes[side, row])

    def of(number: int) -> kg.tree.Words:
        pick = whole & (side == number)
        offsets = bounds(np.bincount(row[pick], minlength=count))
        return kg.tree.Words(starts[pick].astype(np.int32), stops[pick].astype(np.int32), offsets)

    return of(0), of(1)


def tree_columns(trees: kg.tree.Trees) -> dict[str, List]:
    """The `tree` group."""
    flat = {
        "tree_ids": trees.ids,
        "tree_token_type_ids": trees.type_ids,
        "tree_soft_positions": trees.soft_positions,
        "tree_branch": trees.branch,
        "tree_mention": trees.mention,
        "tree_trunk_index": trees.trunk_index,
    }
    columns: dict[str, List] = {name: (values, trees.row_offsets) for name, values in flat.items()}
    return columns | {
        "branch_triples": (trees.branch_triples, trees.branch_offsets),
        "branch_parents": (trees.branch_parents, trees.branch_offsets),
    }
