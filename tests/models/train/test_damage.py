"""Damaged checkpoints, damaged metrics and a full disk: what is said, and that a run goes on from what is whole."""

from __future__ import annotations

import json
import pathlib
import resource
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from models.train import state as states
from models.train.folder import FolderError
from tests.models.train.recipes import metrics, run, same, weights


@pytest.fixture(scope="module")
def whole(datasets, tmp_path_factory):
    """A run with checkpoints of its three steps, and its keys."""
    keys = {"task": "mlm", "data": {"folder": str(datasets["pretrain"])}, "optim": {"lr": 1e-3, "steps": 3}}
    keys |= {"save_every": 1, "keep": 3}
    out, _ = run(tmp_path_factory.mktemp("whole"), **keys)
    return out, keys


@pytest.fixture
def unfinished(whole, tmp_path):
    """The run as it was before its model was written, and its newest checkpoint."""
    out = shutil.copytree(whole[0], tmp_path / "out")
    shutil.rmtree(out / "model")
    return out, out / "checkpoints/step-00000003"


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "optimizer.safetensors"])
@pytest.mark.parametrize("left", [None, 0, 100])
def test_a_checkpoint_that_is_damaged_says_what_helps(whole, unfinished, tmp_path, name, left):
    path = unfinished[1] / name
    body = path.read_bytes()
    path.unlink()
    if left is not None:
        path.write_bytes(body[:left])
    with pytest.raises(
        FolderError, match=f"^checkpoint {unfinished[1]} cannot be read: delete that folder to go on"
    ):
        run(tmp_path, **whole[1])


BEST = {"step": 2, "value": 0.5, "loss": 0.7, "rows": "x"}


@pytest.mark.parametrize(
    "wrong",
    [
        *({"loader": 3}, {"window": None}, {"step": 2}, {"step": "x"}, {"best": {"step": 1}}, {"best": [1]}),
        *(
            {"window": window}
            for window in ({"x": 1}, {"parts": "x", "tokens": 0}, {"parts": {}, "tokens": "3"})
        ),
        *({"window": {"parts": {"mlm": part}, "tokens": 0}} for part in ([1], ["a", "b"], [float("nan"), 1])),
        *({"best": BEST | {"value": value}} for value in ("9", None, float("nan"))),
        *({"best": BEST | {"step": step}} for step in (None, "../..")),
        *({"best": BEST | {"loss": "x"}}, {"owed": "no"}, {"computed": {"processes": [1]}}, {"sums": 3}),
    ],
)
def test_what_a_checkpoint_says_of_its_run_is_checked(unfinished, wrong):
    path = unfinished[1] / "training.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | wrong))
    with pytest.raises(FolderError, match="delete that folder"):
        states.read(unfinished[1])


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'"x"',
        b"\xff",
        b'{"version": ' + b"9" * 5000 + b"}",
        b'{"step": 3, "loader": {}}',
    ],
)
def test_a_training_json_that_is_none_is_damage(unfinished, body):
    (unfinished[1] / "training.json").write_bytes(body)
    with pytest.raises(FolderError, match="delete that folder"):
        states.read(unfinished[1])


def test_a_score_may_have_no_end_and_a_checkpoint_keeps_it(whole):
    last = whole[0] / "checkpoints/step-00000003"
    state = states.read(last)
    state.best = states.Look(step=1, value=float("inf"))
    found = states.State.model_validate_json(json.dumps(state.model_dump()))
    assert found == state


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "config.json"])
def test_files_of_another_step_are_known(whole, unfinished, tmp_path, name):
    """Whole files each, but not together: the run would end in other weights, without a word."""
    other = (unfinished[1].with_name("step-00000002") / name).read_bytes()
    (unfinished[1] / name).write_bytes(
        other.replace(b'"hidden_dropout_prob": 0.1', b'"hidden_dropout_prob": 0.2')
    )
    with pytest.raises(FolderError, match=f"delete that folder.*{name} is not what was saved"):
        run(tmp_path, **whole[1])


def first(moments, ending):
    return next(key for key in moments if key.endswith(ending))


@pytest.mark.parametrize(
    "change",
    [
        lambda moments: moments.pop(first(moments, "|exp_avg")),
        lambda moments: [moments.pop(key) for key in list(moments) if key.endswith("|step")],
        lambda moments: moments.update({(key := first(moments, "|exp_avg")): moments[key].half()}),
        lambda moments: moments.update({first(moments, "|exp_avg"): torch.zeros(())}),
        lambda moments: moments.update({first(moments, "|step"): torch.zeros(1)}),
        lambda moments: moments.update({"bert.other|exp_avg": torch.zeros(3)}),
    ],
)
def test_moments_that_no_step_leaves_are_damage(whole, unfinished, tmp_path, change):
    """Also where the checkpoint does not say what its files were, as those of earlier releases."""
    path = unfinished[1] / "optimizer.safetensors"
    moments = load_file(path)
    change(moments)
    save_file(moments, path)
    with pytest.raises(FolderError, match=r"delete that folder.*is not what was saved"):
        run(tmp_path, **whole[1])
    older(unfinished[1])
    with pytest.raises(FolderError, match=r"delete that folder.*moments of"):
        run(tmp_path, **whole[1])


def older(checkpoint):
    """As the first releases wrote it."""
    path = checkpoint / "training.json"
    body = json.loads(path.read_text()) | {"version": 1, "recipe": {"seed": 0}}
    del body["sums"], body["computed"]
    path.write_text(json.dumps(body))


def test_checkpoints_of_earlier_releases_are_gone_on_from(whole, unfinished, tmp_path):
    shutil.rmtree(unfinished[1])
    older(unfinished[1].with_name("step-00000002"))
    out, said = run(tmp_path, **whole[1])
    assert "going on after step 2" in said and same(weights(out), weights(whole[0]))


LONG = b"1" * 400


@pytest.mark.parametrize(
    "damage",
    [
        *(b"garbage\n", b"\xff\x00\n", b"[1]\n", b'{"loss": 1}\n', b"\n", b'{"step": true}\n'),
        b'{"step": 1, "loss": %b}\n' % LONG,
        b'{"step": -%b, "loss": 1.0}\n' % LONG,
        b"[" * 100_000 + b"\n",
    ],
)
def test_damaged_metrics_do_not_hold_a_run_up(whole, unfinished, tmp_path, damage):
    path = unfinished[0] / "metrics.jsonl"
    first, *others = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + damage + b"".join(others))
    shutil.rmtree(unfinished[1])
    out, said = run(tmp_path, **whole[1])
    assert f"{path} was damaged: it goes on behind its last whole line" in said
    assert [line["step"] for line in metrics(out)] == [1, 3] and same(weights(out), weights(whole[0]))


def test_a_picture_that_cannot_be_drawn_costs_no_model(whole, unfinished, tmp_path):
    picture = unfinished[0] / "curves.svg"
    picture.unlink()
    picture.mkdir()
    shutil.rmtree(unfinished[1])
    out, said = run(tmp_path, **whole[1])
    assert f"{picture} was not drawn: " in said and same(weights(out), weights(whole[0]))


@pytest.mark.parametrize(
    "name, there, what",
    [
        ("checkpoints", "file", "a file, where a run keeps a folder"),
        ("best", "file", "a file, where a run keeps a folder"),
        ("model", "file", "a file, where a run keeps a folder"),
        ("model", "link", "a link to nothing, where a run keeps a folder"),
        ("run.json", "folder", "a folder, where a run keeps a file"),
        ("metrics.jsonl", "folder", "a folder, where a run keeps a file"),
        (".lock", "folder", "a folder, where a run keeps a file"),
    ],
)
def test_what_is_in_the_way_is_said_before_the_first_step(whole, unfinished, tmp_path, name, there, what):
    path = unfinished[0] / name
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    if there == "link":
        path.symlink_to("/nowhere")
    else:
        path.touch() if there == "file" else path.mkdir()
    before = sorted(unfinished[0].iterdir())
    with pytest.raises(FolderError, match=f"^out: {path} is {what}: move it away"):
        run(tmp_path, **whole[1])
    assert sorted(unfinished[0].iterdir()) == before


@pytest.mark.parametrize("name", ["checkpoints/step-00000003", "model"])
def test_a_kill_while_a_folder_is_replaced_keeps_the_old_one(whole, tmp_path, monkeypatch, name):
    """Between the two renamings, when nothing has the name: a checkpoint is written again when a look was owed."""
    out = shutil.copytree(whole[0], tmp_path / "out")
    path, rename = out / name, pathlib.Path.rename

    def killed(old, new):
        if old.name.startswith(".new-") and new == path:
            raise KeyboardInterrupt
        return rename(old, new)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(pathlib.Path, "rename", killed)
        states.copy_model(path, path)
    assert not path.exists()
    _, said = run(tmp_path, **whole[1])
    assert "finished before: step 3 of 3" in said and same(weights(out), weights(whole[0]))
    assert not list(path.parent.glob(".new*")) and path.is_dir()


@pytest.mark.parametrize("share", [0.5, 1.1])
def test_a_full_disk_is_told_in_a_line(whole, unfinished, tmp_path, share):
    """A limit on files stands for it: within the model's, and within the optimizer's, which is larger."""
    most = int((unfinished[1] / "model.safetensors").stat().st_size * share)
    shutil.rmtree(unfinished[1])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
    try:
        with pytest.raises(
            OSError, match=f"^{unfinished[1]} could not be written: .*File too large.* Make room"
        ):
            run(tmp_path, **whole[1])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    out, said = run(tmp_path, **whole[1])
    assert "going on after step 2" in said and same(weights(out), weights(whole[0]))
