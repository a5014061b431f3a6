"""Tiny models and batches that tests of models share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import BertConfig

from tests.rows import Row

VOCAB, COARSE = 120, 140


def tiny(**changes: object) -> BertConfig:
    """Two layers, 32 wide, without dropout."""
    settings = {
        "vocab_size": VOCAB,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "max_position_embeddings": 120,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "initializer_range": 0.3,
    }
    return BertConfig(**{**settings, **changes})


def fine_batch(lengths: list[int], seed: int = 0) -> dict[str, Tensor]:
    """A batch of rows of these lengths, padded to the longest."""
    draw = torch.Generator().manual_seed(seed)
    rows, most = len(lengths), max(lengths)
    index = torch.arange(most).expand(rows, most)
    real = index < torch.tensor(lengths)[:, None]
    return {
        "input_ids": torch.randint(1, VOCAB, (rows, most), generator=draw) * real,
        "token_type_ids": (index >= torch.tensor(lengths)[:, None] // 2).long() * real,
        "position_ids": index * real,
        "sequence_id": real.to(torch.int32),
        "row_weight": torch.ones(rows),
    }


def batch_of(rows: Sequence[Row], names: Mapping[str, str], prefix: str = "") -> dict[str, Tensor]:
    """Lists of equal lengths of shard rows as a batch, padded with 0: `names` are those of the batch by the rows'.

    With positions 0, 1, ... unless the rows have some, and `sequence_id`.
    """
    first = next(iter(names))
    most = max(len(row[first]) for row in rows)

    def padded(lists: Iterable[Sequence[int]]) -> Tensor:
        return torch.tensor([[*x, *[0] * (most - len(x))] for x in lists])

    batch = {prefix + theirs: padded(row[ours] for row in rows) for ours, theirs in names.items()}
    lengths = [len(row[first]) for row in rows]
    batch.setdefault(f"{prefix}position_ids", padded(range(n) for n in lengths))
    batch[f"{prefix}sequence_id"] = padded([1] * n for n in lengths)
    return batch


def tree_batch(rows: Sequence[Row]) -> dict[str, Tensor]:
    names = {
        "tree_ids": "input_ids",
        "tree_token_type_ids": "token_type_ids",
        "tree_soft_positions": "position_ids",
        "tree_branch": "branch",
        "tree_mention": "mention",
        "parent": "parent",
    }
    parents = [[0, *row["branch_parents"]] for row in rows]
    return batch_of(
        [
            {**row, "parent": [of[branch] for branch in row["tree_branch"]]}
            for row, of in zip(rows, parents, strict=True)
        ],
        names,
    )


def syntax_batch(rows: Sequence[Row]) -> dict[str, Tensor]:
    names = {
        "input_ids": "input_ids",
        "token_type_ids": "token_type_ids",
        "dfs_in": "dfs_in",
        "dfs_out": "dfs_out",
    }

    def of_words(row: Row, name: str) -> list[int]:
        return [0 if word < 0 else row[name][word] for word in row["word_index"]]

    return batch_of(
        [
            {**row, "dfs_in": of_words(row, "word_dfs_in"), "dfs_out": of_words(row, "word_dfs_out")}
            for row in rows
        ],
        names,
    )


def coarse_batch(rows: Sequence[Row]) -> dict[str, Tensor]:
    fine = {"input_ids": "input_ids", "token_type_ids": "token_type_ids", "coarse_index": "coarse_index"}
    coarse = {"coarse_ids": "input_ids", "coarse_token_type_ids": "token_type_ids"}
    return batch_of(rows, fine) | batch_of(rows, coarse, "coarse_")


def together(batch: Mapping[str, Tensor]) -> np.ndarray:
    """bool[B, T, T]: tokens of a sequence see each other; padding sees something."""
    sequence = batch["sequence_id"].numpy()
    same = (sequence[:, :, None] == sequence[:, None]) & (sequence[:, None] > 0)
    return same | np.eye(sequence.shape[1], dtype=np.bool_)


class Code:
    """Pickled, it makes a file as it is read: what weights must not do."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return open, (str(self.path), "w")
