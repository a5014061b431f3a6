"""The commands that make what tokens are looked up in: phrases and vocabularies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from corpora import files
from pipelines.command_line import (
    PASS_ON,
    Annotated_,
    ConfigPath,
    Out,
    Overwrite,
    Runner,
    Workers,
    make_options,
    start,
)
from pipelines.config import as_named, load_config, names_file
from pipelines.display import make_console
from pipelines.view.legible import legible

app = typer.Typer()

_err = make_console(stderr=True)


@app.command(context_settings=PASS_ON)
def phrases(
    context: typer.Context,
    config: ConfigPath,
    out: Out = None,
    annotated: Annotated_ = None,
    runner: Runner = "local",
    workers: Workers = None,
    overwrite: Overwrite = False,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="FILE",
            help="An n-gram model that is there already, as ARPA or KenLM's binary: phrases are counted in the corpus, "
            "and scored by it. Default: one is made of the corpus.",
        ),
    ] = None,
) -> None:
    """Find the phrases of a corpus: an n-gram model, and the words that belong together.

    Writes into <out>/phrases: phrases.tsv (phrase, count, probability of its last
    word given the others, by how much the others raise it), report.json, model.arpa.

    Coarse tokens of English need it; those of Chinese are words, and do not.
    """
    from pipelines.phrases.flow import PhraseSearch
    from pipelines.phrases.report import PHRASES
    from pipelines.phrases.source import refuse_without_words

    loaded, options = start(context, config, out, annotated, runner, workers, overwrite)
    if loaded.phrases.text != "lines":
        refuse_without_words(loaded, "treegraft phrases")
    search = PhraseSearch(loaded, str(config), options, model)
    result = search.run()
    lexicon = files.join(search.folder, PHRASES)
    _err.print(
        legible(f"{lexicon}: the lexicon; report.json beside it: phrases near each limit"), soft_wrap=True
    )
    if result.phrases:
        coarse, lacking = loaded.encode.coarse, []
        if "coarse" not in loaded.encode.columns:
            lacking.append("encode.columns: [coarse]")
        if coarse is None or not names_file(config, coarse.phrases or "", lexicon):
            lacking.append(f"encode.coarse.phrases: {legible(as_named(config, lexicon))}")
        _err.print(f"next: {_change(lacking)}treegraft vocab {legible(str(config))}", soft_wrap=True)


@app.command(context_settings=PASS_ON)
def vocab(
    context: typer.Context,
    config: ConfigPath,
    fine: Annotated[
        bool, typer.Option("--fine", help="Make the fine vocabulary (WordPiece), whatever the config has.")
    ] = False,
    coarse: Annotated[
        bool,
        typer.Option("--coarse", help="Make the coarse vocabulary (words, phrases, and pieces of others)."),
    ] = False,
    out: Out = None,
    annotated: Annotated_ = None,
    runner: Runner = "local",
    workers: Workers = None,
    overwrite: Overwrite = False,
    graph: Annotated[
        Path | None,
        typer.Option(
            "--graph",
            metavar="CONFIG",
            help="Another config, whose rows have trees and this vocabulary: the fine one has the characters of its "
            "graph, too. Default: this config's `graph`, where it has one.",
        ),
    ] = None,
) -> None:
    """Make the vocabularies of a corpus: WordPiece, and the coarse one of words and phrases.

    Without --fine and --coarse: the fine one where encode.tokenizer names a vocab.txt that is not there yet, the
    coarse one where encode.columns has 'coarse'. Writes vocab.txt, coarse_vocab.txt and report.json into <out>/vocab.

    report.json, of each: entries; documents and occurrences (words) counted; coverage (shares of words and characters
    that are whole tokens, pieces or [UNK]); of the coarse one its pieces, words and phrases, and fell_out, the most
    frequent ones without room.
    """
    from pipelines.phrases.source import refuse_without_words
    from pipelines.vocab.flow import Vocabularies

    loaded, options = start(context, config, out, annotated, runner, workers, overwrite)
    if coarse:  # the fine one is of pieces of text
        refuse_without_words(loaded, "a coarse vocabulary")
    graph_of = None
    if graph is not None:
        other = load_config(graph)
        folder = make_options(other, graph, None, None, runner, workers, [], overwrite=False).out
        graph_of = other, str(graph), folder
    made = Vocabularies(loaded, str(config), options, fine=fine, coarse=coarse, graph_of=graph_of)
    named = {"fine": ("encode.tokenizer", loaded.encode.tokenizer)}
    named["coarse"] = ("encode.coarse.vocab", loaded.encode.coarse.vocab if loaded.encode.coarse else "")
    done = made.run()
    lacking = [
        f"{key}: {legible(as_named(config, path))}"
        for (key, value), path in (
            (named[side], files.join(made.folder, it.file)) for side, it in done.items()
        )
        if not names_file(config, value, path)
    ]
    if "coarse" in done and "coarse" not in loaded.encode.columns:
        lacking.append(f"encode.columns: [{', '.join([*loaded.encode.columns, 'coarse'])}]")
    if made.unnamed is not None:
        lacking.append(f"encode.coarse.phrases: {legible(as_named(config, made.unnamed))}")
    _err.print(f"next: {_change(lacking)}treegraft preprocess {legible(str(config))}", soft_wrap=True)


def _change(lacking: list[str]) -> str:
    """What to write into a config before the next command, in that command's line."""
    return f"in the config, {' and '.join(lacking)}; then " if lacking else ""
