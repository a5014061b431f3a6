"""BERT (Devlin et al. 2019): transformers' `BertModel`, a mask that is a predicate, and the head of a task.

The other models are this one with another mask, layer or embedding; their weights bear transformers' names, so
a saved folder loads there, too. What a model is beyond its weights stands in `config.treegraft`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar

import torch
from torch import Tensor
from transformers import BertConfig, BertModel
from transformers.models.bert.modeling_bert import BertPreTrainedModel

from models.bert_batch import (
    FINE,
    SPLITS,
    Batch,
    check_answers,
    check_choices,
    check_dataset,
    check_labels,
    check_range,
    label_names,
    need,
)
from models.counts import count_predictions
from models.heads import TASKS, Task
from models.masks import Mask, same_sequence
from models.output import Output

TIED = {
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
"""Weights of the head of `mlm` that are another's, as transformers names them."""


class Bert(BertPreTrainedModel):
    """An encoder and the head of one task.

    Attributes:
        kind: the model's name in a recipe.
        tasks: what it can be asked to do.
        options: its settings beyond the task, with defaults.
        view: columns of the dataset that its tokens are made of; `group` is theirs, where not `base`.
        task: `models.heads.Task`.
        drawn: names of the weights that no checkpoint gave (`models.checkpoint`).
    """

    kind: ClassVar[str] = "bert"
    tasks: ClassVar[tuple[str, ...]] = tuple(TASKS)
    options: ClassVar[dict[str, Any]] = {}
    view: tuple[str, ...] = tuple(FINE)
    group: str | None = None
    reads: tuple[str, ...] = ("input_ids", "token_type_ids", "position_ids", "sequence_id")
    drawn: tuple[str, ...] = ()

    def __init__(self, config: BertConfig) -> None:
        """A model of this config, weights drawn anew; `config.treegraft` holds `task` and the options.

        Raises:
            ValueError: the task or an option is unknown.
        """
        super().__init__(config)
        if config.is_decoder:
            raise ValueError("config.is_decoder is true: masks are this project's; take an encoder")
        self.settings = self.settings_of(config)
        self.task: Task = TASKS[self.settings["task"]]
        if self.task.vocabulary:
            self._tied_weights_keys = TIED
        self.build(config)
        self.post_init()

    @classmethod
    def settings_of(cls, config: BertConfig) -> dict[str, Any]:
        """Task and options of `config.treegraft`, defaults filled in. Raises ValueError for an unknown one."""
        given = getattr(config, "treegraft", None) or {}
        settings = {"task": "none", **cls.options, **given}
        settings.pop("model", None)
        if unknown := sorted(set(settings) - {"task", *cls.options}):
            known = ", ".join(cls.options) or "none"
            raise ValueError(f"model {cls.kind!r} has no option {unknown[0]!r}; its options: {known}")
        if settings["task"] not in cls.tasks:
            raise ValueError(
                f"model {cls.kind!r} has no task {settings['task']!r}; its tasks: {', '.join(cls.tasks)}"
            )
        return settings

    @classmethod
    def kept(cls, saved: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """Of the settings that a checkpoint was saved with the options that hold beside those now given."""
        return {name: value for name, value in saved.items() if name in cls.options and name not in given}

    @staticmethod
    def check_number(name: str, value: object, most: float) -> None:
        """Raise ValueError unless an option is a number from 0 to `most`, and finite."""
        number = value if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
        if not (0 <= number <= most and number < math.inf):
            top = f"from 0 to {most}" if most < math.inf else "of 0 or more"
            raise ValueError(f"{name} is {value!r}, expected a number {top}")

    @staticmethod
    def check_choice(name: str, value: object, known: Sequence[str]) -> None:
        """Raise ValueError unless an option is one of those known."""
        if value not in known:
            raise ValueError(f"{name} is {value!r}, expected one of {', '.join(known)}")

    @staticmethod
    def check_flag(name: str, value: object) -> None:
        """Raise ValueError unless an option is true or false."""
        if not isinstance(value, bool):
            raise ValueError(f"{name} is {value!r}, expected true or false")

    def build(self, config: BertConfig) -> None:
        """Make the modules."""
        self.bert = BertModel(config, add_pooling_layer=self.task.pooled)
        self.add_head(config, config.hidden_size)

    def read_as_bert(self) -> None:
        """Read fine tokens alone, as BERT does: an ablation whose columns need not be there."""
        self.group, self.view, self.reads = Bert.group, Bert.view, Bert.reads

    def add_head(self, config: BertConfig, width: int) -> None:
        """Add the modules of the task's head, which reads states of this width."""
        for name, module in self.task.modules(config, width).items():
            self.add_module(name, module)

    def settle(self) -> None:
        """What is left to do once weights are there, loaded or drawn."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the dataset that a batch for this model is made of."""
        choices = SPLITS.get(self.group or "", ()) if self.task.name == "choice" else ()
        return tuple(dict.fromkeys((*self.view, *self.task.columns, *choices)))

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the losses that `forward` adds up."""
        return self.task.parts

    @property
    def alike(self) -> bool:
        """Whether predictions of all `parts` count alike: the loss is one mean over them, not a sum of means."""
        return False

    @property
    def smoothing(self) -> float:
        """The share of each masked token's label that is spread over the vocabulary."""
        return 0.0

    @property
    def mask(self) -> Mask:
        """Who sees whom in every layer."""
        return same_sequence

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """`forward`. FlexAttention is compiled for GPUs alone: for a CPU that takes most of a minute a shape, and
        torch's code for sizes that vary does not compile."""
        on_cpu = self.config._attn_implementation == "flex_attention" and self.device.type == "cpu"
        plain = on_cpu and not torch.compiler.is_compiling()
        with torch.compiler.set_stance("force_eager") if plain else nullcontext():
            return super().__call__(*args, **kwargs)

    def forward(self, batch: Batch) -> Output:
        """Loss and logits of a batch (a dict of tensors; `reads` and the labels of the task).

        Raises:
            BatchError: the batch lacks a tensor, or one holds numbers the model has no row for.
        """
        self.check(batch)
        hidden, pooled = self.encode(batch)
        return self.task.run(self, hidden, pooled, self.labelled(batch))

    def encode(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Hidden states of the last layer float[B, T, D], and the pooled [CLS] float[B, D] where the task has one."""
        seen = self.bert(
            input_ids=batch["input_ids"],
            attention_mask=self.mask.attention(batch, self.config, dtype=self.dtype),
            token_type_ids=self.types(batch),
            position_ids=batch["position_ids"],
        )
        return seen.last_hidden_state, seen.pooler_output

    def types(self, batch: Batch) -> Tensor:
        """Rows of the type embedding int64[B, T]."""
        return batch["token_type_ids"]

    def labelled(self, batch: Batch) -> Batch:
        """The batch with labels where this model has them."""
        return batch

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """How many predictions each of `parts` is a mean over, int64[], told by the batch's labels alone."""
        return count_predictions(self.parts, self.labelled(batch))

    def limits(self) -> dict[str, tuple[int, str]]:
        """Exclusive upper bounds of the batch's numbers, and what sets them."""
        config, classes = self.config, {"classify": "label", "tag": "token_labels"}
        limits = {
            "input_ids": (
                config.vocab_size,
                "the checkpoint's vocab_size; was the dataset made with its tokenizer?",
            ),
            "token_type_ids": (config.type_vocab_size, "the checkpoint's type_vocab_size"),
            "position_ids": (
                config.max_position_embeddings,
                "the checkpoint's max_position_embeddings; lower encode.max_length",
            ),
            "sequence_id": (2**31, "1 and on; 0 is padding"),
        }
        if self.task.vocabulary:
            limits["mlm_labels"] = (config.vocab_size, "the checkpoint's vocab_size")
        if name := classes.get(self.task.name):
            limits[name] = (len(config.id2label or ()), "labels the model's head has")
        if self.task.pooled or self.task.name == "span":
            limits["sequence_id"] = (2, f"task {self.task.name!r} reads one sequence a row: do not pack rows")
        return limits

    def check(self, batch: Batch) -> None:
        """Raise BatchError where the batch does not fit.

        Its numbers are looked at on processors alone, and not by compiled code: a GPU would be waited for in every
        step, so what goes there is checked before (`models.evaluate.predict.moved`).
        """
        need(batch, self.reads, f"model {self.kind!r}")
        if not torch.compiler.is_compiling() and batch["input_ids"].device.type == "cpu":
            self.check_numbers(batch)

    def check_numbers(self, batch: Batch) -> None:
        """Raise BatchError where a number of the batch has no row in the model, or points at nothing."""
        check_range(batch, self.limits(), f"model {self.kind!r}")
        if self.task.name == "choice" and "label" in batch:
            need(batch, ("choices",), "task 'choice'")
            check_choices(batch, f"model {self.kind!r}")
        if self.task.name == "span" and "answer_start" in batch:
            need(batch, ("answer_stop",), "task 'span'")
            check_answers(batch, f"model {self.kind!r}")

    def check_dataset(self, metadata: dict[str, Any]) -> None:
        """Raise BatchError where a dataset of this metadata does not fit: vocabulary; labels and their order."""
        config = self.config
        check_dataset(
            metadata, config.vocab_size, self.settings.get("coarse_vocab_size"), self.name_or_path or ""
        )
        if self.task.name in ("classify", "tag") and metadata.get("labels"):
            check_labels(metadata["labels"], len(config.id2label or ()), label_names(config.id2label))
