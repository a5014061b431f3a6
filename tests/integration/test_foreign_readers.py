"""Shards are read without this project: Arrow, Hugging Face datasets, DuckDB and Polars agree.

Every task with every set of column groups, from folders that also hold a shard without rows.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pytest

from tests.rows import GROUPS, documents_schema, make_documents, make_rows, rows_schema, write_folder

COMBINATIONS = [
    (task, groups)
    for task in ("pretrain", "classify", "tag")
    for count in range(4)
    for groups in itertools.combinations(GROUPS[1:], count)
]


def made(tmp_path: Path, task: str, groups: tuple[str, ...]) -> tuple[list[str], list[dict]]:
    rows = make_rows(7, task, groups, 25)
    shards = [rows[:10], [], rows[10:]]
    folder = write_folder(
        tmp_path / "data", rows_schema(task, groups), {"train": shards}, task=task, max_batch_rows=4
    )
    return sorted(str(path) for path in folder.glob("*.arrow")), rows


@pytest.fixture
def offline(tmp_path, monkeypatch):
    """Hugging Face libraries keep off the network and out of the user's cache."""
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    monkeypatch.setattr(datasets.config, "HF_DATASETS_OFFLINE", True)
    return datasets


@pytest.mark.parametrize(("task", "groups"), COMBINATIONS)
def test_arrow_reads_them(task, groups, tmp_path):
    paths, rows = made(tmp_path, task, groups)
    tables = [pa.ipc.open_file(path).read_all() for path in paths]
    assert [table.num_rows for table in tables] == [10, 0, 15]
    assert pa.concat_tables(tables).to_pylist() == rows


@pytest.mark.parametrize(("task", "groups"), COMBINATIONS)
def test_hugging_face_datasets_read_them(task, groups, tmp_path, offline):
    paths, rows = made(tmp_path, task, groups)
    loaded = offline.load_dataset("arrow", data_files=paths, split="train", cache_dir=str(tmp_path / "cache"))
    assert loaded.to_list() == rows
    assert loaded.features["input_ids"].feature.dtype == "int32"


@pytest.mark.parametrize(("task", "groups"), COMBINATIONS)
def test_hugging_face_datasets_stream_them(task, groups, tmp_path, offline):
    paths, rows = made(tmp_path, task, groups)
    stream = offline.load_dataset(
        "arrow", data_files={"train": paths}, split="train", streaming=True, cache_dir=str(tmp_path / "cache")
    )
    assert list(stream) == rows


@pytest.mark.parametrize(("task", "groups"), COMBINATIONS)
def test_duckdb_reads_them(task, groups, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    paths, rows = made(tmp_path, task, groups)
    shards = pyarrow.dataset.dataset(paths, format="arrow")
    with duckdb.connect() as connection:
        connection.register("shards", shards)
        result = connection.execute("select * from shards")
        names = [column[0] for column in result.description]
        found = [dict(zip(names, values, strict=True)) for values in result.fetchall()]
        tokens = connection.execute("select sum(len(input_ids)) from shards").fetchone()
    by_id = {row["id"]: row for row in found}
    assert len(found) == len(rows) and [by_id[row["id"]] for row in rows] == rows
    assert tokens == (sum(len(row["input_ids"]) for row in rows),)


@pytest.mark.parametrize(("task", "groups"), COMBINATIONS)
def test_polars_reads_them(task, groups, tmp_path):
    polars = pytest.importorskip("polars")
    paths, rows = made(tmp_path, task, groups)
    frames = [polars.read_ipc(path) for path in paths]
    assert [frame.height for frame in frames] == [10, 0, 15]
    assert polars.concat(frames).to_dicts() == rows
    assert polars.scan_ipc(paths).collect().to_dicts() == rows


def test_annotated_documents_are_read_with_growing_dictionaries(tmp_path):
    """Arrow and DuckDB read dictionary deltas themselves; Polars does through Arrow."""
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    rows = make_documents(8, 30)
    schema = documents_schema()
    folder = write_folder(
        tmp_path / "d", schema, {"train": [rows, []]}, stage="annotate", task="classify", max_batch_rows=2
    )
    paths = sorted(str(path) for path in folder.glob("*.arrow"))
    assert pa.ipc.open_file(paths[0]).read_all().to_pylist() == rows
    with duckdb.connect() as connection:
        connection.register("shards", pyarrow.dataset.dataset(paths, format="arrow"))
        found = connection.execute("select doc_id, word_deprels from shards").fetchall()
    assert dict(found) == {row["doc_id"]: row["word_deprels"] for row in rows}
    frame = polars.read_ipc(paths[0], use_pyarrow=True)
    assert frame["word_deprels"].to_list() == [row["word_deprels"] for row in rows]


def test_arrow_alone_is_enough(tmp_path):
    """A process in which nothing of this project can be imported reads a shard."""
    paths, rows = made(tmp_path, "pretrain", GROUPS[1:])
    code = (
        "import sys, importlib.util, pyarrow as pa; "
        "assert importlib.util.find_spec('corpora') is None; "
        "print(pa.ipc.open_file(sys.argv[1]).read_all()['id'].to_pylist())"
    )
    site = str(Path(pa.__file__).parents[1])
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({site!r}); {code}", paths[0]],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
    )
    assert result.stdout.strip() == str([row["id"] for row in rows[:10]]), result.stderr
