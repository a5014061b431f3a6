"""The tokenizer, vocabulary, lexicon and graph that a config names: loaded where first needed, never pickled."""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property
from typing import Any

from kg.errors import GraphError
from kg.graph import KnowledgeGraph
from kg.tree import GraftPolicy, TreeBuilder
from pipelines.config import Config, ConfigError, resolve
from pipelines.encode.coarse import CoarseUnits, CoarseVocabulary
from pipelines.encode.seq2seq import check_seq2seq
from pipelines.encode.span import check_span
from pipelines.encode.tokenizer import Tokenizer, load_tokenizer
from pipelines.graphs import open_graph
from pipelines.phrases.lexicon import PhraseLexicon
from pipelines.stop_list import stop_list

_SAME = (
    "match",
    "branches_per_mention",
    "branches_per_row",
    "depth",
    "rank",
    "predicate",
    "min_mention_length",
    "max_mention_length",
    "max_object_length",
)
"""Fields of the policy that the config's `graph` section has under the same name."""


def check_room(config: Config) -> None:
    """Raise ConfigError where rows of the task have no room for what they are to hold."""
    if config.task == "span":
        check_span(config.encode)
    if config.task == "seq2seq":
        check_seq2seq(config.encode)


class Tools:
    """What stage 2 computes with. A pickled copy carries the names only and loads for itself."""

    def __init__(self, config: Config, config_path: str, graph: str | None = None) -> None:
        """`graph`: folder of the compiled graph."""
        self._config, self._config_path, self._graph_folder = config, config_path, graph
        self._groups = config.encode.columns

    def __getstate__(self) -> dict[str, Any]:
        names = ("_config", "_config_path", "_graph_folder", "_groups")
        # With the policy, which read the stop list: all workers have the one that the fingerprint names.
        return {name: self.__dict__[name] for name in names} | {"policy": self.policy}

    @staticmethod
    def check(config: Config, config_path: str) -> None:
        """Find a wrong tokenizer, vocabulary, budget or label list before any work. Raises ConfigError."""
        check_room(config)
        tools = Tools(config, config_path)
        _ = tools.tokenizer, tools.units, tools.policy
        names = config.encode.labels or []
        if repeated := [name for i, name in enumerate(names) if name in names[:i]]:
            raise ConfigError(f"encode.labels: {repeated[0]!r} is listed twice")

    @cached_property
    def tokenizer(self) -> Tokenizer:
        encode = self._config.encode
        return load_tokenizer(encode.tokenizer, config_path=self._config_path, lowercase=encode.lowercase)

    @cached_property
    def coarse(self) -> CoarseVocabulary | None:
        """None without the coarse group."""
        coarse = self._config.encode.coarse
        if "coarse" not in self._groups or coarse is None:
            return None
        return CoarseVocabulary(coarse.vocab, self._config_path, self.tokenizer)

    @cached_property
    def lexicon(self) -> PhraseLexicon | None:
        """None without phrases."""
        coarse = self._config.encode.coarse
        if "coarse" not in self._groups or coarse is None or coarse.phrases is None:
            return None
        path = resolve(self._config_path, coarse.phrases) if self._config_path else coarse.phrases
        return PhraseLexicon.load(path, self.tokenizer.normalize)

    @cached_property
    def units(self) -> CoarseUnits | None:
        """None without the coarse group."""
        return None if self.coarse is None else CoarseUnits(self.coarse, self.lexicon)

    @cached_property
    def graph(self) -> KnowledgeGraph | None:
        """None without the tree group."""
        if "tree" not in self._groups:
            return None
        if self._graph_folder is None:
            raise ConfigError("encode.columns has 'tree': compile the graph first")
        return open_graph(self._graph_folder)

    @cached_property
    def trees(self) -> TreeBuilder | None:
        """One for all blocks of the process: it keeps what it looked up. None without the tree group."""
        return None if self.graph is None else TreeBuilder(self.graph, self.policy, self.tokenizer.encode_ids)

    @cached_property
    def policy(self) -> GraftPolicy:
        """The `graph` section with defaults filled in. Raises ConfigError for budgets below the trunk's."""
        graph, trunk = self._config.graph, self._config.encode.max_length
        if graph is None:
            return GraftPolicy(max_length=trunk, max_positions=trunk)
        for field, value in (("max_length", graph.max_length), ("max_positions", graph.max_positions)):
            if value is not None and value < trunk:
                raise ConfigError(
                    f"graph.{field} is {value}, less than encode.max_length = {trunk}: rows without any branch "
                    f"would not fit. Raise graph.{field} or lower encode.max_length."
                )
        same = {name: getattr(graph, name) for name in _SAME}
        try:
            return GraftPolicy(
                **same,
                include_predicates=None
                if graph.include_predicates is None
                else frozenset(graph.include_predicates),
                exclude_predicates=frozenset(graph.exclude_predicates),
                stop=stop_list(graph.stop, self._config_path, "graph.stop"),
                max_length=graph.max_length or trunk,
                max_positions=graph.max_positions or trunk,
            )
        except GraphError as error:
            raise ConfigError(f"graph.{error}") from None

    def policy_facts(self) -> dict[str, Any]:
        """Every field of the policy in plain values, sets sorted."""
        found = {field.name: getattr(self.policy, field.name) for field in fields(self.policy)}
        return {name: sorted(v) if isinstance(v, frozenset) else v for name, v in found.items()}

    @property
    def matches_words(self) -> bool:
        """Whether mentions are words of the segmentation."""
        graph = self._config.graph
        return "tree" in self._groups and graph is not None and graph.match == "words"

    def identities(self) -> dict[str, Any]:
        """Name and content hash of each."""
        found: dict[str, Any] = {"tokenizer": self.tokenizer.identity()}
        if self.coarse is not None:
            found["coarse_vocab"] = self.coarse.identity()
        if self.lexicon is not None:
            found["lexicon"] = self.lexicon.identity()
        if self.graph is not None:
            info = self.graph.info
            found["graph"] = {"sha256": info.sha256, "triples": info.triples, "subjects": info.subjects}
        return found

    def facts(self) -> dict[str, Any]:
        """What shards say about their values: special ids, vocabulary sizes, budgets."""
        found: dict[str, Any] = {
            "special_ids": self.tokenizer.special_ids,
            "vocab_size": self.tokenizer.vocab_size,
            "max_length": self._config.encode.max_length,
        }
        if self.coarse is not None:
            found |= {
                "coarse_special_ids": self.coarse.special_ids,
                "coarse_vocab_size": self.coarse.vocab_size,
            }
        if self.graph is not None:
            policy = self.policy
            found |= {"tree_max_length": policy.max_length, "max_positions": policy.max_positions}
            # Lists of subjects and predicates may be long; the fingerprint covers them.
            found["graft"] = {k: v for k, v in self.policy_facts().items() if not isinstance(v, list)}
        return found
