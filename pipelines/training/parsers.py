"""Train the embedded default parsers, models/parsers/{en,zh}_ud_small, from Universal Dependencies treebanks.

    python -m pipelines.training.parsers --ud DIR --out models/parsers        (or: make parsers UD=DIR)

DIR holds en_ewt/{train,dev}.conllu and zh/{gsdsimp-dev,pud,hk,cfl}.conllu. About 70 seconds an epoch for English and 40
for Chinese on one core; under 6 MB each; the folders load with `spacy.load` alone. Weights are running averages over
the steps (thinc's `use_averages`), for Chinese averaged once more over the ends of the last epochs; no checkpoint is
picked by its score. One seed gives one result on one machine.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import spacy
import typer
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import Adam, fix_random_seed, warmup_linear

from corpora.conllu import ConlluError, ConlluSentence
from pipelines.parse_eval.score import Counts, Trees, count, strings
from pipelines.training.dictionary import TagLessons, jieba_dictionary
from pipelines.training.network import RECIPES, Recipe, build
from pipelines.training.treebanks import Sentence, load, plain, trained_on


def doc(nlp: Language, sentences: Sequence[Sentence], *, starts: bool = True, lower: bool = False) -> Doc:
    """The words of some sentences as one document; with `starts` the parser is told where each begins."""
    made = Doc(
        nlp.vocab,
        words=[word.lower() if lower else word for s in sentences for word in s.words],
        spaces=[space for s in sentences for space in s.spaces],
        sent_starts=[i == 0 for s in sentences for i in range(len(s.words))] if starts else None,
    )
    treebanks = (s.treebank for s in sentences for _ in s.words)
    for token, treebank in zip(made, treebanks, strict=True):
        token.ent_kb_id_ = treebank  # TREEBANK of the network
    return made


def example(
    nlp: Language, sentences: Sequence[Sentence], *, starts: bool = False, lower: bool = False
) -> Example:
    """A training example: the bare document and the same with parts of speech and trees."""
    guess = doc(nlp, sentences, starts=starts, lower=lower)
    heads: list[int] = []
    for s in sentences:
        base = len(heads)
        heads += [base + head for head in s.heads]
    gold = Doc(
        nlp.vocab,
        words=[token.text for token in guess],
        spaces=[space for s in sentences for space in s.spaces],
        pos=[pos for s in sentences for pos in s.upos],
        morphs=[""] * len(heads),  # said to be empty: unset, they would void the part of speech too
        heads=heads,
        deps=["ROOT" if label == "root" else label for s in sentences for label in s.deprels],
    )
    return Example(guess, gold)


def batches(
    nlp: Language, treebanks: list[list[Sentence]], recipe: Recipe, rng: random.Random
) -> Iterator[list[Example]]:
    """One epoch in random order: sentences alone and in runs of up to six, half with their starts given.

    Runs teach the parser to find sentence ends, and to parse documents whose sentences are given. What is left at
    the end, less than a batch, is not trained on in this epoch; an epoch of less than a batch is one batch.
    """
    dictionary = jieba_dictionary() if recipe.exchanged else None
    runs: list[list[Sentence]] = []
    for treebank in [treebanks[0]] * (recipe.upsample - 1) + treebanks:
        more = 0
        for sentence in treebank:
            s = sentence.variant if sentence.variant and rng.random() < recipe.variants else sentence
            if more and runs[-1][0].document == s.document and sum(len(t.words) for t in runs[-1]) < 120:
                runs[-1].append(s)
                more -= 1
            else:
                runs.append([s])
                more = rng.randint(1, 5) if rng.random() < recipe.several else 0
    rng.shuffle(runs)
    batch: list[Example] = []
    words, full = 0, False
    for run in runs:
        if dictionary:
            run = [dictionary.exchange(s, recipe.exchanged, rng) for s in run]
        batch.append(example(nlp, run, starts=rng.random() < 0.5, lower=rng.random() < recipe.lower_case))
        words += sum(len(s.words) for s in run)
        if words >= recipe.batch_words:
            yield batch
            batch, words, full = [], 0, True
    if batch and not full:
        yield batch


def fit(
    treebanks: list[list[Sentence]],
    recipe: Recipe,
    *,
    seed: int = 0,
    report: Callable[[int, Language], None] | None = None,
) -> Language:
    """Train a pipeline; after each epoch `report(epoch, nlp)` is called with the averaged weights in place."""
    fix_random_seed(seed)
    rng = random.Random(seed)  # noqa: S311 - order of training data, no secret
    nlp = build(recipe)
    everything = [example(nlp, [s]) for treebank in treebanks for s in treebank]
    nlp.initialize(lambda: everything)
    lessons = TagLessons(nlp, jieba_dictionary(), seed=seed) if recipe.tag_updates else None
    if lessons:
        lessons.first(recipe.tag_updates)
    words = sum(len(s.words) for bank in [treebanks[0]] * (recipe.upsample - 1) + treebanks for s in bank)
    steps = max(1, recipe.epochs * words // recipe.batch_words)
    optimizer = Adam(
        warmup_linear(recipe.learn_rate, steps // 20, int(steps * recipe.decay)),  # type: ignore[arg-type]
        L2=0.01,
        L2_is_weight_decay=True,
        grad_clip=1.0,
        use_averages=True,
    )
    mean: dict[Any, Any] = {}
    averaged_epochs = 0
    for epoch in range(recipe.epochs):
        for batch in batches(nlp, treebanks, recipe, rng):
            nlp.update(batch, sgd=optimizer, drop=recipe.dropout)
            if lessons:  # lest they be forgotten
                lessons.update(optimizer, recipe.tag_words, weight=0.5)
            optimizer.step_schedules()
        if epoch <= recipe.epochs - recipe.last_epochs:  # before that epoch's end, each stands alone
            averaged_epochs, mean = 0, {}
        averaged_epochs += 1
        for key, weights in optimizer.averages.items():
            mean[key] = mean[key] + (weights - mean[key]) / averaged_epochs if key in mean else weights.copy()
        if report:
            with nlp.use_params(mean):
                report(epoch, nlp)
    with nlp.use_params(mean):
        averaged = nlp.to_bytes()
    return nlp.from_bytes(averaged)  # after the block, whose end puts the weights of the last step back


@dataclass(frozen=True)
class Scores:
    """Percent of words, punctuation included, with the right part of speech, head, and head and relation."""

    upos: float
    uas: float
    las: float
    words: int  # measured on

    def __str__(self) -> str:
        return f"UPOS {self.upos:.1f}, UAS {self.uas:.1f}, LAS {self.las:.1f} on {self.words:,} words"


def score_words(nlp: Language, gold: Sequence[ConlluSentence], *, starts: bool = True) -> Scores:
    """Scores on the treebank's own words, a sentence a document; without `starts` it may split sentences."""
    docs = nlp.pipe([doc(nlp, [plain(s, "")], starts=starts) for s in gold])
    counts = (count(_gold_tree(s), _tree(parsed)) for parsed, s in zip(docs, gold, strict=True))
    return _scores(sum(counts, Counts()))


def score_text(nlp: Language, gold: Sequence[ConlluSentence]) -> tuple[Scores, float]:
    """Scores on raw text with the pipeline's own words, over words that are also the treebank's.

    A head is right when it is the treebank's head word, character for character. Also returns the percent of
    the treebank's words that were found.
    """
    counts = Counts()
    for parsed, s in zip(nlp.pipe([s.text for s in gold]), gold, strict=True):
        place = {(token.idx, token.idx + len(token)): token.i for token in parsed}
        same = np.array([place.get(span, -1) for span in zip(s.starts, s.stops, strict=True)], np.int64)
        counts += count(_gold_tree(s), _tree(parsed), same)
    return _scores(counts), 100 * counts.words / sum(len(s.forms) for s in gold)


def _tree(parsed: Doc) -> Trees:
    heads = np.array([token.head.i for token in parsed], np.int64)
    labels = ["root" if token.dep_ == "ROOT" else token.dep_ for token in parsed]
    return Trees(heads, strings(labels), strings([token.pos_ for token in parsed]))


def _gold_tree(s: ConlluSentence) -> Trees:
    return Trees(np.array(s.heads, np.int64), strings(s.deprels), strings(s.upos))


def _scores(counts: Counts) -> Scores:
    found = counts.percents()
    return Scores(found["upos"] or 0.0, found["uas"] or 0.0, found["las"] or 0.0, counts.words)


def save(
    nlp: Language, recipe: Recipe, folder: Path, performance: dict[str, float], treebanks: dict[str, str]
) -> None:
    """Write the spaCy folder without the words of the treebanks: features are hashes, only labels need strings.

    `treebanks`: see `trained_on`; `treegraft parse-eval` warns of them.
    """
    nlp.meta.update(
        name=recipe.name,
        version="1.0.0",
        description=f"Small part-of-speech tagger and dependency parser ({recipe.lang}), see README.md",
        license="CC BY-SA 4.0",
        spacy_version=">=3.7,<4",
        author="Treegraft",
        performance=performance,
        trained_on=treebanks,
    )
    folder.mkdir(parents=True, exist_ok=True)
    nlp.to_disk(folder, exclude=["vectors", "lookups"])
    labels = {label for pipe in nlp.pipe_names if pipe != "tok2vec" for label in nlp.get_pipe(pipe).labels}
    known = sorted({*spacy.blank(recipe.lang).vocab.strings, *labels} - {""})
    (folder / "vocab" / "strings.json").write_text(json.dumps(known, ensure_ascii=False, indent=0), "utf-8")


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    ud: Annotated[
        Path,
        typer.Option(help="Folder with en_ewt/{train,dev}.conllu and zh/{gsdsimp-dev,pud,hk,cfl}.conllu."),
    ],
    out: Annotated[Path, typer.Option(help="Writes OUT/en_ud_small and OUT/zh_ud_small.")] = Path(
        "models/parsers"
    ),
    lang: Annotated[str, typer.Option(help="en, zh, or all.")] = "all",
    seed: Annotated[int, typer.Option(help="Order of the data, dropout and first weights.")] = 0,
    epochs: Annotated[int, typer.Option(help="Passes over the data; 0: the recipe's, en 8, zh 11.")] = 0,
) -> None:
    """Train the two small parsers that Treegraft ships. About a quarter of an hour on one core, without a GPU.

    English is trained on UD EWT train and measured on its dev file. Chinese is trained on UD PUD, HK and CFL
    (simplified by OpenCC), four fifths of GSDSimp dev and the tags of jieba's dictionary, and measured on the
    last fifth. Prints the scores of each epoch. A folder that exists is overwritten; its README.md and LICENSE stay.
    """
    if lang not in ("all", *RECIPES):
        raise typer.BadParameter(f"expected en, zh or all, found {lang!r}", param_hint="--lang")
    if epochs < 0:
        raise typer.BadParameter(f"expected a positive number, found {epochs}", param_hint="--epochs")
    try:
        data = {name: load(ud, name) for name in RECIPES if lang in ("all", name)}
    except (FileNotFoundError, ImportError, ConlluError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    for name, (treebanks, gold) in data.items():
        recipe = replace(RECIPES[name], epochs=epochs or RECIPES[name].epochs)

        def report(epoch: int, nlp: Language, gold: list[ConlluSentence] = gold, name: str = name) -> None:
            typer.echo(f"{name} epoch {epoch + 1}: {score_words(nlp, gold)}")

        nlp = fit(treebanks, recipe, seed=seed, report=report)
        given, found, (text, coverage) = (
            score_words(nlp, gold),
            score_words(nlp, gold, starts=False),
            score_text(nlp, gold),
        )
        typer.echo(f"{name}, the treebank's words, sentence known: {given}")
        typer.echo(f"{name}, the treebank's words, sentences found: {found}")
        typer.echo(f"{name}, raw text: {text} ({coverage:.1f} % of the treebank's)")
        folder = out / f"{name}_{recipe.name}"
        performance = {"pos_acc": given.upos, "dep_uas": given.uas, "dep_las": given.las}
        save(nlp, recipe, folder, performance, trained_on(ud, name))
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        typer.echo(f"{folder}: {size / 1e6:.2f} MB; load it with spacy.load({str(folder)!r})")


if __name__ == "__main__":
    app()
