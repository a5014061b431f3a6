"""Checkpoints of UER, the toolkit that K-BERT was written in, to transformers' names and back.

UER saves one file of weights, `google_model.bin` of K-BERT among them, without a config: sizes are read off shapes,
and heads cannot be, since all widths fit all numbers. Names differ, and:

- Segments are 0 for padding, then 1 and 2: row 0 has no counterpart. It is dropped, and written as zeros.
- Its layer norm divides by the standard deviation of D - 1 degrees of freedom, plus 1e-6; BERT's by that of D, plus
  1e-12 under the root. Published weights were converted from Google's as they stand, and are so here, both ways
  (`exact=False`). A model trained in UER gives UER's own outputs with scales multiplied by sqrt((D - 1) / D):
  `exact=True`, 0.07 per cent at D = 768.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import BertConfig, BertForPreTraining

_LAYER = {
    "self_attn.linear_layers.0": "attention.self.query",
    "self_attn.linear_layers.1": "attention.self.key",
    "self_attn.linear_layers.2": "attention.self.value",
    "self_attn.final_linear": "attention.output.dense",
    "layer_norm_1": "attention.output.LayerNorm",
    "feed_forward.linear_1": "intermediate.dense",
    "feed_forward.linear_2": "output.dense",
    "layer_norm_2": "output.LayerNorm",
}
_PARTS = {
    "embedding.word_embedding": "bert.embeddings.word_embeddings",
    "embedding.position_embedding": "bert.embeddings.position_embeddings",
    "embedding.segment_embedding": "bert.embeddings.token_type_embeddings",
    "embedding.layer_norm": "bert.embeddings.LayerNorm",
    "target.mlm_linear_1": "cls.predictions.transform.dense",
    "target.layer_norm": "cls.predictions.transform.LayerNorm",
    "target.mlm_linear_2": "cls.predictions.decoder",
    "target.nsp_linear_1": "bert.pooler.dense",
    "target.nsp_linear_2": "cls.seq_relationship",
    "output_layer_1": "bert.pooler.dense",  # K-BERT's classifier
    "output_layer_2": "classifier",
    "output_layer": "classifier",  # and its tagger
}
_CLASSIFIER = ("output_layer_1", "output_layer_2")
_NUMBER = re.compile(r"bert\.encoder\.layer\.(\d+)\.")
_POOLER = "bert.pooler."
_SEGMENTS = "bert.embeddings.token_type_embeddings.weight"
_DECODER, _WORDS = "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"
_MLM_BIAS = "cls.predictions.decoder.bias", "cls.predictions.bias"
_FIRST = "embedding.word_embedding.weight"


class UerError(ValueError):
    """A file that is no checkpoint of UER's BERT, or a model that UER has no names for; the message says why."""


def is_uer(weights: Mapping[str, Tensor]) -> bool:
    """Whether weights bear UER's names."""
    return _FIRST in weights


def convert(path: str | Path, folder: str | Path, heads: int | None = None, *, exact: bool = False) -> None:
    """Write config.json and model.safetensors of a file that UER saved: a folder for `models.checkpoint.load`.

    Arguments and errors as of `read`.
    """
    config, weights = read(path, heads, exact=exact)
    config.save_pretrained(str(folder))
    whole = {name: x.contiguous() for name, x in weights.items()}
    save_file(whole, Path(folder) / "model.safetensors", metadata={"format": "pt"})


def read(
    path: str | Path, heads: int | None = None, *, exact: bool = False
) -> tuple[BertConfig, dict[str, Tensor]]:
    """Config and weights, by transformers' names, of a file that UER saved; the file is read as weights alone.

    `heads`: of attention; default: one for each 64 of the width, as in all of Google's. Raises UerError.
    """
    try:
        weights = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # junk makes torch raise whatever it stumbles on
        why = (str(error).strip().splitlines() or [""])[0]
        raise UerError(f"{path} cannot be read as a file of weights: {type(error).__name__} {why}") from error
    named = isinstance(weights, dict) and all(isinstance(name, str) for name in weights)
    if not named or not all(isinstance(x, Tensor) for x in weights.values()):
        raise UerError(f"{path} holds no weights by name, as UER saves them")
    converted = from_uer(weights, exact=exact)
    return config_of(converted, heads), converted


def config_of(weights: Mapping[str, Tensor], heads: int | None = None) -> BertConfig:
    """The config that weights of transformers' names were made by, as far as shapes tell.

    Raises UerError where they are not those of a whole BERT, or its width does not part into so many heads.
    """

    def size(name: str, dimension: int = 0) -> int:
        if name not in weights:
            raise UerError(f"weights of UER's encoder are missing: {name} is not there")
        shape = weights[name].shape
        if len(shape) != 2 or not all(shape):
            raise UerError(f"{name} is of shape {tuple(shape)}, expected a matrix")
        return shape[dimension]

    width = size(_WORDS, 1)
    heads = max(1, width // 64) if heads is None else heads
    if isinstance(heads, bool) or not isinstance(heads, int) or heads < 1 or width % heads:
        raise UerError(
            f"a width of {width} does not part into {heads} heads of attention: give another number"
        )
    config = BertConfig(
        vocab_size=size(_WORDS),
        hidden_size=width,
        num_hidden_layers=len({found[1] for name in weights if (found := _NUMBER.match(name))}),
        num_attention_heads=heads,
        intermediate_size=size("bert.encoder.layer.0.intermediate.dense.weight"),
        max_position_embeddings=size("bert.embeddings.position_embeddings.weight"),
        type_vocab_size=size(_SEGMENTS),
    )
    decoder = weights.get(_DECODER)
    if decoder is not None:  # in UER a matrix of its own, which training parts from the embeddings
        config.tie_word_embeddings = torch.equal(decoder, weights[_WORDS])
    if "classifier.weight" in weights:
        config.num_labels = size("classifier.weight")
    _check_shapes(weights, config)
    return config


def _check_shapes(weights: Mapping[str, Tensor], config: BertConfig) -> None:
    """Raise UerError unless all weights are those of BERT's modules by this config, and the encoder's are all there."""
    with torch.device("meta"):  # shapes alone
        whole = BertForPreTraining(config)
        whole.classifier = nn.Linear(config.hidden_size, config.num_labels)
    expected = {name: x.shape for name, x in whole.state_dict().items()}
    for name in [*weights, *expected]:
        there, wanted = weights.get(name), expected.get(name)
        if there is None and (name.startswith(_POOLER) or not name.startswith("bert.")):
            continue  # of a head, which a file may lack
        if there is None or wanted != there.shape:
            found = "is not there" if there is None else f"is of shape {tuple(there.shape)}"
            like = "none" if wanted is None else f"one of shape {tuple(wanted)}"
            raise UerError(
                f"{name} {found}, expected {like} in a BERT of {config.num_hidden_layers} layers of width "
                f"{config.hidden_size}: these are not the weights of UER's encoder"
            )


def from_uer(weights: Mapping[str, Tensor], *, exact: bool = False) -> dict[str, Tensor]:
    """UER's weights by transformers' names. Of a classifier and a target the classifier's pooler is taken.

    Raises UerError where weights that every BERT has are missing, or have no counterpart.
    """
    if not is_uer(weights):
        raise UerError(
            f"expected weights named as UER does, {_FIRST} first; found {next(iter(weights), 'none')}"
        )
    tuned = "output_layer_1.weight" in weights
    converted: dict[str, Tensor] = {}
    for name, x in weights.items():
        part, _, kind = name.rpartition(".")
        if tuned and part.startswith("target.nsp_linear"):
            continue
        theirs = _theirs(part)
        if theirs is None:
            raise UerError(
                f"{name} has no counterpart in BERT: expected UER's encoder 'bert' with its layers"
            )
        if kind == "gamma":
            x = x * _shrink(x) if exact else x
        kind = {"gamma": "weight", "beta": "bias"}.get(kind, kind)
        converted[f"{theirs}.{kind}"] = x
    segments = converted.get(_SEGMENTS)
    if segments is None or segments.ndim != 2 or len(segments) < 2:
        found = "none" if segments is None else f"one of shape {tuple(segments.shape)}"
        raise UerError(
            f"expected embedding.segment_embedding.weight of 3 rows, the first of padding; found {found}"
        )
    converted[_SEGMENTS] = segments[1:].clone()
    if _MLM_BIAS[0] in converted:
        converted[_MLM_BIAS[1]] = converted[_MLM_BIAS[0]].clone()
    return converted


def to_uer(weights: Mapping[str, Tensor], *, exact: bool = False) -> dict[str, Tensor]:
    """Weights of transformers' names (a model's `state_dict()`, or a file's) by UER's, for its own scripts to read.

    With a classifier and no target the pooler is K-BERT's `output_layer_1`, else the target's `nsp_linear_1`.
    Raises UerError for weights that UER's BERT has no place for.
    """
    tuned = "bert.pooler.dense.weight" in weights and "cls.seq_relationship.weight" not in weights
    ours = {theirs: part for part, theirs in _PARTS.items() if not part.startswith("output_layer")}
    if "classifier.weight" in weights:
        names = _CLASSIFIER if tuned else ("output_layer",)
        ours |= {_PARTS[part]: part for part in names}
    if _MLM_BIAS[1] in weights and _WORDS in weights:  # in a file, which has one name for what is tied
        weights = {_DECODER: weights[_WORDS], _MLM_BIAS[0]: weights[_MLM_BIAS[1]], **weights}
    converted = {}
    for name, x in weights.items():
        part, _, kind = name.rpartition(".")
        if name == _MLM_BIAS[1]:
            continue
        found = re.fullmatch(r"bert\.encoder\.layer\.(\d+)\.(.+)", part)
        layer = {theirs: own for own, theirs in _LAYER.items()}
        own = (
            f"encoder.transformer.{found[1]}.{layer[found[2]]}"
            if found and found[2] in layer
            else ours.get(part)
        )
        if own is None:
            raise UerError(f"{name} has no counterpart in UER's BERT")
        if name == _SEGMENTS:
            x = torch.cat([x.new_zeros(1, x.shape[1]), x])
        if "layer_norm" in own:
            x = x / _shrink(x) if exact and kind == "weight" else x
            kind = {"weight": "gamma", "bias": "beta"}[kind]
        converted[f"{own}.{kind}"] = x.clone()
    return converted


def _theirs(part: str) -> str | None:
    """transformers' name of a module of UER."""
    if found := re.fullmatch(r"encoder\.transformer\.(\d+)\.(.+)", part):
        return f"bert.encoder.layer.{found[1]}.{_LAYER[found[2]]}" if found[2] in _LAYER else None
    return _PARTS.get(part)


def _shrink(scale: Tensor) -> float:
    """What makes BERT's layer norm of UER's, but for their epsilons."""
    return math.sqrt(max(scale.numel() - 1, 0) / max(scale.numel(), 1))
