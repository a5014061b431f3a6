"""What small models learned, as docs/measured.md tells it: recipes run over seeds, a table of means and spread.

python recipes/real/figures.py medical-ner           # one table
python recipes/real/figures.py                       # all of them: hours on two cores

The datasets are made first, by the commands in data/*.yaml. All models are 4 layers of 256. A system is pretrained
once, on the training text of its dataset; then each seed fine-tunes it, with a head and an order of its own. Runs
lie in out/figures; one that was stopped goes on, one that is finished is only measured again, another's is refused.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
HERE = Path(__file__).resolve().parent
RUNS = HERE.parents[1] / "out/figures"
SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Line:
    """A system in a table: settings of pretrain.yaml (none: the line above's weights serve), and of the experiment's
    recipe."""

    name: str
    pretrained: tuple[str, ...] | None
    finetuned: tuple[str, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """A table: the dataset, the recipe, the command that measures and where it writes, the scores, the systems."""

    folder: str
    recipe: str
    measure: tuple[str, ...]
    written: str
    scores: tuple[str, ...]
    lines: tuple[Line, ...]


NO_GRAPH = ("options.graph=false",)
UNILM = ("model=unilm", "masking={part: all, rate: 0.15, units: ngram}", "optim.epochs=60")  # ten are too few
AMBERT = ("model=ambert", "options.agreement=0.01")
BEFORE_MEDICAL = ("optim.lr=1e-3",)  # short sentences bear it; of reviews Combo's two encoders stall
# At 5e-4 a seed of AMBERT came to one vector for every [CLS], and stayed at chance.
REVIEWS = ("batch.tokens=1024", "optim.lr=2e-4")
REVIEWS_BEFORE = ("optim.epochs=2",)
EXPERIMENTS = {
    "medical-ner": Experiment(
        "medical-ner",
        "medical-ner.yaml",
        ("evaluate", "--split", "test"),
        "eval-test",
        ("entity_f1", "entity_precision", "entity_recall"),
        (
            # As in the paper, K-BERT begins from weights that were pretrained on text alone.
            Line("without graph", BEFORE_MEDICAL, NO_GRAPH),
            Line("K-BERT, Medical graph", None),
            Line("K-BERT, pretrained with the graph, too", ("model=kbert", *BEFORE_MEDICAL)),
        ),
    ),
    "chnsenticorp": Experiment(
        "chnsenticorp",
        "chnsenticorp.yaml",
        ("evaluate", "--split", "test"),
        "eval-test",
        ("accuracy",),
        (
            Line("BERT", REVIEWS_BEFORE, REVIEWS),
            Line("K-BERT, HowNet", None, (*REVIEWS, "model=kbert")),
            Line("AMBERT", ("model=ambert", *REVIEWS_BEFORE), (*REVIEWS, *AMBERT)),
            Line("Combo", ("model=ambert", "options.variant=combo", *REVIEWS_BEFORE), (*REVIEWS, *AMBERT)),
            # Fine-tuned as BERT: it has no agreement.
            Line(
                "Hybrid", ("model=ambert", "options.variant=hybrid", *REVIEWS_BEFORE), (*REVIEWS, AMBERT[0])
            ),
        ),
    ),
    "cmrc-questions": Experiment(
        "cmrc-questions",
        "questions.yaml",
        ("generate", "--beam-size", "5", "--length-penalty", "1", "--max-target-length", "48"),
        "generate-dev",
        ("rougeL", "rouge1", "bleu"),
        (
            Line(
                "UniLM, all objectives",
                (*UNILM, "kinds={bidirectional: 2, seq2seq: 2, left_to_right: 1, right_to_left: 1}"),
            ),
            Line("bidirectional alone", (*UNILM, "kinds={bidirectional: 1}")),
            Line("seq2seq alone", (*UNILM, "kinds={seq2seq: 1}")),
        ),
    ),
    "squad": Experiment(
        "squad",
        "squad.yaml",
        # An answer to every question, which `answerable_f1` tells of: how well places are found.
        ("evaluate", "--split", "dev", "--set", "scores.threshold=100"),
        "eval-dev",
        ("best_f1", "answerable_f1", "answerable_exact"),
        (
            Line("BERT", ("optim.epochs=40",), ("model=bert",)),  # of 101 rows five epochs are 150 steps
            Line("SG-Net, ancestors", None),
            Line("SG-Net, no syntax", None, ("options.direction=none",)),
        ),
    ),
}


def run(*words: str) -> None:
    """One command of treegraft on one processor thread."""
    command = [str(Path(sys.executable).with_name("treegraft")), *words]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode:
        sys.exit(f"{' '.join(words)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def settings(*values: str) -> list[str]:
    return [word for value in (*values, "threads=1") for word in ("--set", value)]


def weights(name: str, number: int) -> Path:
    """Where the line's own pretraining leaves weights, or that of the line above which has one."""
    lines = EXPERIMENTS[name].lines
    while lines[number].pretrained is None:
        number -= 1
    return RUNS / name / f"{number}-pretrained"


def pretrain(name: str, number: int, more: tuple[str, ...]) -> None:
    experiment = EXPERIMENTS[name]
    own, out = experiment.lines[number].pretrained, weights(name, number)
    assert own is not None  # else it has the weights of the line above
    data = f"data.folder={RUNS.parent / experiment.folder}"
    run("pretrain", str(HERE / "pretrain.yaml"), *settings(data, *own, *more), "--out", str(out))


def finetune(name: str, number: int, seed: int, more: tuple[str, ...]) -> dict[str, float]:
    experiment = EXPERIMENTS[name]
    line, out = experiment.lines[number], RUNS / name / f"{number}-seed-{seed}"
    recipe = [str(HERE / experiment.recipe)]
    init = f"init={weights(name, number) / 'model'}"
    recipe += [*settings(init, f"seed={seed}", f"out={out}", *line.finetuned, *more)]
    run("finetune", *recipe)
    command, *options = experiment.measure
    run(command, *recipe, *options)
    scores = json.loads((out / experiment.written / "metrics.json").read_text(encoding="utf-8"))["scores"]
    sys.stderr.write(f"{name}, {line.name}, seed {seed}: {scores[experiment.scores[0]]:.4f}\n")
    return {score: scores[score] for score in experiment.scores}


def after(first: Future[None], then: Callable[..., T], *args: object) -> T:
    first.result()
    return then(*args)


def table(name: str, jobs: int, more: tuple[str, ...]) -> None:
    experiment = EXPERIMENTS[name]
    before: list[Future[None]] = []
    found: list[Future[dict[str, float]]] = []
    with ThreadPoolExecutor(jobs) as pool:  # it takes them in this order: nobody waits for what has not begun
        for number, line in enumerate(experiment.lines):
            own = line.pretrained is not None
            before.append(pool.submit(pretrain, name, number, more) if own else before[-1])
        for number in range(len(experiment.lines)):
            found += [
                pool.submit(after, before[number], finetune, name, number, seed, more) for seed in SEEDS
            ]
        every: list[Future[Any]] = [*before, *found]
        for one in as_completed(every):
            if one.exception() is not None:
                pool.shutdown(wait=False, cancel_futures=True)
                one.result()
    print(f"\n| {name} | " + " | ".join(experiment.scores) + " |")
    print("|---|" + "---|" * len(experiment.scores))
    for number, line in enumerate(experiment.lines):
        seeds = [one.result() for one in found[number * len(SEEDS) :][: len(SEEDS)]]
        means = [
            f"{100 * statistics.mean(values):.1f} ± {100 * statistics.stdev(values):.1f}"
            for values in ([one[score] for one in seeds] for score in experiment.scores)
        ]
        print(f"| {line.name} | " + " | ".join(means) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help=f"of {', '.join(EXPERIMENTS)}; default: all")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (2)")
    parser.add_argument("--set", action="append", default=[], help="of all runs, such as precision=bf16")
    given = parser.parse_args()
    if unknown := sorted(set(given.names) - set(EXPERIMENTS)):
        parser.error(f"{unknown[0]!r} is none of {', '.join(EXPERIMENTS)}")
    for name in given.names or EXPERIMENTS:
        table(name, given.jobs, tuple(given.set))


if __name__ == "__main__":
    main()
