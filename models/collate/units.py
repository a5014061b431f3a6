"""Which tokens are chosen: alone, as whole words or phrases, as n-grams; so many a sequence, or each by chance.

Each unit has one draw. Chosen by chance, a unit is taken if its draw is below the rate. Chosen exactly, units come in
the order of their draws until the sequence's quota is full: a sort over the whole batch, never a loop over rows
or tokens; what depends on earlier choices is settled in a few rounds for all rows at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpora.ragged import Ints
from models.collate.sequences import Lists
from models.stream.hashing import Bits, Halves, mix32

Flags = NDArray[np.bool_]

_SCORE, _RANK, _SEQUENCE = 28, 18, 18
"""Bits of a token's place in the order: its sequence, its draw (equal ones are rare), its number in the sequence."""

_MORE = np.zeros(1, dtype=np.uint32)
_ALONE, _BIGRAM = np.uint32(0.8 * 2**32), np.uint32(0.9 * 2**32)
"""Of 2^32 n-grams so many are one token, and so many at most two: 80 %, 10 % and 10 % of 1, 2 and 3 tokens."""


@dataclass(frozen=True)
class Tokens:
    """The c tokens of a batch that may be chosen, in order.

    Attributes:
        index: int64[c], where they stand among all tokens of the batch.
        first: int64[n+1], those of sequence i are first[i] to first[i+1]-1.
        unit: int64[c], the first of these tokens (0..c-1) of the unit of each; None where each is its own.
    """

    index: Ints
    first: Ints
    unit: Ints | None = None

    @classmethod
    def of(cls, lists: Lists, may: Flags) -> Tokens:
        """Those of `may`, bool[m], each its own unit."""
        index = np.flatnonzero(may)
        return cls(index, np.searchsorted(index, lists.offsets))

    @property
    def sequence(self) -> Ints:
        """int64[c], the sequence of each."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    def __len__(self) -> int:
        return len(self.index)


def runs(tokens: Tokens, number: Ints) -> Ints:
    """`Tokens.unit` where tokens of a sequence with the same `number`, int64[c], are a unit; those with -1 are alone.

    Tokens with -1 may stand between those of a unit.
    """
    unit = np.arange(len(tokens))
    inside = np.flatnonzero(number >= 0)
    if len(inside):
        begins = np.ones(len(inside), dtype=bool)
        theirs, sequence = number[inside], tokens.sequence[inside]
        begins[1:] = (theirs[1:] != theirs[:-1]) | (sequence[1:] != sequence[:-1])
        unit[inside] = inside[begins][np.cumsum(begins) - 1]
    return unit


def by_chance(tokens: Tokens, draws: Halves, rate: float) -> Flags:
    """bool[c]: each unit is taken with probability `rate`, above 0, by the draw of its first token.

    Liu et al. 2019 (RoBERTa) in the published code, and the collator of transformers.
    """
    taken = draws <= np.uint32(max(0, int(rate * 2**32) - 1))
    return taken if tokens.unit is None else taken[tokens.unit]


def exactly(tokens: Tokens, draws: Halves, quota: Ints) -> Flags:
    """bool[c]: units in the order of their draws, up to `quota` tokens, int64[n], of each sequence.

    A unit with more tokens than are left of the quota is passed over, and smaller ones after it are tried, as in
    `create_masked_lm_predictions` of BERT's published code: a quota smaller than every unit chooses none.
    """
    if tokens.unit is None:
        return _first(tokens, _order(tokens, draws), quota)
    heads = np.flatnonzero(tokens.unit == np.arange(len(tokens)))
    order = np.sort(_order(tokens, draws)[heads])
    sequence, head = _back(tokens, order)
    size = np.bincount(tokens.unit, minlength=len(tokens))[head]
    taken = np.zeros(len(tokens), dtype=bool)
    left = quota.copy()
    while len(head):
        # All up to the first that goes over are taken. What does not fit then never will; of what does, there is
        # little: less is left than one unit has tokens, so there are few rounds.
        total = np.cumsum(size)
        before = np.append(0, total)[np.searchsorted(sequence, np.arange(len(left)))]
        within = total <= (before + left)[sequence]
        now = np.flatnonzero(within)
        taken[head[now]] = True
        left -= np.bincount(sequence[now], size[now], len(left)).astype(np.int64)
        rest = np.flatnonzero(~within & (size <= left[sequence]))
        sequence, head, size = sequence[rest], head[rest], size[rest]
    return taken[tokens.unit]


def quickly(lists: Lists, may: Flags, draws: Halves, quota: Ints) -> tuple[Tokens, Flags]:
    """As `exactly` where each token is its own unit: `may` bool[m] be chosen, `draws` uint32[m] are of all.

    Tokens of high draws are seldom chosen, so those of low ones are tried first; what is chosen is the same.
    """
    sizes = lists.lengths
    share = (
        1.5 * float((quota / np.maximum(sizes, 1)).max(initial=0)) + 0.1
    )  # where few are to be chosen of few
    if share < 1:
        tokens = Tokens.of(lists, may & (draws < np.uint32(share * 2**32)))
        if (np.diff(tokens.first) >= quota).all():
            return tokens, exactly(tokens, draws[tokens.index], quota)
    tokens = Tokens.of(lists, may)
    return tokens, exactly(tokens, draws[tokens.index], quota)


def ngrams(tokens: Tokens, follows: Flags, draws: Halves, quota: Ints) -> tuple[Flags, Ints]:
    """As `exactly`, but tokens in the order of their draws each begin an n-gram.

    Of one token (80 %), two or three (10 % each): Dong et al. 2019 (UniLM), section 2.4. An n-gram goes no further than
    tokens follow one another; one that is chosen already begins none; the last n-gram of a sequence is
    cut where its quota is full (UniLM's published code leaves out chosen tokens at random instead).

    Args:
        follows: bool[c], whether the next of these tokens is the next of its text.

    Returns:
        bool[c], those chosen, and int64[c] as `Tokens.unit`, the token that begins the n-gram of each.
    """
    order = _order(tokens, draws)
    more = mix32(draws, _MORE)
    two = follows & (more >= _ALONE)
    three = two & (more >= _BIGRAM)
    three[:-1] &= follows[1:]
    reach = [(step, flags[:-step]) for step, flags in ((1, two), (2, three)) if step < len(tokens)]
    begins = np.ones(len(tokens), dtype=bool)
    while True:  # as many rounds as n-grams that wait for each other's verdict: a handful
        now = np.ones(len(tokens), dtype=bool)
        for step, flags in reach:
            now[step:] &= ~(begins[:-step] & flags & (order[:-step] < order[step:]))
        if np.array_equal(now, begins):
            break
        begins = now
    earliest = np.where(begins, order, np.uint64(2**64 - 1))
    unit = np.arange(len(tokens))
    for step, flags in reach:
        over = np.flatnonzero(begins[:-step] & flags & (order[:-step] < earliest[step:]))
        unit[over + step] = over
        earliest[over + step] = order[over]
    return _first(tokens, _order(tokens, draws[unit]), quota), unit


def _order(tokens: Tokens, draws: Halves) -> Bits:
    """Numbers, all different, that stand as sequences do and within a sequence as the draws of its tokens."""
    sizes = np.diff(tokens.first)
    if len(sizes) >= 1 << _SEQUENCE or (len(sizes) and sizes.max() >= 1 << _RANK):
        raise ValueError(
            f"masking takes fewer than {1 << _SEQUENCE} sequences at once, of fewer than {1 << _RANK} tokens each; "
            f"found {len(sizes)} sequences, the longest of {sizes.max()} tokens. Make batches smaller"
        )
    base = np.arange(len(sizes)) << (_SCORE + _RANK)
    place = np.arange(len(tokens)) + np.repeat(base - tokens.first[:-1], sizes)
    order = (draws >> np.uint32(32 - _SCORE)).astype(np.uint64)
    order <<= np.uint64(_RANK)
    order |= place.astype(np.uint64)
    return order


def _back(tokens: Tokens, order: Bits) -> tuple[Ints, Ints]:
    """The sequence of each number of `_order`, and which of the tokens it is."""
    sequence = (order >> np.uint64(_SCORE + _RANK)).astype(np.int64)
    return sequence, tokens.first[sequence] + (order & np.uint64((1 << _RANK) - 1)).astype(np.int64)


def _first(tokens: Tokens, order: Bits, quota: Ints) -> Flags:
    """The first `quota` tokens, at least 1, of each sequence in this order, bool[c]; all, where there are no more."""
    if not len(order):
        return np.zeros(0, dtype=bool)
    sizes = np.diff(tokens.first)
    last = np.sort(order)[tokens.first[:-1] + np.minimum(quota, sizes) - 1]
    return order <= np.repeat(last, sizes)
