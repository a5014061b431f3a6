"""Tiny models and batches that tests of models share."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import BertConfig

VOCAB, COARSE = 61, 83


def tiny(**changes: object) -> BertConfig:
    """Two layers, 32 wide, without dropout."""
    settings = {
        "vocab_size": VOCAB,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "max_position_embeddings": 40,
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


def tree_batch() -> dict[str, Tensor]:
    """Two rows: [CLS] a b c [SEP] with mention 0 = b, branches (x y) and (z) on it, and a branch of branch 1 (w).

    The second row is the same without w, padded.
    """
    batch = fine_batch([9, 8])
    batch["branch"] = torch.tensor(
        [[0, 0, 0, 1, 1, 3, 2, 0, 0], [0, 0, 0, 1, 1, 2, 0, 0, 0]], dtype=torch.int32
    )
    batch["mention"] = torch.tensor(
        [[-1, -1, 0, 0, 0, -1, 0, -1, -1], [-1, -1, 0, 0, 0, 0, -1, -1, -1]], dtype=torch.int32
    )
    batch["parent"] = torch.tensor([[0, 0, 0, 0, 0, 1, 0, 0, 0], [0] * 9], dtype=torch.int32)
    batch["position_ids"] = torch.tensor([[0, 1, 2, 3, 4, 5, 3, 3, 4], [0, 1, 2, 3, 4, 3, 3, 4, 0]])
    return batch


def syntax_batch() -> dict[str, Tensor]:
    """[CLS] w0 w1 w1 w2 [SEP] twice, the second a token longer in padding; w1 is the root, w0 and w2 hang from it."""
    batch = fine_batch([6, 5])
    batch["dfs_in"] = torch.tensor([[0, 1, 0, 0, 2, 0], [0, 1, 0, 2, 0, 0]], dtype=torch.int32)
    batch["dfs_out"] = torch.tensor([[0, 2, 3, 3, 3, 0], [0, 2, 3, 3, 0, 0]], dtype=torch.int32)
    return batch
