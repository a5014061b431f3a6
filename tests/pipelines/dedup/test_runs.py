from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora import files
from pipelines import sorted_runs
from pipelines.dedup.runs import END, gather, list_runs, write_run

KEYS = st.sampled_from([0, 1, 2, 5, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)


def write(folder: Path, lists: list[list[int]]) -> list[tuple[int, int]]:
    """A run for each list of keys; numbers count up through all of them."""
    rows, number = [], 0
    for index, keys in enumerate(lists):
        numbers = np.arange(number, number + len(keys), dtype=np.uint64)
        write_run(str(folder / f"{index:03d}.run"), np.array(keys, np.uint64), numbers)
        rows += list(zip(keys, numbers.tolist(), strict=True))
        number += len(keys)
    return rows


@settings(deadline=None)
@given(
    lists=st.lists(st.lists(KEYS, max_size=20), max_size=5),
    edges=st.lists(KEYS, max_size=3),
    most=st.integers(1, 30),
)
def test_ranges_give_every_row_once_in_order(
    tmp_path_factory: pytest.TempPathFactory, lists: list[list[int]], edges: list[int], most: int
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    rows = write(folder, lists)
    bounds = [0, *sorted(edges), END]
    found: list[tuple[int, int]] = []
    for start, stop in itertools.pairwise(bounds):
        last = None
        for part, goes_on in gather(list_runs(str(folder)), start, stop, most):
            keys, numbers = part.keys.tolist(), part.numbers.tolist()
            assert 0 < len(keys) <= most
            assert all(start <= k < stop for k in keys)
            assert goes_on == (keys[0] == last), "a key was torn apart unsaid"
            assert not goes_on or len(set(keys)) == 1
            last = keys[-1]
            found += zip(keys, numbers, strict=True)
    assert found == sorted(rows)


def test_only_what_is_asked_for_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = np.arange(100_000, dtype=np.uint64) * np.uint64(2**40)
    write_run(str(tmp_path / "a.run"), keys, keys)
    taken = 0
    plain = files.open_read

    class Counting:
        def __init__(self, path: str) -> None:
            self.file = plain(path)

        def __enter__(self) -> Counting:
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def seek(self, at: int) -> None:
            self.file.seek(at)

        def read(self, size: int) -> bytes:
            nonlocal taken
            taken += size
            return self.file.read(size)

    monkeypatch.setattr(sorted_runs.files, "open_read", Counting)
    ((rows, _),) = gather(list_runs(str(tmp_path)), 500 * 2**40, 510 * 2**40)
    assert rows.keys.tolist() == [k * 2**40 for k in range(500, 510)]
    assert taken < 1000


def test_a_run_that_was_cut_short_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, [[1, 2, 3]])
    found = list_runs(str(tmp_path))
    (tmp_path / "000.run").write_bytes(b"12345678")
    with pytest.raises(OSError, match=r"000\.run was cut short"):
        list(gather(found, 0, END))


def test_a_run_that_is_being_written_is_none(tmp_path: Path) -> None:
    write(tmp_path, [[1, 2, 3]])
    (tmp_path / ".tmp-host-1-2-001.run").write_bytes(bytes(32))
    assert [(run.path, run.rows) for run in list_runs(str(tmp_path))] == [(str(tmp_path / "000.run"), 3)]


def test_no_runs(tmp_path: Path) -> None:
    assert list_runs(str(tmp_path)) == []
    assert list(gather([], 0, END)) == []
