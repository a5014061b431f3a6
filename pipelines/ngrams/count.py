"""From words to counted n-grams of the highest order: all that is counted at all, the rest follows from them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipelines.ngrams.keys import Ids, Keys, Packing, argsort, take
from pipelines.ragged import bounds

UNK, BOS, EOS = 0, 1, 2
SPECIALS = ("<unk>", "<s>", "</s>")
LEFT_OUT = (*SPECIALS, "<UNK>")
"""Words of the text that are none: readers of ARPA files take the last for `<unk>`, too."""

Counts = NDArray[np.uint64]


def ngrams(words: Ids, lengths: NDArray[np.int64], order: int, packing: Packing) -> Keys:
    """Keys, in suffix order's fields, of the n-grams that end in each word and in each sentence's end.

    Args:
        words: ids of the sentences' words, end to end, without sentence ends.
        lengths: words of each sentence; 0 for an empty one, which still ends.
    """
    stops = bounds(lengths + 1)
    text = np.full(stops[-1], EOS, np.uint32)
    is_word = np.ones(len(text), np.bool_)
    is_word[stops[1:] - 1] = False
    text[is_word] = words
    inside = np.arange(len(text)) - np.repeat(stops[:-1], lengths + 1)
    fields = [text]
    for back in range(1, order):
        before = np.full(len(text), BOS, np.uint32)
        there = inside >= back
        before[there] = text[: len(text) - back][there[back:]]
        fields.append(before)
    return packing.pack(fields)


def count(keys: Keys) -> tuple[Keys, Counts]:
    """Different keys in order, and how often each is there."""
    ordered = (np.sort(keys[0]),) if len(keys) == 1 else take(keys, argsort(keys))
    starts = _starts(ordered)
    return take(ordered, starts), np.diff(np.append(starts, len(ordered[0]))).astype(np.uint64)


def merge(keys: Keys, counts: Counts) -> tuple[Keys, Counts]:
    """The same of keys that have counts already: those of equal keys are added."""
    order = argsort(keys)
    ordered = take(keys, order)
    starts = _starts(ordered)
    return take(ordered, starts), np.add.reduceat(counts[order], starts) if len(starts) else counts[:0]


def _starts(ordered: Keys) -> NDArray[np.int64]:
    fresh = np.zeros(max(0, len(ordered[0]) - 1), np.bool_)
    for column in ordered:
        fresh |= column[1:] != column[:-1]
    return np.flatnonzero(np.append(np.ones(min(1, len(ordered[0])), np.bool_), fresh))
