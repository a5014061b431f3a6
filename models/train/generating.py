"""What `treegraft generate` does: a trained UniLM, a split, targets in a file and their scores on the screen."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from corpora import files
from models.collate.collator import Collator
from models.evaluate.evaluation import METRICS, write
from models.evaluate.measure import Result
from models.generate.search import Search, able
from models.generate.spelling import Speller
from models.generate.split import room_of, scores_of, source_columns, write_targets
from models.ranks import joined
from models.stream.open import open_split
from models.train.data import batches_of_look
from models.train.parts import same_tokens
from models.train.reading import RecipeError
from models.train.recipe import Recipe
from models.train.state import read_tokenizer
from models.train.trained import Asked, asked, fitting, place_of, shown, trained

GENERATED = "generated.jsonl"
_SETTINGS = (
    "beam_size",
    "length_penalty",
    "max_target_length",
    "min_length",
    "no_repeat_ngram_size",
    "n_best",
)
"""Of the search, those that metrics.json tells."""


def run(
    recipe: Recipe,
    split: str | None,
    model: str | None,
    settings: dict[str, Any],
    out: Console,
    err: Console,
    switches: Collection[str] = (),
    to: str | None = None,
) -> Result:
    """Generate a target for every source of a split, and write what is found.

    Args:
        split: default: the recipe's `data.dev`.
        model: folder of a model instead of the recipe's own `out/model`.
        settings: of `Search`; without `max_target_length`, or None of it, what `room_of` says.
        out, err: where scores and progress are shown, by the first of several processes.
        switches: options that are as the recipe has them, though the model was trained with others
            (`models.train.trained`).
        to: folder for texts and scores; default: `generate-<split>` in the recipe's `out`.

    Raises:
        RecipeError: no split is named; there is no trained model, or none that generates; model and dataset do not
            fit; or what `Search`, `open_split` and `load` raise, ValueErrors all of them.
    """
    wanted = asked(recipe, split, model, to)
    place = place_of(recipe, to, f"generate-{wanted.split}")
    with joined(recipe.threads, recipe.deterministic) as ranks:
        loaded, unlike = trained(recipe, wanted, switches)
        try:
            writer = able(loaded.to(ranks.device))
        except ValueError as error:
            raise RecipeError(f"{wanted.source}: {error} in the recipe, and train it") from None
        metadata = open_split(wanted.folder, wanted.split, ("id",)).metadata
        with fitting():
            rows = open_split(wanted.folder, wanted.split, source_columns(metadata))
            writer.check_dataset(metadata)
            same_tokens(wanted.source, wanted.folder)
            most, told = room_of(writer, rows, settings.get("max_target_length"))
            beyond = tuple(range(metadata["vocab_size"], writer.config.vocab_size))  # of no token
            search = Search.of(
                metadata["special_ids"], forbidden=beyond, **{**settings, "max_target_length": most}
            )
            speller = _speller(wanted)
            for line in (*unlike, told):
                if line and ranks.first:
                    err.print(line, soft_wrap=True)
            began = time.perf_counter()
            with _progress(err if ranks.first else None, -(-rows.rows // ranks.count)) as tell:
                table = write_targets(
                    writer,
                    rows,
                    search,
                    speller,
                    ranks=ranks,
                    precision=recipe.precision,
                    workers=recipe.workers,
                    tell=tell,
                    **batches_of_look(recipe, Collator.of(writer)),
                )
            seconds = time.perf_counter() - began
        result = Result(scores_of(table, speller) if ranks.first else {}, table)
        if ranks.first:
            facts = {"model": wanted.source, "folder": wanted.folder, "split": wanted.split}
            facts |= _counted(table) | {name: getattr(search, name) for name in _SETTINGS}
            write(result, place, facts, GENERATED)
            for said in _lines(result, facts, place, seconds):
                out.print(said, soft_wrap=isinstance(said, str))
    return result


def _speller(wanted: Asked) -> Speller:
    """What makes text of tokens. Raises RecipeError where neither the model nor the dataset says how, or what says so
    is damaged."""
    for folder in (wanted.source, wanted.folder):
        if (serialized := read_tokenizer(folder)) is not None:
            try:
                return Speller(serialized)
            except ValueError as error:
                raise RecipeError(f"{folder}: {error}") from None
    raise RecipeError(
        f"neither {wanted.source} nor {wanted.folder} has a tokenizer.json, which makes text of tokens"
    )


def _counted(table: pa.Table) -> dict[str, int]:
    """How many rows there are, and of what kind."""
    return {
        "rows": len(table),
        "references": pc.sum(pc.is_valid(table["reference"])).as_py(),
        "targets_cut": pc.sum(table["target_cut"]).as_py(),
        "unended": sum(not found[0]["ended"] for found in table["hypotheses"].to_pylist() if found),
    }


def _lines(result: Result, facts: dict[str, Any], place: str, seconds: float) -> Iterator[str | Table]:
    """What is told of the texts."""
    rows, cut, unended = facts["rows"], facts["targets_cut"], facts["unended"]
    scored = "" if facts["references"] else "; there are no targets to compare with, so no scores"
    yield f"{facts['model']} on {facts['folder']} ({facts['split']}), {rows:,} rows{scored}"
    if facts["references"]:
        yield shown(result.scores)
    if cut:
        yield f"{cut:,} rows hold their target cut (encode.seq2seq.max_target); it is compared with whole"
    if unended:
        yield f"{unended:,} texts were cut at {facts['max_target_length']:,} tokens (max_target_length)"
    yield f"{rows:,} rows in {seconds:,.1f} s, {rows / max(seconds, 1e-9):,.1f} rows/s"
    yield f"texts: {files.join(place, GENERATED)} · scores: {files.join(place, METRICS)}"


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
