"""The best weights by dev: which look's they are, that a stop changes nothing, and what is said of wrong scores."""

from __future__ import annotations

import json
import os
import shutil
import signal

import pyarrow as pa
import pytest
import torch
from safetensors.torch import load_file

from models import checkpoint
from models.evaluate.classes import value_scores
from models.evaluate.evaluation import MEASURES, evaluate
from models.evaluate.measure import Result
from models.stream.open import open_split
from models.train import best as best_
from models.train import state as states
from models.train.best import Best, scores_of
from models.train.data import make_collator, open_dev, open_rows
from models.train.folder import FolderError
from models.train.loop import _Run
from models.train.parts import make_model
from models.train.reading import RecipeError
from tests.models.train.lesser import rewritten, unlabelled
from tests.models.train.processes import torchrun
from tests.models.train.recipes import TINY, metrics, recipe, run, same, weights, write

MADE = (0.3, 0.6, 0.5, 0.6, 0.2)
"""Scores of the looks after steps 2, 4, ... 10."""
LOOK = _Run.look


def keys_of(datasets, **more):
    data = {"folder": str(datasets["classify"]), "dev": "dev"}
    keys = {"task": "classify", "data": data, "optim": {"lr": 2e-3, "steps": 10, "warmup": 2}}
    return keys | {"eval_every": 2, "save_every": 3, "best": "accuracy"} | more


def rows_of(datasets):
    return open_split(str(datasets["classify"]), "dev", ("id",)).fingerprint


def scored(monkeypatch, values=MADE, name="accuracy", losses=(1.0,) * 5):
    """Looks have these scores; what they are looked at for is the step."""

    def made(self, step):
        with monkeypatch.context() as patch:
            at = step // 2 - 1
            result = Result({"loss": losses[at], name: values[at]}, pa.table({}))
            patch.setattr("models.train.loop.evaluate", lambda *_, **__: result)
            LOOK(self, step)

    monkeypatch.setattr(_Run, "look", made)


@pytest.fixture(scope="module")
def history(datasets, tmp_path_factory):
    """Weights after each step of the run that these tests stop and score, by its checkpoints."""
    out, _ = run(tmp_path_factory.mktemp("history"), **keys_of(datasets, save_every=1, keep=99, best=None))
    return [load_file(path / "model.safetensors") for path in sorted((out / "checkpoints").iterdir())]


@pytest.mark.parametrize(
    "name, values, step",
    [
        ("accuracy", MADE, 4),  # the first of equals
        ("loss_of_a_part", (0.3, 0.2, 0.1, 0.1, 0.2), 6),
        ("mean_squared_error", MADE, 10),
        ("accuracy", (float("nan"), 0.0, float("nan"), 0.1, 0.1), 8),
        ("accuracy", (float("nan"),) * 5, 10),
    ],
)
def test_the_model_is_that_of_the_best_look(datasets, tmp_path, monkeypatch, history, name, values, step):
    scored(monkeypatch, values, name)
    monkeypatch.setattr(best_, "scores_of", lambda model, metadata: {name: model.parts})
    out, said = run(tmp_path, **keys_of(datasets, best=name))
    assert same(weights(out), history[step - 1])
    assert checkpoint.load(out / "model").task.name == "classify"
    found = json.loads((out / "run.json").read_text())
    looks = {line["step"]: line.get("best_step") for line in metrics(out) if "dev_loss" in line}
    if values[0] == values[0] or values[1] == values[1]:
        best = {"step": step, "value": values[step // 2 - 1], "loss": 1.0, "rows": rows_of(datasets)}
        assert found["best"] == best | {"score": name}
        assert f"model has the weights of step {step}, the best by dev {name}" in said
        assert looks[10] == step
    else:
        assert "best" not in found and set(looks.values()) == {None}
    if values == MADE and name == "accuracy":
        assert looks == {2: 2, 4: 4, 6: 4, 8: 4, 10: 4}
        assert said.count("· the best so far") == 2 and said.count("· best: step 4") == 3
    assert "best_step" not in (out / "curves.svg").read_text()


LOSSES = (0.9, float("nan"), 0.4, 0.4, 0.8)


def test_of_equal_scores_the_one_of_the_lower_loss_is_best(datasets, tmp_path, monkeypatch, history):
    """Of these the first; a stop before it or behind it changes nothing."""
    scored(monkeypatch, (0.5,) * 5, losses=LOSSES)
    check = _Run.check
    for stop in (None, 5, 7):

        def asked(self, step, *rest, stop=stop):
            if step == stop:
                os.kill(os.getpid(), signal.SIGINT)
            check(self, step, *rest)

        folder = tmp_path / str(stop)
        if stop is not None:
            with monkeypatch.context() as patch:
                patch.setattr(_Run, "check", asked)
                with pytest.raises(KeyboardInterrupt):
                    run(folder, **keys_of(datasets))
        out, _ = run(folder, **keys_of(datasets))
        assert same(weights(out), history[5])
        found = json.loads((out / "run.json").read_text())["best"]
        rows = rows_of(datasets)
        assert found == {"step": 6, "value": 0.5, "loss": 0.4, "rows": rows, "score": "accuracy"}


def test_a_checkpoint_that_does_not_know_the_loss_of_its_best_is_read(
    datasets, tmp_path, monkeypatch, history
):
    """As earlier releases wrote them: of equals the first stays, better ones are taken."""
    scored(monkeypatch, (0.6, 0.5, 0.5, 0.6, 0.6), losses=LOSSES)
    out, _ = run(tmp_path, **keys_of(datasets))
    assert same(weights(out), history[7]), "of equals by the loss"
    shutil.rmtree(out / "checkpoints/step-00000010")
    path = out / "checkpoints/step-00000009/training.json"
    state = json.loads(path.read_text())
    assert state["best"] == {"step": 8, "value": 0.6, "loss": 0.4, "rows": rows_of(datasets)}
    del state["best"]["loss"]
    path.write_text(json.dumps(state))
    scored(monkeypatch, (0.6, 0.5, 0.5, 0.6, 0.6), losses=(0.1,) * 5)
    out, _ = run(tmp_path, **keys_of(datasets))
    assert same(weights(out), history[7])


def test_without_it_the_model_is_the_last(datasets, tmp_path, monkeypatch, history):
    scored(monkeypatch)
    out, _ = run(tmp_path, **keys_of(datasets, best=None))
    assert same(weights(out), history[-1]) and not (out / "best").exists()
    assert all("best_step" not in line for line in metrics(out))


def test_tags_need_no_dev_split(datasets, tmp_path):
    """Whose labels would tell which scores there are."""
    data = {"folder": str(datasets["tag"])}
    out, _ = run(tmp_path, task="tag", data=data, optim={"lr": 1e-3, "steps": 1})
    assert checkpoint.load(out / "model").task.name == "tag"


def files_of(out):
    return sorted(path.name for path in (out / "best").iterdir())


@pytest.mark.parametrize("at", [1, 2, 3, 4, 5, 6])
def test_a_kill_at_any_writing_ends_in_the_same_bits(datasets, tmp_path, monkeypatch, history, at):
    """Before and after weights and checkpoints get their names: of looks at 2 and 4, checkpoints of 3 and 6."""

    class Killed(BaseException):
        pass

    scored(monkeypatch)
    left, rename = [at], os.rename

    def dying(source, target):
        path = str(target)
        if "step-" in path and not path.rpartition("/")[2].startswith("."):
            left[0] -= 1
            if left[0] == 0:
                raise Killed
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.rename", dying)
        with pytest.raises(Killed):
            run(tmp_path, **keys_of(datasets))
    out, _ = run(tmp_path, **keys_of(datasets))
    assert same(weights(out), history[3]) and json.loads((out / "run.json").read_text())["best"]["step"] == 4
    assert files_of(out) == ["step-00000004"]


def test_a_run_that_goes_on_may_find_another_look_best(datasets, tmp_path, monkeypatch, history):
    """As on other ranks: what was best before the checkpoint is there still, though better weights were written since."""

    class Stop(Exception):
        pass

    check = _Run.check

    def dying(self, step, *rest):
        if step == 9:
            raise Stop
        check(self, step, *rest)

    with monkeypatch.context() as patch:
        scored(patch, (0.3, 0.6, 0.5, 0.9, 0.2))
        patch.setattr(_Run, "check", dying)
        with pytest.raises(Stop):
            run(tmp_path, **keys_of(datasets))
    assert files_of(tmp_path / "out") == [f"step-{step:08}" for step in (2, 4, 8)], "checkpoints: 3 and 6"
    scored(monkeypatch)
    out, said = run(tmp_path, **keys_of(datasets))
    assert "going on after step 6" in said
    assert same(weights(out), history[3]) and files_of(out) == ["step-00000004"]


def test_a_checkpoint_before_the_newest_finds_its_best(datasets, tmp_path, monkeypatch, history):
    """The newest one was deleted by hand, as the error of a damaged one advises."""
    scored(monkeypatch, (0.3, 0.2, 0.2, 0.9, 0.2))
    out, _ = run(tmp_path, **keys_of(datasets))
    assert same(weights(out), history[7]) and files_of(out) == ["step-00000008"]
    with monkeypatch.context() as patch:
        scored(patch, (0.3, 0.2, 0.2, 0.2, 0.9))
        other, _ = run(tmp_path / "other", **keys_of(datasets))
        assert files_of(other) == ["step-00000002", "step-00000010"], "checkpoints of 9 and 10"
        shutil.rmtree(other / "checkpoints/step-00000010")
    scored(monkeypatch, (0.3, 0.2, 0.2, 0.2, 0.1))
    other, _ = run(tmp_path / "other", **keys_of(datasets))
    assert same(weights(other), history[1]) and files_of(other) == ["step-00000002"]
    shutil.rmtree(other / "best")
    with pytest.raises(FolderError, match="the best weights by the newest checkpoint"):
        run(tmp_path / "other", **keys_of(datasets))


def test_weights_of_looks_do_not_pile_up(datasets, tmp_path, monkeypatch):
    """Each look better than the one before, no checkpoint in between: a model at a time."""
    scored(monkeypatch, (0.1, 0.2, 0.3, 0.4, 0.5))
    most, write_ = [0], states.save_model

    def counting(path, *rest):
        write_(path, *rest)
        most[0] = max(most[0], len(list((tmp_path / "out/best").glob("*"))))

    monkeypatch.setattr(states, "save_model", counting)
    out, _ = run(tmp_path, **keys_of(datasets, save_every=500))
    assert most[0] == 2 and files_of(out) == ["step-00000010"]


def test_an_interrupt_keeps_what_was_best(datasets, tmp_path, monkeypatch, history):
    scored(monkeypatch)
    check = _Run.check

    def asked(self, step, *rest):
        if step == 4:  # a look is due after this step, a checkpoint is not
            os.kill(os.getpid(), signal.SIGINT)
        check(self, step, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(_Run, "check", asked)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, **keys_of(datasets))
    out, said = run(tmp_path, **keys_of(datasets))
    assert "going on after step 4" in said and same(weights(out), history[3])
    again, _ = run(tmp_path, **keys_of(datasets))
    assert same(weights(again), history[3])


def test_two_processes_keep_what_one_does_and_one_goes_on(datasets, tmp_path):
    keys = keys_of(datasets, new=TINY | {"dropout": 0.0}, best="loss")
    alone, _ = run(tmp_path / "alone", **keys)
    done = torchrun(
        "tests.models.train.command", "finetune", str(write(tmp_path / "both", **keys)), seconds=90
    )
    assert done.returncode == 0, done.stderr
    out = tmp_path / "both/out"
    one, two = (json.loads((folder / "run.json").read_text())["best"] for folder in (alone, out))
    assert one["step"] == two["step"] and one["value"] == pytest.approx(two["value"], rel=1e-3)
    mine = weights(alone)
    assert max(float((mine[name] - x).abs().max()) for name, x in weights(out).items()) < 1e-4
    shutil.rmtree(out / "checkpoints/step-00000010")
    resumed, said = run(tmp_path / "both", **keys)
    assert "going on after step 9 of 10" in said
    assert max(float((mine[name] - x).abs().max()) for name, x in weights(resumed).items()) < 1e-4


def test_another_best_or_other_looks_are_another_run(datasets, tmp_path):
    keys = keys_of(datasets, optim={"lr": 1e-3, "steps": 2})
    run(tmp_path, **keys)
    with pytest.raises(FolderError, match='best: "accuracy" there, "loss" here'):
        run(tmp_path, **keys | {"best": "loss"})
    with pytest.raises(FolderError, match="eval_every: 2 there, 1 here"):
        run(tmp_path, **keys | {"eval_every": 1})
    data = {"folder": str(datasets["span"]), "dev": "train"}
    keys = keys_of(datasets, task="span", data=data, optim={"lr": 1e-3, "steps": 2}, best="f1")
    run(tmp_path / "span", **keys, scores={"max_answer_length": 256})
    with pytest.raises(FolderError, match=r'scores: {"max_answer_length": 256} there, not set here'):
        run(tmp_path / "span", **keys)


def test_looks_at_other_rows_do_not_compare(datasets, tmp_path):
    """Of the dataset one dev row is left out: those that are learned from are the same."""

    def less(split, table, metadata):
        return table.slice(1) if split == "dev" else table

    made = {
        "before": rewritten(datasets["classify"], tmp_path / "before"),
        "after": rewritten(datasets["classify"], tmp_path / "after", less),
    }
    keys = keys_of(datasets) | {"optim": {"lr": 1e-3, "steps": 2}}
    first, second = (keys | {"data": {"folder": str(path), "dev": "dev"}} for path in made.values())
    run(tmp_path, **first)
    with pytest.raises(FolderError, match=r"data\.dev: other rows there"):
        run(tmp_path, **second)
    run(tmp_path, **first)


@pytest.mark.parametrize("fails, step", [("take", 4), ("write", 4), ("take", 10)])
def test_a_look_that_fails_is_made_again_from_its_step_on(
    datasets, tmp_path, monkeypatch, history, fails, step
):
    """Nothing that was learned is lost, though no checkpoint was due; what was best is what it would have been."""
    scored(monkeypatch)
    whole, _ = run(tmp_path / "whole", **keys_of(datasets, save_every=500))
    usual = getattr(Best, fails)

    def failing(self, *given):
        if given[0] == step or (fails == "write" and self.look.step == step):
            raise RuntimeError("out of memory")
        return usual(self, *given)

    keys = keys_of(datasets, save_every=500)
    with monkeypatch.context() as patch:
        patch.setattr(Best, fails, failing)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="out of memory"):
                run(tmp_path, **keys)
    (kept,) = (tmp_path / "out/checkpoints").iterdir()
    state = json.loads((kept / "training.json").read_text())
    assert kept.name == f"step-{step:08}" and state["owed"]
    assert state["best"]["step"] == (2 if step == 4 else 4)
    assert same(load_file(kept / "model.safetensors"), history[step - 1])
    out, said = run(tmp_path, **keys)
    assert f"step {step} of 10" in said
    assert same(weights(out), history[3]) and same(weights(out), weights(whole))
    assert metrics(out) == metrics(whole) and files_of(out) == ["step-00000004"]
    assert not states.read(out / "checkpoints/step-00000010").owed


def test_scores_that_are_none_are_refused(datasets, tmp_path):
    with pytest.raises(RecipeError, match=r"best is a score of data\.dev: name the split"):
        recipe(tmp_path, **keys_of(datasets, data={"folder": str(datasets["classify"])}, eval_every=None))
    known = "its scores: accuracy, macro_f1, matthews, loss$"
    with pytest.raises(RecipeError, match=f"best: 'f1' is no score of task 'classify' here; {known}"):
        run(tmp_path, **keys_of(datasets, best="f1"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("best", ["macro_f1", "loss", None])
def test_a_score_that_the_first_look_lacks_is_told_and_another_can_be_named(
    datasets, tmp_path, monkeypatch, best
):
    """Nothing that was learned is lost: the run with the other score ends as if it had been named from the beginning."""
    keys = keys_of(datasets, save_every=500)
    scored(monkeypatch, MADE, "macro_f1", (5.0, 4.0, 3.0, 2.0, 1.0))
    whole, _ = run(tmp_path / "whole", **keys | {"best": best})
    for _ in range(2):
        with pytest.raises(
            RecipeError, match="step 2 has no score 'accuracy'; it has loss, macro_f1"
        ) as caught:
            run(tmp_path, **keys)
        assert "All that was learned is kept: write another best" in str(caught.value)
    out, said = run(tmp_path, **keys | {"best": best})
    assert "going on after step 2 of 10" in said and metrics(out) == metrics(whole)
    assert same(weights(out), weights(whole))
    assert (out / "recipe.json").read_bytes() == (whole / "recipe.json").read_bytes()
    assert json.loads((out / "run.json").read_text()).get("best", {}).get("score") == best
    with pytest.raises(
        FolderError, match=f'best: {json.dumps(best) if best else "not set"} there, "accuracy" here'
    ):
        run(tmp_path, **keys)


def test_rules_of_scores_can_be_corrected_before_the_first_look(datasets, tmp_path, monkeypatch):
    data = {"folder": str(datasets["span"]), "dev": "dev"}
    keys = keys_of(datasets, task="span", data=data, optim={"lr": 1e-3, "steps": 3}, best="f1", save_every=1)

    def failing(self, *given):
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(_Run, "look", failing)
        with pytest.raises(RuntimeError):
            run(tmp_path, **keys)
    out, said = run(tmp_path, **keys, scores={"max_answer_length": 9})
    assert "going on after step 1 of 3" in said
    assert json.loads((out / "recipe.json").read_text())["scores"] == {"max_answer_length": 9}
    with pytest.raises(FolderError, match=r"scores: .* there, not set here"):
        run(tmp_path, **keys)


def test_best_weights_that_were_deleted_are_missed_unless_none_are_asked_for(
    datasets, tmp_path, monkeypatch, history
):
    scored(monkeypatch)
    out, _ = run(tmp_path, **keys_of(datasets))
    shutil.rmtree(out / "best")
    for best in ("accuracy", "loss"):
        with pytest.raises(FolderError, match="the best weights by the newest checkpoint"):
            run(tmp_path, **keys_of(datasets, best=best))
    run(tmp_path, **keys_of(datasets, best=None))
    assert same(weights(out), history[-1])


def test_a_score_that_no_look_can_have_is_told_before_the_first_step(datasets, tmp_path):
    """By labels of dev: rows that are no pairs have none of the next sentence."""
    single = unlabelled(datasets["pretrain"], tmp_path / "single", "train")
    data = {"folder": str(datasets["pretrain"]), "dev": "train", "dev_folder": str(single)}
    keys = keys_of(datasets, task="pretrain", data=data)
    for name in ("next_accuracy", "loss_nsp"):
        says = rf"best: no row of {single} \(train\) has a label that '{name}' is a score of"
        with pytest.raises(RecipeError, match=says):
            run(tmp_path, **keys | {"best": name})
    data = {"folder": str(datasets["span"]), "dev": "train"}
    keys = keys_of(datasets, task="span", data=data, best="best_f1")
    with pytest.raises(
        RecipeError, match=r"questions that have no answer, and .*span \(train\) has none of these"
    ):
        run(tmp_path, **keys)
    assert not (tmp_path / "out").exists()

    def asked(split, table, metadata):
        """The first question has no answer."""
        first = [one == table["id"][0] for one in table["id"]]
        made = {
            "is_impossible": first,
            "answers": [
                [] if no else given for no, given in zip(first, table["answers"].to_pylist(), strict=True)
            ],
        }
        for name, values in made.items():
            at = table.column_names.index(name)
            table = table.set_column(
                at, table.schema.field(at), pa.array(values, table.schema.field(at).type)
            )
        return table

    folder = rewritten(datasets["span"], tmp_path / "asked", asked)
    keys |= {"data": {"folder": str(folder), "dev": "dev"}, "optim": {"lr": 1e-3, "steps": 2}}
    out, _ = run(tmp_path, **keys)
    assert "dev_best_f1" in metrics(out)[-1]


@pytest.mark.parametrize(
    "task, source, model",
    [
        ("mlm", "pretrain", "bert"),
        ("mlm", "pretrain", "ambert"),
        ("pretrain", "pretrain", "bert"),
        ("nsp", "pretrain", "bert"),
        ("classify", "classify", "ambert"),
        ("tag", "tag", "bert"),
        ("span", "span", "bert"),
        ("choice", "choice", "bert"),
    ],
)
def test_names_are_those_that_looks_have(datasets, tmp_path, task, source, model):
    made = recipe(
        tmp_path,
        model=model,
        task=task,
        data={"folder": str(datasets[source]), "dev": "train"},
        optim={"steps": 1},
    )
    assert task in MEASURES
    bert = make_model(made, open_rows(made))
    collator = make_collator(made, bert, open_rows(made).metadata)
    split = open_dev(made, bert, collator)
    with torch.no_grad():
        has = set(evaluate(bert, split, collator).scores)
    known = set(scores_of(bert, split.metadata))
    thresholds = {name for name in has if name.endswith("_threshold")}
    missing = {"entity_f1", "entity_precision", "entity_recall"} | set(best_._WITHOUT_ANSWER)
    assert has - thresholds <= known and known - has <= missing


def test_names_of_values_are_those_of_their_scores():
    assert set(best_.SCORES["regress"]) == set(value_scores([0.0, 1.0, 2.0], [0.0, 2.0, 1.0]))
    assert best_.SCORES.keys() <= MEASURES.keys()
