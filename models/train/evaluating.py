"""What `treegraft evaluate` does: the trained model of a recipe, a split, scores on the screen and in files."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator
from typing import Any

from rich.console import Console
from rich.table import Table

from corpora import files
from models.evaluate.evaluation import METRICS, PREDICTIONS, columns_of, evaluate, write
from models.evaluate.measure import Result
from models.evaluate.tokens import spelled
from models.ranks import joined
from models.stream.open import open_split
from models.stream.shards import Split
from models.train.data import batches_of_look, make_collator
from models.train.facts import options_of, plain
from models.train.parts import check_fits, token_names
from models.train.recipe import Recipe
from models.train.trained import asked, fitting, other_kinds, place_of, shown, trained


def run(
    recipe: Recipe,
    split: str | None,
    model: str | None,
    console: Console,
    switches: Collection[str] = (),
    to: str | None = None,
) -> Result:
    """Evaluate a recipe's trained model, or another, by its `scores`, and write what is found.

    Args:
        split: default: the recipe's `data.dev`.
        model: folder of a model instead of the recipe's own `out/model`.
        console: where scores are shown, by the first of several processes.
        switches: options that are as the recipe has them, though the model was trained with others
            (`models.train.trained`).
        to: folder for scores and predictions; default: `eval-<split>` in the recipe's `out`.

    Raises:
        RecipeError: no split is named; there is no trained model; model and dataset do not fit; or what `open_split`
            and `load` raise, ValueErrors all of them.
    """
    wanted = asked(recipe, split, model, to)
    out = place_of(recipe, to, f"eval-{wanted.split}")
    with joined(recipe.threads, recipe.deterministic) as ranks:
        loaded, unlike = trained(recipe, wanted, switches)
        loaded.to(ranks.device)
        metadata = open_split(wanted.folder, wanted.split, ("id",)).metadata
        with fitting():
            check_fits(loaded, metadata, wanted.source, wanted.folder)
            collator = make_collator(recipe, loaded, metadata)
            rows = open_split(wanted.folder, wanted.split, columns_of(loaded, collator))
            result = evaluate(
                loaded,
                rows,
                collator,
                options=recipe.scores,
                ranks=ranks,
                precision=recipe.precision,
                workers=recipe.workers,
                **batches_of_look(recipe, collator),
            )
        if ranks.first:
            result = _spelled(result, wanted.folder)
            facts = {
                "model": wanted.source,
                "folder": wanted.folder,
                "split": wanted.split,
                "rows": rows.rows,
            }
            facts |= {"options": options_of(loaded), "precision": recipe.precision}
            write(result, out, facts)
            unlike += other_kinds(loaded, collator, wanted.source)
            for told in _lines(result, rows, out, wanted.source, unlike):
                console.print(told, soft_wrap=isinstance(told, str))
    return result


def _lines(result: Result, rows: Split, out: str, source: str, unlike: list[str]) -> Iterator[str | Table]:
    """What is told of an evaluation; `unlike`: lines on what is otherwise than in training."""
    yield f"{source} on {rows.name}, {rows.rows:,} rows"
    yield from unlike
    yield shown(result.scores) if result.scores else "no scores, for no row has a label"
    yield from result.remarks
    yield from (_listed(name, table) for name, table in result.tables.items())
    if result.rules:
        rules = ", ".join(f"{name}: {plain(value)}" for name, value in result.rules.items())
        yield f"{'scored' if result.scores else 'read'} by {rules}"
    yield f"scores: {files.join(out, METRICS)} · predictions: {files.join(out, PREDICTIONS)}"
    if result.files:
        yield f"for official scripts: {', '.join(files.join(out, name) for name in result.files)}"
    if rows.metadata.get("task") == "seq2seq":
        yield (
            "These are scores of masked tokens, their neighbours given. Texts are written, and measured by ROUGE and "
            "BLEU, by `treegraft generate` with the same recipe."
        )


def _spelled(result: Result, folder: str) -> Result:
    """With masked tokens as strings, by the dataset's lists of tokens; where it has none they stay ids."""
    table = result.predictions
    for prefix in ("", "coarse_"):
        path = files.join(folder, f"{prefix}tokens.txt")
        if f"{prefix}tokens" in table.column_names and files.exists(path):
            table = spelled(table, token_names(files.read_bytes(path)), prefix)
    return dataclasses.replace(result, predictions=table)


def _listed(title: str, rows: list[dict[str, Any]]) -> Table:
    table = Table(*(rows[0] if rows else ()), title=title, title_justify="left")
    for row in rows:
        table.add_row(*(f"{x:.4f}" if isinstance(x, float) else str(x) for x in row.values()))
    return table
