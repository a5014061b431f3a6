"""Which triples of a subject may become branches: the first that are wanted, in rank order.

Passed over, in this order of reasons, are triples with a predicate that is not wanted, with an object
that is too long, with an object that the subject has had already (where branches have no predicate),
and loops: an object that is, after folding, the subject itself or one that the branch hangs from. What
is left, up to `branches_per_mention`, are the candidates. What stands behind the last candidate is
not counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kg.graph import KnowledgeGraph
from kg.tree.ragged import Slots, expand, places
from kg.tree.ranking import RankedLists, Ranking
from kg.tree.rows import GraftPolicy

LOOP = 3
"""The column of `Candidates.passed` for loops, after those of `kg.tree.ranking`."""

MAX_CACHED_TRIPLES = 1 << 19
MAX_CACHED_SUBJECTS = 1 << 18
"""Kept between blocks, 25 MiB in all; when there are more the cache starts anew."""
_AT_ONCE = 1 << 18
"""Entries of lists looked at together."""


@dataclass(frozen=True)
class Candidates:
    """The candidates of U pairs of a subject and the one that it hangs from, in rank order."""

    offsets: np.ndarray  # int64[U + 1] into triples
    triples: np.ndarray  # int64[C]
    passed: np.ndarray  # int64[U, 4]: triples passed over before the last candidate, by reason


class CandidateFinder:
    """Candidates of subjects, kept from block to block. Not for several threads at once.

    Bounded: see `MAX_CACHED_SUBJECTS`. What is found never depends on what was asked before.
    """

    def __init__(self, graph: KnowledgeGraph, policy: GraftPolicy) -> None:
        self.ranking = Ranking(graph, policy)
        self._graph = graph
        self._count = policy.branches_per_mention
        # With depth 2 a triple often leads back to where the branch comes from.
        self._spare = policy.depth - 1
        self._forget()

    def _forget(self) -> None:
        self._slots = Slots()
        self._starts = np.empty(0, np.int64)
        empty = np.empty(0, np.int64)
        self._lists = RankedLists(
            empty, empty, np.empty((0, 3), np.int32), np.empty((0, 3), np.int64), np.empty(0, np.bool_)
        )

    def select(self, subjects: np.ndarray, ancestors: np.ndarray) -> Candidates:
        """Candidates of each subject id (int64[U]) where it hangs from the subject `ancestors[u]`
        (int64[U]; a mention in the trunk has -2, which no object leads to)."""
        # The branches of a hub ask the same of the same pair, again and again.
        keys = subjects.astype(np.int64) * (self._graph.info.subjects + 2) + ancestors + 2
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        found = self._of_pairs(subjects[first], ancestors[first])
        lengths = np.diff(found.offsets)[inverse]
        triples = found.triples[expand(found.offsets[inverse], lengths)]
        return Candidates(np.concatenate(([0], np.cumsum(lengths))), triples, found.passed[inverse])

    def _of_pairs(self, subjects: np.ndarray, ancestors: np.ndarray) -> Candidates:
        """Candidates of different pairs, ascending by subject."""
        count = len(subjects)
        windows = np.full(count, self._count + self._spare)
        passed = np.empty((count, 4), np.int64)
        owners, triples = [], []
        pending = np.arange(count)
        while len(pending):
            unique, of = np.unique(subjects[pending], return_inverse=True)
            wanted = np.zeros(len(unique), np.int64)
            np.maximum.at(wanted, of, windows[pending])
            slots = self._ensure(unique, wanted)[of]
            lengths = np.minimum(self._lists.lengths[slots], windows[pending])
            short = []
            for part in _parts(lengths):
                pairs = pending[part]
                cut, left = self._cut(slots[part], lengths[part], subjects[pairs], ancestors[pairs])
                done = np.ones(len(pairs), np.bool_)
                done[left] = False
                passed[pairs[done]] = cut.passed[done]
                owner = np.repeat(np.arange(len(pairs)), np.diff(cut.offsets))
                owners.append(pairs[owner[done[owner]]])
                triples.append(cut.triples[done[owner]])
                short.append(pairs[left])
            pending = np.concatenate(short)
            windows[pending] *= 2  # loops took the places of candidates: look further
        owner = np.concatenate(owners) if owners else np.empty(0, np.int64)
        flat = np.concatenate(triples) if triples else np.empty(0, np.int64)
        order = np.argsort(owner, kind="stable")
        offsets = np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=count))))
        return Candidates(offsets, flat[order], passed)

    def _cut(
        self, slots: np.ndarray, lengths: np.ndarray, subjects: np.ndarray, ancestors: np.ndarray
    ) -> tuple[Candidates, np.ndarray]:
        """Candidates by the first `lengths` of the lists there are, and the pairs to which they do not tell."""
        lists = self._lists
        entry = expand(self._starts[slots], lengths)
        triple, owner = lists.triples[entry], np.repeat(np.arange(len(slots)), lengths)
        leads_to = self._graph.object_subjects[self._graph.objects[triple]]
        loop = (leads_to == subjects[owner]) | (leads_to == ancestors[owner])
        looped = np.cumsum(loop)
        ends = np.cumsum(lengths)
        base = np.concatenate(([0], looped))[ends - lengths]
        looped -= base[owner]
        place = places(owner) + 1 - looped  # of those that are no loops, from 1
        kept = ~loop & (place <= self._count)
        good = lengths.copy()
        good[lengths > 0] -= looped[ends[lengths > 0] - 1]
        full = good >= self._count
        complete = lists.complete[slots] & (lengths == lists.lengths[slots])
        passed = np.empty((len(slots), 4), np.int64)
        passed[:, :3] = lists.total[slots]
        passed[:, LOOP] = lengths - good
        last = np.flatnonzero(kept & (place == self._count))  # one of each that is full
        passed[full, :3] = lists.before[entry[last]]
        passed[full, LOOP] = looped[last]
        offsets = np.concatenate(([0], np.cumsum(np.minimum(good, self._count))))
        return Candidates(offsets, triple[kept], passed), np.flatnonzero(~full & ~complete)

    def _ensure(self, subjects: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Slots of the lists of subjects (ascending, unique), each as long as asked or complete."""
        slots = self._slots.find(subjects)
        known = slots >= 0
        known[known] = self._lists.complete[slots[known]] | (
            self._lists.lengths[slots[known]] >= counts[known]
        )
        if known.all():
            return slots
        if len(self._lists.triples) > MAX_CACHED_TRIPLES or len(self._starts) > MAX_CACHED_SUBJECTS:
            self._forget()
            known[:] = False
        old, new = self._lists, self.ranking.lists(subjects[~known], counts[~known])
        starts = np.cumsum(new.lengths) - new.lengths + len(old.triples)
        self._slots.put(subjects[~known], len(self._starts) + np.arange(len(starts)))
        self._starts = np.concatenate((self._starts, starts))
        self._lists = RankedLists(
            *(
                np.concatenate((getattr(old, name), getattr(new, name)))
                for name in ("lengths", "triples", "before", "total", "complete")
            )
        )
        return self._slots.find(subjects)


def _parts(lengths: np.ndarray) -> Iterator[slice]:
    """Stretches of pairs with about `_AT_ONCE` entries of lists, and at least one pair each."""
    group = (np.cumsum(lengths) - lengths) // _AT_ONCE
    edges = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(lengths)]
    for begin, end in pairwise(edges):
        yield slice(begin, end)
