"""Sorted runs: rows of a key and a number in files, and how a range of keys is gathered from all of them.

A run is the key's columns one after another, then the numbers, all uint64, little-endian. Ranges are bounds of the
first column; a range is one stretch of each run, found by bisection without reading the rest.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import BinaryIO, NamedTuple

import numpy as np

from corpora import files
from pipelines.ngrams.keys import Column, Keys, argsort, take

END = 1 << 64
SUFFIX = ".run"
_SAMPLES = 64
"""Keys looked at, of as many rows as a range shall have."""


class Rows(NamedTuple):
    """Keys and numbers uint64[n]."""

    keys: Keys
    numbers: Column


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

    def read(self) -> Rows:
        """Raises OSError where the file is shorter than it was."""
        columns = []
        with files.open_read(self.run.path) as file:
            for column in range(self.run.columns + 1):
                file.seek(8 * (column * self.run.rows + self.low))
                data = file.read(8 * self.rows)
                if len(data) != 8 * self.rows:
                    raise OSError(f"{self.run.path} was cut short since it was written")
                columns.append(np.frombuffer(data, "<u8").astype(np.uint64, copy=False))
        return Rows(tuple(columns[:-1]), columns[-1])

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


def write_run(path: str, rows: Rows) -> None:
    """Write rows, which must be in order."""
    with files.write_atomic(path) as sink:
        for column in (*rows.keys, rows.numbers):
            sink.write(np.ascontiguousarray(column, "<u8").data)


def list_runs(folder: str, columns: int) -> list[Run]:
    """The runs of a folder in the order of their names."""
    names = [name for name in files.list_names(folder) if name.endswith(SUFFIX) and name[0] != "."]
    infos = (info for name in names for info in files.expand(files.join(folder, name)))
    return [Run(info.path, info.size // (8 * (columns + 1)), columns) for info in infos]


def stretches(runs: Sequence[Run], start: int = 0, stop: int = END) -> list[Stretch]:
    """What the runs hold of a range; stretches without rows are left out."""
    found = (Stretch(run, 0, run.rows).part(start, stop) for run in runs)
    return [stretch for stretch in found if stretch.rows]


def gather(parts: Sequence[Stretch], columns: int) -> Rows:
    """All rows of the stretches in the order of their keys; equal keys in any order."""
    if not parts:
        return Rows(tuple(np.zeros(0, np.uint64) for _ in range(columns)), np.zeros(0, np.uint64))
    read = [part.read() for part in parts]
    keys = tuple(np.concatenate(same) for same in zip(*(rows.keys for rows in read), strict=True))
    numbers = np.concatenate([rows.numbers for rows in read])
    if len(read) == 1:
        return Rows(keys, numbers)
    order = argsort(keys)
    return Rows(take(keys, order), numbers[order])


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
