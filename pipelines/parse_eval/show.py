"""What `treegraft parse-eval` runs and prints."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from corpora.files import open_decompressed
from pipelines.annotate.parsers import find_parser, learnt_from, load_parser, parser_identity
from pipelines.annotate.segmenters import find_segmenter, load_segmenter, segmenter_identity
from pipelines.config import AnnotateConfig, ConfigError, load_config, resolve
from pipelines.language import primary_language
from pipelines.parse_eval.evaluate import Result, evaluate
from pipelines.view.legible import legible


def show(
    files: Sequence[Path],
    console: Console,
    *,
    config: Path | None,
    parser: str | None,
    language: str | None,
    segmenter: str | None,
    words: str,
    punctuation: bool,
    main_relations: bool,
    as_json: bool,
) -> None:
    """Score a parser on treebanks, and print. Raises ConfigError, ConlluError, OSError."""
    if words not in ("gold", "own"):
        raise ConfigError(f"--words: expected gold or own, found {words!r}")
    if segmenter and words == "gold":
        raise ConfigError(
            "--segmenter: the treebank's words are given; add --words own to have them segmented"
        )
    for path in files:
        if not path.is_file():
            raise ConfigError(f"{path} is no file; name CoNLL-U files")
    loaded = None if config is None else load_config(config)
    if not (spoken := language or (loaded and loaded.language)):
        raise ConfigError(
            "--language: name the language of the treebanks, such as en or zh (or give --config)"
        )
    code, here = primary_language(spoken), str(Path("here"))
    settings = AnnotateConfig() if loaded is None else loaded.annotate
    name = parser or settings.parser
    if name in ("none", "given"):
        raise ConfigError(
            f"--parser: {name!r} names no parser; name one: default, a spaCy pipeline, stanza, stanza:PATH"
        )
    found = find_parser(name, code, here if parser or config is None else str(config))
    tool = load_parser(found, batch_words=settings.batch_words, gpu=settings.gpu)
    splitter, splitter_identity = None, None
    if words == "own":
        user_dict = settings.user_dict and resolve(str(config), settings.user_dict)
        place = here if segmenter or config is None else str(config)
        found_words = find_segmenter(segmenter or settings.segmenter, code, user_dict, found, place)
        splitter = load_segmenter(found_words, tool, gpu=settings.gpu)
        splitter_identity = segmenter_identity(found_words)
    results = [
        evaluate(path, tool, splitter, punctuation=punctuation, main_relations=main_relations)
        for path in files
    ]
    total = results[0]
    for result in results[1:]:
        total = total.plus(result)
    seen = learnt_from(found)
    facts = {
        "parser": parser_identity(found),
        "segmenter": splitter_identity,
        "language": code,
        "words": words,
        "sentences": "gold",
        "punctuation": "counted" if punctuation else "left out",
        "relations": "main" if main_relations else "with subtypes",
        "trained_on": [str(path) for path in files if content_hash(path) in seen],
    }
    if as_json:
        listed = {**facts, "files": [result.as_dict() for result in results]}
        print(
            json.dumps({**listed, "all": replace(total, file="all").as_dict()}, ensure_ascii=False, indent=2)
        )
        return
    _print(console, facts, results, replace(total, file="all"))


def content_hash(path: Path) -> str:
    """SHA-256 of a treebank, compressed or not."""
    digest = hashlib.sha256()
    with open_decompressed(str(path)) as file:
        while chunk := file.read(2**20):
            digest.update(chunk)
    return digest.hexdigest()


def _print(console: Console, facts: dict[str, Any], results: list[Result], total: Result) -> None:
    own = facts["words"] == "own"
    parser, segmenter = facts["parser"], facts["segmenter"]
    console.print(Text(f"parser:    {legible(parser['name'])} {legible(parser['version'])}"))
    if own:
        console.print(
            Text(
                f"words:     its own ({legible(segmenter['name'])} {legible(segmenter['version'])}); those that are "
                "the treebank's too are scored"
            )
        )
    else:
        console.print(Text("words:     the treebank's"))
    console.print(Text("sentences: the treebank's"))
    console.print(Text(f"scored:    punctuation {facts['punctuation']}; relations {facts['relations']}\n"))
    heads = ["file", "sentences", "words", *(["found %"] if own else []), "UPOS", "UAS", "LAS", "CLAS"]
    table = Table(*heads, box=None, pad_edge=False)
    table.columns[0].overflow = "fold"
    for column in table.columns[1:]:
        column.justify = "right"
    for result in [*results, *([total] if len(results) > 1 else [])]:
        shares = result.counts.percents()
        cells = [legible(result.file), f"{result.sentences:,}", f"{result.counts.words:,}"]
        if own:
            cells.append(f"{100 * result.same / max(1, result.gold_words):.1f}")
        cells += ["-" if share is None else f"{share:.2f}" for share in shares.values()]
        table.add_row(*cells)
    console.print(table)
    for file in facts["trained_on"]:
        console.print(
            Text.assemble(
                ("\nwarning: ", "yellow"),
                f"{legible(parser['name'])} was trained on sentences of {legible(file)}; it parses new text less well",
            ),
            soft_wrap=True,  # a path is never broken
        )
    if total.unparsed:
        console.print(Text(f"\n{total.unparsed:,} sentences without a tree were left out"))
    if total.seconds:
        console.print(Text(f"\n{total.found / total.seconds:,.0f} words a second"))
