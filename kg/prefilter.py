"""Which positions of a text can start a mention at all: two hashed tables, read with array operations.

A look-up in the trie costs about a microsecond from Python, and a text has as many positions as
characters. Two tables of flags tell nearly all hopeless positions apart beforehand: one over the
code points of two-character subjects, one over the first three code points of longer ones. A flag
that is set by chance costs one look-up; a flag that is missing would lose a mention, and cannot be.
Both are part of the compiled graph. Subjects of one character are listed: few policies want them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_FACTORS = (np.uint32(0x9E3779B1), np.uint32(0x85EBCA77), np.uint32(0xC2B2AE3D))
_MIN_BITS, _MAX_BITS = 12, 26
_FLAGS_PER_KEY = 8
_CHUNK = 1 << 16
"""Positions looked at together: temporaries stay in the processor's cache."""


def build(subjects: pa.LargeStringArray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(ones, twos, threes) of unique subjects.

    `ones`: code points that are subjects, uint32, sorted. `twos` and `threes`: bool[2^k] flags.
    """
    lengths = pc.utf8_length(subjects).to_numpy(zero_copy_only=False)
    heads = pc.utf8_slice_codeunits(subjects, 0, 3)
    codes = code_points("".join(heads.to_pylist()))
    first = np.concatenate(([0], np.cumsum(np.minimum(lengths, 3))))[:-1]
    ones = np.unique(codes[first[lengths == 1]])
    two, three = first[lengths == 2], first[lengths > 2]
    return ones, _table(codes, two, 2), _table(codes, three, 3)


def _table(codes: np.ndarray, first: np.ndarray, count: int) -> np.ndarray:
    keys = np.unique(_hash([codes[first + k] for k in range(count)]))
    bits = int(np.clip(np.ceil(np.log2(len(keys) * _FLAGS_PER_KEY + 1)), _MIN_BITS, _MAX_BITS))
    table = np.zeros(1 << bits, np.bool_)
    table[keys >> np.uint32(32 - bits)] = True
    return table


def _hash(columns: list[np.ndarray]) -> np.ndarray:
    """uint32 whose upper bits are well mixed, of 2 or 3 code points."""
    mixed = columns[0] * _FACTORS[0]
    for column, factor in zip(columns[1:], _FACTORS[1:], strict=False):
        mixed = (mixed ^ (mixed >> np.uint32(15)) ^ column) * factor
    return mixed


def candidates(
    codes: np.ndarray, ones: np.ndarray | None, twos: np.ndarray, threes: np.ndarray
) -> np.ndarray:
    """int64 indices into `codes` (uint32[N]) where a subject may start, ascending.

    `ones` is None where subjects of one character are not wanted.
    """
    count = len(codes)
    padded = np.concatenate((codes, np.zeros(2, np.uint32)))
    two_shift = np.uint32(33 - len(twos).bit_length())
    three_shift = np.uint32(33 - len(threes).bit_length())
    found = []
    for start in range(0, count, _CHUNK):
        a = padded[start : min(start + _CHUNK, count)]
        b = padded[start + 1 : start + 1 + len(a)]
        c = padded[start + 2 : start + 2 + len(a)]
        hit = twos[_hash([a, b]) >> two_shift]
        hit |= threes[_hash([a, b, c]) >> three_shift]
        if ones is not None and len(ones):
            hit |= np.isin(a, ones)
        found.append(np.flatnonzero(hit) + start)
    return np.concatenate(found) if found else np.empty(0, np.int64)


def code_points(text: str) -> np.ndarray:
    """uint32 code points of `text`. Raises ValueError for a lone surrogate, which no file can hold."""
    try:
        return np.frombuffer(text.encode("utf-32-le"), np.uint32)
    except UnicodeEncodeError as error:
        raise ValueError(
            f"the text has a lone surrogate at character {error.start}; decode its source as UTF-8"
        ) from None
