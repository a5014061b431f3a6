"""Which triples may become branches of a subject, and their tokens."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kg.graph import KnowledgeGraph

Tokenize = Callable[[list[str]], tuple[np.ndarray, np.ndarray]]
"""Texts to (flat int32 ids, int64 offsets [n + 1]); strings of special tokens in them are ordinary text."""

MAX_CACHED_TOKENS = 1 << 24
"""Tokens kept between blocks, 64 MiB; when there are more the cache starts anew."""
_LOOK_AHEAD = 1 << 12
_LOOK_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class Candidates:
    """The first triples, in file order, that may be grafted on each of U subjects."""

    offsets: np.ndarray  # int64[U + 1] into triples
    triples: np.ndarray  # int64[C]
    too_long: np.ndarray  # int64[U]: triples passed over because their object is too long
    repeated: np.ndarray  # int64[U]: triples passed over because the object was there before


def candidates(
    graph: KnowledgeGraph, subjects: np.ndarray, count: int, max_object_length: int, predicate: bool
) -> Candidates:
    """Up to `count` triples of each subject id (int[U], unique) whose object has at most
    `max_object_length` characters. Without predicates in the branches, an object that a subject has
    under several predicates counts once.

    Triples are looked at in growing steps and only until `count` are found: a subject with a million
    objects costs no more than one with ten.
    """
    at = graph.triple_offsets[subjects]
    end = graph.triple_offsets[subjects + 1]
    need = np.full(len(subjects), count, np.int64)
    too_long = np.zeros(len(subjects), np.int64)
    repeated = np.zeros(len(subjects), np.int64)
    active = np.arange(len(subjects))
    owners, triples = [], []
    ahead = max(4, 2 * min(count, _LOOK_AHEAD))
    while len(active):
        step = min(ahead, max(1, _LOOK_AT_ONCE // len(active)))
        taken = np.minimum(step, end[active] - at[active])
        triple = expand(at[active], taken)
        owner = np.repeat(active, taken)
        long = graph.object_lengths[graph.objects[triple]] > max_object_length
        again = np.zeros_like(long) if predicate else graph.repeats[triple] & ~long
        good = ~(long | again)
        before = np.cumsum(good) - good
        firsts = np.cumsum(taken) - taken
        before -= np.repeat(before[firsts], taken)  # good ones of the same subject before this one
        looked = before < need[owner]
        kept = good & looked
        owners.append(owner[kept])
        triples.append(triple[kept])
        too_long += np.bincount(owner[long & looked], minlength=len(subjects))
        repeated += np.bincount(owner[again & looked], minlength=len(subjects))
        need -= np.bincount(owner[kept], minlength=len(subjects))
        at[active] += taken
        active = active[(need[active] > 0) & (at[active] < end[active])]
        ahead = min(2 * ahead, _LOOK_AHEAD)
    owner = np.concatenate(owners) if owners else np.empty(0, np.int64)
    flat = np.concatenate(triples) if triples else np.empty(0, np.int64)
    if len(owners) > 1:
        order = np.argsort(owner, kind="stable")
        owner, flat = owner[order], flat[order]
    offsets = np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=len(subjects)))))
    return Candidates(offsets, flat, too_long, repeated)


def expand(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The ranges `starts[i]` up to `starts[i] + lengths[i]`, one after another, int64."""
    total = int(lengths.sum())
    firsts = np.cumsum(lengths) - lengths
    return np.repeat(starts - firsts, lengths) + np.arange(total)


class BranchTokens:
    """Tokens of branches, kept from block to block: a corpus asks for the same few again and again.

    A branch is the object, or predicate, space, object. Without predicates, branches are known by
    the number of their object, which many triples share; with them, by their triple.
    """

    def __init__(self, graph: KnowledgeGraph, tokenize: Tokenize, predicate: bool) -> None:
        # `branch_tokens` keeps this as long as the graph lives: a reference back would keep both for good.
        self._graph = weakref.proxy(graph)
        self.tokenize = tokenize
        self.predicate = predicate
        size = graph.info.triples if predicate else graph.info.objects
        # Zeroed pages take no memory until they are used.
        self._known = np.zeros(size, np.bool_)
        self._starts = np.zeros(size, np.int64)
        self._lengths = np.zeros(size, np.int32)
        self._ids = np.empty(1 << 10, np.int32)
        self._used = 0
        self._lock = threading.Lock()

    def get(self, triples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(ids, lengths) of the branches of triple ids (int64[C]): int32 flat, int64[C]."""
        keys = triples if self.predicate else self._graph.objects[triples]
        with self._lock:
            missing = np.unique(keys[~self._known[keys]])
            if len(missing):
                if self._used > MAX_CACHED_TOKENS:
                    self._known[:] = False
                    self._used = 0
                    missing = np.unique(keys)
                self._add(missing)
            lengths = self._lengths[keys].astype(np.int64)
            return self._ids[expand(self._starts[keys], lengths)], lengths

    def _add(self, keys: np.ndarray) -> None:
        texts = [self._text(key) for key in keys.tolist()]
        ids, offsets = self.tokenize(texts)
        if len(offsets) != len(texts) + 1 or int(offsets[-1]) != len(ids):
            raise ValueError(
                f"tokenize was given {len(texts)} texts and returned {len(offsets)} offsets that end at "
                f"{int(offsets[-1]) if len(offsets) else None} for {len(ids)} ids; "
                f"expected {len(texts) + 1} offsets that end at the number of ids"
            )
        used = self._used + len(ids)
        if used > len(self._ids):
            grown = np.empty(max(used, 2 * len(self._ids)), np.int32)
            grown[: self._used] = self._ids[: self._used]
            self._ids = grown
        self._ids[self._used : used] = ids
        self._starts[keys] = self._used + offsets[:-1]
        self._lengths[keys] = np.diff(offsets)
        self._known[keys] = True
        self._used = used

    def _text(self, key: int) -> str:
        if not self.predicate:
            return self._graph.object_text(key)
        predicate, object_ = self._graph.predicate(key), self._graph.object(key)
        return f"{predicate} {object_}" if predicate else object_


_caches: weakref.WeakKeyDictionary[KnowledgeGraph, BranchTokens] = weakref.WeakKeyDictionary()
_caches_lock = threading.Lock()


def branch_tokens(graph: KnowledgeGraph, tokenize: Tokenize, predicate: bool) -> BranchTokens:
    """The cache of a graph; another tokenizer or form of branch starts a new one."""
    with _caches_lock:
        cache = _caches.get(graph)
        if cache is None or cache.tokenize != tokenize or cache.predicate != predicate:
            cache = _caches[graph] = BranchTokens(graph, tokenize, predicate)
        return cache
