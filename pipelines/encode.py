"""Stage 2: annotated documents to shard rows, a shard at a time.

The work is columnar: a batch of documents is tokenized into flat arrays, `pipelines.assemble` chooses
rows as spans of them, `pipelines.columns` lays all columns of up to 4,096 rows out at once. Python
touches each word once (to slice it out for the coarse vocabulary) and each row a few times, never
each token. Re-encoding for another tokenizer or graph reuses the annotations.
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

from corpora.manifest import Manifest
from corpora.plan import Block
from corpora.records import EXCERPT_CHARS, Reject
from corpora.schema import IGNORED_LABEL, SCHEMA_VERSION, row_schema
from corpora.shards import open_shard
from kg.graph import KnowledgeGraph
from kg.tree import GraftPolicy, build_trees
from pipelines import columns
from pipelines.assemble import (
    NONE,
    Cutter,
    Rows,
    classify_rows,
    pretrain_rows,
    sentence_bounds,
    tag_rows,
)
from pipelines.coarse import CoarseVocabulary
from pipelines.config import Config, ConfigError
from pipelines.engine import BlockWriter, Stage
from pipelines.ragged import Ints, bounds
from pipelines.source import Texts, Words, attach, flat_list, read_texts, read_words
from pipelines.tokenizer import Tokenizer, Tokens, load_tokenizer

CHUNK_ROWS = 4096
CHUNK_TOKENS = 1 << 20
"""Rows, and trunk tokens, laid out at a time: what bounds memory beside the batch itself."""


class LabelError(ValueError):
    """A document has a label that the dataset does not know."""


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

    @cached_property
    def cutter(self) -> Cutter:
        return Cutter(self.texts.strings, self.tokens)

    def sizes(self) -> Ints:
        """Tokens of each text."""
        return np.diff(self.tokens.offsets)


class Encode(Stage):
    """Annotated shard in, shard of training rows out. See the schema in `corpora.schema`.

    Counters: `records` (documents read), `rows`, `tokens`, `unknown_tokens`, `truncated_rows`; by
    task `labels_truncated`, `units_without_pieces`, and those of `assemble.pretrain_rows`; with
    words `words_without_tokens`; with the coarse group `coarse_tokens`, `unknown_coarse_tokens`; with
    the tree group those of `kg.rows.Trees`. Rejects: `no_tokens`, `no_labels`.
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
        self._config, self._config_path = config, config_path
        self._labels, self._deprels = list(labels), list(deprels)
        self._inherited = {k: v for k, v in annotated.identities.items() if k in ("parser", "segmenter")}
        self._graph_folder = graph
        self._groups = tuple(config.encode.columns)
        self._sides: tuple[str, ...] = ("", "_pair") if config.input.text_pair is not None else ("",)

    @staticmethod
    def check(config: Config, config_path: str) -> None:
        """Find a wrong tokenizer, vocabulary or budget before any work. Raises ConfigError."""
        tokenizer = _load_tokenizer(config, config_path)
        if "coarse" in config.encode.columns and config.encode.coarse is not None:
            CoarseVocabulary(config.encode.coarse.vocab, config_path, tokenizer)
        _policy(config)
        names = config.encode.labels or []
        if repeated := [n for i, n in enumerate(names) if n in names[:i]]:
            raise ConfigError(f"encode.labels: {repeated[0]!r} is listed twice")

    # --- what shapes the output ---------------------------------------------------------------

    @cached_property
    def fingerprint(self) -> str:
        config = self._config
        body = {
            "schema": SCHEMA_VERSION,
            "task": config.task,
            "seed": config.seed,
            "pair": len(self._sides) == 2,
            "score": config.input.score,
            "encode": config.encode.model_dump(mode="json", exclude={"tokenizer": True, "coarse": True}),
            "graph": config.graph.model_dump(mode="json", exclude={"triples"}) if config.graph else None,
            "labels": self._labels,
            "deprels": self._deprels,
            "identities": self.identities(),
            "versions": {name: version(name) for name in ("treegraft", "tokenizers")},
        }
        return hashlib.sha256(json.dumps(body, ensure_ascii=False, sort_keys=True).encode()).hexdigest()

    def identities(self) -> dict[str, Any]:
        found: dict[str, Any] = {"tokenizer": self._tokenizer.identity(), **self._inherited}
        if self._coarse is not None:
            found["coarse_vocab"] = self._coarse.identity()
        if self._graph is not None:
            info = self._graph.info
            found["graph"] = {"sha256": info.sha256, "triples": info.triples, "subjects": info.subjects}
        return found

    def metadata(self) -> dict[str, Any]:
        """The shards' schema metadata."""
        found = {
            "stage": self.name,
            "task": self._config.task,
            "labels": self._labels,
            "deprels": self._deprels if "syntax" in self._groups else [],
            "special_ids": self._tokenizer.special_ids,
            "vocab_size": self._tokenizer.vocab_size,
            "max_length": self._config.encode.max_length,
            "fingerprint": self.fingerprint,
            **self.identities(),
        }
        if self._coarse is not None:
            found["coarse_special_ids"] = self._coarse.special_ids
            found["coarse_vocab_size"] = self._coarse.vocab_size
        if self._graph is not None:
            policy = _policy(self._config)
            found |= {"tree_max_length": policy.max_length, "max_positions": policy.max_positions}
        return found

    @cached_property
    def _schema(self) -> pa.Schema:
        return row_schema(self._config.task, self._groups, self.metadata())

    def schema(self) -> pa.Schema:
        return self._schema

    # --- models, loaded where they are first needed and never pickled ---------------------------

    _LOADED = ("_tokenizer", "_coarse", "_graph", "_tokenize")

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in self._LOADED}

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return _load_tokenizer(self._config, self._config_path)

    @cached_property
    def _coarse(self) -> CoarseVocabulary | None:
        coarse = self._config.encode.coarse
        if "coarse" not in self._groups or coarse is None:
            return None
        return CoarseVocabulary(coarse.vocab, self._config_path, self._tokenizer)

    @cached_property
    def _graph(self) -> KnowledgeGraph | None:
        if "tree" not in self._groups:
            return None
        if self._graph_folder is None:
            raise ConfigError("encode.columns has 'tree': compile the graph first")
        return KnowledgeGraph.open(self._graph_folder)

    @cached_property
    def _tokenize(self) -> Any:
        return self._tokenizer.encode_ids  # one and the same object: the graph caches by it

    def setup(self) -> None:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the engine's processes are the parallelism
        self.schema()

    # --- the work -----------------------------------------------------------------------------

    def process(self, block: Block, out: BlockWriter) -> None:
        """Rows of the annotated shard that is the block's one part.

        Labelled tasks go batch by batch. Pretraining needs the whole shard: a random second
        segment may come from any of its documents.

        Raises LabelError for a label that the dataset does not know.
        """
        (part,) = block.parts
        reader = open_shard(part.path)
        if self._config.task == "pretrain":
            tables = iter([reader.read_all()])
        else:
            tables = (pa.Table.from_batches([reader.get_batch(i)]) for i in range(reader.num_record_batches))
        for table in tables:
            out.count(records=len(table))
            batch = self._read(table, block.split, out)
            make = {"pretrain": self._pretrain, "classify": self._classify, "tag": self._tag}
            self._write(batch, make[self._config.task](batch, out), out)

    def _read(self, table: pa.Table, split: str, out: BlockWriter) -> _Batch:
        texts = read_texts(table, self._sides)
        units, labels = np.zeros(0, np.int64), np.zeros(0, np.int16)
        if self._config.task == "tag":
            starts, offsets = flat_list(table["tag_starts"])
            stops, _ = flat_list(table["tag_stops"])
            tokens, units, empty = self._tokenizer.encode_units(texts.strings, starts, stops, offsets)
            labels = self._unit_labels(table, split, np.diff(offsets))
            out.count(units_without_pieces=empty)
        else:
            tokens = self._tokenizer.encode_texts(texts.strings)
        return _Batch(table, split, self._sides, texts, tokens, units, labels)

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
        if {"syntax", "coarse"} & set(self._groups) or self._matches_words:
            deprels = self._deprels if "syntax" in self._groups else None
            every = read_words(batch.table, batch.sides, batch.texts.chars, deprels)
            words, tied, dropped = attach(batch.tokens, batch.texts.chars, every)
            out.count(words_without_tokens=dropped)
            if self._coarse is not None:
                coarse = self._coarse.look_up(batch.texts, words)
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
        tokenizer = self._tokenizer
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
            made["token_labels"] = (trunk.scatter(_first_pieces(batch), IGNORED_LABEL), trunk.frame.offsets_r)
        laid = None
        if words is not None and tied is not None:
            laid = columns.lay_words(trunk, words, tied)
            if "syntax" in self._groups:
                made |= columns.syntax_columns(trunk, laid, words)
            if coarse is not None and self._coarse is not None:
                made |= columns.coarse_columns(trunk, laid, coarse, self._coarse.special_ids)
                known = coarse[laid.words_w] != self._coarse.special_ids["unk"]
                out.count(coarse_tokens=len(known), unknown_coarse_tokens=int((~known).sum()))
        if self._graph is not None:
            of_segments = None
            if self._matches_words and laid is not None and words is not None:
                of_segments = columns.segment_words(trunk, laid, words)
            trees = build_trees(
                self._graph, _policy(self._config), trunk.for_trees(of_segments), self._tokenize
            )
            out.count(**trees.counters)
            made |= columns.tree_columns(trees)
        return made

    @property
    def _matches_words(self) -> bool:
        graph = self._config.graph
        return "tree" in self._groups and graph is not None and graph.match == "words"

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
        owners = np.arange(len(table))
        known = self._indices(table["label"].combine_chunks(), table, owners, batch.split)
        return {"label": known.take(chosen), "label_score": scores}

    def _unit_labels(self, table: pa.Table, split: str, sizes: Ints) -> NDArray[np.int16]:
        """Label index of every source token; documents without labels have -100 throughout."""
        labelled = table["tag_labels"].is_valid().to_numpy()
        owners = np.repeat(np.arange(len(table)), sizes)
        flat = pa.concat_arrays(
            [c.flatten() for c in table["tag_labels"].chunks] or [pa.array([], pa.string())]
        )
        labels = np.full(len(owners), IGNORED_LABEL, np.int16)
        has = labelled[owners]
        if len(flat) != has.sum():
            raise LabelError(
                f"split {split!r} has {int(has.sum())} source tokens but {len(flat)} labels; annotate it again"
            )
        found = self._indices(flat, table, owners[has], split)
        labels[has] = pc.fill_null(found, IGNORED_LABEL).to_numpy(zero_copy_only=False)
        return labels

    def _indices(self, labels: pa.Array, table: pa.Table, owners: Ints, split: str) -> pa.Array:
        """Indices int32 of label names, null for null. `owners`: document of each, for the message."""
        found = pc.index_in(labels, value_set=pa.array(self._labels, pa.string()))
        unknown = pc.and_(found.is_null(), labels.is_valid())
        if pc.any(unknown).as_py():
            at = unknown.to_numpy(zero_copy_only=False).argmax()
            doc_id = table["doc_id"][int(owners[at])].as_py()
            raise LabelError(
                f"document {doc_id!r} of split {split!r} has the label {labels[int(at)].as_py()!r}, which is "
                f"none of {', '.join(map(repr, self._labels))}. List every label in `encode.labels`, or correct "
                "the data."
            )
        return found

    def _reject(self, table: pa.Table, which: NDArray[np.bool_], reason: str, out: BlockWriter) -> None:
        details = {
            "no_tokens": "expected text, found only characters that the tokenizer removes (controls, spaces)",
            "no_labels": "expected labelled source tokens, found none",
        }
        for index in np.flatnonzero(which).tolist():
            path, _, byte = table["source"][index].as_py().rpartition("@")
            excerpt = table["text"][index].as_py()[:EXCERPT_CHARS]
            out.reject(Reject(path, int(byte), None, reason, details[reason], excerpt))


def _first_pieces(batch: _Batch) -> NDArray[np.int16]:
    """Label of every token that begins a source token, -100 for the others."""
    first = np.diff(batch.units, prepend=-1) != 0
    return np.where(first, batch.unit_labels[batch.units], np.int16(IGNORED_LABEL)).astype(np.int16)


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


def _load_tokenizer(config: Config, config_path: str) -> Tokenizer:
    return load_tokenizer(config.encode.tokenizer, config_path=config_path, lowercase=config.encode.lowercase)


def _policy(config: Config) -> GraftPolicy:
    """Graft policy of the config, with defaults filled in. Raises ConfigError for budgets below the trunk's."""
    graph, trunk = config.graph, config.encode.max_length
    if graph is None:
        return GraftPolicy(max_length=trunk, max_positions=trunk)
    for field, value in (("max_length", graph.max_length), ("max_positions", graph.max_positions)):
        if value is not None and value < trunk:
            raise ConfigError(
                f"graph.{field} is {value}, less than encode.max_length = {trunk}: rows without any branch would "
                f"not fit. Raise graph.{field} or lower encode.max_length."
            )
    return GraftPolicy(
        match=graph.match,
        branches_per_mention=graph.branches_per_mention,
        predicate=graph.predicate,
        min_mention_length=graph.min_mention_length,
        max_object_length=graph.max_object_length,
        stop=frozenset(graph.stop),
        max_length=graph.max_length or trunk,
        max_positions=graph.max_positions or trunk,
    )
