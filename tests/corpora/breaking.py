"""Break one thing in one valid row, and see what `verify` says."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from corpora.manifest import Manifest, ShardRecord, SplitRecord, write_manifest
from corpora.shards import ShardInfo, size_and_hash
from corpora.verify import BranchTokens, Report, verify
from tests.rows import Row, to_batch


@dataclass(frozen=True)
class Break:
    """`change` breaks `rule` in a row, and the rules in `also` with it, for they say the same twice."""

    rule: str
    name: str
    change: Callable[[Row], Any]
    also: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.rule}-{self.name}"


def breaks(rule: str, name: str, change: Callable[[Row], Any], *also: str) -> Break:
    return Break(rule, name, change, frozenset(also))


def put(**values: Any) -> Callable[[Row], Any]:
    """Set columns of the row."""
    return lambda row: row.update(values)


def at(column: str, index: int, value: Any) -> Callable[[Row], Any]:
    """Set one entry of a list column."""

    def change(row: Row) -> None:
        row[column][index] = value

    return change


def raw_folder(
    folder: Path, schema: pa.Schema, shards: Sequence[Sequence[pa.RecordBatch]], stage: str, task: str
) -> str:
    """A folder whose shards Arrow wrote as they are, with a manifest that agrees with them."""
    folder.mkdir(parents=True, exist_ok=True)
    records = []
    for index, batches in enumerate(shards):
        path = folder / f"train-{index:05d}-of-{len(shards):05d}.arrow"
        with pa.ipc.new_file(path, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        size, digest = size_and_hash(str(path))
        records.append(ShardRecord.of(ShardInfo(path.name, sum(b.num_rows for b in batches), size, digest)))
    splits = {"train": SplitRecord.of(records)}
    write_manifest(str(folder), Manifest(stage=stage, task=task, config_fingerprint="f" * 16, splits=splits))
    return str(folder)


def expect(
    folder: Path,
    case: Break,
    row: Row,
    others: Sequence[Row],
    schema: pa.Schema,
    stage: str,
    task: str,
    branch_tokens: BranchTokens | None = None,
) -> Report:
    """`row`, changed by `case`, among valid rows: that row alone is found, for that reason alone."""
    key = "id" if stage == "encode" else "doc_id"
    sound = raw_folder(folder / "sound", schema, [[to_batch([*others, row], schema)]], stage, task)
    assert verify(sound, branch_tokens=branch_tokens).ok
    broken = copy.deepcopy(row)
    case.change(broken)
    middle = len(others) // 2
    rows = [*others[:middle], broken, *others[middle:]]
    whole = to_batch(rows, schema)  # slices share their dictionaries, as batches of a file must
    half = [whole.slice(0, 3), whole.slice(3)]
    path = raw_folder(folder / "broken", schema, [[], half], stage, task)
    report = verify(path, branch_tokens=branch_tokens)
    assert set(report.rule_counts) == {case.rule} | case.also, "\n".join(report.render())
    for problem in report.problems:
        assert (problem.shard, problem.row, problem.id) == ("train-00001-of-00002.arrow", middle, broken[key])
        assert problem.detail
    assert not report.ok and all(count >= 1 for count in report.rule_counts.values())
    return report
