"""Tokens of branches, kept from block to block."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kg.graph import KnowledgeGraph
from kg.tree.ragged import Slots, expand

Tokenize = Callable[[list[str]], tuple[np.ndarray, np.ndarray]]
"""Texts to (flat int32 ids, int64 offsets [n + 1]); strings of special tokens in them are ordinary text."""

MAX_CACHED_TOKENS = 1 << 22
MAX_CACHED_TEXTS = 1 << 19
"""Kept between blocks, 32 MiB in all; when there are more the cache starts anew."""


class BranchTokens:
    """Tokens of branches: a corpus asks for the same few again and again. Not for several threads at once.

    What is kept is the text of a branch, not its triple: many triples share an object.
    """

    def __init__(self, graph: KnowledgeGraph, tokenize: Tokenize, predicate: bool) -> None:
        self._graph = graph
        self._tokenize = tokenize
        self._predicate = predicate
        self._forget()

    def _forget(self) -> None:
        self._slots = Slots()
        self._starts = np.zeros(1, np.int64)  # of each text's tokens, and the end of the last
        self._ids = np.empty(0, np.int32)

    def get(self, triples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(ids, lengths) of the branches of triple ids (int64[C]): int32 flat, int64[C].

        Raises ValueError where the tokenizer does not answer as `Tokenize` says.
        """
        keys = self._graph.objects[triples].astype(np.int64)
        if self._predicate:
            keys += self._graph.predicates[triples].astype(np.int64) * self._graph.info.objects
        unique, example, inverse = np.unique(keys, return_index=True, return_inverse=True)
        slots = self._slots.find(unique)
        missing = slots < 0
        if missing.any():
            if len(self._ids) > MAX_CACHED_TOKENS or len(self._slots) > MAX_CACHED_TEXTS:
                self._forget()
                missing[:] = True
            self._add(unique[missing], triples[example[missing]])
            slots = self._slots.find(unique)
        at = slots[inverse]
        lengths = self._starts[at + 1] - self._starts[at]
        return self._ids[expand(self._starts[at], lengths)], lengths

    def _add(self, keys: np.ndarray, triples: np.ndarray) -> None:
        texts = [branch_text(self._graph, triple, self._predicate) for triple in triples.tolist()]
        ids, offsets = self._tokenize(texts)
        if len(offsets) != len(texts) + 1 or int(offsets[-1]) != len(ids):
            raise ValueError(
                f"tokenize was given {len(texts)} texts and returned {len(offsets)} offsets that end at "
                f"{int(offsets[-1]) if len(offsets) else None} for {len(ids)} ids; "
                f"expected {len(texts) + 1} offsets that end at the number of ids"
            )
        self._slots.put(keys, len(self._starts) - 1 + np.arange(len(keys)))
        self._starts = np.concatenate((self._starts, len(self._ids) + np.asarray(offsets[1:], np.int64)))
        self._ids = np.concatenate((self._ids, np.asarray(ids, np.int32)))


def branch_text(graph: KnowledgeGraph, triple: int, predicate: bool) -> str:
    """The text that a triple's branch is the tokens of: its object or, with `predicate`, predicate,
    space, object (the object alone where the predicate is empty)."""
    shown = graph.predicate(triple) if predicate else ""
    return f"{shown} {graph.object(triple)}" if shown else graph.object(triple)
