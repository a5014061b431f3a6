"""Who may see whom: each attention mask is one predicate over a few integers per token.

A mask is written once, as comparisons of a query's numbers with a key's, and used in three forms: dense (bool[B, 1,
Q, K]), FlexAttention's `mask_mod`, and whatever the attention of a transformers model wants (`Mask.attention`).
Masks compose: `same_sequence & visible`, `same_sequence & unilm("seq2seq")`.

In a batch (a dict of tensors, B rows of T tokens) every mask here lets a token see itself, and `same_sequence` lets
padding see nothing else; so does every `&` and `|` of them, and no softmax runs over nothing. `~` gives no
such promise: what sees nothing is undefined, and differs between implementations of attention.

The dense form is made by numpy on one core, in a sixth of the time of torch's broadcasting: numbers are
compared as bytes, in blocks that stay in the cache (`tests/bench/bench_masks.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PretrainedConfig
from transformers.masking_utils import create_bidirectional_mask

Batch = Mapping[str, Tensor]
Numbers = Sequence[Any]
Sees = Callable[[Numbers, Numbers], Any]
"""(query's numbers, key's numbers) -> bool, in shapes that broadcast."""
Bind = Callable[[Mapping[str, Any]], tuple[list[Any], Sees]]
"""Columns, [B, T] or [B] each, to the numbers that are compared, int[B, T] each, and the comparison.

Made of operators alone, as the comparison is, so that numpy, torch and FlexAttention all run it."""

LM_KINDS = ("bidirectional", "left_to_right", "right_to_left", "seq2seq")
"""UniLM's language models; `lm_kind` of a batch is the index here."""

_BLOCK = 1 << 18
"""Pairs of tokens compared at a time: a few hundred kilobytes, so temporaries stay in the cache."""


@dataclass(frozen=True)
class Mask:
    """A predicate over the tokens of a batch, made by the functions below and by `&`, `|` and `~`.

    `columns`: what it reads of the batch.
    """

    columns: tuple[str, ...]
    bind: Bind

    def __and__(self, other: Mask) -> Mask:
        return self._with(other, lambda a, b: a & b)

    def __or__(self, other: Mask) -> Mask:
        return self._with(other, lambda a, b: a | b)

    def __invert__(self) -> Mask:
        def bind(batch: Mapping[str, Any]) -> tuple[list[Any], Sees]:
            numbers, sees = self.bind(batch)
            return numbers, lambda q, k: ~sees(q, k)

        return Mask(self.columns, bind)

    def _with(self, other: Mask, join: Callable[[Any, Any], Any]) -> Mask:
        def bind(batch: Mapping[str, Any]) -> tuple[list[Any], Sees]:
            (mine, first), (theirs, second) = self.bind(batch), other.bind(batch)
            n = len(mine)
            return mine + theirs, lambda q, k: join(first(q[:n], k[:n]), second(q[n:], k[n:]))

        return Mask(tuple(dict.fromkeys(self.columns + other.columns)), bind)

    def dense(self, batch: Batch, *, queries: slice = slice(None), prefix: str = "") -> Tensor:
        """bool[B, 1, Q, K], true where query q may see key k; K = T.

        `queries`: the queries wanted, all T by default. `prefix`: of the columns' names, such as `coarse_`. Raises
        KeyError if the batch lacks a column.
        """
        columns = self._read(batch, prefix)
        if any(x.device.type != "cpu" for x in columns.values()):
            numbers, sees = self.bind(columns)
            return sees([x[:, None, queries, None] for x in numbers], [x[:, None, None] for x in numbers])
        numbers, sees = self.bind({name: x.numpy() for name, x in columns.items()})
        keys = [_smallest(x) for x in numbers]
        return torch.from_numpy(_compare([x[:, queries] for x in keys], keys, sees))[:, None]

    def mask_mod(self, batch: Batch, *, prefix: str = "") -> Callable[[Any, Any, Any, Any], Tensor]:
        """FlexAttention's form: (row, head, query, key) -> bool, for `create_block_mask`. Raises as `dense` does."""
        numbers, sees = self.bind(self._read(batch, prefix))
        return lambda b, h, q, k: sees([x[b, q] for x in numbers], [x[b, k] for x in numbers])

    def attention(
        self, batch: Batch, config: PretrainedConfig, *, dtype: torch.dtype = torch.float32, prefix: str = ""
    ) -> Any:
        """What a transformers model of this `config` takes as `attention_mask`, already in four dimensions.

        By `config._attn_implementation`: `sdpa` bool[B, 1, T, T]; `eager` the same as numbers of `dtype` to add to
        scores, 0 or the least there is (a boolean mask would be added as 0 and 1); `flex_attention` a BlockMask.
        These are what `create_bidirectional_mask(and_mask_function=self.mask_mod(batch))` makes, the first two in a
        small part of its time. Raises ValueError for an implementation that takes no mask over pairs of tokens.
        """
        how = config._attn_implementation
        if how == "flex_attention":
            mod = self.mask_mod(batch, prefix=prefix)
            ids = batch[prefix + self.columns[0]]
            shape = torch.empty((*ids.shape, 0), dtype=dtype, device=ids.device)
            return create_bidirectional_mask(config, shape, None, and_mask_function=mod)
        if how not in ("sdpa", "eager"):
            raise ValueError(
                f"attn_implementation is {how!r}, which takes no mask over pairs of tokens; "
                "use 'sdpa', 'eager' or 'flex_attention'"
            )
        seen = self.dense(batch, prefix=prefix)
        if how == "sdpa":
            return seen
        least = torch.finfo(dtype).min
        return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill_(~seen, least)

    def _read(self, batch: Batch, prefix: str) -> dict[str, Tensor]:
        missing = [prefix + name for name in self.columns if prefix + name not in batch]
        if missing:
            raise KeyError(f"this mask reads {', '.join(missing)}; the batch has {', '.join(sorted(batch))}")
        return {name: batch[prefix + name] for name in self.columns}


def _smallest(numbers: np.ndarray) -> np.ndarray:
    """The same in the smallest type that has them and their negatives: mostly bytes."""
    most = max(-int(numbers.min(initial=0)), int(numbers.max(initial=0)))
    kinds = (np.int8, np.int16, np.int32, np.int64)
    return numbers.astype(next(kind for kind in kinds if most <= np.iinfo(kind).max), order="C")


def _compare(queries: list[np.ndarray], keys: list[np.ndarray], sees: Sees) -> np.ndarray:
    """bool[B, Q, K] of int[B, Q] and int[B, K] each."""
    (rows, count), tokens = queries[0].shape, keys[0].shape[1]
    made = np.empty((rows, count, tokens), np.bool_)
    size = max(1, _BLOCK // max(1, count * tokens))
    for at in range(0, rows, size):
        part = slice(at, at + size)
        made[part] = sees([x[part, :, None] for x in queries], [x[part, None] for x in keys])
    return made


def _index(like: Any) -> Any:
    """0, 1, ... of every token, int[T], beside a column [B, T] of numpy or torch."""
    if isinstance(like, np.ndarray):
        return np.arange(like.shape[-1])
    return torch.arange(like.shape[-1], device=like.device)


# --- padding and packing ----------------------------------------------------------------------

same_sequence = Mask(("sequence_id",), lambda batch: ([batch["sequence_id"]], lambda q, k: q[0] == k[0]))
"""Tokens of one sequence see each other. Padding is a sequence of its own, 0: nobody sees it, and it sees itself."""


# --- K-BERT -----------------------------------------------------------------------------------


def _bind_visible(batch: Mapping[str, Any]) -> tuple[list[Any], Sees]:
    branch, mention, parent = batch["branch"], batch["mention"], batch["parent"]
    # Two numbers that are each other's negative where one sees the other across branches. Where both are 0, both are
    # of the trunk, which sees itself anyway.
    anchor = mention + 1
    anchor = anchor - 2 * anchor * (branch == 0)
    flat = isinstance(parent, np.ndarray) and not parent.any()  # elsewhere asking would wait for the device
    if flat:  # all branches hang from the trunk, as in the paper
        return [branch, anchor], lambda q, k: (q[0] == k[0]) | (q[1] == -k[1])
    root = branch - (branch + parent) * (parent > 0)
    return [branch, anchor, root], lambda q, k: (q[0] == k[0]) | (q[1] == -k[1]) | (q[2] == -k[2])


visible = Mask(("branch", "mention", "parent"), _bind_visible)
"""The visible matrix (K-BERT, Liu et al. 2020, "Seeing layer", equation 3): tokens see each other if some path of the
sentence tree goes through both.

That is: same `branch` (the trunk is branch 0); or one is on the trunk and the other on a branch of the same `mention`;
or the branch of one hangs from that of the other (`parent`, 0 = hangs from the trunk; branches of branches have none
of their own, as `verify` holds shards to). Two branches of one mention are hidden from each other, and no token
that is not of the mention, [CLS] among them, sees its branches."""


# --- SG-Net -----------------------------------------------------------------------------------


def syntax(direction: str = "ancestors") -> Mask:
    """Syntax-guided attention (SDOI; SG-Net, Zhang et al. 2020, section 3.2, equation 1).

    `ancestors`: each word sees itself and its heads, up to the root (the published model and code). `descendants`:
    itself and all that hangs from it. By word, so every piece of a word sees every piece of a word it sees. Words of
    other sentences are neither. Reads `dfs_in` and `dfs_out` of each token's word, int[B, T], where word a is b or
    an ancestor of b iff `in[a] <= in[b] < out[a]`; a token without an interval (`out <= in`: special tokens, padding)
    sees itself alone and is seen by none. Raises ValueError for another direction.
    """
    if direction not in ("ancestors", "descendants"):
        raise ValueError(f"direction is {direction!r}, expected 'ancestors' or 'descendants'")

    def bind(batch: Mapping[str, Any]) -> tuple[list[Any], Sees]:
        start, last = batch["dfs_in"], batch["dfs_out"] - 1
        own = -1 - _index(start)  # of a token that no word's number can be
        alone = last < start
        start, last = start + (own - start) * alone, last + (own - last) * alone

        def upwards(q: Numbers, k: Numbers) -> Any:
            return (k[0] <= q[0]) & (q[0] <= k[1])

        return [start, last], upwards if direction == "ancestors" else lambda q, k: upwards(k, q)

    return Mask(("dfs_in", "dfs_out"), bind)


# --- UniLM ------------------------------------------------------------------------------------


def unilm(kind: str | None = None) -> Mask:
    """The masks of UniLM (Dong et al. 2019, section 2.2, figure 1): one of `LM_KINDS`.

    `bidirectional`: all see all. `left_to_right`, `right_to_left`: a token sees itself and what stands before, or
    behind it. `seq2seq`: all see the source (`token_type_ids` 0), the target itself and what stands before it in the
    target. None: of each row the kind that `lm_kind`, int[B], numbers. Raises ValueError for another kind.

    Each kind is an order: a token sees what does not come after it.
    """
    if kind is not None and kind not in LM_KINDS:
        raise ValueError(f"kind is {kind!r}, expected one of {', '.join(LM_KINDS)}")

    def bind(batch: Mapping[str, Any]) -> tuple[list[Any], Sees]:
        segment = batch["token_type_ids"]
        index = _index(segment)
        orders = (0 * index, index, -index, index - (index + 1) * (segment == 0))
        if kind:
            order = orders[LM_KINDS.index(kind)] + 0 * segment
        else:
            order = sum(x * (batch["lm_kind"][:, None] == n) for n, x in enumerate(orders))
        return [order], lambda q, k: k[0] <= q[0]

    return Mask(("token_type_ids",) if kind else ("token_type_ids", "lm_kind"), bind)
