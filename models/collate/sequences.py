"""Sequences: rows as one model reads them, still flat arrays. What lies between a row and a padded tensor.

A row is one sequence; a row of `choice` is one for each choice. Steps (masking, kinds of language model) work on
this form, where a batch is a handful of arrays and no token is padding.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from corpora.ragged import Ints, counts
from models.stream.rows import Array, Rows


@dataclass(frozen=True)
class Lists:
    """Per-token columns of one granularity, end to end.

    Attributes:
        offsets: int64[n+1]; sequence i's tokens are offsets[i] to offsets[i+1]-1.
        columns: by the batch's names (of coarse tokens, too: `input_ids`, without `coarse_`), each [offsets[n]], of
            any type of whole numbers. Where `position_ids` is missing they count from 0 in each sequence.
    """

    offsets: Ints
    columns: dict[str, Array]

    @property
    def lengths(self) -> Ints:
        """int64[n], tokens of each sequence."""
        return np.diff(self.offsets)

    @property
    def places(self) -> Ints:
        """int64[m], the place of each token in its sequence, from 0."""
        return np.arange(self.offsets[-1]) - self.spread(self.offsets[:-1])

    def spread(self, values: Array) -> Array:
        """A number of each sequence, [n], at each of its tokens, [m]."""
        return np.repeat(values, self.lengths)

    def counts(self, flags: NDArray[np.bool_]) -> Ints:
        """How many tokens of each sequence are flagged, int64[n], of bool[m]."""
        return counts(flags, self.offsets)

    def having(self, **columns: Array) -> Lists:
        """The same with these columns beside, or instead of, its own."""
        return replace(self, columns={**self.columns, **columns})


@dataclass(frozen=True)
class Sequences:
    """n sequences of a batch.

    Attributes:
        rows: what they were made of.
        row: int64[n], the row of each, an index into `rows`; of a row of `choice`, several follow one another.
        fine: the tokens the encoder reads: fine tokens, or a flattened tree's.
        coarse: coarse tokens, where the model reads them.
        scalars: by the batch's names, of every sequence [n], or of every question [q].
    """

    rows: Rows
    row: Ints
    fine: Lists
    coarse: Lists | None = None
    scalars: dict[str, Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.row)

    @property
    def weight(self) -> NDArray[np.float32]:
        """float32[n], 0 for what only fills a batch."""
        return self.rows.weight[self.row]


class Step(Protocol):
    """Something done to sequences on their way to a model; it makes new arrays, for the old may lie in a file.

    Attributes:
        columns: of the dataset, that it needs beside those of the model.
    """

    @property
    def columns(self) -> tuple[str, ...]: ...

    def __call__(self, sequences: Sequences) -> Sequences: ...
