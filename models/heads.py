"""Tasks: what is predicted from an encoder's hidden states, and the loss.

A task is the modules of its head and one function from hidden states to `Output`, so that every model takes every
task that makes sense for it. Modules bear the names that transformers gives them, so that a saved folder is one of
its `BertFor...` models.

Shapes: B rows, T positions, D width of hidden states, V vocabulary, C classes, Q questions, M masked positions.
Rows of weight 0 (`row_weight`) and labels of -100 count in no loss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertOnlyMLMHead, BertOnlyNSPHead, BertPreTrainingHeads

from corpora.schema import IGNORED_LABEL
from models.bert_batch import Batch, need
from models.output import Output, widened

Modules = Callable[[BertConfig, int], dict[str, nn.Module]]
Run = Callable[[nn.Module, Tensor, Tensor | None, Batch], Output]


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        name: as in a recipe.
        modules: of a config and the width of hidden states the head's modules by name.
        run: (model, hidden float[B, T, D], pooled float[B, D] or None, batch) -> Output. Without labels in the
            batch there are logits and no loss.
        columns: of the dataset, that hold the labels.
        like: transformers' class of the same weights.
        pooled: it reads [CLS] through BERT's pooler.
        vocabulary: it predicts tokens, with the word embeddings as its last layer.
        parts: names of the losses that are added up (`Output.parts`).
    """

    name: str
    modules: Modules
    run: Run
    columns: tuple[str, ...]
    like: str
    pooled: bool = False
    vocabulary: bool = False
    parts: tuple[str, ...] = ()


def row_labels(batch: Batch, name: str) -> Tensor | None:
    """Labels int64[B, ...] of the batch, -100 in rows of weight 0; None where it has none."""
    if name not in batch:
        return None
    labels = batch[name].long()
    if (weight := batch.get("row_weight")) is None or len(weight) != len(labels):
        return labels
    return labels.masked_fill((weight == 0).view(-1, *[1] * (labels.ndim - 1)), IGNORED_LABEL)


def predict_tokens(
    output: Output,
    name: str,
    head: Callable[[Tensor], Tensor],
    hidden: Tensor,
    labels: Tensor | None,
    smoothing: float = 0.0,
) -> None:
    """Masked language modelling (BERT, Devlin et al. 2019, section 3.1, task 1).

    With labels int64[B, T] only the positions that have one go through the head, a seventh of the work and memory
    at the usual rate: logits float[M, V], in the order of positions. Without: float[B, T, V]. `smoothing` as of
    `Output.add_classes`.
    """
    if labels is None:
        output.logits[name] = head(hidden)
        return
    labels = labels.flatten()
    chosen = (labels != IGNORED_LABEL).nonzero()[:, 0]  # once: a GPU is waited for
    output.logits[name] = head(hidden.flatten(0, 1)[chosen])
    output.add_classes(name, output.logits[name], labels[chosen], smoothing)


def _mlm(model: nn.Module, hidden: Tensor, pooled: Tensor | None, batch: Batch) -> Output:
    output = Output()
    labels = row_labels(batch, "mlm_labels")
    predict_tokens(output, "mlm", model.cls.predictions, hidden, labels, model.smoothing)
    return output


def _nsp(model: nn.Module, hidden: Tensor, pooled: Tensor | None, batch: Batch) -> Output:
    """Next sentence prediction (section 3.1, task 2): logits float[B, 2], 0 = B follows A."""
    output = Output(logits={"nsp": model.cls.seq_relationship(pooled)})
    add_labels(output, "nsp", output.logits["nsp"], batch)
    return output


def _pretrain(model: nn.Module, hidden: Tensor, pooled: Tensor | None, batch: Batch) -> Output:
    """Both losses added up. Rows without a pair have no label (-100), and no second loss."""
    output = _mlm(model, hidden, pooled, batch)
    output.logits["nsp"] = model.cls.seq_relationship(pooled)
    add_labels(output, "nsp", output.logits["nsp"], batch)
    return output


def _classify(model: nn.Module, hidden: Tensor, pooled: Tensor | None, batch: Batch) -> Output:
    """Logits `classify` float[B, C] from the pooled [CLS]."""
    output = Output(logits={"classify": model.classifier(model.dropout(pooled))})
    add_labels(output, "classify", output.logits["classify"], batch)
    return output


def add_labels(output: Output, name: str, logits: Tensor, batch: Batch) -> None:
    """Add the cross entropy of the batch's `label`, if it has one, under logits float[B, C]."""
    if (labels := row_labels(batch, "label")) is not None:
        output.add_classes(name, logits, labels)


def _regress(model: nn.Module, hidden: Tensor, pooled: Tensor | None, batch: Batch) -> Output:
    """Score `regress` float[B] from the pooled [CLS]; the loss is the squared error to `label_score`, where not NaN."""
    score = model.classifier(model.dropout(pooled)).squeeze(-1)
    output = Output(logits={"regress": score})
    add_squares(output, "regress", score, batch)
    return output


def add_squares(output: Output, name: str, score: Tensor, batch: Batch) -> None:
    """Add the squared error of score float[B] to the batch's `label_score`, if it has one; NaN is none."""
    if "label_score" not in batch:
        return
    wanted = batch["label_score"].to(score.dtype)
    counted = ~wanted.isnan()
    if "row_weight" in batch:
        counted = counted & (batch["row_weight"] > 0)
    error = torch.where(counted, widened(score - wanted), 0)
    output.add(name, (error * error).sum(), counted.sum())


def _tag(model: nn.Module, hidden: Tensor, pooled: Tensor | None, batch: Batch) -> Output:
    """Logits `tag` float[B, T, C]; labels `token_labels` int64[B, T] stand on first pieces of trunk tokens."""
    output = Output(logits={"tag": model.classifier(model.dropout(hidden))})
    if (labels := row_labels(batch, "token_labels")) is not None:
        output.add_classes("tag", output.logits["tag"], labels)
    return output


def _span(model: nn.Module, hidden: Tensor, pooled: Tensor | None, batch: Batch) -> Output:
    """Logits `start` and `stop` float[B, T]: of an answer's first token, and its last (section 4.2).

    A question without an answer has it on [CLS] (section 4.3), where start and stop of the dataset lie then (0, and
    1, exclusive). Padding is no candidate, so a row's loss does not depend on how far it was padded. The loss is the
    mean of both.
    """
    need(batch, ("sequence_id",), "task 'span'")
    both = model.qa_outputs(hidden)
    both = both.masked_fill((batch["sequence_id"] == 0)[..., None], torch.finfo(both.dtype).min)
    start, stop = both.unbind(-1)
    output = Output(logits={"start": start, "stop": stop})
    first, last = row_labels(batch, "answer_start"), row_labels(batch, "answer_stop")
    if first is not None and last is not None:
        losses = Output()
        losses.add_classes("start", start, first)
        losses.add_classes("stop", stop, torch.where(last > 0, last - 1, last))
        count = losses.counts["start"]
        for name, part in losses.parts.items():
            output.add(name, part * count / 2, count)
    return output


def _choice(model: nn.Module, hidden: Tensor, pooled: Tensor | None, batch: Batch) -> Output:
    """Scores `choice` float[B], one for each choice from its pooled [CLS]; a softmax over those of one question."""
    score = model.classifier(model.dropout(pooled)).squeeze(-1)
    output = Output(logits={"choice": score})
    add_choices(output, "choice", score, batch)
    return output


def add_choices(output: Output, name: str, score: Tensor, batch: Batch) -> None:
    """Add the cross entropy of the batch's `label` int64[Q], if it has one, under score float[B].

    `choices` int64[B] numbers the question whose choice a row is.
    """
    if "label" not in batch:
        return
    own, asked = questions(batch)
    first, label = own.int().argmax(1), batch["label"].long()
    scores = score.masked_fill(~own, torch.finfo(score.dtype).min)
    output.add_classes(name, scores, torch.where(asked, first + label, IGNORED_LABEL))


def questions(batch: Batch) -> tuple[Tensor, Tensor]:
    """Which of the batch's rows are choices of each question, bool[Q, B], and which questions have a label, bool[Q].

    A question of padding rows alone has no candidates, so it cannot be asked.
    """
    label, question = batch["label"], batch["choices"]
    own = question == torch.arange(len(label), device=label.device)[:, None]
    if "row_weight" in batch:
        own = own & (batch["row_weight"] > 0)
    return own, own.any(1) & (label != IGNORED_LABEL)


def _none(model: nn.Module, hidden: Tensor, pooled: Tensor | None, batch: Batch) -> Output:
    return Output(logits={"hidden": hidden})


def classifier(classes: int | None) -> Modules:
    """Modules of a linear classifier behind dropout; None: as many classes as the config has labels."""

    def modules(config: BertConfig, width: int) -> dict[str, nn.Module]:
        rate = config.classifier_dropout
        dropout = nn.Dropout(config.hidden_dropout_prob if rate is None else rate)
        return {"dropout": dropout, "classifier": nn.Linear(width, classes or config.num_labels)}

    return modules


def _task(
    name: str,
    like: str,
    modules: Modules,
    run: Run,
    *columns: str,
    parts: tuple[str, ...] | None = None,
    **reads: bool,
) -> Task:
    return Task(name, modules, run, columns, like=like, parts=(name,) if parts is None else parts, **reads)


TASKS = {
    task.name: task
    for task in (
        _task("none", "BertModel", lambda c, w: {}, _none, parts=()),
        _task("mlm", "BertForMaskedLM", lambda c, w: {"cls": BertOnlyMLMHead(c)}, _mlm, vocabulary=True),
        _task(
            "pretrain",
            "BertForPreTraining",
            lambda c, w: {"cls": BertPreTrainingHeads(c)},
            _pretrain,
            "label",
            pooled=True,
            vocabulary=True,
            parts=("mlm", "nsp"),
        ),
        _task(
            "nsp",
            "BertForNextSentencePrediction",
            lambda c, w: {"cls": BertOnlyNSPHead(c)},
            _nsp,
            "label",
            pooled=True,
        ),
        _task("classify", "BertForSequenceClassification", classifier(None), _classify, "label", pooled=True),
        _task(
            "regress", "BertForSequenceClassification", classifier(1), _regress, "label_score", pooled=True
        ),
        _task("tag", "BertForTokenClassification", classifier(None), _tag, "token_labels"),
        _task(
            "span",
            "BertForQuestionAnswering",
            lambda c, w: {"qa_outputs": nn.Linear(w, 2)},
            _span,
            "answer_start",
            "answer_stop",
            parts=("start", "stop"),
        ),
        _task(
            "choice", "BertForMultipleChoice", classifier(1), _choice, "label", "choice_lengths", pooled=True
        ),
    )
}
"""By name. `none` gives hidden states `hidden` float[B, T, D]."""
