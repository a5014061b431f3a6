"""Opening splits: a dataset's by its manifest, files by their names, several as one; and what can be wrong there."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from corpora import files
from corpora.manifest import Manifest, ShardRecord, read_manifest
from corpora.schema import (
    GROUPS,
    ROW_COLUMNS,
    TASKS,
    Column,
    annotated_first,
    read_metadata,
    row_columns,
)
from corpora.shards import check_shard
from models.stream.cache import Cache
from models.stream.mapped import Mapped
from models.stream.shards import Shard, Split, SplitError

_TOKENS = "give both configs one encode.tokenizer"
_COARSE = "give both configs one encode.coarse.vocab"
_MUST_AGREE = {"special_ids": _TOKENS, "vocab_size": _TOKENS}
"""What splits that are joined must have in common, else the same number would mean two things; and what to do."""
_OF_COLUMNS = {
    "coarse_ids": {"coarse_special_ids": _COARSE, "coarse_vocab_size": _COARSE},
    "word_deprels": {"deprels": "give both configs one annotate.parser"},
}
"""The same, where these columns are read."""
_OF_LABELS = {
    "task": "without labels (task mlm, labelled=False) tasks may differ, but targets go with targets alone",
    "labels": "give both configs one list, encode.labels",
}
"""The same, where labels are read."""
_LONGEST = ("max_length", "max_positions", "tree_max_length")
"""What the metadata of joined splits has of the one that has most."""


class UnknownSplitError(SplitError):
    """A dataset has no split of this name, or several and none is named."""

    exit_code = 2


def open_split(
    folder: str,
    split: str | None = None,
    columns: Iterable[str] = ("input_ids",),
    *,
    verify: bool = False,
    cache: Cache | None = None,
) -> Split:
    """A split of the dataset that `folder` holds, a local folder or a URI (`s3://`, `gs://`, `hf://`, `file://`).

    Args:
        folder: what `treegraft encode` or `preprocess` wrote; its manifest says which shards belong to it.
        split: `train`, ...; may be left out where there is one alone.
        columns: names of the columns to read.
        verify: read every shard that is on this machine once and compare its hash with the manifest's. (Remote ones
            are compared whenever they are fetched; what lies in the cache is then trusted as a local shard is, by its
            size, unless this is asked for: what is other bytes is thrown out, to be fetched anew.)
        cache: where remote shards are kept; by default `Cache()`.

    Raises:
        ManifestError: the folder is missing, unfinished, or its manifest foreign or damaged.
        ShardError: a shard is missing, damaged, or not what the manifest says.
        UnknownSplitError: there is no such split, or which of several is not said.
        SplitError: the split is empty, lacks a column, or is of another stage or schema version.
    """
    columns = tuple(dict.fromkeys(columns))
    if files.is_uri(folder):
        cache = cache or Cache()
        manifest = cache.manifest(folder)
    else:
        cache, manifest = None, read_manifest(folder)
    name, records = _records(folder, manifest, split)
    shards = [Shard(files.join(folder, r.name), r.rows, r, cache) for r in records if r.rows]
    for record in records if verify else []:
        if cache is None:
            check_shard(files.join(folder, record.name), record.sha256)
        else:
            cache.verify(record)
    return _opened(f"{folder} ({name})", shards, columns, lambda: (_again, (folder, name, columns, cache)))


def _again(folder: str, split: str, columns: Sequence[str], cache: Cache | None) -> Split:
    return open_split(folder, split, columns, cache=cache)


def open_files(paths: Iterable[str], columns: Iterable[str] = ("input_ids",)) -> Split:
    """A split of the local shards named, in this order, with or without a manifest beside them.

    Raises as `open_split` does, and SplitError where no file is named.
    """
    names, columns = [str(path) for path in paths], tuple(dict.fromkeys(columns))
    if not names:
        raise SplitError("no file is named: give at least one shard")
    if uri := next((name for name in names if files.is_uri(name)), None):
        raise SplitError(f"{uri} is not local: open its folder with open_split, which knows its manifest")
    shards = [Shard(name, Mapped(name).rows) for name in names]
    shards = [shard for shard in shards if shard.rows]
    if not shards:
        raise SplitError(f"the files named hold no rows: {', '.join(names[:3])}")
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return _opened(f"{names[0]}{more}", shards, columns, lambda: (open_files, (names, columns)))


def join_splits(splits: Sequence[Split], labelled: bool = True) -> Split:
    """Several splits as one: rows of the first, then of the second, and so on.

    Its metadata are those of the first, but for lengths, which are the longest of all.

    Args:
        splits: opened with the same columns.
        labelled: whether labels are read. Else splits of any tasks can be joined, but that of rows with a target
            (`seq2seq`) and that of others cannot.

    Raises SplitError where they read different columns, or where their ids would mean different things
    (task, labels, special tokens, sizes of vocabularies; those of coarse tokens, and `deprels`, where columns of
    them are read).
    """
    if not splits:
        raise SplitError("no split is given to join")
    first = splits[0]
    for other in splits[1:]:
        if other.columns != first.columns:
            raise SplitError(
                f"{other.name} is read with columns {', '.join(other.columns)}, {first.name} with "
                f"{', '.join(first.columns)}: open both with the same"
            )
        targets = {split.metadata.get("task") == "seq2seq" for split in (first, other)}
        same = dict(_OF_LABELS if labelled or len(targets) > 1 else {}) | _MUST_AGREE
        for column, keys in _OF_COLUMNS.items():
            same |= keys if column in first.columns else {}
        for key, remedy in same.items():
            if (mine := first.metadata.get(key)) != (theirs := other.metadata.get(key)):
                raise SplitError(
                    f"{first.name} and {other.name} cannot be joined: {key} is {mine!r} and {theirs!r}; {remedy}"
                )
    if len(splits) == 1:
        return first
    shards = [Shard(s.path, s.rows, s.record, s.cache, s.mapped) for split in splits for s in split.shards]
    prints = "+".join(split.metadata.get("fingerprint", "")[:16] for split in splits)
    lengths = {
        key: max(split.metadata.get(key) or 0 for split in splits)
        for key in _LONGEST
        if key in first.metadata
    }
    metadata = first.metadata | lengths | {"fingerprint": prints}
    name = ", ".join(split.name for split in splits)
    return Split(name, shards, first.schema, metadata, lambda: (join_splits, (list(splits), labelled)))


def _records(folder: str, manifest: Manifest, split: str | None) -> tuple[str, list[ShardRecord]]:
    if manifest.stage != "encode":
        raise SplitError(
            f"{folder} holds annotated documents, not rows: run `treegraft encode` on them and give its folder"
        )
    known = ", ".join(manifest.splits) or "none"
    if split is None:
        if len(manifest.splits) != 1:
            raise UnknownSplitError(f"{folder} has several splits: name one of {known}")
        split = next(iter(manifest.splits))
    if split not in manifest.splits:
        raise UnknownSplitError(f"{folder} has no split {split!r}; it has {known}")
    record = manifest.splits[split]
    if record.rows != (rows := sum(shard.rows for shard in record.shards)):
        raise SplitError(
            f"the manifest of {folder} gives split {split!r} {record.rows:,} rows and shards of {rows:,}: it is "
            "damaged or was edited; run the pipeline again"
        )
    if not record.rows:
        rejects = sum(record.rejects.values())
        why = f" ({rejects:,} records were rejected, see its rejects folder)" if rejects else ""
        raise SplitError(f"split {split!r} of {folder} holds no rows{why}; nothing can be read from it")
    return split, record.shards


def _opened(
    name: str, shards: list[Shard], columns: Sequence[str], again: Callable[[], tuple[Any, ...]]
) -> Split:
    """The split, once its schema is known to hold the columns; local shards are opened all, and must agree."""
    metadata: dict[str, Any] = {}
    schema = pa.schema([_column(column).field for column in columns])
    for shard in shards:
        if shard.cache is not None and metadata:
            break
        found = shard.open().file_schema
        meta = _metadata(shard.path, found)
        if meta.get("fingerprint") != metadata.get("fingerprint", meta.get("fingerprint")):
            raise SplitError(
                f"{shard.path} was made by another config than {shards[0].path}: do not mix their shards"
            )
        metadata = metadata or meta
        for column in columns:
            _check_column(shard.path, found, column, meta)
        if shard.cache is None:
            shard.mapped = shard.open(schema)
    return Split(name, shards, schema, metadata, again)


def _metadata(path: str, schema: pa.Schema) -> dict[str, Any]:
    try:
        meta = read_metadata(schema)
    except (ValueError, json.JSONDecodeError) as error:
        raise SplitError(f"{path}: {error}") from error
    if meta.get("stage", "encode") != "encode":
        raise SplitError(f"{path} holds annotated documents, not rows: run `treegraft encode` on them")
    return meta


def _column(name: str) -> Column:
    if name not in ROW_COLUMNS:
        near = difflib.get_close_matches(name, ROW_COLUMNS, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise SplitError(f"no dataset has a column {name!r}{hint} (README lists the columns)")
    return ROW_COLUMNS[name]


def _check_column(path: str, schema: pa.Schema, name: str, meta: dict[str, Any]) -> None:
    column = ROW_COLUMNS[name]
    if name in schema.names:
        if (found := schema.field(name).type) != column.type:
            raise SplitError(
                f"{path}: column {name!r} is {found}, expected {column.type}; preprocess the corpus again"
            )
        return
    task = meta.get("task")
    tasks = [known for known in TASKS if name in {c.name for c in row_columns(known, GROUPS)}]
    if task in tasks and column.group in GROUPS[1:]:
        raise SplitError(
            f"{path} has no column {name!r}: it comes with `encode.columns: [{column.group}]`; add {column.group} "
            f"there and encode again{annotated_first(column.group) or ' (annotations are kept)'}"
        )
    raise SplitError(
        f"{path} has no column {name!r}: rows of task {' or '.join(tasks)} have it, these are of task {task!r}"
    )
