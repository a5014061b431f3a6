"""A compiled graph on disk: a folder of memory-mapped columns and a `meta.json` that describes it.

S subjects, T triples, P predicates, O distinct objects. Subject s is the id that the trie gives it;
triples are numbered by subject, and within a subject as the files name them. Predicates and objects
are numbered in the order of their code points.

| file | contents |
|---|---|
| `subjects.marisa` | trie of the subjects, string to id and back |
| `triple_offsets` | int64[S + 1]: triples of s are `triple_offsets[s]` up to `triple_offsets[s + 1]` |
| `predicates`, `objects` | int32[T]: predicate and object of each triple |
| `repeats` | bool[T]: an earlier triple of the same subject has the same object |
| `source_files`, `source_lines` | int32[T], int64[T]: where the triple stands; lines count from 1 |
| `predicate_bytes`, `predicate_offsets` | uint8, int64[P + 1]: UTF-8 of the predicates |
| `object_bytes`, `object_offsets` | uint8, int64[O + 1]: UTF-8 of the objects |
| `object_lengths` | int32[O]: characters of each object |
| `object_counts` | int32[O]: triples that have this object |
| `object_subjects` | int32[O]: subject whose text is the object's, -1 where there is none |
| `filter_ones`, `filter_twos`, `filter_threes` | see `kg.prefilter` |

The folder is written under a temporary name and renamed. Its bytes are a function of the triples
and of the names of their files; there is no clock and no path of the machine in it.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kg.errors import GraphError

FORMAT = "treegraft-graph"
VERSION = 2
META = "meta.json"
TRIE = "subjects.marisa"
COLUMNS = (
    "triple_offsets",
    "predicates",
    "objects",
    "repeats",
    "source_files",
    "source_lines",
    "predicate_bytes",
    "predicate_offsets",
    "object_bytes",
    "object_offsets",
    "object_lengths",
    "object_counts",
    "object_subjects",
    "filter_ones",
    "filter_twos",
    "filter_threes",
)
FILES = (TRIE, *(f"{name}.npy" for name in COLUMNS))
_counter = itertools.count()


@dataclass(frozen=True)
class GraphInfo:
    """What `meta.json` says.

    `lines` = `triples` + `duplicates` + `self_triples` + `blank` + `comments` + the sum of `rejects`.
    """

    sha256: str
    """Of the triples kept, in file order, as `subject TAB predicate TAB object LF`: the identity."""
    triples: int
    subjects: int
    predicates: int
    objects: int
    longest_subject: int
    """In characters."""
    lines: int
    blank: int
    comments: int
    self_triples: int
    duplicates: int
    empty_predicates: int
    rejects: dict[str, int]
    sources: tuple[str, ...]
    """The triples files, relative to the folder that they share."""


def write(folder: Path, info: GraphInfo) -> None:
    """Write `meta.json` into a folder that holds everything else."""
    files = {
        name: {"bytes": (folder / name).stat().st_size, "sha256": file_sha256(folder / name)}
        for name in FILES
    }
    meta = {"format": FORMAT, "version": VERSION, **asdict(info), "files": files}
    text = json.dumps(meta, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    (folder / META).write_text(text, encoding="utf-8")


def read_meta(folder: Path) -> tuple[GraphInfo, Mapping[str, Mapping[str, Any]]]:
    """Facts and file table of a compiled graph. Raises GraphError where the folder is not one, is of
    another version, or lacks bytes."""
    again = "compile the triples again"
    if not folder.exists():
        raise GraphError(f"graph folder {folder} does not exist; {again}")
    if not (folder / META).is_file():
        raise GraphError(f"{folder} is not a compiled graph: it has no {META}; {again}")
    try:
        meta = json.loads((folder / META).read_text(encoding="utf-8"))
        if not isinstance(meta, dict) or meta.get("format") != FORMAT:
            raise GraphError(f"{folder} is not a compiled graph: {META} is not one of {FORMAT!r}; {again}")
        if meta.get("version") != VERSION:
            found = meta.get("version")
            raise GraphError(f"graph {folder} is of version {found!r}, this program reads {VERSION}; {again}")
        files = {name: dict(meta["files"][name]) for name in FILES}
        values = {key: meta[key] for key in GraphInfo.__dataclass_fields__}
        info = GraphInfo(**{**values, "sources": tuple(values["sources"])})
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
        raise GraphError(f"graph {folder}: {META} is damaged ({error!r}); {again}") from None
    for name, facts in files.items():
        size = (folder / name).stat().st_size if (folder / name).is_file() else None
        if size != facts.get("bytes"):
            found = "no such file" if size is None else f"{size} bytes"
            raise GraphError(
                f"graph {folder}: {name} should have {facts.get('bytes')} bytes, found {found}; {again}"
            )
    return info, files


def load_column(folder: Path, name: str) -> np.ndarray:
    """One column, memory-mapped and read-only. Raises GraphError where the file is no array."""
    path = folder / f"{name}.npy"
    try:
        # An empty array cannot be mapped.
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError:
        try:
            mapped = np.load(path, allow_pickle=False)
        except ValueError as error:
            raise GraphError(f"graph {folder}: {name}.npy is damaged: {error}") from None
    return mapped.view(np.ndarray)  # np.memmap slows down every indexing by microseconds


def file_sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return (
            hashlib.file_digest(stream, "sha256").hexdigest()
            if hasattr(hashlib, "file_digest")
            else _digest(stream)
        )


def _digest(stream: Any) -> str:
    digest = hashlib.sha256()  # Python 3.10 has no hashlib.file_digest
    while chunk := stream.read(1 << 20):
        digest.update(chunk)
    return digest.hexdigest()


@contextlib.contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A temporary folder beside `out` that takes its place on success and vanishes on failure.

    Raises GraphError where `out` exists and is neither a compiled graph nor an empty folder: what
    is not ours is never removed.
    """
    if out.exists() and not (out / META).is_file() and not (out.is_dir() and not any(out.iterdir())):
        raise GraphError(f"{out} exists and is not a compiled graph; choose another output or remove it")
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.parent / f".tmp-{os.getpid()}-{next(_counter)}-{out.name}"
    temporary.mkdir()
    try:
        yield temporary
        for path in sorted(temporary.iterdir()):
            _sync(path)
        _replace(temporary, out)
        _sync(out.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _replace(temporary: Path, out: Path) -> None:
    if out.exists():
        # A folder cannot be renamed over a full one; those who have the old one mapped keep its pages.
        old = out.parent / f".tmp-{os.getpid()}-{next(_counter)}-{out.name}"
        out.rename(old)
        try:
            temporary.rename(out)
        except OSError:
            old.rename(out)
            raise
        shutil.rmtree(old, ignore_errors=True)
    else:
        temporary.rename(out)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
