"""BERT's encoder written from its paper and Vaswani et al. 2017, head by head, in numpy and float64.

Nothing here is shared with the product, nor with transformers. Weights are looked up by transformers' names.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import erf, sqrt

import numpy as np
import torch

Weights = Mapping[str, np.ndarray]


def weights_of(model: torch.nn.Module) -> dict[str, np.ndarray]:
    return {name: x.detach().double().numpy() for name, x in model.state_dict().items()}


def linear(w: Weights, name: str, x: np.ndarray) -> np.ndarray:
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def norm(w: Weights, name: str, x: np.ndarray) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return (
        centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12) * w[f"{name}.weight"]
        + w[f"{name}.bias"]
    )


def gelu(x: np.ndarray) -> np.ndarray:
    return x * (1 + np.vectorize(erf)(x / sqrt(2))) / 2


def embed(w: Weights, name: str, ids: np.ndarray, types: np.ndarray, positions: np.ndarray) -> np.ndarray:
    tables = (("word_embeddings", ids), ("token_type_embeddings", types), ("position_embeddings", positions))
    return norm(w, f"{name}.LayerNorm", sum(w[f"{name}.{table}.weight"][rows] for table, rows in tables))


def attention(
    w: Weights,
    name: str,
    x: np.ndarray,
    seen: np.ndarray,
    heads: int,
    soft: bool = True,
    within: np.ndarray | None = None,
) -> np.ndarray:
    """x float64[B, T, D], seen bool[B, T, T]; not `soft`: scores of what is seen weigh as they are; `within`: so do
    scores of 0 of what else is in bool[B, T, T]."""
    query, key, value = (linear(w, f"{name}.{part}", x) for part in ("query", "key", "value"))
    size, parts = x.shape[-1] // heads, []
    for head in range(heads):
        own = slice(head * size, (head + 1) * size)
        scores = np.einsum("bqd,bkd->bqk", query[..., own], key[..., own]) / sqrt(size)
        if soft:
            scores = (
                np.where(seen, scores, -np.inf)
                if within is None
                else np.where(within, scores * seen, -np.inf)
            )
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            scores /= scores.sum(-1, keepdims=True)
        else:
            scores = np.where(seen, scores, 0)
        parts.append(scores @ value[..., own])
    return np.concatenate(parts, -1)


def layer(
    w: Weights,
    name: str,
    x: np.ndarray,
    seen: np.ndarray,
    heads: int,
    soft: bool = True,
    within: np.ndarray | None = None,
) -> np.ndarray:
    read = attention(w, f"{name}.attention.self", x, seen, heads, soft, within)
    attended = linear(w, f"{name}.attention.output.dense", read)
    x = norm(w, f"{name}.attention.output.LayerNorm", x + attended)
    inner = gelu(linear(w, f"{name}.intermediate.dense", x))
    return norm(w, f"{name}.output.LayerNorm", x + linear(w, f"{name}.output.dense", inner))


def layers(w: Weights, name: str, x: np.ndarray, seen: np.ndarray, heads: int) -> np.ndarray:
    count = len(
        {key.removeprefix(f"{name}.layer.").split(".")[0] for key in w if key.startswith(f"{name}.layer.")}
    )
    for number in range(count):
        x = layer(w, f"{name}.layer.{number}", x, seen, heads)
    return x


def bert(w: Weights, batch: Mapping[str, torch.Tensor], seen: np.ndarray, heads: int) -> np.ndarray:
    """Last hidden states float64[B, T, D] of `bert.*`."""
    numbers = (batch[name].numpy() for name in ("input_ids", "token_type_ids", "position_ids"))
    return layers(w, "bert.encoder", embed(w, "bert.embeddings", *numbers), seen, heads)
