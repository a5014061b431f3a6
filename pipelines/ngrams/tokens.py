"""Text to sentences of words, by the rules of `lmplz`: a line is a sentence, an empty one too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.ngrams.count import LEFT_OUT
from pipelines.ngrams.keys import Ids
from pipelines.ragged import bounds

_BREAKS = b"\0\t\r\n"
"""What parts words beside the space. Other white space, such as U+00A0 and U+3000, is part of a word: readers of ARPA
files take it for that, and cannot hold these."""
_TO_SPACES = bytes.maketrans(_BREAKS, b" " * len(_BREAKS))


class Words(NamedTuple):
    """Strings end to end, none empty, and how many each sentence has, int64[S]."""

    words: pa.Array
    lengths: NDArray[np.int64]


def words_of(lines: pa.Array) -> Words:
    """Words of lines; words of a text that are known already may come joined by spaces. Lines are strings, not null."""
    parts = pc.split_pattern(_spaced(lines), " ")
    flat = parts.flatten()
    inked = pc.greater(pc.binary_length(flat), 0)
    flags = inked.to_numpy(zero_copy_only=False)
    edges = np.append(0, np.cumsum(flags))[parts.offsets.to_numpy() - parts.offsets[0].as_py()]
    return Words(flat.filter(inked), np.diff(edges).astype(np.int64))


def _spaced(lines: pa.Array) -> pa.Array:
    """Lines with spaces for breaks, one byte for one byte."""
    if not pc.sum(pc.binary_length(lines)).as_py():
        return lines
    _, offsets, data = lines.buffers()
    edges = np.frombuffer(offsets, np.int32)[lines.offset : lines.offset + len(lines) + 1]
    text = data.slice(int(edges[0]), int(edges[-1] - edges[0])).to_pybytes().translate(_TO_SPACES)
    return pa.StringArray.from_buffers(len(lines), pa.py_buffer(edges - edges[0]), pa.py_buffer(text))


class Numbered(NamedTuple):
    """Words as numbers uint32[n] in the order of first appearance, their strings, and how many of each sentence."""

    numbers: Ids
    vocabulary: pa.Array
    lengths: NDArray[np.int64]
    special: int
    """Words that stood in the text and are none, `LEFT_OUT`."""


def number(some: Sequence[Words], stand_in: str | None = None) -> Numbered:
    """Words of one part of the corpus after another, numbered together.

    Args:
        stand_in: the word that special ones become; None: they are left out, and their neighbours meet.
    """
    encoded = (
        pa.chunked_array([words.words for words in some], pa.string())
        .dictionary_encode()
        .unify_dictionaries()
    )
    lengths = np.concatenate([np.zeros(0, np.int64), *(words.lengths for words in some)])
    numbers = np.concatenate([np.zeros(0, np.uint32), *(c.indices.to_numpy() for c in encoded.chunks)])
    own = encoded.chunk(0).dictionary if encoded.num_chunks else pa.array([], pa.string())
    special = pc.is_in(own, value_set=pa.array(LEFT_OUT)).to_numpy(zero_copy_only=False)
    if not special.any():
        return Numbered(numbers.astype(np.uint32), own, lengths, 0)
    if stand_in is not None:
        renamed = pc.if_else(pa.array(special), stand_in, own).dictionary_encode()
        codes = renamed.indices.to_numpy().astype(np.uint32)
        return Numbered(codes[numbers], renamed.dictionary, lengths, int(special[numbers].sum()))
    kept = ~special[numbers]
    edges = np.append(0, np.cumsum(kept))[bounds(lengths)]
    left = (np.cumsum(~special) - 1)[numbers[kept]].astype(np.uint32)
    return Numbered(left, own.filter(pa.array(~special)), np.diff(edges), len(kept) - len(left))
