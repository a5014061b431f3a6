"""The commands that look at what is there: datasets, parsers, keys of a config, presets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from corpora import files, sections
from pipelines.display import make_console
from pipelines.view.legible import legible_lines

app = typer.Typer()

_out = make_console()
_err = make_console(stderr=True)

Folder = Annotated[str, typer.Argument(help="Folder of a finished dataset (or of its annotated documents).")]


@app.command()
def verify(folder: Folder) -> None:
    """Prove a dataset right: hashes, schema, offsets, parses and trees. Exit status 1 if anything is wrong."""
    from corpora.manifest import MANIFEST
    from corpora.verify import verify as verify_folder
    from pipelines.graphs import is_graph, open_graph
    from pipelines.recoarse import Recoarse
    from pipelines.retokenize import Retokenizer
    from pipelines.view.folder import FolderError, foreign

    if is_graph(folder) and not files.exists(files.join(folder, MANIFEST)):
        info = open_graph(folder, check=True).info
        _out.print(f"a compiled graph of {info.triples:,} triples; every file is as it was compiled")
        return
    if why := foreign(folder):
        raise FolderError(why)
    with _err.status("verifying") as status:
        report = verify_folder(
            folder,
            progress=lambda done, of: status.update(f"verifying row {done:,} of {of:,}"),
            branch_tokens=Retokenizer(folder),
            coarse_text=Recoarse(folder),
        )
    _out.print(legible_lines("\n".join(report.render())))
    if not report.ok:
        raise typer.Exit(1)


@app.command()
def stats(
    folder: Folder,
    html: Annotated[Path | None, typer.Option(help="Also write a page with charts.")] = None,
) -> None:
    """Lengths, coverage, labels, trees and rejects of a dataset."""
    from pipelines.view import stats_show as module

    module.show(folder, _out, html)


@app.command()
def inspect(
    folder: Folder,
    row: Annotated[int | None, typer.Option(help="Row number within the split, from 0.")] = None,
    id: Annotated[str | None, typer.Option(help="Row id, or its document's, or how it begins.")] = None,
    split: Annotated[str | None, typer.Option(help="Split. Default: the first.")] = None,
    grid: Annotated[
        str,
        typer.Option(
            "--grid", "--mask", help="Mask to draw: visible, syntax, unilm (three small ones) or none."
        ),
    ] = "visible",
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Parts to print, by commas or one an option: text, tree, tokens, parse, coarse, mask. Default: all."
        ),
    ] = None,
    choice: Annotated[
        int | None, typer.Option(help="Print one choice of a question alone, from 0. Default: all.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page instead of printing.")] = None,
) -> None:
    """Look at one row: tokens, tree with branches and soft positions, parse, coarse tokens, mask."""
    from pipelines.view import inspect as module

    parts = [part.strip() for parts in only for part in parts.split(",")] if only else None
    module.show(folder, _out, row=row, id=id, split=split, grid=grid, html=html, only=parts, choice=choice)


@app.command(name="parse-eval")
def parse_eval(
    treebanks: Annotated[list[Path], typer.Argument(help="Treebanks in CoNLL-U.")],
    parser: Annotated[
        str | None,
        typer.Option(
            help="As `annotate.parser`: default (embedded), a spaCy pipeline by name or path, stanza, stanza:PATH. "
            "Paths count from here."
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Take parser, segmenter and language from this config's `annotate`.")
    ] = None,
    language: Annotated[str | None, typer.Option(help="Language of the treebanks: en, zh, ...")] = None,
    words: Annotated[
        str,
        typer.Option(
            help="gold: parse the treebank's words. own: parse the words of the segmenter, and score those that "
            "are the same."
        ),
    ] = "gold",
    segmenter: Annotated[
        str | None, typer.Option(help="With --words own, as `annotate.segmenter`: jieba, parser, ...")
    ] = None,
    no_punct: Annotated[
        bool, typer.Option("--no-punct", help="Leave words out that are punctuation throughout (CoNLL 2007).")
    ] = False,
    main_relations: Annotated[
        bool, typer.Option("--main-relations", help="`nmod:tmod` counts as `nmod` (CoNLL 2018).")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Everything as JSON.")] = False,
) -> None:
    """How well a parser parses treebanks: UPOS, UAS, LAS and CLAS.

    UAS: words with the right head; LAS: and the right relation; CLAS: LAS of content words, as an F1.
    All words of the treebank count, punctuation too, and relations with their subtypes.

    treegraft parse-eval en_ewt-ud-test.conllu --language en

    treegraft parse-eval dev.conllu --language zh --parser stanza:models --words own --segmenter parser
    """
    from pipelines.parse_eval.show import show

    show(
        treebanks,
        _out,
        config=config,
        parser=parser,
        language=language,
        segmenter=segmenter,
        words=words,
        punctuation=not no_punct,
        main_relations=main_relations,
        as_json=json,
    )


@app.command(name="config")
def config_reference(
    markdown: Annotated[bool, typer.Option("--markdown", help="As a Markdown table.")] = False,
) -> None:
    """Every key of a config file: its default and what it does."""
    from pipelines.config import Config

    if markdown:
        print(sections.as_markdown(Config))
    else:
        _out.print(sections.as_table(Config))


@app.command()
def presets() -> None:
    """Corpora known by name: what `input.preset` may be."""
    from rich.table import Table

    from corpora.presets import PRESETS

    table = Table("preset", "task", "files", "what to know", show_lines=False)
    for name, preset in PRESETS.items():
        table.add_row(Text(name, "bold"), preset.task, Text(preset.files), Text(preset.note))
    _out.print(table)
    _err.print(
        "next: `input: {preset: glue/sst2, files: {train: SST-2/train.tsv}}`; what else you write there wins, and "
        "`task` and `language` may be left out"
    )
