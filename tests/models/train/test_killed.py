"""A run with workers that is killed: nothing of it stays, and the same command goes on at once."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest

from models.train.folder import held, newest
from tests.models.train.recipes import recipe, run, same, weights, write
from tests.warm import ROOT, ready


def lives(pid: int) -> bool:
    """Whether a process is there, and not only its name, which waits for somebody to ask."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(true, seconds=60.0):
    end = time.monotonic() + seconds
    while not (found := true()) and time.monotonic() < end:
        time.sleep(0.01)
    return found


def start(tmp_path, *words, module=None):
    said = tmp_path / "said"
    said.touch()
    return ready().start(words, ROOT, Path(said).open(), Path(said).open(), module=module), said


@pytest.fixture
def killing():
    """Processes whose group is ended when a test ends, also by an error."""
    groups = []
    yield groups
    for pid in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def test_the_same_command_goes_on_at_once_to_the_same_bits(datasets, tmp_path, killing):
    keys = {"task": "pretrain", "data": {"folder": str(datasets["pretrain"])}, "workers": 2}
    keys |= {"optim": {"lr": 1e-3, "steps": 60}, "save_every": 10}
    whole, _ = run(tmp_path / "whole", **keys | {"workers": 0})
    running, said = start(tmp_path, "pretrain", write(tmp_path, **keys))
    killing.append(running.pid)
    assert until(lambda: newest(tmp_path / "out")), said.read_text()
    workers = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
    os.kill(running.pid, signal.SIGKILL)
    assert running.wait(10) == -signal.SIGKILL and workers
    out, told = run(tmp_path, **keys)
    assert "going on after step" in told and same(weights(out), weights(whole))
    assert until(lambda: not any(lives(int(pid)) for pid in workers), 10)


@pytest.mark.skipif(not hasattr(signal, "sigtimedwait"), reason="nobody knows here who asks")
def test_who_asks_the_whole_group_to_end_gets_a_checkpoint(datasets, tmp_path, killing):
    """As `timeout` and schedulers do; workers leave it to the run."""
    keys = {"task": "pretrain", "data": {"folder": str(datasets["pretrain"])}, "workers": 2}
    keys |= {"optim": {"lr": 1e-3, "steps": 100_000}, "save_every": 100_000}
    running, said = start(tmp_path, "pretrain", write(tmp_path, **keys))
    killing.append(running.pid)
    metrics = tmp_path / "out/metrics.jsonl"
    assert until(lambda: metrics.exists() and metrics.read_text().count("\n") > 1), said.read_text()
    workers = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
    os.killpg(running.pid, signal.SIGTERM)
    assert running.wait(60) == 130 and newest(tmp_path / "out") and workers
    assert "stopped after step" in said.read_text() and "memory" not in said.read_text()
    assert until(lambda: not any(lives(int(pid)) for pid in workers), 10)


@pytest.mark.parametrize(
    "method", ["fork", *(pytest.param(name, marks=pytest.mark.heavy) for name in ("spawn", "forkserver"))]
)
def test_workers_end_whose_parcels_nobody_will_fetch(datasets, tmp_path, killing, method):
    module = "tests.models.stream.orphans"
    running, said = start(tmp_path, datasets["pretrain"], method, module=module)
    killing.append(running.pid)
    assert until(lambda: said.read_text().endswith("\n")), said.read_text()
    workers = [int(pid) for pid in said.read_text().split("\n")[-2].split()]
    assert len(workers) == 2 and all(map(lives, workers))
    os.kill(running.pid, signal.SIGKILL)
    assert until(lambda: not any(map(lives, workers)), 15)


def test_a_child_holds_no_folder(tmp_path):
    """Though it lives on; nor does its end, or its own leaving of the folder, free what the parent holds."""
    some = recipe(tmp_path, task="mlm", data={"folder": str(tmp_path)}, optim={"steps": 1})
    ready_, wrote = os.pipe()
    with held(tmp_path / "out", some, False):
        links = [path.resolve() for path in Path("/proc/self/fd").iterdir() if path.exists()]
        assert tmp_path / "out/.lock" in links
        child = os.fork()
        if not child:
            links = [path.resolve() for path in Path("/proc/self/fd").iterdir() if path.exists()]
            os.write(wrote, b"free" if tmp_path / "out/.lock" not in links else b"held")
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(ready_, 4) == b"free"
        with pytest.raises(ValueError, match="another run is writing"), held(tmp_path / "out", some, False):
            pass
    os.close(ready_)
    os.close(wrote)
