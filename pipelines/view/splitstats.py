"""Counts of a split: what is filled while rows are read, and shown afterwards."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from pipelines.view.histogram import Histogram, TripleCounts


@dataclass
class SplitStats:
    """Counts of a split, or of several merged ones. A histogram is there if its columns are."""

    rows: int = 0
    shards: int = 0
    tally: Counter[str] = field(default_factory=Counter)
    """tokens, text_tokens, unknown, full (rows of `max_length`), coarse_tokens, coarse_text_tokens,
    coarse_unknown, rows_with_branches, branches, deep_branches (of depth 2), branch_tokens, unknown_in_branches,
    unlabelled (rows with neither label nor score, of a task that has labels by row); of questions, choices and
    targets those that `pipelines.view.stats_tasks` names."""
    histograms: dict[str, Histogram] = field(default_factory=dict)
    labels: Counter[str] = field(default_factory=Counter)
    token_labels: Counter[str] = field(default_factory=Counter)
    deprels: Counter[str] = field(default_factory=Counter)
    triples: TripleCounts = field(default_factory=TripleCounts)
    scores: list[float] = field(default_factory=list)
    """Count, sum, least and greatest of `label_score`, where there are any."""
    counters: Counter[str] = field(default_factory=Counter)
    """Of the manifest: what the run counted."""
    rejects: Counter[str] = field(default_factory=Counter)
    """Of the manifest: rejected records by reason; of the annotated documents beside the shards, too."""

    def histogram(self, name: str) -> Histogram:
        """The histogram of this name, made empty if it is not there."""
        return self.histograms.setdefault(name, Histogram())

    def merge(self, other: SplitStats) -> None:
        """Add another split's counts."""
        self.rows += other.rows
        self.shards += other.shards
        for name, histogram in other.histograms.items():
            self.histogram(name).merge(histogram)
        for name in ("tally", "labels", "token_labels", "deprels", "counters", "rejects"):
            getattr(self, name).update(getattr(other, name))
        self.triples.merge(other.triples)
        if other.scores:
            self.add_scores(*other.scores)

    def add_scores(self, count: float, total: float, low: float, high: float) -> None:
        """Add regression targets by their count, sum, least and greatest."""
        a = self.scores or [0.0, 0.0, low, high]
        self.scores = [a[0] + count, a[1] + total, min(a[2], low), max(a[3], high)]

    def dropped(self) -> dict[str, int]:
        """Mentions and branches dropped, by the run's counters, most frequent first."""
        found = {k: n for k, n in self.counters.items() if k.startswith("dropped_") and n}
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def flat_list(batch: pa.RecordBatch, name: str) -> tuple[np.ndarray, np.ndarray]:
    """A list column's values in one array, and int64[R + 1] offsets of the rows in it, from 0."""
    column = batch.column(name)
    offsets = column.offsets.to_numpy().astype(np.int64)
    values = column.values.to_numpy(zero_copy_only=False)
    return values[offsets[0] : offsets[-1]], offsets - offsets[0]


def sums(mask: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """How many are true in each row."""
    # Positions rather than a running sum: what is counted is rare.
    return np.diff(np.searchsorted(np.flatnonzero(mask), rows))
