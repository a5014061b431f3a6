"""Which tokens make up a row: segments as spans of a block's flat tokens, chosen by task.

Nothing is copied here. A row is at most two spans; `pipelines.columns` turns the spans of a whole
block into columns. Spans never break the budget ([CLS] A [SEP] or [CLS] A [SEP] B [SEP] within
`max_length`), are never empty, and are never cut inside a grapheme cluster unless the row would
be empty otherwise.

`pretrain` with pairs is BERT's `create_instances_from_document` (Devlin et al. 2019, section 3.1
and the authors' code) with these differences, all of them deliberate:
- A random B comes from *another* document of the block, always. Where the block has no other
  document with tokens, pairs are real next pairs only (`pairs_without_other_document`); BERT's code would
  label text of the same document as random.
- A chunk of one sentence with no random partner to be had takes in the sentence that follows; the last
  sentence of a document then has no partner and is left out (`sentences_without_partner`).
- The shorter target length is drawn for every row, not once for a document.
- Draws depend on (seed, duplicate, document id) only.
As in BERT's code a pair over the budget loses tokens one by one from its longer side, at its front
or its back by a coin; sentences of A's document that a random B displaced are used again.

`pretrain` with single segments packs whole sentences and loses no text: a sentence over the
budget is cut into consecutive rows.

Shapes: R rows, N flat tokens, U source tokens.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipelines.config import PretrainConfig
from pipelines.dice import Dice
from pipelines.graphemes import inside_cluster
from pipelines.ragged import Ints
from pipelines.tokenizer import Tokens

NONE = -1
"""Text of a segment that a row does not have."""
_FEW_DOCUMENTS = 2
_MOSTLY = 0.9


@dataclass(frozen=True)
class Rows:
    """R rows as spans of flat tokens, column 0 for segment A and 1 for segment B."""

    documents: Ints
    """[R], document that names the row"""
    texts: Ints
    """[R, 2], text that the segment is from; -1 without a segment B"""
    starts: Ints
    """[R, 2], first flat token"""
    stops: Ints
    """[R, 2], one past the last"""
    labels: NDArray[np.int32] | None = None
    """[R], `pretrain` with pairs: 0 = B follows A, 1 = B is random"""
    counters: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self.documents)

    def lengths(self) -> Ints:
        """Tokens of each row with its special tokens, int64[R]."""
        return (self.stops - self.starts).sum(axis=1) + 2 + (self.texts[:, 1] >= 0)

    def slice(self, start: int, stop: int) -> Rows:
        """Rows [start, stop), without the counters."""
        part = slice(start, stop)
        labels = None if self.labels is None else self.labels[part]
        return Rows(self.documents[part], self.texts[part], self.starts[part], self.stops[part], labels)


# --- cutting ----------------------------------------------------------------------------------


class Cutter:
    """Moves a cut back to where it parts no grapheme cluster."""

    def __init__(self, texts: Sequence[str], tokens: Tokens) -> None:
        self._texts, self._starts = texts, tokens.starts

    def is_clean(self, text: int, token: int) -> bool:
        """Whether a span of `text` may begin at `token` and another end right before it."""
        at = int(self._starts[token])
        return at != self._starts[token - 1] and not inside_cluster(self._texts[text], at)

    def stop(self, text: int, start: int, stop: int) -> int:
        """The last clean end of a span at or before `stop`; `stop` itself if none is past `start`."""
        at = stop
        while at > start and not self.is_clean(text, at):
            at -= 1
        return at if at > start else stop

    def start(self, text: int, start: int, stop: int) -> int:
        """The first clean beginning of a span at or after `start`; `start` if none is before `stop`."""
        at = start
        while at < stop and not self.is_clean(text, at):
            at += 1
        return at if at < stop else start


def longest_first(a: ArrayLike, b: ArrayLike, budget: int) -> tuple[Ints, Ints]:
    """Lengths left when tokens go one by one from the longer of two segments, B's where they are equal.

    In closed form: the shorter keeps all it has up to half of the budget.
    """
    left, right = np.asarray(a, np.int64), np.asarray(b, np.int64)
    over = left + right > budget
    new_left = np.maximum(budget - right, np.minimum(left, budget - budget // 2))
    new_right = np.maximum(budget - left, np.minimum(right, budget // 2))
    return np.where(over, new_left, left), np.where(over, new_right, right)


# --- pretrain ---------------------------------------------------------------------------------


def sentence_bounds(
    tokens: Tokens, chars: Ints, sentence_starts: ArrayLike, sentence_offsets: ArrayLike
) -> list[list[int]]:
    """Flat tokens at which each document's sentences begin, and its end: [b0, b1, ..., end].

    A token belongs to the sentence of its first character; what stands before the first sentence
    belongs to that one. Sentences without tokens vanish; a document without tokens is [].

    Args:
        tokens: of n documents.
        chars: [n+1], offsets of the documents' characters laid end to end.
        sentence_starts: [S], characters in the document, increasing.
        sentence_offsets: [n+1], document i has sentences `offsets[i]:offsets[i + 1]`.
    """
    offsets = np.asarray(sentence_offsets, np.int64)
    keys = np.repeat(chars[:-1], np.diff(tokens.offsets)) + tokens.starts
    wanted = np.repeat(chars[:-1], np.diff(offsets)) + np.asarray(sentence_starts, np.int64)
    cuts = np.searchsorted(keys, wanted, "left").tolist()
    found = []
    for i, (start, stop) in enumerate(
        zip(tokens.offsets[:-1].tolist(), tokens.offsets[1:].tolist(), strict=True)
    ):
        inner = cuts[offsets[i] + 1 : offsets[i + 1]]
        found.append(list(dict.fromkeys((start, *inner, stop))) if stop > start else [])
    return found


def pretrain_rows(
    config: PretrainConfig,
    max_length: int,
    seed: int,
    doc_ids: Sequence[str],
    sentences: Sequence[list[int]],
    cutter: Cutter,
) -> Rows:
    """Training sequences of a block's documents, `config.duplicates` times over.

    Args:
        doc_ids: name of each document; with the seed, all that random choices depend on.
        sentences: `sentence_bounds` of each document.

    Counters: `documents_without_tokens`, `sentences`, `single_sentence_documents`,
    with pairs `truncated_rows`, `random_pairs`, `pairs_without_other_document`,
    `sentences_without_partner`; with single segments `cut_sentences`.
    """
    maker = (_Pairs if config.segments == "pair" else _Singles)(config, max_length, sentences, cutter)
    for duplicate in range(config.duplicates):
        for document in maker.full:
            maker.make(document, Dice(seed, duplicate, doc_ids[document]))
    return maker.rows()


def pretrain_warnings(counters: Mapping[str, int]) -> list[str]:
    """What a user should know about a corpus, from the totals of `pretrain_rows` and `records`."""
    documents, sentences = counters.get("records", 0), counters.get("sentences", 0)
    lone = counters.get("single_sentence_documents", 0)
    found = []
    if documents >= _FEW_DOCUMENTS and lone >= _MOSTLY * documents:
        found.append(
            f"{lone:,} of {documents:,} documents are a single sentence ({sentences:,} sentences in all): every pair "
            "needs another document. If blank lines stand between sentences, set input.document to 'file', or "
            "set encode.pretrain.segments to 'single'."
        )
    if pairs := counters.get("pairs_without_other_document", 0):
        found.append(
            f"{pairs:,} pairs are in blocks that hold one document only, so none of them is random. Raise "
            "run.block_bytes, or split long documents."
        )
    return found


class _Maker:
    """Collects rows of flat Python numbers; a row costs a few microseconds."""

    def __init__(
        self, config: PretrainConfig, max_length: int, sentences: Sequence[list[int]], cutter: Cutter
    ) -> None:
        self.config, self.sentences, self.cutter = config, sentences, cutter
        self.full = [d for d, bounds in enumerate(sentences) if bounds]
        self.budget = max_length - (3 if config.segments == "pair" else 2)
        self.counters: Counter[str] = Counter(
            sentences=sum(len(sentences[d]) - 1 for d in self.full),
            single_sentence_documents=sum(len(sentences[d]) == 2 for d in self.full),
        )
        if len(self.full) < len(sentences):
            self.counters["documents_without_tokens"] = len(sentences) - len(self.full)
        self.spans: list[tuple[int, int, int, int, int, int, int]] = []

    def make(self, document: int, dice: Dice) -> None:
        raise NotImplementedError

    def target(self, dice: Dice) -> int:
        if dice.chance(self.config.short_sequences):
            return 2 + dice.below(self.budget - 1)
        return self.budget

    def rows(self) -> Rows:
        flat = np.array(self.spans, np.int64).reshape(-1, 7)
        texts, starts, stops = flat[:, [0, 1]], flat[:, [2, 4]], flat[:, [3, 5]]
        labels = flat[:, 6].astype(np.int32) if self.config.segments == "pair" else None
        return Rows(flat[:, 0], texts, starts, stops, labels, self.counters)


class _Pairs(_Maker):
    def make(self, document: int, dice: Dice) -> None:
        bounds = self.sentences[document]
        last = len(bounds) - 1
        share = self.config.random_next
        others = len(self.full) > 1
        i = 0
        while i < last:
            target = self.target(dice)
            j = min(bisect_left(bounds, bounds[i] + target, i + 1), last)  # the chunk: sentences [i, j)
            if j == i + 1 and not (others and share > 0):
                if j == last:
                    self.counters["sentences_without_partner"] += 1
                    return
                j += 1
            a_stop = i + 1 + (dice.below(j - i - 1) if j - i > 1 else 0)
            a = (bounds[i], bounds[a_stop])
            if others and share > 0 and (j == i + 1 or dice.chance(share)):
                other, b = self._random_segment(document, target - (a[1] - a[0]), dice)
                self.counters["random_pairs"] += 1
                self._add(document, a, other, b, 1, dice)
                i = a_stop  # sentences that the random segment displaced are used again
            else:
                if share > 0 and not others:
                    self.counters["pairs_without_other_document"] += 1
                self._add(document, a, document, (bounds[a_stop], bounds[j]), 0, dice)
                i = j

    def _random_segment(self, document: int, target: int, dice: Dice) -> tuple[int, tuple[int, int]]:
        pick = dice.below(len(self.full) - 1)
        own = bisect_left(self.full, document)
        other = self.full[pick + (pick >= own)]
        bounds = self.sentences[other]
        first = dice.below(len(bounds) - 1)
        stop = min(bisect_left(bounds, bounds[first] + target, first + 1), len(bounds) - 1)
        return other, (bounds[first], bounds[stop])

    def _add(
        self, document: int, a: tuple[int, int], other: int, b: tuple[int, int], label: int, dice: Dice
    ) -> None:
        left, right = a[1] - a[0], b[1] - b[0]
        if left + right > self.budget:
            self.counters["truncated_rows"] += 1
            half = self.budget // 2  # `longest_first` in plain numbers
            keep_a = max(self.budget - right, min(left, self.budget - half))
            keep_b = max(self.budget - left, min(right, half))
            a = self._shrink(document, a, left - keep_a, dice)
            b = self._shrink(other, b, right - keep_b, dice)
        self.spans.append((document, other, *a, *b, label))

    def _shrink(self, text: int, span: tuple[int, int], count: int, dice: Dice) -> tuple[int, int]:
        if count == 0:
            return span
        front = dice.coins(count)
        start, stop = span[0] + front, span[1] - (count - front)
        if front:
            start = self.cutter.start(text, start, stop)
        if front < count:
            stop = self.cutter.stop(text, start, stop)
        return start, stop


class _Singles(_Maker):
    def make(self, document: int, dice: Dice) -> None:
        bounds = self.sentences[document]
        start, end = bounds[0], bounds[-1]
        while start < end:
            target = self.target(dice)
            at = bisect_right(bounds, start + target)
            stop = bounds[at - 1]
            if stop <= start:  # the next sentence is longer than the target
                stop = bounds[at]
                if stop - start > self.budget:
                    stop = self.cutter.stop(document, start, start + self.budget)
                    self.counters["cut_sentences"] += 1
            self.spans.append((document, NONE, start, stop, 0, 0, 0))
            start = stop


# --- classify and tag -------------------------------------------------------------------------


def classify_rows(tokens: Tokens, pairs: Ints, max_length: int, cutter: Cutter) -> Rows:
    """One row a document: its text, or text and second text, cut to the budget.

    Args:
        pairs: [R, 2], text of segment A, which is the document's number, and of B; -1 without a second
            text. Texts without tokens must be left out before.

    A single text is cut at its end; of a pair, tokens go from the end of the longer side.
    Counters: `truncated_rows`.
    """
    texts = np.asarray(pairs, np.int64).reshape(-1, 2)
    has = texts >= 0
    starts = np.where(has, tokens.offsets[texts], 0)
    whole = np.where(has, tokens.offsets[texts + 1] - starts, 0)
    kept = np.stack(
        (np.minimum(whole[:, 0], max_length - 2), np.zeros(len(texts), np.int64)),
        axis=1,
    )
    both = has[:, 1]
    if both.any():
        kept[both, 0], kept[both, 1] = longest_first(whole[both, 0], whole[both, 1], max_length - 3)
    stops = starts + kept
    cut = kept < whole
    for row, side in np.argwhere(cut).tolist():
        stops[row, side] = cutter.stop(texts[row, side], starts[row, side], stops[row, side])
    counters = Counter(truncated_rows=int(cut.any(axis=1).sum()))
    return Rows(texts[:, 0].copy(), texts, starts, stops, None, counters)


def tag_rows(tokens: Tokens, units: Ints, documents: Ints, max_length: int, cutter: Cutter) -> Rows:
    """One row a labelled sequence, cut after a whole source token where one fits.

    Args:
        units: [N], source token of each flat token, counted over the whole block.
        documents: [R], texts that become rows; each has tokens.

    Counters: `truncated_rows`; `labels_truncated`, source tokens that the cut left out.
    """
    starts, ends = tokens.offsets[documents], tokens.offsets[documents + 1]
    stops = np.minimum(ends, starts + max_length - 2)
    lost = 0
    for row in np.flatnonzero(stops < ends).tolist():
        text, start, stop = int(documents[row]), int(starts[row]), int(stops[row])
        at = stop
        while at > start and not (units[at] != units[at - 1] and cutter.is_clean(text, at)):
            at -= 1
        stops[row] = at = at if at > start else cutter.stop(text, start, stop)
        lost += int(units[ends[row] - 1] - units[at - 1])
    counters = Counter(truncated_rows=int((stops < ends).sum()), labels_truncated=lost)
    none = np.zeros(len(documents), np.int64)
    return Rows(
        np.asarray(documents, np.int64),
        np.stack((documents, none + NONE), axis=1),
        np.stack((starts, none), axis=1),
        np.stack((stops, none), axis=1),
        None,
        counters,
    )
