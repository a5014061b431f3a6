"""Sequences: rows as one model reads them, still flat arrays. What lies between a row and a padded tensor.

A row is one sequence; a row of `choice` is one for each choice. Steps (masking, kinds of language model) work on
this form, where a batch is a handful of arrays and no token is padding.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from corpora.ragged import Ints
from models.stream.rows import Array, Rows


@dataclass
class Lists:
    """Per-token columns of one granularity, end to end.

    Attributes:
        offsets: int64[n+1]; sequence i's tokens are offsets[i] to offsets[i+1]-1.
        columns: by the batch's names, each [offsets[n]].
    """

    offsets: Ints
    columns: dict[str, Array]


@dataclass
class Sequences:
    """n sequences of a batch.

    Attributes:
        rows: what they were made of.
        row: int64[n], the row of each, an index into `rows`.
        fine: the tokens the encoder reads: fine tokens, or a flattened tree's.
        coarse: coarse tokens, where the model reads them.
        scalars: by the batch's names, of every sequence [n], or of every question [q].
    """

    rows: Rows
    row: Ints
    fine: Lists
    coarse: Lists | None = None
    scalars: dict[str, Array] = field(default_factory=dict)


class Step(Protocol):
    """Something done to sequences on their way to a model; it makes new arrays, for the old may lie in a file.

    Attributes:
        columns: of the dataset, that it needs beside those of the model.
    """

    @property
    def columns(self) -> tuple[str, ...]: ...

    def __call__(self, sequences: Sequences) -> Sequences: ...
