"""Train small Stanza models from Universal Dependencies treebanks: tokenizer, multiword tokens, tagger and parser.

    python -m pipelines.training.stanza --ud DIR --out stanza_models       (or: make stanza UD=DIR)
    python -m pipelines.training.stanza --lang fr --train fr-train.conllu --dev fr-dev.conllu --out stanza_models

The first takes the English and Chinese treebanks of `make parsers`, in the same folder layout and brought to one
convention in the same way; the second any treebank. Stanza's own trainers do the work, with small dimensions and
without pretrained vectors; only words, parts of speech and trees are learnt (the lemma is the word itself, no
features). The folder is laid out as Stanza's own: `stanza.Pipeline(lang, dir=OUT, download_method=None)` loads it,
and so does a config with `annotate.parser: stanza:OUT`. One seed gives one result on one machine.
"""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from corpora.conllu import ConlluError, read_conllu
from pipelines.annotate.stanza_pipeline import steady

PACKAGE = "treegraft"
"""Name of the models, as `ewt` or `gsdsimp` are names of Stanza's own."""

CODES = {"zh": "zh-hans"}
"""Stanza's code of a language, where it is another one; ours is written as its alias."""

_PARAGRAPH_SENTENCES = 8


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Steps are updates of the weights; widths are counts. The defaults are for treebanks of 10,000 sentences."""

    tokenize_steps: int = 1_500
    tokenize_batch: int = 32  # stretches of 100 characters
    tokenize_hidden: int = 64
    tag_steps: int = 1_000
    parse_steps: int = 1_500
    batch_sentences: int = 50  # of the tagger
    batch_words: int = 1_000  # of the parser
    evaluate: int = 250  # steps from one measurement on the dev file to the next: the best weights are kept
    word_width: int = 64
    char_width: int = 32
    hidden: int = 128
    scorer: int = 64  # of the biaffine layers
    tokenize_rate: float = 0.002
    tag_rate: float = 0.003
    parse_rate: float = 2.0  # of Adadelta
    word_cutoff: int = 3  # rarer words have no vector of their own
    dropout: float = 0.33


@dataclass(frozen=True)
class Token:
    """A surface token and its words, each (form, UPOS, head counted from 1 or 0 for the root, relation)."""

    surface: str
    space_after: bool
    words: tuple[tuple[str, str, int, str], ...]


Trees = list[list[Token]]


def read_trees(path: Path) -> Trees:
    """Sentences of a CoNLL-U file that are parsed throughout. Raises ConlluError, OSError."""
    parsed = {sentence.line for sentence in read_conllu(path) if sentence.has_parse}
    return [
        _tokens(rows) for line, rows in _blocks(path.read_text("utf-8-sig").split("\n")) if line in parsed
    ]


def _blocks(lines: Iterable[str]) -> Iterator[tuple[int, list[list[str]]]]:
    """The rows of each sentence, and its first line, from 1; the file is known to be good."""
    begin = 0
    rows: list[list[str]] = []
    for number, line in enumerate(chain(lines, [""]), 1):
        line = line.removesuffix("\r")
        if not line.strip(" "):
            if rows:
                yield begin, rows
            begin, rows = 0, []
            continue
        begin = begin or number
        if not line.startswith("#"):
            rows.append(line.split("\t"))


def _tokens(rows: Sequence[Sequence[str]]) -> list[Token]:
    words = {
        int(row[0]): (row[1], row[3] if row[3] != "_" else "X", int(row[6]), row[7])
        for row in rows
        if row[0].isdigit()
    }
    tokens: list[Token] = []
    covered = 0
    for row in rows:
        first, _, last = row[0].partition("-")
        if not first.isdigit() or int(first) <= covered:  # an empty node; a word of the range before
            continue
        covered = int(last or first)
        space = "SpaceAfter=No" not in row[9].split("|")
        tokens.append(Token(row[1], space, tuple(words[i] for i in range(int(first), covered + 1))))
    return tokens


def to_conllu(trees: Trees) -> str:
    """What the taggers and parsers are trained on: lemmas are the words, other columns empty."""
    lines: list[str] = []
    for sentence in trees:
        number = 1
        for token in sentence:
            misc = "_" if token.space_after else "SpaceAfter=No"
            several = len(token.words) > 1
            if several:
                lines.append(
                    "\t".join((f"{number}-{number + len(token.words) - 1}", token.surface, *"_______", misc))
                )
            for form, upos, head, deprel in token.words:
                values = (str(number), form, form, upos, "_", "_", str(head), deprel, "_")
                lines.append("\t".join((*values, "_" if several else misc)))
                number += 1
        lines.append("")
    return "\n".join(lines) + "\n"


def to_labels(trees: Trees, joiner: str) -> tuple[str, str]:
    """Running text in paragraphs and, character by character, what the tokenizer learns of it: 0 inside a token,
    1 at its end, 2 at a sentence's end, two more where the token has several words."""
    texts: list[str] = []
    labels: list[str] = []
    for number, sentence in enumerate(trees):
        if number:
            between = "\n\n" if number % _PARAGRAPH_SENTENCES == 0 else joiner
            texts.append(between)
            labels.append(between if between == "\n\n" else "0" * len(between))
        for at, token in enumerate(sentence):
            last = at == len(sentence) - 1
            space = " " if token.space_after and not last else ""
            texts.append(token.surface + space)
            end = 1 + last + 2 * (len(token.words) > 1)
            labels.append("0" * (len(token.surface) - 1) + str(end) + "0" * len(space))
    return "".join(texts), "".join(labels)


def train(
    language: str, trees: Trees, dev: Trees, out: Path, recipe: Recipe | None = None, seed: int = 0
) -> Path:
    """Train all models of a language into `out`, and enter them into its `resources.json`.

    `language`: code such as `en`, `zh`, `fr`. `dev` says which weights are kept; words in it are not learnt from.
    Returns the folder of the language. Raises ValueError where there is nothing to train on.
    """
    from stanza.models import mwt_expander, parser, tagger, tokenizer
    from stanza.models.common.constant import langcode_to_lang

    recipe = recipe or Recipe()
    if not trees or not dev:
        raise ValueError(
            "expected parsed sentences to train on and others to measure with, "
            f"found {len(trees)} and {len(dev)}"
        )
    code = CODES.get(language, language)
    folder = out / code
    multiword = Counter(
        (token.surface, tuple(word[0].lower() for word in token.words))
        for token in chain.from_iterable(trees)
        if len(token.words) > 1
    )
    logging.getLogger("stanza").setLevel(logging.ERROR)
    with steady(), tempfile.TemporaryDirectory() as scratch:
        data = _write_data(Path(scratch), trees, dev, "" if code.startswith(("zh", "ja")) else " ")
        (data / "mwt.json").write_text(json.dumps(list(multiword.items())), "utf-8")
        common = ["--lang", code, "--shorthand", f"{code}_{PACKAGE}", "--seed", str(seed), "--cpu"]
        conllu = ["--train_file", f"{data}/train.conllu", "--eval_file", f"{data}/dev.conllu"]
        where = {name: ["--save_dir", str(folder / name), "--save_name", f"{PACKAGE}.pt"] for name in _NAMES}
        texts = _flags(
            txt_file=data / "train.txt",
            label_file=data / "train.label",
            dev_txt_file=data / "dev.txt",
            dev_label_file=data / "dev.label",
            mwt_json_file=data / "mwt.json",
            steps=recipe.tokenize_steps,
            eval_steps=min(recipe.evaluate, recipe.tokenize_steps),
            batch_size=recipe.tokenize_batch,
            hidden_dim=recipe.tokenize_hidden,
            lr0=recipe.tokenize_rate,
            dropout=recipe.dropout,
            unit_dropout=recipe.dropout,
        )
        skip = ["--skip_newline"] if code.startswith(("zh", "ja")) else []
        tokenizer.main([*common, *where["tokenize"], *texts, *skip])
        if multiword:
            gold = ["--gold_file", f"{data}/dev.conllu", "--dict_only"]
            mwt_expander.main([*common, *where["mwt"], *conllu, *gold])
        shared = [*common, *conllu, "--no_pretrain", *_shape(recipe)]
        tags = _flags(
            max_steps=recipe.tag_steps,
            eval_interval=recipe.evaluate,
            batch_size=recipe.batch_sentences,
            lr=recipe.tag_rate,
        )
        tagger.main([*shared, *where["pos"], *tags, "--fix_eval_interval"])
        parses = _flags(
            max_steps=recipe.parse_steps,
            eval_interval=recipe.evaluate,
            batch_size=recipe.batch_words,
            lr=recipe.parse_rate,
        )
        parser.main([*shared, *where["depparse"], *parses, *_PARSER_FLAGS])
        trained = [name for name in _NAMES if name != "mwt" or multiword]
        for name in trained:
            _forget(folder / name / f"{PACKAGE}.pt", (scratch, str(folder)))
    _enter(out, language, code, langcode_to_lang(code), trained)
    return folder


_PARSER_FLAGS = ("--no_xpos", "--no_ufeats", "--no_checkpoint", "--no_second_optim")
_NAMES = ("tokenize", "mwt", "pos", "depparse")


def _write_data(folder: Path, trees: Trees, dev: Trees, joiner: str) -> Path:
    for name, part in (("train", trees), ("dev", dev)):
        (folder / f"{name}.conllu").write_text(to_conllu(part), "utf-8")
        text, labels = to_labels(part, joiner)
        (folder / f"{name}.txt").write_text(text, "utf-8")
        (folder / f"{name}.label").write_text(labels, "utf-8")
    return folder


def _forget(path: Path, folders: tuple[str, ...]) -> None:
    """Write a model without this machine's paths, and in the format whose bytes are a function of the weights."""
    import torch

    model = torch.load(path, weights_only=True)
    for key, value in model["config"].items():
        if isinstance(value, str) and value.startswith(folders):
            model["config"][key] = Path(value).name
    torch.save(model, path)


def _flags(**values: object) -> list[str]:
    return [part for name, value in values.items() for part in (f"--{name}", str(value))]


def _shape(recipe: Recipe) -> list[str]:
    return _flags(
        hidden_dim=recipe.hidden,
        char_hidden_dim=recipe.hidden // 2,
        char_emb_dim=recipe.char_width,
        word_emb_dim=recipe.word_width,
        tag_emb_dim=recipe.char_width,
        transformed_dim=recipe.word_width,
        deep_biaff_hidden_dim=recipe.scorer,
        word_cutoff=recipe.word_cutoff,
        num_layers=2,
        dropout=recipe.dropout,
    )


def _enter(out: Path, language: str, code: str, name: str, processors: Sequence[str]) -> None:
    """Put a language into `resources.json`, beside those that are there."""
    path = out / "resources.json"
    resources: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    packages = dict.fromkeys(processors, PACKAGE)
    entry: dict[str, Any] = {"lang_name": name, "packages": {"default": {**packages, "lemma": "identity"}}}
    for processor in processors:
        content = (out / code / processor / f"{PACKAGE}.pt").read_bytes()
        digest = hashlib.md5(content, usedforsecurity=False).hexdigest()  # as Stanza's own file has it
        entry[processor] = {PACKAGE: {"md5": digest}}
    resources[code] = entry
    if language != code:
        resources[language] = {"alias": code}
    path.write_text(json.dumps(resources, ensure_ascii=False, indent=1, sort_keys=True) + "\n", "utf-8")


def of_treebanks(ud: Path, language: str) -> tuple[Trees, Trees]:
    """Trees to train on and to measure with, from the folder that `make parsers` takes."""
    from pipelines.training.treebanks import load

    if language == "en":
        load(ud, "en")  # names what is missing
        return _apart(read_trees(ud / "en_ewt" / "train.conllu"))
    treebanks, _ = load(ud, language)
    trees = [
        [
            Token(form, space, ((form, upos, 0 if head == i else head + 1, deprel),))
            for i, (form, space, upos, head, deprel) in enumerate(
                zip(s.words, s.spaces, s.upos, s.heads, s.deprels, strict=True)
            )
        ]
        for s in chain.from_iterable(treebanks)
    ]
    return _apart(trees)


def _apart(trees: Trees) -> tuple[Trees, Trees]:
    """Every tenth sentence measures; files that others are measured on stay unseen."""
    return [t for i, t in enumerate(trees) if i % 10], trees[::10]


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    out: Annotated[Path, typer.Option(help="Folder of the models.")] = Path("stanza_models"),
    ud: Annotated[
        Path | None,
        typer.Option(help="Folder with en_ewt/{train,dev}.conllu and zh/{gsdsimp-dev,pud,hk,cfl}.conllu."),
    ] = None,
    lang: Annotated[str, typer.Option(help="With --ud en, zh or all; else the treebank's language.")] = "all",
    train_file: Annotated[Path | None, typer.Option("--train", help="A treebank to train on.")] = None,
    dev_file: Annotated[Path | None, typer.Option("--dev", help="One to measure with.")] = None,
    seed: Annotated[int, typer.Option(help="Order of the data, dropout and first weights.")] = 0,
) -> None:
    """Train small Stanza models: about half an hour a language on one core, without a GPU.

    A folder that exists gains a language, or has it overwritten.
    """
    jobs: dict[str, tuple[Trees, Trees]]
    try:
        if ud is not None and train_file is None and dev_file is None and lang in ("all", "en", "zh"):
            jobs = {name: of_treebanks(ud, name) for name in ("en", "zh") if lang in ("all", name)}
        elif ud is None and train_file is not None and dev_file is not None and lang != "all":
            jobs = {lang: (read_trees(train_file), read_trees(dev_file))}
        else:
            raise typer.BadParameter("give --ud (with --lang en, zh or all), or --lang, --train and --dev")
        for name, (trees, dev) in jobs.items():
            typer.echo(f"{name}: {len(trees):,} sentences to train on, {len(dev):,} to measure with")
            folder = train(name, trees, dev, out, seed=seed)
            size = sum(path.stat().st_size for path in folder.rglob("*.pt"))
            typer.echo(f"{folder}: {size / 1e6:.1f} MB; a config takes it by `annotate.parser: stanza:{out}`")
    except (FileNotFoundError, ImportError, ConlluError, ValueError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None


if __name__ == "__main__":
    app()
