"""The best weights: those of the look at the dev split that had the best score, where the recipe names one.

    best/step-00000120/    the model of the best look so far, a folder like `model`

Which look that was stands in the checkpoints, not in what lies there: a run that goes on looks again at later steps,
and on other processes may find otherwise. So weights stay as long as a checkpoint that is kept names them.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from models.bert import Bert
from models.collate.collator import Collator
from models.evaluate.tags import scheme_of
from models.stream.open import open_split
from models.stream.shards import Split
from models.train import state as states
from models.train.data import labelled
from models.train.folder import BEST, CHECKPOINTS, MODEL, FolderError, another, named, of_steps, remove_step
from models.train.reading import RecipeError
from models.train.recipe import Recipe

_OF_ENTITIES = ("entity_f1", "entity_precision", "entity_recall")
_WITHOUT_ANSWER = ("unanswerable", "answerable_f1", "answerable_exact", "best_f1", "best_exact")
"""Scores of datasets some of whose questions have none."""
SCORES: dict[str, tuple[str, ...]] = {
    "nsp": ("accuracy", "macro_f1", "matthews"),
    "classify": ("accuracy", "macro_f1", "matthews"),
    "regress": ("spearman", "pearson", "mean_squared_error"),
    "tag": ("accuracy", *_OF_ENTITIES),
    "span": ("f1", "exact", *_WITHOUT_ANSWER),
    "choice": ("accuracy",),
}
"""By task the scores that a look may have, beside losses and those of masked tokens."""


class Best:
    """The best look of a run so far, the same in all its processes; nothing where the recipe names no score.

    Attributes:
        look: the best one so far; None before the first.
    """

    look: states.Look | None = None

    def __init__(self, recipe: Recipe, model: Bert, dev: Split | None, collator: Collator) -> None:
        """`dev`: the split that is looked at, opened with the columns of `collator`, which makes batches of it.

        Raises RecipeError for a score that this task does not have, or rows that do not have what it is of.
        """
        self.name, self._out = recipe.best, Path(recipe.out)
        if self.name is None:
            return
        assert dev is not None  # the recipe saw to it
        self._rows = dev.fingerprint
        known = scores_of(model, dev.metadata)
        if self.name not in known:
            raise RecipeError(
                f"best: {self.name!r} is no score of task {model.task.name!r} here; its scores: {', '.join(known)}"
            )
        if not labelled(model, collator, dev, known[self.name]):
            raise RecipeError(
                f"best: no row of {dev.name} has a label that {self.name!r} is a score of: name another score, or "
                "another data.dev"
            )
        if self.name in _WITHOUT_ANSWER:
            asked = open_split(recipe.data.folder_of_dev, recipe.data.dev, ("is_impossible",))
            if not asked.take(np.arange(asked.rows)).scalars["is_impossible"].any():
                raise RecipeError(
                    f"best: {self.name!r} is a score of splits with questions that have no answer, and {dev.name} has "
                    "none of these: take f1 or exact"
                )

    @property
    def folder(self) -> Path | None:
        """Where the best weights so far lie."""
        return None if self.look is None else self._out / BEST / named(self.look.step)

    def go_on(self, look: states.Look | None) -> None:
        """Take up what a checkpoint says was best. Raises FolderError where its weights are gone, or it looked at other
        rows: scores of those do not compare."""
        if self.name is None:
            return
        self.look = look
        if look is not None and look.rows not in (None, self._rows):
            raise another(self._out, ["data.dev: other rows there, at which the best look so far looked"])
        if self.folder is not None and not self.folder.is_dir():
            raise FolderError(
                f"{self.folder} is not there, the best weights by the newest checkpoint: delete that checkpoint to go "
                "on from the one before, or use --overwrite"
            )

    def take(self, step: int, scores: Mapping[str, float]) -> bool:
        """Whether a look is the best so far, by its scores: of equals that of the least loss is, then the first.

        Raises RecipeError where the first look does not have the score.
        """
        if self.name is None:
            return False
        value = scores.get(self.name)
        if value is None and self.look is None:
            raise RecipeError(
                f"best: the look at data.dev after step {step:,} has no score {self.name!r}; it has "
                f"{', '.join(scores) or 'none: are its rows labelled?'}. All that was learned is kept: write another "
                "best (or scores) and run the same command again"
            )
        loss = scores.get("loss")
        loss = loss if loss is not None and math.isfinite(loss) else None
        if value is None or value != value or not (self.look is None or self._better(value, loss)):
            return False
        self.look = states.Look(step=step, value=value, loss=loss, rows=self._rows)
        return True

    def _better(self, value: float, loss: float | None) -> bool:
        assert self.name is not None and self.look is not None
        if value == self.look.value:
            kept = self.look.loss  # where it is not known the first stays
            return loss is not None and kept is not None and loss < kept
        less = self.name.startswith("loss") or self.name == "mean_squared_error"
        return value < self.look.value if less else value > self.look.value

    def write(self, model: Bert, tokenizer: bytes | None) -> None:
        """Keep the weights of the look that is now the best."""
        assert self.folder is not None
        states.save_model(self.folder, model, tokenizer)
        self.tidy()

    def tidy(self) -> None:
        """Delete weights that were best once, by no checkpoint that is left."""
        needed = [self.look]
        for path in of_steps(self._out / CHECKPOINTS):
            with contextlib.suppress(FolderError):  # one that is damaged says so when a run goes on from it
                needed.append(states.read(path).best)
        names = {named(look.step) for look in needed if look is not None}
        for path in of_steps(self._out / BEST):
            if path.name not in names:
                remove_step(path)

    def finish(self) -> str:
        """Make the best weights the run's model; what there is to say of them."""
        assert self.folder is not None and self.look is not None
        states.copy_model(self.folder, self._out / MODEL)
        step, value = self.look.step, self.look.value
        return f"{MODEL} has the weights of step {step:,}, the best by dev {self.name} {value:.4f}"


def scores_of(model: Bert, metadata: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The scores that a look with this model at a split of this metadata may have: by name the parts of the loss, of
    which one at least must have labels there."""
    task, parts = model.task.name, model.parts
    known: dict[str, tuple[str, ...]]
    known = {f"{part.removesuffix('mlm')}masked_accuracy": (part,) for part in parts if part.endswith("mlm")}
    if "nsp" in parts and model.task.vocabulary:
        known["next_accuracy"] = ("nsp",)
    else:
        known |= dict.fromkeys(SCORES.get(task, ()), parts)
    if task == "tag" and scheme_of(metadata["labels"]) is None:
        known = {name: of for name, of in known.items() if name not in _OF_ENTITIES}
    known["loss"] = parts
    if len(parts) > 1:  # a part that an option bears the name of has no labels of its own
        known |= {f"loss_{part}": parts if part in model.settings else (part,) for part in parts}
    return known
