"""From pairs to what is dropped, and for what: the one step that sees all duplicates at once.

It holds the duplicates' numbers, about 100 bytes each, and nothing of what has none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from pipelines.dedup.clusters import join
from pipelines.dedup.numbering import Numbers, numbers
from pipelines.dedup.signed import SignedDocuments

_NONE: Numbers = np.zeros(0, np.uint64)


class Verdicts(NamedTuple):
    """uint64[dropped] each, in the order of the first: what is dropped, what is kept for it, and which document
    has the same text and a sketch (mostly itself)."""

    dropped: Numbers
    kept: Numbers
    signed: Numbers


class Ties(NamedTuple):
    """Documents whose text stood in their block before, and the ones that stand in for them."""

    firsts: Numbers
    others: Numbers


def read_ties(documents: SignedDocuments) -> Ties:
    """Ties of all blocks, in the order of the others."""
    firsts, others = [_NONE], [_NONE]
    for place, batches in documents.blocks():
        start = 0
        for batch in batches:
            records = np.arange(start, start + batch.num_rows)
            first = batch["first"].to_numpy()
            tied = first != records
            firsts.append(numbers(place, first[tied]))
            others.append(numbers(place, records[tied]))
            start += batch.num_rows
    return Ties(np.concatenate(firsts), np.concatenate(others))


def resolve(
    pairs: Iterable[tuple[Numbers, Numbers]], ties: Ties, first_own: int, *, within: bool
) -> Verdicts:
    """Which documents go, and for which.

    Within the corpus, pairs make clusters, and the first document of a cluster is kept. Against another one
    only, a document goes for the first one there that it is a duplicate of.
    """
    pairs = list(pairs)
    left, right = (np.concatenate([_NONE, *(pair[side] for pair in pairs)]) for side in (0, 1))
    if within:
        dropped, kept = _clusters(np.concatenate([left, ties.firsts]), np.concatenate([right, ties.others]))
    else:
        order = np.lexsort((left, right))
        dropped, at = np.unique(right[order], return_index=True)
        kept = left[order][at]
        tied, place = _look_up(ties.firsts, dropped)
        dropped = np.concatenate([dropped, ties.others[tied]])
        kept = np.concatenate([kept, kept[place]])
    own = dropped >= np.uint64(first_own)
    dropped, kept = dropped[own], kept[own]
    order = np.argsort(dropped, kind="stable")
    dropped, kept = dropped[order], kept[order]
    signed = dropped.copy()
    tied, place = _look_up(dropped, ties.others)
    signed[tied] = ties.firsts[place]
    return Verdicts(dropped, kept, signed)


def _clusters(left: Numbers, right: Numbers) -> tuple[Numbers, Numbers]:
    """Members of clusters but for the first ones, and the first ones of theirs."""
    members, places = np.unique(np.concatenate([left, right]), return_inverse=True)
    labels = join(np.arange(len(members)), places[: len(left)], places[len(left) :])
    later = labels != np.arange(len(members))
    return members[later], members[labels[later]]


def _look_up(wanted: Numbers, known: Numbers) -> tuple[np.ndarray, np.ndarray]:
    """Indices of `wanted` that stand in `known`, which rises, and where they stand there."""
    if not len(known):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    found = np.flatnonzero(known[place] == wanted)
    return found, place[found]
