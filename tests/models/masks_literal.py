"""Who sees whom, by loops over paths, heads and segments as the papers tell it; and batches laid token by token.

Nothing here is shared with the product. A row is a shard row of `tests.rows`; what a token sees is a set of places
in its row.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
import torch

from tests.rows import Row

Seen = list[set[int]]
Batch = dict[str, torch.Tensor]


def visible(row: Row) -> Seen:
    """K-BERT 3.3: two tokens see each other if one path of the sentence tree has both."""
    branch, mention = row["tree_branch"], row["tree_mention"]
    tokens = range(len(branch))
    paths = [{i for i in tokens if branch[i] == 0}]
    for number, parent in enumerate(row["branch_parents"], start=1):
        own = {i for i in tokens if branch[i] == number}
        anchor = {i for i in tokens if branch[i] == 0 and mention[i] == mention[min(own)]}
        paths.append(anchor | own | ({i for i in tokens if branch[i] == parent} if parent else set()))
    return [set().union(*(path for path in paths if i in path)) for i in tokens]


def _by_word(row: Row, of_word: Callable[[int], set[int]]) -> Seen:
    """What each word's pieces see: all pieces of the words `of_word` names; special tokens see themselves."""
    words = row["word_index"]
    return [
        {i} if word < 0 else {j for j, other in enumerate(words) if other in of_word(word)}
        for i, word in enumerate(words)
    ]


def ancestors(row: Row) -> Seen:
    """SG-Net 3.2: a word and its heads, up to the root, its own head."""

    def up(word: int) -> set[int]:
        head = row["word_heads"][word]
        return {word} if head == word else {word} | up(head)

    return _by_word(row, up)


def descendants(row: Row) -> Seen:
    """SG-Net 3.2, the other way: a word, its children, and theirs."""

    def down(word: int) -> set[int]:
        children = [w for w, head in enumerate(row["word_heads"]) if head == word and w != word]
        return {word}.union(*(down(child) for child in children))

    return _by_word(row, down)


def unilm(kind: str, row: Row) -> Seen:
    """UniLM 2.2 and its figure 1: of a target, the source and the tokens to the left; of a source, the source."""
    segments = row["token_type_ids"]
    tokens = range(len(segments))
    source = {i for i in tokens if segments[i] == 0}
    seen: Seen = []
    for i in tokens:
        left, right = set(range(i + 1)), set(range(i, len(tokens)))
        if kind == "bidirectional":
            seen.append(set(tokens))
        elif kind == "left_to_right":
            seen.append(left)
        elif kind == "right_to_left":
            seen.append(right)
        else:
            seen.append(source if i in source else source | {j for j in left if j not in source})
    return seen


def matrix(packs: Sequence[Sequence[Seen]], width: int) -> np.ndarray:
    """bool[B, width, width]: sequences packed into rows see nothing of each other; padding is on the diagonal."""
    made = np.zeros((len(packs), width, width), np.bool_)
    for row, pack in zip(made, packs, strict=True):
        start = 0
        for seen in pack:
            for i, places in enumerate(seen):
                row[start + i, [start + j for j in places]] = True
            start += len(seen)
        for i in range(start, width):
            row[i, i] = True
    return made


def attend(seen: np.ndarray, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Attention as in its paper, of what is seen alone: float64[B, Q, D]."""
    scores = np.where(seen, q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1]), -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


# --- batches ----------------------------------------------------------------------------------


def tree_tokens(row: Row) -> list[dict[str, int]]:
    parents = [0, *row["branch_parents"]]
    pairs = zip(row["tree_branch"], row["tree_mention"], strict=True)
    return [{"branch": b, "mention": m, "parent": parents[b]} for b, m in pairs]


def fine_tokens(row: Row, special: str) -> list[dict[str, int]]:
    """Numbers of special tokens, one of `special`: `none` -1 and -1, `empty` 0 and 0, `own` an interval of their own."""
    tokens = []
    for i, (word, segment) in enumerate(zip(row["word_index"], row["token_type_ids"], strict=True)):
        if word >= 0:
            interval = row["word_dfs_in"][word], row["word_dfs_out"][word]
        else:
            after = len(row["word_heads"]) + i
            interval = {"none": (-1, -1), "empty": (0, 0), "own": (after, after + 1)}[special]
        tokens.append({"token_type_ids": segment, "dfs_in": interval[0], "dfs_out": interval[1]})
    return tokens


def lay(rng: random.Random, packs: Sequence[Sequence[list[dict[str, int]]]]) -> Batch:
    """Sequences packed into rows, padded with any numbers at all: only `sequence_id` tells padding."""
    width = max(sum(map(len, pack)) for pack in packs)
    width += -width % 8
    names = list(packs[0][0][0])
    made: dict[str, list[list[int]]] = {name: [] for name in (*names, "sequence_id")}
    for pack in packs:
        tokens = [
            token | {"sequence_id": n} for n, sequence in enumerate(pack, start=1) for token in sequence
        ]
        while len(tokens) < width:
            tokens.append({name: rng.randint(-2, 5) for name in names} | {"sequence_id": 0})
        for name, column in made.items():
            column.append([token[name] for token in tokens])
    wide = ("token_type_ids",)
    return {
        name: torch.tensor(column, dtype=torch.int64 if name in wide else torch.int32)
        for name, column in made.items()
    }
