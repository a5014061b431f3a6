"""Sorted runs: what one block says about the whole corpus, and how a range of keys is gathered from all of them.

A run is a file of rows (key, number) in the order of keys, then of numbers: all keys uint64, little-endian,
then all numbers. A range of keys is one stretch of each run, found by bisection without reading the rest.
Keys are hashes, so ranges of equal width hold about equally many rows, but for keys that very many
documents share.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corpora import files
from pipelines.dedup.hashing import Hashes
from pipelines.dedup.numbering import Numbers

ROW_BYTES = 16
END = 1 << 64
MAX_ROWS = 4 << 20
"""Rows (64 MiB) that a worker holds at once; sorting and comparing take a few times that."""


class Run(NamedTuple):
    path: str
    rows: int


class Rows(NamedTuple):
    """Rows in the order of keys, then of numbers."""

    keys: Hashes
    numbers: Numbers


def write_run(path: str, keys: NDArray[np.uint64], numbers: NDArray[np.uint64]) -> None:
    """Sort rows and write them; numbers of a key must come in order already."""
    order = np.argsort(keys, kind="stable")
    with files.write_atomic(path) as sink:
        for column in (keys, numbers):
            sink.write(column[order].astype("<u8", copy=False).tobytes())


def list_runs(folder: str) -> list[Run]:
    """The runs of a folder in the order of their names, which is that of their numbers."""
    names = [name for name in files.list_names(folder) if name.endswith(".run") and name[0] != "."]
    infos = (info for name in names for info in files.expand(files.join(folder, name)))
    return [Run(info.path, info.size // ROW_BYTES) for info in infos]


def gather(runs: list[Run], start: int, stop: int, most: int = MAX_ROWS) -> Iterator[tuple[Rows, bool]]:
    """The rows whose keys lie in [start, stop), at most `most` at a time.

    Yields rows, and whether they go on with the key that the rows before ended with: keys are never
    torn apart, but for a single one that has more rows than that.
    """
    whole = [Stretch(run, 0, run.rows) for run in runs]
    yield from _gather([s.part(start, stop) for s in whole], start, stop, most)


def _gather(stretches: list[Stretch], start: int, stop: int, most: int) -> Iterator[tuple[Rows, bool]]:
    stretches = [s for s in stretches if s.rows]
    if sum(s.rows for s in stretches) <= most:
        if stretches:
            yield _read_all(stretches), False
    elif stop - start > 1:
        middle = (start + stop) // 2
        for low, high in ((start, middle), (middle, stop)):
            yield from _gather([s.part(low, high) for s in stretches], low, high, most)
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


class Stretch(NamedTuple):
    """Rows [low, high) of a run."""

    run: Run
    low: int
    high: int

    @property
    def rows(self) -> int:
        return self.high - self.low

    def part(self, start: int, stop: int) -> Stretch:
        """Those of its rows whose keys lie in [start, stop)."""
        if not self.rows:
            return self
        with files.open_read(self.run.path) as file:
            keys = _Keys(file, self.run.rows)
            low = bisect_left(keys, start, self.low, self.high) if start else self.low
            high = self.high if stop == END else bisect_left(keys, stop, low, self.high)
        return Stretch(self.run, low, high)

    def read(self) -> Rows:
        columns = []
        with files.open_read(self.run.path) as file:
            for before in (0, self.run.rows):
                file.seek(8 * (before + self.low))
                data = file.read(8 * self.rows)
                if len(data) != 8 * self.rows:
                    raise OSError(f"{self.run.path} was cut short since it was written")
                columns.append(np.frombuffer(data, "<u8").astype(np.uint64, copy=False))
        return Rows(*columns)


class _Keys:
    """The keys of a run as a sequence that is read where it is looked at."""

    def __init__(self, file: BinaryIO, rows: int) -> None:
        self._file, self._rows = file, rows

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, row: int) -> int:
        self._file.seek(8 * row)
        return int.from_bytes(self._file.read(8), "little")


def _read_all(stretches: list[Stretch]) -> Rows:
    parts = [stretch.read() for stretch in stretches]
    keys = np.concatenate([rows.keys for rows in parts])
    numbers = np.concatenate([rows.numbers for rows in parts])
    # Stable: runs come in the order of their numbers. And fast, since it finds the sorted stretches.
    order = np.argsort(keys, kind="stable")
    return Rows(keys[order], numbers[order])
