"""What a graph makes of one text: mentions, what is no mention and why, every triple's fate, and the tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kg.graph import KnowledgeGraph
from kg.match import Occurrence
from kg.tree import TreeBuilder
from kg.tree.explain import Decision
from kg.tree.rows import GraftPolicy, Trees, Words
from pipelines.encode import columns
from pipelines.encode.assemble import NONE, Cutter, classify_rows
from pipelines.encode.source import Texts
from pipelines.encode.tokenizer import Tokens
from pipelines.ragged import Ints, bounds
from pipelines.section import ConfigError
from pipelines.view.branchview import Branch, TreeToken, triple_of

MAX_OTHERS = 50
"""Subjects that are no mention, listed of each text."""
MAX_CHARACTERS = 20_000
WordSpans = tuple[NDArray[np.int64], NDArray[np.int64]]
"""First characters of a text's words, and one past their last."""


class Tokenizes(Protocol):
    """What `Tokenizer` and `PlainTokens` have in common."""

    special_ids: dict[str, int]

    def encode_texts(self, texts: Sequence[str]) -> Tokens: ...

    def encode_ids(self, texts: Sequence[str]) -> tuple[NDArray[np.int32], Ints]: ...

    def surface(self, token_id: int) -> str | None: ...


@dataclass(frozen=True)
class Mention:
    """A subject in segment 0 or 1, and what became of its triples, in rank order; those of a branch that
    has branches come right behind it."""

    segment: int
    start: int
    stop: int
    subject: int
    decisions: list[Decision]


@dataclass(frozen=True)
class LookUp:
    """One row, explained."""

    texts: list[str]
    mentions: list[Mention]
    others: list[tuple[int, Occurrence]]
    """Segment and occurrence of the first `MAX_OTHERS` subjects that stand in each text and are no mention."""
    others_count: int
    """How many there are."""
    tree: list[TreeToken]
    branches: list[Branch]
    truncated: bool
    by_words: bool
    """Mentions are words of the segmentation."""


def look_up(
    graph: KnowledgeGraph,
    policy: GraftPolicy,
    tokenizer: Tokenizes,
    texts: Sequence[str],
    max_length: int,
    words: Sequence[WordSpans] | None = None,
) -> LookUp:
    """Graft a row of one text, or of two, as encoding would.

    Args:
        max_length: longest trunk in tokens, special tokens included; what is over is cut off.
        words: of each text, for `match: words`.

    Raises ConfigError for texts without tokens or of more than `MAX_CHARACTERS`.
    """
    strings = list(texts)
    for text in strings:
        if len(text) > MAX_CHARACTERS:
            raise ConfigError(
                f"the text has {len(text):,} characters; look up at most {MAX_CHARACTERS:,} at a time"
            )
    tokens = tokenizer.encode_texts(strings)
    if not np.diff(tokens.offsets).all():
        raise ConfigError("the text has no tokens: expected letters, digits or signs")
    pairs = np.array([[0, 1 if len(strings) > 1 else NONE]], np.int64)
    rows = classify_rows(tokens, pairs, max_length, Cutter(strings, tokens))
    laid = Texts(strings, bounds([len(text) for text in strings]))
    trunk = columns.lay_trunk(rows, laid, tokens, tokenizer.special_ids, whole_texts=True)
    trunks = trunk.for_trees(None if words is None else _segment_words(words))
    builder = TreeBuilder(graph, policy, tokenizer.encode_ids)
    trees = builder.build(trunks)
    tree = _tree_tokens(trees, tokenizer)
    others, others_count = _others(graph, policy, strings, words)
    return LookUp(
        texts=strings,
        mentions=_mentions(builder.explain(trunks)),
        others=others,
        others_count=others_count,
        tree=tree,
        branches=_branches(trees, tree, graph),
        truncated=bool(rows.counters["truncated_rows"]),
        by_words=words is not None,
    )


def _segment_words(words: Sequence[WordSpans]) -> tuple[Words, Words]:
    none = (np.zeros(0, np.int64), np.zeros(0, np.int64))
    made = [
        Words(starts.astype(np.int32), stops.astype(np.int32), np.array([0, len(starts)], np.int64))
        for starts, stops in (*words, none)[:2]
    ]
    return made[0], made[1]


def _mentions(decisions: Sequence[Decision]) -> list[Mention]:
    found: dict[tuple[int, int, int, int], Mention] = {}
    for decision in decisions:
        where = (decision.segment, decision.start, decision.stop, decision.subject)
        found.setdefault(where, Mention(*where, [])).decisions.append(decision)
    return list(found.values())


def _others(
    graph: KnowledgeGraph, policy: GraftPolicy, texts: Sequence[str], words: Sequence[WordSpans] | None
) -> tuple[list[tuple[int, Occurrence]], int]:
    matcher = graph.matcher(policy.min_mention_length, policy.stop, policy.max_mention_length)
    found: list[tuple[int, Occurrence]] = []
    count = 0
    for segment, text in enumerate(texts):
        others = matcher.places(text, None if words is None else words[segment]).others()
        count += len(others.starts)
        found += [(segment, occurrence) for occurrence in others.first(MAX_OTHERS)]
    return found, count


def _tree_tokens(trees: Trees, tokenizer: Tokenizes) -> list[TreeToken]:
    parents = [0, *trees.branch_parents.tolist()]
    flat: tuple[NDArray[Any], ...] = (
        trees.ids,
        trees.soft_positions,
        trees.branch,
        trees.mention,
        trees.trunk_index,
    )
    return [
        TreeToken(tokenizer.surface(i) or f"#{i}", soft, branch, mention, trunk, parents[branch])
        for i, soft, branch, mention, trunk in zip(*(column.tolist() for column in flat), strict=True)
    ]


def _branches(trees: Trees, tree: Sequence[TreeToken], graph: KnowledgeGraph) -> list[Branch]:
    own: dict[int, list[TreeToken]] = {}
    for token in tree:
        if token.branch:
            own.setdefault(token.branch, []).append(token)
    triples, parents = trees.branch_triples.tolist(), trees.branch_parents.tolist()
    return [
        Branch(n, tokens[0].mention, tokens, triple_of(graph, triples[n - 1]), parents[n - 1])
        for n, tokens in sorted(own.items())
    ]
