"""Predictions of the next token from a [MASK] behind what is written so far, with keys and values kept.

The model was trained to fill masks under the sequence-to-sequence mask (Dong et al. 2019, sections 2.3 and 2.5), so a
step appends [MASK] to the target, predicts it, and puts the token in its place, as the released code does. It thus
reads two positions a beam: the last token, whose keys and values are kept, and [MASK], whose are not. The source is
read once.

All beams of a row lie in one sequence: the source once, then the tokens in the order they were written, and a mask
tells each beam its own. So keys and values are never copied, neither for each beam nor when beams change places; the
price, products with keys of other beams that the mask then drops, is small beside the layers' own.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from models.bert_batch import Batch
from models.masks import LM_KINDS
from models.unilm import UniLM


class Decoder:
    """Predictions of the next token for R rows of K beams; K may change from step to step.

    `kept` float[layers, 2, R, heads, S + slots, D]: keys and values of S source tokens, and of tokens in the order
    they were written, K a step; of autocast's type where that is on, or attention would cast all of them anew in every
    step. `own` bool[R, K, slots so far]: which of these are a beam's.
    """

    def __init__(
        self, model: UniLM, source: Batch, real: Tensor, first: Tensor, mask: int, slots: int
    ) -> None:
        """Reads the source.

        `source`: its tensors [R, S], `real` bool[R, S] at its tokens; `first` int64[R]: position of the target's first
        token; `mask`: id of [MASK]; `slots`: K times the most steps there may be.
        """
        self.model, self.mask, self.real, self.first = model, mask, real, first
        self.layers = model.bert.encoder.layer
        self.own = real.new_zeros(len(real), 1, 0)
        heads, (rows, width) = model.config.num_attention_heads, real.shape
        places = width + slots
        size = model.config.hidden_size // heads
        device = first.device.type
        kind = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else model.dtype
        self.kept = first.new_empty(len(self.layers), 2, rows, heads, places, size, dtype=kind)
        self.used, self.steps = width, 0
        self._run(source, real[:, None].expand(-1, width, -1), at=0)

    def step(self, last: Tensor | None) -> Tensor:
        """Logits float[R, K, V] of what follows the beams' last tokens int64[R, K] (None: of what begins them)."""
        count, beams = self.own.shape[:2]
        tokens = self.first.new_full((count, beams), self.mask)
        places = (self.first + self.steps)[:, None].expand(-1, beams)
        alone = torch.eye(beams, dtype=torch.bool, device=tokens.device).expand(count, -1, -1)
        at = self.used
        if last is not None:
            self.own = torch.cat([self.own, alone], -1)
            self.used += beams
            tokens, places = torch.cat([last, tokens], 1), torch.cat([places - 1, places], 1)
        behind = torch.cat([self.real[:, None].expand(-1, beams, -1), self.own], -1)
        seen = torch.cat([behind, alone], -1)
        if last is not None:
            seen = torch.cat([torch.cat([behind, torch.zeros_like(alone)], -1), seen], 1)
        target = {"input_ids": tokens, "token_type_ids": torch.ones_like(tokens), "position_ids": places}
        hidden = self._run(target, seen, at)
        self.steps += 1
        return self.model.cls.predictions(hidden[:, -beams:])

    def follow(self, parent: Tensor) -> None:
        """The beams, int64[R, K], that those of the next step continue."""
        self.own = pick(self.own, parent)

    def select(self, rows: Tensor) -> None:
        """Go on with these rows, bool[R], alone."""
        self.real, self.first, self.own = self.real[rows], self.first[rows], self.own[rows]
        self.kept = self.kept[:, :, rows]

    def _run(self, tokens: Batch, seen: Tensor, at: int) -> Tensor:
        """Hidden states float[R, Q, D] of Q tokens that see bool[R, Q, at + Q]; their keys are written at `at`."""
        kind = torch.full_like(self.first, LM_KINDS.index("seq2seq"))
        types = self.model.types({**tokens, "lm_kind": kind})
        hidden = self.model.bert.embeddings(
            input_ids=tokens["input_ids"], token_type_ids=types, position_ids=tokens["position_ids"]
        )
        until = seen.shape[-1]
        for layer, (keys, values) in zip(self.layers, self.kept, strict=True):
            attention = layer.attention.self
            query, key, value = (
                part(hidden).unflatten(-1, (keys.shape[1], -1)).transpose(1, 2)
                for part in (attention.query, attention.key, attention.value)
            )
            keys[:, :, at:until], values[:, :, at:until] = key, value
            read = functional.scaled_dot_product_attention(
                query, keys[:, :, :until], values[:, :, :until], attn_mask=seen[:, None]
            )
            hidden = layer.attention.output(read.transpose(1, 2).flatten(2), hidden)
            hidden = layer.feed_forward_chunk(hidden)
        return hidden


def pick(x: Tensor, index: Tensor) -> Tensor:
    """x[R, K, ...] at the places int64[R, J] of its second dimension."""
    wide = index.view(*index.shape, *[1] * (x.ndim - 2)).expand(*index.shape, *x.shape[2:])
    return x.gather(1, wide)
