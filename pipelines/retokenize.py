"""What the triples of a dataset say in tokens, asked of the graph and the tokenizer that lie beside its shards.

`verify` compares every branch with it. The text of each triple is tokenized anew, by no code that encoding
shares beside the tokenizer itself and the rule of what a branch's text is.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from corpora import files
from kg.graph import KnowledgeGraph
from kg.tree.branches import branch_text
from pipelines.encode.tokenizer import Tokenizer, load_tokenizer
from pipelines.graphs import GRAPH, open_graph
from pipelines.ragged import bounds
from pipelines.view.folder import TOKENIZER, open_folder

_MOST_KEPT = 200_000
"""Triples whose tokens are kept from one call to the next; a corpus asks for the same ones again and again."""


class Retokenizer:
    """A callable for `corpora.verify.verify(branch_tokens=...)`; opens what it needs at the first call."""

    def __init__(self, folder: str) -> None:
        """`folder`: of a dataset with trees; with others it is never called."""
        self._folder = folder
        self._kept: dict[int, NDArray[np.int32]] = {}

    def __call__(self, triples: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Ids of all triples and offsets [n+1] for int64[n] triples.

        Raises ValueError, OSError or IndexError where graph or tokenizer are missing, damaged, not those of
        the dataset, or have no such triple.
        """
        graph, tokenizer, predicate = self._opened
        wanted = triples.tolist()
        if len(self._kept) + len(wanted) > _MOST_KEPT:
            self._kept.clear()
        missing = [triple for triple in wanted if triple not in self._kept]
        ids, offsets = tokenizer.encode_ids([branch_text(graph, triple, predicate) for triple in missing])
        self._kept.update(zip(missing, np.split(ids, offsets[1:-1]), strict=True) if missing else ())
        parts = [self._kept[triple] for triple in wanted]
        return np.concatenate(parts) if parts else ids, bounds([len(part) for part in parts])

    @cached_property
    def _opened(self) -> tuple[KnowledgeGraph, Tokenizer, bool]:
        metadata = open_folder(self._folder).metadata
        tokenizer = load_tokenizer(files.join(self._folder, TOKENIZER))
        if tokenizer.vocab_size != metadata.get("vocab_size"):
            raise ValueError(
                f"{TOKENIZER} has {tokenizer.vocab_size:,} tokens, the dataset's has {metadata.get('vocab_size')}"
            )
        graph = open_graph(files.join(self._folder, GRAPH), check=True)
        wanted = (metadata.get("graph") or {}).get("sha256")
        if graph.info.sha256 != wanted:
            raise ValueError(f"{GRAPH} is not the graph that the rows were made with")
        return graph, tokenizer, bool(metadata["graft"]["predicate"])
