"""Rows of different lengths in flat arrays: the few steps that look-up, trees and flattening share."""

from __future__ import annotations

import numpy as np


def expand(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The ranges `starts[i]` up to `starts[i] + lengths[i]`, one after another, int64."""
    total = int(lengths.sum())
    firsts = np.cumsum(lengths) - lengths
    return np.repeat(starts - firsts, lengths) + np.arange(total)


def places(owner: np.ndarray) -> np.ndarray:
    """Place of each value among those of the same owner, from 0, int64[N]; `owner` ascends."""
    return np.arange(len(owner)) - group_starts(owner)


def group_starts(owner: np.ndarray) -> np.ndarray:
    """Index of the first value that has the same owner, int64[N]; `owner` ascends."""
    if not len(owner):
        return np.empty(0, np.int64)
    start = np.flatnonzero(np.concatenate(([True], owner[1:] != owner[:-1])))
    return np.repeat(start, np.diff(np.append(start, len(owner))))


class Slots:
    """Slot numbers of int64 keys: a dictionary over whole arrays, by binary search."""

    def __init__(self) -> None:
        self._keys = np.empty(0, np.int64)
        self._slots = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, keys: np.ndarray) -> np.ndarray:
        """Slot of each key, -1 where there is none, int64[n]."""
        if not len(self._keys):
            return np.full(len(keys), -1)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[at] == keys, self._slots[at], -1)

    def put(self, keys: np.ndarray, slots: np.ndarray) -> None:
        """Set the slots of keys, which ascend and do not repeat; a key that has one gets the new one."""
        at = np.searchsorted(self._keys, keys)
        known = np.zeros(len(keys), np.bool_)
        inside = at < len(self._keys)
        known[inside] = self._keys[at[inside]] == keys[inside]
        self._slots[at[known]] = slots[known]
        self._keys = np.insert(self._keys, at[~known], keys[~known])
        self._slots = np.insert(self._slots, at[~known], slots[~known])
