"""Who watches a run goes away: the run goes on, or keeps what it has learned."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from models.train import interrupt, screen
from models.train.evaluating import _listed
from models.train.folder import newest
from tests.models.train.recipes import metrics, weights, write
from tests.warm import ROOT, Process, ready, treegraft


def keys_of(datasets, steps):
    optim = {"lr": 1e-3, "steps": steps}
    return {"task": "classify", "data": {"folder": str(datasets["classify"])}, "optim": optim}


@contextlib.contextmanager
def watched(
    folder: Path, *words: object, err: Path | None = None
) -> Iterator[tuple[Process, Callable[[bytes], None]]]:
    """A command that writes to a pipe, and what waits for something to be said there; the pipe is closed then."""
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    keep = os.open(pipe, os.O_WRONLY)  # so that reading waits for the command to open it
    os.set_blocking(reader, True)
    out, other = SimpleNamespace(name=str(pipe)), SimpleNamespace(name=str(err or pipe))
    running = ready().start(words, ROOT, out, other)

    def leave(after: bytes) -> None:
        found = b""
        while after not in found:
            found += os.read(reader, 4096)
        os.close(reader)
        os.close(keep)

    try:
        yield running, leave
    finally:
        if running.poll() is None:
            running.kill()


def test_a_reader_that_is_gone_ends_no_run(datasets, tmp_path):
    """`2>&1 | tee`, and tee dies: the run ends as it would have, with status 0."""
    path = write(tmp_path, **keys_of(datasets, 40))
    with watched(tmp_path, "finetune", path) as (running, leave):
        leave(b"step 1/40")
        assert running.wait(60) == 0
    assert metrics(tmp_path / "out")[-1]["step"] == 40 and (tmp_path / "out/model").is_dir()


def test_a_terminal_that_is_closed_leaves_a_checkpoint(datasets, tmp_path):
    path = write(tmp_path, **keys_of(datasets, 10**6) | {"save_every": 10**6})
    with watched(tmp_path, "finetune", path) as (running, leave):
        leave(b"step 1/1")
        os.kill(running.pid, signal.SIGHUP)
        assert running.wait(60) == 130
    assert newest(tmp_path / "out") is not None


def test_what_shows_results_ends_quietly(datasets, tmp_path):
    """`treegraft evaluate | head -1`."""
    path = write(tmp_path, **keys_of(datasets, 1))
    assert treegraft("finetune", path, cwd=ROOT).returncode == 0
    (said := tmp_path / "said").touch()
    with watched(tmp_path, "evaluate", path, "--split", "dev", err=said) as (running, leave):
        leave(b"rows")
        running.wait(60)
    assert (tmp_path / "out/eval-dev/metrics.json").exists() and said.read_text() == ""


FORKS = """
import os, sys
from importlib import import_module
from tests.warm import MODULES
for name in MODULES:
    import_module(name)
for verb in ("finetune", "evaluate", "generate"):
    if not (child := os.fork()):
        sys.argv[:] = ["treegraft", verb, sys.argv[1]]
        if verb != "evaluate":
            os.close(2)
            sys.stderr = None
        sys.exit(import_module("pipelines.cli").main())
    if code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        sys.exit(f"{verb}: {code}")
"""
"""The commands, each a fork of an interpreter that came without streams (which spares imports), as it came."""


def test_streams_that_come_closed_stop_nothing(datasets, tmp_path):
    """`>&- 2>&-`, as a daemon may start it: it works, and no file has what would have been said."""
    keys = {"model": "unilm", "task": "mlm", "data": {"folder": str(datasets["seq2seq"]), "dev": "train"}}
    path = write(tmp_path, **keys, optim={"lr": 1e-3, "steps": 1})
    words = ["bash", "-c", 'exec "$@" <&- >&-', "bash", sys.executable, "-c", FORKS, str(path)]
    done = subprocess.run(words, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert (tmp_path / "out/generate-train/metrics.json").is_file() and weights(tmp_path / "out")
    assert not [file for file in tmp_path.rglob("*.*") if b"trained model:" in file.read_bytes()]


def test_hanging_up_is_asked_for_once_though_it_is_said_twice(monkeypatch):
    times = iter((0.0, 2.0))
    monkeypatch.setattr(interrupt.time, "monotonic", lambda: next(times))
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with interrupt.deferred(alone=True) as asked:
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGHUP)
            assert asked()
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [errno.EPIPE, errno.EIO, errno.ENOSPC])
def test_what_cannot_be_told_is_no_error(monkeypatch, number):
    class Stream(io.StringIO):
        fails = True

        def write(self, text):
            if self.fails:
                raise OSError(number, os.strerror(number))
            return super().write(text)

    gone, stream = [], Stream()
    monkeypatch.setattr(screen, "_let_go", gone.append)
    monkeypatch.setattr(stream, "fileno", lambda: 9)
    with contextlib.redirect_stderr(stream):
        made = screen.make_screen(stderr=True)
    made.print("lost")
    stream.fails = False
    made.print("told")
    assert stream.getvalue() == "told\n" and gone == ([] if number == errno.ENOSPC else [9])


@pytest.mark.parametrize("columns", ["0", "20"])
def test_results_are_shown_on_a_screen_without_room(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    rows = [{"class": "good", "precision": 0.25, "recall": 0.5, "f1": 1 / 3, "gold": 2, "predicted": 4}]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        screen.make_page().print(_listed("classes", rows))
        screen.make_screen().print("told", soft_wrap=True)
    assert all(
        word in said.getvalue() for word in ("precision", "good", "0.2500", "0.5000", "0.3333", "told")
    )
