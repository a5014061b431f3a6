"""`verify`: the manifest, every shard's bytes, and every row, a record batch at a time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from corpora import files
from corpora.batches import schema_difference
from corpora.manifest import MANIFEST, Manifest, ManifestError, ShardRecord, SplitRecord, read_manifest
from corpora.schema import GROUPS, annotated_schema, read_metadata, row_columns, row_schema
from corpora.shards import ShardError, open_shard, size_and_hash
from corpora.verify.branch_tokens import BranchTokens
from corpora.verify.coarse_text import CoarseText
from corpora.verify.documents import DocumentRules
from corpora.verify.facts import RowFacts
from corpora.verify.ids import Batches, find_duplicates
from corpora.verify.report import Findings, Report
from corpora.verify.rows import RowRules
from corpora.verify.view import View

Progress = Callable[[int, int], None]
"""Told after every record batch: rows checked so far, rows the manifest lists."""


def verify(
    folder: str,
    progress: Progress | None = None,
    branch_tokens: BranchTokens | None = None,
    coarse_text: CoarseText | None = None,
) -> Report:
    """Check a folder of annotated documents or of shard rows against all of `RULES`.

    Args:
        branch_tokens: looks up the tokens of triples; without it the rule `branch_tokens` is left out.
        coarse_text: compares coarse tokens with text; without it the rule `coarse_text` is left out.

    Whatever is wrong with the folder is a problem in the report, never an exception. Memory is
    bounded by one record batch and 8 bytes per id (at most 160 MB), however large the folder is.
    """
    return _Verifier(folder, progress, branch_tokens, coarse_text).run()


class _Verifier:
    def __init__(
        self,
        folder: str,
        progress: Progress | None,
        branch_tokens: BranchTokens | None,
        coarse_text: CoarseText | None,
    ) -> None:
        self._folder, self._progress = folder, progress
        self._branch_tokens, self._coarse_text = branch_tokens, coarse_text
        self._findings = Findings()
        self._counts: Counter[str] = Counter(shards=0, rows=0, tokens=0, words=0, bytes=0)
        self._total = 0
        self._first: tuple[str, str] | None = None
        """Name and metadata of the first shard, which the others must share."""
        self._sound: dict[str, list[tuple[int, int, int]]] = {}
        """Of each shard: index, first row and rows of the record batches whose ids can be read."""

    def run(self) -> Report:
        try:
            manifest = read_manifest(self._folder)
        except ManifestError as error:
            self._findings.add("manifest", str(error))
            return self._findings.report(dict(self._counts))
        self._total = manifest.rows
        listed = {shard.name for split in manifest.splits.values() for shard in split.shards}
        for name in files.list_names(self._folder):
            if name.endswith(".arrow") and name not in listed and not name.startswith(files.TEMPORARY):
                self._findings.add("extra_shard", f"{name} is not in {MANIFEST}", name)
        for name, split in manifest.splits.items():
            self._check_split(name, split, manifest)
        return self._findings.report(dict(self._counts))

    def _check_split(self, name: str, split: SplitRecord, manifest: Manifest) -> None:
        count = len(split.shards)
        for index, shard in enumerate(split.shards):
            if shard.name != f"{name}-{index:05d}-of-{count:05d}.arrow":
                detail = f"{shard.name} is shard {index} of {count} of split {name!r}"
                self._findings.add("shard_sequence", detail, shard.name)
        sums = SplitRecord.of(split.shards)
        for what in ("rows", "rejects", "counters"):
            if getattr(split, what) != getattr(sums, what):
                detail = f"{what} of split {name!r}: {getattr(split, what)}, shards sum up to {getattr(sums, what)}"
                self._findings.add("manifest_totals", detail)
        for shard in split.shards:
            self._check_shard(shard, manifest)

        held = sum(rows for shard in split.shards for *_, rows in self._sound.get(shard.name, ()))
        find_duplicates(lambda: self._ids(split), held, self._findings)

    def _ids(self, split: SplitRecord) -> Batches:
        for shard in split.shards:
            if batches := self._sound.get(shard.name):
                reader = open_shard(files.join(self._folder, shard.name), fields=[0])
                for index, start, _ in batches:
                    yield shard.name, start, reader.get_batch(index).column(0)

    def _check_shard(self, shard: ShardRecord, manifest: Manifest) -> None:
        path = files.join(self._folder, shard.name)
        try:
            size, digest = size_and_hash(path)
        except OSError as error:
            self._findings.add("missing_shard", f"{path} cannot be read: {error}", shard.name)
            return
        self._counts.update(shards=1, bytes=size)
        if size != shard.bytes:
            self._findings.add("bytes", f"{size:,} bytes, the manifest says {shard.bytes:,}", shard.name)
        elif digest != shard.sha256:
            self._findings.add("sha256", f"{digest}, the manifest says {shard.sha256}", shard.name)
        try:
            reader = open_shard(path)
            rules = self._rules(reader.schema, shard.name, manifest)
        except ShardError as error:
            self._findings.add("unreadable", str(error), shard.name)
            return
        total = 0
        for index in range(reader.num_record_batches):
            try:
                batch = reader.get_batch(index)
            except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
                self._findings.add("unreadable", f"record batch {index}: {error}", shard.name)
                return  # where one batch cannot be found, row numbers of the next mean nothing
            if rules is not None:
                self._check_batch(batch, index, total, shard.name, rules)
            total += batch.num_rows
            self._counts.update(rows=batch.num_rows)
            if self._progress is not None:
                self._progress(self._counts["rows"], self._total)
        if rules is not None:
            rules.finish()
        if total != shard.rows:
            self._findings.add("rows", f"{total:,} rows, the manifest says {shard.rows:,}", shard.name)

    def _check_batch(
        self, batch: pa.RecordBatch, index: int, start: int, shard: str, rules: DocumentRules | RowRules
    ) -> None:
        try:
            batch.validate(full=True)
        except (pa.ArrowException, ValueError) as error:
            self._findings.add("invalid_arrow", f"record batch {index}: {error}", shard)
            return
        self._sound.setdefault(shard, []).append((index, start, batch.num_rows))
        for low in range(0, batch.num_rows, rules.slice_rows):
            part = batch.slice(low, rules.slice_rows)
            numbers = np.arange(part.num_rows) + (start + low)
            self._counts.update(rules.check(View(part, numbers, shard, self._findings)))

    def _rules(self, schema: pa.Schema, shard: str, manifest: Manifest) -> DocumentRules | RowRules | None:
        """The rules for a shard's rows; None, with a problem, where its schema is not ours."""
        try:
            metadata = read_metadata(schema)
            for key, want in (
                ("stage", manifest.stage),
                ("task", manifest.task),
                ("fingerprint", manifest.config_fingerprint),
            ):
                if metadata.get(key) != want:
                    raise ValueError(f"{key} is {metadata.get(key)!r}, the manifest says {want!r}")
            if manifest.stage == "annotate":
                rules: DocumentRules | RowRules = _document_rules(schema, metadata)
            else:
                rules = _row_rules(schema, metadata, self._branch_tokens, self._coarse_text)
        except _SchemaError as error:
            self._findings.add("schema", str(error), shard)
            return None
        except ValueError as error:
            self._findings.add("metadata", str(error), shard)
            return None
        canonical = json.dumps(metadata, sort_keys=True)
        first, want = self._first or (shard, canonical)
        self._first = (first, want)
        if canonical != want:
            self._findings.add("metadata", f"schema metadata differs from that of {first}", shard)
        return rules


class _SchemaError(ValueError):
    pass


def _document_rules(schema: pa.Schema, metadata: dict[str, Any]) -> DocumentRules:
    parsed, pair = "word_heads" in schema.names, "word_starts_pair" in schema.names
    if difference := schema_difference(annotated_schema(parsed=parsed, pair=pair), schema):
        raise _SchemaError(difference)
    segmenter = metadata.get("segmenter")
    segmented = not (isinstance(segmenter, dict) and segmenter.get("name") == "none")
    return DocumentRules(parsed=parsed, pair=pair, segmented=segmented)


def _row_rules(
    schema: pa.Schema,
    metadata: dict[str, Any],
    branch_tokens: BranchTokens | None,
    coarse_text: CoarseText | None,
) -> RowRules:
    task = metadata["task"]
    groups = [
        g for g in GROUPS if any(c.name in schema.names for c in row_columns(task, [g]) if c.group == g)
    ]
    if difference := schema_difference(row_schema(task, groups), schema):
        raise _SchemaError(difference)
    return RowRules(task, groups, RowFacts.read(metadata, groups), branch_tokens, coarse_text)
