"""The recipes that come with the project: each is what its header says, trains, and gets better; and `make demo`.

Better than before training, on the rows that were learned from: the samples' dev splits hold a handful of rows,
too few to measure anything by. The measure is the task's own (`MAIN`); of masked tokens, which have no better one, the loss.
"""

from __future__ import annotations

import io
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import yaml
from rich.console import Console
from typer.testing import CliRunner

from corpora.layout import InputConfig
from models import checkpoint
from models.commands import _TASKS
from models.evaluate.evaluation import columns_of, evaluate
from models.evaluate.texts import text_scores
from models.stream.open import open_split
from models.train.best import SCORES
from models.train.data import make_collator, open_rows
from models.train.loop import train
from models.train.parts import make_model
from models.train.reading import load_recipe
from models.train.recipe import Recipe
from pipelines.cli import app
from pipelines.config import load_config
from tests.conftest import REAL_DATA
from tests.integration.test_cli import SAMPLES
from tests.models.datasets import Datasets

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "recipes"
SAMPLE, REAL = sorted(RECIPES.glob("*.yaml")), sorted((RECIPES / "real").glob("*.yaml"))
COMMAND = (sys.executable, "-c", "from pipelines.cli import main; main()")
DATA = sorted((RECIPES / "real/data").glob("*.yaml"))
SMALL = ("new={layers: 1, width: 64, heads: 4, dropout: 0}", "init=null", "threads=1")
MAIN = {
    "mlm": "loss",
    "pretrain": "loss",
    "classify": "accuracy",
    "regress": "spearman",
    "tag": "entity_f1",
    "span": "f1",
    "choice": "accuracy",
}
"""By task its measure; a `loss` is better where it is lower."""
every = pytest.mark.parametrize("path", [*SAMPLE, *REAL], ids=lambda path: str(path.relative_to(RECIPES)))


def commands(path: Path) -> list[list[str]]:
    """The commands that the comments of a file give, as lists of words."""
    said = re.findall(r"^#(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    lines = "\n".join(said).replace("\\\n", " ").splitlines()
    found = [part for line in lines if line.startswith("   ") for part in line.split("&&")]
    return [words for words in (shlex.split(part, comments=True) for part in found) if words]


def given(words: list[str], option: str) -> list[str]:
    return [value for name, value in pairwise(words) if name == option]


def untrained(recipe: Recipe) -> dict[str, float]:
    return scores(recipe, make_model(recipe, open_rows(recipe)))


def trained(recipe: Recipe) -> dict[str, float]:
    return scores(recipe, checkpoint.load(Path(recipe.out) / "model"))


def scores(recipe: Recipe, model: torch.nn.Module) -> dict[str, float]:
    """On the rows that are learned from, or the first dataset of several."""
    folder = recipe.data.folder[0].folder
    collator = make_collator(recipe, model, open_split(folder, "train").metadata)
    return evaluate(model, open_split(folder, "train", columns_of(model, collator)), collator).scores


def better(recipe: Recipe, before: dict[str, float], after: dict[str, float]) -> bool:
    main = MAIN[recipe.task]
    return after["loss"] < before["loss"] - 0.1 and (main == "loss" or after[main] > before[main] + 0.1)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@every
def test_a_recipe_reads_what_is_there(path: Path) -> None:
    """Its datasets are those of configs that make the columns it needs; what it begins from another recipe trains."""
    recipe = load_recipe(path)
    configs = {config.stem: config for config in (SAMPLES.glob("*.yaml") if path in SAMPLE else DATA)}
    needed = {"kbert": {"tree"}, "sgnet": {"syntax"}, "ambert": {"coarse"}}.get(recipe.model, set())
    for source in recipe.data.folder:
        folder = Path(source.folder)
        assert folder.parent == ROOT / "out"
        config = yaml.safe_load(configs[folder.name].read_text(encoding="utf-8"))
        assert needed <= set(config["encode"]["columns"])
        assert recipe.task in ("mlm", config["task"])
        assert recipe.data.dev is None or recipe.data.dev in InputConfig(**config["input"]).sources
    assert Path(recipe.out) == ROOT / "out/runs" / Path(recipe.out).name
    if recipe.init is not None:
        outs = {load_recipe(other).out for other in (SAMPLE if path in SAMPLE else REAL)}
        outs |= {
            str(ROOT / out)
            for other in (SAMPLE if path in SAMPLE else REAL)
            for words in commands(other)
            for out in given(words, "--out")
        }
        assert str(Path(recipe.init).parent) in outs


@every
def test_commands_of_a_header_are_right(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    told = [words for words in commands(path) if words[0] == "treegraft"]
    assert told
    for _, command, *words in told:
        if command == "preprocess":
            assert not words
            continue
        recipe = load_recipe(words[0], given(words, "--set"))
        assert recipe.task in _TASKS.get(command, [recipe.task])


def test_tables_are_of_scores_that_there_are() -> None:
    """What runs for hours must not fall over a name at its end."""
    for one in runpy.run_path(str(RECIPES / "real/figures.py"))["EXPERIMENTS"].values():
        recipe = load_recipe(RECIPES / "real" / one.recipe)
        texts = set(text_scores(["a b"], ["a b"]))
        assert set(one.scores) <= (texts if one.measure[0] == "generate" else set(SCORES[recipe.task]))


@pytest.mark.parametrize("jobs", [1, 2, 9])
def test_no_run_of_a_table_begins_before_its_weights_are_there(
    jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = runpy.run_path(str(RECIPES / "real/figures.py"))
    trained: set[int] = set()

    def pretrain(name: str, number: int, more: tuple[str, ...]) -> None:
        if figures["EXPERIMENTS"][name].lines[number].pretrained is not None:
            time.sleep(0.05)
            trained.add(number)

    def finetune(name: str, number: int, seed: int, more: tuple[str, ...]) -> dict[str, float]:
        assert int(figures["weights"](name, number).name.partition("-")[0]) in trained
        return dict.fromkeys(figures["EXPERIMENTS"][name].scores, float(seed))

    names = figures["table"].__globals__  # its own: run_path gives a copy
    monkeypatch.setitem(names, "pretrain", pretrain)
    monkeypatch.setitem(names, "finetune", finetune)
    for name in figures["EXPERIMENTS"]:
        trained.clear()
        figures["table"](name, jobs, ())


@pytest.mark.parametrize(
    "name, source, changes",
    [
        ("bert-ner", "tag", ()),
        ("kbert-ner", "tag", ()),
        ("unilm-summaries", "seq2seq", ()),
        ("sgnet-questions", "span", ()),
        ("ambert-questions", "span", ()),
        ("ambert-questions", "span", ("options.variant=combo",)),
        ("ambert-questions", "span", ("options.variant=hybrid",)),
    ],
)
def test_a_recipe_of_each_system_learns(
    datasets: Datasets, tmp_path: Path, name: str, source: str, changes: tuple[str, ...]
) -> None:
    """From scratch, small, a few steps: tasks of tokens, for [CLS] takes longer to tell texts apart."""
    fewer = (
        f"data={{folder: {datasets[source]}}}",
        "optim={lr: 2e-3, epochs: null, steps: 40}",
        f"out={tmp_path / 'out'}",
    )
    recipe = load_recipe(RECIPES / f"{name}.yaml", (*SMALL, *fewer, *changes))
    before = untrained(recipe)
    train(recipe, Console(file=io.StringIO()))
    after = trained(recipe)
    assert better(recipe, before, after), (before, after)


def copied(folder: Path) -> Path:
    """What a checkout has, as far as recipes go, in a folder of its own: everything is written there."""
    shutil.copytree(RECIPES, folder / "recipes")
    (folder / "corpora").mkdir()
    (folder / "corpora/samples").symlink_to(SAMPLES)
    return folder


def treegraft(*words: object, cwd: Path) -> str:
    done = subprocess.run([*COMMAND, *map(str, words)], cwd=cwd, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = copied(tmp_path_factory.mktemp("home"))
    treegraft("preprocess", cwd=folder)
    return folder


PRETRAINED = sorted(SAMPLE, key=lambda path: "pretrain" not in path.stem)
VARIANTS = [
    (recipe, variant)
    for variant in ("combo", "hybrid")
    for recipe in ("ambert-pretrain", "ambert-reviews", "ambert-questions")
]


@pytest.mark.heavy
@pytest.mark.parametrize(
    "name, variant", [*((path.stem, "") for path in PRETRAINED), *VARIANTS, ("bert-pairs", "similarity")]
)
def test_the_whole_of_a_recipe(home: Path, name: str, variant: str) -> None:
    """As its header says, by the real command; takes what earlier ones trained. Prints seconds: wall, processor's."""
    path, changes = home / f"recipes/{name}.yaml", list[str]()
    if variant == "similarity":
        changes = ["task=regress", "data.folder=out/zh-similarity", "out=out/runs/bert-similarity"]
    elif variant:
        changes = [f"out=out/runs/{name.replace('ambert', variant)}"]
        pretraining = name == "ambert-pretrain"
        changes += [
            f"options.variant={variant}" if pretraining else f"init=out/runs/{variant}-pretrain/model"
        ]
        if (name, variant) == ("ambert-reviews", "hybrid"):
            changes.append("options.agreement=null")
    words = [word for change in changes for word in ("--set", change)]
    recipe = load_recipe(path, [one.replace("=out/", f"={home}/out/") for one in changes])
    before = untrained(recipe)
    command = "pretrain" if name.endswith("-pretrain") else "finetune"
    began, spent = time.monotonic(), os.times()
    treegraft(command, path, *words, cwd=home)
    wall, ended = time.monotonic() - began, os.times()
    processor = ended.children_user + ended.children_system - spent.children_user - spent.children_system
    after, main = trained(recipe), MAIN[recipe.task]
    print(
        f"\n{Path(recipe.out).name}: {main} {before[main]:.3f} -> {after[main]:.3f}, loss {before['loss']:.3f} -> "
        f"{after['loss']:.3f}; {wall:.0f} s, {processor:.0f} s of processor"
    )
    assert better(recipe, before, after)
    assert "loss" in treegraft("evaluate", path, *words, "--split", "train", cwd=home)
    if name == "unilm-summaries":
        treegraft("generate", path, "--split", "train", "--beam-size", "3", cwd=home)
        found = json.loads((Path(recipe.out) / "generate-train/metrics.json").read_text())["scores"]
        print(f"written: {found}")
        assert found["rougeL"] > 0.2


def make(folder: Path, *words: str) -> str:
    """`make demo` in a copy, with the interpreter that runs the tests; nothing is installed."""
    shutil.copy(ROOT / "Makefile", folder)
    prefix = [f"VENV={sys.prefix}", "--old-file", f"{sys.prefix}/.train"]
    done = subprocess.run(
        ["make", "demo", *prefix, *words], cwd=folder, capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_demo_runs_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commands, not run: configs and recipes fit, one makes what the next one reads."""
    folder = copied(tmp_path)
    monkeypatch.chdir(folder)
    first, *rest = [
        line.split()[1:] for line in make(folder, "--dry-run").splitlines() if "treegraft" in line
    ]
    there = {str(folder / "out" / Path(config).stem) for config in first[1:] if load_config(Path(config))}
    for _, path in rest:
        recipe = load_recipe(path)
        assert {source.folder for source in recipe.data.folder} <= there
        assert recipe.init is None or recipe.init in there
        there.add(f"{recipe.out}/model")
    assert first[0] == "preprocess" and [words[0] for words in rest] == ["pretrain", "finetune", "evaluate"]


@pytest.mark.heavy
def test_the_demo_ends_with_a_table(tmp_path: Path) -> None:
    began = time.monotonic()
    said = make(copied(tmp_path))
    print(f"\nmake demo: {time.monotonic() - began:.0f} s\n{said[-1500:]}")
    assert re.search(r"entity_f1\W+0\.[3-9]", said)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first rows of the real corpora, and datasets of them by the configs beside the recipes."""
    if not REAL_DATA.is_dir():
        pytest.skip(f"no real data at {REAL_DATA}")
    folder = copied(tmp_path_factory.mktemp("real"))
    for name in ("kbert/chnsenticorp", "kbert/medical_ner", "clue", "cmrc", "bert", "kg", "sgnet"):
        (folder / "data" / name).mkdir(parents=True)
        for path in (REAL_DATA / name).iterdir():
            if path.suffix in (".tsv", ".jsonl"):
                # dev and test: those of train, whose first rows have all labels
                source = path.with_name("train.tsv") if path.suffix == ".tsv" else path
                with source.open(encoding="utf-8") as lines:
                    head = "".join(line for line, _ in zip(lines, range(80), strict=False))
                (folder / "data" / name / path.name).write_text(head, encoding="utf-8")
            elif "squad_sample" in path.name or "cmrc" in path.name:
                content = json.loads(path.read_bytes())
                for article in content["data"]:
                    del article["paragraphs"][12:]
                content["data"] = content["data"][:12]
                (folder / "data" / name / path.name).write_text(json.dumps(content), encoding="utf-8")
            else:
                (folder / "data" / name / path.name).symlink_to(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for config in DATA:
            for line in re.findall(r"^#   (\S.*)$", config.read_text(encoding="utf-8"), re.MULTILINE):
                command, *words = shlex.split(line, comments=True)
                if command == "treegraft":
                    done = CliRunner().invoke(app, [*words, "--workers", "1"], catch_exceptions=False)
                    assert done.exit_code == 0, done.output
                else:  # a line of the shell that cuts the corpus to shape
                    subprocess.run(line, shell=True, check=True)
    return folder


@pytest.mark.heavy
@pytest.mark.parametrize(
    "name, changes",
    [
        ("pretrain", ()),
        ("pretrain", ("model=ambert",)),
        ("chnsenticorp", ()),
        ("chnsenticorp", ("model=kbert",)),
        ("chnsenticorp", ("model=ambert",)),
        ("medical-ner", ()),
        ("squad", ()),
        ("questions", ()),
        ("questions", ("data.folder=out/csl-keywords",)),
    ],
)
def test_a_recipe_on_real_data_trains(
    real: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, changes: tuple[str, ...]
) -> None:
    monkeypatch.chdir(real)
    fewer = ("optim={lr: 1e-3, epochs: null, steps: 6}", "batch.rows=8", "save_every=6", f"out={tmp_path}")
    recipe = load_recipe(real / f"recipes/real/{name}.yaml", (*SMALL, *fewer, *changes))
    before = untrained(recipe)["loss"]
    train(recipe, Console(file=io.StringIO()))
    assert trained(recipe)["loss"] < before
