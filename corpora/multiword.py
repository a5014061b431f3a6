"""Multiword tokens whose words do not spell their surface, made one word each.

French `du` is `de` + `le`: two words of the tree that stand on the same characters. Words here have characters of
their own, so such a token becomes one word: the one that governs the others, which the children of all of
them then hang from.

The governor is the word nearest the root, the first of several. Where one word's head lies outside the token,
it is that word. Where several words' heads do, the rule still holds one tree together: a merged word hangs from a
merged word strictly nearer the root, so no cycle can come about, whatever else is merged.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.int64]


class Merged(NamedTuple):
    """M words out of N.

    `keep` int64[M]: the word that stands for each token, rising in tokens; its span, relation and part of
    speech are the merged word's. `heads` int64[M]: index of the head among the M words, a root its own; -1
    where the governor has no head. `merged`: tokens of more than one word.
    """

    keep: Ints
    heads: Ints
    merged: int


def merge(tokens: ArrayLike, heads: ArrayLike) -> Merged:
    """One word for each token.

    Args:
        tokens: int[N], never falling: words with the same number are one token. Any numbers will do, such as
            `np.cumsum(begins_token)`.
        heads: int[N], index of each word's head in the same array, a root its own, -1 for a word that is
            not parsed. Any number of trees; a token's words should be of one tree.

    Raises:
        ValueError: other lengths, falling tokens, or a head outside the array.
    """
    token, head = np.asarray(tokens, np.int64), np.asarray(heads, np.int64)
    count = len(head)
    if token.shape != head.shape or (np.diff(token) < 0).any():
        raise ValueError("tokens must be as many as heads and never fall")
    if count and (head.min() < -1 or head.max() >= count):
        raise ValueError(f"heads must be -1 or an index below {count}, found {head.min()} and {head.max()}")
    begins = np.ones(count, bool)
    begins[1:] = token[1:] != token[:-1]
    word = np.cumsum(begins) - 1  # the merged word of each word
    # A word that is not parsed comes last in its token: what governs is a word with a head.
    rank = np.where(head < 0, 2 * count, _depths(head))
    keep = np.lexsort((rank, word))[np.flatnonzero(begins)]
    above = head[keep]
    merged = np.where(above < 0, -1, word[above]) if count else above
    sizes = np.diff(np.append(np.flatnonzero(begins), count))
    return Merged(keep, merged, int((sizes > 1).sum()))


def _depths(head: Ints) -> Ints:
    """Steps from each word to its root, int64[N]; words of a cycle get some large number, never an endless loop."""
    own = np.arange(len(head), dtype=np.int64)
    up = np.where(head < 0, own, head)
    depth = (up != own).astype(np.int64)
    for _ in range(len(head).bit_length()):  # doubling: after k rounds `up` is 2**k steps away
        if not depth[up].any():
            break
        depth = np.minimum(depth + depth[up], len(head))
        up = up[up]
    return depth
