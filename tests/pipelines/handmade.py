"""A small dataset made by hand for the tests of `inspect` and `stats`: a token per character."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from corpora.manifest import Manifest, ShardRecord, SplitRecord, write_manifest
from corpora.schema import annotated_schema, row_schema
from corpora.shards import ShardWriter
from kg.compile import compile_graph

SPECIAL = {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
DEPRELS = ["root", "nsubj", "obj", "punct", "advmod"]
LABELS = ["negative", "positive"]
TRIPLES = "北京\t位于\t华北\n苹果\t类别\t水果\n苹果\t颜色\t红色\n"
"""Ids: 0 is about 北京, 1 and 2 are about 苹果."""


class Vocabulary:
    """Ids for strings in the order in which they are met; the `unknown` ones have none."""

    def __init__(self, *unknown: str) -> None:
        self.strings = [f"[{name.upper()}]" for name in SPECIAL]
        self.unknown = {*unknown, "\n"}

    def __getitem__(self, string: str) -> int:
        if string in self.unknown:
            return SPECIAL["unk"]
        if string not in self.strings:
            self.strings.append(string)
        return self.strings.index(string)


def make_row(
    fine: Vocabulary,
    coarse: Vocabulary,
    id: str,
    words: Sequence[Sequence[str]],
    heads: Sequence[int],
    deprels: Sequence[int] | None = None,
    grafts: Sequence[tuple[int, int, Sequence[tuple[Any, ...]]]] = (),
    **labels: object,
) -> dict[str, object]:
    """A row of sentences of words; `grafts` are (first token, one past the last, [branch, ...]) with
    branches (triple, object) or (triple, object, [branches of its own])."""
    flat = [w for sentence in words for w in sentence]
    text = "".join(flat)
    owner = [i for i, w in enumerate(flat) for _ in w]
    children: dict[int, list[int]] = {}
    for i, head in enumerate(heads):
        children.setdefault(-1 if head == i else head, []).append(i)
    enter, leave, clock = [0] * len(flat), [0] * len(flat), 0

    def visit(i: int) -> None:
        nonlocal clock
        enter[i], clock = clock, clock + 1
        for child in children.get(i, []):
            visit(child)
        leave[i] = clock

    for root in children.get(-1, []):
        visit(root)
    ids = [SPECIAL["cls"], *(fine[c] for c in text), SPECIAL["sep"]]
    length = len(ids)
    tree: list[tuple[int, int, int, int, int]] = []
    branch_triples: list[int] = []
    parents: list[int] = []

    def grow(branches: Sequence[tuple[Any, ...]], soft: int, mention: int, parent: int) -> None:
        for triple, string, *own in branches:
            branch_triples.append(triple)
            parents.append(parent)
            number = len(parents)
            tree.extend((fine[c], soft + k, number, mention, -1) for k, c in enumerate(string))
            if own:
                grow(own[0], soft + len(string), mention, number)

    for i, token in enumerate(ids):
        mention = next((m for m, (a, b, _) in enumerate(grafts) if a <= i < b), -1)
        tree.append((token, i, 0, mention, i))
        for m, (_, stop, branches) in enumerate(grafts):
            if stop == i + 1:
                grow(branches, i + 1, m, 0)
    coarse_ids = [SPECIAL["cls"], *(coarse[w] for w in flat), SPECIAL["sep"]]
    columns = zip(*tree, strict=True)
    tree_ids, soft, branch, mention_of, trunk = (list(c) for c in columns)
    return {
        "id": id,
        "text": text,
        "text_pair": None,
        "input_ids": ids,
        "token_type_ids": [0] * length,
        "char_starts": [0, *range(len(text)), 0],
        "char_stops": [0, *range(1, len(text) + 1), 0],
        "word_index": [-1, *owner, -1],
        "word_heads": list(heads),
        "word_deprels": list(deprels or [int(h != i) for i, h in enumerate(heads)]),
        "word_dfs_in": enter,
        "word_dfs_out": leave,
        "sentence_index": [s for s, sentence in enumerate(words) for _ in sentence],
        "coarse_ids": coarse_ids,
        "coarse_token_type_ids": [0] * len(coarse_ids),
        "coarse_index": [0, *(o + 1 for o in owner), len(coarse_ids) - 1],
        "tree_ids": tree_ids,
        "tree_token_type_ids": [0] * len(tree),
        "tree_soft_positions": soft,
        "tree_branch": branch,
        "tree_mention": mention_of,
        "tree_trunk_index": trunk,
        "branch_triples": branch_triples,
        "branch_parents": parents,
        "tag_starts": [*range(len(text))],
        "tag_stops": [*range(1, len(text) + 1)],
        **labels,
    }


def write_dataset(
    folder: Path,
    splits: dict[str, list[list[dict[str, object]]]],
    fine: Vocabulary,
    coarse: Vocabulary,
    *,
    task: str = "classify",
    groups: Sequence[str] = ("syntax", "coarse", "tree"),
    labels: Sequence[str] = LABELS,
    counters: dict[str, int] | None = None,
    rejects: dict[str, int] | None = None,
    deprels: Sequence[str] = DEPRELS,
    tokens: bool = True,
    graph: bool = True,
    max_batch_rows: int = 3,
) -> Path:
    """Shards (a list of rows each) per split, the manifest, vocabularies and graph."""
    folder.mkdir(parents=True, exist_ok=True)
    sha256 = ""
    if graph:
        (folder.parent / "g.spo").write_text(TRIPLES, encoding="utf-8")
        sha256 = compile_graph([str(folder.parent / "g.spo")], folder / "graph").sha256
    metadata = {
        "stage": "encode",
        "task": task,
        "labels": list(labels),
        "deprels": list(deprels),
        "special_ids": SPECIAL,
        "coarse_special_ids": SPECIAL,
        "max_length": 16,
        "tree_max_length": 24,
        "max_positions": 24,
        "graph": {"sha256": sha256} if graph else None,
    }
    schema = row_schema(task, groups, metadata)
    records = {}
    for split, shards in splits.items():
        written = []
        for index, rows in enumerate(shards):
            name = f"{split}-{index:05d}-of-{len(shards):05d}.arrow"
            with ShardWriter(str(folder / name), schema, max_batch_rows=max_batch_rows) as writer:
                kept = [{name: row.get(name) for name in schema.names} for row in rows]
                writer.write(pa.Table.from_pylist(kept, schema=schema))
            first = index == 0
            written.append(
                ShardRecord.of(writer.result, counters if first else None, rejects if first else None)
            )
        records[split] = SplitRecord.of(written)
    write_manifest(str(folder), Manifest(stage="encode", task=task, config_fingerprint="f", splits=records))
    if tokens:
        (folder / "tokens.txt").write_text("\n".join(fine.strings) + "\n", encoding="utf-8")
        (folder / "coarse_tokens.txt").write_text("\n".join(coarse.strings) + "\n", encoding="utf-8")
    return folder


def write_annotated(folder: Path, document: dict[str, object]) -> Path:
    """An annotated folder with one parsed document."""
    folder.mkdir(parents=True, exist_ok=True)
    schema = annotated_schema(parsed=True, pair=False, metadata={"stage": "annotate", "task": "tag"})
    plain = pa.schema([pa.field(f.name, _plain(f.type), nullable=f.nullable) for f in schema])
    name = "train-00000-of-00001.arrow"
    with ShardWriter(str(folder / name), schema) as writer:
        writer.write(pa.Table.from_pylist([document], schema=plain))
    record = SplitRecord.of([ShardRecord.of(writer.result)])
    write_manifest(
        str(folder), Manifest(stage="annotate", task="tag", config_fingerprint="f", splits={"train": record})
    )
    return folder


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind) and pa.types.is_dictionary(kind.value_type):
        return pa.list_(pa.string())
    return kind
