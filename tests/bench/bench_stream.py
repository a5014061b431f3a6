"""Rows per CPU second into padded torch batches of 64, beside the libraries that stream datasets, and beside the limit.

200,000 rows of mean length 128, three columns, the same in every format, on one machine in one run; the CPU time of
workers counts. The limit: record batches of memory-mapped Arrow, flattened and padded by numpy, nothing else, rows as
they lie; beside it rows in random order, which Arrow itself takes from memory.
Bars: 5 times the best of the others without workers, 2 times with two, 60 % of the limit. Then memory: 20 GB in
hard links of one shard, streamed in every order.

The others are not among this project's dependencies: what is not installed is left out, and said.
`pip install datasets mosaicml-streaming litdata webdataset` in an environment of their own, with torch, pydantic and
pytest, and there `python -m pytest -s -m bench tests/bench/bench_stream.py`.
"""

from __future__ import annotations

import importlib.util
import io
import multiprocessing
import os
import resource
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from corpora.ragged import bounds
from corpora.schema import row_columns
from corpora.shards import ShardWriter
from models.stream.loader import Loader
from models.stream.open import open_files
from models.stream.order import KINDS
from models.stream.rows import Rows

pytestmark = pytest.mark.bench

COLUMNS = ("input_ids", "token_type_ids", "word_index")
TYPES = {"input_ids": np.int32, "token_type_ids": np.int8, "word_index": np.int16}
ROWS, SHARDS, BATCH = 200_000, 20, 64
SECONDS = 3.0
"""CPU seconds after which a slow one may stop."""

Item = dict[str, np.ndarray]


def items() -> Iterator[Item]:
    rng = np.random.default_rng(0)
    for length in rng.integers(64, 193, ROWS).tolist():
        yield {
            "input_ids": rng.integers(0, 21128, length, dtype=np.int32),
            "token_type_ids": np.zeros(length, np.int8),
            "word_index": np.arange(length, dtype=np.int16),
        }


def schema() -> pa.Schema:
    fields = [c.field for c in row_columns("pretrain", ["syntax"]) if c.name in COLUMNS]
    meta = b'{"schema_version": 3, "stage": "encode", "task": "pretrain"}'
    return pa.schema(fields, metadata={b"treegraft": meta})


def write_arrow(folder: Path) -> list[str]:
    source, made = items(), schema()
    for shard in range(SHARDS):
        with ShardWriter(str(folder / f"train-{shard:05d}-of-{SHARDS:05d}.arrow"), made) as writer:
            rows = [next(source) for _ in range(ROWS // SHARDS)]
            cut = pa.array(bounds([len(row["input_ids"]) for row in rows]), pa.int32())
            lists = [
                pa.ListArray.from_arrays(
                    cut, np.concatenate([row[name] for row in rows]), type=made.field(name).type
                )
                for name in made.names
            ]
            writer.write(pa.RecordBatch.from_arrays(lists, schema=made))
    return sorted(str(path) for path in folder.glob("*.arrow"))


# --- this project, and the limit --------------------------------------------------------------


def pad(values: np.ndarray, offsets: np.ndarray, filled: np.ndarray) -> torch.Tensor:
    made = np.zeros(filled.shape, np.int64)
    made[filled] = values
    return torch.from_numpy(made)


def padded(lists: Iterable[tuple[str, tuple[np.ndarray, np.ndarray]]]) -> dict[str, torch.Tensor]:
    made, known = {}, None
    for name, (values, offsets) in lists:
        if known is None or known[0] is not offsets:
            lengths = np.diff(offsets)
            known = offsets, np.arange(-(-int(lengths.max()) // 8) * 8) < lengths[:, None]
        made[name] = pad(values, offsets, known[1])
    return made


def collate(rows: Rows) -> dict[str, torch.Tensor]:
    return padded(rows.lists.items())


def limit(paths: list[str]) -> Iterator[Any]:
    for path in paths:
        reader = pa.ipc.open_file(pa.memory_map(path))
        for index in range(reader.num_record_batches):
            batch = reader.get_batch(index)
            columns = [
                (name, batch.column(name).offsets.to_numpy(), batch.column(name).values.to_numpy())
                for name in COLUMNS
            ]
            for start in range(0, batch.num_rows, BATCH):
                cut = columns[0][1][start : start + BATCH + 1]
                offsets = cut - cut[0]
                yield padded((name, (values[cut[0] : cut[-1]], offsets)) for name, _, values in columns)


def arrow_shuffled(paths: list[str]) -> Iterator[Any]:
    """Rows in random order: all columns in memory, Arrow's own `take` of them, and the same padding."""
    table = pa.concat_tables([pa.ipc.open_file(pa.memory_map(path)).read_all() for path in paths])
    whole = {name: table.column(name).combine_chunks() for name in COLUMNS}
    order = np.random.default_rng(0).permutation(ROWS)
    for start in range(0, ROWS, BATCH):
        rows = pa.array(order[start : start + BATCH])
        taken = ((name, column.take(rows)) for name, column in whole.items())
        lists = [(name, (part.values.to_numpy(), part.offsets.to_numpy())) for name, part in taken]
        yield padded((name, (values, lists[0][1][1])) for name, (values, _) in lists)


def ours(paths: list[str], order: Any, workers: int) -> Iterator[Any]:
    loader = Loader(open_files(paths, COLUMNS), BATCH, order=order, workers=workers, collate=collate)
    for _ in range(6 if workers else 3):  # worker processes start once
        yield from loader


# --- the others: rows as arrays, padded by torch ----------------------------------------------


def pad_items(rows: list[Any]) -> dict[str, torch.Tensor]:
    return {
        name: torch.nn.utils.rnn.pad_sequence(
            [torch.as_tensor(row[name]) for row in rows], batch_first=True
        ).long()
        for name in COLUMNS
    }


def with_datasets(folder: Path, workers: int) -> Iterator[Any]:
    import datasets

    datasets.disable_progress_bars()
    rows = datasets.load_dataset(
        "arrow", data_files=str(folder / "arrow" / "*.arrow"), split="train", cache_dir=str(folder / "hf")
    ).with_format("torch")
    return iter(torch.utils.data.DataLoader(rows, BATCH, num_workers=workers, collate_fn=pad_items))


def with_streaming(folder: Path, workers: int) -> Iterator[Any]:
    from streaming import MDSWriter, StreamingDataset

    out = folder / "mds"
    if not out.exists():
        kinds = {name: f"ndarray:{np.dtype(kind).name}" for name, kind in TYPES.items()}
        with MDSWriter(out=str(out), columns=kinds) as writer:
            for item in items():
                writer.write(item)
    rows = StreamingDataset(local=str(out), batch_size=BATCH, shuffle=False)
    return iter(torch.utils.data.DataLoader(rows, BATCH, num_workers=workers, collate_fn=pad_items))


def _litdata_rows(part: list[int]) -> Iterator[Item]:
    yield from items()


def with_litdata(folder: Path, workers: int) -> Iterator[Any]:
    import litdata

    out = folder / "litdata"
    if not out.exists():
        litdata.optimize(
            fn=_litdata_rows, inputs=[[0]], output_dir=str(out), chunk_bytes="64MB", num_workers=1
        )
        # It leaves another way to start processes behind, which the others' workers cannot take.
        multiprocessing.set_start_method("fork", force=True)
    rows = litdata.StreamingDataset(str(out), shuffle=False)
    return iter(
        litdata.StreamingDataLoader(rows, batch_size=BATCH, num_workers=workers, collate_fn=pad_items)
    )


def with_webdataset(folder: Path, workers: int) -> Iterator[Any]:
    import webdataset

    out = folder / "wds"
    if not out.exists():
        out.mkdir()
        source = items()
        for shard in range(SHARDS):
            with tarfile.open(out / f"{shard:04d}.tar", "w") as tar:
                for number in range(ROWS // SHARDS):
                    for name, values in next(source).items():
                        info = tarfile.TarInfo(f"{number:08d}.{name}.npy")
                        body = io.BytesIO()
                        np.save(body, values)
                        info.size = body.tell()
                        body.seek(0)
                        tar.addfile(info, body)
    urls = [str(path) for path in sorted(out.glob("*.tar"))]
    rows = webdataset.WebDataset(urls, shardshuffle=False).decode()
    named = rows.map(lambda row: {name: row[f"{name}.npy"] for name in COLUMNS})
    return iter(torch.utils.data.DataLoader(named, BATCH, num_workers=workers, collate_fn=pad_items))


OTHERS: dict[str, tuple[str, Callable[[Path, int], Iterator[Any]]]] = {
    "datasets": ("datasets", with_datasets),
    "mosaicml-streaming": ("streaming", with_streaming),
    "litdata": ("litdata", with_litdata),
    "webdataset": ("webdataset", with_webdataset),
}


# --- measuring --------------------------------------------------------------------------------


def cpu() -> float:
    """CPU seconds of this process and of all those that it started and that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def rate(make: Callable[[], Iterator[Any]]) -> float:
    """Rows per CPU second; what comes before the first batch is left out only where no worker does it."""
    next(make())  # formats are written, files are in the page cache
    before, rows = cpu(), 0
    batches = make()
    for batch in batches:
        rows += len(batch["input_ids"])
        if cpu() - before > SECONDS:
            break
    del batches  # workers end, and count
    return rows / (cpu() - before)


def test_throughput(tmp_path: Path) -> None:
    (tmp_path / "arrow").mkdir()
    paths = write_arrow(tmp_path / "arrow")
    bare = max(rate(lambda: limit(paths)) for _ in range(3))
    mixed = max(rate(lambda: arrow_shuffled(paths)) for _ in range(3))
    print(f"\nlimit {bare:12,.0f} rows per CPU second; in random order, taken by Arrow, {mixed:,.0f}")
    best: dict[int, float] = {}
    for workers in (0, 2):
        for name, (module, make) in OTHERS.items():
            if importlib.util.find_spec(module) is None:
                print(f"{name} is not installed: left out")
                continue
            found = rate(lambda make=make, workers=workers: make(tmp_path, workers))  # type: ignore[misc]
            best[workers] = max(best.get(workers, 0), found)
            print(f"{name:20} {workers} workers {found:12,.0f}")
    for workers in (0, 2):
        for order in KINDS:
            bare = max(rate(lambda: limit(paths)) for _ in range(2))
            mixed = max(rate(lambda: arrow_shuffled(paths)) for _ in range(2))
            found = max(
                rate(lambda order=order, workers=workers: ours(paths, order, workers))  # type: ignore[misc]
                for _ in range(2)
            )
            beside = f", {found / best[workers]:.1f} times the best of the others" if workers in best else ""
            print(
                f"{order:20} {workers} workers {found:12,.0f}: {found / bare:.0%} of the limit, "
                f"{found / mixed:.1f} times Arrow in random order{beside}",
                flush=True,
            )


def private(pid: int | str = "self") -> tuple[float, float]:
    """Private memory in MB: anonymous (a process's own), and pages of mapped files that only it uses."""
    numbers = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, _, value = line.partition(":")
        numbers[name] = int(value.split()[0]) / 1024
    return numbers["Anonymous"], numbers["Private_Clean"]


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="Linux tells memory there")
def test_memory_of_twenty_gigabytes(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    paths = write_arrow(tmp_path / "one")
    size = sum(Path(path).stat().st_size for path in paths)
    many = []
    for copy in range(-(-20 * 10**9 // size)):
        for index, path in enumerate(paths):
            many.append(str(tmp_path / f"train-{copy}-{index}.arrow"))
            os.link(path, many[-1])
    before = private()[0]
    started = time.perf_counter()
    split = open_files(many, COLUMNS)
    print(
        f"\n{split.rows:,} rows in {len(many):,} shards, {size * len(many) / len(paths) / 1e9:.1f} GB, opened in "
        f"{time.perf_counter() - started:.1f} s: {private()[0] - before:,.0f} MB"
    )
    for order in KINDS:
        most = 0.0
        for number, _ in enumerate(Loader(split, BATCH, order=order, collate=collate)):
            if number % 500 == 0:
                most = max(most, private()[0])
            if number == 20_000:
                break
        print(
            f"{order:12} {most:,.0f} MB of its own at most, {most - before:,.0f} MB more than before opening"
        )
    loader = Loader(split, BATCH, workers=2, collate=collate)
    for number, _ in enumerate(loader):
        if number == 5000:
            break
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    print(
        f"workers: {', '.join(f'{private(child)[0]:,.0f} MB' for child in children)}, each with what was there before"
    )
