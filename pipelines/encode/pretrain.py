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
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from pipelines.encode.assemble import NONE, Cutter, Rows
from pipelines.encode.dice import Dice
from pipelines.encode.tokenizer import Tokens
from pipelines.encode_config import PretrainConfig
from pipelines.ragged import Ints


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


class _Maker(ABC):
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

    @abstractmethod
    def make(self, document: int, dice: Dice) -> None:
        """Add the rows of one document."""

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
        partners = others and share > 0
        i = 0
        while i < last:
            target = self.target(dice)
            j = min(bisect_left(bounds, bounds[i] + target, i + 1), last)  # the chunk: sentences [i, j)
            random = partners and dice.chance(share)
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
            a = (bounds[i], bounds[a_stop])
            if random:
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
