"""Figures of a dataset in one pass: `treegraft stats DIR`.

Record batches are read one at a time and counted as flat arrays into histograms, so memory does
not grow with the rows; only the count of grafted triples grows, with the triples that occur.
What was dropped and rejected while the data was made comes from the manifest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora import files
from corpora.manifest import MANIFEST, ManifestError, read_manifest
from corpora.schema import IGNORED_LABEL
from pipelines.view.branchview import triple_of
from pipelines.view.folder import ANNOTATED, Folder, open_folder
from pipelines.view.reasons import of_questions
from pipelines.view.rowview import NSP, UNKNOWN
from pipelines.view.splitstats import SplitStats, flat_list, sums
from pipelines.view.stats_tasks import COUNTED, count_questions, finish_windows, rows_with, sequences

TOP = 20
TOP_TRIPLES = 10


@dataclass
class Stats:
    """Figures of a folder: by split, and over all of them."""

    path: str
    stage: str
    task: str
    max_length: int | None
    splits: dict[str, SplitStats]
    total: SplitStats
    top_triples: list[tuple[str, int]]
    """Most grafted triples as text with file and line, over all splits."""
    notes: list[str]


def collect(folder: str | Path, progress: Callable[[int], None] = lambda rows: None) -> Stats:
    """Count everything in a dataset folder, shards in order, one record batch at a time.

    `progress` is called with the rows read so far. Annotated folders are counted too: documents are
    the rows then, and characters stand for tokens.

    Raises FolderError: not a dataset folder, or a shard that cannot be read.
    """
    opened = open_folder(folder)
    splits: dict[str, SplitStats] = {}
    read = 0
    earlier = _earlier(opened)
    for name, shards in opened.shards.items():
        split = splits[name] = SplitStats(shards=len(shards))
        for batch in opened.batches(name):
            split.rows += batch.num_rows
            if opened.stage == "annotate":
                _count_documents(split, batch, opened.metadata)
            else:
                _count_rows(split, batch, opened.metadata)
            progress(read := read + batch.num_rows)
        record = opened.manifest.splits.get(name) if opened.manifest else None
        if record is not None:
            split.counters.update(record.counters)
            split.rejects.update(record.rejects)
        finish_windows(split)
        rejects, counters = earlier.get(name, ({}, {}))
        split.rejects.update(rejects)
        split.counters.update(counters)
    total = SplitStats()
    for split in splits.values():
        total.merge(split)
    return Stats(
        path=opened.path,
        stage=opened.stage,
        task=str(opened.metadata.get("task", "")),
        max_length=opened.metadata.get("max_length"),
        splits=splits,
        total=total,
        top_triples=_top_triples(opened, total),
        notes=opened.notes,
    )


# --- one record batch -------------------------------------------------------------------------


def _count_rows(split: SplitStats, batch: pa.RecordBatch, meta: dict[str, Any]) -> None:
    names = set(batch.schema.names)
    ids, offsets = sequences(batch, "input_ids")
    lengths = np.diff(offsets)
    split.histogram("tokens").add(lengths)
    text, unknown = _known(ids, meta.get("special_ids") or {})
    full = rows_with(lengths >= meta["max_length"], batch) if meta.get("max_length") else 0
    split.tally.update(tokens=len(ids), text_tokens=text, unknown=unknown, full=full)
    if "word_heads" in names:
        heads, rows = sequences(batch, "word_heads")
        sentence, _ = sequences(batch, "sentence_index")
        first = np.zeros(len(heads), bool)
        first[rows[:-1][np.diff(rows) > 0]] = True
        first[1:] |= sentence[1:] != sentence[:-1]
        relations, _ = sequences(batch, "word_deprels")
        firsts = np.flatnonzero(first)
        split.histogram("words").add(np.diff(rows))
        split.histogram("sentences").add(np.diff(np.searchsorted(firsts, rows)))
        _count_parse(split, heads, rows, firsts)
        _count_names(split.deprels, relations, meta.get("deprels") or [])
    if "coarse_ids" in names:
        coarse, rows = sequences(batch, "coarse_ids")
        text, unknown = _known(coarse, meta.get("coarse_special_ids") or {})
        split.histogram("coarse tokens").add(np.diff(rows))
        split.tally.update(coarse_tokens=len(coarse), coarse_text_tokens=text, coarse_unknown=unknown)
    if "tree_ids" in names:
        _count_trees(split, batch, meta.get("special_ids") or {})
    _count_labels(split, batch, meta)


def _count_trees(split: SplitStats, batch: pa.RecordBatch, special: dict[str, int]) -> None:
    ids, _ = sequences(batch, "tree_ids")
    branch, rows = sequences(batch, "tree_branch")
    mention, _ = sequences(batch, "tree_mention")
    soft, _ = sequences(batch, "tree_soft_positions")
    triples, per_row = sequences(batch, "branch_triples")
    branches = np.diff(per_row)
    # An anchor and its branches are neighbours, so every run of one number is a mention; [CLS], which
    # is never one, parts the rows.
    first = mention >= 0
    first[1:] &= mention[1:] != mention[:-1]
    split.histogram("tree tokens").add(np.diff(rows))
    split.histogram("grafted mentions").add(sums(first, rows))
    split.histogram("branches").add(branches)
    split.histogram("branch tokens").add(sums(branch > 0, rows))
    if len(at := rows[:-1][np.diff(rows) > 0]):
        split.histogram("highest soft position").add(np.maximum.reduceat(soft, at))
    _, unknown = _known(ids[branch > 0], special)
    split.tally.update(
        rows_with_branches=rows_with(branches > 0, batch),
        branches=len(triples),
        deep_branches=int((sequences(batch, "branch_parents")[0] > 0).sum()),
        branch_tokens=int((branch > 0).sum()),
        unknown_in_branches=unknown,
    )
    split.triples.add(triples)


def _count_documents(split: SplitStats, batch: pa.RecordBatch, meta: dict[str, Any]) -> None:
    names = set(batch.schema.names)
    split.histogram("characters").add(_integers(pc.utf8_length(batch.column("text"))))
    for suffix in ("", "_pair"):
        if f"word_starts{suffix}" not in names:
            continue
        starts, rows = flat_list(batch, f"word_starts{suffix}")
        cuts, cut_rows = flat_list(batch, f"sentence_starts{suffix}")
        split.histogram("words").add(np.diff(rows))
        split.histogram("sentences").add(np.diff(cut_rows))
        if f"word_heads{suffix}" not in names:
            continue
        # One key for (document, character): sentences of all documents are searched at once.
        of_cut = (np.repeat(np.arange(batch.num_rows), np.diff(cut_rows)) << 32) + cuts
        of_word = (np.repeat(np.arange(batch.num_rows), np.diff(rows)) << 32) + starts
        sentence = np.searchsorted(of_cut, of_word, side="right")
        first = np.flatnonzero(np.diff(sentence, prepend=-1))
        heads, _ = flat_list(batch, f"word_heads{suffix}")
        _count_parse(split, heads, rows, first)
        relations = batch.column(f"word_deprels{suffix}").flatten()
        _count_names(split.deprels, _integers(relations.indices), relations.dictionary.to_pylist())
    count_questions(split, batch)
    split.labels.update(_texts(batch.column("label")))
    split.token_labels.update(_texts(batch.column("tag_labels").flatten()))
    if meta.get("task") == "classify":
        _count_unlabelled(split, batch)


def _count_parse(split: SplitStats, heads: np.ndarray, rows: np.ndarray, firsts: np.ndarray) -> None:
    """Depth per sentence, distance to the head. `heads` count within the row; `firsts`, int64[sentences],
    is the flat index of each sentence's first word."""
    own = np.arange(len(heads), dtype=np.int32)
    flat = heads + np.repeat(rows[:-1].astype(np.int32), np.diff(rows))
    flat = np.where((flat >= 0) & (flat < len(own)), flat, own)
    distance = np.abs(flat - own)
    split.histogram("head distance").add(distance[distance > 0])
    if len(own):
        split.histogram("parse depth").add(np.maximum.reduceat(depths(flat), firsts))


def depths(heads: np.ndarray) -> np.ndarray:
    """Edges from each word to its root, int32[W]; `heads` int[W] are flat, a root is its own.

    Pointer doubling: log2 of the depth passes over the words. A cycle (a wrong row) ends after 16.
    """
    up = heads.astype(np.int32)
    depth = (up != np.arange(len(up), dtype=np.int32)).astype(np.int32)
    for _ in range(16):
        step = depth[up]
        if not step.any():
            break
        depth, up = depth + step, up[up]
    return depth


def _count_labels(split: SplitStats, batch: pa.RecordBatch, meta: dict[str, Any]) -> None:
    names = meta.get("labels") or []
    if (count := COUNTED.get(str(meta.get("task")))) is not None:
        count(split, batch)
    if "label" not in batch.schema.names and meta.get("task") != "tag":
        return
    if meta.get("task") == "tag":
        labels, _ = flat_list(batch, "token_labels")
        _count_names(split.token_labels, labels[labels != IGNORED_LABEL], names)
        return
    _count_unlabelled(split, batch)
    labels = batch.column("label")
    if meta.get("task") == "pretrain":
        for entry in pc.value_counts(labels).to_pylist():
            split.labels[NSP.get(entry["values"], UNKNOWN)] += entry["counts"]
        return
    if meta.get("task") == "choice":
        for entry in pc.value_counts(labels.drop_null()).to_pylist():
            split.labels[f"choice {entry['values']}"] += entry["counts"]
        return
    _count_names(split.labels, _integers(labels.drop_null()), names)
    scores = batch.column("label_score").drop_null()
    if len(scores):
        values = scores.to_numpy().astype(np.float64)
        split.add_scores(len(values), float(values.sum()), float(values.min()), float(values.max()))


def _count_unlabelled(split: SplitStats, batch: pa.RecordBatch) -> None:
    missing = batch.column("label").is_null()
    if "label_score" in batch.schema.names:
        missing = pc.and_(missing, batch.column("label_score").is_null())
    split.tally["unlabelled"] += missing.true_count


def _count_names(counts: Counter[str], indices: np.ndarray, names: Sequence[str]) -> None:
    """Count indices under their names; what points nowhere counts under `?`."""
    inside = indices[(indices >= 0) & (indices < len(names))]
    for i, n in enumerate(np.bincount(inside, minlength=len(names)).tolist()):
        if n:
            counts[names[i]] += n
    if len(inside) < len(indices):
        counts[UNKNOWN] += len(indices) - len(inside)


def _known(ids: np.ndarray, special: dict[str, int]) -> tuple[int, int]:
    """How many ids stand for text, and how many of those are unknown."""
    control = sum(int((ids == special[name]).sum()) for name in ("pad", "cls", "sep") if name in special)
    return len(ids) - control, int((ids == special["unk"]).sum()) if "unk" in special else 0


def _integers(array: pa.Array) -> np.ndarray:
    return array.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)


def _texts(array: pa.Array) -> dict[str, int]:
    return {e["values"]: e["counts"] for e in pc.value_counts(array).to_pylist() if e["values"] is not None}


def _earlier(folder: Folder) -> dict[str, tuple[dict[str, int], dict[str, int]]]:
    """By split, what reading and annotating rejected, and what it counted of questions and answers, where the
    annotated documents lie in the folder."""
    path = files.join(folder.path, ANNOTATED)
    if folder.stage != "encode" or not files.exists(files.join(path, MANIFEST)):
        return {}
    try:
        manifest = read_manifest(path)
    except ManifestError as error:
        folder.notes.append(str(error))
        return {}
    return {
        name: (
            {f"{reason} (annotate)": n for reason, n in split.rejects.items()},
            {f"{key} (annotate)": n for key, n in split.counters.items() if of_questions(key)},
        )
        for name, split in manifest.splits.items()
    }


def _top_triples(folder: Folder, total: SplitStats) -> list[tuple[str, int]]:
    top = total.triples.top(TOP_TRIPLES)
    if not top:
        return []
    graph = folder.graph()
    found = [(triple_of(graph, triple), count) for triple, count in top]
    return [(f"{t.text}  {t.source}".rstrip(), count) for t, count in found]
