"""Commands in processes that are ready: one process has imported what they need, and each command is a fork of it.

A command still has a process of its own: its arguments, folder, environment, streams, signals and exit status are as
if it had been typed. It is spared the seconds of its imports, which are most of what a command on a sample takes.
Where that start is what is tested, or reads a variable (PYTHONHASHSEED, TREEGRAFT_SMALL_BYTES): `anew`, or `COMMAND`.
"""

from __future__ import annotations

import functools
import gc
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[1]
MODULES = (
    "pipelines.cli",
    "pipelines.flow",
    "pipelines.worker",
    "pipelines.view.inspect",
    "spacy.lang.zh",
    "models.train.loop",
    "models.train.evaluating",
    "models.train.generating",
)
WIDTH = {"COLUMNS": "100"}
COMMAND = (sys.executable, "-c", "from pipelines.cli import main; main()")
"""`treegraft` from the interpreter's start."""


class Process:
    """A command that runs."""

    def __init__(self, ready: Ready, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ready = ready

    def poll(self) -> int | None:
        """Its exit status, or minus the signal that ended it; None while it runs."""
        if self.returncode is None:
            self.returncode = self._ready.ask(poll=self.pid)
        return self.returncode

    def wait(self, seconds: float = 300) -> int:
        until = time.monotonic() + seconds
        while (code := self.poll()) is None:
            if time.monotonic() > until:
                self.kill()
                raise TimeoutError(f"process {self.pid} ran for more than {seconds} seconds")
            time.sleep(0.005)
        return code

    def kill(self) -> None:
        """With all that it started."""
        os.killpg(self.pid, signal.SIGKILL)


class Ready:
    """The process that has imported `MODULES`; it ends with the tests, and ends what then still runs."""

    def __init__(self) -> None:
        code = "from tests.warm import serve; serve()()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={
                name: value for name, value in os.environ.items() if name != "COLUMNS"
            },  # else it would stay
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def ask(self, **request: Any) -> Any:
        question, answer = self._process.stdin, self._process.stdout
        assert question and answer
        question.write(json.dumps(request) + "\n")
        question.flush()
        return json.loads(answer.readline())

    def start(
        self,
        words: Sequence[object],
        cwd: Path,
        out: IO[Any],
        err: IO[Any],
        env: Mapping[str, str] | None = None,
        module: str | None = None,
    ) -> Process:
        """`treegraft` with these words, or `python -m module`; `out` and `err` are open files that have names."""
        pid = self.ask(
            words=[str(word) for word in words],
            cwd=str(cwd),
            env={**os.environ, **WIDTH, **(env or {})},
            streams=[os.devnull, out.name, err.name],
            module=module,
        )
        return Process(self, pid)


ready = functools.cache(Ready)


def serve() -> Callable[[], object]:
    """The life of a process that is ready. Returns in its forks, with what is to run in them, and ends in itself."""
    logging.getLogger().setLevel(logging.CRITICAL)  # as the command does
    for name in MODULES:
        import_module(name)
    gc.freeze()  # else a fork's first collection writes to, and so copies, all its memory
    running = set()
    for line in iter(sys.stdin.readline, ""):
        request = json.loads(line)
        if "poll" in request:
            pid, status = os.waitpid(request["poll"], os.WNOHANG)
            running.discard(pid)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        elif answer := os.fork():
            running.add(answer)
        else:
            return _become(**request)
        print(json.dumps(answer), flush=True)
    for pid in running:  # the tests were stopped
        os.killpg(pid, signal.SIGKILL)
    return lambda: None


def _become(
    words: list[str], cwd: str, env: dict[str, str], streams: list[str], module: str | None
) -> Callable[[], object]:
    os.setsid()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    for number, name in enumerate(streams):
        os.dup2(os.open(name, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_APPEND), number)
    sys.argv = ["treegraft", *words]
    if module is None:
        return import_module("pipelines.cli").main
    return functools.partial(import_module("runpy").run_module, module, run_name="__main__")


def treegraft(
    *words: object, cwd: Path, env: Mapping[str, str] | None = None, anew: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; `anew`: from the interpreter's start."""
    if anew:
        return subprocess.run(
            [*COMMAND, *map(str, words)],
            cwd=cwd,
            env={**os.environ, **WIDTH, **(env or {})},
            capture_output=True,
            text=True,
            timeout=300,
        )
    with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
        code = ready().start(words, cwd, out, err, env).wait()
        texts = [Path(stream.name).read_text(encoding="utf-8") for stream in (out, err)]
    return subprocess.CompletedProcess([*words], code, *texts)
