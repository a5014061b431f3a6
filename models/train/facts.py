"""What a run was, for those who read of it later: its recipe with all that took effect, and where it ran."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from importlib import metadata as packages
from typing import Any

import torch

from models.bert import Bert
from models.collate.collator import Collator
from models.collate.kinds import Kinds
from models.collate.mlm import OPTIONS, Masking
from models.ranks import Ranks
from models.stream.shards import Split
from models.train.recipe import Recipe

_PACKAGES = ("treegraft", "torch", "transformers", "numpy")


def facts(
    recipe: Recipe, model: Bert, collator: Collator, steps: int, split: Split, ranks: Ranks
) -> dict[str, Any]:
    """What `run.json` says: the recipe with all defaults, and what it came to here; ready for JSON."""
    options = {name: value for name, value in model.settings.items() if name != "task"}
    return {
        "recipe": recipe.model_dump(mode="json"),
        "in_effect": {"options": options, **_of_steps(collator), "steps": steps},
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


def grouped(names: Sequence[str]) -> list[str]:
    """Names of weights, those of a module that has many as one."""
    modules: dict[str, list[str]] = {}
    for name in names:
        parts = name.split(".")
        modules.setdefault(".".join(parts[: 2 if parts[0] in ("bert", "cls") else 1]), []).append(name)
    shown = ([f"{module}.* ({len(of)})"] if len(of) > 2 else of for module, of in modules.items())
    return list(itertools.chain.from_iterable(shown))
