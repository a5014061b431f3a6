"""The numbers of subjects, triples, predicates and objects, and the columns of a graph that follow.

Subjects are numbered by their folded keys, predicates and objects by their texts, in the order of code
points; triples by subject, and in the order of files and lines within a subject. Only what a triple
uses has a number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from kg import strings
from kg.compile.clean import Kept
from kg.compile.gather import Rows

AddColumns = Callable[[Mapping[str, np.ndarray]], None]


def number(rows: Rows, kept: Kept, add: AddColumns) -> tuple[pa.LargeStringArray, int]:
    """Give the columns of `kg.store` that hold triples and strings to `add`, a few at a time.

    Returns the keys of the subjects, in the order of their numbers, and the count of triples without a
    predicate.
    """
    subject, keys, renumbered = _used(kept.key[rows.subject[kept.rows]], kept.keys)
    # Rows ascend in `kept.rows`, and each code is there once: any sort is a stable one.
    order = np.argsort((subject.astype(np.int64) << 31) | np.arange(len(subject)))
    subject, row = subject[order], kept.rows[order]
    del order
    add({"triple_offsets": _offsets(np.bincount(subject), np.int32)})
    add({"source_files": rows.file[row], "source_lines": rows.line[row]})
    add(_spellings(rows.subjects, rows.subject[row], _through(renumbered, kept.key)))

    predicate, predicates, _ = _by_text(rows.predicate[row], rows.predicates)
    add({"predicates": predicate, **_texts("predicate", predicates)})
    empty = int((predicate == 0).sum()) if predicates[0].as_py() == "" else 0
    del predicate, predicates
    object_, objects, object_number = _by_text(rows.object[row], rows.objects)
    add({"objects": object_, **_texts("object", objects)})
    add(
        {
            "object_lengths": strings.lengths(objects).astype(np.int32),
            "object_counts": np.bincount(object_).astype(np.int32),
            "object_subjects": _through(renumbered, kept.object_key[object_number]),
        }
    )
    return keys, empty


def _used(
    codes: np.ndarray, among: pa.LargeStringArray
) -> tuple[np.ndarray, pa.LargeStringArray, np.ndarray]:
    """(codes, strings, new): numbers without gaps for the strings that `codes` name, in the same order,
    and the new number of each old one, -1 where it is not used; int32."""
    used = np.zeros(len(among), np.bool_)
    used[codes] = True
    if used.all():
        return codes, among, np.arange(len(among), dtype=np.int32)
    new = np.cumsum(used, dtype=np.int32) - np.int32(1)
    new[~used] = -1
    return new[codes], strings.take(among, np.flatnonzero(used)), new


def _by_text(
    codes: np.ndarray, among: pa.LargeStringArray
) -> tuple[np.ndarray, pa.LargeStringArray, np.ndarray]:
    """(codes, strings, old): the strings that `codes` name, ascending, and each one's old number."""
    codes, found, new = _used(codes, among)
    order, rank = strings.ranks(found)
    return rank[codes], strings.take(found, order), np.flatnonzero(new >= 0)[order]


def _through(new: np.ndarray, old: np.ndarray) -> np.ndarray:
    """New numbers of old ones; -1 stays -1."""
    return np.where(old >= 0, new[old], np.int32(-1))


def _spellings(
    spellings: pa.LargeStringArray, codes: np.ndarray, subject: np.ndarray
) -> dict[str, np.ndarray]:
    """Of each subject its spellings, those of more triples first, then in the order of code points.

    `codes` are the spellings of the triples, `subject` the subject of each spelling.
    """
    count = np.bincount(codes, minlength=len(spellings))
    used = np.flatnonzero(count)
    found = strings.take(spellings, used)
    _, rank = strings.ranks(found)
    order = np.lexsort((rank, -count[used], subject[used]))
    return {
        "subject_spellings": _offsets(np.bincount(subject[used]), np.int32),
        **_texts("spelling", strings.take(found, order)),
    }


def _texts(name: str, texts: pa.LargeStringArray) -> dict[str, np.ndarray]:
    return {f"{name}_bytes": strings.utf8(texts), f"{name}_offsets": strings.byte_offsets(texts)}


def _offsets(lengths: np.ndarray, dtype: type) -> np.ndarray:
    return np.concatenate((np.zeros(1, dtype), np.cumsum(lengths, dtype=dtype)))
