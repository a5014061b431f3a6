"""Recipes: what is wrong is said before any work, by its name; paths and changes mean what they should."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import get_args

import pytest

from models.checkpoint import MODELS
from models.evaluate.evaluation import MEASURES
from models.evaluate.options import HEEDED, Options
from models.heads import TASKS
from models.train.parts import rate
from models.train.reading import RecipeError, check_folders, load_recipe
from models.train.recipe import TASK_NAMES, ModelName, Optim

GOOD = """
model: bert
task: mlm
new: {layers: 1, width: 32, heads: 4}
data: {folder: data/a}
optim: {lr: 1e-3, steps: 10}
out: runs/a
"""


def read(tmp_path: Path, text: str, *changes: str):
    (tmp_path / "r.yaml").write_text(text, encoding="utf-8")
    return load_recipe(tmp_path / "r.yaml", changes)


def test_paths_count_from_the_recipe_and_numbers_are_numbers(tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    found = read(tmp_path, GOOD)
    assert found.data.folder[0].folder == str(tmp_path / "data/a") and found.out == str(tmp_path / "runs/a")
    assert found.optim.lr == 0.001  # YAML 1.1 reads 1e-3 as a word


def test_several_folders_have_weights(tmp_path):
    text = GOOD.replace("data/a", "[x, {folder: /y, weight: 2}, 's3://bucket/z']")
    found = read(tmp_path, text).data.folder
    assert [(s.folder, s.weight) for s in found] == [
        (str(tmp_path / "x"), 1),
        ("/y", 2),
        ("s3://bucket/z", 1),
    ]


def test_a_change_takes_the_place_of_what_excludes_it(tmp_path):
    found = read(tmp_path, GOOD, "optim.epochs=2", "init=/there", "batch.tokens=900", "batch.tokens=901")
    assert (found.optim.steps, found.optim.epochs, found.new, found.init) == (None, 2, None, "/there")
    assert (found.batch.rows, found.batch.tokens) == (None, 901)
    for changes in (
        ("optim={steps: 1, epochs: 2}",),
        ("optim.steps=3", "optim.epochs=3"),
        ("batch.tokens=900", "batch={rows: 8}"),
        ("new.layers=1", "init=/there"),
    ):
        with pytest.raises(RecipeError, match=r"--set .* exclude each other: write one of them"):
            read(tmp_path, GOOD, *changes)


def test_changes_replace_one_key_and_their_paths_count_from_here(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    found = read(tmp_path, GOOD, "optim.lr=3e-5", "out=b", "options={alpha: 1}", "data.dev=dev")
    assert (found.optim.lr, found.optim.steps, found.out) == (3e-5, 10, str(tmp_path / "here/b"))
    assert read(tmp_path, GOOD, "out='b #2' ").out == str(tmp_path / "here/b #2")
    assert found.options == {"alpha": 1} and found.data.folder[0].folder == str(tmp_path / "data/a")
    assert found.data.dev == "dev"


@pytest.mark.parametrize("name", ["runs/exp #2", "123", "a: b", "1e3", "[x", "null", " b"])
def test_out_is_a_path_as_it_is(tmp_path, monkeypatch, name):
    """As YAML some of these were other folders, and `--overwrite` deletes what is in one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.yaml").write_text(GOOD, encoding="utf-8")
    assert load_recipe("r.yaml", ["out=c"], name).out == str(tmp_path / name)


@pytest.mark.parametrize("out", ["", "gs://bucket/x", "~nobody-of-this-name/x", "a\0b"])
def test_out_is_a_folder_of_this_machine(tmp_path, out):
    (tmp_path / "r.yaml").write_text(GOOD, encoding="utf-8")
    with pytest.raises(RecipeError, match=r"out: found '(gs://bucket/x)?', expected a folder of|is no path"):
        load_recipe(tmp_path / "r.yaml", (), out)
    with pytest.raises(RecipeError):
        read(tmp_path, GOOD.replace("runs/a", json.dumps(out)))


def test_a_tilde_is_the_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    text = GOOD.replace("runs/a", "~/a").replace("data/a", "~/b")
    found = [
        read(tmp_path, text),
        read(tmp_path, text, "out=~/a"),
        load_recipe(tmp_path / "r.yaml", (), "~/a"),
    ]
    assert {one.out for one in found} == {str(tmp_path / "home/a")}
    assert found[0].data.folder[0].folder == str(tmp_path / "home/b")


def test_an_id_on_the_hub_is_no_path(tmp_path):
    text = GOOD.replace("new: {layers: 1, width: 32, heads: 4}", "init: NAME")
    assert (
        read(tmp_path, text.replace("NAME", "google-bert/bert-base-chinese")).init
        == "google-bert/bert-base-chinese"
    )
    (tmp_path / "mine").mkdir()
    assert read(tmp_path, text.replace("NAME", "mine")).init == str(tmp_path / "mine")
    assert read(tmp_path, text.replace("NAME", "../other/model")).init == str(tmp_path.parent / "other/model")


@pytest.mark.parametrize(
    "old, new, says",
    [
        ("task: mlm", "tsk: mlm", "tsk: unknown key; did you mean 'task'?"),
        ("task: mlm", "", "task: this key must be written: what is learned"),
        ("steps: 10", "step: 10", "optim.step: unknown key; did you mean 'steps'?"),
        ("steps: 10", "warmup: 3", "write one of them"),
        ("steps: 10", "steps: 0", "optim.steps: Input should be greater than or equal to 1, found 0"),
        ("lr: 1e-3", "lr: 1e-3, schedule: cosin", "did you mean 'cosine'?"),
        ("width: 32", "width: 30", "new.width must be a multiple of new.heads"),
        ("new: {layers: 1, width: 32, heads: 4}", "", "write init: CHECKPOINT, or new:"),
        ("out:", "init: x\nout:", "init and new both say"),
        ("out:", "batch: {rows: 8, tokens: 9}\nout:", "batch.rows and batch.tokens both"),
        ("out:", "lr: 1\nout:", "lr: unknown key; did you mean 'optim.lr'?"),
        ("folder: data/a", "folder: []", "names no dataset"),
        ("folder: data/a", "folder: ''", "data.folder.0.folder: String should have at least 1 character"),
        ("out:", "seed: 1\nseed: 2\nout:", "the key 'seed' stands twice"),
        ("out:", "eval_every: 3\nout:", "name the split"),
        ("out:", "dropout: 0\nout:", "of a model from scratch write new.dropout, and drop dropout"),
        ("out:", "dropout: 1\nout:", "dropout: Input should be less than 1, found 1"),
        ("width: 32", "width: 32, dropout: 1.0", "new.dropout: Input should be less than 1, found 1.0"),
        (
            "mlm",
            "span\nscores: null",
            "scores: expected keys and their values (leave it out for the defaults), found None",
        ),
        ("mlm", "span\nscores: {scrip: cmrc}", "scores.scrip: unknown key; did you mean 'script'?"),
        (
            "mlm",
            "span\nscores: {script: cmr}",
            "scores.script: Input should be 'squad' or 'cmrc', found 'cmr'",
        ),
        ("mlm", "span\nscores: {max_answer_length: 0}", "scores.max_answer_length: Input should be greater"),
        (
            "mlm",
            "tag\nscores: {scheme: BMES}",
            "scores.scheme: Input should be 'BIO', 'BIOES', 'BILOU' or 'IOB1'",
        ),
        (
            "mlm",
            "span\nscores: {scheme: BIO}",
            "scores.scheme: not heeded by task 'span', which has max_answer_",
        ),
        (
            "mlm",
            "tag\nscores: {threshold: 1}",
            "scores.threshold: not heeded by task 'tag', which has scheme: dr",
        ),
        (
            "out:",
            "scores: {script: cmrc, scheme: BIO}\nout:",
            "scores.script, scores.scheme: not heeded by task 'm",
        ),
        ("out:", "script: cmrc\nout:", "script: unknown key; did you mean 'scores.script'?"),
        ("out:", "batch: {rows: true}\nout:", "batch.rows: expected a number, found true"),
        ("out:", "threads: yes\nout:", "threads: expected a number, found true"),
        ("out:", "seed: no\nout:", "seed: expected a number, found false"),
        ("mlm", "span\nscores: {threshold: on}", "scores.threshold: expected a number, found true"),
        ("lr: 1e-3", "lr: 1, betas: [yes, 0.9]", "optim.betas: expected a number, found true"),
        ("lr: 1e-3", "lr: 1, betas: [1, 0.9]", "optim.betas.0: Input should be less than 1, found 1"),
        ("lr: 1e-3", "lr: 1, betas: [0.9]", "\n  optim.betas: expected 2 values in brackets, found [0.9]"),
        ("lr: 1e-3", "lr: 1, betas: []", "\n  optim.betas: expected 2 values in brackets, found []"),
        (
            "lr: 1e-3",
            "lr: 1, betas: [0.9, 0.9, 0]",
            "\n  optim.betas: expected 2 values in brackets, found [0.9, 0.",
        ),
        ("lr: 1e-3", "lr: 1, betas: '0.9'", "\n  optim.betas: expected 2 values in brackets, found '0.9'"),
        (
            "optim: {lr: 1e-3, steps: 10}",
            "optim:",
            "optim: expected keys and their values, such as `optim: {lr: 1",
        ),
        (
            "data: {folder: data/a}",
            "data: 3",
            "data: expected keys and their values, such as `data: {folder: out/my}",
        ),
        ("steps: 10", "epochs: 1e308", "optim.epochs: Input should be less than or equal to 1000000000"),
        ("out:", "threads: 1000000000000000\nout:", "threads: Input should be less than or equal to 4096"),
        ("out:", "workers: 1e15\nout:", "workers: Input should be less than or equal to 4096"),
        ("out:", "masking:\nout:", "masking: expected keys and their values (leave it out for the defaults)"),
        ("model: bert", "model: &a [*a]", "an alias holds itself"),
        ("model: bert", "model: [bert]", "model: Input should be 'bert', "),
        ("out:", "options: &a {b: *a}\nout:", "an alias holds itself"),
        ("steps: 10", "steps: 010", "010 is 8 in YAML 1.1: write 10"),
        ("task: mlm", f"task: {'[' * 2000 + ']' * 2000}", "is nested too deep"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, old, new, says):
    with pytest.raises(RecipeError) as caught:
        read(tmp_path, GOOD.replace(old, new))
    assert says in str(caught.value)


def test_of_many_keys_that_are_wrong_the_first_are_named(tmp_path):
    with pytest.raises(RecipeError) as caught:
        read(tmp_path, GOOD + "".join(f"odd{number}: 1\n" for number in range(1000)))
    _, *lines = str(caught.value).splitlines()
    assert len(lines) == 21 and "odd19: unknown key" in lines[19] and lines[20] == "  ... and 980 more"


@pytest.mark.parametrize("key", ["data.folder.0.folder", "data.folder.0", "optim.betas.1"])
def test_a_part_of_a_list_is_no_key(tmp_path, key):
    (tmp_path / "recipe.yaml").write_text(GOOD)
    with pytest.raises(RecipeError, match=f"--set {key}: a list is written as a whole"):
        load_recipe(tmp_path / "recipe.yaml", [f"{key}=0.5"])


def test_a_local_checkpoint_is_looked_for_here_and_not_on_the_hub(tmp_path):
    text = GOOD.replace("new: {layers: 1, width: 32, heads: 4}", "init: NAME")
    (tmp_path / "data/a").mkdir(parents=True)
    (tmp_path / "runs/k/model").mkdir(parents=True)
    (tmp_path / "runs/k/model/config.json").touch()
    check_folders(read(tmp_path, text.replace("NAME", "runs/k/model")))
    check_folders(read(tmp_path, text.replace("NAME", "google-bert/bert-base-chinese")))
    with pytest.raises(RecipeError, match=r"the folder of a run: did you mean .*/runs/k/model\?"):
        check_folders(read(tmp_path, text.replace("NAME", "runs/k")))
    for name in ("runs/other", "./other", "../x", "runs/k/modle", "~/x"):
        with pytest.raises(RecipeError, match="init: there is no folder"):
            check_folders(read(tmp_path, text.replace("NAME", name)))
    with pytest.raises(RecipeError, match=r"data\.folder: there is no folder .*/data/b"):
        check_folders(read(tmp_path, GOOD.replace("data/a", "data/b")))
    (tmp_path / "data/b").touch()
    with pytest.raises(
        RecipeError, match=r"data\.folder: .*/data/b is a file: name the folder of the dataset"
    ):
        check_folders(read(tmp_path, GOOD.replace("data/a", "data/b")))


def test_a_config_of_a_corpus_is_no_recipe(tmp_path):
    with pytest.raises(RecipeError, match="looks like a config for `treegraft preprocess`"):
        read(tmp_path, "task: classify\nlanguage: zh\ninput: {format: tsv}\n")


def test_models_and_tasks_are_those_there_are():
    assert set(get_args(ModelName)) == set(MODELS)
    assert set(TASK_NAMES) == set(TASKS) - {"none"}


def test_words_stay_words_where_no_number_is_wanted(tmp_path):
    text = GOOD.replace("data/a", "1e4, split: 1e3, dev: '2e3'").replace("steps: 10", "steps: 1e1")
    found = read(tmp_path, text, "options={alpha: 1e-1}", "out=1e5", "save_every=2e1")
    assert (found.data.split, found.data.dev, found.optim.steps, found.save_every) == ("1e3", "2e3", 10, 20)
    assert found.data.folder[0].folder == str(tmp_path / "1e4") and found.out.endswith("/1e5")
    assert found.options == {"alpha": 0.1}


def test_a_change_that_is_deep_is_refused(tmp_path):
    for change in (f"options={'{a: ' * 2000}1{'}' * 2000}", "options=&a [*a]", f"{'a.' * 2000}b=1"):
        with pytest.raises(RecipeError, match=r"nested too deep|a: unknown key|options: "):
            read(tmp_path, GOOD, change)


@pytest.mark.parametrize(
    "change", ["lr", "optim..lr=1", "=3", "optim.lr=[1", "optim={lr: 1, lr: 2}", "out=b #2"]
)
def test_changes_that_are_none(tmp_path, change):
    with pytest.raises(RecipeError, match="--set"):
        read(tmp_path, GOOD, change)


def test_rules_of_scores_are_those_of_tasks_that_there_are():
    assert HEEDED.keys() <= MEASURES.keys()
    assert sorted(itertools.chain(*HEEDED.values())) == sorted(Options.model_fields)


def test_scores_make_another_run_only_where_they_choose_the_weights(tmp_path):
    text = GOOD.replace("mlm", "span").replace("data/a", "data/a, dev: dev")
    for best, differs in (
        ((), False),
        (("best=f1",), True),
        (("best=f1", "scores.max_answer_length=30"), True),
    ):
        long = read(tmp_path, text, *best, "scores.max_answer_length=256")
        assert long.scores == Options(max_answer_length=256)
        assert (long.lasting() != read(tmp_path, text, *best).lasting()) == differs
    same = read(tmp_path, text, "best=f1", "scores.max_answer_length=30", "scores.script=null")
    assert same.lasting() == read(tmp_path, text, "best=f1").lasting()


def test_a_recipe_as_a_run_writes_it_down_is_one(tmp_path):
    """With all defaults, also of keys that the task does not heed."""
    found = read(tmp_path, GOOD)
    (tmp_path / "again.yaml").write_text(json.dumps(found.model_dump(mode="json")), encoding="utf-8")
    assert load_recipe(tmp_path / "again.yaml") == found


@pytest.mark.parametrize(
    "epochs, epoch, steps",
    [(0.07, 100, 7), (0.55, 100, 55), (0.071, 100, 8), (3, 7, 21), (1e-5, 9, 1), (1e5, 10**6, 10**11)],
)
def test_epochs_are_so_many_steps_and_no_more(tmp_path, epochs, epoch, steps):
    assert Optim(epochs=epochs).steps_in_all(epoch) == steps
    assert Optim(steps=5).steps_in_all(epoch) == 5


def test_what_changes_no_weight_makes_no_other_run(tmp_path):
    found = read(tmp_path, GOOD)
    same = read(
        tmp_path, GOOD, "workers=2", "save_every=3", "batch.accumulate=4", "data.folder=/moved", "out=x"
    )
    assert found.lasting() == same.lasting()
    assert found.lasting() != read(tmp_path, GOOD, "optim.lr=0.1").lasting()
    tuned = [read(tmp_path, GOOD, "init=/there", f"dropout={value}").lasting() for value in (0, 0.1, "null")]
    assert tuned[0] != tuned[1] != tuned[2] != tuned[0]


def test_a_default_that_is_written_out_makes_no_other_run(tmp_path):
    found = read(tmp_path, GOOD).lasting()
    assert read(tmp_path, GOOD, "batch.rows=32", "new.intermediate=128", "optim.clip=1").lasting() == found
    assert read(tmp_path, GOOD, "batch.rows=31").lasting() != found
    assert read(tmp_path, GOOD, "batch.tokens=900").lasting()["batch"]["rows"] is None


@pytest.mark.parametrize("schedule", ["linear", "cosine", "constant"])
@pytest.mark.parametrize("warmup", [0, 0.2, 20])
def test_rates_rise_to_the_highest_and_fall(schedule, warmup):
    optim = Optim(lr=2.0, warmup=warmup, schedule=schedule, steps=100)
    rates = [rate(optim, step, 100) for step in range(100)]
    begins = 20 if warmup else 0
    assert all(0 < x <= 2 for x in rates) and rates[begins] == pytest.approx(2)
    assert rates[: begins + 1] == sorted(rates[: begins + 1])
    assert rates[begins:] == sorted(rates[begins:], reverse=True)
    middle = {"linear": 1.0, "cosine": 1.0, "constant": 2.0}[schedule]
    assert rates[(begins + 100) // 2] == pytest.approx(middle)
    assert rates[-1] == 2 if schedule == "constant" else rates[-1] < 0.05


@pytest.mark.parametrize(
    ("warmup", "steps", "rising"), [(0.07, 100, 7), (0.29, 100, 29), (0.071, 100, 8), (2.5, 9, 3), (0, 9, 0)]
)
def test_a_share_of_all_steps_rises_and_no_more(warmup, steps, rising):
    optim = Optim(lr=1.0, warmup=warmup, schedule="constant", steps=steps)
    assert [rate(optim, step, steps) < 1 for step in range(steps)].count(True) == rising
