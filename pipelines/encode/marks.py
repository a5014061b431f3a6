"""Marks that a tokenizer strips belong to the token of the letter that they stand on.

BERT's uncased normalizer takes accents off: of a decomposed `é` only the `e` reaches the vocabulary, and the offsets
of `tokenizers` end before the accent, where those of a composed `é` hold the whole letter. A token stands for the
letter with its marks, so both end behind them; else an answer or a mention would lose its last vowel sign.

Shapes: N tokens, n texts. Offsets count characters.
"""

from __future__ import annotations

import unicodedata
from functools import cache

import numpy as np
from numpy.typing import NDArray

from pipelines.encode.source import Texts
from pipelines.encode.tokenizer import Tokens
from pipelines.ragged import ranges

_HOLDING = (range(0x300, 0x20000), range(0xE0100, 0xE01F0))
"""Code points among which all marks are."""


def cover_marks(tokens: Tokens, texts: Texts) -> Tokens:
    """`tokens` of `texts`, each ending behind the nonspacing marks (category Mn) that follow it and are in no token.

    Few texts have marks: the others cost one look at their characters.
    """
    marks = np.flatnonzero(_is_mark()[texts.points])
    if not len(marks):
        return tokens
    marked = np.unique(np.searchsorted(texts.chars, marks, "right") - 1)
    sizes = np.diff(tokens.offsets)[marked]
    which, owner = ranges(tokens.offsets[marked], sizes), np.repeat(marked, sizes)
    # One number line for all texts: where each token begins and ends, and where the next one or the text's end is.
    starts, stops = (texts.chars[owner] + edge[which] for edge in (tokens.starts, tokens.stops))
    limits = texts.chars[owner + 1]
    same = np.flatnonzero(owner[1:] == owner[:-1])
    limits[same] = starts[same + 1]
    place = np.searchsorted(marks, stops)
    loose = np.flatnonzero((stops < limits) & (np.append(marks, -1)[place] == stops))
    lasts = np.append(np.flatnonzero(np.diff(marks) > 1), len(marks) - 1)  # of each run of marks
    ends = marks[lasts[np.searchsorted(lasts, place[loose])]] + 1
    wider = tokens.stops.copy()
    wider[which[loose]] += (np.minimum(ends, limits[loose]) - stops[loose]).astype(np.int32)
    return tokens._replace(stops=wider)


@cache
def _is_mark() -> NDArray[np.bool_]:
    """Of every code point."""
    found = np.zeros(0x110000, dtype=bool)
    for points in _HOLDING:
        found[points.start : points.stop] = [unicodedata.category(chr(point)) == "Mn" for point in points]
    return found
