"""Kept branches and trunks become flat columns (K-BERT, Embedding layer): branches right behind what they hang from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kg.tree.anchors import Anchors
from kg.tree.graft import OUTCOMES, PASSED, Decided, Offers
from kg.tree.ragged import expand
from kg.tree.rows import Trees, Trunks


@dataclass(frozen=True)
class Branches:
    """B kept branches in flattened order: a mention's in rank order, each before the ones that hang from it."""

    anchor: np.ndarray  # int64[B], index into the anchors
    parent: np.ndarray  # int64[B], index of the branch that it hangs from, -1: the trunk
    triple: np.ndarray  # int64[B]
    length: np.ndarray  # int64[B], tokens
    ids: np.ndarray  # int32[sum of length]


def collect(decided: Iterable[Decided], depth: int) -> tuple[Branches, dict[str, int]]:
    """What was kept, and the counters of what was not."""
    counters = dict.fromkeys((f"dropped_{name}" for name in (*PASSED, *OUTCOMES[1:])), 0)
    parts = []
    grown = second = 0
    for part in decided:
        part.near.count(counters)
        near = part.near.kept
        anchor = part.near.node[near] + part.anchors.start
        parent = np.full(len(near), -1)
        order = np.arange(len(near))
        offers = [(part.near, near)]
        if part.far is not None:
            part.far.count(counters)
            far = part.far.kept
            grown += len(part.growing)
            second += len(far)
            of = np.searchsorted(near, part.growing)[part.far.node[far]]  # each one's parent among `near`
            order = np.argsort(np.concatenate((order, of)), kind="stable")
            place = np.empty(len(order), np.int64)
            place[order] = np.arange(len(order))
            anchor = np.concatenate((anchor, anchor[of]))[order]
            parent = np.concatenate((parent, place[of]))[order]
            offers.append((part.far, far))
        parts.append(_laid(offers, order, anchor, parent))
    base = np.cumsum([0, *(len(part.triple) for part in parts)])
    branches = Branches(
        np.concatenate([part.anchor for part in parts]),
        np.concatenate([np.where(p.parent < 0, -1, p.parent + n) for p, n in zip(parts, base, strict=False)]),
        np.concatenate([part.triple for part in parts]),
        np.concatenate([part.length for part in parts]),
        np.concatenate([part.ids for part in parts]),
    )
    counters["branches"] = len(branches.triple)
    if depth == 2:
        counters["mentions_depth_2"], counters["branches_depth_2"] = grown, second
    return branches, counters


def _laid(
    offers: list[tuple[Offers, np.ndarray]], order: np.ndarray, anchor: np.ndarray, parent: np.ndarray
) -> Branches:
    """Kept offers of both depths, as (offers, indices), in the `order` wanted."""
    triple = np.concatenate([offer.triple[kept] for offer, kept in offers])[order]
    length = np.concatenate([offer.length[kept] for offer, kept in offers])[order]
    base = np.cumsum([0, *(len(offer.ids) for offer, _ in offers)])
    start = np.concatenate(
        [offer.token_start[kept] + n for (offer, kept), n in zip(offers, base, strict=False)]
    )
    ids = offers[0][0].ids if len(offers) == 1 else np.concatenate([offer.ids for offer, _ in offers])
    return Branches(anchor, parent, triple, length, ids[expand(start[order], length)])


def flatten(trunks: Trunks, anchors: Anchors, branches: Branches, counters: dict[str, int]) -> Trees:
    """Trunk tokens keep their order; the branches of an anchor go right behind its last token."""
    rows, tokens = len(trunks.row_offsets) - 1, len(trunks.ids)
    length, last = branches.length, anchors.last[branches.anchor]
    inserted = np.cumsum(length) - length  # branch tokens before each branch
    behind = np.bincount(last, weights=length, minlength=tokens).astype(np.int64)
    trunk_at = np.arange(tokens) + np.cumsum(behind) - behind  # place of each trunk token
    branch_at = expand(last + 1 + inserted, length)  # place of each branch token
    size = tokens + int(length.sum())

    row_offsets = np.concatenate((trunk_at, [size]))[trunks.row_offsets]
    row = anchors.row[branches.anchor]
    branch_offsets = np.searchsorted(row, np.arange(rows + 1))
    grafted, mention_of = np.unique(branches.anchor, return_inverse=True)
    grafted_row = anchors.row[grafted]
    number = np.arange(len(grafted)) - np.searchsorted(grafted_row, grafted_row)

    def lay(on_trunk: np.ndarray, on_branch: np.ndarray, dtype: type) -> np.ndarray:
        """A column of the flattened rows from its values on trunk tokens and on branch tokens."""
        flat: np.ndarray = np.empty(size, dtype)
        flat[trunk_at] = on_trunk.astype(dtype, copy=False)  # a cast on the way takes three times as long
        flat[branch_at] = on_branch
        return flat

    def spread(per_branch: np.ndarray) -> np.ndarray:
        return np.repeat(per_branch, length)

    trunk_index = np.arange(tokens) - np.repeat(trunks.row_offsets[:-1], np.diff(trunks.row_offsets))
    branch_number = np.arange(len(row)) - branch_offsets[row] + 1
    hangs = branches.parent >= 0
    parent_number = np.where(hangs, branch_number[branches.parent], 0)
    before = trunk_index[last]  # soft position that each branch goes on from
    before[hangs] += length[branches.parent[hangs]]
    mention = np.full(tokens, -1, np.int16)
    spans = anchors.last[grafted] - anchors.first[grafted] + 1
    mention[expand(anchors.first[grafted], spans)] = np.repeat(number, spans)
    return Trees(
        row_offsets=row_offsets,
        ids=lay(trunks.ids, branches.ids, np.int32),
        type_ids=lay(trunks.type_ids, spread(trunks.type_ids[last]), np.int8),
        soft_positions=lay(trunk_index, expand(before + 1, length), np.int16),
        branch=lay(np.zeros(tokens, np.int16), spread(branch_number), np.int16),
        mention=lay(mention, spread(number[mention_of]), np.int16),
        trunk_index=lay(trunk_index, np.full(len(branch_at), -1), np.int16),
        branch_offsets=branch_offsets.astype(np.int64),
        branch_triples=branches.triple.astype(np.int64),
        branch_parents=parent_number.astype(np.int16),
        counters={
            **anchors.counters,
            **counters,
            "mentions_grafted": len(grafted),
            "mentions_without_branch": len(anchors.row) - len(grafted),
        },
        mention_subjects=anchors.subject[grafted].astype(np.int32),
    )
