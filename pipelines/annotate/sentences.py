"""Sentence boundaries by punctuation rules: offsets into the texts, which are never altered.

Sentences cover every character that is not whitespace, neither begin nor end with whitespace and never overlap. Two
sets of rules say where they end, `pipelines.annotate.chinese_sentences` and `pipelines.annotate.english_sentences`; or
sentences are lines.

Shapes: n texts, S sentences.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipelines.annotate.chinese_sentences import chinese_cuts
from pipelines.annotate.english_sentences import english_cuts
from pipelines.ragged import Ints, bounds

CHINESE_RULES = frozenset({"zh", "yue", "ja"})
_SPACE = np.array([chr(code).isspace() for code in range(0x3001)] + [False])
"""Of every code point up to the last that is white space, and one for all others."""


def split_texts(texts: Sequence[str], language: str, *, lines: bool = False) -> tuple[Ints, Ints, Ints]:
    """Sentences of texts in `language` (`zh`, `en`, ...).

    With `lines` a sentence is a line, as in BERT's pretraining files; only LF and CRLF end one.

    Returns:
        starts, stops: int64[S], in characters of the own text; offsets: int64[n+1], text i has the sentences
        `offsets[i]:offsets[i + 1]`.
    """
    laid = "\n".join([*texts, ""])
    codes = np.frombuffer(laid.encode("utf-32-le", "surrogatepass"), "<u4")
    edges = bounds(np.fromiter(map(len, texts), np.int64, len(texts)) + 1)
    if lines:
        stops = np.flatnonzero(codes == ord("\n")) + 1
    elif language in CHINESE_RULES:
        stops = chinese_cuts(laid, codes, edges)
    else:
        own = [english_cuts(text) for text in texts]
        flat = [start + cut for start, cuts in zip(edges.tolist(), own, strict=False) for cut in cuts]
        stops = np.sort(np.concatenate((np.array(flat, np.int64), edges[1:])))
    starts, stops = _stripped(laid, codes, stops)
    offsets = np.searchsorted(starts, edges).astype(np.int64)
    base = np.repeat(edges[:-1], np.diff(offsets))
    return starts - base, stops - base, offsets


def split_sentences(text: str, language: str, *, lines: bool = False) -> tuple[list[int], list[int]]:
    """Sentence starts and stops, in characters, of one text."""
    starts, stops, _ = split_texts([text], language, lines=lines)
    return starts.tolist(), stops.tolist()


def _stripped(laid: str, codes: np.ndarray, stops: Ints) -> tuple[Ints, Ints]:
    """Starts and stops of the stretches that end at `stops`, without the white space at their ends; of white space
    alone there is none."""
    starts = np.append(0, stops)[:-1]
    stops = stops - (codes[stops - 1] == ord("\n"))
    filled = stops > starts
    starts, stops = starts[filled], stops[filled]
    first, last = (_SPACE[np.minimum(codes[edge], 0x3001)] for edge in (starts, stops - 1))
    for i in np.flatnonzero(first | last).tolist():
        piece = laid[starts[i] : stops[i]]
        left = len(piece.lstrip())
        starts[i], stops[i] = stops[i] - left, starts[i] + len(piece.rstrip())
    kept = stops > starts
    return starts[kept], stops[kept]
