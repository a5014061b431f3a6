"""The config of a checkpoint: read, cleared of what is no business of a file, and held against what can be.

A config.json comes from anywhere, and transformers takes most of what it says: heads of a negative number, a million
layers, positions of a kind that it no longer has. What is wrong is refused by its name here, before weights are read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transformers import BertConfig

_SIZES = {
    "vocab_size": 10_000_000,
    "hidden_size": 65_536,
    "num_hidden_layers": 1_000,
    "num_attention_heads": 65_536,
    "intermediate_size": 1_000_000,
    "max_position_embeddings": 1_000_000,
    "type_vocab_size": 1_000,
    "num_labels": 100_000,
}
"""What is counted from 1 on, and the most of it."""
_SHARES = ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout")
_PLAIN = {
    "position_embedding_type": "absolute",
    "pruned_heads": {},
    "add_cross_attention": False,
    "is_encoder_decoder": False,
}
"""What would go unheard, or make another model."""
_OF_CALLS = (
    "output_attentions",
    "output_hidden_states",
    "return_dict",
    "use_cache",
    "torchscript",
    "chunk_size_feed_forward",
)
"""Switches of how a model is called and what it gives back, not of what it computes: ours are ours."""


class CheckpointError(ValueError):
    """A checkpoint that cannot be loaded as asked; the message says why and what to do."""


def read_config(source: str | Path, revision: str = "main") -> BertConfig:
    """The config of a folder or hub id. Raises CheckpointError where there is none, or it is no BERT's."""
    if Path(source).is_file():
        raise CheckpointError(
            f"{source} is a file, expected a folder with config.json and weights, or an id on the hub; "
            "models.uer.convert makes a folder of a file that UER saved"
        )
    expected = "expected a folder with config.json and weights, or an id on the hub"
    if not Path(source).is_dir() and _names_folder(str(source)):
        raise CheckpointError(f"{source} is no checkpoint: {expected}; there is no such folder")
    found = (
        f"is no checkpoint: {expected}" if Path(source).is_dir() else "is no folder here, and no hub gave it"
    )
    with reading(f"{source} {found}"):
        given, _ = BertConfig.get_config_dict(str(source), revision=revision)
    if not given or not isinstance(given, Mapping):  # a list, a word
        raise CheckpointError(f"{source} {found}; its config.json says nothing")
    if (kind := given.get("model_type", "bert")) != "bert":  # the first releases do not say
        raise CheckpointError(
            f"{source} holds a model of type {kind!r}, expected 'bert': the models here are BERT's encoder with "
            "other masks"
        )
    if wrong := next(_wrong(given), None):
        raise CheckpointError(f"{source}: config.json: {wrong}")
    kept = {name: value for name, value in given.items() if name not in _OF_CALLS}
    with reading(f"{source} {found}"):
        return BertConfig.from_dict({**kept, "name_or_path": str(source)})


def _wrong(given: Mapping[str, Any]) -> Iterator[str]:
    """What can be no value of a key; the type of those that are not named here transformers checks."""
    for name, most in _SIZES.items():
        value = given.get(name, 1)
        if value is not None and not (type(value) is int and 1 <= value <= most):
            yield f"{name} is {value!r}, expected a whole number from 1 to {most:,}"
    for name in _SHARES:
        if not _is_number(value := given.get(name) or 0.0) or not 0 <= value < 1:
            yield f"{name} is {value!r}, expected a dropout probability from 0 on, below 1 (which drops all)"
    for name in ("layer_norm_eps", "initializer_range"):
        if not _is_number(value := given.get(name, 1.0)) or not value > 0:
            yield f"{name} is {value!r}, expected a number above 0"
    padding, words = given.get("pad_token_id"), given.get("vocab_size") or math.inf
    if padding is not None and not (type(padding) is int and 0 <= padding < words):
        yield f"pad_token_id is {padding!r}, expected a token's number, from 0 to vocab_size - 1"
    for name, plain in _PLAIN.items():
        if (value := given.get(name)) and value != plain:
            yield f"{name} is {value!r}, expected {plain!r}: transformers, or this project, has no others"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _names_folder(source: str) -> bool:
    """Whether this can be no id on the hub (`owner/name`); the hub would be asked again and again."""
    first, *rest = source.split("/")
    return source.startswith((".", "/", "~")) or len(rest) > 1 or (len(rest) == 1 and Path(first).is_dir())


@contextmanager
def reading(what: str) -> Iterator[None]:
    """One error, whatever is wrong with files of others: transformers raises a dozen for them."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        raise CheckpointError(f"{what}; {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    kind, lines = type(error).__name__, str(error).strip().splitlines()
    said = " ".join(line.strip() for line in lines[: 2 if lines and lines[0].endswith(":") else 1])
    return said if said and isinstance(error, OSError | ValueError | RuntimeError) else f"{kind}: {said}"
