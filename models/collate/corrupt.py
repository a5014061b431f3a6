"""What stands in the place of tokens that are to be predicted: [MASK], a random token, or the token itself."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from corpora.ragged import Ints
from corpora.schema import IGNORED_LABEL, annotated_first
from models.collate.sequences import Lists
from models.stream.hashing import Bits
from models.stream.order import check_whole
from models.stream.rows import Array

_LOW = np.uint64(2**32 - 1)


@dataclass(frozen=True)
class Vocabulary:
    """What masking knows of a vocabulary.

    Attributes:
        special_ids: ids of special tokens by their roles, at least `mask` and `sep`.
        size: ids there are, from 0 on.

    Raises:
        ValueError: an id is outside the vocabulary, a role is lacking, or all ids are special.
    """

    special_ids: Mapping[str, int]
    size: int

    @classmethod
    def of(cls, metadata: Mapping[str, Any], prefix: str = "") -> Vocabulary:
        """Of a dataset (`Split.metadata`): of its fine tokens, or with prefix `coarse_` of its coarse ones.

        Raises ValueError if the dataset does not tell.
        """
        special, size = metadata.get(f"{prefix}special_ids"), metadata.get(f"{prefix}vocab_size")
        if special is None or size is None:
            cure = "add 'coarse' to encode.columns and" if prefix else "it is of an older release:"
            first = annotated_first("coarse") if prefix else ""
            raise ValueError(
                f"the dataset does not say its {prefix}special_ids and {prefix}vocab_size; {cure} run "
                f"`treegraft encode` again{first}"
            )
        return cls(dict(special), size)

    def __post_init__(self) -> None:
        check_whole("size of a vocabulary", self.size, 1, 2**31 - 1)
        for role in ("mask", "sep"):
            if role not in self.special_ids:
                raise ValueError(
                    f"special_ids lack {role!r}; they have {', '.join(self.special_ids) or 'none'}"
                )
        for role, number in self.special_ids.items():
            if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < self.size:
                raise ValueError(
                    f"special_ids[{role!r}] must be an id from 0 to {self.size - 1}, found {number!r}"
                )
        if len(self._special) == self.size:
            raise ValueError(
                f"all {self.size} ids of the vocabulary are special tokens: nothing could be masked"
            )

    @property
    def _special(self) -> list[int]:
        return sorted(set(self.special_ids.values()))

    def special(self, ids: Array) -> Array:
        """bool[m], which of these are special tokens."""
        first, *others = self._special
        found = ids == first
        for number in others:  # a pass for each of the five is faster than a look-up
            found |= ids == number
        return found

    def random(self, draws: Bits) -> Ints:
        """Ids int64[k] that are no special token's, all equally likely, from the lower half of each draw."""
        ordinary = self._ordinary
        return ordinary[((draws & _LOW) * np.uint64(len(ordinary)) >> np.uint64(32)).astype(np.int64)]

    @functools.cached_property
    def _ordinary(self) -> Ints:
        return np.delete(np.arange(self.size), self._special)


def corrupted(
    lists: Lists, vocabulary: Vocabulary, chosen: Ints, draws: Bits, fates: Bits, shares: Sequence[float]
) -> Lists:
    """The lists with new `input_ids`, and `mlm_labels` int32: the ids that stood there, -100 where none is chosen.

    Args:
        chosen: int64[k], which tokens.
        draws: uint64[k]; their lower halves say which random token each would become.
        fates: uint64[k]; their upper halves say whether it does.
        shares: of [MASK], of random tokens, of those that stay; they add up to 1.
    """
    ids = lists.columns["input_ids"].copy()
    labels = np.full(len(ids), IGNORED_LABEL, dtype=np.int32)
    old = labels[chosen] = ids[chosen]
    fate = (fates >> np.uint64(32)) * 2.0**-32
    mask, _, keep = shares
    new = np.where(fate < mask, vocabulary.special_ids["mask"], old)
    random = np.flatnonzero((fate >= mask) & (fate < 1 - keep))
    new[random] = vocabulary.random(draws[random])
    ids[chosen] = new
    return lists.having(input_ids=ids, mlm_labels=labels)
