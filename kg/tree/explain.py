"""Why a triple is in a tree, or is not: every decision about the mentions of some rows, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from kg.graph import KnowledgeGraph
from kg.tree.anchors import Anchors
from kg.tree.graft import OUTCOMES, PASSED, Decided, Offers
from kg.tree.ranking import Ranking

BEYOND = "beyond_branches_per_mention"
LISTED = 32
"""Triples named of one subject; kept branches always are, the rest beyond it is counted."""


@dataclass(frozen=True)
class Decision:
    """What became of a triple that a mention could have; or of a mention (`triple` -1)."""

    row: int
    segment: int  # 0 = A, 1 = B
    start: int  # characters of the segment's text
    stop: int
    subject: int
    outcome: str
    """`kept`, or why not: the name of a counter without `dropped_`, or `beyond_branches_per_mention`."""
    triple: int = -1
    parent: int = -1
    """Triple of the branch that it hangs from or would; -1: the trunk."""
    count: int = 1
    """Triples that this stands for; where `triple` is -1 they are too many to name."""


def explain(
    graph: KnowledgeGraph,
    ranking: Ranking,
    branches_per_mention: int,
    anchors: Anchors,
    decided: Iterable[Decided],
) -> list[Decision]:
    """Decisions mention by mention in the order of the text; the candidates of each in rank order, those
    of a branch that has branches right behind it. The counts of each outcome sum to the counters."""
    lister = _Lister(graph, ranking, branches_per_mention)
    by_anchor = (lines for part in decided for lines in lister.mentions(part, anchors))
    found = []
    mentions = anchors.mentions
    for k, (exact, within) in enumerate(zip(anchors.exact.tolist(), anchors.within.tolist(), strict=True)):
        text, start, stop = (int(column[k]) for column in (mentions.texts, mentions.starts, mentions.stops))
        where = (text // 2, text % 2, start, stop, int(mentions.subjects[k]))
        lost = "unaligned" if within else "anchor_cut"
        lines = next(by_anchor) if exact else [(lost, -1, -1, 1)]
        found += [Decision(*where, outcome, triple, parent, n) for outcome, triple, parent, n in lines]
    return found


_Line = tuple[str, int, int, int]  # outcome, triple, parent, count


class _Lister:
    def __init__(self, graph: KnowledgeGraph, ranking: Ranking, limit: int) -> None:
        self._graph = graph
        self._ranking = ranking
        self._limit = limit
        self._heads: dict[int, np.ndarray] = {}

    def mentions(self, part: Decided, anchors: Anchors) -> Iterator[list[_Line]]:
        """The lines of each anchor of `part`."""
        far_of = {int(offer): node for node, offer in enumerate(part.growing.tolist())}
        for node, anchor in enumerate(part.anchors):
            subject = int(anchors.subject[anchor])
            lines: list[_Line] = []
            for offer, line in self._node(part.near, node, subject, (), -1):
                lines.append(line)
                if part.far is not None and offer in far_of:
                    triple = line[1]
                    further = int(self._graph.object_subjects[self._graph.objects[triple]])
                    lines += (
                        inner for _, inner in self._node(part.far, far_of[offer], further, (subject,), triple)
                    )
            yield lines

    def _node(
        self, offers: Offers, node: int, subject: int, ancestors: tuple[int, ...], parent: int
    ) -> Iterator[tuple[int, _Line]]:
        """(index of the offer or -1, line) of one node's triples."""
        first, end = np.searchsorted(offers.node, [node, node + 1]).tolist()
        offered = {int(offers.triple[k]): k for k in range(first, end)}
        left = Counter(dict(zip(PASSED, offers.passed[node].tolist(), strict=True)))
        left[BEYOND] = len(self._graph.triples_of(subject)) - len(offered) - left.total()
        named = 0
        for triple, outcome in self._in_order(subject, (subject, *ancestors), offered):
            offer = offered.get(triple, -1)
            if offer >= 0:
                outcome = OUTCOMES[offers.outcome[offer]]
            if named < LISTED or outcome == "kept":
                named += 1
                left[outcome] -= offer < 0
                yield offer, (outcome, triple, parent, 1)
            elif offer >= 0:
                left[outcome] += 1
        for outcome, count in left.items():
            if count:
                yield -1, (outcome, -1, parent, count)

    def _in_order(
        self, subject: int, path: tuple[int, ...], offered: dict[int, int]
    ) -> Iterator[tuple[int, str]]:
        """The first triples in rank order with the reason why each was passed over, "" for those that
        were not; and the rest of `offered`."""
        if subject not in self._heads:
            self._heads[subject] = self._ranking.head(subject, LISTED)
        head = self._heads[subject]
        reasons = self._ranking.reasons(head).tolist()
        numbers = self._graph.objects[head].tolist()
        seen: set[int] = set()
        last = max(offered.values()) if len(offered) == self._limit else -1
        done = False
        for triple, reason, number in zip(head.tolist(), reasons, numbers, strict=True):
            if done:
                yield triple, BEYOND
            elif reason >= 0:
                yield triple, PASSED[reason]
            elif triple in offered:
                yield triple, ""
            elif number in seen and not self._ranking.shows_predicate:
                yield triple, "object_repeated"
            elif int(self._graph.object_subjects[number]) in path:
                yield triple, "loop"
            if reason < 0:
                seen.add(number)
            done = done or offered.get(triple, -2) == last
        in_head = set(head.tolist())
        yield from ((triple, "") for triple in offered if triple not in in_head)
