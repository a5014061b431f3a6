"""SG-Net (Zhang et al. 2020): BERT, then one layer of attention along the dependency parse, then a mix of both.

The syntax-guided layer (section 3.2) is one layer of a Transformer, of the same shape as BERT's, over the encoder's
last hidden states H; the mask lets a word see itself and its heads. Its output H' is mixed with H (dual context
aggregation, section 3.3): alpha H + (1 - alpha) H'.

Where paper, published code and sense differ:
- Equation 2 is softmax(M QK^T / sqrt(d)), of the mask M of 0 and 1: a hidden word keeps a score of 0, and is seen;
  the published layer adds -10,000 where the mask is 0, so hidden words weigh nothing. Here likewise. `softmax:
  multiplied` takes the equation by its letter (padding and other sequences are hidden all the same). `softmax: false`
  takes none: scores of hidden words are 0, those of others weigh as they are (as the published code's second way
  of reading the mask, which weighs by the mask alone).
- The paper fixes alpha at 0.5; the published code learns two weights, softmaxed, from halves on, and a scale from 1
  on: `aggregation: learned`.
- For several choices the published code has a pooler of its own, new; here BERT's own pools the mix.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel
from transformers import initialization as init
from transformers.models.bert.modeling_bert import BertLayer, BertSelfAttention

from models.bert import Bert
from models.bert_batch import FINE, SYNTAX, Batch
from models.masks import same_sequence, syntax

AGGREGATIONS = ("fixed", "learned", "concat")
DIRECTIONS = ("ancestors", "descendants", "none")
MULTIPLIED = "multiplied"
"""A softmax of scores that are multiplied by the mask."""


class SGNet(Bert):
    """BERT with a syntax-guided layer.

    Options: `direction`: `ancestors` (a word sees its heads: the published model), `descendants`, or `none`: all see
    all, so one layer more and no parse, which then is not needed (an ablation); `aggregation`:
    `fixed` (alpha H + (1 - alpha) H'), `learned`, or `concat` ([H; H'], twice as wide, a variant of the paper);
    `alpha`: weight of H where it is fixed; `softmax`: of the syntax-guided layer: true, false or `multiplied`.
    """

    kind: ClassVar[str] = "sgnet"
    tasks: ClassVar[tuple[str, ...]] = ("none", "classify", "regress", "tag", "span", "choice")
    options: ClassVar[dict[str, Any]] = {
        "direction": "ancestors",
        "aggregation": "fixed",
        "alpha": 0.5,
        "softmax": True,
    }
    view: tuple[str, ...] = (*FINE, "word_index", *SYNTAX)
    group: str | None = "syntax"
    reads: tuple[str, ...] = (*Bert.reads, "dfs_in", "dfs_out")

    @classmethod
    def settings_of(cls, config: BertConfig) -> dict[str, Any]:
        """As `Bert.settings_of`; raises ValueError for a value that an option does not take."""
        settings = super().settings_of(config)
        cls.check_choice("aggregation", settings["aggregation"], AGGREGATIONS)
        cls.check_number("alpha", settings["alpha"], most=1)
        cls.check_choice("direction", settings["direction"], DIRECTIONS)
        if not isinstance(settings["softmax"], bool) and settings["softmax"] != MULTIPLIED:
            raise ValueError(f"softmax is {settings['softmax']!r}, expected true, false or {MULTIPLIED!r}")
        return settings

    def build(self, config: BertConfig) -> None:
        width, wide = config.hidden_size, self.settings["aggregation"] == "concat"
        self.bert = BertModel(config, add_pooling_layer=self.task.pooled and not wide)
        self.syntax_layer = BertLayer(config)
        if self.settings["softmax"] is not True:
            self.syntax_layer.attention.self = ScoresAttention(config, soft=bool(self.settings["softmax"]))
        if self.settings["aggregation"] == "learned":
            self.mix = Mix()
        if wide and self.task.pooled:
            self.wide_pooler = nn.Linear(2 * width, width)
        self.add_head(config, 2 * width if wide and not self.task.pooled else width)
        if self.settings["direction"] == "none":
            self.read_as_bert()

    def encode(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """As `Bert.encode`, of the mix."""
        hidden, _ = super().encode(batch)
        direction = self.settings["direction"]
        mask = same_sequence if direction == "none" else same_sequence & syntax(direction)
        if self.settings["softmax"] is True:
            seen = mask.attention(batch, self.config, dtype=hidden.dtype)
        else:
            seen = mask.dense(batch).int() + same_sequence.dense(batch)
        both = self.aggregate(hidden, self.syntax_layer(hidden, seen))
        return both, self.pool(both)

    def aggregate(self, hidden: Tensor, guided: Tensor) -> Tensor:
        """Dual context aggregation: H, H' float[B, T, D] to float[B, T, D], or [B, T, 2D] where they are joined."""
        how, alpha = self.settings["aggregation"], self.settings["alpha"]
        if how == "concat":
            return torch.cat([hidden, guided], -1)
        return self.mix(hidden, guided) if how == "learned" else alpha * hidden + (1 - alpha) * guided

    def pool(self, both: Tensor) -> Tensor | None:
        """The mix's [CLS] float[B, D] through a pooler, BERT's own where that is wide enough; None: nobody reads it."""
        if not self.task.pooled:
            return None
        if self.bert.pooler is None:
            return torch.tanh(self.wide_pooler(both[:, 0]))
        return self.bert.pooler(both)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, Mix):
            init.zeros_(module.shares)
            init.ones_(module.scale)


class Mix(nn.Module):
    """The published code's learned aggregation: scale (w1 H + w2 H'), (w1, w2) a softmax that begins at halves."""

    def __init__(self) -> None:
        super().__init__()
        self.shares = nn.Parameter(torch.zeros(2))
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, hidden: Tensor, guided: Tensor) -> Tensor:
        """H, H' float[B, T, D] to float[B, T, D]."""
        first, second = self.shares.softmax(0)
        return self.scale * (first * hidden + second * guided)


class ScoresAttention(BertSelfAttention):
    """BERT's self-attention whose scores of hidden tokens are 0. Without a softmax scores weigh values as they are;
    with one, 0 is a score as any other, and hidden tokens are seen."""

    def __init__(self, config: BertConfig, soft: bool) -> None:
        super().__init__(config)
        self.soft = soft

    def forward(self, hidden_states: Tensor, attention_mask: Tensor, **_: Any) -> tuple[Tensor, Tensor]:
        """States float[B, T, D] to such and weights; `attention_mask` int[B, 1, T, T]: 2 where a token sees the other,
        1 where that is but of its sequence, else 0."""
        shape = (*hidden_states.shape[:-1], self.num_attention_heads, self.attention_head_size)
        query, key, value = (
            part(hidden_states).view(shape).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        scores = query @ key.transpose(-1, -2) * self.scaling
        scores = scores.masked_fill(attention_mask < 2, 0)
        if self.soft:
            scores = scores.masked_fill(attention_mask < 1, torch.finfo(scores.dtype).min).softmax(-1)
        scores = self.dropout(scores)
        return (scores @ value).transpose(1, 2).reshape(hidden_states.shape), scores
