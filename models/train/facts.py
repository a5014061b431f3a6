"""What a run is, for who watches as it begins; and what it was, for who reads of it later."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata as packages
from pathlib import Path
from typing import Any

import torch

from models.bert import Bert
from models.collate.collator import Collator
from models.collate.kinds import Kinds
from models.collate.mlm import OPTIONS, Masking
from models.ranks import Ranks
from models.stream.shards import Split
from models.train.parts import rate
from models.train.recipe import Recipe

_PACKAGES = ("treegraft", "torch", "transformers", "numpy")


def facts(
    recipe: Recipe, model: Bert, collator: Collator, steps: int, split: Split, ranks: Ranks
) -> dict[str, Any]:
    """What `run.json` says: the recipe with all defaults, and what it came to here; ready for JSON."""
    return {
        "recipe": recipe.model_dump(mode="json"),
        "in_effect": {"options": options_of(model), **_of_steps(collator), "steps": steps},
        "dataset": {"fingerprint": split.fingerprint, "rows": split.rows},
        "device": {
            "type": ranks.device.type,
            "processes": ranks.count,
            "threads": torch.get_num_threads(),
        },
        "versions": {name: packages.version(name) for name in _PACKAGES},
    }


def _of_steps(collator: Collator) -> dict[str, Any]:
    """Masking and kinds with the defaults that were filled in, as a recipe has them."""
    found: dict[str, Any] = {}
    for step in collator.steps:
        if isinstance(step, Kinds):
            found["kinds"] = dict(step.shares)
        if isinstance(step, Masking):
            found["masking"] = {name: getattr(step, name) for name in OPTIONS}
    return found


def opening(
    recipe: Recipe,
    model: Bert,
    ranks: Ranks,
    stream: str,
    place: tuple[int, int, Path | None, Mapping[str, Any] | None],
    compared: bool,
) -> Iterator[str]:
    """Lines that tell what is about to be done.

    Args:
        stream: what is read, as the loader describes it.
        place: steps that are done, steps in all, the checkpoint that the run goes on from (None: it begins), and by
            what it was `computed_by` until then (None: it begins, or that is not known).
        compared: whether the tokens of `init` are known to be the dataset's.
    """
    device = ranks.device.type
    how = f"{ranks.count} x {device}" if ranks.count > 1 else device
    if device == "cpu":
        how += " (1 thread)" if (threads := torch.get_num_threads()) == 1 else f" ({threads} threads)"
    size = f"{sum(weight.numel() for weight in model.parameters()) / 1e6:,.1f} million weights"
    kept = {name: value for name, value in model.options.items() if value is not None}
    begins = f"{recipe.model} {recipe.task}: {size} · {how}, {recipe.precision} · {stream}"
    done, steps, newest, before = place
    goes_on = (
        f"{'finished before:' if done == steps else 'going on after'} step {done:,} of {steps:,} ({newest})"
    )
    yield f"{goes_on} · {how}, {recipe.precision}" if newest else begins
    now = computed_by(recipe, ranks)
    if before and before != now and done < steps and _drops(model):
        other = " and ".join(
            f"{name} {now[name]} instead of {n}" for name, n in before.items() if now.get(name) != n
        )
        yield (
            f"{other}: dropout falls on other places from here on, so the weights will not be, to the bit, those that "
            "the run would have ended in"
        )
    if switched := {name: value for name, value in model.settings.items() if value != kept.get(name, value)}:
        told = (
            f"{name}: {plain(value)}" + ("" if name in recipe.options else f" (as {recipe.init} was saved)")
            for name, value in switched.items()
        )
        yield f"options {', '.join(told)}"
    if len(model.parts) > 1:
        yield f"loss = {added_up(model)}"
    if device == "cpu" and recipe.precision == "bf16" and _slow_in_half():
        yield "precision: bf16 is slower than fp32 on this processor, which has neither AMX nor AVX512-BF16"
    if 1 <= recipe.optim.warmup >= steps > done:
        yield (
            f"optim.warmup is {recipe.optim.warmup:,.15g} steps, the run has {steps:,}: the rate rises to its end, and "
            f"only to {rate(recipe.optim, steps - 1, steps):.3g}"
        )
    if recipe.init is None or newest:
        return
    if model.drawn:
        yield f"not in {recipe.init}, or of other labels, so begun anew: {', '.join(grouped(model.drawn))}"
    if not compared:
        yield (
            f"{recipe.init} has neither tokenizer.json nor vocab.txt here that numbers its tokens, so whether they are "
            "the dataset's was not compared"
        )


def computed_by(recipe: Recipe, ranks: Ranks) -> dict[str, int]:
    """How a step is computed: what gradients do not depend on, but for dropout."""
    return {"batch.accumulate": recipe.batch.accumulate, "processes": ranks.count}


def _drops(model: Bert) -> bool:
    config = model.config
    shares = (config.hidden_dropout_prob, config.attention_probs_dropout_prob, config.classifier_dropout)
    return any(shares)


def options_of(model: Bert) -> dict[str, Any]:
    """A model's options, as they are in effect."""
    return {name: value for name, value in model.settings.items() if name != "task"}


def plain(value: object) -> str:
    """A value as a recipe has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def added_up(model: Bert) -> str:
    """The sum that a model's loss is; a part that an option bears the name of is weighed by it."""
    if model.alike:
        return f"mean over all predictions of {' and '.join(model.parts)}"
    weights = {name: f"{model.settings[name]} x " for name in model.parts if name in model.settings}
    return " + ".join(f"{weights.get(name, '')}{name}" for name in model.parts)


def _slow_in_half() -> bool:
    """Whether the processor is known to have no instructions for bfloat16."""
    look = getattr(torch.cpu, "get_capabilities", None)  # of newer versions
    capabilities: dict[str, Any] = look() if look else {}
    found = [capabilities[name] for name in ("amx_bf16", "avx512_bf16") if name in capabilities]
    return bool(found) and not any(found)


def grouped(names: Sequence[str]) -> list[str]:
    """Names of weights, those of a module that has many as one."""
    modules: dict[str, list[str]] = {}
    for name in names:
        parts = name.split(".")
        modules.setdefault(".".join(parts[: 2 if parts[0] in ("bert", "cls") else 1]), []).append(name)
    shown = ([f"{module}.* ({len(of)})"] if len(of) > 2 else of for module, of in modules.items())
    return list(itertools.chain.from_iterable(shown))
