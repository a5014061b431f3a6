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
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pipelines.encode.assemble import NONE, Cutter, Rows
from pipelines.encode.dice import CERTAIN, Bits, below, coins, streams
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
    names = [doc_ids[document] for document in maker.full]
    for duplicate in range(config.duplicates):
        maker.make(streams((seed, duplicate), names))
    return maker.rows()


class _Maker(ABC):
    """Collects rows of flat Python numbers; a row costs 3 microseconds."""

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
    def make(self, dice: Iterable[Bits]) -> None:
        """Add the rows of all documents that have tokens; each has draws of its own."""

    def rows(self) -> Rows:
        flat = np.array(self.spans, np.int64).reshape(-1, 6)
        return Rows(flat[:, 0], flat[:, [0, 1]], flat[:, [2, 4]], flat[:, [3, 5]], counters=self.counters)


class _Pairs(_Maker):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.cuts = array("q")
        """Five numbers a row over the budget: its number; tokens that A loses at its front, and in all; B likewise"""

    def make(self, dice: Iterable[Bits]) -> None:
        sentences, full, budget, add = self.sentences, self.full, self.budget, self.spans.extend
        share, short = self.random_share, self.short_share
        others = len(full) - 1
        partners = others > 0 and share > 0
        for place, (document, bits) in enumerate(zip(full, dice, strict=True)):
            edges = sentences[document]
            last = len(edges) - 1
            i = 0
            while i < last:
                target = 2 + below(bits, budget - 1) if bits() < short else budget
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
                        break
                a_stop = i + 1 + (below(bits, j - i - 1) if j - i > 1 else 0)
                start, stop = edges[i], edges[a_stop]
                if random:
                    pick = below(bits, others)
                    other = full[pick + (pick >= place)]
                    theirs = sentences[other]
                    end = len(theirs) - 1
                    first = below(bits, end)
                    b_start = theirs[first]
                    whole = bisect_left(theirs, b_start + target - (stop - start), first + 1)
                    b_stop = theirs[min(whole, end)]
                    i = a_stop  # sentences that the random segment displaced are used again
                else:
                    other, b_start, b_stop = document, stop, edges[j]
                    i = j
                if stop - start + b_stop - b_start > budget:
                    self._cut(stop - start, b_stop - b_start, bits)
                add((document, other, start, stop, b_start, b_stop))

    def _cut(self, left: int, right: int, bits: Bits) -> None:
        """Note what the next row, which is over the budget, loses."""
        budget = self.budget
        keep = max(budget - right, min(left, budget - budget // 2))  # `longest_first` in plain numbers
        from_a, from_b = left - keep, right - (budget - keep)
        self.cuts.extend(
            (
                len(self.spans) // 6,
                from_a and coins(bits, from_a),
                from_a,
                from_b and coins(bits, from_b),
                from_b,
            )
        )

    def rows(self) -> Rows:
        rows = super().rows()
        cuts = np.array(self.cuts, np.int64).reshape(-1, 5)
        which = cuts[:, 0]
        for side, (front, count) in enumerate((cuts[:, 1:3].T, cuts[:, 3:].T)):
            rows.starts[which, side] += front
            rows.stops[which, side] -= count - front
            self._clean(rows, side, which[front > 0], which[front < count])
        labels = rows.texts[:, 1] != rows.documents  # a random B is always of another document
        random = int(labels.sum())
        lone = len(rows) if self.random_share > 0 and len(self.full) == 1 else 0
        found = {"truncated_rows": len(cuts), "random_pairs": random, "pairs_without_other_document": lone}
        self.counters.update({name: number for name, number in found.items() if number})
        return replace(rows, labels=labels.astype(np.int32))

    def _clean(self, rows: Rows, side: int, starts: Ints, stops: Ints) -> None:
        """Move the starts of rows `starts` and the stops of rows `stops` to where they part no cluster."""
        is_clean = self.cutter.is_clean
        for which, edge, move in (
            (starts, rows.starts, self.cutter.start),
            (stops, rows.stops, self.cutter.stop),
        ):
            texts, tokens = rows.texts[which, side].tolist(), edge[which, side].tolist()
            for row, text, token in zip(which.tolist(), texts, tokens, strict=True):
                if not is_clean(text, token):
                    edge[row, side] = move(text, int(rows.starts[row, side]), int(rows.stops[row, side]))


class _Singles(_Maker):
    def make(self, dice: Iterable[Bits]) -> None:
        budget, short, add = self.budget, self.short_share, self.spans.extend
        for document, bits in zip(self.full, dice, strict=True):
            edges = self.sentences[document]
            start, end = edges[0], edges[-1]
            while start < end:
                target = 2 + below(bits, budget - 1) if bits() < short else budget
                at = bisect_right(edges, start + target)
                stop = edges[at - 1]
                if stop <= start:  # the next sentence is longer than the target
                    stop = edges[at]
                    if stop - start > budget:
                        stop = self.cutter.stop(document, start, start + budget)
                        self.counters["cut_sentences"] += 1
                add((document, NONE, start, stop, 0, 0))
                start = stop
