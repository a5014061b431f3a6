"""Stage 2: annotated documents to shard rows, a shard at a time.

The work is columnar: a batch of documents is tokenized into flat arrays, `pipelines.encode.assemble` chooses
rows as spans of them, `pipelines.encode.columns` lays all columns of up to 4,096 rows out at once. Python
touches each word once (to slice it out for the coarse vocabulary) and each row a few times, never
each token. From raw Chinese text to rows, words and coarse columns included, that takes 1.2 times the
CPU time of bare `tokenizers.encode_batch` and `jieba.cut` (`tests/bench/bench_encode.py`). Re-encoding
for another tokenizer or graph reuses the annotations.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from corpora.blocks import Block, Part
from corpora.manifest import Manifest
from corpora.plan import MAX_BLOCK_BYTES
from corpora.records import EXCERPT_CHARS, Reject
from corpora.schema import IGNORED_LABEL, SCHEMA_VERSION, row_schema
from corpora.shards import ShardError, check_shard, open_shard, read_batches
from pipelines.config import Config
from pipelines.encode import columns
from pipelines.encode.assemble import NONE, Cutter, Rows, classify_rows, tag_rows
from pipelines.encode.labels import Labels, first_pieces, source_tokens
from pipelines.encode.pretrain import pretrain_rows, sentence_bounds
from pipelines.encode.source import Texts, Words, attach, flat_list, read_texts, read_words
from pipelines.encode.tokenizer import Tokens
from pipelines.encode.tools import Tools
from pipelines.engine import BlockWriter, Stage
from pipelines.ragged import Ints, bounds
from pipelines.settings import encode_settings

CODE_VERSION = 2
"""Raised whenever this stage gives other rows for the same documents and config."""
CHUNK_ROWS = 4096
CHUNK_TOKENS = 1 << 20
"""Rows, and trunk tokens, laid out at a time: what bounds memory beside the batch itself."""


@dataclass(frozen=True)
class _Batch:
    """A batch of documents, tokenized."""

    table: pa.Table
    split: str
    sides: tuple[str, ...]
    texts: Texts
    tokens: Tokens
    units: Ints
    """`tag`: source token of each token"""
    unit_labels: NDArray[np.int16]
    """`tag`: label of each source token"""
    unit_spans: tuple[Ints, Ints]
    """`tag`: first character of each source token, and one past its last"""

    @cached_property
    def cutter(self) -> Cutter:
        return Cutter(self.texts.strings, self.tokens)

    def sizes(self) -> Ints:
        """Tokens of each text."""
        return np.diff(self.tokens.offsets)


class Encode(Stage):
    """Annotated shard in, shard of training rows out. See the schema in `corpora.schema`.

    Counters: `records` (documents read), `rows`, `tokens`, `unknown_tokens`, `truncated_rows`; by
    task `labels_truncated`, `units_without_pieces`, and those of `pretrain.pretrain_rows`; with
    words `words_without_tokens`; with the coarse group `coarse_tokens`, `unknown_coarse_tokens`; with
    the tree group those of `kg.tree.Trees`. Rejects: `no_tokens`, `no_labels`.
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
            "encode": config.encode.model_dump(mode="json", exclude={"tokenizer", "coarse"}),
            "graft": self._tools.policy_facts() if "tree" in self._groups else None,
            "labels": self._labels.names,
            "deprels": self._deprels,
            "identities": self.identities(),
            "versions": {name: version(name) for name in ("treegraft", "tokenizers")},
        }
        return hashlib.sha256(json.dumps(body, ensure_ascii=False, sort_keys=True).encode()).hexdigest()

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
        batch = self._read(table, split, out)
        make = {"pretrain": self._pretrain, "classify": self._classify, "tag": self._tag}
        self._write(batch, make[self._config.task](batch, out), out)

    def _read(self, table: pa.Table, split: str, out: BlockWriter) -> _Batch:
        texts = read_texts(table, self._sides)
        starts = stops = units = np.zeros(0, np.int64)
        labels = np.zeros(0, np.int16)
        if self._config.task == "tag":
            starts, offsets = flat_list(table["tag_starts"])
            stops, _ = flat_list(table["tag_stops"])
            tokens, units, empty = self._tools.tokenizer.encode_units(texts.strings, starts, stops, offsets)
            labels = self._labels.of_units(table, split, np.diff(offsets))
            out.count(units_without_pieces=empty)
        else:
            tokens = self._tools.tokenizer.encode_texts(texts.strings)
        return _Batch(table, split, self._sides, texts, tokens, units, labels, (starts, stops))

    def _pretrain(self, batch: _Batch, out: BlockWriter) -> Rows:
        encode = self._config.encode
        starts, offsets = flat_list(batch.table["sentence_starts"])
        sentences = sentence_bounds(batch.tokens, batch.texts.chars, starts, offsets)
        ids = batch.table["doc_id"].to_pylist()
        return pretrain_rows(
            encode.pretrain, encode.max_length, self._config.seed, ids, sentences, batch.cutter
        )

    def _classify(self, batch: _Batch, out: BlockWriter) -> Rows:
        count = len(batch.table)
        pairs = np.full((count, 2), NONE, np.int64)
        pairs[:, 0] = np.arange(count)
        if len(batch.sides) == 2:
            present = batch.table["text_pair"].is_valid().to_numpy()
            pairs[present, 1] = count + np.flatnonzero(present)
        empty = (pairs >= 0) & (batch.sizes()[pairs] == 0)
        self._reject(batch.table, empty.any(axis=1), "no_tokens", out)
        keep = ~empty.any(axis=1)
        return classify_rows(batch.tokens, pairs[keep], self._config.encode.max_length, batch.cutter)

    def _tag(self, batch: _Batch, out: BlockWriter) -> Rows:
        unlabelled = batch.table["tag_starts"].is_null().to_numpy()
        empty = (batch.sizes() == 0) & ~unlabelled
        self._reject(batch.table, unlabelled, "no_labels", out)
        self._reject(batch.table, empty, "no_tokens", out)
        keep = np.flatnonzero(~(unlabelled | empty))
        return tag_rows(batch.tokens, batch.units, keep, self._config.encode.max_length, batch.cutter)

    def _write(self, batch: _Batch, rows: Rows, out: BlockWriter) -> None:
        out.count(**rows.counters)
        words = tied = coarse = None
        if {"syntax", "coarse"} & set(self._groups) or self._tools.matches_words:
            deprels = self._deprels if "syntax" in self._groups else None
            every = read_words(batch.table, batch.sides, batch.texts.chars, deprels)
            words, tied, dropped = attach(batch.tokens, batch.texts.chars, every)
            out.count(words_without_tokens=dropped)
            if self._tools.coarse is not None:
                coarse = self._tools.coarse.look_up(batch.texts, words)
        ids, labels = _row_ids(batch.table, rows), self._labels_of(batch, rows)
        for start, stop in _chunks(rows.lengths()):
            part = rows.slice(start, stop)
            named: dict[str, Any] = {"id": ids[start:stop]} | {k: v[start:stop] for k, v in labels.items()}
            named |= self._columns(batch, part, words, tied, coarse, out)
            out.write(columns.record_batch(self._schema, named))

    def _columns(
        self,
        batch: _Batch,
        rows: Rows,
        words: Words | None,
        tied: Ints | None,
        coarse: NDArray[np.int32] | None,
        out: BlockWriter,
    ) -> dict[str, Any]:
        tokenizer = self._tools.tokenizer
        trunk = columns.lay_trunk(
            rows,
            batch.texts,
            batch.tokens,
            tokenizer.special_ids,
            whole_texts=self._config.task != "pretrain",
        )
        unknown = int((trunk.ids_t == tokenizer.unknown_id).sum())
        out.count(rows=len(rows), tokens=len(trunk.ids_t), unknown_tokens=unknown)
        made: dict[str, Any] = {"text": trunk.texts_r, "text_pair": trunk.pairs_r, **trunk.columns()}
        if self._config.task == "tag":
            made["token_labels"] = (
                trunk.scatter(first_pieces(batch.units, batch.unit_labels), IGNORED_LABEL),
                trunk.frame.offsets_r,
            )
            made |= source_tokens(rows, batch.units, *batch.unit_spans)
        laid = None
        if words is not None and tied is not None:
            laid = columns.lay_words(trunk, words, tied)
            if "syntax" in self._groups:
                made |= columns.syntax_columns(trunk, laid, words)
            if coarse is not None and self._tools.coarse is not None:
                made |= columns.coarse_columns(trunk, laid, coarse, self._tools.coarse.special_ids)
                known = coarse[laid.words_w] != self._tools.coarse.special_ids["unk"]
                out.count(coarse_tokens=len(known), unknown_coarse_tokens=int((~known).sum()))
        if self._tools.trees is not None:
            of_segments = None
            if self._tools.matches_words and laid is not None and words is not None:
                of_segments = columns.segment_words(trunk, laid, words)
            trunks = trunk.for_trees(of_segments)
            trees = self._tools.trees.build(trunks)
            out.count(**trees.counters)
            made |= columns.tree_columns(trees)
        return made

    # --- labels and rejects -------------------------------------------------------------------

    def _labels_of(self, batch: _Batch, rows: Rows) -> dict[str, pa.Array]:
        if self._config.task == "tag":
            return {}
        if self._config.task == "pretrain":
            labels = pa.nulls(len(rows), pa.int32()) if rows.labels is None else pa.array(rows.labels)
            return {"label": labels}
        table, chosen = batch.table, pa.array(rows.documents)
        scores = table["label_score"].combine_chunks().take(chosen)
        if self._config.input.score:
            return {"label": pa.nulls(len(rows), pa.int32()), "label_score": scores}
        known = self._labels.of_documents(table, batch.split)
        return {"label": known.take(chosen), "label_score": scores}

    def _reject(self, table: pa.Table, which: NDArray[np.bool_], reason: str, out: BlockWriter) -> None:
        details = {
            "no_tokens": "expected text, found only characters that the tokenizer removes (controls, spaces)",
            "no_labels": "expected labelled source tokens, found none",
        }
        for index in np.flatnonzero(which).tolist():
            path, _, byte = table["source"][index].as_py().rpartition("@")
            excerpt = table["text"][index].as_py()[:EXCERPT_CHARS]
            out.reject(Reject(path, int(byte), None, reason, details[reason], excerpt))


def _check(part: Part) -> None:
    """The annotated shard must be there as it was written; its folder has no say in what became of it."""
    try:
        check_shard(part.path, part.sha256)
    except (OSError, ShardError) as error:
        raise ValueError(
            f"{error}. Annotate the corpus again: treegraft annotate CONFIG --overwrite"
        ) from error


def _row_ids(table: pa.Table, rows: Rows) -> list[str]:
    """`<doc_id>#<n>`, n counting the rows of a document from 0."""
    names = table["doc_id"].to_pylist()
    seen = [0] * len(names)
    ids = []
    for document in rows.documents.tolist():
        ids.append(f"{names[document]}#{seen[document]}")
        seen[document] += 1
    return ids


def _chunks(lengths: Ints) -> Iterator[tuple[int, int]]:
    """Ranges of rows within `CHUNK_ROWS` and, but for a single longer row, `CHUNK_TOKENS`."""
    total, start = bounds(lengths), 0
    while start < len(lengths):
        fits = int(np.searchsorted(total, total[start] + CHUNK_TOKENS, "right")) - 1
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
