"""Models from checkpoints, and checkpoints from models: folders and hub ids as transformers has them.

Any BERT checkpoint starts any model: weights are found by transformers' names, and what a checkpoint lacks (a head,
a layer of SG-Net) is drawn anew and named in `model.drawn`. A checkpoint without an encoder's weights is refused,
since a model with random weights trains without a sound. Weights are read from safetensors, or from a
pytorch_model.bin as weights alone (never as code), and written as safetensors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import BertConfig
from transformers.modeling_utils import load_state_dict
from transformers.utils import (
    SAFE_WEIGHTS_INDEX_NAME,
    SAFE_WEIGHTS_NAME,
    WEIGHTS_INDEX_NAME,
    WEIGHTS_NAME,
    cached_file,
    logging,
)
from transformers.utils.hub import get_checkpoint_shard_files

from models.ambert import Ambert
from models.bert import Bert
from models.bert_batch import label_names
from models.bert_config import CheckpointError, read_config, reading
from models.heads import TASKS
from models.kbert import KBert
from models.sgnet import SGNet
from models.unilm import UniLM

MODELS: dict[str, type[Bert]] = {model.kind: model for model in (Bert, KBert, SGNet, Ambert, UniLM)}
"""By name, as in a recipe."""

_WEIGHTS = (SAFE_WEIGHTS_NAME, SAFE_WEIGHTS_INDEX_NAME, WEIGHTS_NAME, WEIGHTS_INDEX_NAME)
"""Files of weights, in the order in which transformers looks for them."""
_LAYER = re.compile(r"(bert\.)?encoder\.layer\.")


def load(
    source: str | Path,
    model: str | None = None,
    task: str | None = None,
    *,
    labels: Sequence[str] | None = None,
    dropout: float | None = None,
    padding: int | None = None,
    attention: str = "sdpa",
    dtype: torch.dtype = torch.float32,
    revision: str = "main",
    **options: Any,
) -> Bert:
    """A model with the weights of a folder or hub id.

    Args:
        source: folder (config.json and weights), or id on the hub.
        model: of `MODELS`; default: what the folder was saved as, or else `bert`.
        task: of `models.heads.TASKS`; default: what the folder was saved for, or else `none`.
        labels: names of the classes of `classify` and `tag`, in the dataset's order (its metadata's `labels`);
            default: the checkpoint's. Other tasks have none. A head of the same names in another order gets its rows
            in this one; one of other names is drawn anew. Of a checkpoint whose classes have no names
            (transformers' LABEL_0, ...) the head is kept if it has as many.
        dropout: of hidden states and of attention, in every layer and before a head; default: the checkpoint's.
        padding: the number of the dataset's [PAD], whose embedding alone does not learn; default: the checkpoint's.
        attention: `sdpa`, `eager` or `flex_attention`, which is for GPUs: on a CPU it is slow and does not train.
        dtype: of the weights.
        revision: of a hub id: a branch, tag or commit.
        options: settings of the model (`MODELS[...].options`); default: what the folder was saved with.

    Raises:
        CheckpointError: there is no such checkpoint, it is damaged, no BERT, or lacks weights of the encoder.
    """
    config = read_config(source, revision)
    if dropout is not None:
        config.hidden_dropout_prob = config.attention_probs_dropout_prob = dropout
        config.classifier_dropout = None  # that of hidden states
    if padding is not None and padding < config.vocab_size:
        config.pad_token_id = padding
    had, others = label_names(config.id2label), _other_tasks(config)
    kind = _configure(config, model, task, labels, options)
    with reading(f"weights of {source} cannot be read"), _unreported():
        made, info = kind.from_pretrained(
            str(source),
            config=config,
            revision=revision,
            attn_implementation=attention,
            dtype=dtype,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
        )
        _check_kinds(made, source, revision)
    _complete(made, info, source)
    if made.task.name in others:
        _draw(made, _classifiers(made))
    else:
        _fit_head(made, had)
    made.settle()
    _check_saves(made)
    return made


def new(
    config: BertConfig,
    model: str = "bert",
    task: str = "none",
    *,
    labels: Sequence[str] | None = None,
    attention: str = "sdpa",
    **options: Any,
) -> Bert:
    """A model of a config with weights drawn from torch's random state. Arguments and errors as of `load`."""
    config = BertConfig.from_dict(config.to_dict())
    kind = _configure(config, model, task, labels, options)
    with reading("no model can be made of the config"):
        made = kind._from_config(config, attn_implementation=attention)
    made.settle()
    _check_saves(made)
    made.drawn = tuple(sorted(made.state_dict()))
    return made


def save(model: Bert, folder: str | Path) -> None:
    """Write config.json and model.safetensors, which `load` and transformers' own classes read.

    `config.architectures` names transformers' class of the same weights, so that its pipelines find it. Raises
    CheckpointError where a file is in the way.
    """
    if Path(folder).is_file():
        raise CheckpointError(f"{folder} is a file, expected a folder to write config.json and weights into")
    model.save_pretrained(str(folder))
    path = Path(folder) / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["architectures"] = [model.task.like]
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _configure(
    config: BertConfig,
    model: str | None,
    task: str | None,
    labels: Sequence[str] | None,
    options: dict[str, Any],
) -> type[Bert]:
    """Write what is asked for into the config, over what it was saved with; the class to make."""
    saved = getattr(config, "treegraft", None) or {}
    if not isinstance(saved, Mapping):
        raise CheckpointError(f"treegraft of config.json is {saved!r}, expected a model, a task and options")
    name = model or saved.get("model", "bert")
    if name not in list(MODELS):  # which compares: what a file says may be anything
        raise CheckpointError(f"model is {name!r}, expected one of {', '.join(MODELS)}")
    kind = MODELS[name]
    kept = kind.kept(saved, options)
    config.treegraft = {**kept, **options, "model": name, "task": task or saved.get("task", "none")}
    if config.treegraft["task"] in ("classify", "tag"):
        if labels is not None:
            config.id2label = dict(enumerate(labels))
            config.label2id = {label: number for number, label in enumerate(labels)}
    else:  # what transformers' class of the task goes by
        config.num_labels = 1 if config.treegraft["task"] in ("regress", "choice") else 2
    if config.treegraft["task"] == "regress":
        config.problem_type = "regression"
    try:
        config.treegraft.update(kind.settings_of(config))
    except ValueError as error:
        raise CheckpointError(str(error)) from None
    return kind


def _check_saves(model: Bert) -> None:
    """Raise CheckpointError for a config that transformers would not write: after a run it is too late."""
    with reading("config.json cannot be written again"):
        model.config.validate()


def _complete(model: Bert, info: dict[str, Any], source: str | Path) -> None:
    """Keep the names of weights that were drawn anew; refuse a checkpoint whose encoder was, or that is left over."""
    other = {name: (had, has) for name, had, has in info["mismatched_keys"]}
    model.drawn = tuple(sorted({*info["missing_keys"], *other}))
    needed = [
        name for name in model.drawn if name.startswith("bert.") and not name.startswith("bert.pooler.")
    ]
    if needed:
        name = needed[0]
        why = (
            f"is {tuple(other[name][0])} there, {tuple(other[name][1])} by its config"
            if name in other
            else "is not there"
        )
        raise CheckpointError(
            f"{source} lacks {len(needed):,} of the encoder's weights: {name} {why}; expected the names of "
            "transformers' BERT (convert a checkpoint of UER with models.uer)"
        )
    if over := sorted(name for name in info["unexpected_keys"] if _LAYER.match(name)):
        raise CheckpointError(
            f"{source} has weights of layers that its config does not: {over[0]}, but num_hidden_layers is "
            f"{model.config.num_hidden_layers}"
        )
    for name, weight in model.named_parameters():
        if not weight.detach().sum().isfinite() and not weight.isfinite().all():  # a sum is quickly made
            raise CheckpointError(f"{source} holds weights that are no numbers (NaN or infinite): {name}")


def _check_kinds(model: Bert, source: str | Path, revision: str) -> None:
    """Raise CheckpointError for weights that a file has as whole numbers, say: their scale is lost, and transformers
    takes them as they are. Read are the heads of the files that it read, from the hub's cache; buffers may be anything.
    """
    names = {name.removeprefix("bert.") for name, _ in model.named_parameters()}
    for file in _files(model, str(source), revision):
        for name, weight in load_state_dict(file, map_location="meta").items():
            # The first releases had other names. A float of 8 bits has a scale, too.
            new = re.sub(r"\bgamma$", "weight", re.sub(r"\bbeta$", "bias", name))
            fine = weight.dtype.is_floating_point and weight.dtype.itemsize > 1
            if new.removeprefix("bert.") in names and not fine:
                raise CheckpointError(
                    f"{name} is {str(weight.dtype).removeprefix('torch.')}, expected float16 or wider: save weights as "
                    "such (of quantized ones: times their scale)"
                )


def _files(model: Bert, source: str, revision: str) -> list[str]:
    """The files of a checkpoint's weights: those that transformers takes."""
    named = getattr(model.config, "transformers_weights", None)
    for name in [named] if named else _WEIGHTS:
        kept: dict[str, Any] = {"revision": revision, "local_files_only": True}
        path = cached_file(source, name, **kept, _raise_exceptions_for_missing_entries=False)
        if path is not None:
            indexed = path.endswith(".index.json")
            return get_checkpoint_shard_files(source, path, **kept)[0] if indexed else [path]
    return []


def _fit_head(model: Bert, had: list[str] | None) -> None:
    """Keep each row of a trained head (classes `had`) for the class of its name; draw a head of other classes anew."""
    labels = label_names(model.config.id2label)
    if model.task.name not in ("classify", "tag") or None in (had, labels) or had == labels:
        return
    assert had is not None and labels is not None
    heads = _classifiers(model)
    if sorted(had) != sorted(labels):
        _draw(model, heads)
        return
    rows = [had.index(label) for label in labels]
    with torch.no_grad():
        for weight in heads.values():
            weight.copy_(weight[rows])


def _other_tasks(config: BertConfig) -> set[str]:
    """Tasks for which a checkpoint of this config has no classifier, though it may have one of the same name and shape:
    by the task it was saved for, or else the class of transformers; where neither is known, none."""
    saved = getattr(config, "treegraft", None)
    if isinstance(saved, Mapping) and saved.get("task") in list(TASKS):
        return set(TASKS) - {saved["task"]}
    classes = list(config.architectures or ())
    if not any(task.like in classes for task in TASKS.values()):
        return set()
    return {name for name, task in TASKS.items() if task.like not in classes}


def _classifiers(model: Bert) -> dict[str, nn.Parameter]:
    """Weights of the heads that tasks have under one name, those that the checkpoint gave."""
    return {
        name: weight
        for name, weight in model.named_parameters()
        if name.partition(".")[0].endswith("classifier") and name not in model.drawn
    }


def _draw(model: Bert, weights: Mapping[str, nn.Parameter]) -> None:
    """Draw these anew, as transformers does."""
    with torch.no_grad():
        for weight in weights.values():
            if weight.ndim > 1:
                weight.normal_(std=model.config.initializer_range)
            else:
                weight.zero_()
    model.drawn = tuple(sorted({*model.drawn, *weights}))


@contextmanager
def _unreported() -> Iterator[None]:
    """Without transformers' table of missing weights, which `drawn` names; its verbosity is the user's again after."""
    logger = logging.get_logger()
    level = logger.level
    logger.setLevel(max(level, logging.ERROR))
    try:
        yield
    finally:
        logger.setLevel(level)
