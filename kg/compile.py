"""Compile `.spo` files into a graph folder (`kg.store`).

Columns all the way: strings are dictionary-encoded by Arrow as blocks of lines come in, everything
after that is sorting of integers. Two million triples of a million subjects take about 8 s and
600 to 800 MB on one core; more than a third of the time goes into the trie.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import marisa_trie
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kg import prefilter, store
from kg.errors import GraphError
from kg.trie import key_finder
from kg.triples import OnReject, OpenBinary, ReadCounts, open_local, read_tables

_HASH_ROWS = 1 << 16


def compile_graph(
    paths: Sequence[str],
    out: Path,
    *,
    on_reject: OnReject | None = None,
    open_binary: OpenBinary = open_local,
) -> store.GraphInfo:
    """Compile the triples of `paths`, in that order, into the folder `out`; returns its facts.

    Lines that are no triples go to `on_reject` and are counted (`kg.triples` has the rules); a triple
    that was there before is dropped and counted. The same files give the same bytes, whatever their
    folder is called. An older graph at `out` is replaced in one step.

    Raises GraphError where a file is missing, no triple is left, or `out` is something else.
    """
    if not paths:
        raise GraphError("no triples files were named; expected at least one .spo file")
    out = Path(out)
    with store.new_folder(out) as folder:
        counts = ReadCounts()
        rows = _Rows.read(paths, on_reject or (lambda _: None), counts, open_binary)
        if not rows.files:
            why = (
                ", ".join(f"{n} {reason}" for reason, n in sorted(counts.rejected.items())) or "none rejected"
            )
            raise GraphError(
                f"no triple in {', '.join(map(str, paths))}: {counts.lines} lines read ({why}); "
                "expected lines of subject TAB predicate TAB object in UTF-8"
            )
        info = _write(folder, rows, counts, _relative(paths))
        store.write(folder, info)
    return info


@dataclass
class _Rows:
    """All triples in file order, N rows, strings as codes into their dictionaries."""

    subjects: pa.LargeStringArray
    predicates: pa.LargeStringArray
    objects: pa.LargeStringArray
    subject: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    predicate: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    object: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    file: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    line: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    files: int = 0

    @classmethod
    def read(
        cls, paths: Sequence[str], on_reject: OnReject, counts: ReadCounts, open_binary: OpenBinary
    ) -> _Rows:
        columns: tuple[list[pa.Array], list[pa.Array], list[pa.Array]] = ([], [], [])
        files, lines = [], []
        for number, path in enumerate(paths):
            for table in read_tables([path], on_reject, counts=counts, open_binary=open_binary):
                for column, part in zip(
                    columns, (table.subjects, table.predicates, table.objects), strict=True
                ):
                    column.append(part)
                files.append(np.full(len(table.lines), number, np.int32))
                lines.append(table.lines)
        if not files:
            empty = pa.array([], pa.large_string())
            return cls(empty, empty, empty)
        coded = []
        for column in columns:
            coded.append(_encode(column))
            column.clear()  # the strings are in the dictionary now
        (subjects, subject), (predicates, predicate), (objects, object_) = coded
        return cls(
            subjects, predicates, objects, subject, predicate, object_,
            np.concatenate(files), np.concatenate(lines), len(files),
        )  # fmt: skip


def _encode(chunks: list[pa.Array]) -> tuple[pa.LargeStringArray, np.ndarray]:
    """Distinct strings in the order of their first appearance, and int32 codes into them."""
    encoded = pa.chunked_array(chunks, pa.large_string()).dictionary_encode().unify_dictionaries()
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])
    return encoded.chunk(encoded.num_chunks - 1).dictionary, codes.astype(np.int32, copy=False)


def _by_text(strings: pa.LargeStringArray, codes: np.ndarray) -> tuple[pa.LargeStringArray, np.ndarray]:
    """The same strings, numbered in the order of their code points."""
    order = pc.sort_indices(strings).to_numpy()
    rank: np.ndarray = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return strings.take(pa.array(order)), rank[codes]


def _write(folder: Path, rows: _Rows, counts: ReadCounts, sources: tuple[str, ...]) -> store.GraphInfo:
    rows.predicates, rows.predicate = _by_text(rows.predicates, rows.predicate)
    rows.objects, rows.object = _by_text(rows.objects, rows.object)
    first = _first_of_each(rows.subject, _pair(rows.predicate, rows.object, len(rows.objects)))
    duplicates = len(rows.subject) - len(first)

    keys = rows.subjects.to_pylist()
    trie = marisa_trie.Trie(keys)
    trie.save(str(folder / store.TRIE))
    ids = np.fromiter(map(key_finder(trie), keys), np.int32, len(keys))
    names = rows.objects.to_pylist()
    object_subjects = np.fromiter(map(key_finder(trie), names), np.int32, len(names))
    longest = pc.max(pc.utf8_length(rows.subjects)).as_py()
    del keys, names, trie

    digest = _content_sha256(rows, first)
    subject = ids[rows.subject[first]]
    order = np.argsort(subject, kind="stable")  # stable: objects stay in file order
    subject = subject[order]
    order = first[order]
    objects = rows.object[order]
    repeats = np.ones(len(order), np.bool_)
    repeats[_first_of_each(subject, objects)] = False
    ones, twos, threes = prefilter.build(rows.subjects)
    columns = {
        "triple_offsets": _offsets(np.bincount(subject, minlength=len(ids))),
        "predicates": rows.predicate[order],
        "objects": objects,
        "repeats": repeats,
        "source_files": rows.file[order],
        "source_lines": rows.line[order],
        "predicate_bytes": _bytes(rows.predicates),
        "predicate_offsets": _offsets(_byte_lengths(rows.predicates)),
        "object_bytes": _bytes(rows.objects),
        "object_offsets": _offsets(_byte_lengths(rows.objects)),
        "object_lengths": pc.utf8_length(rows.objects).to_numpy(zero_copy_only=False).astype(np.int32),
        "object_counts": np.bincount(objects, minlength=len(rows.objects)).astype(np.int32),
        "object_subjects": object_subjects,
        "filter_ones": ones,
        "filter_twos": twos,
        "filter_threes": threes,
    }
    for name in store.COLUMNS:
        np.save(folder / f"{name}.npy", columns[name], allow_pickle=False)
    return store.GraphInfo(
        sha256=digest,
        triples=len(order),
        subjects=len(ids),
        predicates=len(rows.predicates),
        objects=len(rows.objects),
        longest_subject=longest,
        lines=counts.lines,
        blank=counts.blank,
        comments=counts.comments,
        self_triples=counts.self_triples,
        duplicates=duplicates,
        empty_predicates=counts.empty_predicates,
        rejects=dict(sorted(counts.rejected.items())),
        sources=sources,
    )


def _pair(left: np.ndarray, right: np.ndarray, count: int) -> np.ndarray:
    """Dense int64 codes of the pairs, below the number of rows; `right` is below `count`."""
    return np.unique(left.astype(np.int64) * count + right, return_inverse=True)[1]


def _first_of_each(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Ascending indices of the rows whose (left, right) did not occur before."""
    key = left.astype(np.int64) * (int(right.max()) + 1) + right
    return np.sort(np.unique(key, return_index=True)[1])


def _content_sha256(rows: _Rows, kept: np.ndarray) -> str:
    digest = hashlib.sha256()
    nothing, tab, newline = (pa.scalar(text, pa.large_string()) for text in ("", "\t", "\n"))
    for start in range(0, len(kept), _HASH_ROWS):
        part = kept[start : start + _HASH_ROWS]
        subjects = rows.subjects.take(pa.array(rows.subject[part]))
        predicates = rows.predicates.take(pa.array(rows.predicate[part]))
        objects = rows.objects.take(pa.array(rows.object[part]))
        lines = pc.binary_join_element_wise(subjects, predicates, objects, tab)
        digest.update(_bytes(pc.binary_join_element_wise(lines, nothing, newline)).data)
    return digest.hexdigest()


def _bytes(strings: pa.LargeStringArray) -> np.ndarray:
    """uint8: the UTF-8 of all strings, one after another."""
    offsets = np.frombuffer(strings.buffers()[1], np.int64)[
        strings.offset : strings.offset + len(strings) + 1
    ]
    data = strings.buffers()[2]
    if data is None:
        return np.empty(0, np.uint8)
    return np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]


def _byte_lengths(strings: pa.LargeStringArray) -> np.ndarray:
    return pc.binary_length(strings).to_numpy(zero_copy_only=False)


def _offsets(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)))


def _relative(paths: Sequence[str]) -> tuple[str, ...]:
    """Paths from the folder that they share on, `/` between parts."""
    absolute = [os.path.normpath(str(path)) for path in paths]
    if len(set(absolute)) == 1:
        return tuple(os.path.basename(path) for path in absolute)  # noqa: PTH119  (may be a URI)
    try:
        shared = os.path.commonpath(absolute)
    except ValueError:  # absolute and relative ones, or several drives
        return tuple(str(path) for path in paths)
    return tuple(os.path.relpath(path, shared).replace(os.sep, "/") for path in absolute)
