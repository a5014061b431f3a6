"""Datasets again with less in them, or other things."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from corpora.manifest import Manifest, ShardRecord, SplitRecord, read_manifest, write_manifest
from corpora.schema import METADATA_KEY, row_columns
from corpora.shards import ShardWriter


def rewritten(
    folder: Path, new: Path, change: Callable[[str, pa.Table, dict[str, Any]], pa.Table] | None = None
) -> Path:
    """With each shard's table as `change` makes it of the split's name, the table and its metadata, which it may
    change in place; other files as they are."""
    new.mkdir()
    manifest = read_manifest(str(folder))
    for path in folder.iterdir():
        if path.is_file() and path.suffix in (".json", ".txt") and path.name != "manifest.json":
            (new / path.name).write_bytes(path.read_bytes())
    splits = {}
    for name, split in manifest.splits.items():
        records = []
        for record in split.shards:
            table = pa.ipc.open_file(str(folder / record.name)).read_all()
            body = json.loads(table.schema.metadata[METADATA_KEY])
            table = change(name, table, body) if change else table
            schema = table.schema.with_metadata({METADATA_KEY: json.dumps(body)})
            with ShardWriter(str(new / record.name), schema) as shard:
                for batch in table.combine_chunks().to_batches():
                    shard.write(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
            records.append(ShardRecord.of(shard.result, {}, {}))
        splits[name] = SplitRecord.of(records)
    fingerprint = manifest.config_fingerprint
    write_manifest(
        str(new), Manifest(stage="encode", task=manifest.task, config_fingerprint=fingerprint, splits=splits)
    )
    return new


def without(folder: Path, group: str, new: Path) -> Path:
    """Without a group of columns, and without what only these need in the metadata."""
    task = read_manifest(str(folder)).task
    gone = {c.name for c in row_columns(task, ("base", group))} - {
        c.name for c in row_columns(task, ("base",))
    }

    def less(split: str, table: pa.Table, metadata: dict[str, Any]) -> pa.Table:
        for key in [key for key in metadata if key.startswith(group)]:
            del metadata[key]
        return table.drop_columns([c for c in table.column_names if c in gone])

    return rewritten(folder, new, less)


def unlabelled(folder: Path, new: Path, split: str, rows: Callable[[int], bool] = lambda row: True) -> Path:
    """Rows of one split, those of these numbers, without their label."""

    def less(name: str, table: pa.Table, metadata: dict[str, Any]) -> pa.Table:
        if name != split:
            return table
        at = table.column_names.index("label")
        labels = [None if rows(row) else label for row, label in enumerate(table["label"].to_pylist())]
        return table.set_column(at, table.schema.field(at), pa.array(labels, table.schema.field(at).type))

    return rewritten(folder, new, less)
