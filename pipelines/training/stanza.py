"""Train small Stanza models from Universal Dependencies treebanks: tokenizer, multiword tokens, tagger and parser.

    python -m pipelines.training.stanza --ud DIR --out stanza_models       (or: make stanza UD=DIR)
    python -m pipelines.training.stanza --lang fr --train fr-train.conllu --dev fr-dev.conllu --out stanza_models

The first takes the English and Chinese treebanks of `make parsers`, in the same folder layout and brought to one
convention in the same way; the second any treebank. `--size tiny` shows in seconds whether everything works. Stanza's
own trainers do the work, with small dimensions and without pretrained vectors; only words, parts of speech and trees
are learnt (the lemma is the word itself, no features). The folder is laid out as Stanza's own:
`stanza.Pipeline(lang, dir=OUT, download_method=None)` loads it, and so does a config with
`annotate.parser: stanza:OUT`. One seed gives one result on one machine.
"""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from pipelines.annotate.stanza_pipeline import steady
from pipelines.training.stanza_data import Trees, of_treebanks, read_trees, to_conllu, to_labels

PACKAGE = "treegraft"
"""Name of the models, as `ewt` or `gsdsimp` are names of Stanza's own."""

CODES = {"zh": "zh-hans"}
"""Stanza's code of a language, where it is another one; ours is written as its alias."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Steps are updates of the weights; widths are counts. The defaults are for treebanks of 10,000 sentences."""

    sentences: int | None = None  # of a treebank's, to train on and to measure with; all of them by default
    tokenize_steps: int = 800
    tokenize_batch: int = 32  # stretches of 100 characters
    tokenize_hidden: int = 64
    tag_steps: int = 600
    parse_steps: int = 1_000
    batch_sentences: int = 25  # of the tagger
    batch_words: int = 300  # of the parser: more steps in a minute count for more than large ones
    evaluate: int = 200  # steps from one measurement on the dev file to the next: the best weights are kept
    word_width: int = 64
    char_width: int = 32
    hidden: int = 128
    layers: int = 2
    scorer: int = 64  # of the biaffine layers
    tokenize_rate: float = 0.002
    tag_rate: float = 0.003
    parse_rate: float = 0.003
    word_cutoff: int = 3  # rarer words have no vector of their own
    dropout: float = 0.33


SIZES = {
    "small": Recipe(),
    "tiny": Recipe(
        sentences=400,
        tokenize_steps=60,
        tokenize_batch=8,
        tokenize_hidden=32,
        tag_steps=50,
        parse_steps=80,
        batch_sentences=8,
        batch_words=120,
        evaluate=80,
        word_width=32,
        char_width=16,
        hidden=32,
        layers=1,
        scorer=32,
        tokenize_rate=0.01,
        tag_rate=0.015,
        parse_rate=0.01,
        dropout=0.1,
    ),
}
"""`tiny` is for trying things out: seconds a language, and better than a guess."""


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
    _entries(out)  # what cannot be read stops before the work, not after it
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
            eval_interval=min(recipe.evaluate, recipe.tag_steps),
            batch_size=recipe.batch_sentences,
            lr=recipe.tag_rate,
        )
        tagger.main([*shared, *where["pos"], *tags, "--fix_eval_interval"])
        parses = _flags(
            max_steps=recipe.parse_steps,
            eval_interval=min(recipe.evaluate, recipe.parse_steps),
            optim="adam",  # Adadelta, the default, needs many more steps to come as far
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
        num_layers=recipe.layers,
        dropout=recipe.dropout,
        word_dropout=recipe.dropout,
    )


def _enter(out: Path, language: str, code: str, name: str, processors: Sequence[str]) -> None:
    """Put a language into `resources.json`, beside those that are there."""
    resources = _entries(out)
    packages = dict.fromkeys(processors, PACKAGE)
    entry: dict[str, Any] = {"lang_name": name, "packages": {"default": {**packages, "lemma": "identity"}}}
    for processor in processors:
        content = (out / code / processor / f"{PACKAGE}.pt").read_bytes()
        digest = hashlib.md5(content, usedforsecurity=False).hexdigest()  # as Stanza's own file has it
        entry[processor] = {PACKAGE: {"md5": digest}}
    resources[code] = entry
    if language != code:
        resources[language] = {"alias": code}
    written = json.dumps(resources, ensure_ascii=False, indent=1, sort_keys=True)
    (out / "resources.json").write_text(written + "\n", "utf-8")


def _entries(out: Path) -> dict[str, Any]:
    """What `resources.json` says of each language. Raises ValueError where it is none of Stanza's."""
    path = out / "resources.json"
    if not path.exists():
        return {}
    try:
        resources = json.loads(path.read_text("utf-8"))
        if not isinstance(resources, dict):
            raise ValueError("expected an object")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read: {error}; name another folder by --out") from None
    return resources


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
    size: Annotated[
        str, typer.Option(help="small, or tiny: of few sentences and steps, to see that everything works.")
    ] = "small",
    seed: Annotated[int, typer.Option(help="Order of the data, dropout and first weights.")] = 0,
) -> None:
    """Train small Stanza models: seven minutes a language on one core, without a GPU; tiny ones: ten seconds.

    A folder that exists gains a language, or has it overwritten.
    """
    jobs: dict[str, tuple[Trees, Trees]]
    if size not in SIZES:
        raise typer.BadParameter(f"expected {' or '.join(SIZES)}, found {size!r}", param_hint="--size")
    recipe = SIZES[size]
    try:
        if ud is not None and train_file is None and dev_file is None and lang in ("all", "en", "zh"):
            jobs = {
                name: of_treebanks(ud, name, recipe.sentences)
                for name in ("en", "zh")
                if lang in ("all", name)
            }
        elif ud is None and train_file is not None and dev_file is not None and lang != "all":
            jobs = {lang: (read_trees(train_file, recipe.sentences), read_trees(dev_file, recipe.sentences))}
        else:
            raise typer.BadParameter("give --ud (with --lang en, zh or all), or --lang, --train and --dev")
        for name, (trees, dev) in jobs.items():
            typer.echo(f"{name}: {len(trees):,} sentences to train on, {len(dev):,} to measure with")
            folder = train(name, trees, dev, out, recipe, seed)
            written = sum(path.stat().st_size for path in folder.rglob("*.pt"))
            typer.echo(
                f"{folder}: {written / 1e6:.1f} MB; a config takes it by `annotate.parser: stanza:{out}`"
            )
    except (OSError, ImportError, ValueError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None


if __name__ == "__main__":
    app()
