"""Shingles: the overlapping runs of n characters, or of n words, that a text is made of, as hashes.

A text is the set of its shingles (Broder, 1997), and each shingle is 32 bits of a hash: two texts of a
thousand shingles each share a hash by chance once in four thousand pairs. Where all of a text is one shingle,
32 bits would take two of a hundred thousand such texts for one, so there the whole hash is given as well.
A text with fewer than n characters or words is one shingle, an empty one has none. Everything is computed
for a whole batch of texts at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.dedup.folding import Folded
from pipelines.dedup.hashing import Hashes, constants, mix
from pipelines.ragged import Ints, bounds, ranges

_WORD, _PLACE = 1, 2
"""Seeds of the constants."""
_NOTHING = 1 << 40
"""Stands where a short text has no more units; no code point, and as good as no hash of a word."""


class Sets(NamedTuple):
    """Sets of hashes laid end to end: `values` uint32[N], rising within each set; `offsets` int64[sets + 1]."""

    values: NDArray[np.uint32]
    offsets: Ints

    @property
    def sizes(self) -> Ints:
        return np.diff(self.offsets)

    def take(self, which: Ints) -> Sets:
        """The sets of these numbers, in that order."""
        sizes = self.sizes[which]
        return Sets(self.values[ranges(self.offsets[which], sizes)], bounds(sizes))

    def head(self, most: int) -> Sets:
        """The smallest `most` values of each set."""
        sizes = np.minimum(self.sizes, most)
        return Sets(self.values[ranges(self.offsets[:-1], sizes)], bounds(sizes))


def words(folded: Folded) -> tuple[Hashes, Ints]:
    """A hash of each word (characters between white space) of each text: uint64[words], int64[texts + 1].

    A word is a polynomial over its code points modulo 2**64, mixed.
    """
    codes, offsets, breaks = folded
    first = np.zeros(len(codes) + 1, bool)
    first[offsets] = first[breaks] = True
    starts = np.flatnonzero(first[:-1])
    lengths = np.diff(np.append(starts, len(codes)))
    powers = np.full(int(lengths.max(initial=1)), constants(_WORD, 1)[0])
    powers[0] = 1
    powers = np.multiply.accumulate(powers)
    terms = codes * powers[ranges(np.zeros_like(starts), lengths)]
    hashes = np.add.reduceat(terms, starts) if len(starts) else np.zeros(0, np.uint64)
    return mix(hashes), np.searchsorted(starts, offsets)


def shingle_sets(units: NDArray[np.uint32] | Hashes, offsets: Ints, n: int) -> tuple[Sets, Hashes]:
    """The set of shingles of n units of each text; texts are laid end to end, `offsets` int64[texts + 1].

    Returns the sets, and uint64[texts]: the whole hash where the set has a single one, else 0.
    """
    sizes = np.diff(offsets)
    if (short := (sizes > 0) & (sizes < n)).any():
        padded = bounds(np.where(short, n, sizes))
        filled = np.full(padded[-1], _NOTHING, np.uint64)
        filled[ranges(padded[:-1], sizes)] = units
        units, offsets = filled, padded
        sizes = np.diff(offsets)
    counts = np.maximum(sizes - (n - 1), 0)
    if not counts.any():
        return Sets(np.zeros(0, np.uint32), bounds(counts)), np.zeros(len(counts), np.uint64)
    factors = constants(_PLACE, n)
    whole = len(units) - (n - 1)
    hashes = units[:whole] * factors[0]
    for place in range(1, n):
        hashes += units[place : place + whole] * factors[place]
    hashes = mix(hashes)[ranges(offsets[:-1], counts)]
    first = hashes[np.minimum(bounds(counts)[:-1], len(hashes) - 1)]
    # Sorted by text, then by hash, in one go.
    hashes >>= np.uint64(32)
    hashes |= np.repeat(np.arange(len(counts), dtype=np.uint64) << np.uint64(32), counts)
    hashes.sort()
    fresh = np.append(True, hashes[1:] != hashes[:-1])
    hashes = hashes[fresh]
    edges = np.arange(len(counts) + 1, dtype=np.uint64) << np.uint64(32)
    sets = Sets(hashes.astype(np.uint32), np.searchsorted(hashes, edges).astype(np.int64))
    return sets, np.where(sets.sizes == 1, first, np.uint64(0))
