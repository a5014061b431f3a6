"""Commands of training, a room of the command line (pyproject's entry points). Torch is loaded as one of them runs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from models.with_torch import need_torch, quiet, torch_said

app = typer.Typer()

_TASKS = {
    "pretrain": ("mlm", "nsp", "pretrain"),
    "finetune": ("mlm", "classify", "regress", "tag", "span", "choice"),
}

RecipePath = Annotated[
    Path, typer.Argument(help="YAML recipe; relative paths in it count from its own folder.")
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Another value for a key, as often as wanted: --set optim.lr=3e-5 --set 'options={direction: none}'. "
        "Paths count from the working directory.",
    ),
]
Out = Annotated[str | None, typer.Option(help="Folder of the run, instead of the recipe's `out`.")]
Overwrite = Annotated[
    bool,
    typer.Option(
        "--overwrite", help="Begin anew: delete what a run left in the folder, once all could be opened."
    ),
]
To = Annotated[
    str | None,
    typer.Option(
        help="Folder for what is found, instead of one in OUT, where it takes the last one's place."
    ),
]


@app.command()
def pretrain(recipe: RecipePath, set_: Set = None, out: Out = None, overwrite: Overwrite = False) -> None:
    """Pretrain a model on shards: masked tokens, next sentences, UniLM's objectives.

    A recipe for BERT from scratch, on the dataset that `treegraft preprocess my.yaml` wrote to out/my:

        model: bert             # or unilm; kbert, sgnet start from BERT
        task: pretrain          # masked tokens and next sentences; mlm: the
                                # first, all that ambert has
        new: {layers: 4, width: 256, heads: 4}   # or init: CHECKPOINT
        data: {folder: out/my}  # or several, [{folder: out/a, weight: 2}, ...]
        batch: {rows: 64}       # or tokens: 16384; accumulate: 4 saves memory
        masking: {rate: 0.15}   # units: word masks whole words
        optim: {lr: 5e-4, warmup: 0.1, epochs: 20}    # or steps: 10000
        save_every: 500         # steps; Ctrl-C keeps a checkpoint, too
        out: out/my-bert        # on a GPU also write precision: bf16

    UniLM draws a kind of language model for each row:

        model: unilm
        # shares; default: the published ones
        kinds: {bidirectional: 1, left_to_right: 1, seq2seq: 2}
        # or, all rows of one kind: options: {lm: left_to_right}

    The folder `out` gets `model` (the last step's, or the best: see `best`; transformers loads it), run.json
    (the recipe with all defaults, device, versions), metrics.jsonl, curves.svg and checkpoints. A run that was stopped,
    killed even, goes on when the same command runs again, to the same weights to the bit. `treegraft recipe` shows
    all keys.

    Several processes or GPUs: torchrun --nproc-per-node 2 --no-python treegraft pretrain my.yaml
    """
    _train("pretrain", recipe, set_, out, overwrite)


@app.command()
def finetune(recipe: RecipePath, set_: Set = None, out: Out = None, overwrite: Overwrite = False) -> None:
    """Fine-tune a model on labelled shards: classify, regress, tag, span, choice; mlm of targets (UniLM).

    A recipe for K-BERT, on a dataset with trees and labels:

        model: kbert
        task: classify          # as the dataset's
        init: out/my-bert/model # weights of any BERT start every model
        data: {folder: out/reviews, split: train, dev: dev}
        batch: {rows: 32}
        optim: {lr: 3e-5, epochs: 3}
        out: out/reviews-kbert

    UniLM learns targets of rows of task seq2seq (then: `treegraft generate`):

        model: unilm
        task: mlm               # of targets, the rest of the row given
        init: out/my-unilm/model
        data: {folder: out/summaries, split: train, dev: dev}
        # the default of such rows: 0.7 of the target's tokens, its end too
        masking: {rate: 0.7, part: target}
        optim: {lr: 3e-5, epochs: 10}
        out: out/summaries-unilm

    `data.dev` is looked at after every epoch. `model` is the last step's; with `best: accuracy` (f1, entity_f1, loss: a
    score of the task) that of the best look. Ablations are options of the model, on the same shards:
    --set options.visible_matrix=false. All else is as with `treegraft pretrain`.
    """
    _train("finetune", recipe, set_, out, overwrite)


@app.command("evaluate")
def evaluate_(
    recipe: RecipePath,
    set_: Set = None,
    out: Out = None,
    split: Annotated[
        str | None, typer.Option(help="Split to evaluate on. Default: the recipe's data.dev.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Folder of a model, instead of the recipe's own.")] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="span: no answer where 'none' scores higher than the answer by more than this (answers.json has one). "
            "Default of this and what follows: the recipe's `scores`."
        ),
    ] = None,
    max_answer_length: Annotated[
        int | None, typer.Option(min=1, help="span: most tokens of an answer. CMRC 2018 has long ones: 256.")
    ] = None,
    script: Annotated[
        str | None, typer.Option(help="span: squad or cmrc, whose script compares answers.")
    ] = None,
    scheme: Annotated[str | None, typer.Option(help="tag: BIO, BIOES, BILOU or IOB1.")] = None,
    to: To = None,
) -> None:
    """Scores of a trained model on a split, and its predictions.

    Accuracy, macro-F1 and Matthews' correlation of classes, Pearson's and Spearman's of values, strict F1 of entities,
    exact match and F1 of answers (SQuAD 1.1 and 2.0 with its best threshold, CMRC 2018), accuracy of choices and of
    masked tokens; all from 0 to 1. They are shown, and written to OUT/eval-SPLIT: metrics.json and predictions.jsonl.

    An entity is right if its type, first and last token are (of the source, whatever branches the row has), and must
    follow its scheme: an I behind an O is no entity (seqeval, strict). F1 is of all entities together, and by type.

    Answers are compared without case, and the best of the gold answers counts. SQuAD: words, without ASCII punctuation
    and a, an, the. CMRC: Chinese characters and the words between them, without its punctuation; F1 is of the longest
    run that both have in common. answers.json, and where questions have no answer no_answer.json (--na-prob-file of
    SQuAD 2.0), are what the official scripts read.

    Rules of scores stand in the recipe, so that looks at data.dev while training go by them, too:

        # also threshold, script, scheme; options here win over it
        scores: {max_answer_length: 256}

    Of masked tokens predictions.jsonl shows each with the 5 best in its place, in the first 1,000 rows.

    The model's options are those that it was trained with. A switch can be turned for an evaluation alone, and its
    scores kept beside the others: --set options.visible_matrix=false --to out/unmasked.

    Rows are read as many at a time as a piece of a step has (`batch`; --set batch.rows=64), which changes no score.
    """
    need_torch()
    from models.train.evaluating import run
    from models.train.reading import load_recipe, switched
    from models.train.screen import make_page

    quiet()
    given = {
        "threshold": threshold,
        "max_answer_length": max_answer_length,
        "script": script,
        "scheme": scheme,
    }
    scores = [f"scores.{name}={json.dumps(value)}" for name, value in given.items() if value is not None]
    with torch_said():
        run(
            load_recipe(recipe, [*(set_ or ()), *scores], out),
            split,
            model,
            make_page(),
            switched(set_ or ()),
            to,
        )


@app.command("generate")
def generate_(
    recipe: RecipePath,
    set_: Set = None,
    out: Out = None,
    split: Annotated[
        str | None, typer.Option(help="Split whose sources are read. Default: the recipe's data.dev.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Folder of a model, instead of the recipe's own.")] = None,
    beam_size: Annotated[
        int,
        typer.Option(
            min=1, max=1000, help="Texts that are followed at a time; 1 takes the best token each time."
        ),
    ] = 1,
    length_penalty: Annotated[
        float,
        typer.Option(min=0.0, max=10.0, help="Exponent by which longer texts are favoured; 0: not at all."),
    ] = 0.0,
    max_target_length: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Most tokens of a text. Default: 64, or less (16 at least) where the longest source leaves less.",
        ),
    ] = None,
    min_length: Annotated[int, typer.Option(min=0, help="Fewest tokens of a text.")] = 0,
    no_repeat_ngram_size: Annotated[
        int, typer.Option(min=0, help="No so many tokens in a row occur twice in a text; 0: they may.")
    ] = 0,
    n_best: Annotated[int, typer.Option(min=1, help="Texts that are written of a row, the best ones.")] = 1,
    to: To = None,
) -> None:
    """Texts that a trained UniLM writes for the sources of a split, and their ROUGE and BLEU.

    Sources are rows of task seq2seq. The recipe is the one that the model was fine-tuned by:

        model: unilm
        task: mlm               # of targets, the rest of the row given
        init: out/my-unilm/model
        data: {folder: out/summaries, split: train, dev: dev}
        optim: {lr: 3e-5, epochs: 10}
        out: out/summaries-unilm

        treegraft finetune summaries.yaml
        treegraft generate summaries.yaml --beam-size 5 --length-penalty 1

    OUT/generate-SPLIT gets generated.jsonl, a row a line (id, source, reference, hypotheses with their scores, the
    best first), and metrics.json: ROUGE-1, ROUGE-2, ROUGE-L and BLEU of the best, from 0 to 1. The reference is the
    whole target, also where the row holds it cut. Sources without targets are written for all the same: rows of
    task classify with one text, of a config like this:

        task: classify
        language: en
        input: {format: jsonl, text: article, files: {test: a.jsonl},
          label_optional: true}
        annotate: {parser: none}
        encode: {tokenizer: vocab.txt, columns: []}

        treegraft preprocess a.yaml
        treegraft generate summaries.yaml --set data.folder=out/a --split test

    Both texts are compared as tokens spell them (of an uncased tokenizer without case). ROUGE: F1, mean over rows, no
    stemming; of ASCII words or, where Chinese outnumbers ASCII letters, of Chinese characters, marks and the words
    between; ROUGE-L of the longest common subsequence of the whole text. BLEU: sacrebleu's of the whole corpus, by its
    tokenizer 13a or zh. [UNK] is never written.

    Rows are read as many at a time as a piece of a step has (`batch`; --set batch.rows=64), which changes no text.
    """
    need_torch()
    from models.train.generating import run
    from models.train.reading import load_recipe, switched
    from models.train.screen import make_page, make_screen

    quiet()
    settings = {
        "beam_size": beam_size,
        "length_penalty": length_penalty,
        "max_target_length": max_target_length,
        "min_length": min_length,
        "no_repeat_ngram_size": no_repeat_ngram_size,
        "n_best": n_best,
    }
    said, err = make_page(), make_screen(stderr=True)
    with torch_said():
        read = load_recipe(recipe, set_ or (), out)
        run(read, split, model, settings, said, err, switched(set_ or ()), to)


@app.command("recipe")
def recipe_(
    markdown: Annotated[bool, typer.Option("--markdown", help="As a Markdown table.")] = False,
) -> None:
    """Every key of a recipe: its default and what it does."""
    from corpora import sections
    from models.train.recipe import Recipe
    from models.train.screen import make_page

    if markdown:
        print(sections.as_markdown(Recipe))
    else:
        make_page().print(sections.as_table(Recipe))


def _train(command: str, path: Path, changes: list[str] | None, out: str | None, overwrite: bool) -> None:
    need_torch()
    from models.train.folder import check_free
    from models.train.reading import RecipeError, check_folders, load_recipe
    from models.train.screen import make_screen

    recipe = load_recipe(path, changes or (), out)
    if recipe.task not in _TASKS[command]:
        other = next(name for name, tasks in _TASKS.items() if recipe.task in tasks)
        raise RecipeError(
            f"recipe {path}: task {recipe.task!r} is not for `treegraft {command}`: run `treegraft {other}`"
        )
    console = make_screen(stderr=True)
    try:
        check_folders(recipe)  # what is quickly seen, before seconds of imports
        if not overwrite:
            check_free(Path(recipe.out), recipe)
        with console.status("loading torch and transformers"):  # on a terminal alone
            quiet()
            from models.train.loop import train
        with torch_said():
            made = train(recipe, console, overwrite=overwrite)
    except RecipeError as error:
        raise RecipeError(f"recipe {path}: {error}") from None
    if os.environ.get("RANK", "0") == "0":
        make_screen().print(f"trained model: {made}", soft_wrap=True)
