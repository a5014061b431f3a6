"""Rows of a key and a number, gathered in the order of keys from sorted runs, and ranges that divide them evenly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from pipelines.ngrams.count import merge
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
    rows = _read(parts, columns)
    if len(parts) <= 1:
        return rows
    order = argsort(rows.keys)
    return Rows(take(rows.keys, order), rows.numbers[order])


def _read(parts: Sequence[Stretch], columns: int) -> Rows:
    """The stretches end to end."""
    if not parts:
        return Rows(tuple(np.zeros(0, np.uint64) for _ in range(columns)), np.zeros(0, np.uint64))
    *keys, numbers = map(np.concatenate, zip(*(part.read() for part in parts), strict=True))
    return Rows(tuple(keys), numbers)


def add_up(parts: Sequence[Stretch], columns: int, most: int) -> Rows:
    """Different keys of the stretches in order, and the sums of their numbers.

    Holds `most` rows and, at most, twice those that come out, though many times as many be read: pieces are added up
    by and by, and those already added up only when as many have come together.
    """
    held: list[Rows] = []
    for piece in _pieces(parts, most):
        rows = Rows(*merge(*_read(piece, columns)))
        while held and len(held[-1].numbers) <= len(rows.numbers):
            rows = _both(held.pop(), rows)
        held.append(rows)
    return reduce(_both, reversed(held)) if held else _read([], columns)


def _pieces(parts: Sequence[Stretch], most: int) -> Iterator[list[Stretch]]:
    """The stretches, cut where need be, some at a time: no more than `most` rows."""
    piece: list[Stretch] = []
    room = most
    for part in parts:
        low = part.low
        while low < part.high:
            high = min(low + room, part.high)
            piece.append(part._replace(low=low, high=high))
            low, room = high, room - (high - low)
            if not room:
                yield piece
                piece, room = [], most
    if piece:
        yield piece


def _both(one: Rows, other: Rows) -> Rows:
    keys = tuple(map(np.concatenate, zip(one.keys, other.keys, strict=True)))
    return Rows(*merge(keys, np.concatenate([one.numbers, other.numbers])))


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
