"""Damaged checkpoints, damaged metrics and a full disk: what is said, and that a run goes on from what is whole."""

from __future__ import annotations

import json
import pathlib
import resource
import shutil

import pytest

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


@pytest.mark.parametrize(
    "wrong",
    [{"loader": 3}, {"window": None}, {"step": 2}, {"step": "x"}, {"best": {"step": 1}}, {"best": [1]}],
)
def test_what_a_checkpoint_says_of_its_run_is_checked(unfinished, wrong):
    path = unfinished[1] / "training.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | wrong))
    with pytest.raises(FolderError, match="delete that folder"):
        states.read(unfinished[1])


@pytest.mark.parametrize("damage", [b"garbage\n", b"\xff\x00\n", b"[1]\n", b'{"loss": 1}\n', b"\n"])
def test_damaged_metrics_do_not_hold_a_run_up(whole, unfinished, tmp_path, damage):
    path = unfinished[0] / "metrics.jsonl"
    first, *others = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + damage + b"".join(others))
    shutil.rmtree(unfinished[1])
    out, said = run(tmp_path, **whole[1])
    assert f"{path} was damaged: it goes on behind its last whole line" in said
    assert [line["step"] for line in metrics(out)] == [1, 3] and same(weights(out), weights(whole[0]))


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
