"""K-BERT (Liu et al. 2020): BERT over a flattened sentence tree.

The encoder is BERT's own, and so are its weights ("Mask-Transformer"); two things of the batch differ. Positions are
soft ("Embedding layer"): a branch counts on from its anchor, so what reads as a sentence has a sentence's positions.
And the visible matrix ("Seeing layer") hides branches from all but their anchors, in every layer: knowledge of a branch
reaches the rest of the sentence through its anchor alone, one layer later. (Names of the paper's sections.)

Each of the three can be left out ("Ablation studies"): `soft_positions: false` numbers the tokens of the
flattened tree as they lie, `visible_matrix: false` lets all see all, `graph: false` reads the trunk alone.

The published code fills up positions of padding with the greatest there is; here padding is seen by none, and its
position does not matter.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor
from transformers import BertConfig

from corpora.schema import IGNORED_LABEL
from models.bert import Bert
from models.bert_batch import TREE, Batch, need
from models.masks import Mask, same_sequence, visible
from models.output import Output


class KBert(Bert):
    """BERT with soft positions and the visible matrix; labels of tokens stand on the trunk alone.

    Options: `graph`: whether branches are read at all; without, columns of the tree are not needed; `soft_positions`;
    `visible_matrix`.
    """

    kind: ClassVar[str] = "kbert"
    tasks: ClassVar[tuple[str, ...]] = ("none", "mlm", "classify", "regress", "tag", "choice")
    options: ClassVar[dict[str, Any]] = {"graph": True, "soft_positions": True, "visible_matrix": True}
    view: tuple[str, ...] = (*TREE, "branch_parents")
    group: str | None = "tree"
    reads: tuple[str, ...] = (*Bert.reads, "branch", "mention", "parent")

    @classmethod
    def settings_of(cls, config: BertConfig) -> dict[str, Any]:
        """As `Bert.settings_of`; raises ValueError for a value that an option does not take."""
        settings = super().settings_of(config)
        for name in cls.options:
            cls.check_flag(name, settings[name])
        return settings

    def build(self, config: BertConfig) -> None:
        super().build(config)
        if not self.settings["graph"]:
            self.read_as_bert()

    @property
    def columns(self) -> tuple[str, ...]:
        """As `Bert.columns`; tags are the trunk's, so the tree says where its tokens stand."""
        tags = self.task.name == "tag" and self.settings["graph"]
        return super().columns + (("tree_trunk_index",) if tags else ())

    @property
    def mask(self) -> Mask:
        hides = self.settings["graph"] and self.settings["visible_matrix"]
        return same_sequence & visible if hides else same_sequence

    def forward(self, batch: Batch) -> Output:
        """As `Bert.forward`."""
        if self.settings["graph"] and not self.settings["soft_positions"]:
            need(batch, ("sequence_id",), f"model {self.kind!r}")
            batch = {**batch, "position_ids": places(batch["sequence_id"])}
        return super().forward(batch)

    def labelled(self, batch: Batch) -> Batch:
        """Labels of branch tokens count for nothing, whatever they say."""
        if self.task.name != "tag" or "token_labels" not in batch or not self.settings["graph"]:
            return batch
        labels = torch.where(batch["branch"] > 0, IGNORED_LABEL, batch["token_labels"])
        return {**batch, "token_labels": labels}


def places(sequence_id: Tensor) -> Tensor:
    """0, 1, ... in each sequence of a row, int64[B, T], as tokens lie; 0 of padding (`sequence_id` 0)."""
    index = torch.arange(sequence_id.shape[1], device=sequence_id.device).expand_as(sequence_id)
    begins = torch.ones_like(sequence_id, dtype=torch.bool)
    begins[:, 1:] = sequence_id[:, 1:] != sequence_id[:, :-1]
    first = torch.where(begins, index, 0).cummax(1).values
    return (index - first) * (sequence_id > 0)
