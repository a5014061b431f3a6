"""The road of `treegraft vocab`: annotate, count by block, merge by range, choose, measure; the fine one first.

Counting, merging and measuring are stages like any other: they resume, run on every Beam runner, and give the same
bytes whatever the number of workers. What reaches the driver is what occurs often enough to be chosen.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.text import Text

from corpora import files
from corpora.blocks import Block
from corpora.manifest import MANIFEST
from pipelines import engine, flow, folders, watched
from pipelines.config import Config, ConfigError, names_file, resolve
from pipelines.differences import Facts, differences, listed
from pipelines.encode.tokenizer import vocabulary_lines
from pipelines.encode.tools import check_room
from pipelines.graphs import compiled_graph
from pipelines.language import UNSPACED, primary_language
from pipelines.options import Options
from pipelines.phrases.flow import FOLDER as PHRASES_FOLDER
from pipelines.phrases.lexicon import PhraseLexicon
from pipelines.phrases.report import PHRASES
from pipelines.phrases.source import annotated_blocks, counted_splits
from pipelines.settings import facts_hash
from pipelines.view.legible import legible
from pipelines.vocab import show
from pipelines.vocab.branches import Branches
from pipelines.vocab.counts import RANGE_ROWS, hash_ranges
from pipelines.vocab.result import FOLDER, REPORT, Made, read_made, read_report, write_made, write_report
from pipelines.vocab.sides import Coarse, Fine, Side
from pipelines.vocab.steps import CODE_VERSION, Step
from pipelines.vocab.units import Lookup


class Vocabularies:
    """What is asked of one corpus. Raises ConfigError before any work."""

    def __init__(
        self,
        config: Config,
        config_path: str,
        options: Options,
        *,
        fine: bool = False,
        coarse: bool = False,
        graph_of: tuple[Config, str, str] | None = None,
        range_rows: int = RANGE_ROWS,
    ) -> None:
        """
        Args:
            fine, coarse: make these; without either those that the config needs and has not.
            graph_of: another config, whose rows have trees and this fine vocabulary; its path and its output.
            range_rows: counted strings in a range.
        """
        self._range_rows = range_rows
        self._config, self._path, self._options = config, config_path, options
        self.folder = files.join(options.out, FOLDER)
        folders.check_folder(self.folder)
        check_room(config)  # no vocabulary for rows that could not be made
        self._work = files.join(self.folder, engine.WORK)
        self._splits = counted_splits(config.input, config.vocab.splits, "vocab.splits")
        encode = config.encode
        self._own = files.join(self.folder, Fine.file)
        there = self._tokenizer_is_there()
        if not fine and not coarse:
            fine, coarse = not there, "coarse" in encode.columns
            if not fine and not coarse:
                raise ConfigError(
                    f"encode.tokenizer: {encode.tokenizer} is there, and encode.columns has no 'coarse', so that no "
                    "vocabulary is needed; pass --fine or --coarse to make one nevertheless"
                )
        self._fine = fine
        self._grafting = config, config_path, options.out
        if graph_of is not None:
            self._check_other(*graph_of[:2])
            self._grafting = graph_of
        self._lookup: Lookup | None = None
        self.unnamed: str | None = None
        """The lexicon that is used, though the config does not name it"""
        if coarse:
            spec = encode.tokenizer if there else _absolute(self._own)
            if not there and not fine and not files.exists(self._own):
                raise ConfigError(
                    f"encode.tokenizer: file {resolve(config_path, encode.tokenizer)} does not exist, and a coarse "
                    "vocabulary is made for a tokenizer; without --coarse alone both are made, the fine one first"
                )
            self._lookup = Lookup(spec, config_path, encode.lowercase, self._lexicon())
            if there:  # what is wrong stops before any work
                _ = self._lookup.tokenizer, self._lookup.lexicon
            elif self._lookup.phrases is not None:
                PhraseLexicon.load(self._lookup.phrases, str)

    def _tokenizer_is_there(self) -> bool:
        """Whether the config's tokenizer is another than what is made here. A `vocab.txt` that is missing can be made;
        anything else must be there."""
        path = resolve(self._path, self._config.encode.tokenizer)
        if not path.endswith(".txt"):
            return True
        return files.exists(path) and not names_file(self._path, path, self._own)

    def _check_other(self, other: Config, path: str) -> None:
        """Raises ConfigError where there is no graph to take, or no vocabulary to give its characters to."""
        if not self._fine:
            raise ConfigError("--graph is for the fine vocabulary, which is not made here; pass --fine, too")
        if self._config.graph is not None:
            raise ConfigError(f"--graph: {self._path} has a `graph` section of its own: drop one of them")
        if other.graph is None:
            raise ConfigError(f"--graph: {path} has no `graph` section; name a config that has one")

    def _lexicon(self) -> str | None:
        coarse = self._config.encode.coarse
        if coarse is not None and coarse.phrases is not None:
            return resolve(self._path, coarse.phrases)
        found = files.join(files.join(self._options.out, PHRASES_FOLDER), PHRASES)
        spaced = primary_language(self._config.language) not in UNSPACED
        if not files.exists(found):
            if spaced:
                self._say(
                    "vocab: there is no lexicon, so that the coarse vocabulary is of words alone; "
                    f"`treegraft phrases {legible(self._path)}` would find phrases"
                )
            return None
        if not spaced:
            self._say(
                f"vocab: {legible(found)} is left alone, as {self._config.language} needs no phrases; "
                "encode.coarse.phrases would name it"
            )
            return None
        if not files.read_bytes(found).strip():
            self._say(f"vocab: {legible(found)} holds no phrase: the coarse vocabulary is of words alone")
            return None
        self._say(f"vocab: phrases of {legible(found)}; encode.coarse.phrases should name it, too")
        self.unnamed = found
        return _absolute(found)

    def run(self) -> dict[str, Made]:
        """Run to the manifest, or find that it is there already; what was asked for, by side."""
        if not self._options.overwrite:
            made = read_made(self.folder)
            wanted = [side for side, it in ((Fine, self._fine), (Coarse, self._lookup is not None)) if it]
            names = [side.file for side in wanted if side.name not in made]
            folders.refuse_strangers(self.folder, names if made else [MANIFEST, REPORT, *names])
        branches = self._branches() if self._fine else None
        manifest = flow.annotate(self._config, self._path, self._options)
        blocks = annotated_blocks(self._options.annotated, manifest, self._splits)
        done = {}
        if self._fine:
            done[Fine.name] = self._side(Fine(self._config, branches), blocks)
        if self._lookup is not None:
            coarse = Coarse(self._config, self._lookup)
            done[coarse.name] = self._side(coarse, blocks)
        return done

    def _branches(self) -> Branches | None:
        """Of the graph, compiled where preprocess looks for it; a finished dataset keeps its own."""
        config, path, out = self._grafting
        folder = compiled_graph(config, path, out, False, self._options.console)
        return None if folder is None else Branches(config, path, folder)

    # --- one vocabulary ---------------------------------------------------------------------------

    def _side(self, side: Side, blocks: list[Block]) -> Made:
        inputs = [{"path": part.name, "sha256": part.sha256} for block in blocks for part in block.parts]
        facts = Facts({**side.settings(), "vocab.splits": self._splits}, side.identities(), inputs=inputs)
        fingerprint = facts_hash([CODE_VERSION, facts.settings, _contents(facts.identities), inputs])
        old = read_made(self.folder).get(side.name)
        damage = old.damage(self.folder) if old is not None else None
        if old is not None and old.fingerprint == fingerprint and not damage:
            self._say(f"vocab, {side.name}: already finished in {legible(self.folder)}")
            return old
        if old is not None and not self._options.overwrite:
            lines = [damage] if damage else differences(old.facts(), facts, every_tool=True)
            raise engine.RunError(
                f"{files.join(self.folder, side.file)} is of another config, code or input, or was changed since:"
                f"{listed(lines)}\nChoose another folder with --out, or pass --overwrite to replace it."
            )
        with engine.only_writer(self.folder), folders.marked(self.folder):
            self._forget(side)
            return self._make(side, blocks, facts, fingerprint)

    def _forget(self, side: Side) -> None:
        """The side no longer looks finished, and its file is gone; the other one stays."""
        files.remove_temporaries(self.folder)
        made = read_made(self.folder)
        if made.pop(side.name, None) is not None:
            write_made(self.folder, made)
        files.remove(files.join(self.folder, side.file))

    def _make(self, side: Side, blocks: list[Block], facts: Facts, fingerprint: str) -> Made:
        work = files.join(self._work, f"{side.name}-{fingerprint[:16]}")
        self._sweep(side, keep=work)
        inputs = [dict(item) for item in facts.inputs]
        counting = engine.Run(side.count({}), blocks, files.join(work, "count"), inputs)
        counted = self._stage(side, "count", counting)
        totals = sum((Counter(record.counters) for record in counted), Counter())
        runs = [files.join(counting.out, record.shard.name) for record in counted]
        ranges = hash_ranges(sum(record.shard.rows for record in counted), self._range_rows)
        upstream = {"counted": facts_hash(counting.key)}
        merging = engine.Run(side.merge(upstream, runs), ranges, files.join(work, "merge"))
        merged = self._stage(side, "merge", merging)
        entries, found = side.choose(files.join(merging.out, record.shard.name) for record in merged)
        content = vocabulary_lines(entries)
        sha256 = hashlib.sha256(content).hexdigest()
        path = files.join(self.folder, side.file)
        with files.write_atomic(path) as sink:
            sink.write(content)
        step: Step = side.measure({**upstream, "vocabulary": sha256}, runs, path)
        measuring = engine.Run(step, ranges, files.join(work, "measure"))
        measured = self._stage(side, "measure", measuring)
        coverage = side.coverage(sum((Counter(record.counters) for record in measured), Counter()))
        told = {
            "file": side.file,
            "entries": len(entries),
            "splits": self._splits,
            "documents": totals["documents"],
            "occurrences": totals["words"],
            **found,
            "coverage": coverage,
        }
        made = Made(
            side.file,
            len(entries),
            sha256,
            fingerprint,
            dict(facts.settings),
            dict(facts.identities),
            inputs,
            engine.package_versions(),
        )
        write_report(self.folder, {**read_report(self.folder), side.name: told})
        write_made(self.folder, {**read_made(self.folder), side.name: made})
        for run in (counting, merging, measuring):  # on an object store, where folders are only names
            engine.discard(run.out)
        self._sweep(side)
        show.show(self._options.console, side.name, self.folder, told, side.size, brief=self._options.brief)
        return made

    def _stage(self, side: Side, title: str, run: engine.Run) -> list[engine.BlockRecord]:
        run.prepare()
        return watched.execute(f"{FOLDER}, {side.name} {title}", run, self._options)

    def _sweep(self, side: Side, keep: str = "") -> None:
        """Remove the work of the side, also of a run with another config that was given up."""
        for name in files.list_names(self._work):
            path = files.join(self._work, name)
            if name.startswith(f"{side.name}-") and path != keep:
                files.remove(path)

    def _say(self, message: str) -> None:
        self._options.console.print(Text(message), soft_wrap=True)


def _absolute(path: str) -> str:
    return path if files.is_uri(path) else str(Path(path).resolve())


def _contents(identities: Mapping[str, Any]) -> dict[str, Any]:
    """What the tools are, whatever their files are called."""
    return {tool: {k: v for k, v in facts.items() if k != "name"} for tool, facts in identities.items()}
