"""What ends a run after its blocks and before its manifest. Finished blocks are kept.

Each raises RunError with what was found, where, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow.compute as pc

from corpora import files
from corpora.blocks import Block, Part
from corpora.layout import InputConfig
from corpora.manifest import Manifest
from corpora.shards import open_shard, read_batches
from corpora.verify.ids import Batches, find_duplicates
from corpora.verify.report import Findings
from pipelines import engine
from pipelines.display import counts


def raw_inputs(blocks: Sequence[Block]) -> list[dict[str, Any]]:
    """Name, size and time of change of every raw file, as they are now."""
    inputs = []
    for part in _first_parts(blocks):
        (info,) = files.expand(part.path)
        inputs.append({"path": part.name, "size": info.size, "modified": info.modified})
    return inputs


def _first_parts(blocks: Sequence[Block]) -> Iterator[Part]:
    seen = set()
    for block in blocks:
        for source in block.parts:
            for part in (source, source.pair):
                if part is not None and part.path not in seen:
                    seen.add(part.path)
                    yield part


def refuse_changed_inputs(run: engine.Run) -> None:
    """Blocks read before and after a change do not go together: byte ranges and records have moved."""
    refuse_changed(run.inputs, run.blocks)


def refuse_changed(inputs: Sequence[dict[str, Any]], blocks: Sequence[Block]) -> None:
    """The same of the raw files of blocks, as they were told before by `raw_inputs`."""
    if changed := [old["path"] for old, new in zip(inputs, raw_inputs(blocks), strict=True) if old != new]:
        raise engine.RunError(
            f"{changed[0]} was changed while the run read it. Let it rest, then run again with --overwrite."
        )


def refuse_rejects(folder: str, manifest: Manifest, limit: float) -> None:
    """More rejects than `limit`, a share of the records."""
    rejected = manifest.rejects.total()
    records = sum(s.counters.get("records", 0) for s in manifest.splits.values())
    if rejected and records and rejected / records > limit:
        raise engine.RunError(
            f"{rejected:,} of {records:,} records were rejected ({rejected / records:.1%}), more than "
            f"run.max_reject_fraction = {limit:g}: {counts(manifest.rejects)}. Each is listed with file, "
            f"line and reason in {files.join(folder, engine.REJECTS)}. Mend the input, or raise the limit and "
            "run the same command again: finished blocks are kept."
        )


def refuse_missing_fields(source: InputConfig, manifest: Manifest) -> None:
    """A field that no record has is a mistyped one, whatever may be missing here and there."""
    first, split = next(iter(manifest.splits.items()))
    for counter, key, name in (
        ("records_without_label", "label", source.label),
        ("records_without_language", "language", source.language),
    ):
        if key == "label" and source.may_lack_label(first):
            continue
        if split.rows and split.counters.get(counter, 0) >= split.rows:
            raise engine.RunError(
                f"input.{key}: no record of split {first!r} has the field {name!r}; name the field that holds it"
            )


def refuse_duplicate_ids(folder: str, manifest: Manifest) -> None:
    """Documents of a split must have different ids; the error shows both places of the first pair."""

    def ids(split: str) -> Batches:
        for shard in manifest.splits[split].shards:
            start = 0
            for batch in read_batches(open_shard(files.join(folder, shard.name))):
                yield shard.name, start, batch["doc_id"]
                start += batch.num_rows

    for split, record in manifest.splits.items():
        findings = Findings()
        find_duplicates(lambda split=split: ids(split), record.rows, findings)  # type: ignore[misc]
        if not (count := findings.counts["duplicate_id"]):
            continue
        (problem, *_) = findings.report({}).problems
        places = []
        for shard in record.shards:
            for batch in read_batches(open_shard(files.join(folder, shard.name))):
                places += batch.filter(pc.equal(batch["doc_id"], problem.id))["source"].to_pylist()
        raise engine.RunError(
            f"{count:,} records of split {split!r} have the id of an earlier one. The id {problem.id!r} is at "
            f"{' and at '.join(places[:2])} (file@byte). Make the ids unique, or leave them out: they are then made "
            "from file and byte."
        )
