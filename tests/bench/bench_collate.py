"""Rows per CPU second from shards to a model's batch of 64, by view, beside the limit and beside a collator row by row;
and how much of a batch is tokens, alone, in buckets and packed.

The limit: the same columns of memory-mapped Arrow, record batch by record batch, padded by numpy, nothing else: no
positions, no sequence numbers, nothing looked up. The other: rows of the same stream, one by one, tensors padded
by torch. Bar: 60 % of the limit for fine tokens.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from corpora.ragged import bounds
from corpora.schema import row_columns
from corpora.shards import ShardWriter
from models.collate.buckets import Buckets
from models.collate.collator import Collator
from models.collate.pack import Packing
from models.stream.loader import Loader
from models.stream.open import open_files
from models.stream.rows import Rows
from tests.bench.bench_stream import BATCH, padded, rate

pytestmark = pytest.mark.bench

ROWS, SHARDS, VOCAB = 48_000, 8, 21128
SHAPES = {c.name: c.shape for c in row_columns("pretrain", ("syntax", "coarse", "tree"))}


def record_batch(rng: np.random.Generator, lengths: np.ndarray, schema: pa.Schema) -> pa.RecordBatch:
    """Rows whose words are tokens, coarse tokens two of them, with three branches of four tokens."""
    fine = bounds(lengths)
    place = np.arange(fine[-1]) - np.repeat(fine[:-1], lengths)
    tree = bounds(lengths + 12)
    at = np.arange(tree[-1]) - np.repeat(tree[:-1], lengths + 12)
    branch = np.where((at >= 8) & (at < 20), (at - 8) // 4 + 1, 0)
    trunk = np.where(branch > 0, -1, np.where(at < 8, at, at - 12))
    coarse, words, branches = (
        bounds((lengths + 1) // 2),
        bounds(lengths - 2),
        bounds(np.full(len(lengths), 3)),
    )
    word = np.arange(words[-1]) - np.repeat(words[:-1], lengths - 2)
    last = place == np.repeat(lengths, lengths) - 1
    columns = {
        "input_ids": rng.integers(0, VOCAB, fine[-1]),
        "token_type_ids": np.zeros(fine[-1]),
        "word_index": np.where(last, -1, place - 1),
        "word_dfs_in": word,
        "word_dfs_out": word + 1,
        "sentence_index": np.zeros(words[-1]),
        "coarse_ids": rng.integers(0, VOCAB, coarse[-1]),
        "coarse_token_type_ids": np.zeros(coarse[-1]),
        "coarse_index": place // 2,
        "tree_ids": rng.integers(0, VOCAB, tree[-1]),
        "tree_token_type_ids": np.zeros(tree[-1]),
        "tree_soft_positions": np.where(branch > 0, 8 + (at - 8) % 4, trunk),
        "tree_branch": branch,
        "tree_mention": np.where((at >= 6) & (at < 20), 0, -1),
        "tree_trunk_index": trunk,
        "branch_parents": np.zeros(branches[-1]),
    }
    offsets = {"T": fine, "W": words, "C": coarse, "F": tree, "B": branches}
    lists = [
        pa.ListArray.from_arrays(
            pa.array(offsets[SHAPES[field.name]], pa.int32()),
            pa.array(columns[field.name].astype(field.type.value_type.to_pandas_dtype())),
            type=field.type,
        )
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(lists, schema=schema)


def write(folder: Path) -> list[str]:
    rng = np.random.default_rng(0)
    wanted = {name for group in (None, "tree", "syntax", "coarse") for name in Collator(group, "mlm").columns}
    fields = [c.field for c in row_columns("pretrain", ("syntax", "coarse", "tree")) if c.name in wanted]
    meta = b'{"schema_version": 3, "stage": "encode", "task": "pretrain"}'
    schema = pa.schema(fields, metadata={b"treegraft": meta})
    paths = [str(folder / f"train-{shard:05d}-of-{SHARDS:05d}.arrow") for shard in range(SHARDS)]
    for path in paths:
        with ShardWriter(path, schema) as writer:
            writer.write(record_batch(rng, rng.integers(64, 193, ROWS // SHARDS), schema))
    return paths


def limit(paths: list[str], columns: tuple[str, ...]) -> Iterator[Any]:
    """Batches of padded columns; of each shape the places are worked out once."""
    ordered = sorted(columns, key=SHAPES.__getitem__)
    for path in paths:
        reader = pa.ipc.open_file(pa.memory_map(path))
        for index in range(reader.num_record_batches):
            batch = reader.get_batch(index)
            values = {name: batch.column(name).values.to_numpy() for name in ordered}
            ends = {SHAPES[name]: batch.column(name).offsets.to_numpy() for name in ordered}
            for start in range(0, batch.num_rows, BATCH):
                cuts = {shape: end[start : start + BATCH + 1] for shape, end in ends.items()}
                offsets = {shape: cut - cut[0] for shape, cut in cuts.items()}
                yield padded(
                    (
                        name,
                        (values[name][cuts[SHAPES[name]][0] : cuts[SHAPES[name]][-1]], offsets[SHAPES[name]]),
                    )
                    for name in ordered
                )


def ours(paths: list[str], collator: Any, order: Any, columns: tuple[str, ...]) -> Iterator[Any]:
    loader = Loader(open_files(paths, columns), BATCH, order=order, collate=collator)
    while True:
        yield from loader


class RowByRow:
    """The same batch as one would write it at first: tensors of each row, padded by torch."""

    def __init__(self, group: str | None) -> None:
        self.group = group

    def __call__(self, rows: Rows) -> dict[str, torch.Tensor]:
        made: dict[str, list[torch.Tensor]] = {}

        def add(name: str, values: np.ndarray) -> None:
            made.setdefault(name, []).append(torch.as_tensor(values.astype(np.int64)))

        for index in range(len(rows)):
            row = {name: values[o[index] : o[index + 1]] for name, (values, o) in rows.lists.items()}
            if self.group == "tree":
                names = ("ids", "token_type_ids", "soft_positions", "branch", "mention", "trunk_index")
                for name in names:
                    add(name, row[f"tree_{name}"])
                add("parent", np.concatenate([[0], row["branch_parents"]])[row["tree_branch"]])
            else:
                for name in ("input_ids", "token_type_ids"):
                    add(name, row[name])
                add("position_ids", np.arange(len(row["input_ids"])))
            if self.group == "syntax":
                for name in ("word_dfs_in", "word_dfs_out", "sentence_index"):
                    add(name, np.append(row[name], 0)[row["word_index"]])
            if self.group == "coarse":
                for name in ("coarse_index", "coarse_ids", "coarse_token_type_ids"):
                    add(name, row[name])
                add("coarse_position_ids", np.arange(len(row["coarse_ids"])))
            for name in ("tree_ids", "input_ids", "coarse_ids"):
                if name in row:
                    add(f"sequence_of_{name}", np.ones(len(row[name])))
        batch = {name: pad_sequence(parts, batch_first=True) for name, parts in made.items()}
        return batch | {
            "row_weight": torch.from_numpy(rows.weight.copy()),
            "input_ids": next(iter(batch.values())),
        }


def test_rows_per_second(tmp_path: Path) -> None:
    paths = write(tmp_path)
    for group in (None, "tree", "syntax", "coarse"):
        collator = Collator(group, "mlm")
        columns = collator.columns
        name = "input_ids" if "input_ids" in columns else "tree_ids"

        def bare(columns: tuple[str, ...] = columns, name: str = name) -> Iterator[Any]:
            return ({"input_ids": batch[name]} for batch in limit(paths, columns))

        made: dict[str, list[float]] = {}
        for _ in range(3):  # in turn, so that a busy machine is busy for all
            for label, maker in {
                "limit": bare,
                "sequential": lambda: ours(paths, collator, "sequential", columns),  # noqa: B023
                "block": lambda: ours(paths, collator, "block", columns),  # noqa: B023
                "read alone": lambda: ours(paths, _counted, "block", columns),  # noqa: B023
                "row by row": lambda: ours(paths, RowByRow(group), "block", columns),  # noqa: B023
            }.items():
                made.setdefault(label, []).append(rate(maker))
        best = {label: max(found) for label, found in made.items()}
        print(
            f"\n{group or 'fine'}: limit {best['limit']:,.0f} rows per CPU second of {len(columns)} columns"
        )
        for label in ("sequential", "block", "read alone", "row by row"):
            print(f"  {label:12} {best[label]:12,.0f}: {best[label] / best['limit']:.0%} of the limit")
        print(f"  block is {best['block'] / best['row by row']:.1f} times row by row", flush=True)


def _counted(rows: Rows) -> dict[str, Any]:
    """What reading alone takes."""
    return {"input_ids": rows.number}


def test_tokens_in_a_batch(tmp_path: Path) -> None:
    """Short rows, a few long: how much of what a model computes is tokens."""
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(4.2, 0.8, 16_384).astype(int), 6, 512)
    schema = pa.schema(
        [c.field for c in row_columns("pretrain", ()) if c.name in ("input_ids", "token_type_ids")],
        metadata={b"treegraft": b'{"schema_version": 3, "stage": "encode", "task": "pretrain"}'},
    )
    path = str(tmp_path / "train-00000-of-00001.arrow")
    with ShardWriter(path, schema) as writer:
        writer.write(record_batch(rng, lengths, schema))
    plain, packing = Collator(None, "mlm"), Collator(None, "mlm", pack=Packing(512))
    budget = BATCH * 128
    print(f"\nlengths: mean {lengths.mean():.0f}, median {np.median(lengths):.0f}, longest {lengths.max()}")
    for label, collator, grouping, size in (
        (f"{BATCH} rows", plain, None, BATCH),
        (f"{BATCH} rows, packed", packing, None, BATCH),
        (f"{4 * BATCH} rows, packed", packing, None, 4 * BATCH),
        (f"buckets of {budget:,}", plain, Buckets(budget), BATCH),
        (f"buckets of {budget:,}, packed", packing, Buckets(budget, packed=True), BATCH),
        (f"buckets of {4 * budget:,}, packed", packing, Buckets(4 * budget, packed=True), BATCH),
    ):
        loader = Loader(open_files([path], plain.columns), size, collate=collator, grouping=grouping)
        real = cells = 0
        started = time.process_time()
        for batch in loader:
            real += int((batch["sequence_id"] > 0).sum())
            cells += batch["input_ids"].numel()
        spent = time.process_time() - started
        print(f"{label:28} {real / cells:.1%} tokens, {len(lengths) / spent:,.0f} rows per CPU second")
