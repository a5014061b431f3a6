"""Annotations that a corpus itself brings (`RAW_SCHEMA`): read, checked, and cut to the pieces of a text.

They are kept as they are, but for what every tree here must be: one tree a sentence, a universal part of
speech a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.annotate.annotations import Relations
from pipelines.annotate.tools import UPOS
from pipelines.annotate.words import Ints
from pipelines.ragged import bounds

_SPACES = np.array([code for code in range(0x3001) if chr(code).isspace()], np.uint32)


@dataclass(frozen=True)
class Given:
    """Of one text with D words and S sentences. Offsets are characters of the text.

    Sentence s has the words from `of_sentence[s]` to `of_sentence[s + 1]`, int64[S+1]. `heads` int64[D] are words
    of the text, a root its own; they mean nothing in sentences where `parsed` bool[S] is false.
    `deprels` int64[D] are codes of `Relations`, `pos` int64[D] of `UPOS`, -1 where there is none.
    """

    starts: Ints
    stops: Ints
    of_sentence: Ints
    parsed: np.ndarray
    heads: Ints
    deprels: Ints
    pos: Ints

    @property
    def whole(self) -> bool:
        """Every sentence has its tree."""
        return bool(self.parsed.all())

    @property
    def key(self) -> bytes:
        """Equal where all of it is."""
        arrays = (self.of_sentence, self.starts, self.stops, self.parsed, self.heads, self.deprels, self.pos)
        return b"".join(array.tobytes() for array in arrays)

    def piece(self, start: int, stop: int) -> Given | None:
        """What is given of the characters from `start` to `stop`; None where a sentence crosses their edges."""
        first, last = np.searchsorted(self.starts, (start, stop)).tolist()
        s, t = np.searchsorted(self.of_sentence, (first, last)).tolist()
        whole = self.of_sentence[s] == first and self.of_sentence[t] == last
        if not whole or (last > first and self.stops[last - 1] > stop):
            return None
        own = slice(first, last)
        return replace(
            self,
            starts=self.starts[own] - start,
            stops=self.stops[own] - start,
            of_sentence=self.of_sentence[s : t + 1] - first,
            parsed=self.parsed[s:t],
            heads=self.heads[own] - first,
            deprels=self.deprels[own],
            pos=self.pos[own],
        )


def read_given(
    table: pa.Table, suffix: str, texts: Sequence[str], relations: Relations
) -> tuple[list[Given | None], dict[int, str]]:
    """What the table brings for each of its R texts, and what is wrong with that, by row.

    None where words are not given, and for rows that are wrong.
    """
    none: list[Given | None] = [None] * table.num_rows
    there = table[f"word_starts{suffix}"].is_valid().to_numpy(zero_copy_only=False)
    if not there.any():
        return none, {}
    rows = np.flatnonzero(there)
    part = table.filter(pa.array(there))
    text = [texts[row] for row in rows.tolist()]
    columns = _Columns(part, suffix)
    wrong = columns.unequal()
    if not wrong.any():
        sentence_of, wrong = _check(columns, text)
    if wrong.any():  # rare: the rest once more, without them
        rejected = {int(row): _WRONG for row in rows[wrong]}
        keep = np.ones(table.num_rows, bool)
        keep[rows[wrong]] = False
        found, _ = read_given(
            table.filter(pa.array(keep)),
            suffix,
            [t for t, k in zip(texts, keep.tolist(), strict=True) if k],
            relations,
        )
        for row, given in zip(np.flatnonzero(keep).tolist(), found, strict=True):
            none[row] = given
        return none, rejected
    for row, given in zip(rows.tolist(), _split(columns, sentence_of, relations), strict=True):
        none[row] = given
    return none, {}


_WRONG = (
    "expected words that rise, do not overlap, hold every character that is not white space and lie within "
    "sentences, and as many heads, relations and parts of speech"
)


class _Columns:
    """The given columns of texts that all have words, flat."""

    def __init__(self, table: pa.Table, suffix: str) -> None:
        self.rows = table.num_rows
        self._table, self._suffix = table, suffix
        self.words = bounds(self.lengths("word_starts"))
        self.sentences = bounds(self.lengths("sentence_starts"))
        self.starts, self.stops = self.integers("word_starts"), self.integers("word_stops")
        self.sentence_starts = self.integers("sentence_starts")
        self.sentence_stops = self.integers("sentence_stops")

    def column(self, name: str) -> pa.ListArray:
        whole = self._table[name + self._suffix].combine_chunks()
        return whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole

    def lengths(self, name: str) -> Ints:
        lengths = pc.fill_null(pc.list_value_length(self.column(name)), 0)
        return lengths.to_numpy(zero_copy_only=False).astype(np.int64)

    def integers(self, name: str) -> Ints:
        values = pc.fill_null(self.column(name).flatten(), -1)
        return values.to_numpy(zero_copy_only=False).astype(np.int64)

    def unequal(self) -> np.ndarray:
        """bool[R]: lists that must be as long as one another are not."""
        words, sentences = np.diff(self.words), np.diff(self.sentences)
        wrong = (self.lengths("word_stops") != words) | (self.lengths("sentence_stops") != sentences)
        for name in ("word_heads", "word_deprels", "word_pos"):
            there = self.column(name).is_valid().to_numpy(zero_copy_only=False)
            wrong |= there & (self.lengths(name) != words)
        return wrong


def _check(columns: _Columns, texts: Sequence[str]) -> tuple[Ints, np.ndarray]:
    """The sentence of each word, counted over all texts, and bool[R]: texts whose words cannot be used."""
    base = bounds([len(text) + 1 for text in texts])  # a character apart, so that numbers alone compare
    ink = _ink("\0".join(texts) + "\0" if texts else "")
    ink[base[1:] - 1] = False
    row_w = np.repeat(np.arange(len(texts)), np.diff(columns.words))
    row_s = np.repeat(np.arange(len(texts)), np.diff(columns.sentences))
    wrong = np.zeros(len(texts), bool)
    limit = np.diff(base) - 1
    for row, starts, stops in (
        (row_w, columns.starts, columns.stops),
        (row_s, columns.sentence_starts, columns.sentence_stops),
    ):
        wrong[row[(starts < 0) | (stops <= starts) | (stops > limit[row])]] = True
        overlap = (row[1:] == row[:-1]) & (starts[1:] < stops[:-1])
        wrong[row[1:][overlap]] = True
    if wrong.any():
        return np.zeros(0, np.int64), wrong
    starts, stops = columns.starts + base[row_w], columns.stops + base[row_w]
    begins, ends = columns.sentence_starts + base[row_s], columns.sentence_stops + base[row_s]
    sentence = np.searchsorted(begins, starts, side="right") - 1
    inside = sentence >= columns.sentences[row_w]
    inside[inside] = stops[inside] <= ends[sentence[inside]]
    wrong[row_w[~inside]] = True
    seen = bounds(ink)
    held = seen[stops] - seen[starts]
    wrong[row_w[held == 0]] = True
    total = np.zeros(len(texts), np.int64)
    np.add.at(total, row_w, held)
    wrong |= total != np.diff(seen[base])
    if not wrong.any():
        empty = np.bincount(sentence, minlength=len(begins)) == 0
        wrong[row_s[empty]] = True
    return sentence, wrong


def _ink(text: str) -> np.ndarray:
    """bool per character: it is not white space."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    return ~np.isin(codes, _SPACES)


def _tag(tag: str) -> int:
    """Code of a part of speech: `X` for one that is not universal, -1 for none."""
    if tag in ("", "_"):
        return -1
    return UPOS.index(tag) if tag in UPOS else UPOS.index("X")


def _split(columns: _Columns, sentence: Ints, relations: Relations) -> list[Given]:
    """One `Given` a text."""
    count = len(columns.starts)
    heads, deprels = np.full(count, -1, np.int64), np.zeros(count, np.int64)
    pos = np.full(count, -1, np.int64)
    row_w = np.repeat(np.arange(columns.rows), np.diff(columns.words))
    for name, into in (("word_heads", heads), ("word_deprels", deprels), ("word_pos", pos)):
        there = columns.column(name).is_valid().to_numpy(zero_copy_only=False)[row_w]
        if name == "word_heads":
            into[there] = columns.integers(name)
        elif name == "word_pos":
            tags = pc.fill_null(columns.column(name).flatten(), "").dictionary_encode()
            table = np.array([_tag(tag) for tag in tags.dictionary.to_pylist()], np.int64)
            into[there] = table[tags.indices.to_numpy(zero_copy_only=False)] if len(tags) else 0
        else:
            into[~there] = relations.codes([""])[0]
            labels = pc.fill_null(columns.column(name).flatten(), "").dictionary_encode()
            table = relations.codes(labels.dictionary.to_pylist())
            into[there] = table[labels.indices.to_numpy(zero_copy_only=False)] if len(labels) else 0
    bare = np.zeros(len(columns.sentence_starts), np.int64)
    np.add.at(bare, sentence, heads < 0)
    parsed = bare == 0
    of_sentence = bounds(np.bincount(sentence, minlength=len(bare)))
    found = []
    words, sentences = columns.words.tolist(), columns.sentences.tolist()
    for r in range(columns.rows):
        own, many = slice(words[r], words[r + 1]), slice(sentences[r], sentences[r + 1])
        found.append(
            Given(
                starts=columns.starts[own],
                stops=columns.stops[own],
                of_sentence=of_sentence[sentences[r] : sentences[r + 1] + 1] - words[r],
                parsed=parsed[many],
                heads=heads[own],
                deprels=deprels[own],
                pos=pos[own],
            )
        )
    return found
