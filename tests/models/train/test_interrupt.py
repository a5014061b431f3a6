"""Being asked to stop: of several processes by any of them; twice; and in a worker of a loader."""

from __future__ import annotations

import os
import signal

import pytest

from models.train import interrupt
from tests.models.train.processes import both
from tests.models.train.recipes import run, write


def test_asking_one_of_two_processes_stops_both_after_the_same_step(datasets, tmp_path):
    keys = {
        "task": "mlm",
        "data": {"folder": str(datasets["pretrain"])},
        "optim": {"lr": 1e-3, "steps": 9},
    }
    done = both("tests.models.train.asked", "pretrain", str(write(tmp_path, **keys)), seconds=60)
    assert done.returncode == 130, done.stderr
    assert "stopped after step 4 of 9" in done.stderr and "Traceback" not in done.stderr
    assert done.stderr.count("run the same command again") == done.stderr.count("stopped") == 1
    _, said = run(tmp_path, **keys)
    assert "going on after step 4 of 9" in said


def test_asking_twice_stops_at_once(monkeypatch):
    times = iter((0.0, 0.5, 2.0))
    monkeypatch.setattr(interrupt.time, "monotonic", lambda: next(times))
    with pytest.raises(KeyboardInterrupt), interrupt.deferred(alone=True) as asked:
        assert not asked()
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)  # the terminal's and a parent's
        assert asked()
        os.kill(os.getpid(), signal.SIGINT)
    with interrupt.deferred(alone=False) as asked:
        monkeypatch.undo()
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGTERM)
        assert asked()


def test_what_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupt.deferred(alone=True) as asked:
            os.kill(os.getpid(), signal.SIGINT)
            assert not asked()
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_child_ends_when_it_is_told_to_and_not_by_the_keyboard():
    with interrupt.deferred(alone=True) as asked:
        child = os.fork()
        if not child:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(9)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
        assert not asked()
