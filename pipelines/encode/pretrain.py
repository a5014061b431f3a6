"""Documents to training sequences: sentence pairs or contiguous segments, as spans of tokens.

`pretrain` with pairs is BERT's `create_instances_from_document` (Devlin et al. 2019, section 3.1
and the authors' code) with these differences, all of them deliberate:
- A random B comes from *another* document of the block, always. Where the block has no other
  document with tokens, pairs are real next pairs only (`pairs_without_other_document`); BERT's code would
  label text of the same document as random.
- The coin comes first. A chunk of one sentence that is to have its real next takes in the sentence
  that follows, or, at the document's end, the one before; BERT's code makes each such pair random,
  which are most pairs where sentences are long or rows short. Only a document of one sentence gets
  a random B whatever the coin says; with none to be had it is left out (`sentences_without_partner`).
- The shorter target length is drawn for every row, not once for a document.
- Draws depend on (seed, duplicate, document id) only.
As in BERT's code a pair over the budget loses tokens one by one from its longer side, at its front
or its back by a coin; sentences of A's document that a random B displaced are used again.

`pretrain` with single segments packs whole sentences and loses no text: a sentence over the
budget is cut into consecutive rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from pipelines.encode.assemble import NONE, Cutter, Rows
from pipelines.encode.dice import CERTAIN, Dice
from pipelines.encode.tokenizer import Tokens
from pipelines.encode_config import PretrainConfig
from pipelines.ragged import Ints, bounds, ranges


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
    counts = np.diff(offsets)
    wanted = np.repeat(chars[:-1], counts) + np.asarray(sentence_starts, np.int64)
    cuts = np.searchsorted(keys, wanted, "left")
    full = np.diff(tokens.offsets) > 0
    places = bounds(np.where(full, np.maximum(counts, 1) + 1, 0))
    flat = np.empty(places[-1], np.int64)
    flat[places[:-1][full]], flat[places[1:][full] - 1] = tokens.offsets[:-1][full], tokens.offsets[1:][full]
    inner = np.where(full, np.maximum(counts - 1, 0), 0)
    flat[ranges(places[:-1] + 1, inner)] = cuts[ranges(offsets[:-1] + 1, inner)]
    keep = np.diff(flat, prepend=-1) > 0
    keep[places[:-1][full]] = True
    values, ends = flat[keep].tolist(), bounds(keep)[places].tolist()
    return [values[start:stop] for start, stop in pairwise(ends)]


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


class _Maker(ABC):
    """Collects rows of flat Python numbers; a row costs 4 microseconds."""

    def __init__(
        self, config: PretrainConfig, max_length: int, sentences: Sequence[list[int]], cutter: Cutter
    ) -> None:
        self.config, self.sentences, self.cutter = config, sentences, cutter
        self.full = [d for d, edges in enumerate(sentences) if edges]
        self.budget = max_length - (3 if config.segments == "pair" else 2)
        self.counters: Counter[str] = Counter(
            sentences=sum(len(sentences[d]) - 1 for d in self.full),
            single_sentence_documents=sum(len(sentences[d]) == 2 for d in self.full),
        )
        if len(self.full) < len(sentences):
            self.counters["documents_without_tokens"] = len(sentences) - len(self.full)
        self.random_share = config.random_next * CERTAIN
        self.short_share = config.short_sequences * CERTAIN
        self.spans = array("q")
        """Six numbers a row: document, text of B, first token of A and its end, those of B"""

    @abstractmethod
    def make(self, document: int, dice: Dice) -> None:
        """Add the rows of one document."""

    def target(self, dice: Dice) -> int:
        return 2 + dice.below(self.budget - 1) if dice.bits() < self.short_share else self.budget

    def rows(self) -> Rows:
        flat = np.array(self.spans, np.int64).reshape(-1, 6)
        return Rows(flat[:, 0], flat[:, [0, 1]], flat[:, [2, 4]], flat[:, [3, 5]], counters=self.counters)


class _Pairs(_Maker):
    def make(self, document: int, dice: Dice) -> None:
        edges, bits, share = self.sentences[document], dice.bits, self.random_share
        last = len(edges) - 1
        partners = len(self.full) > 1 and share > 0
        i = 0
        while i < last:
            target = self.target(dice)
            j = min(bisect_left(edges, edges[i] + target, i + 1), last)  # the chunk: sentences [i, j)
            random = partners and bits() < share
            if j == i + 1 and not random:
                if j < last:
                    j += 1
                elif i > 0:
                    i -= 1
                elif partners:
                    random = True
                else:
                    self.counters["sentences_without_partner"] += 1
                    return
            a_stop = i + 1 + (dice.below(j - i - 1) if j - i > 1 else 0)
            start, stop = edges[i], edges[a_stop]
            if random:
                other, b_start, b_stop = self._random_segment(document, target - (stop - start), dice)
                i = a_stop  # sentences that the random segment displaced are used again
            else:
                other, b_start, b_stop = document, stop, edges[j]
                i = j
            row = (document, other, start, stop, b_start, b_stop)
            self.spans.extend(
                row if stop - start + b_stop - b_start <= self.budget else self._cut(*row, dice)
            )

    def rows(self) -> Rows:
        rows = super().rows()
        labels = rows.texts[:, 1] != rows.documents  # a random B is always of another document
        random = int(labels.sum())
        lone = len(rows) if self.random_share > 0 and len(self.full) == 1 else 0
        self.counters.update(
            {k: n for k, n in (("random_pairs", random), ("pairs_without_other_document", lone)) if n}
        )
        return replace(rows, labels=labels.astype(np.int32))

    def _random_segment(self, document: int, target: int, dice: Dice) -> tuple[int, int, int]:
        """Document, first token and end of whole sentences, `target` tokens if the document has so many."""
        pick = dice.below(len(self.full) - 1)
        other = self.full[pick + (pick >= bisect_left(self.full, document))]
        edges = self.sentences[other]
        last = len(edges) - 1
        first = dice.below(last)
        stop = min(bisect_left(edges, edges[first] + target, first + 1), last)
        return other, edges[first], edges[stop]

    def _cut(
        self, document: int, other: int, start: int, stop: int, b_start: int, b_stop: int, dice: Dice
    ) -> tuple[int, ...]:
        """A row that is over the budget, cut to it."""
        self.counters["truncated_rows"] += 1
        left, right, half = stop - start, b_stop - b_start, self.budget // 2
        keep_a = max(self.budget - right, min(left, self.budget - half))  # `longest_first` in plain numbers
        keep_b = max(self.budget - left, min(right, half))
        a = self._shrink(document, start, stop, left - keep_a, dice)
        b = self._shrink(other, b_start, b_stop, right - keep_b, dice)
        return document, other, *a, *b

    def _shrink(self, text: int, start: int, stop: int, count: int, dice: Dice) -> tuple[int, int]:
        if count == 0:
            return start, stop
        front = dice.coins(count)
        start, stop = start + front, stop - (count - front)
        if front:
            start = self.cutter.start(text, start, stop)
        if front < count:
            stop = self.cutter.stop(text, start, stop)
        return start, stop


class _Singles(_Maker):
    def make(self, document: int, dice: Dice) -> None:
        edges = self.sentences[document]
        start, end = edges[0], edges[-1]
        while start < end:
            target = self.target(dice)
            at = bisect_right(edges, start + target)
            stop = edges[at - 1]
            if stop <= start:  # the next sentence is longer than the target
                stop = edges[at]
                if stop - start > self.budget:
                    stop = self.cutter.stop(document, start, start + self.budget)
                    self.counters["cut_sentences"] += 1
            self.spans.extend((document, NONE, start, stop, 0, 0))
            start = stop
