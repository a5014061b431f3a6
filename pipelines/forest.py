"""Dependency trees as flat arrays of heads, many trees at once.

`heads[N]` holds, for every word of every tree, the index of its head *in the same flat array*;
a root is its own head. `offsets[G+1]` bounds the G groups (sentences, documents or rows) that the
words belong to. A group may hold several trees: a forest.

Everything is vectorised over all words: ancestors are found by pointer doubling
(`up = up[up]`, log2 of the depth steps), subtree sizes level by level. Nothing recurses, so a
chain of 30,000 words is no deeper for Python than a flat sentence.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corpora.schema import MAX_LENGTH_LIMIT

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


def group_of(offsets: ArrayLike) -> Ints:
    """Group of each word, int64[N], from `offsets` [G+1]."""
    bounds = np.asarray(offsets, dtype=np.int64)
    return np.repeat(np.arange(len(bounds) - 1, dtype=np.int64), np.diff(bounds))


def absolute(heads: ArrayLike, offsets: ArrayLike) -> Ints:
    """Heads that count from the start of their own group, as indices into the flat array."""
    bounds = np.asarray(offsets, dtype=np.int64)
    return np.asarray(heads, dtype=np.int64) + np.repeat(bounds[:-1], np.diff(bounds))


def relative(heads: ArrayLike, offsets: ArrayLike) -> Ints:
    """Heads as indices into the flat array, counted from the start of their own group."""
    bounds = np.asarray(offsets, dtype=np.int64)
    return np.asarray(heads, dtype=np.int64) - np.repeat(bounds[:-1], np.diff(bounds))


def repair_heads(heads: ArrayLike, offsets: ArrayLike) -> tuple[Ints, Mask]:
    """Make every group exactly one tree.

    In this order: a head outside the word's group (or outside the array) makes the word a root; a
    cycle is broken at its first word, which becomes a root; of several roots one is kept, the
    others become its children. Kept is the first word that was its own head to begin with, else
    the first root that the repair made.

    Returns int64[N] heads and bool[N]: words whose head is another than before.
    """
    before = np.asarray(heads, dtype=np.int64)
    bounds = np.asarray(offsets, dtype=np.int64)
    count = len(before)
    own = np.arange(count, dtype=np.int64)
    if count == 0:
        return before.copy(), np.zeros(0, dtype=bool)
    lengths = np.diff(bounds)
    first, stop = np.repeat(bounds[:-1], lengths), np.repeat(bounds[1:], lengths)
    after = np.where((before >= first) & (before < stop), before, own)

    # Applied often enough, "go to the head" maps every word onto a cycle, a root being a cycle of
    # one; the words reached are exactly those on cycles. `least` is the smallest index on the way.
    up, least = after, np.minimum(after, own)
    for _ in range(_rounds(int(lengths.max()))):
        if (after[up] == up).all():  # every path has ended at a root: no cycle is left to look for
            break
        least = np.minimum(least, least[up])
        up = up[up]
    else:
        circular = np.zeros(count, dtype=bool)
        circular[up] = True
        after = np.where(circular & (least == own), own, after)

    roots = np.flatnonzero(after == own)
    group = group_of(bounds)
    # The kept root of a group is its first one in the order (made by the repair, index).
    order = np.lexsort((roots, before[roots] != roots, group[roots]))
    groups, at = np.unique(group[roots][order], return_index=True)
    kept = np.full(len(lengths), -1, dtype=np.int64)
    kept[groups] = roots[order][at]
    after = after.copy()
    after[roots] = kept[group[roots]]
    return after, after != before


def drop_words(heads: ArrayLike, keep: ArrayLike) -> Ints:
    """Leave out the words where `keep` bool[N] is false; int64 heads over the kept words.

    A kept word whose head goes is attached to its nearest kept ancestor; with none it becomes a
    root.
    """
    flat, kept = np.asarray(heads, dtype=np.int64), np.asarray(keep, dtype=bool)
    own = np.arange(len(flat), dtype=np.int64)
    up = np.where(kept, own, flat)
    for _ in range(_rounds(len(flat))):
        further = up[up]
        if np.array_equal(further, up):
            break
        up = further
    target = up[flat]
    target = np.where((flat == own) | ~kept[target], own, target)
    position = np.cumsum(kept, dtype=np.int64) - 1
    return position[target[kept]]


def cut(heads: ArrayLike, starts: ArrayLike, stops: ArrayLike) -> tuple[Ints, Ints]:
    """Trees of the K windows `[starts[k], stops[k])`; a head outside the window makes a root.

    Windows may overlap and lie in any order. Returns the heads of all windows one after another,
    as indices into that new flat array, and the windows' offsets int64[K+1] in it.
    """
    flat = np.asarray(heads, dtype=np.int64)
    first, stop = np.asarray(starts, dtype=np.int64), np.asarray(stops, dtype=np.int64)
    lengths = np.maximum(stop - first, 0)
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
    own = np.arange(offsets[-1], dtype=np.int64)
    shift = np.repeat(offsets[:-1] - first, lengths)
    old = flat[own - shift]
    inside = (old >= np.repeat(first, lengths)) & (old < np.repeat(stop, lengths))
    return np.where(inside, old + shift, own), offsets


def depth_first(heads: ArrayLike, offsets: ArrayLike) -> tuple[NDArray[np.int16], NDArray[np.int16]]:
    """Depth-first entry and exit numbers, int16[N], counted from 0 within each group.

    Word a is an ancestor of (or is) word b of the same group iff `in[a] <= in[b] < out[a]`. Roots
    are entered in word order, and so are the children of a word, before any later sibling's.

    Raises ValueError for a group longer than 32,767 words, a head outside its group or a cycle.
    """
    flat, bounds = np.asarray(heads, dtype=np.int64), np.asarray(offsets, dtype=np.int64)
    count, lengths = len(flat), np.diff(bounds)
    if count == 0:
        return np.zeros(0, dtype=np.int16), np.zeros(0, dtype=np.int16)
    if lengths.max() > MAX_LENGTH_LIMIT:
        raise ValueError(f"a group has {lengths.max()} words; depth-first numbers reach {MAX_LENGTH_LIMIT}")
    first = np.repeat(bounds[:-1], lengths)
    if ((flat < first) | (flat >= np.repeat(bounds[1:], lengths))).any():
        raise ValueError("heads leave their group: repair or cut them first")
    own = np.arange(count, dtype=np.int64)
    depth, _ = _climb(flat, (flat != own).astype(np.int64), int(lengths.max()))
    size = _subtree_sizes(flat, depth)

    # An entry number is the sum, up the ancestors, of one step down plus all earlier siblings'
    # subtrees. Roots are children of their group, which counts no step.
    parent = np.where(flat == own, count + group_of(bounds), flat)
    order = np.argsort(parent, kind="stable")
    before = np.cumsum(size[order]) - size[order]
    family = np.flatnonzero(np.diff(parent[order], prepend=-1))
    before -= np.repeat(before[family], np.diff(family, append=count))
    step = np.empty(count, dtype=np.int64)
    step[order] = before
    step += flat != own
    entry, root = _climb(flat, np.where(flat == own, 0, step), int(lengths.max()))
    entry += step[root]
    return entry.astype(np.int16), (entry + size).astype(np.int16)


def _rounds(length: int) -> int:
    """Doublings after which every path of at most `length` words has been walked."""
    return max(int(length), 1).bit_length() + 1


def _climb(heads: Ints, weight: Ints, longest: int) -> tuple[Ints, Ints]:
    """Sum of `weight` (0 at roots) from each word up to its root, and that root."""
    up, total = heads, weight
    for _ in range(_rounds(longest)):
        if (heads[up] == up).all():
            return total, up
        total = total + total[up]
        up = up[up]
    raise ValueError("heads form a cycle: repair them first")


def _subtree_sizes(heads: Ints, depth: Ints) -> Ints:
    """Number of words in each word's subtree, itself included: deepest level first."""
    size = np.ones(len(heads), dtype=np.int64)
    order = np.argsort(depth, kind="stable")
    levels = np.searchsorted(depth[order], np.arange(depth.max() + 2))
    for level in range(int(depth.max()), 0, -1):
        words = order[levels[level] : levels[level + 1]]
        np.add.at(size, heads[words], size[words])
    return size
