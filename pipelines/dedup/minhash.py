"""MinHash signatures and their bands: sets that are alike get an equal key, most others do not.

Broder's MinHash (1997): the share of permutations under which two sets have the same smallest element is
their Jaccard similarity. A permutation is multiplication by an odd number modulo 2**32 (the shingles are mixed
hashes already; error and recall are as for random permutations). With b bands of r permutations each, a pair
of similarity s has an equal band with probability 1 - (1 - s**r)**b (Leskovec et al., Mining of Massive Datasets,
section 3.4). What has an equal band is a candidate, and is compared (`pipelines.dedup.sketch`).

A permutation costs one multiplication and one minimum per element, both over long rows of numpy: sets are cut
into pieces, since a minimum of minima is one, and pieces of like size are laid side by side.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.dedup.hashing import Hashes, constants, mix
from pipelines.dedup.shingles import Sets
from pipelines.ragged import Ints, bounds, ranges

_PERMUTATION, _BAND = 3, 4
_MISSED = 0.005
"""Share of the pairs just at the threshold that may go without an equal band."""
_PIECE = 256
_BATCH = 1 << 15
"""Elements side by side: as many as the second-level cache holds."""


class Banding(NamedTuple):
    """`bands` bands of `rows` permutations each."""

    bands: int
    rows: int

    @classmethod
    def of(cls, threshold: float) -> Banding:
        """Bands that find at least 99.5 % of the pairs of this similarity: 14 of 5 for 0.8.

        More rows would give fewer candidates that are none, and cost more bands, each of them a permutation
        for every shingle and 16 bytes for every document.
        """
        rows = 5 if threshold >= 0.7 else 4
        chance = threshold**rows
        bands = 1 if chance == 1 else math.ceil(math.log(_MISSED) / math.log(1 - chance))
        return cls(bands, rows)

    @property
    def permutations(self) -> int:
        """Rows of a signature."""
        return self.bands * self.rows

    def recall(self, similarity: float) -> float:
        """Probability that a pair of this similarity becomes a candidate."""
        return 1 - (1 - similarity**self.rows) ** self.bands


def signatures(sets: Sets, permutations: int) -> NDArray[np.uint32]:
    """The smallest element under each permutation, uint32[permutations, sets]; 2**32 - 1 for an empty set."""
    factors = (constants(_PERMUTATION, permutations) >> np.uint64(32)).astype(np.uint32) | np.uint32(1)
    pieces = -(-sets.sizes // _PIECE)
    owners = bounds(pieces)
    number = ranges(np.zeros_like(pieces), pieces)  # of each piece within its set
    starts = np.repeat(sets.offsets[:-1], pieces) + number * _PIECE
    sizes = np.minimum(np.repeat(sets.offsets[1:], pieces) - starts, _PIECE)
    found = np.empty((permutations, len(starts)), np.uint32)
    order = np.argsort(sizes, kind="stable")
    at = 0
    while at < len(order):
        group = order[at : at + max(1, _BATCH // int(sizes[order[at]]))]
        longest = int(sizes[group[-1]])
        if longest * len(group) > 2 * _BATCH:  # sizes rise too fast here
            group = group[: int(np.searchsorted(sizes[group], 2 * int(sizes[group[0]]), side="right"))]
            longest = int(sizes[group[-1]])
        found[:, group] = _smallest(sets.values, starts[group], sizes[group], longest, factors)
        at += len(group)
    result = np.full((permutations, len(pieces)), 0xFFFFFFFF, np.uint32)
    if len(starts):
        full = pieces > 0
        result[:, full] = np.minimum.reduceat(found, owners[:-1][full], axis=1)
    return result


def _smallest(
    values: NDArray[np.uint32], starts: Ints, sizes: Ints, longest: int, factors: NDArray[np.uint32]
) -> NDArray[np.uint32]:
    """Minima uint32[permutations, pieces] of pieces of at most `longest` values."""
    places = np.minimum(
        np.arange(longest)[:, None], sizes - 1
    )  # the last value again, where there are no more
    side_by_side = values[starts + places]
    product = np.empty_like(side_by_side)
    result = np.empty((len(factors), len(starts)), np.uint32)
    for factor, row in zip(factors, result, strict=True):
        np.multiply(side_by_side, factor, out=product)
        np.minimum.reduce(product, axis=0, out=row)
    return result


def band_keys(found: NDArray[np.uint32], banding: Banding, lone: Hashes, salt: int = 0) -> Hashes:
    """Keys uint64[bands, sets] of signatures: equal where the rows of the band are, and band, `lone` and salt.

    `lone` uint64[sets] tells sets of a single element apart that have the same 32 bits.
    """
    bands, rows = banding
    factors = constants(_BAND, rows)
    parts = found.reshape(bands, rows, -1)
    keys = np.repeat(mix(constants(_BAND + 1, bands) ^ np.uint64(salt))[:, None], parts.shape[2], axis=1)
    for row in range(rows):
        keys += parts[:, row] * factors[row]
    return mix(keys ^ lone)
