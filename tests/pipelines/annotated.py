"""Annotated documents made by plain rules, and a whole encode run over them, for tests of stage 2."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from corpora.blocks import Block, Part
from corpora.manifest import Manifest, ShardRecord, SplitRecord, read_manifest, write_manifest
from corpora.schema import annotated_schema
from corpora.shards import ShardWriter, open_shard
from corpora.verify import Report, verify
from kg.compile import compile_graph
from pipelines.config import Config
from pipelines.encode.stage import Encode
from pipelines.engine import Run, manifest_of, run_block
from pipelines.recoarse import Recoarse

SAMPLES = Path(__file__).parents[2] / "corpora" / "samples"
DEPRELS = ["dep", "obj", "root", "subj"]
SENTENCE = re.compile(r"[^。！？\n]*[。！？\n]+|[^。！？\n]+")
WORD = re.compile(r"[A-Za-z0-9]+|[\u4e00-\u9fff]{1,2}|[^\sA-Za-z0-9\u4e00-\u9fff]")


@dataclass(frozen=True)
class Annotation:
    """Offsets and trees of one text."""

    sentences: list[tuple[int, int]]
    words: list[tuple[int, int]]
    heads: list[int]
    deprels: list[str]


def annotate(text: str, rng: random.Random) -> Annotation:
    """Sentences by their marks, words by a pattern, trees at random: one root a sentence."""
    sentences, words, heads, deprels = [], [], [], []
    for match in SENTENCE.finditer(text):
        own = [(match.start() + m.start(), match.start() + m.end()) for m in WORD.finditer(match.group())]
        if not own:
            continue
        sentences.append((own[0][0], own[-1][1]))
        base, order = len(words), list(range(len(own)))
        rng.shuffle(order)
        head = {order[0]: order[0]}
        for place, word in enumerate(order[1:], 1):
            head[word] = order[rng.randrange(place)]
        heads += [base + head[i] for i in range(len(own))]
        deprels += ["root" if head[i] == i else rng.choice(["dep", "obj", "subj"]) for i in range(len(own))]
        words += own
    return Annotation(sentences, words, heads, deprels)


def document(doc_id: str, text: str, *, pair: bool = False, seed: int = 0, **fields: Any) -> dict[str, Any]:
    """A row of `annotated_schema`; `text_pair` (may be None) among `fields` makes a pair."""
    rng = random.Random(f"{seed} {doc_id}")
    row: dict[str, Any] = {
        "doc_id": doc_id,
        "text": text,
        "language": "zh",
        "source": f"docs.jsonl@{len(doc_id)}",
    }
    unset = (
        "title",
        "categories",
        "text_pair",
        "label",
        "label_score",
        "tag_starts",
        "tag_stops",
        "tag_labels",
        "answers",
        "answer_starts",
        "is_impossible",
        "choice_starts",
        "choice_stops",
    )
    row |= dict.fromkeys(unset)
    row |= fields
    for suffix, own in (("", text), ("_pair", row["text_pair"])):
        if suffix and not pair:
            continue
        found = None if own is None else annotate(own, rng)
        row |= {
            f"sentence_starts{suffix}": found and [a for a, _ in found.sentences],
            f"sentence_stops{suffix}": found and [b for _, b in found.sentences],
            f"word_starts{suffix}": found and [a for a, _ in found.words],
            f"word_stops{suffix}": found and [b for _, b in found.words],
            f"word_heads{suffix}": found and found.heads,
            f"word_deprels{suffix}": found and found.deprels,
            f"word_pos{suffix}": found and ["X"] * len(found.words),
        }
    return row


def tagged(
    doc_id: str, units: Sequence[str], labels: Sequence[str] | None, joiner: str = ""
) -> dict[str, Any]:
    """A labelled sequence: source tokens put together with `joiner`."""
    starts, at = [], 0
    for unit in units:
        starts.append(at)
        at += len(unit) + len(joiner)
    stops = [a + len(u) for a, u in zip(starts, units, strict=True)]
    tags = None if labels is None else list(labels)
    return document(doc_id, joiner.join(units), tag_starts=starts, tag_stops=stops, tag_labels=tags)


def table_of(documents: Sequence[Mapping[str, Any]], *, pair: bool = False, parsed: bool = True) -> pa.Table:
    """The documents as stage 1 writes them."""
    schema = annotated_schema(parsed=parsed, pair=pair)
    columns = [pa.array([d[f.name] for d in documents], f.type) for f in schema]
    return pa.Table.from_arrays(columns, schema=schema)


HELD_OUT = {"files": {"train": "x.jsonl", "other": "y.jsonl"}, "train_splits": ["other"]}
"""What makes `train`, the split of every test, one that does not train."""


def config_of(task: str, *, groups: Sequence[str] = (), max_length: int = 32, **changes: Any) -> Config:
    """A config over the embedded vocabularies; `changes` replace or extend sections."""
    files = {"format": {"span": "squad", "choice": "race"}.get(task, "jsonl"), "files": "x.jsonl"}
    if task in ("classify", "tag"):
        files["label"] = "label"
    if task == "seq2seq":
        files["text_pair"] = "text_pair"
    encode: dict[str, Any] = {
        "tokenizer": str(SAMPLES / "vocab.txt"),
        "max_length": max_length,
        "columns": list(groups),
    }
    if "coarse" in groups:
        encode["coarse"] = {"vocab": str(SAMPLES / "coarse_vocab.txt")}
    body: dict[str, Any] = {"task": task, "language": "zh", "input": files, "encode": encode}
    if "tree" in groups:
        body["graph"] = {"triples": str(SAMPLES / "graph.spo")}
    for section, values in changes.items():
        body[section] = {**body.get(section, {}), **values} if isinstance(values, dict) else values
    return Config.model_validate(body)


@dataclass(frozen=True)
class Encoded:
    """What an encode run left: rows as dictionaries, the manifest, and `verify`'s report."""

    rows: list[dict[str, Any]]
    manifest: Manifest
    report: Report
    folder: Path

    @property
    def counters(self) -> dict[str, int]:
        return self.manifest.splits["train"].counters

    @property
    def rejects(self) -> dict[str, int]:
        return dict(self.manifest.splits["train"].rejects)


def make_stage(
    folder: Path,
    config: Config,
    *,
    labels: Sequence[str] = (),
    deprels: Sequence[str] = DEPRELS,
    triples: str | None = None,
) -> Encode:
    """The stage, with a graph compiled from `triples` (default: the embedded one) if rows have trees."""
    graph = None
    if "tree" in config.encode.columns:
        source = SAMPLES / "graph.spo"
        if triples is not None:
            source = folder / "graph.spo"
            source.write_text(triples, encoding="utf-8")
        graph = str(folder / "graph")
        compile_graph([str(source)], Path(graph))
    annotated = Manifest(stage="annotate", task=config.task, config_fingerprint="a", splits={})
    return Encode(config, "", annotated=annotated, labels=labels, deprels=deprels, graph=graph)


def encode(
    folder: Path,
    config: Config,
    documents: Sequence[Mapping[str, Any]],
    *,
    batch: int = 4096,
    **stage: Any,
) -> Encoded:
    """Encode one shard of documents, commit it, verify it, read it back."""
    folder.mkdir(parents=True, exist_ok=True)
    pair = config.input.has_pair
    parsed = config.annotate.parser != "none"
    table = table_of(documents, pair=pair, parsed=parsed)
    source = folder / "annotated.arrow"
    with ShardWriter(str(source), table.schema, max_batch_rows=batch) as shard:
        shard.write(table)
    made = make_stage(folder, config, **stage)
    block = Block("train", 0, 1, (Part(str(source), "annotated.arrow", 0, None),), source.stat().st_size)
    out = folder / "shards"
    (out / "_work").mkdir(parents=True, exist_ok=True)
    made.setup()
    record = run_block(made, block, str(out), lambda totals: None)
    write_manifest(str(out), manifest_of(Run(made, [block], str(out)), [record], config.task))
    rows = open_shard(str(out / block.shard_name)).read_all().to_pylist()
    for name, content in made.companions().items():
        (out / name).write_bytes(content)
    report = verify(str(out), coarse_text=Recoarse(str(out)))
    return Encoded(rows, read_manifest(str(out)), report, out)


__all__ = [
    "Encoded",
    "ShardRecord",
    "SplitRecord",
    "annotate",
    "config_of",
    "document",
    "encode",
    "table_of",
    "tagged",
]
