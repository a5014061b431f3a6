"""Sorted runs: what one block says about the whole corpus, in the order of keys, so that a range of keys is
gathered from all blocks without reading the rest.

A run is a file of rows in the order of keys: the key's columns one after another, then the numbers, all uint64,
little-endian. Ranges are bounds of the first column; a range is one stretch of each run, found by
bisection.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corpora import files

Column = NDArray[np.uint64]

END = 1 << 64
SUFFIX = ".run"


class Run(NamedTuple):
    path: str
    rows: int
    columns: int
    """Of the key."""


class Stretch(NamedTuple):
    """Rows [low, high) of a run."""

    run: Run
    low: int
    high: int

    @property
    def rows(self) -> int:
        return self.high - self.low

    def part(self, start: int, stop: int) -> Stretch:
        """Those of its rows whose first column lies in [start, stop)."""
        if not self.rows:
            return self
        with files.open_read(self.run.path) as file:
            keys = _Keys(file, self.run.rows)
            low = bisect_left(keys, start, self.low, self.high) if start else self.low
            high = self.high if stop >= END else bisect_left(keys, stop, low, self.high)
        return self._replace(low=low, high=high)

    def read(self) -> list[Column]:
        """The key's columns, then the numbers. Raises OSError where the file is shorter than it was."""
        found = []
        with files.open_read(self.run.path) as file:
            for column in range(self.run.columns + 1):
                file.seek(8 * (column * self.run.rows + self.low))
                data = file.read(8 * self.rows)
                if len(data) != 8 * self.rows:
                    raise OSError(f"{self.run.path} was cut short since it was written")
                found.append(np.frombuffer(data, "<u8").astype(np.uint64, copy=False))
        return found

    def sample(self, step: int) -> list[tuple[int, int]]:
        """The first column of every `step`-th row, and how many rows it stands for."""
        with files.open_read(self.run.path) as file:
            keys = _Keys(file, self.run.rows)
            return [(keys[row], min(step, self.high - row)) for row in range(self.low, self.high, step)]


class _Keys:
    """The first column of a run as a sequence that is read where it is looked at."""

    def __init__(self, file: BinaryIO, rows: int) -> None:
        self._file, self._rows = file, rows

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, row: int) -> int:
        self._file.seek(8 * row)
        return int.from_bytes(self._file.read(8), "little")


def write_columns(path: str, columns: Iterable[Column]) -> None:
    """Write a run: the key's columns, then the numbers; rows must be in order."""
    with files.write_atomic(path) as sink:
        for column in columns:
            sink.write(np.ascontiguousarray(column, "<u8").data)


def list_runs(folder: str, columns: int) -> list[Run]:
    """The runs of a folder in the order of their names, which is that of their numbers."""
    names = [name for name in files.list_names(folder) if name.endswith(SUFFIX) and name[0] != "."]
    infos = (info for name in names for info in files.expand(files.join(folder, name)))
    return [Run(info.path, info.size // (8 * (columns + 1)), columns) for info in infos]


def whole(runs: Sequence[Run]) -> list[Stretch]:
    """All rows of each run."""
    return [Stretch(run, 0, run.rows) for run in runs]


def within(parts: Iterable[Stretch], start: int, stop: int) -> list[Stretch]:
    """What the stretches hold of a range; those without rows are left out."""
    return [part for part in (stretch.part(start, stop) for stretch in parts) if part.rows]
