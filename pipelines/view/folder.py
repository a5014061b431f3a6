"""A dataset folder as something to look at: splits, shards, rows by number or id, token strings.

Read-only. A folder whose run did not finish, or that lost a shard, can still be looked at: what
is missing is said in `notes`. Whether the data is right is for `corpora.verify` to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from corpora import files
from corpora.manifest import MANIFEST, SHARD_NAME, Manifest, ManifestError, read_manifest
from corpora.schema import read_metadata
from corpora.shards import ShardError, open_shard, read_batches
from pipelines.view.legible import legible, plural

TOKENS = "tokens.txt"
TOKENIZER = "tokenizer.json"
COARSE_TOKENS = "coarse_tokens.txt"
GRAPH = "graph"
ANNOTATED = "annotated"
_SAVED = ("state.json", "dataset_dict.json")
"""What `datasets.save_to_disk` leaves beside its Arrow files, or around the folders of several splits."""
_WORK = "_work"
_UNFINISHED = "the run that writes here did not finish; run the same command again to continue"


class FolderError(ValueError):
    """The folder, split, row or id asked for is not there; the message says what is."""


@dataclass(frozen=True)
class Shard:
    """The `index`-th of `count` shard files of a split."""

    split: str
    name: str
    path: str
    index: int
    count: int


@dataclass(frozen=True)
class Place:
    """Where a row lies: `row` counts within the split, `shard_row` within its shard, both from 0."""

    split: str
    shard: str
    shard_row: int
    row: int

    def later(self, rows: int) -> Place:
        """The place so many rows behind, in the same shard."""
        return replace(self, shard_row=self.shard_row + rows, row=self.row + rows)


@dataclass(frozen=True)
class Folder:
    """An opened dataset folder; make one with `open_folder`."""

    path: str
    shards: dict[str, list[Shard]]
    """By split; `train` first, then by name; within a split in shard order."""
    schema: pa.Schema
    metadata: dict[str, Any]
    manifest: Manifest | None
    notes: list[str] = field(default_factory=list)

    @property
    def stage(self) -> str:
        """`annotate` (documents) or `encode` (rows)."""
        return str(self.metadata.get("stage", "encode"))

    def batches(self, split: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Record batches of a split in order, one held at a time, with only `columns` where given."""
        for shard in self.shards[split]:
            for batch in _batches(shard):
                yield batch if columns is None else batch.select(columns)

    def rows(self, split: str) -> int:
        """Rows of a split, as the shards say."""
        return sum(batch.num_rows for batch in self.batches(split))

    def row(self, number: int, split: str | None = None) -> tuple[Place, dict[str, Any]]:
        """The row of this number, from 0, as plain Python values. Raises FolderError."""
        split = self.split_of(split)
        total = 0
        for place, batch in self.placed(split):
            if 0 <= number - place.row < batch.num_rows:
                at = number - place.row
                return place.later(at), batch.slice(at, 1).to_pylist()[0]
            total = place.row + batch.num_rows
        if not total:
            raise FolderError(f"split {split!r} of {self.path} has no rows")
        raise FolderError(
            f"split {split!r} of {self.path} has no row {number}: "
            + (
                f"it holds {total:,} rows, numbered 0 to {total - 1}"
                if total > 1
                else "it holds 1 row, number 0"
            )
        )

    def placed(self, split: str) -> Iterator[tuple[Place, pa.RecordBatch]]:
        """Record batches of a split, each with the place of its first row."""
        total = 0
        for shard in self.shards[split]:
            before = total
            for batch in _batches(shard):
                yield Place(split, shard.name, total - before, total), batch
                total += batch.num_rows

    def strings(self, name: str) -> list[str] | None:
        """The lines of `tokens.txt` or `coarse_tokens.txt`, a string an id; None where there is no file."""
        path = files.join(self.path, name)
        if not files.exists(path):
            return None
        lines = files.read_bytes(path).decode("utf-8", "backslashreplace").split("\n")
        return lines[:-1] if lines[-1] == "" else lines

    def graph(self) -> Any | None:
        """The compiled graph beside the shards, or None; says why in `notes` where it cannot be used."""
        path = files.join(self.path, GRAPH)
        if not files.exists(path):
            return None
        try:
            from kg.graph import KnowledgeGraph

            graph = KnowledgeGraph.open(Path(path))
        except (ImportError, OSError, ValueError) as error:
            self._note(f"the graph cannot be opened, triples are shown by number: {error}")
            return None
        wanted = (self.metadata.get("graph") or {}).get("sha256")
        found = getattr(getattr(graph, "info", graph), "sha256", None)
        if wanted and found and wanted != found:
            self._note("the graph in the folder is not the one these rows were made with: triples left out")
            return None
        return graph

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def split_of(self, split: str | None) -> str:
        """The split of this name, which must be there; the first one for None. Raises FolderError."""
        if split is None:
            return next(iter(self.shards))
        if split not in self.shards:
            raise FolderError(f"{self.path} has no split '{legible(split)}'; it has {', '.join(self.shards)}")
        return split


def open_folder(path: str | Path) -> Folder:
    """Open a folder that a run wrote.

    Raises:
        FolderError: no such folder, no shards in it, or files of another project or release.
    """
    path = str(path)
    names = _names(path)
    if saved := next((name for name in _SAVED if name in names), None):
        raise FolderError(
            f"{legible(path)} was saved by the library `datasets` ({saved} says so) and is no folder that "
            "`treegraft preprocess` wrote. `datasets.load_from_disk` reads it; as a corpus of a config it is "
            f"`input: {{format: dataset, files: {{train: {legible(path)}}}}}`"
        )
    found = [(m, m.group()) for n in names if (m := SHARD_NAME.fullmatch(n))]
    if not found:
        raise FolderError(_why_no_shards(path))
    shards: dict[str, list[Shard]] = {}
    for match, name in sorted(found, key=lambda f: (f[0]["split"] != "train", f[1])):
        shard = Shard(match["split"], name, files.join(path, name), int(match["index"]), int(match["count"]))
        shards.setdefault(shard.split, []).append(shard)
    first = next(iter(shards.values()))[0]
    try:
        schema = open_shard(first.path).schema
        metadata = read_metadata(schema)
    except ShardError as error:
        raise FolderError(str(error)) from error
    except ValueError as error:
        raise FolderError(f"{first.path}: {error}") from error
    notes = [
        f"{missing:,} of {plural(own[0].count, 'shard')} of split {split!r} {'is' if missing == 1 else 'are'} missing"
        for split, own in shards.items()
        if (missing := own[0].count - len({s.index for s in own})) > 0
    ]
    manifest = None
    try:
        manifest = read_manifest(path)
    except ManifestError as error:
        finished = files.exists(files.join(path, MANIFEST))
        notes.append(str(error) if finished else f"no {MANIFEST}: {_UNFINISHED}")
    return Folder(path, shards, schema, metadata, manifest, notes)


def foreign(path: str) -> str | None:
    """What is wrong with a folder that no run wrote to, and which one may be meant; None for any other."""
    if files.exists(files.join(path, MANIFEST)) or any(map(SHARD_NAME.fullmatch, _names(path))):
        return None
    return _why_no_shards(path)


def _batches(shard: Shard) -> Iterator[pa.RecordBatch]:
    try:
        yield from read_batches(open_shard(shard.path))
    except (pa.ArrowException, OSError) as error:
        raise FolderError(
            f"{shard.path} cannot be read ({error}); run treegraft verify on the folder"
        ) from error


def _names(path: str) -> list[str]:
    """Names in a folder; none in a file."""
    try:
        return files.list_names(path)
    except NotADirectoryError:
        return []


def _why_no_shards(path: str) -> str:
    if not files.exists(path):
        return f"{path} does not exist; give the folder that `treegraft preprocess` wrote"
    if not files.is_uri(path) and not Path(path).is_dir():
        return f"{path} is a file; give the dataset's folder"
    names = _names(path)
    if _WORK in names or (names and {*names} <= {ANNOTATED, GRAPH, TOKENS, TOKENIZER, COARSE_TOKENS}):
        # A run was here and came to no shard.
        documents = files.join(path, ANNOTATED)
        also = f"; did you mean its annotated documents, {documents}?" if _finished(documents) else ""
        return f"{path} holds no shards yet: {_UNFINISHED}{also}"
    below = [inner for name in names[:200] if _holds_shards(inner := files.join(path, name))]
    hint = "give the folder that `treegraft preprocess` wrote"
    if whole := [inner for inner in below if _finished(inner)]:
        hint = f"did you mean {whole[0]}?"
    elif below:
        hint = f"{below[0]} holds some, but {_UNFINISHED.replace('here', 'there')}"
    return f"{path} is not a dataset folder: it holds no shards (<split>-00000-of-00016.arrow); {hint}"


def _finished(path: str) -> bool:
    return files.exists(files.join(path, MANIFEST))


def _holds_shards(path: str) -> bool:
    names = _names(path)
    return any(map(SHARD_NAME.fullmatch, names)) and not {*_SAVED} & {*names}
