"""`--overwrite`: an old run is lost only when the new one could be opened, and never in part."""

from __future__ import annotations

import json
import re

import pytest

from models.evaluate.evaluation import PREDICTIONS
from models.evaluate.spans import ANSWERS, NO_ANSWER
from models.train import folder
from models.train.folder import FolderError, check_free, held
from models.train.generating import GENERATED
from models.train.reading import RecipeError
from tests.models.train.processes import both
from tests.models.train.recipes import TINY, metrics, recipe, run, same, weights, write


def keys_of(datasets, **more):
    keys = {"task": "classify", "data": {"folder": str(datasets["classify"]), "dev": "dev"}}
    return keys | {"optim": {"lr": 2e-3, "steps": 3}, "save_every": 1, "best": "loss"} | more


def files_of(out):
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"options": {"typo": 1}},
        {"best": "f1"},
        {"init": "no/such-model", "new": None},
        {"batch": {"rows": 8, "pack": 9}},
        {"data": {"folder": "nowhere"}},
        {"new": TINY | {"positions": 2}},
    ],
)
def test_a_recipe_that_cannot_run_leaves_the_old_run_as_it_was(datasets, tmp_path, monkeypatch, wrong):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    out, _ = run(tmp_path, **keys_of(datasets))
    before = files_of(out)
    keys = {key: value for key, value in keys_of(datasets, **wrong).items() if value is not None}
    with pytest.raises((ValueError, OSError)):
        run(tmp_path, overwrite=True, **keys)
    assert files_of(out) == before
    _, said = run(tmp_path, **keys_of(datasets))
    assert "finished before: step 3 of 3" in said


def test_of_two_processes_one_that_fails_is_enough(datasets, tmp_path):
    out, _ = run(tmp_path, **keys_of(datasets))
    before = files_of(out)
    path = write(tmp_path, **keys_of(datasets, batch={"rows": 9}))
    done = both(None, "finetune", str(path), "--overwrite")
    assert done.returncode != 0 and "batch.rows is 9, over all processes" in done.stderr
    assert files_of(out) == before


def test_the_weights_that_a_run_begins_from_are_not_overwritten(datasets, tmp_path):
    """A kill before its first checkpoint would leave neither the old run nor what the new one begins from."""
    out, _ = run(tmp_path, **keys_of(datasets))
    before = files_of(out)
    keys = keys_of(datasets, init=str(out / "model"), optim={"lr": 1e-3, "steps": 2})
    with pytest.raises(FolderError, match=r"lies in out, which --overwrite deletes.*--out"):
        run(tmp_path, overwrite=True, **keys)
    assert files_of(out) == before


@pytest.mark.parametrize("at", range(10))
def test_a_kill_while_the_old_run_is_deleted_leaves_no_mixture(datasets, tmp_path, monkeypatch, at):
    """Whichever recipe comes next begins anew, with nothing of the old run, its scores among it."""

    class Killed(BaseException):
        pass

    new = keys_of(datasets, optim={"lr": 1e-3, "steps": 2})
    clean, _ = run(tmp_path / "clean", **new)
    out, _ = run(tmp_path / "old", **keys_of(datasets))
    (out / "eval-dev").mkdir()
    (out / "eval-dev/metrics.json").write_text("{}")
    left, remove, write_ = [at], folder.remove, folder._write

    def dying(do):
        def made(*arguments):
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            do(*arguments)

        return made

    with monkeypatch.context() as patch:
        patch.setattr(folder, "remove", dying(remove))
        patch.setattr(folder, "_write", dying(write_))
        with pytest.raises(Killed):
            run(tmp_path / "old", overwrite=True, **new)
    check_free(out, recipe(tmp_path / "old", **new))
    out, said = run(tmp_path / "old", **new)
    assert "going on" not in said
    assert same(weights(out), weights(clean)) and metrics(out) == metrics(clean)
    assert files_of(out).keys() == files_of(clean).keys()


def test_without_a_run_there_is_nothing_to_overwrite(datasets, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/letter.txt").touch()
    with pytest.raises(FolderError, match="holds other files"):
        run(tmp_path, overwrite=True, **keys_of(datasets))
    (tmp_path / "out/letter.txt").unlink()
    with pytest.raises(RecipeError):
        run(tmp_path, overwrite=True, **keys_of(datasets, best="f1"))
    out, _ = run(tmp_path, overwrite=True, **keys_of(datasets))
    assert (out / "model").is_dir() and not list(out.glob(".old*"))


def test_a_folder_that_was_only_evaluated_into_is_free(datasets, tmp_path):
    told = (
        tmp_path / "out/eval-dev/metrics.json"
    )  # of `evaluate --model` under the recipe, before it was trained
    told.parent.mkdir(parents=True)
    told.write_text("{}")
    out, _ = run(tmp_path, **keys_of(datasets))
    assert (out / "model").is_dir() and told.read_text() == "{}"
    run(tmp_path, overwrite=True, **keys_of(datasets))
    assert not told.exists()


TEMPORARY = ".tmp-host-12-0-"


@pytest.mark.parametrize(
    "left",
    [
        f"{TEMPORARY}recipe.json",
        f"{TEMPORARY}run.json",
        "eval-dev/",
        f"eval-dev/{TEMPORARY}predictions.jsonl",
        f"eval-dev/{PREDICTIONS}",
        f"generate-dev/{GENERATED}",
        f"eval-dev/{ANSWERS}",
        f"eval-dev/{NO_ANSWER}",
    ],
)
def test_what_a_kill_leaves_before_a_run_is_begun_is_in_nobodys_way(tmp_path, left):
    out = tmp_path / "out"
    path = out / left
    (path if left.endswith("/") else path.parent).mkdir(parents=True)
    if not left.endswith("/"):
        path.touch()
    (out / ".lock").touch()
    check_free(out, some(tmp_path))
    with held(out, some(tmp_path), False):
        folder.begin(out, some(tmp_path), False, {})
    assert [path.name for path in out.glob(".tmp*")] == []
    with held(out, some(tmp_path), True):
        folder.begin(out, some(tmp_path), True, {})
    assert files_of(out).keys() == {"recipe.json", "run.json"} and not list(out.glob("eval*"))


def test_what_a_kill_leaves_of_a_file_is_swept_by_the_next_run(tmp_path):
    out = tmp_path / "out"
    before = write_run(out)
    (out / f"{TEMPORARY}curves.svg").write_text("<svg")
    with held(out, some(tmp_path), False):
        assert files_of(out) == before


@pytest.mark.parametrize("name", ["recipe.json", ".old-recipe.json"])
def test_a_damaged_recipe_beside_checkpoints_is_named(tmp_path, name):
    out = tmp_path / "out"
    write_run(out, **{name: "{", "checkpoints/step-00000004/training.json": "{}"})
    for hold in (lambda *given: held(*given, True).__enter__(), check_free):
        with pytest.raises(
            FolderError, match=rf"/{re.escape(name)} is damaged.*--set init=.*/checkpoints/step-00000004"
        ):
            hold(out, some(tmp_path))


def some(tmp_path, **keys):
    return recipe(tmp_path, task="tag", data={"folder": "data"}, optim={"steps": 1}, **keys)


def write_run(out, **more):
    """What a run leaves, by name, without a model that loads."""
    body = json.dumps(some(out.parent).lasting())
    for name, text in ({"recipe.json": body, "run.json": "{}", "model/my.txt": "mine"} | more).items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(text)
    return files_of(out)


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("text", ['{"cake": 1}', '{"model": "bert", "task": "tag"}', "[1]", "cake", ""])
def test_a_recipe_of_somebody_else_makes_no_folder_of_a_run(tmp_path, text, overwrite):
    before = write_run(tmp_path / "out", **{"recipe.json": text})
    for hold in (lambda *given: held(*given, overwrite).__enter__(), check_free):
        with pytest.raises(FolderError, match=r"holds other files and no recipe\.json of a run"):
            hold(tmp_path / "out", some(tmp_path))
    assert files_of(tmp_path / "out") == before


@pytest.mark.parametrize("name", ["data", "eval-data", "model"])
def test_the_data_of_a_run_are_not_overwritten(tmp_path, name):
    out = tmp_path / "out"
    before = write_run(out, **{f"{name}/manifest.json": "{}"})
    for key, data in (("folder", {}), ("dev_folder", {"folder": "elsewhere", "dev": "dev"})):
        keys = {"data": data | {key: str(out / name)}, "task": "tag", "optim": {"steps": 1}}
        with (
            pytest.raises(
                FolderError, match=rf"data\.{key}: .*{name} lies in out, which --overwrite deletes"
            ),
            held(out, recipe(tmp_path, **keys), True),
        ):
            pass
    assert files_of(out) == before


def test_only_what_is_of_a_run_is_deleted(tmp_path):
    out = tmp_path / "out"
    write_run(out, **{"eval-dev/metrics.json": "{}", "eval-notes/a.txt": "mine", "notes.txt": "mine"})
    with held(out, some(tmp_path), True):
        folder.begin(out, some(tmp_path), True, {})
    assert files_of(out).keys() == {"recipe.json", "run.json", "eval-notes/a.txt", "notes.txt"}


def test_what_fails_before_it_begins_deletes_what_it_made(tmp_path):
    """A run that was killed before its first step has left as little."""
    for there in ({}, {"recipe.json": json.dumps(some(tmp_path).lasting()), "run.json": "{}"}):
        for name, text in there.items():
            (tmp_path / "out").mkdir(exist_ok=True)
            (tmp_path / "out" / name).write_text(text)
        with pytest.raises(RecipeError), held(tmp_path / "out", some(tmp_path), False):
            raise RecipeError("wrong")
        assert (tmp_path / "out").exists() == bool(there) and files_of(
            tmp_path / "out"
        ).keys() == there.keys()


def test_a_run_of_an_earlier_release_goes_on(tmp_path):
    """Which left out of its recipe.json what follows from other keys."""
    keys = {"task": "tag", "data": {"folder": "data"}, "optim": {"steps": 1}, "batch": {}}
    made = recipe(tmp_path, **keys)
    old = made.lasting()
    old["batch"]["rows"] = old["new"]["intermediate"] = None
    del old["attention"]
    write_run(tmp_path / "out", **{"recipe.json": json.dumps(old)})
    check_free(tmp_path / "out", made)
    with pytest.raises(FolderError, match=r"batch\.rows: 32 there, 31 here"):
        check_free(tmp_path / "out", recipe(tmp_path, **keys | {"batch": {"rows": 31}}))
