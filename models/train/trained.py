"""The trained model of a recipe, as evaluating and generating ask for it: which folder, which split, which options."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from corpora.files import is_uri
from corpora.manifest import read_manifest
from models import checkpoint
from models.bert import Bert
from models.bert_batch import BatchError
from models.collate.collator import Collator
from models.collate.kinds import Kinds
from models.train.facts import grouped, options_of, plain
from models.train.folder import MODEL, RUN, newest
from models.train.reading import RecipeError
from models.train.recipe import Recipe


@dataclass(frozen=True)
class Asked:
    """A model and a split.

    Attributes:
        source: the model's folder.
        saved: the model, task and options that its config says it was saved with; nothing where it says none.
        folder: of the dataset.
        split: its split.
    """

    source: str
    saved: Mapping[str, Any]
    folder: str
    split: str


def asked(recipe: Recipe, split: str | None, model: str | None, to: str | None = None) -> Asked:
    """What is asked for: a split, by default the recipe's `data.dev`, and the folder of a model, by default its own.

    Raises RecipeError where no split is named, no model was trained, or the folder is of none or another model or task;
    or where one of these, or `to`, is an empty word: of a variable that the shell does not have.
    """
    for option, value in (("--split", split), ("--model", model), ("--to", to)):
        if value == "":
            raise RecipeError(f"{option}: found '', expected a name: leave the option out for its default")
    folder, split = recipe.data.folder_of_dev, split or recipe.data.dev
    if split is None:
        there = ", ".join(read_manifest(folder).splits)
        raise RecipeError(f"no split is named: write data.dev in the recipe, or give --split, one of {there}")
    source = model or str(Path(recipe.out) / MODEL)
    if model is None and not Path(source).is_dir():
        kept = newest(Path(recipe.out))
        if kept is not None:
            raise RecipeError(
                f"{source} is not there: the run stopped after step {int(kept.name[5:]):,}, or is not done; the same "
                f"training command goes on with it. The model so far: --model {kept}"
            )
        raise RecipeError(
            f"{source} is not there: train the recipe's model first, or name another with --model"
        )
    if "/" not in source and not Path(source).exists():  # the hub has no model of ours by such an id
        raise RecipeError(f"--model: there is no folder {source}")
    try:
        saved = getattr(checkpoint.read_config(source), "treegraft", None)
    except checkpoint.CheckpointError as error:
        raise RecipeError(str(error)) from error
    saved = saved if isinstance(saved, Mapping) else {}
    for key in ("model", "task"):
        mine, its = getattr(recipe, key), saved.get(key)
        if its is not None and its != mine:
            raise RecipeError(
                f"{source} was saved with {key} {its!r}, the recipe's {key} is {mine!r}: give the recipe that it was "
                f"trained by, or --set {key}={its}"
            )
    return Asked(source, saved, folder, split)


def place_of(recipe: Recipe, to: str | None, name: str) -> str:
    """The folder for what is found: `to`, or one of this name in the recipe's `out`.

    Raises RecipeError where nothing can be written there: better said now than once all is computed.
    """
    if to is None:
        return str(Path(recipe.out) / name)
    if is_uri(to):
        return to
    path = Path(to).expanduser().absolute()
    there = next(one for one in (path, *path.parents) if os.path.lexists(one))
    if not there.is_dir():
        raise RecipeError(f"--to: {there} is no folder: name one for what is found")
    if not os.access(there, os.W_OK):
        raise RecipeError(f"--to: {there} cannot be written to")
    return str(path)


def trained(recipe: Recipe, wanted: Asked, switches: Collection[str] = ()) -> tuple[Bert, list[str]]:
    """The model as it was saved, and lines on options that are otherwise than in training, or than the recipe has them.

    Options of the recipe are those of a training to come: of what was saved with another they do not hold, but for
    `switches`, which are turned for an evaluation alone, and for `lm`, which rows without a kind are of.

    Raises RecipeError where the folder lacks weights of that model: there would be random ones in their place.
    """
    source, saved = wanted.source, wanted.saved
    options = {
        name: value
        for name, value in recipe.options.items()
        if name in switches or name not in saved or name == "lm"
    }
    try:
        made = checkpoint.load(source, recipe.model, recipe.task, attention=recipe.attention, **options)
    except checkpoint.CheckpointError as error:
        raise RecipeError(str(error)) from error
    if made.drawn:
        raise RecipeError(
            f"{source} has no {', '.join(grouped(made.drawn))} of model {recipe.model!r}, task {recipe.task!r} and the "
            "recipe's options: train them, or give the options that it was trained with"
        )
    unlike = [
        f"{name}: {plain(value)} ({plain(saved[name])} in training)"
        for name, value in options_of(made).items()
        if saved.get(name, value) != value and not (name == "lm" and _kinds_of(source))  # see `other_kinds`
    ]
    left = [
        f"{name}: {plain(saved[name])}, as in training (the recipe has {plain(value)}; --set options.{name} turns it)"
        for name, value in recipe.options.items()
        if name not in options and value is not None and value != saved[name]
    ]
    return made, [f"options {', '.join(lines)}" for lines in (unlike, left) if lines]


def other_kinds(model: Bert, collator: Collator, source: str) -> list[str]:
    """A line that tells of which kinds of language model rows are, where in the model's training they were others."""
    was = _kinds_of(source)
    if not was or not model.task.vocabulary:
        return []
    drawn = (step.shares for step in collator.steps if isinstance(step, Kinds))
    now = _shares(next(drawn, {model.settings["lm"]: 1.0}))
    return [] if now == was else [f"kinds of rows: {_plainly(now)} ({_plainly(was)} in training)"]


def _kinds_of(source: str) -> dict[str, float]:
    """The kinds of rows, with their shares, in the run of UniLM whose folder the model lies in; of another folder,
    nothing."""
    places = Path(source).resolve().parents[:2]  # of `model`, or of a checkpoint
    path = next((place / RUN for place in places if (place / RUN).is_file()), None)
    if path is None:
        return {}
    try:
        run = json.loads(path.read_bytes())["in_effect"]
        return _shares(run.get("kinds") or {run["options"]["lm"]: 1.0})
    except (OSError, ValueError, TypeError, KeyError, AttributeError, ZeroDivisionError):
        return {}


def _shares(kinds: Mapping[str, float]) -> dict[str, float]:
    total = sum(kinds.values())
    return {name: round(share / total, 6) for name, share in kinds.items() if share}


def _plainly(shares: Mapping[str, float]) -> str:
    """One kind by its name, several with their shares."""
    return ", ".join(name if len(shares) == 1 else f"{name} {share:.2g}" for name, share in shares.items())


@contextmanager
def fitting() -> Iterator[None]:
    """What does not fit the model in here is an error of the recipe."""
    try:
        yield
    except BatchError as error:
        raise RecipeError(str(error)) from error


def shown(scores: Mapping[str, float]) -> Table:
    """Scores as a table, one a line."""
    table = Table("score", "")
    for name, value in scores.items():
        table.add_row(name, f"{value:.4f}")
    return table
