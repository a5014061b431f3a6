"""Which tokens make up a row: segments as spans of a block's flat tokens, chosen by task.

Nothing is copied here. A row is at most two spans; `pipelines.encode.columns` turns the spans of a whole
block into columns. Spans never break the budget ([CLS] A [SEP] or [CLS] A [SEP] B [SEP] within
`max_length`), are never empty, and are never cut inside a grapheme cluster unless the row would
be empty otherwise.

Rows of `classify`, `choice` (a row a choice) and `tag` are here; `pipelines.encode.pretrain`, `.span` and
`.seq2seq` have the others.

Shapes: R rows, N flat tokens, U source tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corpora.graphemes import inside_cluster
from pipelines.encode.tokenizer import Tokens
from pipelines.ragged import Ints

NONE = -1
"""Text of a segment that a row does not have."""


@dataclass(frozen=True)
class Rows:
    """R rows as spans of flat tokens, column 0 for segment A and 1 for segment B."""

    documents: Ints
    """[R], document that names the row"""
    texts: Ints
    """[R, 2], text that the segment is from; -1 without a segment B"""
    starts: Ints
    """[R, 2], first flat token"""
    stops: Ints
    """[R, 2], one past the last"""
    labels: NDArray[np.int32] | None = None
    """[R], `pretrain` with pairs: 0 = B follows A, 1 = B is random"""
    counters: Counter[str] = field(default_factory=Counter)
    unended: NDArray[np.bool_] | None = None
    """[R], `seq2seq`: no [SEP] ends segment B, which was cut before its end"""

    def __len__(self) -> int:
        return len(self.documents)

    def lengths(self) -> Ints:
        """Tokens of each row with its special tokens, int64[R]."""
        lengths: Ints = (self.stops - self.starts).sum(axis=1) + 2 + (self.texts[:, 1] >= 0)
        return lengths if self.unended is None else lengths - self.unended

    def slice(self, start: int, stop: int) -> Rows:
        """Rows [start, stop), without the counters."""
        part = slice(start, stop)
        return Rows(
            self.documents[part],
            self.texts[part],
            self.starts[part],
            self.stops[part],
            None if self.labels is None else self.labels[part],
            unended=None if self.unended is None else self.unended[part],
        )


# --- cutting ----------------------------------------------------------------------------------


class Cutter:
    """Moves a cut back to where it parts no grapheme cluster."""

    def __init__(self, texts: Sequence[str], tokens: Tokens) -> None:
        self._texts, self._starts = texts, tokens.starts.data  # whose items are plain numbers

    def is_clean(self, text: int, token: int) -> bool:
        """Whether a span of `text` may begin at `token` and another end right before it."""
        at = self._starts[token]
        return at != self._starts[token - 1] and not inside_cluster(self._texts[text], at)

    def stop(self, text: int, start: int, stop: int) -> int:
        """The last clean end of a span at or before `stop`; `stop` itself if none is past `start`."""
        at = stop
        while at > start and not self.is_clean(text, at):
            at -= 1
        return at if at > start else stop

    def start(self, text: int, start: int, stop: int) -> int:
        """The first clean beginning of a span at or after `start`; `start` if none is before `stop`."""
        at = start
        while at < stop and not self.is_clean(text, at):
            at += 1
        return at if at < stop else start


def longest_first(a: ArrayLike, b: ArrayLike, budget: int) -> tuple[Ints, Ints]:
    """Lengths left when tokens go one by one from the longer of two segments, B's where they are equal.

    In closed form: the shorter keeps all it has up to half of the budget.
    """
    left, right = np.asarray(a, np.int64), np.asarray(b, np.int64)
    over = left + right > budget
    new_left = np.maximum(budget - right, np.minimum(left, budget - budget // 2))
    new_right = np.maximum(budget - left, np.minimum(right, budget // 2))
    return np.where(over, new_left, left), np.where(over, new_right, right)


# --- classify and tag -------------------------------------------------------------------------


def classify_rows(
    tokens: Tokens, pairs: Ints, max_length: int, cutter: Cutter, documents: Ints | None = None
) -> Rows:
    """One row a pair: a text, or text and second text, cut to the budget.

    Args:
        pairs: [R, 2], text of segment A and of B; -1 without a second text. Texts without tokens must be
            left out before.
        documents: [R], document of each pair; default: the number of its text.

    A single text is cut at its end; of a pair, tokens go from the end of the longer side.
    Counters: `truncated_rows`.
    """
    texts = np.asarray(pairs, np.int64).reshape(-1, 2)
    has = texts >= 0
    starts = np.where(has, tokens.offsets[texts], 0)
    whole = np.where(has, tokens.offsets[texts + 1] - starts, 0)
    kept = np.stack(
        (np.minimum(whole[:, 0], max_length - 2), np.zeros(len(texts), np.int64)),
        axis=1,
    )
    both = has[:, 1]
    if both.any():
        kept[both, 0], kept[both, 1] = longest_first(whole[both, 0], whole[both, 1], max_length - 3)
    stops = starts + kept
    cut = kept < whole
    for row, side in np.argwhere(cut).tolist():
        stops[row, side] = cutter.stop(texts[row, side], starts[row, side], stops[row, side])
    counters = Counter(truncated_rows=int(cut.any(axis=1).sum()))
    names = texts[:, 0] if documents is None else documents
    return Rows(names.copy(), texts, starts, stops, None, counters)


def tag_rows(tokens: Tokens, units: Ints, documents: Ints, max_length: int, cutter: Cutter) -> Rows:
    """One row a labelled sequence, cut after a whole source token where one fits.

    Args:
        units: [N], source token of each flat token, counted over the whole block.
        documents: [R], texts that become rows; each has tokens.

    Counters: `truncated_rows`; `labels_truncated`, source tokens that the cut left out.
    """
    starts, ends = tokens.offsets[documents], tokens.offsets[documents + 1]
    stops = np.minimum(ends, starts + max_length - 2)
    lost = 0
    for row in np.flatnonzero(stops < ends).tolist():
        text, start, stop = int(documents[row]), int(starts[row]), int(stops[row])
        at = stop
        while at > start and not (units[at] != units[at - 1] and cutter.is_clean(text, at)):
            at -= 1
        stops[row] = at = at if at > start else cutter.stop(text, start, stop)
        lost += int(units[ends[row] - 1] - units[at - 1])
    counters = Counter(truncated_rows=int((stops < ends).sum()), labels_truncated=lost)
    none = np.zeros(len(documents), np.int64)
    return Rows(
        np.asarray(documents, np.int64),
        np.stack((documents, none + NONE), axis=1),
        np.stack((starts, none), axis=1),
        np.stack((stops, none), axis=1),
        None,
        counters,
    )
