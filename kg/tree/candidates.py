"""Which triples of a subject may become branches: the first that are wanted, in rank order.

Passed over, in this order of reasons, are triples with a predicate that is not wanted, with an object
that is too long, with an object that the subject has had already (where branches have no predicate),
and loops: an object that is, after folding, the subject itself or one that the branch hangs from. What
is left, up to `branches_per_mention`, are the candidates. What stands behind the last candidate is
not counted.
"""

from __future__ import annotations

from dataclasses import dataclass

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
        unique, inverse = np.unique(subjects, return_inverse=True)
        counts = np.full(len(unique), self._count + self._spare)
        while True:
            slots = self._ensure(unique, counts)[inverse]
            found, short = self._cut(slots, subjects, ancestors)
            if not len(short):
                return found
            # Loops took the places of candidates: look further.
            counts[inverse[short]] = np.maximum(
                2 * self._lists.lengths[slots[short]], counts[inverse[short]] + 1
            )

    def _cut(
        self, slots: np.ndarray, subjects: np.ndarray, ancestors: np.ndarray
    ) -> tuple[Candidates, np.ndarray]:
        """Candidates by the lists there are, and the pairs whose list is too short to tell."""
        lists = self._lists
        lengths = lists.lengths[slots]
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
        passed = np.empty((len(slots), 4), np.int64)
        passed[:, :3] = lists.total[slots]
        passed[:, LOOP] = lengths - good
        last = np.flatnonzero(kept & (place == self._count))  # one of each that is full
        passed[full, :3] = lists.before[entry[last]]
        passed[full, LOOP] = looped[last]
        offsets = np.concatenate(([0], np.cumsum(np.minimum(good, self._count))))
        return Candidates(offsets, triple[kept], passed), np.flatnonzero(~full & ~lists.complete[slots])

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
