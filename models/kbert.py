"""K-BERT (Liu et al. 2020): BERT over a flattened sentence tree.

The encoder is BERT's own, and so are its weights (section 3.1); two things of the batch differ. Positions are soft
(section 3.2.1): a branch counts on from its anchor, so what reads as a sentence has a sentence's positions. And the
visible matrix (section 3.3) hides branches from all but their anchors, in every layer: knowledge of a branch
reaches the rest of the sentence through its anchor alone, one layer later.

The published code fills up positions of padding with the greatest there is; here padding is seen by none, and its
position does not matter.
"""

from __future__ import annotations

from typing import ClassVar

import torch

from corpora.schema import IGNORED_LABEL
from models.bert import Bert
from models.bert_batch import TREE, Batch
from models.masks import Mask, same_sequence, visible


class KBert(Bert):
    """BERT with soft positions and the visible matrix; labels of tokens stand on the trunk alone."""

    kind: ClassVar[str] = "kbert"
    tasks: ClassVar[tuple[str, ...]] = ("none", "mlm", "classify", "regress", "tag", "choice")
    view: ClassVar[tuple[str, ...]] = TREE
    group: ClassVar[str | None] = "tree"
    reads: ClassVar[tuple[str, ...]] = (*Bert.reads, "branch", "mention", "parent")

    @property
    def columns(self) -> tuple[str, ...]:
        """As `Bert.columns`; tags are the trunk's, so the tree says where its tokens stand."""
        return super().columns + (("tree_trunk_index",) if self.task.name == "tag" else ())

    @property
    def mask(self) -> Mask:
        return same_sequence & visible

    def labelled(self, batch: Batch) -> Batch:
        """Labels of branch tokens count for nothing, whatever they say."""
        if self.task.name != "tag" or "token_labels" not in batch:
            return batch
        labels = torch.where(batch["branch"] > 0, IGNORED_LABEL, batch["token_labels"])
        return {**batch, "token_labels": labels}
