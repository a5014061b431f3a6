"""Rows of a key and a number, gathered in the order of keys from sorted runs, and ranges that divide them evenly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pipelines.ngrams.keys import Column, Keys, argsort, take
from pipelines.sorted_runs import END, Stretch, write_columns

_SAMPLES = 64
"""Keys looked at, of as many rows as a range shall have."""


class Rows(NamedTuple):
    """Keys and numbers uint64[n]."""

    keys: Keys
    numbers: Column


def write_run(path: str, rows: Rows) -> None:
    """Write rows, which must be in order."""
    write_columns(path, (*rows.keys, rows.numbers))


def gather(parts: Sequence[Stretch], columns: int) -> Rows:
    """All rows of the stretches in the order of their keys; equal keys in any order."""
    if not parts:
        return Rows(tuple(np.zeros(0, np.uint64) for _ in range(columns)), np.zeros(0, np.uint64))
    *keys, numbers = map(np.concatenate, zip(*(part.read() for part in parts), strict=True))
    if len(parts) == 1:
        return Rows(tuple(keys), numbers)
    order = argsort(tuple(keys))
    return Rows(take(tuple(keys), order), numbers[order])


def cut(parts: Sequence[Stretch], most: int, mask: int = END - 1) -> list[int]:
    """Inner bounds of ranges of about `most` rows each, rising; of every bound only the bits in `mask` are set.

    What stands under one masked value is never cut, however much it is.
    """
    step = max(1, most // _SAMPLES)
    samples = sorted(sample for part in parts for sample in part.sample(step))
    bounds: list[int] = []
    held = 0
    for key, rows in samples:
        bound = key & mask
        if held + rows > most and bound > (bounds[-1] if bounds else samples[0][0] & mask):
            bounds.append(bound)
            held = 0
        held += rows
    return bounds
