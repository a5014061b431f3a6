"""What becomes of each candidate: kept, or dropped for one of the reasons of `OUTCOMES`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kg.graph import KnowledgeGraph
from kg.tree.anchors import Anchors
from kg.tree.branches import BranchTokens
from kg.tree.candidates import CandidateFinder, Candidates
from kg.tree.ragged import expand, group_starts
from kg.tree.rows import GraftPolicy, Trunks

KEPT, EMPTY, POSITION, ROW_LIMIT, BUDGET = range(5)
OUTCOMES = ("kept", "empty", "position", "row_limit", "budget")
PASSED = ("predicate", "object_too_long", "object_repeated", "loop")
"""Names of `kg.tree.candidates`' reasons, in its order. A counter is `dropped_` and a name."""

_TRUNK = -2
"""Ancestor of what hangs from the trunk: no subject, and not the -1 of an object that is none."""
_AT_ONCE = 1 << 18
"""Candidates decided together: memory stays bounded however many a mention may have."""


@dataclass(frozen=True)
class Offers:
    """C candidates that hang from N nodes (mentions, or kept branches), node by node."""

    node: np.ndarray  # int64[C], index of what it hangs from
    triple: np.ndarray  # int64[C]
    length: np.ndarray  # int64[C], tokens
    outcome: np.ndarray  # int8[C], index into OUTCOMES
    token_start: np.ndarray  # int64[C], into ids
    ids: np.ndarray  # int32, tokens of the different candidates
    passed: np.ndarray  # int64[N, 4]: triples of each node's subject passed over, by reason

    @property
    def kept(self) -> np.ndarray:
        return np.flatnonzero(self.outcome == KEPT)

    def count(self, counters: dict[str, int]) -> None:
        """Add what was dropped to `counters`."""
        outcomes = np.bincount(self.outcome, minlength=len(OUTCOMES))
        for name, n in zip(OUTCOMES[1:], outcomes[1:].tolist(), strict=True):
            counters[f"dropped_{name}"] += n
        for name, n in zip(PASSED, self.passed.sum(axis=0).tolist(), strict=True):
            counters[f"dropped_{name}"] += n


@dataclass(frozen=True)
class Decided:
    """Candidates of the mentions `anchors` (a range of them, whole rows), and of the branches kept."""

    anchors: range
    near: Offers  # nodes are the anchors, from 0
    growing: np.ndarray  # int64[N], kept offers of `near` whose object is a subject
    far: Offers | None  # nodes are `growing`


class Grafter:
    """Decides for one graph and policy; its caches are not for several threads at once."""

    def __init__(self, graph: KnowledgeGraph, policy: GraftPolicy, tokens: BranchTokens) -> None:
        self.finder = CandidateFinder(graph, policy)
        self._graph = graph
        self._policy = policy
        self._tokens = tokens
        stop = {graph.subject_id(subject) for subject in policy.stop} - {-1} if policy.depth == 2 else ()
        self._stop = np.array(sorted(stop), np.int64)

    def decide(self, trunks: Trunks, anchors: Anchors) -> Iterator[Decided]:
        """Decisions for all mentions, a group of rows at a time."""
        subjects, kind = np.unique(anchors.subject, return_inverse=True)
        found = self._find(subjects, np.full(len(subjects), _TRUNK))
        counts = np.diff(found.candidates.offsets)[kind]
        if self._policy.depth == 2:  # a branch that has branches may have as many again
            counts = counts * (1 + self._policy.branches_per_mention)
        row_end = np.searchsorted(anchors.row, anchors.row, side="right") - 1
        group = np.cumsum(counts)[row_end] // _AT_ONCE
        edges = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(kind)]
        for begin, end in pairwise(edges):
            yield self._decide(trunks, anchors, range(begin, end), found, kind[begin:end])

    def _find(self, subjects: np.ndarray, ancestors: np.ndarray) -> _Found:
        candidates = self.finder.select(subjects, ancestors)
        return _Found(subjects, candidates, *self._tokens.get(candidates.triples))

    def _decide(
        self, trunks: Trunks, anchors: Anchors, part: range, found: _Found, kind: np.ndarray
    ) -> Decided:
        here = slice(part.start, part.stop)
        first_row = int(anchors.row[part.start]) if len(part) else 0
        row = anchors.row[here] - first_row
        offsets = trunks.row_offsets[first_row : first_row + (int(row[-1]) + 2 if len(part) else 1)]
        budget = _Budget(self._policy, self._policy.max_length - np.diff(offsets))
        entry, near = found.offer(kind)
        row, soft = row[near.node], (anchors.last[here] - offsets[row])[near.node]
        budget.settle(near, row, soft)
        if self._policy.depth == 1:
            return Decided(part, near, np.empty(0, np.int64), None)

        triples = found.candidates.triples
        leads_to = self._graph.object_subjects[self._graph.objects[triples]].astype(np.int64)
        growing = near.kept
        growing = growing[self._may_grow(triples, leads_to)[entry[growing]]]
        # The same triple of the same subject has the same candidates wherever it is.
        used = np.zeros(len(triples), np.bool_)
        used[entry[growing]] = True
        pairs = np.flatnonzero(used)
        owner = np.searchsorted(found.candidates.offsets, pairs, side="right") - 1
        further = self._find(leads_to[pairs], found.subjects[owner])
        _, far = further.offer(np.searchsorted(pairs, entry[growing]))
        end = soft[growing] + near.length[growing]
        budget.settle(far, row[growing][far.node], end[far.node])
        return Decided(part, near, growing, far)

    def _may_grow(self, triples: np.ndarray, leads_to: np.ndarray) -> np.ndarray:
        """bool[n]: the object is a subject that would match as a text of its own."""
        policy = self._policy
        length = self._graph.object_lengths[self._graph.objects[triples]]
        grows = (leads_to >= 0) & (length >= policy.min_mention_length)
        if policy.max_mention_length is not None:
            grows &= length <= policy.max_mention_length
        return grows & ~np.isin(leads_to, self._stop)


@dataclass(frozen=True)
class _Found:
    """Candidates of U subjects with their tokens."""

    subjects: np.ndarray  # int64[U]
    candidates: Candidates
    ids: np.ndarray  # int32
    lengths: np.ndarray  # int64[C]

    def offer(self, kind: np.ndarray) -> tuple[np.ndarray, Offers]:
        """Candidates of subjects become candidates of nodes; `kind` is int64[N], the subject of each.

        Returns (int64[n] index of each into the candidates, offers), the outcomes still to be decided.
        """
        counts = np.diff(self.candidates.offsets)[kind]
        entry = expand(self.candidates.offsets[kind], counts)
        starts = np.cumsum(self.lengths) - self.lengths
        return entry, Offers(
            np.repeat(np.arange(len(kind)), counts),
            self.candidates.triples[entry],
            self.lengths[entry],
            np.zeros(len(entry), np.int8),
            starts[entry],
            self.ids,
            self.candidates.passed[kind],
        )


class _Budget:
    """What each of R rows has left."""

    def __init__(self, policy: GraftPolicy, room: np.ndarray) -> None:
        self._policy = policy
        self._room = room  # int64[R], tokens
        self._kept = np.zeros(len(room), np.int64)

    def settle(self, offers: Offers, row: np.ndarray, soft: np.ndarray) -> None:
        """Fill in the outcomes of offers from left to right; `row` (int64[C]) ascends, `soft` (int64[C])
        is the soft position of the token that a branch goes on from."""
        length, outcome = offers.length, offers.outcome
        outcome[soft + length >= self._policy.max_positions] = POSITION
        outcome[length == 0] = EMPTY
        wanted = np.flatnonzero(outcome == KEPT)
        row, length = row[wanted], length[wanted]
        fits = _fit(row, length, self._room)
        outcome[wanted[~fits]] = BUDGET
        if self._policy.branches_per_row is not None:
            # One that is kept never depends on those behind it: the first that fit are the first kept.
            before = np.cumsum(fits) - fits
            before += self._kept[row] - before[group_starts(row)]
            beyond = before >= self._policy.branches_per_row
            outcome[wanted[beyond]] = ROW_LIMIT
            fits &= ~beyond
        rows = len(self._room)
        taken = np.bincount(row[fits], weights=length[fits], minlength=rows)
        self._room = self._room - taken.astype(np.int64)
        self._kept += np.bincount(row[fits], minlength=rows)


def _fit(row: np.ndarray, length: np.ndarray, room: np.ndarray) -> np.ndarray:
    """bool per branch, in order: kept if it fits into what its row has left at its turn.

    `row` ascends. Equal to one pass from left to right, in a few passes over all rows: what exceeds
    the room left can never fit; of the rest, a row keeps the longest run that fits together.
    """
    room = room.copy()
    kept = np.zeros(len(row), np.bool_)
    pending = np.arange(len(row))
    while len(pending := pending[length[pending] <= room[row[pending]]]):
        total = np.cumsum(length[pending])
        first = group_starts(row[pending])
        fits = total - (total[first] - length[pending[first]]) <= room[row[pending]]
        taken = pending[fits]
        kept[taken] = True
        room -= np.bincount(row[taken], weights=length[taken], minlength=len(room)).astype(np.int64)
        pending = pending[~fits]
    return kept
