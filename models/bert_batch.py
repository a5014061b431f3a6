"""What a model reads of a dataset and of a batch: named, and checked before a device sees it.

An id or a position that an embedding has no row for stops a GPU with an assert that names neither the column nor the
cure; and a missing column would be a bare KeyError. Here both say what to do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor

from corpora import files
from corpora.schema import GROUPS, IGNORED_LABEL, ROW_COLUMNS, annotated_first

Batch = Mapping[str, Tensor]

FINE = {"input_ids": "input_ids", "token_type_ids": "token_type_ids"}
TREE = {
    "tree_ids": "input_ids",
    "tree_token_type_ids": "token_type_ids",
    "tree_soft_positions": "position_ids",
    "tree_branch": "branch",
    "tree_mention": "mention",
}
SYNTAX = {"word_dfs_in": "dfs_in", "word_dfs_out": "dfs_out"}
COARSE = {"coarse_ids": "input_ids", "coarse_token_type_ids": "token_type_ids"}
"""Columns of the dataset that each view of a row is made of, and what a batch calls them (with `coarse_` before those
of `COARSE`). A tree needs `branch_parents`, too, syntax `word_index`, rows of `choice` those of `SPLITS`."""

SPLITS = {
    "tree": ("choice_tree", "choice_branches"),
    "syntax": ("choice_words",),
    "coarse": ("choice_coarse",),
}

_MADE_OF = {
    "branch": "tree",
    "mention": "tree",
    "parent": "tree",
    "trunk_index": "tree",
    "dfs_in": "syntax",
    "dfs_out": "syntax",
    "sentence": "syntax",
    "coarse_input_ids": "coarse",
    "coarse_token_type_ids": "coarse",
    "coarse_position_ids": "coarse",
    "coarse_sequence_id": "coarse",
    "coarse_index": "coarse",
}
"""Column group of the dataset that each tensor of a batch is made of, where it is not `base`."""


class BatchError(ValueError):
    """A batch or a dataset that does not fit the model; the message says what was expected and what to do."""


def need(batch: Batch, names: Iterable[str], who: str) -> None:
    """Raise BatchError for the first of these tensors that the batch lacks; `who` reads them."""
    for name in names:
        if name not in batch:
            group = _MADE_OF.get(name)
            cure = f"it is made of the {group!r} columns: add {group!r} to encode.columns" if group else ""
            has = f"the batch has {', '.join(sorted(batch))}"
            raise BatchError(f"{who} reads {name!r}; {cure or has}")


def need_columns(columns: Iterable[str], present: Iterable[str], who: str) -> None:
    """Raise BatchError for the first dataset column that `who` needs and that is not among those present."""
    has = set(present)
    for name in columns:
        if name not in has:
            group = ROW_COLUMNS[name].group if name in ROW_COLUMNS else "base"
            cure = (
                f"add {group!r} to encode.columns and run `treegraft encode` again{annotated_first(group)}"
                if group in GROUPS and group != "base"
                else "rows of this task do not have it: preprocess the corpus for the task"
            )
            raise BatchError(f"{who} needs column {name!r}, which the dataset lacks; {cure}")


def check_range(batch: Batch, limits: Mapping[str, tuple[int, str]], who: str) -> None:
    """Raise BatchError where a tensor of ids or labels reaches its limit, or is below 0 (a label of -100 is none).

    `limits`: by tensor's name its limit (exclusive) and what sets it. One number for each bound leaves the device.
    """
    checked = [
        (name, limit, why) for name, (limit, why) in limits.items() if name in batch and batch[name].numel()
    ]
    if not checked:
        return
    bounds = torch.stack([bound for name, _, _ in checked for bound in _bounds(name, batch[name])]).tolist()
    for (name, limit, why), least, most in zip(checked, bounds[::2], bounds[1::2], strict=True):
        if least < 0 or most >= limit:
            found = most if most >= limit else least
            raise BatchError(f"{who}: {name} holds {found:,}, expected 0 to {limit - 1:,} ({why})")


def check_choices(batch: Batch, who: str) -> None:
    """Raise BatchError where `label` int64[Q] names a choice that its question does not have (`choices` int64[B])."""
    label, question = batch["label"], batch["choices"]
    counts = torch.bincount(question.clamp(min=0), minlength=len(label))[: len(label)]
    wrong = ((label >= counts) | (label < 0)) & (label != IGNORED_LABEL)
    if wrong.any():
        at = int(wrong.int().argmax())
        raise BatchError(
            f"{who}: label of question {at} of the batch is {int(label[at])}, of which the batch has "
            f"{int(counts[at])} choices: all choices of a question belong into one batch"
        )


def check_answers(batch: Batch, who: str) -> None:
    """Raise BatchError where an answer, `answer_start` to `answer_stop` int64[B], is not within its row's tokens."""
    start, stop = batch["answer_start"], batch["answer_stop"]
    length = (batch["sequence_id"] > 0).sum(1)
    none = (start == IGNORED_LABEL) & (stop == IGNORED_LABEL)
    wrong = ~none & ((start < 0) | (stop <= start) | (stop > length))
    if wrong.any():
        at = int(wrong.int().argmax())
        raise BatchError(
            f"{who}: the answer of row {at} of the batch is tokens {int(start[at])} to {int(stop[at])} (exclusive: "
            f"answer_start, answer_stop), and the row has {int(length[at])}: the dataset is damaged; `treegraft "
            "verify` says where"
        )


def check_covering(batch: Batch, who: str) -> None:
    """Raise BatchError where `coarse_index` int[B, T] of a fine token is no place of a coarse token in its row."""
    index = batch["coarse_index"].long()
    coarse = (batch["coarse_sequence_id"] > 0).sum(1)
    limit = torch.where(batch["sequence_id"] > 0, coarse[:, None], batch["coarse_sequence_id"].shape[1])
    wrong = (index < 0) | (index >= limit)
    if wrong.any():
        row, token = (int(x) for x in wrong.nonzero()[0])
        raise BatchError(
            f"{who}: coarse_index of token {token} of row {row} of the batch is {int(index[row, token])}, and the row "
            f"has {int(coarse[row])} coarse tokens: the dataset is damaged; `treegraft verify` says where"
        )


def _bounds(name: str, x: Tensor) -> tuple[Tensor, Tensor]:
    if "label" in name:  # none is as good as any
        x = torch.where(x == IGNORED_LABEL, 0, x)
    least, most = torch.aminmax(x)
    return least.long(), most.long()


TOKENIZER, WORDS = "tokenizer.json", "vocab.txt"
"""Files of a checkpoint that say what its tokens are."""


def check_dataset(
    metadata: Mapping[str, Any], vocab_size: int, coarse_vocab_size: int | None, source: str = ""
) -> None:
    """Raise BatchError where a dataset's metadata (`corpora.schema.read_metadata`) does not fit a model's sizes.

    A model may have more rows of embeddings than the dataset has tokens (they are often rounded up), never fewer.
    `source`: folder or hub id of the model, if it has one.
    """
    coarse = "the checkpoint's coarse vocabulary (encode.coarse.vocab)"
    for name, size, model in (
        ("vocab_size", vocab_size, "the checkpoint's vocabulary"),
        ("coarse_vocab_size", coarse_vocab_size, "the model's coarse vocabulary"),
    ):
        if size is not None and (metadata.get(name) or 0) > size:
            cure = own_tokenizer(source) if name == "vocab_size" else coarse  # which looks for files
            raise BatchError(
                f"the dataset's {name} is {metadata[name]:,}, {model} has {size:,} tokens: they were made "
                f"for different tokenizers; encode the dataset with {cure}"
            )


def own_tokenizer(source: str) -> str:
    """What a dataset for the checkpoint of a folder or hub id is encoded with."""
    found = (files.join(source, name) for name in (TOKENIZER, WORDS)) if source else ()
    path = next((path for path in found if files.exists(path)), None)
    return "the checkpoint's own (encode.tokenizer)" if path is None else f"`encode.tokenizer: {path}`"


def label_names(id2label: Mapping[Any, str] | None) -> list[str] | None:
    """Names of a head's classes by a config, in their order; None where they are transformers' LABEL_0, ..."""
    named = [str(id2label[number]) for number in sorted(id2label)] if id2label else []
    return None if named == [f"LABEL_{number}" for number in range(len(named))] else named


def check_labels(labels: Sequence[str], classes: int, names: Sequence[str] | None) -> None:
    """Raise BatchError where a dataset's labels are not those of a model's head, in their order: numbers would mean
    other classes.

    `names`: of the head's `classes`; None where they have none, so that there is but their number to compare.
    """
    theirs = [str(label) for label in labels]
    learn = 'fine-tune a model on this one (in Python load it with labels=split.metadata["labels"])'
    if names is None:
        if len(theirs) != classes:
            raise BatchError(
                f"the dataset has {len(theirs)} labels ({few(theirs)}), the model's head {classes} without names: take "
                f"a dataset of as many, or {learn}"
            )
        return
    pairs = enumerate(zip_longest(map(repr, theirs), map(repr, names), fillvalue="none"))
    differ = next(((number, *pair) for number, pair in pairs if pair[0] != pair[1]), None)
    if differ is None:
        return
    number, here, there = differ
    strange = [label for label in theirs if label not in names]
    cure = (
        f"{strange[0]!r} is none of the model's: take a dataset of its labels"
        if strange
        else (
            f"write `encode.labels: {json.dumps(list(names), ensure_ascii=False)}` in the dataset's config and run "
            "`treegraft encode --overwrite`, so that numbers mean the same"
        )
    )
    own = "the same labels in another order" if sorted(names) == sorted(theirs) else classes
    raise BatchError(
        f"of the labels number {number} is {here} in the dataset ({len(theirs)}: {few(theirs)}), {there} in the "
        f"model's head ({own}: {few(names)}): {cure}, or {learn}"
    )


def few(names: Sequence[str]) -> str:
    """The first of these names, for a message."""
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
