"""Every place where a subject stands in a text, as arrays, and why each is a mention or none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

Why = Literal["", "overlapped", "inside_word", "too_short", "too_long", "stopped"]


@dataclass(frozen=True)
class Occurrence:
    """A subject that stands in a text: `why` it is no mention, "" where it is one."""

    start: int
    stop: int
    subject: int
    why: Why


WHYS: tuple[Why, ...] = ("", "too_short", "too_long", "stopped", "overlapped", "inside_word")
"""The reasons in the order in which the first that holds is taken; `Places.why` are indices into them."""


@dataclass(frozen=True)
class Places:
    """N places where subjects stand in a text, by start and then by length."""

    starts: np.ndarray  # int64[N], characters
    stops: np.ndarray  # int64[N]
    subjects: np.ndarray  # int32[N]
    why: np.ndarray  # int8[N], index into WHYS

    def counts(self) -> dict[Why, int]:
        """How many there are of each reason, "" for mentions; without those of which there is none."""
        numbers = np.bincount(self.why, minlength=len(WHYS)).tolist()
        return {why: n for why, n in zip(WHYS, numbers, strict=True) if n}

    def others(self) -> Places:
        """Those that are no mentions."""
        kept = np.flatnonzero(self.why)
        return Places(self.starts[kept], self.stops[kept], self.subjects[kept], self.why[kept])

    def first(self, limit: int | None = None) -> list[Occurrence]:
        """The first `limit` of them."""
        columns = (self.starts, self.stops, self.subjects, self.why)
        rows = zip(*(column[:limit].tolist() for column in columns), strict=True)
        return [Occurrence(start, stop, subject, WHYS[why]) for start, stop, subject, why in rows]
