"""Tokens and rows by hand, for tests of what becomes a row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipelines.encode.assemble import Rows
from pipelines.encode.tokenizer import Tokens
from pipelines.ragged import bounds


def tokens_of(texts: Sequence[str]) -> Tokens:
    """A token per character."""
    lengths = [len(t) for t in texts]
    starts = np.concatenate([np.zeros(0, np.int32), *(np.arange(n, dtype=np.int32) for n in lengths)])
    return Tokens(np.full(len(starts), 9, np.int32), starts, starts + 1, bounds(lengths))


def spans(rows: Rows) -> list[tuple[int, ...]]:
    """(document of A, of B, A's span, B's span, label) of each row."""
    labels = [0] * len(rows) if rows.labels is None else rows.labels.tolist()
    columns = (rows.texts.tolist(), rows.starts.tolist(), rows.stops.tolist(), labels)
    return [
        (ta, tb, a0, a1, b0, b1, label) for (ta, tb), (a0, b0), (a1, b1), label in zip(*columns, strict=True)
    ]
