"""The road of a run: sign the blocks, match the ranges of keys, resolve, report.

Sign and match are stages like any other: they resume, run on every Beam runner, and give the same bytes
whatever the number of workers. Their work lies in `<out>/dedup/_work` until the manifest stands.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.text import Text

from corpora import files
from corpora.blocks import Block
from corpora.manifest import MANIFEST
from corpora.plan import plan_blocks
from corpora.shards import ShardError, check_shard, open_shard, read_batches
from pipelines import engine, refusals, watched
from pipelines.config import Config, ConfigError
from pipelines.dedup import report
from pipelines.dedup.config import AGAINST, DedupConfig, against_layout
from pipelines.dedup.match import Match, key_ranges
from pipelines.dedup.numbering import Numbers, Order
from pipelines.dedup.resolve import read_ties, resolve
from pipelines.dedup.result import DROPPED, REPORT, Drops, Result, read_result
from pipelines.dedup.runs import list_runs
from pipelines.dedup.sign import RUNS, Sign, Source
from pipelines.dedup.signed import SignedDocuments
from pipelines.display import counts, summary
from pipelines.language import primary_language
from pipelines.options import Options
from pipelines.view.legible import legible

DEDUP = "dedup"
_KEY = "key.json"


class Deduplication:
    """One corpus, and what is compared with it. Raises ConfigError for what cannot be read."""

    def __init__(self, config: Config, config_path: str, out: str, dedup: DedupConfig) -> None:
        self.config, self.dedup, self.folder = config, dedup, files.join(out, DEDUP)
        own = _plan(config.input, config_path, config, "input.files")
        against = against_layout(dedup, config.input, config.task)
        others: list[Block] = []
        if against is not None:
            if AGAINST in config.input.sources:
                raise ConfigError(f"input.files: a split cannot be called {AGAINST!r} beside `dedup.against`")
            others = _plan(against[0], config_path, config, "dedup.against.files")
        self.order = Order.of(others, own)
        self.blocks = [*others, *own]
        first = {split: self.order.first_block(split) for split, _ in self.order.splits}
        sources = [Source(*against, {AGAINST: first[AGAINST]})] if against is not None else []
        sources.append(Source(config.input, config.task, {b.split: first[b.split] for b in own}))
        self.work = files.join(self.folder, engine.WORK)
        self.signed, self.matched = (files.join(self.work, name) for name in ("signed", "matched"))
        sign = Sign(dedup, primary_language(config.language), sources, self.signed)
        self.sign_run = engine.Run(sign, self.blocks, self.signed, refusals.raw_inputs(self.blocks))
        self.match = Match(
            self.signed,
            self.order,
            dedup.threshold if dedup.near else None,
            within=dedup.within,
            signed=sign.fingerprint,
        )

    @property
    def key(self) -> dict[str, Any]:
        """What the result depends on, times of the inputs' last changes included."""
        return {**self.sign_run.key, "match": self.match.fingerprint}

    @property
    def fingerprint(self) -> str:
        """Hash of the config, the plan and the code; neither of times nor of the input's bytes."""
        facts = {name: value for name, value in self.key.items() if name != "inputs"}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def finished(self) -> Result | None:
        """The result of this very run, if the folder holds it."""
        result = read_result(self.folder)
        if result is None or result.fingerprint != self.fingerprint or result.inputs != self._inputs():
            return None
        path = files.join(self.work, _KEY)
        same = not files.exists(path) or files.read_bytes(path) == self._key_bytes()
        return result if same else None

    def _key_bytes(self) -> bytes:
        return json.dumps(self.key, ensure_ascii=False, sort_keys=True).encode()

    def _inputs(self) -> list[dict[str, Any]]:
        return [{k: v for k, v in item.items() if k != "modified"} for item in self.sign_run.inputs]

    def run(self, options: Options) -> Drops:
        """Run to the manifest, or find that it is there already."""
        console, folder = options.console, legible(self.folder)
        result = self.finished()
        damage = None if result is None else self._damage(result)
        if result is not None and damage is None:
            console.print(Text(f"dedup: already finished in {folder}"))
            return Drops(self.folder, result)
        there = files.exists(files.join(self.folder, MANIFEST))
        if there and not options.overwrite:
            what = damage or "it is of another config, code or input"
            raise engine.RunError(
                f"{self.folder} holds finished work that cannot be used: {what}. Choose another folder with --out, "
                "or pass --overwrite to replace it."
            )
        with engine.only_writer(self.folder):
            if there or (options.overwrite and not self.sign_run.is_planned()):
                self._discard()
            result = self._work(options)
        _show(result, options)
        return Drops(self.folder, result)

    def _damage(self, result: Result) -> str | None:
        try:
            check_shard(files.join(self.folder, DROPPED), result.dropped.sha256)
        except FileNotFoundError:
            return f"{DROPPED} is missing"
        except ShardError as error:
            return str(error)
        return None

    def _discard(self) -> None:
        for name in (MANIFEST, REPORT, DROPPED):
            files.remove(files.join(self.folder, name))
        self._clean()

        files.remove(files.join(self.work, _KEY))

    def _clean(self) -> None:
        """Remove the work of both stages; on an object store, where folders are only names, file by file."""
        runs = files.join(self.signed, RUNS)
        for name in files.list_names(runs):
            files.remove(files.join(runs, name))
        for folder in (self.signed, self.matched):
            engine.discard(folder)
            files.remove(folder)

    def _work(self, options: Options) -> Result:
        files.make_dirs(files.join(self.signed, RUNS))
        files.remove_temporaries(files.join(self.signed, RUNS))
        self.sign_run.prepare()
        signed = watched.execute(f"{DEDUP}, sign", self.sign_run, options)
        refusals.refuse_changed_inputs(self.sign_run)
        self._refuse_unread(signed)
        ranges = key_ranges(list_runs(files.join(self.signed, RUNS)))
        matched = engine.Run(self.match, ranges, self.matched)
        matched.prepare()
        found = watched.execute(f"{DEDUP}, match", matched, options)
        documents = SignedDocuments(self.signed, self.order)
        pairs = [pair for block in ranges for pair in _pairs(files.join(matched.out, block.shard_name))]
        ties, first_own = read_ties(documents), self.order.first_own
        verdicts = resolve(pairs, ties, first_own, within=self.dedup.within)
        writer = report.Writer(documents, self.order)
        info = writer.write(self.folder, verdicts)
        splits = self._counts(signed, writer)
        uncompared = sum(record.counters.get("uncompared", 0) for record in found)
        body = {
            "splits": splits,
            "clusters": report.size_histogram(verdicts),
            "uncompared": uncompared,
            "largest": writer.clusters(verdicts),
        }
        result = Result(self.fingerprint, report.losses(verdicts, self.order), splits, info, self._inputs())
        written = [
            (self.work, _KEY, self._key_bytes()),
            (self.folder, REPORT, report.to_json(body)),
            (self.folder, MANIFEST, result.to_json()),
        ]
        for folder, name, content in written:
            with files.write_atomic(files.join(folder, name)) as sink:
                sink.write(content)
        self._clean()
        if uncompared:
            options.console.print(
                Text(
                    f"{uncompared:,} times a document shared a key with so many others that not all were compared; "
                    "a larger dedup.ngram makes that rarer",
                    "yellow",
                )
            )
        return result

    def _refuse_unread(self, records: Sequence[engine.BlockRecord]) -> None:
        """A corpus that cannot be read has no duplicates, and nobody would notice."""
        others = [r for r in records if r.split == AGAINST] if self.order.others else []
        rejects = sum((Counter(r.rejects) for r in others), Counter())
        total = sum(r.counters.get("records", 0) for r in others)
        limit = self.config.run.max_reject_fraction
        if total and rejects.total() / total > limit:
            raise engine.RunError(
                f"dedup.against: {rejects.total():,} of {total:,} records were rejected, more than "
                f"run.max_reject_fraction = {limit:g}: {counts(rejects)}. Each is listed with file, line and reason in "
                f"{files.join(self.signed, engine.REJECTS)}."
            )

    def _counts(
        self, records: Sequence[engine.BlockRecord], writer: report.Writer
    ) -> dict[str, dict[str, int]]:
        found = {}
        for split, _ in self.order.splits:
            mine = sum((Counter(r.counters) for r in records if r.split == split), Counter())
            dropped = writer.counts[split]
            exact, near = dropped["duplicates_exact"], dropped["duplicates_near"]
            found[split] = {
                "documents": mine["documents"],
                "kept": mine["documents"] - exact - near,
                "duplicates_exact": exact,
                "duplicates_near": near,
                # Of these: those that another label is kept for.
                "contradictory_labels": dropped["contradictory_labels"],
            }
        return found


def _plan(layout: Any, config_path: str, config: Config, key: str) -> list[Block]:
    try:
        return plan_blocks(layout, str(Path(config_path).resolve().parent), config.run.block_bytes)
    except OSError as error:
        raise ConfigError(f"{key}: {error.strerror or error}") from None


def _pairs(path: str) -> list[tuple[Numbers, Numbers]]:
    """Pairs of a range, copied: the file goes before they do."""
    batches = read_batches(open_shard(path))
    return [(np.array(b["left"].to_numpy()), np.array(b["right"].to_numpy())) for b in batches]


def _show(result: Result, options: Options) -> None:
    options.console.print(Text(f"dedup: {result.dropped.rows:,} duplicates"))
    if not options.brief:
        options.console.print(summary(result.splits))
