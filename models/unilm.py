"""UniLM (Dong et al. 2019): one BERT that is four language models, by who sees whom.

Each row of a batch is of one kind (`models.masks.LM_KINDS`): bidirectional, left-to-right, right-to-left or
sequence-to-sequence. Whatever the kind, masked tokens are predicted from what their mask lets them see (section 2.3),
so kinds mix within a batch and share every weight; `models.generate` writes with the last of them.

Next sentences are predicted of bidirectional rows alone (section 2.3): under the other masks [CLS] does not see the
second segment, or sees it to no purpose. The published code labels such rows -1, which counts in no loss; so here.

Segment embeddings also tell the kind (section 2.1), of six types in the published code: 0 and 1 for the segments of
bidirectional rows, 2 left-to-right, 3 right-to-left, 4 and 5 for source and target. A checkpoint with BERT's two types
starts them as that code does: each new type from the one it stands for.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import BertConfig

from corpora.schema import IGNORED_LABEL
from models.bert import Bert
from models.bert_batch import Batch, need
from models.masks import LM_KINDS, Mask, same_sequence, unilm
from models.output import Output

TYPES = ("shared", "by_kind")

_GROWN = (0, 1, 0, 0, 0, 1)
"""Of BERT's two types, the one that each of the six starts from."""

_OF_ANY_KIND = ("none", "mlm", "pretrain")
"""Tasks whose rows have a kind; what reads a text as a whole is bidirectional (section 2.5)."""


class UniLM(Bert):
    """BERT whose rows are of a kind of language model.

    Options: `lm`: the kind of rows that have no `lm_kind`; `types`: `shared`, token types are segments as in BERT, or
    `by_kind`, six of them; the default is `by_kind` where the checkpoint has six types, else `shared`; `smoothing`:
    share of a masked token's label, below 1, that is spread over the vocabulary in training (the paper's fine-tuning of
    generation has 0.1, sections 3.1 to 3.3); losses that are measured are plain. Tasks of understanding are
    bidirectional whatever the batch or `lm` says.
    """

    kind: ClassVar[str] = "unilm"
    tasks: ClassVar[tuple[str, ...]] = (*_OF_ANY_KIND, "classify", "regress", "tag", "span", "choice")
    options: ClassVar[dict[str, Any]] = {"lm": LM_KINDS[0], "types": None, "smoothing": 0.0}

    @classmethod
    def settings_of(cls, config: BertConfig) -> dict[str, Any]:
        """As `Bert.settings_of`; raises ValueError for a value that an option does not take."""
        settings, has = super().settings_of(config), config.type_vocab_size
        if settings["types"] is None:
            settings["types"] = "by_kind" if has == len(_GROWN) else "shared"
        cls.check_choice("lm", settings["lm"], LM_KINDS)
        cls.check_choice("types", settings["types"], TYPES)
        cls.check_number("smoothing", settings["smoothing"], most=1)
        if settings["smoothing"] == 1:
            raise ValueError("smoothing is 1, expected a number below 1: nothing of the label would be left")
        if settings["types"] == "by_kind" and has not in (2, len(_GROWN)):
            raise ValueError(
                f"types is 'by_kind', which grows two token types to six; the checkpoint has {has}: use 'shared'"
            )
        return settings

    def settle(self) -> None:
        """Grow two token types to six, if they are to tell the kind."""
        old = self.bert.embeddings.token_type_embeddings
        if self.settings["types"] == "shared" or old.num_embeddings == len(_GROWN):
            return
        grown = nn.Embedding.from_pretrained(old.weight.detach()[list(_GROWN)], freeze=False)
        self.bert.embeddings.token_type_embeddings = grown
        self.config.type_vocab_size = len(_GROWN)

    @property
    def smoothing(self) -> float:
        """As `Bert.smoothing`; nothing where the model does not learn."""
        return float(self.settings["smoothing"]) if self.training else 0.0

    @property
    def mask(self) -> Mask:
        return same_sequence & unilm()

    def forward(self, batch: Batch) -> Output:
        """As `Bert.forward`; `lm_kind` int[B] numbers the kind of each row in `LM_KINDS` (default: option `lm`)."""
        need(batch, self.reads, f"model {self.kind!r}")
        return super().forward(self.with_kinds(batch))

    def with_kinds(self, batch: Batch) -> Batch:
        """The batch with an `lm_kind` for every row."""
        of_any = self.task.name in _OF_ANY_KIND
        if of_any and "lm_kind" in batch:
            return batch
        rows, kind = batch["input_ids"], self.settings["lm"] if of_any else LM_KINDS[0]
        kinds = torch.full((len(rows),), LM_KINDS.index(kind), dtype=torch.int64, device=rows.device)
        return {**batch, "lm_kind": kinds}

    def types(self, batch: Batch) -> Tensor:
        """Rows of the type embedding int64[B, T], of segments 0 and 1 and each row's kind."""
        segment = batch["token_type_ids"]
        if self.settings["types"] == "shared":
            return segment
        kind = batch["lm_kind"].long()[:, None]
        return kind + (kind > 0) + segment * (kind % 3 == 0)

    def labelled(self, batch: Batch) -> Batch:
        """Without the label of the next sentence where a row is not bidirectional."""
        if self.task.name != "pretrain" or "label" not in batch:
            return batch
        kind = self.with_kinds(batch)["lm_kind"]
        return {**batch, "label": batch["label"].masked_fill(kind != 0, IGNORED_LABEL)}

    def limits(self) -> dict[str, tuple[int, str]]:
        segments = min(2, self.config.type_vocab_size)
        return super().limits() | {
            "token_type_ids": (segments, "segments of a row; the model makes token types of them"),
            "lm_kind": (len(LM_KINDS), f"kinds of language model: {', '.join(LM_KINDS)}"),
        }
