"""AMBERT (Zhang and Li, 2020): one text as fine and as coarse tokens, two encoders that are one.

Both encoders have the same layers, the very same tensors, so one gradient; only embeddings are each one's own
(section 3.1). Pretraining is masked language modelling of both sequences, added up. Fine-tuning (section 3.3) adds
up three losses, of a classifier of the fine [CLS], one of the coarse [CLS] and one of both, and `agreement` times
the squared distance between the two [CLS] vectors, each scaled to length 1.

Variants of the paper (section 3.4): `combo` has two encoders that share nothing; `hybrid` one encoder over both
sequences end to end, so that fine tokens see coarse ones. "Its fine-tuning is the same as that of BERT": one
classifier of the first [CLS], which is the fine tokens', no agreement; tags and spans are read from the states of fine
tokens alone. `classifiers: three` fine-tunes it as the other two variants all the same.

What the paper leaves open, and is so here: predictions are the joint classifier's; classifiers read [CLS] through
BERT's pooler (shared as the layers are), the distance is of [CLS] as it leaves the last layer; the head of masked
language modelling is shared but for its last layer, which is each one's word embeddings; `hybrid` keeps each
sequence's own embeddings, so positions begin at 0 twice and types tell segments, not granularities; tags and
spans are the fine tokens', each read beside the coarse token that covers it.

The paper's `agreement` of 1 is for weights whose [CLS] says something. Small weights that masked tokens alone have
taught do not: there the distance is soonest made small by both [CLS] becoming one constant vector. On the embedded
reviews it falls to 0.001 within 24 steps, and the three classifiers stay at ln 2 = 0.693 for all of 96; with a weight
of 0 or 0.01 the same run learns from step 24 on, with 0.1 from 50. With such weights choose a small one (0.01).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertConfig, BertModel
from transformers.models.bert.modeling_bert import BertEmbeddings, BertPredictionHeadTransform

from models.bert import TIED, Bert
from models.bert_batch import COARSE, FINE, Batch, need
from models.heads import add_choices, add_labels, add_squares, predict_tokens, row_labels
from models.masks import same_sequence
from models.output import Output, widened

VARIANTS = ("shared", "combo", "hybrid")
GRANULARITIES = ("both", "fine", "coarse")
CLASSIFIERS = ("three", "one")


def _one(options: Mapping[str, Any]) -> bool:
    """Whether fine-tuning has one classifier."""
    usual = "one" if options["variant"] == "hybrid" else "three"
    return (options["classifiers"] or usual) == "one"


_LOSSES: dict[str, Callable[[Output, str, Tensor, Batch], None]] = {
    "classify": add_labels,
    "regress": add_squares,
    "choice": add_choices,
}
"""Of each task that reads [CLS]."""


class Ambert(Bert):
    """BERT over fine and coarse tokens.

    Options: `coarse_vocab_size`: tokens of the coarse vocabulary (in the dataset's metadata; needed); `variant`: of
    `VARIANTS`; `classifiers`: how both granularities are fine-tuned: `three` classifiers that agree, tags and spans
    from fine tokens beside coarse ones; or `one`, as BERT, of `hybrid` alone, whose default it is; `agreement`: weight
    of the distance between both [CLS] where there are three classifiers (the paper's lambda; default 1);
    `granularity`: `both`, or as an ablation `fine` (BERT, then) or `coarse` alone, of any variant, where the two
    before say nothing.

    Logits are `Bert`'s, of both granularities where they read [CLS], and beside them: `hidden` and `coarse_hidden`;
    `mlm` and `coarse_mlm`; the task's name with `_fine` and `_coarse`.
    """

    kind: ClassVar[str] = "ambert"
    tasks: ClassVar[tuple[str, ...]] = ("none", "mlm", "classify", "regress", "tag", "span", "choice")
    options: ClassVar[dict[str, Any]] = {
        "coarse_vocab_size": None,
        "variant": "shared",
        "classifiers": None,
        "agreement": None,
        "granularity": "both",
    }
    view: tuple[str, ...] = (*FINE, *COARSE)
    group: str | None = "coarse"
    reads: tuple[str, ...] = (*Bert.reads, *(f"coarse_{name}" for name in Bert.reads))

    @classmethod
    def settings_of(cls, config: BertConfig) -> dict[str, Any]:
        """As `Bert.settings_of`; raises ValueError for a value that an option does not take."""
        settings = super().settings_of(config)
        size = settings["coarse_vocab_size"]
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            how = ': load(..., coarse_vocab_size=split.metadata["coarse_vocab_size"])' if size is None else ""
            raise ValueError(
                f"coarse_vocab_size is {size!r}, expected the number of coarse tokens, which "
                f"the dataset's metadata holds under that name{how}"
            )
        if settings["variant"] not in VARIANTS:
            raise ValueError(f"variant is {settings['variant']!r}, expected one of {', '.join(VARIANTS)}")
        if settings["granularity"] not in GRANULARITIES:
            known = ", ".join(GRANULARITIES)
            raise ValueError(f"granularity is {settings['granularity']!r}, expected one of {known}")
        if settings["granularity"] == "coarse" and settings["task"] in ("tag", "span"):
            raise ValueError(
                f"granularity is 'coarse', and labels of task {settings['task']!r} are those of fine tokens: take "
                "'both' or 'fine'"
            )
        if settings["classifiers"] is None:
            settings["classifiers"] = "one" if _one(settings) else "three"
        if settings["classifiers"] not in CLASSIFIERS:
            known = ", ".join(CLASSIFIERS)
            raise ValueError(f"classifiers is {settings['classifiers']!r}, expected one of {known}")
        if settings["classifiers"] == "one" and settings["variant"] != "hybrid":
            raise ValueError(
                f"classifiers is 'one', and fine tokens of variant {settings['variant']!r} see no coarse ones: take "
                "'three', or granularity 'fine'"
            )
        one = settings["classifiers"] == "one"
        if settings["agreement"] is None:
            settings["agreement"] = None if one else 1.0
        elif one and settings["granularity"] == "both":
            raise ValueError(
                f"agreement is {settings['agreement']!r}, and one classifier has none to agree with (variant 'hybrid' "
                "is fine-tuned as BERT): leave it out, or take classifiers 'three'"
            )
        if settings["agreement"] is not None:
            cls.check_number("agreement", settings["agreement"], most=math.inf)
        return settings

    @classmethod
    def kept(cls, saved: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """As `Bert.kept`; of another variant are other classifiers, and one has nothing to agree with."""
        kept, before = super().kept(saved, given), saved.get("variant")
        if given.get("variant", before) != before:
            kept.pop("classifiers", None)
        if _one({**cls.options, **kept, **given}):
            kept.pop("agreement", None)
        return kept

    def build(self, config: BertConfig) -> None:
        if self.settings["granularity"] == "fine":
            self.group, self.view, self.reads = Bert.group, Bert.view, Bert.reads
            return super().build(config)
        coarse = copy.deepcopy(config)
        coarse.vocab_size = self.settings["coarse_vocab_size"]
        coarse.pad_token_id = None  # of the fine vocabulary: here that number is any token
        self.bert = BertModel(config, add_pooling_layer=self.task.pooled)
        apart = self.settings["variant"] == "combo"
        if apart:
            self.coarse = BertModel(coarse, add_pooling_layer=self.task.pooled)
        else:
            self.coarse_embeddings = BertEmbeddings(coarse)
        width = config.hidden_size
        beside = self.fine_tuned_as_two and not self.task.pooled
        self.add_head(config, 2 * width if beside else width)
        if self.fine_tuned_as_two and self.task.pooled:
            classes = self.classifier.out_features
            self.coarse_classifier = nn.Linear(width, classes)
            self.joint_classifier = nn.Linear(2 * width, classes)
        if self.task.vocabulary:
            if apart:
                self.coarse_transform = BertPredictionHeadTransform(coarse)
            self.coarse_decoder = nn.Linear(width, coarse.vocab_size)
            table = "coarse.embeddings" if apart else "coarse_embeddings"
            self._tied_weights_keys = {**TIED, "coarse_decoder.weight": f"{table}.word_embeddings.weight"}
        return None

    def settle(self) -> None:
        """Weights of fine tokens are there though coarse ones be alone, so that a checkpoint of both fits; they are
        not learned, then."""
        if self.settings["granularity"] != "coarse":
            return
        apart = self.settings["variant"] == "combo"
        (self.bert if apart else self.bert.embeddings).requires_grad_(False)
        if self.task.vocabulary:
            (self.cls if apart else self.cls.predictions.decoder).requires_grad_(False)

    @property
    def fine_tuned_as_two(self) -> bool:
        """Whether the task is one of fine-tuning, and reads both granularities as the paper has it for two encoders."""
        three = self.settings["granularity"] == "both" and self.settings["classifiers"] == "three"
        return three and not self.task.vocabulary and self.task.name != "none"

    @property
    def columns(self) -> tuple[str, ...]:
        """As `Bert.columns`; tags and spans read the coarse token that covers each fine one."""
        beside = self.fine_tuned_as_two and not self.task.pooled
        return super().columns + (("coarse_index",) if beside else ())

    @property
    def parts(self) -> tuple[str, ...]:
        """As `Bert.parts`, of both granularities."""
        name, granularity = self.task.name, self.settings["granularity"]
        if granularity != "both":
            return ("coarse_mlm",) if granularity == "coarse" and self.task.vocabulary else self.task.parts
        if self.task.pooled and self.fine_tuned_as_two:
            return name, f"{name}_fine", f"{name}_coarse", "agreement"
        return ("mlm", "coarse_mlm") if self.task.vocabulary else self.task.parts

    def limits(self) -> dict[str, tuple[int, str]]:
        limits, size = super().limits(), self.settings["coarse_vocab_size"]
        for name in ("token_type_ids", "position_ids", "sequence_id"):
            if name in limits:
                limits[f"coarse_{name}"] = limits[name]
        limits["coarse_input_ids"] = limits["coarse_mlm_labels"] = (size, "the model's coarse_vocab_size")
        return limits

    def forward(self, batch: Batch) -> Output:
        """Loss and logits of a batch; raises as `Bert.forward` does."""
        if self.settings["granularity"] == "fine":
            return super().forward(batch)
        self.check(batch)
        if self.settings["granularity"] == "coarse":
            return self._coarse_alone(batch)
        fine, coarse = self.encode_both(batch)
        if self.task.pooled:
            if self.fine_tuned_as_two:
                return self._fine_tune(fine[:, 0], coarse[:, 0], batch)
            return self.task.run(self, fine, _pool(self.bert.pooler, fine[:, 0]), batch)
        if self.fine_tuned_as_two:
            need(batch, ("coarse_index",), f"model {self.kind!r}")
            index = batch["coarse_index"].long()[..., None].expand(-1, -1, coarse.shape[-1])
            fine = torch.cat([fine, coarse.gather(1, index)], -1)
        output = self.task.run(self, fine, None, batch)
        if self.task.vocabulary:
            predict_tokens(
                output, "coarse_mlm", self._coarse_tokens, coarse, row_labels(batch, "coarse_mlm_labels")
            )
        elif self.task.name == "none":
            output.logits["coarse_hidden"] = coarse
        return output

    def encode_both(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Hidden states of the last layer: of fine tokens float[B, T, D], of coarse ones float[B, C, D]."""
        if self.settings["variant"] == "hybrid":
            joined = torch.cat([batch["sequence_id"], batch["coarse_sequence_id"]], 1)
            embedded = [
                _embed(self.bert.embeddings, batch, ""),
                _embed(self.coarse_embeddings, batch, "coarse_"),
            ]
            hidden = self._layers(torch.cat(embedded, 1), {"sequence_id": joined}, "")
            return hidden[:, : batch["input_ids"].shape[1]], hidden[:, batch["input_ids"].shape[1] :]
        return self.encode(batch)[0], self._encode_coarse(batch)

    def _encode_coarse(self, batch: Batch) -> Tensor:
        if self.settings["variant"] == "combo":
            embedded, layers = _embed(self.coarse.embeddings, batch, "coarse_"), self.coarse.encoder
        else:
            embedded, layers = _embed(self.coarse_embeddings, batch, "coarse_"), self.bert.encoder
        return self._layers(embedded, batch, "coarse_", layers)

    def _coarse_alone(self, batch: Batch) -> Output:
        hidden = self._encode_coarse(batch)
        if self.task.vocabulary:
            output, labels = Output(), row_labels(batch, "coarse_mlm_labels")
            predict_tokens(output, "coarse_mlm", self._coarse_tokens, hidden, labels)
            return output
        pooler = (self.coarse if self.settings["variant"] == "combo" else self.bert).pooler
        return self.task.run(self, hidden, None if pooler is None else pooler(hidden), batch)

    def _layers(self, embedded: Tensor, batch: Batch, prefix: str, layers: nn.Module | None = None) -> Tensor:
        seen = same_sequence.attention(batch, self.config, dtype=embedded.dtype, prefix=prefix)
        return (layers or self.bert.encoder)(embedded, attention_mask=seen).last_hidden_state

    def _fine_tune(self, fine: Tensor, coarse: Tensor, batch: Batch) -> Output:
        """Fine and coarse [CLS] float[B, D] to three losses and the distance (section 3.3)."""
        shared = self.settings["variant"] != "combo"
        first = self.dropout(_pool(self.bert.pooler, fine))
        second = self.dropout(_pool(self.bert.pooler if shared else self.coarse.pooler, coarse))
        name = self.task.name
        scores = {
            name: self.joint_classifier(torch.cat([first, second], -1)),
            f"{name}_fine": self.classifier(first),
            f"{name}_coarse": self.coarse_classifier(second),
        }
        if name != "classify":
            scores = {part: score.squeeze(-1) for part, score in scores.items()}
        output = Output(logits=scores)
        for part, score in scores.items():
            _LOSSES[name](output, part, score, batch)
        if output.loss is not None:
            self._agree(output, fine, coarse, batch)
        return output

    def _agree(self, output: Output, fine: Tensor, coarse: Tensor, batch: Batch) -> None:
        apart = functional.normalize(widened(fine), dim=-1) - functional.normalize(widened(coarse), dim=-1)
        weight = batch.get("row_weight")
        counted = torch.ones_like(apart[:, 0]) if weight is None else (weight > 0).to(apart.dtype)
        distance = (apart.square().sum(-1) * counted).sum()
        output.add("agreement", distance, counted.sum(), weight=self.settings["agreement"])

    def _coarse_tokens(self, hidden: Tensor) -> Tensor:
        apart = self.settings["variant"] == "combo"
        transform = self.coarse_transform if apart else self.cls.predictions.transform
        return self.coarse_decoder(transform(hidden))


def _embed(embeddings: nn.Module, batch: Batch, prefix: str) -> Tensor:
    names = ("input_ids", "token_type_ids", "position_ids")
    return embeddings(**{name: batch[prefix + name] for name in names})


def _pool(pooler: nn.Module, first: Tensor) -> Tensor:
    """[CLS] float[B, D] through BERT's pooler, which takes the first of many."""
    return pooler(first[:, None])
