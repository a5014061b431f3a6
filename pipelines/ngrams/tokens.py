"""Text to sentences of words, by the rules of `lmplz`: a line is a sentence, an empty one too."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.ragged import bounds

_BREAKS = "\0\t\r\n"
"""What parts words beside the space. Other white space, such as U+00A0 and U+3000, is part of a word: readers of ARPA
files take it for that, and cannot hold these."""


class Words(NamedTuple):
    """Strings end to end, none empty, and how many each sentence has, int64[S]."""

    words: pa.Array
    lengths: NDArray[np.int64]


def words_of(lines: pa.Array) -> Words:
    """Words of lines without their line ends; words of a text that are known already may come joined by spaces."""
    for char in _BREAKS:
        lines = pc.replace_substring(lines, char, " ")
    parts = pc.split_pattern(lines, " ")
    flat = parts.flatten()
    inked = pc.greater(pc.binary_length(flat), 0)
    flags = inked.to_numpy(zero_copy_only=False)
    edges = np.append(0, np.cumsum(flags))[parts.offsets.to_numpy() - parts.offsets[0].as_py()]
    return Words(flat.filter(inked), np.diff(edges).astype(np.int64))


def leave_out(words: Words, kept: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Lengths of the sentences when only some of the words stay."""
    edges = np.append(0, np.cumsum(kept))[bounds(words.lengths)]
    return np.diff(edges)
