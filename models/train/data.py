"""Rows for a run: splits, their order, the collator with its steps, and a step's rows in pieces."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from torch import Tensor

from models.bert import Bert
from models.bert_batch import BatchError, few
from models.collate.buckets import Buckets
from models.collate.collator import Collator
from models.collate.kinds import Kinds
from models.collate.mlm import OPTIONS, Masking
from models.collate.pack import Packing
from models.collate.sequences import Step
from models.evaluate.evaluation import MEASURES, columns_of
from models.heads import TASKS
from models.masks import LM_KINDS
from models.ranks import Ranks
from models.stream.loader import Loader
from models.stream.mixture import Mixture
from models.stream.open import join_splits, open_split
from models.stream.order import Order
from models.stream.rows import Rows
from models.stream.shards import Split
from models.train.parts import check_fits
from models.train.reading import RecipeError, check_keys
from models.train.recipe import TASK_NAMES, Recipe

TARGETS = {"rate": 0.7, "part": "target"}
"""Masking of rows with a target, by default: UniLM's fine-tuning (Dong et al. 2019, sections 3.1 and 3.3; the
paper also smooths labels by 0.1: `options.smoothing`)."""
_ROWS_AT_ONCE = 64
"""Rows that are looked at together for one with a label: mostly the first few tell."""
_ANY = {
    f"{prefix}{name}": value
    for prefix in ("", "coarse_")
    for name, value in (("special_ids", {"mask": 0, "sep": 1}), ("vocab_size", 9))
}
"""What a dataset says of its vocabularies, in the place of one that is not opened yet."""


@dataclasses.dataclass
class Share:
    """A process's share of the rows of a step.

    Attributes:
        batches: pieces that are computed one after the other, at least one.
        numbers: int64[n], numbers of all their rows.
        tokens: tokens that are no padding.
    """

    batches: list[dict[str, Tensor]]
    numbers: np.ndarray
    tokens: int


@dataclasses.dataclass(frozen=True)
class Pieces:
    """What makes a `Share` of rows: `count` pieces of like numbers of rows, or fewer where there are fewer rows."""

    collator: Collator
    count: int = 1

    def __call__(self, rows: Rows) -> Share:
        ends = np.linspace(0, len(rows), min(self.count, len(rows)) + 1).astype(int).tolist()
        batches = [self.collator(rows.slice(start, stop)) for start, stop in pairwise(ends)]
        tokens = sum(int((batch["sequence_id"] > 0).sum()) for batch in batches)
        return Share(batches, rows.number[rows.weight > 0], tokens)


def open_rows(recipe: Recipe, columns: tuple[str, ...] = ("input_ids",)) -> Split:
    """The rows that are learned from. Raises what `open_split` and `join_splits` do."""
    return _joined(recipe, _splits(recipe, columns))


def open_dev(recipe: Recipe, model: Bert, collator: Collator) -> Split:
    """The rows of `data.dev`. Raises what `open_split` does, and RecipeError where this model is not for them."""
    split = open_split(recipe.data.folder_of_dev, recipe.data.dev, columns_of(model, collator))
    check_rows(recipe, split.metadata)
    check_fits(model, split.metadata, recipe.data.folder[0].folder, recipe.data.folder_of_dev)
    _check_first(collator, split)
    return split


def make_loader(recipe: Recipe, model: Bert, collator: Collator, ranks: Ranks) -> Loader[Share]:
    """Steps of a run, each a `Share`. Raises RecipeError where rows cannot be divided, or none has a label."""
    splits, data, pieces = _splits(recipe, collator.columns), recipe.data, recipe.batch.accumulate
    orders = [Order(data.order, split.rows, recipe.seed, data.block, data.window) for split in splits]
    mixed = len(splits) > 1
    rows, joined = _rows(recipe, ranks), _joined(recipe, splits)
    for split in splits:
        _check_first(collator, split)
    if not labelled(model, collator, joined):
        raise RecipeError(
            f"data.split: no row of {joined.name} has a label, so there is nothing to learn: name another"
        )
    return Loader(
        joined,
        rows,
        order=Mixture(orders, [source.weight for source in data.folder]) if mixed else orders[0],
        seed=recipe.seed,
        collate=Pieces(collator, pieces),
        grouping=make_buckets(recipe, collator),
        rank=ranks.rank,
        ranks=ranks.count,
        workers=recipe.workers,
        pin_memory=ranks.device.type == "cuda" and recipe.workers > 0,
    )


def make_buckets(recipe: Recipe, collator: Collator, look: bool = False) -> Buckets | None:
    """Batches of like lengths, where `batch.tokens` says how large: of steps, or as large as their pieces for a `look`,
    which packs no rows."""
    if recipe.batch.tokens is None:
        return None
    return Buckets(
        -(-recipe.batch.tokens // (recipe.batch.accumulate if look else 1)),
        recipe.seed,
        column=collator.length_column,
        multiple=collator.pad_to,
        packed=recipe.batch.pack is not None and not look,
    )


def batches_of_look(recipe: Recipe, collator: Collator) -> dict[str, Any]:
    """Arguments of `evaluate` and `write_targets` by which their batches are no larger than pieces of a step."""
    rows = -(-(recipe.batch.rows or 32) // recipe.batch.accumulate)
    return {"batch_size": rows, "grouping": make_buckets(recipe, collator, look=True)}


def make_collator(recipe: Recipe, model: Bert, metadata: Mapping[str, Any]) -> Collator:
    """What makes batches for this model of rows of this dataset.

    Raises:
        RecipeError: masking or kinds are not for this model or task, or name what they do not have.
    """
    steps = _steps(recipe, model.kind, model.task.vocabulary, model.group == "coarse", metadata)
    try:
        pack = recipe.batch.pack and Packing(recipe.batch.pack)
        return Collator.of(model, steps=steps, pack=pack or None)
    except ValueError as error:
        raise RecipeError(f"batch.pack: {error}") from None


def check_steps(recipe: Recipe) -> None:
    """Raise RecipeError where masking or kinds are wrong whatever the dataset."""
    _steps(recipe, recipe.model, TASKS[recipe.task].vocabulary, False, _ANY)


def _steps(
    recipe: Recipe, kind: str, predicts: bool, coarse: bool, metadata: Mapping[str, Any]
) -> list[Step]:
    """Kinds and masking for a model of this kind that predicts tokens or does not, coarse ones or fine."""
    if recipe.kinds and kind != "unilm":
        raise RecipeError(f"kinds are those of unilm, the model is {kind!r}: drop kinds")
    for name in ("kinds", "masking"):
        if getattr(recipe, name) and not predicts:
            raise RecipeError(f"{name}: for tasks that predict tokens, not for {recipe.task!r}: drop {name}")
    if not predicts:
        return []
    targets, steps, section = metadata.get("task") == "seq2seq", list[Step](), "kinds"
    try:
        if kind == "unilm" and "lm" not in recipe.options:  # by which all rows are of one kind
            check_keys("kinds", recipe.kinds, LM_KINDS)
            default = {"shares": {"seq2seq": 1}} if targets else {}
            steps.append(Kinds(seed=recipe.seed, **({"shares": recipe.kinds} if recipe.kinds else default)))
        elif recipe.kinds:
            raise RecipeError("options.lm and kinds both say of which kind rows are: drop one of them")
        section = "masking"
        check_keys("masking", recipe.masking, OPTIONS)
        options = (TARGETS if targets else {}) | {"seed": recipe.seed} | recipe.masking
        if coarse and "coarse" not in options:
            options["coarse"] = True
        steps.append(Masking.of(metadata, **options))
    except RecipeError:
        raise
    except ValueError as error:
        raise RecipeError(f"{section}: {error}") from None
    return steps


def row_ids(recipe: Recipe, numbers: np.ndarray) -> list[str]:
    """Ids of the rows of these numbers, as `Rows.number` counts them."""
    return open_rows(recipe, ("id",)).take(numbers).texts["id"].to_pylist()


def _splits(recipe: Recipe, columns: tuple[str, ...]) -> list[Split]:
    return [open_split(source.folder, recipe.data.split, columns) for source in recipe.data.folder]


def _joined(recipe: Recipe, splits: list[Split]) -> Split:
    return join_splits(splits, labelled=recipe.task != "mlm")  # for which a dataset's labels are nothing


def _rows(recipe: Recipe, ranks: Ranks) -> int:
    if recipe.batch.tokens is not None:
        return ranks.count
    rows = recipe.batch.rows or 32
    if rows % ranks.count:
        raise RecipeError(
            f"batch.rows is {rows}, over all processes, and there are {ranks.count}: take a multiple of it"
        )
    return rows


def _check_first(collator: Collator, split: Split) -> None:
    """Raise RecipeError where no batch can be made of a split's first rows; those of a dataset are alike, of one task,
    one segment or two."""
    try:
        collator.check_dataset(split.metadata)
        collator(next(split.chunks(_ROWS_AT_ONCE)))
    except ValueError as error:
        raise RecipeError(f"{split.name}: {error}") from error


def check_rows(recipe: Recipe, metadata: Mapping[str, Any]) -> None:
    """Raise RecipeError where the dataset's rows are not of the task, have values for classes or the reverse, or labels
    of another scheme than that of `scores`."""
    expected, found = Collator(task=recipe.task).datasets, metadata.get("task")
    if found not in expected:
        fits = found if found in TASK_NAMES else "mlm"
        if found == "classify" and not metadata.get("labels"):  # scores have no names
            fits = "regress if its rows have scores"
        raise RecipeError(
            f"task: the dataset's rows are of task {found!r}, the recipe's task is {recipe.task!r}: write task: "
            f"{fits}, or preprocess the corpus for {expected[0]!r}"
        )
    names = metadata.get("labels")
    if recipe.task == "regress" and names:
        raise RecipeError(
            f"task: regress learns scores, the dataset's rows have classes ({few(names)}): write task: classify, or "
            "preprocess the corpus with input.score: true"
        )
    if recipe.task == "classify" and not names:
        raise RecipeError(
            "task: classify learns classes, the dataset has none: write task: regress if its rows have scores; if they "
            "have no labels, name another dataset"
        )
    if recipe.task == "tag" and not names:
        raise RecipeError("task: tag learns labels, and no row of the dataset has one: name another dataset")
    try:
        MEASURES[recipe.task].check(metadata, recipe.scores)
    except BatchError as error:
        raise RecipeError(str(error)) from None


def labels_in(model: Bert, counts: Mapping[str, Any], parts: Collection[str] | None = None) -> bool:
    """Whether by these counts of predictions (`Bert.counts`) there is a label for one of these parts of the loss;
    without, for any."""
    # What an option bears the name of is told by no label: both [CLS] of AMBERT agree about any row.
    told = [part for part in model.parts if part not in model.settings and (parts is None or part in parts)]
    return any(int(counts.get(part, 0)) for part in told)


def labelled(model: Bert, collator: Collator, split: Split, parts: Collection[str] | None = None) -> bool:
    """Whether some row of a split, opened with the collator's columns, has a label (`labels_in`)."""
    handfuls = split.chunks(_ROWS_AT_ONCE)
    return any(labels_in(model, model.counts(collator(rows)), parts) for rows in handfuls)


def remarks(recipe: Recipe, collator: Collator, metadata: Mapping[str, Any]) -> Iterator[str]:
    """What there is to say where labels tell nothing, or a row may be longer than `batch.tokens` or `batch.pack`."""
    names: list[str] = metadata.get("labels") or []
    if recipe.task in ("classify", "tag") and len(names) == 1:
        yield f"{names[0]!r} is the dataset's one label: there is nothing to learn"
    tree = collator.length_column == "tree_ids"
    longest = metadata.get("tree_max_length" if tree else "max_length") or 0
    for name, alone in (("tokens", "step"), ("pack", "sequence")):
        room = getattr(recipe.batch, name)
        if room is not None and room < longest:
            yield f"batch.{name} is {room:,}, rows may have {longest:,} tokens: a longer one is a {alone} of its own"
