"""Which rows become triples, and which subjects are one: folding, the stop list, self triples, duplicates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kg import strings
from kg.compile.gather import Rows
from kg.match.fold import Folding


@dataclass(frozen=True)
class Kept:
    """T rows that stay, and K keys: the distinct folded subjects of all rows, ascending by code point."""

    rows: np.ndarray  # int64[T], ascending, so in file order
    keys: pa.LargeStringArray  # [K]
    key: np.ndarray  # int32[len(Rows.subjects)]: the key of each spelling
    object_key: np.ndarray  # int32[len(Rows.objects)]: the key that each object folds to, -1 if none


def clean(rows: Rows, folding: Folding, stop: Iterable[str], left_out: dict[str, int]) -> Kept:
    """Count what is left out as `subject_stopped`, `self_triple` or `duplicate`, in this order."""
    keys, key = _keys(strings.fold(rows.subjects, folding))
    object_key = _index_in(strings.fold(rows.objects, folding), keys)
    subject = key[rows.subject]
    stopped = _are_stopped(keys, {folding.fold_text(text) for text in stop})[subject]
    itself = object_key[rows.object] == subject
    itself &= ~stopped
    index = np.flatnonzero(~(stopped | itself))
    first = _first_of_each(subject[index], rows.predicate[index], rows.object[index])
    for reason, count in (
        ("subject_stopped", int(stopped.sum())),
        ("self_triple", int(itself.sum())),
        ("duplicate", len(index) - len(first)),
    ):
        if count:
            left_out[reason] = left_out.get(reason, 0) + count
    return Kept(index[first], keys, key, object_key)


def _keys(folded: pa.ChunkedArray) -> tuple[pa.LargeStringArray, np.ndarray]:
    """Distinct strings, ascending, and int32 places in them."""
    encoded = folded.dictionary_encode().chunks
    distinct = encoded[-1].dictionary if encoded else pa.array([], pa.large_string())
    order, rank = strings.ranks(distinct)
    codes = [rank[chunk.indices.to_numpy()] for chunk in encoded]
    return strings.take(distinct, order), np.concatenate([rank[:0], *codes])


def _are_stopped(keys: pa.LargeStringArray, stop: set[str]) -> np.ndarray:
    """bool[K]"""
    # A lone surrogate is in no key, as no file can hold one.
    stored = sorted(text for text in stop if not any(0xD800 <= ord(char) < 0xE000 for char in text))
    return pc.is_in(keys, value_set=pa.array(stored, pa.large_string())).to_numpy(zero_copy_only=False)


def _index_in(values: pa.ChunkedArray, among: pa.LargeStringArray) -> np.ndarray:
    """int32: place of each value in `among`, which are distinct, or -1."""
    return pc.index_in(values, value_set=among).fill_null(-1).to_numpy()


def _first_of_each(first: np.ndarray, second: np.ndarray, third: np.ndarray) -> np.ndarray:
    """int64: ascending indices of the rows that did not occur before; columns are int32, not negative."""
    rest = (second.astype(np.int64) << 31) | third
    order = np.lexsort((rest, first))  # stable: the earliest of equal ones comes first
    first, rest = first[order], rest[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (first[1:] != first[:-1]) | (rest[1:] != rest[:-1])
    return np.sort(order[new])
