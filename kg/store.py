"""A compiled graph on disk: a folder of memory-mapped columns and a `meta.json` that describes it.

S subjects, T triples, P predicates, O distinct objects, R spellings. Subjects are numbered in the order
of their keys, their folded texts; predicates and objects in the order of their texts, code point by
code point; triples by subject, and within a subject as the files name them. All numbers are below 2^31,
files below 2^16 and lines below 2^32; `kg.compile` refuses more.

| column | contents |
|---|---|
| `triple_offsets` | int32[S + 1]: triples of s are `triple_offsets[s]` up to `triple_offsets[s + 1]` |
| `predicates`, `objects` | int32[T]: predicate and object of each triple |
| `source_files`, `source_lines` | uint16[T], uint32[T]: where the triple stands; lines count from 1 |
| `predicate_bytes`, `predicate_offsets` | uint8, int64[P + 1]: UTF-8 of the predicates |
| `object_bytes`, `object_offsets` | uint8, int64[O + 1]: UTF-8 of the objects |
| `object_lengths` | int32[O]: characters of each object |
| `object_counts` | int32[O]: triples that have this object |
| `object_subjects` | int32[O]: subject whose key is the object's folded text, -1 where there is none |
| `subject_spellings` | int32[S + 1]: spellings of s are `subject_spellings[s]` up to `subject_spellings[s + 1]` |
| `spelling_bytes`, `spelling_offsets` | uint8, int64[R + 1]: UTF-8 of the subjects as they are written |
| `fold_*` | the folding rule: `kg.match.fold` |
| `automaton_*` | from a subject's key to its number: `kg.match.automaton` |

Each column is a `.npy` file of one dimension that `numpy.load` reads. Its header is always of 128 bytes
and of one wording, so that it can be compared instead of parsed.

The folder is written under a temporary name and renamed. Its bytes are a function of the triples, the
build options and the names of the files; there is no clock and no path of the machine in it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kg import folders
from kg.errors import GraphError
from kg.match import automaton, fold

FORMAT = "treegraft-graph"
VERSION = 4
META = "meta.json"
_SIGNATURE = "meta_sha256"
MAX_META_BYTES = 64 * 2**20
COLUMNS: dict[str, type] = {
    "triple_offsets": np.int32,
    "predicates": np.int32,
    "objects": np.int32,
    "source_files": np.uint16,
    "source_lines": np.uint32,
    "predicate_bytes": np.uint8,
    "predicate_offsets": np.int64,
    "object_bytes": np.uint8,
    "object_offsets": np.int64,
    "object_lengths": np.int32,
    "object_counts": np.int32,
    "object_subjects": np.int32,
    "subject_spellings": np.int32,
    "spelling_bytes": np.uint8,
    "spelling_offsets": np.int64,
    **dict(zip(fold.COLUMNS, (np.uint32, np.uint8, np.uint32), strict=True)),
    **dict(zip(automaton.COLUMNS, (np.uint32, np.uint64, np.int32), strict=True)),
}
FILES = tuple(f"{name}.npy" for name in COLUMNS)
_OLDER_COLUMNS = ("repeats", "filter_ones", "filter_twos", "filter_threes")
_OLDER_TRIE = "subjects.marisa"
"""What graphs of versions 1 to 3 have besides, so that they can be replaced."""
_HEADER_BYTES = 128
_AGAIN = "compile the triples again"


@dataclass(frozen=True)
class GraphInfo:
    """What `meta.json` says. `read` = `triples` + the sums of `left_out` and of `rejects`."""

    sha256: str
    """Of the folding rule and the triples kept, as written, in file order: the identity."""
    triples: int
    subjects: int
    predicates: int
    objects: int
    longest_subject: int
    """In characters, after folding."""
    fold: tuple[str, ...]
    read: int
    """Lines and records of all files."""
    left_out: dict[str, int]
    """Reason to count: by rule of the reader (`blank`, `comment`, ...) or of `kg.compile`."""
    rejects: dict[str, int]
    """Reason to count of malformed lines."""
    empty_predicates: int
    """Of `triples`."""
    merged_spellings: int
    """Spellings that folding made one with another: spellings less subjects."""
    sources: tuple[str, ...]
    """The triples files, relative to the folder that they share."""


class ColumnWriter:
    """Writes columns into a folder; `sizes` are their lengths so far."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.sizes: dict[str, int] = {}

    def add(self, columns: Mapping[str, np.ndarray]) -> None:
        """Write columns. Each has to be one of `COLUMNS`, of its dtype. Raises OSError, with the path."""
        for name, column in columns.items():
            dtype = np.dtype(COLUMNS[name])
            if column.dtype != dtype or column.ndim != 1:
                raise TypeError(f"column {name} is {column.dtype}, expected {dtype} of one dimension")
            path = self._folder / f"{name}.npy"
            try:
                with path.open("wb") as stream:
                    stream.write(_header(dtype, len(column)))
                    stream.write(np.ascontiguousarray(column).view(np.uint8).data)
            except OSError as error:  # such as a full disk: the error of a write has no name
                raise OSError(error.errno, error.strerror, str(path)) from error
            self.sizes[name] = len(column)


def write(folder: Path, info: GraphInfo) -> None:
    """Write `meta.json` into a folder that holds everything else."""
    files = {
        name: {"bytes": (folder / name).stat().st_size, "sha256": file_sha256(folder / name)}
        for name in FILES
    }
    meta = sign({"format": FORMAT, "version": VERSION, **asdict(info), "files": files})
    text = json.dumps(meta, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    (folder / META).write_bytes(text.encode("utf-8", "surrogateescape"))


def sign(meta: Mapping[str, Any]) -> dict[str, Any]:
    """`meta` with the hash of everything else in it, whatever the spaces and the order."""
    rest = {key: value for key, value in meta.items() if key != _SIGNATURE}
    canonical = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return {**rest, _SIGNATURE: hashlib.sha256(canonical.encode()).hexdigest()}


def read_meta(folder: Path) -> tuple[GraphInfo, dict[str, dict[str, Any]]]:
    """Facts and file table of a compiled graph. Raises GraphError where the folder is not one, is of
    another version, or lacks bytes. Only files of the names in `FILES` are ever looked at."""
    if not folder.exists():
        raise GraphError(f"graph folder {folder} does not exist; {_AGAIN}")
    path = folder / META
    if not path.is_file():
        raise GraphError(f"{folder} is not a compiled graph: it has no {META}; {_AGAIN}")
    if path.stat().st_size > MAX_META_BYTES:
        raise GraphError(f"graph {folder}: {META} is damaged (over {MAX_META_BYTES:,} bytes); {_AGAIN}")
    try:
        meta = json.loads(path.read_bytes().decode("utf-8", "surrogateescape"))
        if not isinstance(meta, dict) or meta.get("format") != FORMAT:
            raise GraphError(f"{folder} is not a compiled graph: {META} is not one of {FORMAT!r}; {_AGAIN}")
        if meta.get("version") != VERSION:
            found = meta.get("version")
            raise GraphError(
                f"graph {folder} is of version {found!r}, this program reads {VERSION}; {_AGAIN}"
            )
        if sign(meta)[_SIGNATURE] != meta[_SIGNATURE]:
            raise GraphError(
                f"graph {folder}: {META} was changed after it was compiled (its hash differs); {_AGAIN}"
            )
        files = {name: dict(meta["files"][name]) for name in FILES}
        info = _info(meta)
    except GraphError:
        raise
    # ValueError: no JSON, no UTF-8, a number of thousands of digits.
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise GraphError(f"graph {folder}: {META} is damaged ({str(error)[:200]!r}); {_AGAIN}") from None
    for name, facts in files.items():
        size = (folder / name).stat().st_size if (folder / name).is_file() else None
        if size != facts.get("bytes"):
            found = "no such file" if size is None else f"{size} bytes"
            raise GraphError(
                f"graph {folder}: {name} should have {facts.get('bytes')!s:.40} bytes, found {found}; {_AGAIN}"
            )
    return info, files


def _info(meta: Mapping[str, Any]) -> GraphInfo:
    """Raises TypeError where a value is not of its type, KeyError where one is missing."""
    values = {key: meta[key] for key in GraphInfo.__dataclass_fields__}
    for key, value in values.items():
        if key == "sha256":
            right = isinstance(value, str)
        elif key in ("fold", "sources"):
            right = isinstance(value, list) and all(isinstance(item, str) for item in value)
            values[key] = tuple(value) if right else value
        elif key in ("left_out", "rejects"):
            right = isinstance(value, dict) and all(map(_is_count, value.values()))
        else:
            right = _is_count(value)
        if not right:
            raise TypeError(f"{key} cannot be {value!r:.60}")
    return GraphInfo(**values)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def map_column(folder: Path, name: str) -> np.ndarray:
    """One column, memory-mapped and read-only. Raises GraphError where the file is not that array."""
    dtype = np.dtype(COLUMNS[name])
    with (folder / f"{name}.npy").open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size - _HEADER_BYTES
        count = size // dtype.itemsize
        if size % dtype.itemsize or stream.read(_HEADER_BYTES) != _header(dtype, count):
            raise GraphError(f"graph {folder}: {name}.npy is damaged: not an array of {dtype}; {_AGAIN}")
        if not count:
            return np.empty(0, dtype)
        mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    return np.frombuffer(mapped, dtype, count, _HEADER_BYTES)


def _header(dtype: np.dtype, count: int) -> bytes:
    """Of a `.npy` file, version 1.0: the same from every version of numpy."""
    start = b"\x93NUMPY\x01\x00" + (_HEADER_BYTES - 10).to_bytes(2, "little")
    text = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': ({count},), }}"
    return start + text.encode().ljust(_HEADER_BYTES - 11) + b"\n"


def file_sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def new_folder(out: Path, inputs: Collection[str] = ()) -> contextlib.AbstractContextManager[Path]:
    """A temporary folder that takes the place of the graph `out` on success: `kg.folders.new_folder`.

    Raises GraphError where `out` exists and is neither a compiled graph, of whatever version, nor an
    empty folder, and where one of the `inputs` lies in it.
    """
    names = {*FILES, META, *(f"{name}.npy" for name in _OLDER_COLUMNS), _OLDER_TRIE}
    return folders.new_folder(out, names=names, is_ours=_has_our_meta, inputs=inputs)


def _has_our_meta(folder: Path) -> bool:
    path = folder / META
    try:
        if path.stat().st_size > MAX_META_BYTES:
            return False
        meta = json.loads(path.read_bytes().decode("utf-8", "surrogateescape"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(meta, dict) and meta.get("format") == FORMAT
