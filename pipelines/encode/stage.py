"""Stage 2: annotated documents to shard rows, a shard at a time.

The work is columnar: a batch of documents is tokenized into flat arrays, `pipelines.encode.assemble` chooses
rows as spans of them, `pipelines.encode.columns` lays all columns of up to 4,096 rows out at once. Python
touches each distinct word of a batch once (to look it up in the coarse vocabulary) and each row a few times,
never each token. From raw Chinese text to rows, words and coarse columns included, that takes as long as
bare `tokenizers.encode_batch` and `jieba.cut` (`tests/bench/bench_encode.py`). Re-encoding
for another tokenizer or graph reuses the annotations.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora.blocks import Block, Part
from corpora.manifest import Manifest
from corpora.plan import MAX_BLOCK_BYTES
from corpora.schema import SCHEMA_VERSION, row_schema
from corpora.shards import ShardError, check_shard, open_shard, read_batches
from pipelines.config import Config
from pipelines.encode import columns
from pipelines.encode.backoff import coarse_columns
from pipelines.encode.batch import Batch, read_batch
from pipelines.encode.choice import gather
from pipelines.encode.coarse import Units
from pipelines.encode.labels import Labels
from pipelines.encode.lists import record_batch
from pipelines.encode.source import Words, attach
from pipelines.encode.tasks import Made, Tasks
from pipelines.encode.tools import Tools
from pipelines.engine import BlockWriter, Stage
from pipelines.ragged import Ints, bounds
from pipelines.settings import encode_section, encode_settings, facts_hash

CODE_VERSION = 3
"""Raised whenever this stage gives other rows for the same documents and config."""
CHUNK_ROWS = 4096
CHUNK_TOKENS = 1 << 20
CHUNK_CHARS = 1 << 24
"""Rows, trunk tokens, and characters of their texts, laid out at a time: what bounds memory beside the batch itself."""


@dataclass(frozen=True)
class _Words:
    """Words with tokens, and what belongs to them."""

    words: Words
    tied: Ints
    """Word of each token"""
    units: Units | None
    """What they are in coarse tokens"""


class Encode(Stage):
    """Annotated shard in, shard of training rows out. See the schema in `corpora.schema`.

    Counters: `records` (documents read), `rows`, `tokens`, `unknown_tokens`, `truncated_rows`; by
    task `labels_truncated`, `units_without_pieces`, `truncated_choices`, `targets_cut`, and those of
    `pretrain.pretrain_rows` and `span.span_rows`, with `answers_not_on_tokens` in splits that do not train; with
    words `words_without_tokens`; with the coarse group those of `backoff.coarse_columns`; with
    the tree group those of `kg.tree.Trees`, `branch_tokens` and `unknown_branch_tokens`. Rejects: those of
    `pipelines.encode.tasks`.
    """

    name = "encode"

    def __init__(
        self,
        config: Config,
        config_path: str,
        *,
        annotated: Manifest,
        labels: Sequence[str],
        deprels: Sequence[str],
        graph: str | None = None,
    ) -> None:
        """
        Args:
            annotated: manifest of the annotated documents.
            labels: label names in index order; deprels: dependency relations likewise.
            graph: folder of the compiled graph, where the rows have trees.
        """
        self._config, self._deprels = config, list(deprels)
        self._labels = Labels(labels, per_token=config.task == "tag")
        self._tools = Tools(config, config_path, graph)
        self._inherited = {k: v for k, v in annotated.identities.items() if k in ("parser", "segmenter")}
        self._groups = tuple(config.encode.columns)
        self._sides: tuple[str, ...] = ("", "_pair") if config.input.has_pair else ("",)

    check = staticmethod(Tools.check)

    @cached_property
    def fingerprint(self) -> str:
        config = self._config
        body = {
            "code": CODE_VERSION,
            "schema": SCHEMA_VERSION,
            "task": config.task,
            "seed": config.seed,
            "pair": len(self._sides) == 2,
            "score": config.input.score,
            # Files count by content (identities), not by name.
            "encode": encode_section(config),
            "trains": config.input.train_splits if config.task == "span" else None,
            "graft": self._tools.policy_facts() if "tree" in self._groups else None,
            "labels": self._labels.names,
            "deprels": self._deprels,
            "identities": self.identities(),
            "versions": {name: version(name) for name in ("treegraft", "tokenizers")},
        }
        return facts_hash(body)

    def identities(self) -> dict[str, Any]:
        return {**self._tools.identities(), **self._inherited}

    def settings(self) -> dict[str, Any]:
        return encode_settings(self._config, self._labels.names, self._tools.policy_facts())

    def metadata(self) -> dict[str, Any]:
        """The shards' schema metadata."""
        return {
            "stage": self.name,
            "task": self._config.task,
            "labels": self._labels.names,
            "deprels": self._deprels if "syntax" in self._groups else [],
            **({"misaligned": self._config.encode.span.misaligned} if self._config.task == "span" else {}),
            "fingerprint": self.fingerprint,
            **self._tools.facts(),
            **self.identities(),
        }

    @cached_property
    def _schema(self) -> pa.Schema:
        return row_schema(self._config.task, self._groups, self.metadata())

    def schema(self) -> pa.Schema:
        return self._schema

    def setup(self) -> None:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the engine's processes are the parallelism
        self.schema()  # loads every tool

    # --- the work -----------------------------------------------------------------------------

    def companions(self) -> dict[str, bytes]:
        """Token strings, a line an id, so that ids mean something without the tokenizer at hand; and the
        tokenizer, so that the dataset needs nothing from elsewhere."""
        tokenizer = self._tools.tokenizer
        found = {"tokens.txt": tokenizer.lines(), "tokenizer.json": tokenizer.serialized()}
        if self._tools.coarse is not None:
            found["coarse_tokens.txt"] = self._tools.coarse.lines()
        return found

    def process(self, block: Block, out: BlockWriter) -> None:
        """Rows of the annotated shard that is the block's one part.

        Labelled tasks go batch by batch. Pretraining takes batches together up to a block's worth of
        text, the whole shard of any file that could be split: a random second segment may come from
        any of those documents.

        Raises LabelError for a label that the dataset does not know.
        """
        (part,) = block.parts
        together = (self._config.run.block_bytes or MAX_BLOCK_BYTES) if self._config.task == "pretrain" else 0
        if part.sha256:
            _check(part)
        for table in _tables(open_shard(part.path), together):
            self.encode_table(table, block.split, out)

    def encode_table(self, table: pa.Table, split: str, out: BlockWriter) -> None:
        """Rows of annotated documents."""
        out.count(records=len(table))
        wanted = bool({"syntax", "coarse"} & set(self._groups)) or self._tools.matches_words
        deprels = self._deprels if "syntax" in self._groups else None
        batch = read_batch(table, split, self._config.task, self._sides, words=wanted, deprels=deprels)
        self._write(batch, self._tasks.make(batch, out), out)

    @cached_property
    def _tasks(self) -> Tasks:
        return Tasks(self._config, self._labels, self._tools.tokenizer)

    def _write(self, batch: Batch, made: Made, out: BlockWriter) -> None:
        out.count(**made.rows.counters)
        words = None
        if batch.words is not None:
            kept, tied, dropped = attach(made.tokens, batch.texts.chars, batch.words)
            out.count(words_without_tokens=dropped)
            units = None if self._tools.units is None else self._tools.units.find(batch.texts, kept)
            words = _Words(kept, tied, units)
        ids = _row_ids(batch.table, made.documents)
        for start, stop in _chunks(*self._sizes(batch, made)):
            named = self._columns(batch, made, start, stop, words, out)
            named |= {name: column.slice(start, stop - start) for name, column in made.columns.items()}
            out.count(rows=stop - start)
            out.write(record_batch(self._schema, named | {"id": ids[start:stop]}))

    def _sizes(self, batch: Batch, made: Made) -> tuple[Ints, Ints]:
        """Tokens of every row (or question), and the most characters that its texts can have."""
        tokens = made.rows.lengths()
        if self._config.task == "pretrain":  # the texts are slices
            return tokens, np.zeros_like(tokens)
        characters = np.append(np.diff(batch.texts.chars), 0)[made.rows.texts].sum(axis=1)
        if made.groups is None:
            return tokens, characters
        return np.diff(bounds(tokens)[made.groups]), np.diff(bounds(characters)[made.groups])

    def _columns(
        self, batch: Batch, made: Made, start: int, stop: int, words: _Words | None, out: BlockWriter
    ) -> dict[str, Any]:
        """Columns of rows (or questions) [start, stop)."""
        tokenizer, task = self._tools.tokenizer, self._config.task
        low, high = (start, stop) if made.groups is None else made.groups[[start, stop]].tolist()
        trunk = columns.lay_trunk(
            made.rows.slice(low, high),
            batch.texts,
            made.tokens,
            tokenizer.special_ids,
            whole_texts=task != "pretrain",
        )
        unknown = int((trunk.ids_t == tokenizer.unknown_id).sum())
        out.count(tokens=len(trunk.ids_t), unknown_tokens=unknown)
        found: dict[str, Any] = trunk.columns()
        laid = None
        if words is not None and ("syntax" in self._groups or self._tools.matches_words):
            laid = columns.lay_words(trunk, words.words, words.tied)
            if "syntax" in self._groups:
                found |= columns.syntax_columns(trunk, laid, words.words)
        if words is not None and words.units is not None and self._tools.coarse is not None:
            coarse, counters = coarse_columns(trunk, words.tied, words.units, self._tools.coarse)
            found |= coarse
            out.count(**counters)
        if self._tools.trees is not None:
            of_segments = None
            if self._tools.matches_words and laid is not None and words is not None:
                of_segments = columns.segment_words(trunk, laid, words.words)
            trees = self._tools.trees.build(trunk.for_trees(of_segments, windows=task == "span"))
            of_branches = trees.ids[trees.branch > 0]
            unknown = int((of_branches == tokenizer.unknown_id).sum())
            out.count(**trees.counters, branch_tokens=len(of_branches), unknown_branch_tokens=unknown)
            found |= columns.tree_columns(trees)
        if made.groups is not None:
            groups = made.groups[start : stop + 1] - low
            return gather(found, groups, made.starts[low:high], trunk.special_t)
        return found | {"text": trunk.texts_r, "text_pair": trunk.pairs_r}


def _check(part: Part) -> None:
    """The annotated shard must be there as it was written; its folder has no say in what became of it."""
    try:
        check_shard(part.path, part.sha256)
    except (OSError, ShardError) as error:
        raise ValueError(
            f"{error}. Annotate the corpus again: treegraft annotate CONFIG --overwrite"
        ) from error


def _row_ids(table: pa.Table, documents: Ints) -> list[str]:
    """`<doc_id>#<n>`, n counting the rows of a document from 0."""
    names = table["doc_id"].to_pylist()
    seen = [0] * len(names)
    ids = []
    for document in documents.tolist():
        ids.append(f"{names[document]}#{seen[document]}")
        seen[document] += 1
    return ids


def _chunks(tokens: Ints, characters: Ints) -> Iterator[tuple[int, int]]:
    """Ranges of rows within `CHUNK_ROWS` and, but for a single larger row, `CHUNK_TOKENS` and `CHUNK_CHARS`."""
    totals, start = ((bounds(tokens), CHUNK_TOKENS), (bounds(characters), CHUNK_CHARS)), 0
    while start < len(tokens):
        fits = min(int(np.searchsorted(t, t[start] + limit, "right")) - 1 for t, limit in totals)
        stop = min(max(fits, start + 1), start + CHUNK_ROWS)
        yield start, stop
        start = stop


def _tables(reader: pa.RecordBatchFileReader, together: int) -> Iterator[pa.Table]:
    """Record batches of a shard, joined until they hold `together` bytes of text."""
    taken: list[pa.RecordBatch] = []
    size = 0
    for batch in read_batches(reader):
        taken.append(batch)
        size += pc.sum(pc.binary_length(batch["text"])).as_py() or 0
        if size >= together:
            yield pa.Table.from_batches(taken)
            taken, size = [], 0
    if taken:
        yield pa.Table.from_batches(taken)
