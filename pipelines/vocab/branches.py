"""The characters that branches will be of: entries of the fine vocabulary, too, though the text may not have them.

A vocabulary of the text alone makes [UNK] of every other character, and such branches say nothing.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kg.tree.ranking import unwanted_predicates
from pipelines.config import Config
from pipelines.encode.tools import Tools
from pipelines.graphs import open_graph
from pipelines.vocab.pretokens import PreTokens
from pipelines.vocab.wordpiece import character_forms

_KEYS = ("predicate", "include_predicates", "exclude_predicates", "max_object_length")
"""Fields of the policy that decide what branches may say."""
_TOGETHER = 1 << 16
"""Texts of the graph that are counted at a time."""


class Branches:
    """What a compiled graph can graft by the config's `graph` section."""

    def __init__(self, config: Config, config_path: str, folder: str) -> None:
        """`folder`: the compiled graph. Raises GraphError where it is none."""
        assert config.graph is not None
        tools = Tools(config, config_path)
        self._graph, self._policy = open_graph(folder), tools.policy
        self._facts = tools.policy_facts()
        self._name = Path(config.graph.compiled or (config.graph.triples or [folder])[0]).name

    def settings(self) -> dict[str, Any]:
        """By dotted config key."""
        return {f"graph.{key}": self._facts[key] for key in _KEYS}

    def identities(self) -> dict[str, Any]:
        """The graph's, by content."""
        return {"graph": {"name": self._name, "sha256": self._graph.info.sha256}}

    def forms(self, *, lowercase: bool) -> Counter[str]:
        """Counts as `character_forms` has them, over different objects, and predicates where branches have them."""
        graph, unwanted = self._graph, unwanted_predicates(self._graph, self._policy)
        taken = slice(None) if unwanted is None else ~unwanted[graph.predicates]
        objects = np.unique(graph.objects[taken])
        objects = objects[graph.object_lengths[objects] <= self._policy.max_object_length]
        texts = [(objects, graph.object_text)]
        if self._policy.predicate:
            texts.append((np.unique(graph.predicates[taken]), graph.predicate_text))
        words, found = PreTokens(lowercase=lowercase), Counter[str]()
        for numbers, text_of in texts:
            for start in range(0, len(numbers), _TOGETHER):
                some = [text_of(number) for number in numbers[start : start + _TOGETHER].tolist()]
                counted = words.count(pa.array(some, pa.string()))
                found += character_forms(
                    dict(zip(counted.texts.to_pylist(), counted.counts.tolist(), strict=True))
                )
        return found
