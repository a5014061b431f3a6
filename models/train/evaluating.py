"""What `treegraft evaluate` does: the trained model of a recipe, a split, scores on the screen and in files."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from corpora import files
from corpora.manifest import read_manifest
from models import checkpoint
from models.bert import Bert
from models.bert_batch import BatchError
from models.evaluate.evaluation import METRICS, PREDICTIONS, columns_of, evaluate, write
from models.evaluate.measure import Result
from models.evaluate.tokens import spelled
from models.ranks import joined
from models.stream.open import open_split
from models.train.data import make_collator
from models.train.facts import grouped, options_of, plain
from models.train.folder import MODEL, newest
from models.train.parts import check_fits
from models.train.reading import RecipeError
from models.train.recipe import Recipe


def run(recipe: Recipe, split: str | None, model: str | None, console: Console) -> Result:
    """Evaluate a recipe's trained model, or another, by its `scores`, and write `eval-<split>` in the recipe's `out`.

    Args:
        split: default: the recipe's `data.dev`.
        model: folder of a model instead of the recipe's own `out/model`.
        console: where scores are shown, by the first of several processes.

    Raises:
        RecipeError: no split is named; there is no trained model; model and dataset do not fit; or what `open_split`
            and `load` raise, ValueErrors all of them.
    """
    source, split = asked(recipe, split, model)
    with joined(recipe.threads, recipe.deterministic) as ranks:
        loaded, switched = trained(recipe, source)
        loaded.to(ranks.device)
        folder = recipe.data.folder_of_dev
        metadata = open_split(folder, split, ("id",)).metadata
        try:
            check_fits(loaded, metadata, source, folder)
            collator = make_collator(recipe, loaded, metadata)
            rows = open_split(folder, split, columns_of(loaded, collator))
            result = evaluate(
                loaded,
                rows,
                collator,
                options=recipe.scores,
                batch_size=recipe.batch.rows or 32,
                ranks=ranks,
                precision=recipe.precision,
                workers=recipe.workers,
            )
        except BatchError as error:
            raise RecipeError(str(error)) from error
        if ranks.first:
            out = str(Path(recipe.out) / f"eval-{split}")
            result = _spelled(result, folder)
            facts = {"model": source, "folder": folder, "split": split, "rows": rows.rows}
            write(result, out, facts | {"options": options_of(loaded), "precision": recipe.precision})
            console.print(f"{source} on {rows.name}, {rows.rows:,} rows", soft_wrap=True)
            if switched:
                console.print(switched, soft_wrap=True)
            console.print(shown(result.scores) if result.scores else "no scores, for no row has a label")
            for name, table in result.tables.items():
                console.print(_listed(name, table))
            if result.rules:
                rules = ", ".join(f"{name}: {plain(value)}" for name, value in result.rules.items())
                console.print(f"scored by {rules}", soft_wrap=True)
            told = f"scores: {files.join(out, METRICS)} · predictions: {files.join(out, PREDICTIONS)}"
            console.print(told, soft_wrap=True)
            if result.files:
                told = ", ".join(files.join(out, name) for name in result.files)
                console.print(f"for official scripts: {told}", soft_wrap=True)
            if metadata.get("task") == "seq2seq":
                console.print(
                    "These are scores of masked tokens, their neighbours given. Texts are written, and measured by "
                    "ROUGE and BLEU, by `treegraft generate` with the same recipe.",
                    soft_wrap=True,
                )
    return result


def _spelled(result: Result, folder: str) -> Result:
    """With masked tokens as strings, by the dataset's lists of tokens; where it has none they stay ids."""
    table = result.predictions
    for prefix in ("", "coarse_"):
        path = files.join(folder, f"{prefix}tokens.txt")
        if f"{prefix}tokens" in table.column_names and files.exists(path):
            names = files.read_bytes(path).decode("utf-8", "backslashreplace").removesuffix("\n").split("\n")
            table = spelled(table, names, prefix)
    return dataclasses.replace(result, predictions=table)


def asked(recipe: Recipe, split: str | None, model: str | None) -> tuple[str, str]:
    """The model's folder and the split.

    Raises RecipeError where no split is named, no model was trained, or the folder is of none or another model or task.
    """
    split = split or recipe.data.dev
    if split is None:
        there = ", ".join(read_manifest(recipe.data.folder_of_dev).splits)
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
    return source, split


def trained(recipe: Recipe, source: str) -> tuple[Bert, str]:
    """The model of a folder under the recipe's options, and a line that tells which of them it was not trained with: a
    switch may be turned for an evaluation alone.

    Raises RecipeError where the folder lacks weights of that model: there would be random ones in their place.
    """
    try:
        made = checkpoint.load(
            source, recipe.model, recipe.task, attention=recipe.attention, **recipe.options
        )
    except checkpoint.CheckpointError as error:
        raise RecipeError(str(error)) from error
    if made.drawn:
        raise RecipeError(
            f"{source} has no {', '.join(grouped(made.drawn))} of model {recipe.model!r}, task {recipe.task!r} and the "
            "recipe's options: train them, or give the options that it was trained with"
        )
    saved = getattr(checkpoint.read_config(source), "treegraft", None)
    had = saved if isinstance(saved, Mapping) else {}
    other = [
        f"{name}: {plain(value)} ({plain(had[name])} in training)"
        for name, value in options_of(made).items()
        if had.get(name, value) != value
    ]
    return made, f"options {', '.join(other)}" if other else ""


def shown(scores: Mapping[str, float]) -> Table:
    """Scores as a table, one a line."""
    table = Table("score", "")
    for name, value in scores.items():
        table.add_row(name, f"{value:.4f}")
    return table


def _listed(title: str, rows: list[dict[str, Any]]) -> Table:
    table = Table(*(rows[0] if rows else ()), title=title, title_justify="left")
    for row in rows:
        table.add_row(*(f"{x:.4f}" if isinstance(x, float) else str(x) for x in row.values()))
    return table
