"""Datasets again with less in them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from corpora.manifest import Manifest, ShardRecord, SplitRecord, read_manifest, write_manifest
from corpora.schema import METADATA_KEY, row_columns
from corpora.shards import ShardWriter


def without(folder: Path, group: str, new: Path) -> Path:
    """Without a group of columns, and without what only these need in the metadata."""
    new.mkdir()
    manifest = read_manifest(str(folder))
    splits = {}
    for name, split in manifest.splits.items():
        records = []
        for record in split.shards:
            table = pa.ipc.open_file(str(folder / record.name)).read_all()
            gone = {c.name for c in row_columns(manifest.task, ("base", group))} - {
                c.name for c in row_columns(manifest.task, ("base",))
            }
            body = json.loads(table.schema.metadata[METADATA_KEY])
            body = {key: value for key, value in body.items() if not key.startswith(group)}
            table = table.drop_columns([c for c in table.column_names if c in gone])
            schema = table.schema.with_metadata({METADATA_KEY: json.dumps(body)})
            with ShardWriter(str(new / record.name), schema) as shard:
                for batch in table.to_batches():
                    shard.write(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
            records.append(ShardRecord.of(shard.result, {}, {}))
        splits[name] = SplitRecord.of(records)
    fingerprint = manifest.config_fingerprint
    write_manifest(
        str(new), Manifest(stage="encode", task=manifest.task, config_fingerprint=fingerprint, splits=splits)
    )
    return new
