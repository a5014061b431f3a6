"""Padding: flat lists to tensors [B, T]. The places of all columns of one granularity are worked out once."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from corpora.schema import IGNORED_LABEL
from models.collate.sequences import Lists, Sequences
from models.stream.rows import Array

_INT32 = (
    "sequence_id",
    "branch",
    "mention",
    "parent",
    "trunk_index",
    "dfs_in",
    "dfs_out",
    "sentence",
    "coarse_index",
)
_LESS_THAN_ALL = {
    "mention": -1,
    "trunk_index": -1,
    "sentence": -1,
    "mlm_labels": IGNORED_LABEL,
    "token_labels": IGNORED_LABEL,
}
"""What padding is where it is not 0."""
_FOR_STEPS = "word_index"
_SCALARS = {"label_score": np.float32, "is_impossible": np.bool_}


def tensors(sequences: Sequences, multiple: int = 8) -> dict[str, Tensor]:
    """The batch: a dict of tensors, B sequences of T positions.

    T is the longest sequence's length, or the next multiple of `multiple` (at least 1): of coarse tokens likewise.

    - of every token [B, T]: what `sequences.fine` has (but `word_index`, and `coarse_index` where there are no coarse
      tokens), int64 or, of what only masks read, int32; `position_ids` int64; `sequence_id` int32, 0 = padding;
    - of coarse tokens [B, C]: the same with `coarse_` before it;
    - of every sequence [B]: `row_weight` float32, `number` int64 (`Rows.number`), and the scalars, which are [Q] where
      they are of questions: `label_score` float32, `is_impossible` bool, all others int64.
    """
    left_out = {_FOR_STEPS} if sequences.coarse is not None else {_FOR_STEPS, "coarse_index"}
    batch = padded(sequences.fine, multiple, left_out=left_out)
    if sequences.coarse is not None:
        of_coarse = padded(sequences.coarse, multiple)
        batch |= {f"coarse_{name}": tensor for name, tensor in of_coarse.items()}
    batch["row_weight"] = torch.from_numpy(sequences.weight)
    batch["number"] = torch.from_numpy(sequences.rows.number[sequences.row])
    for name, values in sequences.scalars.items():
        batch[name] = torch.from_numpy(values.astype(_SCALARS.get(name, np.int64)))
    return batch


def padded(
    lists: Lists, multiple: int = 8, *, left_out: set[str] | frozenset[str] = frozenset()
) -> dict[str, Tensor]:
    """Columns [m] as tensors [n, T], with `position_ids` and `sequence_id` where the lists have none."""
    lengths = lists.lengths
    width = max(-(-int(lengths.max(initial=0)) // multiple), 1) * multiple
    small = np.dtype(np.int16 if width < 2**15 else np.int32)  # compared in a quarter of the time of int64
    places: Array = np.arange(width, dtype=small)
    filled: NDArray[np.bool_] = places < lengths.astype(small)[:, None]
    made = {
        name: _spread(name, values, filled) for name, values in lists.columns.items() if name not in left_out
    }
    if "position_ids" not in made:
        made["position_ids"] = (places * filled).astype(np.int64)
    if "sequence_id" not in made:
        made["sequence_id"] = filled.astype(np.int32)
    return {name: torch.from_numpy(values) for name, values in made.items()}


def _spread(name: str, values: Array, filled: NDArray[np.bool_]) -> Array:
    fill = _LESS_THAN_ALL.get(name, 0)
    kind = np.int32 if name in _INT32 else np.int64
    made = np.full(filled.shape, fill, kind) if fill else np.zeros(filled.shape, kind)
    made[filled] = values
    return made
