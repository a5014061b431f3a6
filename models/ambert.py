"""AMBERT (Zhang and Li 2020): one text as fine and as coarse tokens, two encoders that are one.

Both encoders have the same layers, the very same tensors, so one gradient; embeddings are each one's own: of words, as
section 3.1 says ("its own token embedding parameters"), and here of positions and types with their LayerNorm, too. From
a checkpoint of BERT these three begin as the fine tokens', and so does all of Combo's second encoder; the words of
coarse tokens alone are drawn.

Pretraining is masked language modelling of both sequences. Equation 1 (section 3.2) sums over the masked tokens of both
alike: `masked: together`. `apart`, the default, adds up a mean of each, so that a step teaches both granularities
as much, though there are fewer coarse tokens; a coarse prediction then weighs more than a fine one by as much as there
are fewer of them. (Figures of docs/measured.md are of it.)

Fine-tuning (section 3.3) adds up three losses, of a classifier of the fine [CLS], one of the coarse [CLS] and one of
both, and `agreement` times a distance between what the first two read or predict (`models.agreement`). Tags and spans
are the fine tokens', each read beside the coarse token that covers it.

Variants of the paper (section 3.4): `combo` has two encoders that share nothing; `hybrid` one encoder over both
sequences end to end, so that fine tokens see coarse ones. "Its fine-tuning is the same as that of BERT": one
classifier of the first [CLS], which is the fine tokens', no agreement; tags and spans are read from the states of fine
tokens alone. `classifiers: three` fine-tunes it as the other two variants all the same.

What the paper leaves open, and is so here: predictions are the joint classifier's; classifiers read [CLS] through
BERT's pooler (shared as the layers are), the distance is of [CLS] as it leaves the last layer; the head of masked
language modelling is shared but for its last layer, which is each one's word embeddings; `hybrid` keeps each
sequence's own embeddings, so positions begin at 0 twice and types tell segments, not granularities.

The paper's `agreement` of 1 is for weights whose [CLS] says something. Small weights that masked tokens alone have
taught do not: there the distance of `agree_on: cls` is soonest made small by both [CLS] becoming one constant vector.
On the embedded reviews it falls from 1.6 below 0.1 within 24 steps, and the three classifiers stay at ln 2 = 0.693 for
all of 96, with each of three seeds; with a weight of 0.01 the same runs learn from about step 24 on, and so they do
with `agree_on: predictions` of either weight: classifiers that know nothing agree already. With such weights
choose one of the two.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel
from transformers.models.bert.modeling_bert import BertEmbeddings, BertPredictionHeadTransform

from models.agreement import add_distance_of_cls, add_distance_of_predictions, add_three, count_questions
from models.ambert_options import AmbertOptions
from models.bert import TIED, Bert
from models.bert_batch import COARSE, FINE, Batch, check_covering, need
from models.heads import predict_tokens, row_labels
from models.masks import same_sequence
from models.output import Output


class Ambert(AmbertOptions):
    """BERT over fine and coarse tokens, by `AmbertOptions`.

    Logits are `Bert`'s, of both granularities where they read [CLS], and beside them: `hidden` and `coarse_hidden`;
    `mlm` and `coarse_mlm`; the task's name with `_fine` and `_coarse`.
    """

    view: tuple[str, ...] = (*FINE, *COARSE)
    group: str | None = "coarse"
    reads: tuple[str, ...] = (*Bert.reads, *(f"coarse_{name}" for name in Bert.reads))

    def build(self, config: BertConfig) -> None:
        if self.settings["granularity"] == "fine":
            self.read_as_bert()
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
        """Begin what a checkpoint lacks of coarse tokens, but for their own words, as it is of fine ones.

        Weights of fine tokens are there though coarse ones be alone, so that a checkpoint of both fits; they are not
        learned, then.
        """
        weights = self.state_dict()
        alike = {name: fine for name in self.drawn if (fine := _fine_name(name)) in weights}
        with torch.no_grad():
            for name, fine in alike.items():
                if fine not in self.drawn:
                    weights[name].copy_(weights[fine])
        self.drawn = tuple(name for name in self.drawn if alike.get(name, name) in self.drawn)
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

    @property
    def alike(self) -> bool:
        """As `Bert.alike`; where both granularities are masked, as `masked` says."""
        return self.task.vocabulary and self.settings["masked"] == "together" and len(self.parts) > 1

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """As `Bert.counts`; what is predicted of choices is predicted of a question."""
        counts = super().counts(batch)
        by_question = self.task.name == "choice" and self.settings["agree_on"] == "predictions"
        return counts | (
            {"agreement": count_questions(batch)} if by_question and "agreement" in counts else {}
        )

    def limits(self) -> dict[str, tuple[int, str]]:
        limits, size = super().limits(), self.settings["coarse_vocab_size"]
        for name in ("token_type_ids", "position_ids", "sequence_id"):
            if name in limits:
                limits[f"coarse_{name}"] = limits[name]
        limits["coarse_input_ids"] = limits["coarse_mlm_labels"] = (size, "the model's coarse_vocab_size")
        return limits

    def check_numbers(self, batch: Batch) -> None:
        """As `Bert.check_numbers`; a fine token's coarse one is one of its row."""
        super().check_numbers(batch)
        if "coarse_index" in self.columns:
            need(batch, ("coarse_index",), f"model {self.kind!r}")
            check_covering(batch, f"model {self.kind!r}")

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
            index = batch["coarse_index"].long()[..., None].expand(-1, -1, coarse.shape[-1])
            fine = torch.cat([fine, coarse.gather(1, index)], -1)
        output = self.task.run(self, fine, None, batch)
        if self.task.vocabulary:
            predict_tokens(
                output, "coarse_mlm", self._coarse_tokens, coarse, row_labels(batch, "coarse_mlm_labels")
            )
            if self.alike:
                output.join()
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
        add_three(output, name, scores, batch)
        if not output.parts:  # no labels
            return output
        if self.settings["agree_on"] == "cls":
            add_distance_of_cls(output, fine, coarse, batch, self.settings["agreement"])
        else:
            both = scores[f"{name}_fine"], scores[f"{name}_coarse"]
            add_distance_of_predictions(output, name, *both, batch, self.settings["agreement"])
        return output

    def _coarse_tokens(self, hidden: Tensor) -> Tensor:
        apart = self.settings["variant"] == "combo"
        transform = self.coarse_transform if apart else self.cls.predictions.transform
        return self.coarse_decoder(transform(hidden))


def _fine_name(name: str) -> str:
    """Of a weight of coarse tokens the one of fine tokens that has the same shape and sense; "": it has none."""
    if name.endswith("word_embeddings.weight"):
        return ""
    for coarse, fine in (
        ("coarse_embeddings.", "bert.embeddings."),
        ("coarse.", "bert."),
        ("coarse_transform.", "cls.predictions.transform."),
    ):
        if name.startswith(coarse):
            return fine + name.removeprefix(coarse)
    return ""


def _embed(embeddings: nn.Module, batch: Batch, prefix: str) -> Tensor:
    names = ("input_ids", "token_type_ids", "position_ids")
    return embeddings(**{name: batch[prefix + name] for name in names})


def _pool(pooler: nn.Module, first: Tensor) -> Tensor:
    """[CLS] float[B, D] through BERT's pooler, which takes the first of many."""
    return pooler(first[:, None])
