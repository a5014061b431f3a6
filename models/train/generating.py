"""What `treegraft generate` does: a trained UniLM, a split, targets in a file and their scores on the screen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from corpora import files
from models.bert_batch import BatchError
from models.evaluate.evaluation import METRICS, write
from models.evaluate.measure import Result
from models.generate.search import Search, able
from models.generate.spelling import Speller
from models.generate.split import room_of, scores_of, source_columns, write_targets
from models.ranks import joined
from models.stream.open import open_split
from models.train.evaluating import asked, shown, trained
from models.train.parts import same_tokens
from models.train.reading import RecipeError
from models.train.recipe import Recipe
from models.train.state import read_tokenizer

GENERATED = "generated.jsonl"


def run(
    recipe: Recipe,
    split: str | None,
    model: str | None,
    settings: dict[str, Any],
    out: Console,
    err: Console,
) -> Result:
    """Generate a target for every source of a split, and write `generate-<split>` in the recipe's `out`.

    Args:
        split: default: the recipe's `data.dev`.
        model: folder of a model instead of the recipe's own `out/model`.
        settings: of `Search`; without `max_target_length`, or None of it, what `room_of` says.
        out, err: where scores and progress are shown, by the first of several processes.

    Raises:
        RecipeError: no split is named; there is no trained model, or none that generates; model and dataset do not
            fit; or what `Search`, `open_split` and `load` raise, ValueErrors all of them.
    """
    source, split = asked(recipe, split, model)
    with joined(recipe.threads, recipe.deterministic) as ranks:
        loaded, switched = trained(recipe, source)
        try:
            writer = able(loaded.to(ranks.device))
        except ValueError as error:
            raise RecipeError(f"{source}: {error} in the recipe, and train it") from None
        folder = recipe.data.folder_of_dev
        metadata = open_split(folder, split, ("id",)).metadata
        try:
            rows = open_split(folder, split, source_columns(metadata))
            writer.check_dataset(metadata)
            same_tokens(source, folder)
            most, told = room_of(writer, rows, settings.get("max_target_length"))
            beyond = tuple(range(metadata["vocab_size"], writer.config.vocab_size))  # of no token
            search = Search.of(
                metadata["special_ids"], forbidden=beyond, **{**settings, "max_target_length": most}
            )
            serialized = read_tokenizer(source) or read_tokenizer(folder)
            if serialized is None:
                raise RecipeError(
                    f"neither {source} nor {folder} has a tokenizer.json, which makes text of tokens"
                )
            speller = Speller(serialized)
            for line in (switched, told):
                if line and ranks.first:
                    err.print(line, soft_wrap=True)
            began = time.perf_counter()
            with _progress(err if ranks.first else None, -(-rows.rows // ranks.count)) as tell:
                table = write_targets(
                    writer,
                    rows,
                    search,
                    speller,
                    batch_size=recipe.batch.rows or 32,
                    ranks=ranks,
                    precision=recipe.precision,
                    workers=recipe.workers,
                    tell=tell,
                )
            seconds = time.perf_counter() - began
        except BatchError as error:
            raise RecipeError(str(error)) from error
        result = Result(scores_of(table, speller) if ranks.first else {}, table)
        if ranks.first:
            _tell(result, recipe, search, {"model": source, "folder": folder, "split": split}, seconds, out)
    return result


def _tell(
    result: Result, recipe: Recipe, search: Search, facts: dict[str, Any], seconds: float, out: Console
) -> None:
    """Write the files, and show what is in them."""
    table = result.predictions
    wanted = pc.sum(pc.is_valid(table["reference"])).as_py()
    cut = pc.sum(table["target_cut"]).as_py()
    unended = sum(not found[0]["ended"] for found in table["hypotheses"].to_pylist() if found)
    names = (
        "beam_size",
        "length_penalty",
        "max_target_length",
        "min_length",
        "no_repeat_ngram_size",
        "n_best",
    )
    facts |= {"rows": len(table), "references": wanted, "targets_cut": cut, "unended": unended}
    facts |= {name: getattr(search, name) for name in names}
    folder = str(Path(recipe.out) / f"generate-{facts['split']}")
    write(result, folder, facts, GENERATED)
    scored = "" if wanted else "; there are no targets to compare with, so no scores"
    on = f"{facts['folder']} ({facts['split']})"
    out.print(f"{facts['model']} on {on}, {len(table):,} rows{scored}", soft_wrap=True)
    if wanted:
        out.print(shown(result.scores))
    if cut:
        out.print(
            f"{cut:,} rows hold their target cut (encode.seq2seq.max_target); it is compared with whole",
            soft_wrap=True,
        )
    if unended:
        out.print(
            f"{unended:,} texts were cut at {search.max_target_length:,} tokens (max_target_length)",
            soft_wrap=True,
        )
    out.print(f"{len(table):,} rows in {seconds:,.1f} s, {len(table) / max(seconds, 1e-9):,.1f} rows/s")
    out.print(
        f"texts: {files.join(folder, GENERATED)} · scores: {files.join(folder, METRICS)}", soft_wrap=True
    )


@contextmanager
def _progress(console: Console | None, rows: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal; what is given is to be called with numbers of rows that were done."""
    if console is None or not console.is_terminal:
        yield lambda done: None
        return
    columns = (
        TextColumn("{task.completed:,.0f}/{task.total:,.0f} rows", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[speed_now]}", markup=False),
        TimeRemainingColumn(),
        TextColumn("left", markup=False),
    )
    began = time.perf_counter()
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=rows, speed_now="")

        def tell(done: int) -> None:
            bar.advance(task, done)
            speed = bar.tasks[0].completed / (time.perf_counter() - began)
            bar.update(task, speed_now=f"{speed:,.1f} rows/s")

        yield tell
