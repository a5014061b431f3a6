"""A subject's triples in rank order: the first that are wanted, and how many were passed over before each.

In file order a subject is looked at in a few growing steps, only until enough are found. Other ranks
need all of its triples, in pieces of `CHUNK`: memory stays bounded for one with millions of objects,
and a million takes about half a second.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kg.graph import KnowledgeGraph
from kg.tree.ragged import expand, group_starts, places
from kg.tree.rows import GraftPolicy

PREDICATE, TOO_LONG, REPEATED = range(3)
"""Reasons to pass a triple over: columns of `RankedLists.before`."""

CHUNK = 1 << 16
"""Triples looked at together."""
_LOOK_AHEAD = 1 << 12


@dataclass(frozen=True)
class RankedLists:
    """The first different triples of U subjects, loops among them, in rank order."""

    lengths: np.ndarray  # int64[U]
    triples: np.ndarray  # int64[E]
    before: np.ndarray  # int32[E, 3]: triples passed over before each, by reason (no loops)
    total: np.ndarray  # int64[U, 3]: triples passed over, where the list is complete
    complete: np.ndarray  # bool[U]: there are no more


class Ranking:
    """A subject's triples in the order that a policy wants, without a cache."""

    def __init__(self, graph: KnowledgeGraph, policy: GraftPolicy) -> None:
        self._graph = graph
        self._policy = policy
        self._in_file_order = policy.rank == "file"
        self._unwanted = unwanted_predicates(graph, policy)
        self.shows_predicate = policy.predicate

    def objects(self, triples: np.ndarray) -> np.ndarray:
        """Object numbers, int64[N]."""
        return self._graph.objects[triples].astype(np.int64)

    def reasons(self, triples: np.ndarray) -> np.ndarray:
        """PREDICATE, TOO_LONG or, where a triple is wanted by itself, -1; int64[N]."""
        objects = self._graph.objects[triples]
        long = self._graph.object_lengths[objects] > self._policy.max_object_length
        reasons = np.where(long, TOO_LONG, -1)
        if self._unwanted is not None:
            reasons[self._unwanted[self._graph.predicates[triples]]] = PREDICATE
        return reasons

    def head(self, subject: int, count: int) -> np.ndarray:
        """The first `count` triples of a subject in rank order, whatever they are; int64."""
        subjects, counts = np.array([subject]), np.array([count])
        return self._first(subjects, counts, everything=True)[1]

    def lists(self, subjects: np.ndarray, counts: np.ndarray) -> RankedLists:
        """The first `counts` wanted triples of each of `subjects` (int64[U], ascending, unique)."""
        owner, triples, passing = self._first(subjects, counts)
        lengths = np.bincount(owner, minlength=len(subjects))
        complete = lengths < counts
        before = np.zeros((len(triples), 3), np.int64)
        total = np.zeros((len(subjects), 3), np.int64)
        if passing.any():
            begin, end = self._ranges(subjects)
            if self._in_file_order:
                last = triples[np.cumsum(lengths)[~complete] - 1]
                end[~complete] = last + 1
            self._count(np.flatnonzero(passing), begin, end, owner, triples, before, total)
        return RankedLists(lengths, triples, before.astype(np.int32), total, complete)

    def _ranges(self, subjects: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._graph.triple_ranges(subjects)

    def _keys(self, triples: np.ndarray) -> tuple[np.ndarray, ...]:
        """What triples of a subject are sorted by, last key first as `np.lexsort` wants them."""
        if self._in_file_order:
            return (triples,)
        objects = self.objects(triples)
        if self._policy.rank == "shortest":
            first = self._graph.object_lengths[objects].astype(np.int64)
        else:
            first = self._graph.object_counts[objects].astype(np.int64)
            if self._policy.rank == "most_frequent":
                first = -first
        return (self._graph.predicates[triples], (first << 32) + objects)

    def _first(
        self, subjects: np.ndarray, counts: np.ndarray, everything: bool = False
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(owner, triples, passing): the first `counts` triples of each subject in rank order, those
        wanted and different or, with `everything`, any. `passing` is bool[U]: some were passed over."""
        at, end = self._ranges(subjects)
        active = np.arange(len(subjects))
        passing = np.zeros(len(subjects), np.bool_)
        held_owner, held = np.empty(0, np.int64), np.empty(0, np.int64)
        owners, triples = [], []
        # In file order, and where objects may repeat, what was found once stays.
        final = self._in_file_order and (everything or self._policy.predicate)
        got = np.zeros(len(subjects), np.int64)
        ahead = min(max(4, 2 * int(counts.max(initial=1))), _LOOK_AHEAD)
        while len(active):
            take = end[active] - at[active]
            if self._in_file_order:
                take = np.minimum(take, ahead)
            take = np.minimum(take, np.maximum(CHUNK - (np.cumsum(take) - take), 0))
            triple, owner = expand(at[active], take), np.repeat(active, take)
            at[active] += take
            if not everything:
                good = self.reasons(triple) < 0
                passing[owner[~good]] = True
                owner, triple = owner[good], triple[good]
            if final:
                kept = got[owner] + places(owner) < counts[owner]
                owners.append(owner[kept])
                triples.append(triple[kept])
                got += np.bincount(owners[-1], minlength=len(subjects))
                active = active[(at[active] < end[active]) & (got[active] < counts[active])]
                ahead = min(2 * ahead, CHUNK)
                continue
            owner, triple = np.concatenate((held_owner, owner)), np.concatenate((held, triple))
            if not self._in_file_order:
                order = np.lexsort((*self._keys(triple), owner))
                owner, triple = owner[order], triple[order]
            elif len(held):  # two runs that stand in order
                order = np.argsort(owner, kind="stable")
                owner, triple = owner[order], triple[order]
            if not everything and not self._policy.predicate:
                different = self._different(owner, triple)
                passing[owner[~different]] = True
                owner, triple = owner[different], triple[different]
            kept = places(owner) < counts[owner]
            owner, triple = owner[kept], triple[kept]
            going = at[active] < end[active]
            if self._in_file_order:
                going &= np.bincount(owner, minlength=len(subjects))[active] < counts[active]
            active = active[going]
            held_here = np.zeros(len(subjects), np.bool_)
            held_here[active] = True
            hold = held_here[owner]
            held_owner, held = owner[hold], triple[hold]
            owners.append(owner[~hold])
            triples.append(triple[~hold])
            ahead = min(2 * ahead, CHUNK)
        owner = np.concatenate(owners) if owners else np.empty(0, np.int64)
        flat = np.concatenate(triples) if triples else np.empty(0, np.int64)
        if len(owners) > 1:  # a subject's triples come out together, but not one subject after another
            order = np.argsort(owner, kind="stable")
            owner, flat = owner[order], flat[order]
        return owner, flat, passing

    def _different(self, owner: np.ndarray, triples: np.ndarray) -> np.ndarray:
        """bool[N]: the first with its object among those of its owner."""
        first = np.zeros(len(triples), np.bool_)
        first[np.unique(owner * self._graph.info.objects + self.objects(triples), return_index=True)[1]] = (
            True
        )
        return first

    def _count(
        self,
        active: np.ndarray,
        at: np.ndarray,
        end: np.ndarray,
        owner: np.ndarray,
        listed: np.ndarray,
        before: np.ndarray,
        total: np.ndarray,
    ) -> None:
        """Fill in what was passed over before each listed triple, and in all, for the subjects `active`.

        Triples that are wanted but not listed are repeated ones, up to the last that is listed.
        """
        subjects, chosen = len(total), np.zeros(len(total), np.bool_)
        chosen[active] = True
        while len(active):
            take = end[active] - at[active]
            take = np.minimum(take, np.maximum(CHUNK - (np.cumsum(take) - take), 0))
            triple, of = expand(at[active], take), np.repeat(active, take)
            at[active] += take
            reason = self.reasons(triple)
            kind = np.where(reason < 0, REPEATED, reason)
            if self._in_file_order:
                self._count_in_file_order(triple, of, kind, owner, listed, before, total)
            total += np.bincount(of * 3 + kind, minlength=3 * subjects).reshape(subjects, 3)
            if self._in_file_order:
                active = active[at[active] < end[active]]
                continue
            here = np.zeros(subjects, np.bool_)
            here[active[take > 0]] = True
            entry = np.flatnonzero(here[owner])
            both, both_of = np.concatenate((listed[entry], triple)), np.concatenate((owner[entry], of))
            kind = np.concatenate((np.full(len(entry), -1), kind))
            # A listed triple stands before itself, so that what is counted before it is before it.
            order = np.lexsort((kind >= 0, *self._keys(both), both_of))
            kind, both_of = kind[order], both_of[order]
            place = np.flatnonzero(kind < 0)
            first = np.searchsorted(both_of, both_of[place])
            for k in range(3):
                count = np.concatenate(([0], np.cumsum(kind == k)))
                before[entry[order[place]], k] += count[place] - count[first]
            active = active[at[active] < end[active]]
        mine = np.flatnonzero(chosen[owner])
        before[mine, REPEATED] -= places(owner)[mine]
        total[chosen, REPEATED] -= np.bincount(owner, minlength=subjects)[chosen]

    @staticmethod
    def _count_in_file_order(
        triple: np.ndarray,
        of: np.ndarray,
        kind: np.ndarray,
        owner: np.ndarray,
        listed: np.ndarray,
        before: np.ndarray,
        total: np.ndarray,
    ) -> None:
        """`_count` for the listed ones among `triple`, which ascend as `listed` do: each is looked at once."""
        first, end = np.searchsorted(listed, triple[0]), np.searchsorted(listed, triple[-1], side="right")
        entry = np.arange(first, end)
        place = np.searchsorted(triple, listed[entry])
        here = triple[place] == listed[entry]  # others are of subjects that are not asked for
        entry, place = entry[here], place[here]
        start = group_starts(of)[place]
        for k in range(3):
            count = np.concatenate(([0], np.cumsum(kind == k)))
            before[entry, k] = total[owner[entry], k] + count[place] - count[start]


def unwanted_predicates(graph: KnowledgeGraph, policy: GraftPolicy) -> np.ndarray | None:
    """bool[P] by predicate number; None where every predicate is wanted."""
    if policy.include_predicates is None and not policy.exclude_predicates:
        return None
    unwanted = np.full(graph.info.predicates, policy.include_predicates is not None)
    for wanted, texts in ((True, policy.include_predicates or ()), (False, policy.exclude_predicates)):
        numbers = [number for text in texts if (number := graph.predicate_id(text)) >= 0]
        unwanted[numbers] = not wanted
    return unwanted
