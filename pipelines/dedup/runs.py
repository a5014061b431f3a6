"""Rows of a hash and a number in sorted runs, and how a range of hashes is gathered from all of them.

Rows stand in the order of keys, then of numbers. Keys are hashes, so ranges of equal width hold about equally many
rows, but for keys that very many documents share.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines import sorted_runs
from pipelines.dedup.hashing import Hashes
from pipelines.dedup.numbering import Numbers
from pipelines.sorted_runs import END, Run, Stretch, whole, within, write_columns

__all__ = ["END", "MAX_ROWS", "ROW_BYTES", "Rows", "Run", "gather", "list_runs", "write_run"]

ROW_BYTES = 16
MAX_ROWS = 4 << 20
"""Rows (64 MiB) that a worker holds at once; sorting and comparing take a few times that."""


class Rows(NamedTuple):
    """Rows in the order of keys, then of numbers."""

    keys: Hashes
    numbers: Numbers


def write_run(path: str, keys: NDArray[np.uint64], numbers: NDArray[np.uint64]) -> None:
    """Sort rows and write them; numbers of a key must come in order already."""
    order = np.argsort(keys, kind="stable")
    write_columns(path, (keys[order], numbers[order]))


def list_runs(folder: str) -> list[Run]:
    """The runs of a folder in the order of their names, which is that of their numbers."""
    return sorted_runs.list_runs(folder, columns=1)


def gather(runs: list[Run], start: int, stop: int, most: int = MAX_ROWS) -> Iterator[tuple[Rows, bool]]:
    """The rows whose keys lie in [start, stop), at most `most` at a time.

    Yields rows, and whether they go on with the key that the rows before ended with: keys are never
    torn apart, but for a single one that has more rows than that.
    """
    yield from _gather(within(whole(runs), start, stop), start, stop, most)


def _gather(stretches: list[Stretch], start: int, stop: int, most: int) -> Iterator[tuple[Rows, bool]]:
    if sum(s.rows for s in stretches) <= most:
        if stretches:
            yield _read_all(stretches), False
    elif stop - start > 1:
        middle = (start + stop) // 2
        for low, high in ((start, middle), (middle, stop)):
            yield from _gather(within(stretches, low, high), low, high, most)
    else:
        held: list[Stretch] = []
        goes_on = False
        for stretch in stretches:
            for low in range(stretch.low, stretch.high, most):
                part = stretch._replace(low=low, high=min(low + most, stretch.high))
                if held and sum(s.rows for s in held) + part.rows > most:
                    yield _read_all(held), goes_on
                    held, goes_on = [], True
                held.append(part)
        yield _read_all(held), goes_on


def _read_all(stretches: list[Stretch]) -> Rows:
    keys, numbers = map(np.concatenate, zip(*(stretch.read() for stretch in stretches), strict=True))
    # Stable: runs come in the order of their numbers. And fast, since it finds the sorted stretches.
    order = np.argsort(keys, kind="stable")
    return Rows(keys[order], numbers[order])
