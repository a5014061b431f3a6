"""What a recipe is made into: the model, its optimizer, the learning rate of each step.

The model and the dataset are held against each other here, before the first step: sizes of vocabularies, the tokens
themselves, labels, lengths.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertLayer
from transformers.utils import cached_file

from corpora import files
from corpora.schema import annotated_first
from models import checkpoint
from models.bert import Bert
from models.bert_batch import TOKENIZER, WORDS, BatchError, own_tokenizer
from models.masks import LM_KINDS
from models.stream.shards import Split
from models.train.folder import damaged
from models.train.reading import RecipeError, check_keys
from models.train.recipe import TASK_NAMES, New, Optim, Recipe

_COARSE = "coarse_tokens.txt"
"""File of a dataset that says what its coarse tokens are."""


def make_model(recipe: Recipe, split: Split, resumed: str | None = None) -> Bert:
    """The model, with weights of `init`, new ones, or those of the checkpoint that a run goes on from.

    New weights (all, or those of a head) are a function of the recipe's seed.

    Raises:
        FolderError: the checkpoint that a run goes on from is damaged.
        RecipeError: there is no checkpoint `init`, or it is damaged; model, task or options are not known; or model and
            dataset do not fit.
    """
    metadata = split.metadata
    options = dict(recipe.options)
    if recipe.model == "unilm":  # without `lm` kinds are drawn, whatever those of init's rows were
        options.setdefault("lm", LM_KINDS[0])
    if recipe.model == "ambert" and "coarse_vocab_size" not in options:
        if not metadata.get("coarse_vocab_size"):
            raise RecipeError(
                "model 'ambert' reads coarse tokens, which the dataset lacks: add 'coarse' to encode.columns (and "
                f"an encode.coarse section) and run `treegraft encode` again{annotated_first('coarse')}"
            )
        options["coarse_vocab_size"] = metadata["coarse_vocab_size"]
    options["labels"] = metadata.get("labels") if recipe.task in ("classify", "tag") else None
    options["attention"] = recipe.attention
    torch.manual_seed(recipe.seed)
    try:
        if resumed is not None:
            return checkpoint.load(resumed, recipe.model, recipe.task, **options)
        if recipe.new is not None:
            made = checkpoint.new(_config(recipe.new, metadata), recipe.model, recipe.task, **options)
        else:
            assert recipe.init is not None  # the recipe saw to it
            made = checkpoint.load(
                recipe.init,
                recipe.model,
                recipe.task,
                dropout=recipe.dropout,
                padding=metadata["special_ids"]["pad"],
                **options,
            )
        made.check_dataset(metadata)
    except (checkpoint.CheckpointError, BatchError) as error:
        raise (damaged(Path(resumed), error) if resumed else RecipeError(str(error))) from error
    cure = "raise new.positions" if recipe.new else "take another init"
    _check_length(made, metadata, split.name, f", or {cure}")
    return made


def check_model(recipe: Recipe) -> None:
    """Raise RecipeError where the model has no such task or option, whatever the dataset."""
    kind = checkpoint.MODELS[recipe.model]
    tasks = [task for task in kind.tasks if task in TASK_NAMES]
    if recipe.task not in tasks:
        able = [name for name, other in checkpoint.MODELS.items() if recipe.task in other.tasks]
        raise RecipeError(
            f"model {recipe.model!r} has no task {recipe.task!r}, which {' and '.join(able)} "
            f"{'have' if len(able) > 1 else 'has'}; its tasks: {', '.join(tasks)}"
        )
    for key in recipe.options:
        whose = [name for name, other in checkpoint.MODELS.items() if key in other.options]
        if whose and key not in kind.options:
            raise RecipeError(f"options.{key} is of {' and '.join(whose)}, the model is {recipe.model!r}")
    check_keys("options", recipe.options, kind.options)
    config = BertConfig()
    config.treegraft = {"task": recipe.task, **recipe.options}
    if recipe.model == "ambert":
        config.treegraft.setdefault("coarse_vocab_size", 1)  # the dataset's, by default
    try:
        kind.settings_of(config)
    except ValueError as error:
        raise RecipeError(f"options: {error}") from None


def positions(model: Bert, metadata: Mapping[str, Any]) -> int:
    """Positions that rows of this dataset need in this model's view."""
    if model.group == "tree":
        soft = model.settings.get("soft_positions", True)
        return metadata.get("max_positions" if soft else "tree_max_length") or 0
    return metadata.get("max_length") or 0


def _config(new: New, metadata: Mapping[str, Any]) -> BertConfig:
    needed = [metadata.get(name) or 0 for name in ("max_length", "max_positions", "tree_max_length")]
    return BertConfig(
        vocab_size=metadata["vocab_size"],
        hidden_size=new.width,
        num_hidden_layers=new.layers,
        num_attention_heads=new.heads,
        intermediate_size=new.intermediate or 4 * new.width,
        max_position_embeddings=new.positions or max(needed),
        hidden_dropout_prob=new.dropout,
        attention_probs_dropout_prob=new.dropout,
        pad_token_id=metadata["special_ids"]["pad"],
    )


def check_tokens(recipe: Recipe, model: Bert, begun: bool) -> bool:
    """Hold the datasets' tokens against those of the first, and these against those of `init` unless the run has
    `begun`; whether it is known that none differs from `init`, where it counts.

    Raises RecipeError where two sources say differently.
    """
    first, *others = dict.fromkeys(source.folder for source in recipe.data.folder)
    compared = begun or recipe.init is None or same_tokens(recipe.init, first)
    for folder in others:
        same_tokens(first, folder, model.group == "coarse")
    return compared


def check_fits(model: Bert, metadata: Mapping[str, Any], source: str, folder: str) -> None:
    """Raise RecipeError where a model cannot be measured on a dataset: other labels or tokens, too long rows.

    Args:
        source: whose tokens the model has: its own folder, or that of a dataset that it learns from.
        folder: of the dataset that `metadata` is of.
    """
    try:
        model.check_dataset(dict(metadata))
    except BatchError as error:
        raise RecipeError(f"{folder}: {error}") from error
    if folder != source:
        same_tokens(source, folder, model.group == "coarse")
    _check_length(model, metadata, folder)


def _check_length(model: Bert, metadata: Mapping[str, Any], folder: str, or_else: str = "") -> None:
    needed, has = positions(model, metadata), model.config.max_position_embeddings
    if needed > has:
        raise RecipeError(
            f"rows of {folder} reach position {needed - 1:,}, the model has {has:,} (max_position_embeddings): "
            f"lower encode.max_length and encode again{or_else}"
        )


def same_tokens(init: str, folder: str, coarse: bool = False) -> bool:
    """Whether checkpoint (or another dataset) and dataset both say what their tokens are; with `coarse` the coarse ones
    of two datasets are compared, too. Raises RecipeError where they say differently."""
    ours, theirs = tokens_of(init), tokens_of(folder)
    if ours is not None and theirs is not None:
        _compare(ours, theirs, init, folder, "token", own_tokenizer(init))
    if coarse:
        mine, its = _coarse_tokens_of(init), _coarse_tokens_of(folder)
        if mine is not None and its is not None:
            cure = f"the coarse vocabulary of {init} (encode.coarse.vocab)"
            _compare(mine, its, init, folder, "coarse token", cure)
    return ours is not None and theirs is not None


def _compare(
    ours: Mapping[str, int], theirs: Mapping[str, int], init: str, folder: str, what: str, cure: str
) -> None:
    for token, number in theirs.items():
        if ours.get(token) != number:
            has = f"{ours[token]:,}" if token in ours else "unknown"
            raise RecipeError(
                f"{what} {token!r} is {number:,} in {folder}, and {has} in {init}: they were made for different "
                f"tokenizers; encode the dataset with {cure}"
            )


def tokens_of(source: str) -> dict[str, int] | None:
    """Tokens and their ids by the tokenizer.json of a folder or hub id, or else its vocab.txt, a token a line; None: by
    neither. Raises RecipeError where one is damaged."""
    name = TOKENIZER
    try:
        if (body := _read(source, TOKENIZER)) is not None:
            found = json.loads(body)["model"]["vocab"]
            if not isinstance(found, list):  # of kinds of tokens that have scores, not numbers
                return {token: operator.index(number) for token, number in found.items()}
        name = WORDS
        if (body := _read(source, WORDS)) is not None:
            return _numbered(token_names(body, "strict"))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        cure = "run again once it can" if isinstance(error, OSError) else "put the right file in its place"
        raise RecipeError(
            f"{source}: {name} cannot be read ({type(error).__name__}: {error}), so whether two vocabularies are one "
            f"cannot be told: {cure}"
        ) from None
    return None


def _coarse_tokens_of(dataset: str) -> dict[str, int] | None:
    """A dataset's coarse tokens and their ids; None: it has none, or is a model."""
    path = files.join(dataset, _COARSE)
    if not files.exists(path):
        return None
    return _numbered(token_names(files.read_bytes(path)))


def token_names(body: bytes, errors: str = "backslashreplace") -> list[str]:
    """Tokens of a file that has one a line, in their order. Bytes that are no UTF-8 are spelled out, or with `errors`
    strict raise UnicodeDecodeError."""
    text = body.decode("utf-8", errors).replace("\r\n", "\n")
    return text.removesuffix("\n").split("\n")


def _numbered(tokens: Sequence[str]) -> dict[str, int]:
    return {token: number for number, token in enumerate(tokens)}


def _read(source: str, name: str) -> bytes | None:
    """A file of a folder, or of a hub id as transformers has it, where the model's own files come from."""
    if files.is_uri(source) or Path(source).is_dir():
        path: str | None = files.join(source, name)
    else:
        path = cached_file(source, name, revision="main", _raise_exceptions_for_missing_entries=False)
    return files.read_bytes(path) if path is not None and files.exists(path) else None


# --- how it learns ----------------------------------------------------------------------------


def make_optimizer(model: Bert, optim: Optim) -> torch.optim.AdamW:
    """AdamW (Loshchilov and Hutter 2019); biases and LayerNorm, all that is no matrix, do not decay."""
    weights = [weight for _, weight in model.named_parameters() if weight.requires_grad]
    groups = [
        {"params": [w for w in weights if w.ndim > 1], "weight_decay": optim.weight_decay},
        {"params": [w for w in weights if w.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=optim.lr, betas=optim.betas, eps=optim.eps, fused=True)


def set_rate(optimizer: torch.optim.Optimizer, optim: Optim, step: int, steps: int) -> float:
    """Give the optimizer the learning rate of a step, and the caller too."""
    learning = rate(optim, step, steps)
    for group in optimizer.param_groups:
        group["lr"] = learning
    return learning


def rate(optim: Optim, step: int, steps: int) -> float:
    """Learning rate of step 0..steps-1: a function of its number alone, so there is nothing to remember."""
    # Of floats 0.07 times 100 is more than 7.
    warmup = math.ceil(optim.warmup if optim.warmup >= 1 else Fraction(str(optim.warmup)) * steps)
    if step < warmup:
        return optim.lr * (step + 1) / (warmup + 1)
    left = (steps - step) / max(steps - warmup, 1)
    if optim.schedule == "cosine":
        return optim.lr * (1 - math.cos(math.pi * min(left, 1.0))) / 2
    return optim.lr * min(left, 1.0) if optim.schedule == "linear" else optim.lr


def prepare(model: Bert, recipe: Recipe) -> None:
    """Compile layers, forget activations: what changes how a model computes and no weight's name.

    Raises RecipeError for attention that does not learn on this device.
    """
    if recipe.attention == "flex_attention" and model.device.type == "cpu":
        raise RecipeError("attention: flex_attention learns on GPUs alone, here are processors: use sdpa")
    if recipe.checkpointing:
        newer = getattr(model, "activation_checkpointing_enable", None)  # transformers' later name for it
        (newer or model.gradient_checkpointing_enable)({"use_reentrant": False})
    if recipe.compile:
        for layer in model.modules():
            if isinstance(layer, BertLayer):
                layer.compile()


def lost(model: Bert) -> list[str]:
    """Names of the weights that hold what is no number, or infinite: one pass over all."""
    named = dict(model.named_parameters())
    sound = torch.stack([weight.detach().isfinite().all() for weight in named.values()]).tolist()
    return [name for name, fine in zip(named, sound, strict=True) if not fine]
