"""Splits against what was written: every column of every task, in any order of rows; and damage."""

from __future__ import annotations

import math
import pickle
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from corpora.ragged import counts as counts_of
from corpora.schema import TASKS
from corpora.shards import ShardError
from models.stream.open import join_splits, open_files, open_split
from models.stream.rows import Rows
from models.stream.shards import Split, SplitError
from tests.rows import (
    GROUPS,
    Row,
    make_rows,
    rows_schema,
    to_batch,
    write_folder,
)


def folder_of(
    path: Path, task: str = "classify", counts: tuple[int, ...] = (7, 1, 12), seed: int = 0
) -> tuple[Path, list[Row]]:
    """A dataset of one split, record batches of four rows; and its rows."""
    shards = [make_rows(seed + index, task, GROUPS, count) for index, count in enumerate(counts)]
    write_folder(path, rows_schema(task, GROUPS), {"train": shards}, task=task, max_batch_rows=4)
    return path, [row for rows in shards for row in rows]


def back(rows: Rows) -> list[Row]:
    """Rows as dictionaries, as they were written."""
    made: list[Row] = [{} for _ in range(len(rows))]
    for name, (values, offsets) in rows.lists.items():
        assert offsets.dtype == np.int64 and offsets[0] == 0 and offsets[-1] == len(values)
        for index, row in enumerate(made):
            row[name] = values[offsets[index] : offsets[index + 1]].tolist()
    for name, column in rows.scalars.items():
        for row, value in zip(made, column.tolist(), strict=True):
            missing = math.isnan(value) if isinstance(value, float) else value == -100
            row[name] = None if missing else value
    for name, texts in rows.texts.items():
        for row, text in zip(made, texts.to_pylist(), strict=True):
            row[name] = text
    return made


@pytest.mark.parametrize("task", TASKS)
def test_every_column_of_every_task_comes_back(tmp_path: Path, task: str) -> None:
    folder, written = folder_of(tmp_path / "d", task)
    names = tuple(written[0])
    split = open_split(str(folder), "train", names)
    assert (split.rows, len(split), split.columns) == (len(written), len(written), names)
    rng = random.Random(task)
    orders = [list(range(split.rows)), [rng.randrange(split.rows) for _ in range(50)], [3], [], [5, 5, 4]]
    for start, stop in ((2, 4), (3, 9), (6, 8), (1, 20)):
        orders.append(list(range(start, stop)))
    for order in orders:
        rows = split.take(np.array(order, dtype=np.int64))
        assert back(rows) == [written[index] for index in order]
        assert (
            rows.number.tolist() == order
            and rows.weight.tolist() == [1.0] * len(order)
            and rows.epoch.tolist() == [0] * len(order)
        )


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_any_rows_slices_and_joins(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    counts = tuple(data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=4).filter(any)))
    folder, written = folder_of(tmp_path_factory.mktemp("d"), "span", counts)
    split = open_split(
        str(folder), columns=("input_ids", "token_type_ids", "is_max_context", "answers", "answer_start")
    )
    order = data.draw(st.lists(st.integers(0, split.rows - 1), max_size=30))
    rows = split.take(np.array(order, dtype=np.int64))
    expected = [{name: written[index][name] for name in split.columns} for index in order]
    assert [{name: row[name] for name in split.columns} for row in back(rows)] == expected
    start = data.draw(st.integers(0, len(order)))
    stop = data.draw(st.integers(start, len(order)))
    assert back(rows.slice(start, stop)) == back(rows)[start:stop]
    assert back(Rows.concatenate([rows.slice(0, start), rows.slice(start, len(order))])) == back(rows)
    picked = data.draw(st.lists(st.integers(0, len(order) - 1), max_size=9)) if order else []
    assert back(rows.take(np.array(picked, dtype=np.int64))) == [back(rows)[index] for index in picked]
    assert split.lengths(rows.number).tolist() == [len(written[index]["input_ids"]) for index in order]
    flags = rows.lists["token_type_ids"][0] == 1
    ones = [sum(kind == 1 for kind in written[index]["token_type_ids"]) for index in order]
    assert counts_of(flags, rows.lists["token_type_ids"][1]).tolist() == ones
    size = data.draw(st.integers(1, split.rows + 1))
    handfuls = list(split.chunks(size))
    assert back(Rows.concatenate(handfuls)) == back(split.take(np.arange(split.rows)))
    assert [len(handful) for handful in handfuls[:-1]] == [size] * (len(handfuls) - 1)


def test_columns_of_one_shape_share_their_offsets(tmp_path: Path) -> None:
    folder, _ = folder_of(tmp_path / "d")
    split = open_split(str(folder), "train", ("input_ids", "tree_ids", "token_type_ids", "tree_branch"))
    for order in ([1, 2, 3], [9, 2, 4]):
        rows = split.take(np.array(order))
        for part in (rows, rows.slice(1, 3), rows.take(np.array([2, 0])), Rows.concatenate([rows, rows])):
            assert part.lists["input_ids"][1] is part.lists["token_type_ids"][1]
            assert part.lists["tree_ids"][1] is part.lists["tree_branch"][1]
            assert part.lists["tree_ids"][1] is not part.lists["input_ids"][1]


def test_rows_in_a_row_are_not_copied(tmp_path: Path) -> None:
    folder, _ = folder_of(tmp_path / "d")
    split = open_split(str(folder), "train", ("input_ids",))
    assert not split.take(np.arange(1, 4)).lists["input_ids"][0].flags.owndata
    assert not split.take(np.arange(1, 4)).lists["input_ids"][0].flags.writeable


def test_a_split_goes_to_another_process(tmp_path: Path) -> None:
    folder, written = folder_of(tmp_path / "d")
    split = open_split(str(folder), "train", tuple(written[0]))
    for one in (split, open_files(sorted(str(p) for p in folder.glob("*.arrow")), tuple(written[0]))):
        for other in (one, join_splits([one, one])):
            again: Split = pickle.loads(pickle.dumps(other))
            order = np.arange(other.rows)[::-1]
            assert back(again.take(order)) == back(other.take(order)) == (written * 2)[: other.rows][::-1]


def test_rows_outside_are_refused(tmp_path: Path) -> None:
    folder, _ = folder_of(tmp_path / "d")
    split = open_split(str(folder))
    for wrong in ([20], [-1], [3, 99]):
        with pytest.raises(IndexError, match="numbered 0 to 19"):
            split.take(np.array(wrong))


# --- what can be wrong ------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(where=st.floats(0, 1), value=st.integers(0, 255), length=st.integers(1, 64))
@example(where=0.44047814410587105, value=1, length=2)  # a buffer of a size that is no multiple of its items
def test_no_damage_crashes_the_process(
    tmp_path_factory: pytest.TempPathFactory, where: float, value: int, length: int
) -> None:
    folder, written = folder_of(tmp_path_factory.mktemp("d"), counts=(9,))
    path = next(folder.glob("*.arrow"))
    spoilt = bytearray(path.read_bytes())
    start = int(where * (len(spoilt) - length))
    spoilt[start : start + length] = bytes([value]) * length
    path.write_bytes(bytes(spoilt))
    try:
        split = open_split(str(folder), columns=tuple(written[0]))
        for order in (np.arange(9), np.array([8, 2, 5])):
            back(split.take(order))
    except (SplitError, ShardError, UnicodeDecodeError) as error:
        assert str(error)


def test_offsets_that_leave_their_values_are_damage(tmp_path: Path) -> None:
    folder, _ = folder_of(tmp_path / "d", counts=(9,))
    path = next(folder.glob("*.arrow"))
    clean = path.read_bytes()
    table = pa.ipc.open_file(pa.BufferReader(clean))
    offsets = table.get_batch(0).column("input_ids").buffers()[1].to_pybytes()
    for wrong in (2**31 - 1, -5, int.from_bytes(offsets[4:8], "little") + 10**6):
        changed = offsets[:8] + (wrong % 2**32).to_bytes(4, "little") + offsets[12:20]
        path.write_bytes(clean.replace(offsets[:20], changed, 1))
        split = open_split(str(folder))
        for order in ([1, 2], [2, 1], [0, 1]):
            with pytest.raises(
                ShardError, match="is damaged: column 'input_ids' has offsets outside its values"
            ):
                split.take(np.array(order))


def test_compressed_files_and_nulls_are_refused(tmp_path: Path) -> None:
    schema = rows_schema("classify", ())
    batch = to_batch(make_rows(0, "classify", (), 50), schema)
    path = str(tmp_path / "x.arrow")
    with (
        pa.OSFile(path, "wb") as sink,
        pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as out,
    ):
        out.write_batch(batch)
    with pytest.raises(ShardError, match="is compressed, and cannot be mapped"):
        open_files([path])
    nulls = batch.set_column(
        3, schema.field(3).with_nullable(True), pa.array([None] * 50, schema.field(3).type)
    )
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, nulls.schema) as out:
        out.write_batch(nulls)
    with pytest.raises(
        ShardError, match=f"lists of column {schema.field(3).name!r} may not be or hold nulls"
    ):
        open_files([path], (schema.field(3).name,))


_WITHOUT_PANDAS = """
import importlib.abc, sys

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
from models.stream.loader import Loader
from models.stream.open import open_split
split = open_split(sys.argv[1], "train", sys.argv[2:])
print(sum(int(rows.weight.sum()) for rows in Loader(split, 5)))
"""


def test_reading_needs_no_pandas(tmp_path: Path) -> None:
    """Arrow looks for it where it could do without, and this project does not ask for it."""
    folder, written = folder_of(tmp_path / "d", "span")
    command = [sys.executable, "-c", _WITHOUT_PANDAS, str(folder), *written[0]]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[3], check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(written)
