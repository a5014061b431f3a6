"""Of spans that may overlap, those that are taken from left to right, without a loop over spans.

"The next one that starts at my end or later" is followed from all places that no earlier span reaches over, at once.
"""

from __future__ import annotations

import numpy as np

_FEW, _MANY_ROUNDS = 32, 256


def leftmost(starts: np.ndarray, stops: np.ndarray, size: int) -> np.ndarray:
    """Indices of the spans taken from left to right, each starting at or after the end of the one taken
    before; `starts` ascend and differ, int64[n], all below `size`."""
    count = len(starts)
    if not count:
        return np.empty(0, np.int64)
    before: np.ndarray = np.zeros(size + 1, np.int32)  # spans that start before each position
    before[starts + 1] = 1
    np.cumsum(before, out=before)
    following = before.take(stops)
    # A span that none before it reaches over is taken for certain: chains start there and end at the next.
    reach = np.maximum.accumulate(stops)
    sure = np.ones(count + 1, np.bool_)
    sure[1:count] = starts[1:] >= reach[:-1]
    taken = sure[:count].copy()
    heads = np.flatnonzero(taken)
    rounds = 0
    while len(heads := _unsure(following.take(heads), sure)) > _FEW or (len(heads) and rounds < _MANY_ROUNDS):
        taken[heads] = True
        rounds += 1
    for head in heads.tolist():  # a few long chains are quicker one by one
        while not sure[head]:
            taken[head] = True
            head = int(following[head])
    return np.flatnonzero(taken)


def _unsure(spans: np.ndarray, sure: np.ndarray) -> np.ndarray:
    return spans[~sure.take(spans)]
