"""What a run tells: a bar or lines as it goes, a line of JSON for every look, TensorBoard where it is wanted.

`metrics.jsonl` is the record: one object a line, of a step (`loss` and its parts are means over all predictions
since the line before; `tokens` and their speed are of all processes) or of a look at the dev split (`dev_...`). When a
run goes on from a checkpoint, lines of later steps are cut off, for those steps are done again, and speed is of the
steps since alone.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from pydantic import BaseModel, ConfigDict, FiniteFloat, NonNegativeInt
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from corpora import files
from models.evaluate.measure import Result
from models.output import summed
from models.train.folder import METRICS
from models.train.recipe import Recipe

_PLAIN_SECONDS = 5.0
"""Where output is no terminal, a line this often at most."""
_DIGITS = 18
"""Of a whole number in a line, at most: what counts anything has fewer."""


@dataclass(frozen=True)
class Losses:
    """Of a step, over all ranks: the parts of its loss, how many predictions each is a mean over, their weights in the
    loss, and tokens that were read."""

    means: dict[str, float]
    counts: dict[str, int]
    weights: dict[str, float | None]
    tokens: int


class Window(BaseModel):
    """What was summed up since the last line: by part of the loss its sum and over how many predictions; tokens."""

    model_config = ConfigDict(extra="forbid", strict=True)
    parts: dict[str, tuple[FiniteFloat, NonNegativeInt]] = {}
    tokens: NonNegativeInt = 0


class Log:
    """Of one run, in its first process; `quiet` ones of the others sum up and tell nothing.

    Attributes:
        window: sums since the last line: what a checkpoint keeps.
    """

    def __init__(
        self,
        out: Path,
        console: Console,
        recipe: Recipe,
        start: int,
        steps: int,
        quiet: bool,
        window: Window | None = None,
    ) -> None:
        self._out, self._console, self._every, self._quiet = out, console, recipe.log_every, quiet
        self._start, self._steps, self._best = start, steps, recipe.best
        self.window = window or Window()
        self._bar: Progress | None = None
        self._writer = None if quiet or not recipe.tensorboard else _writer()
        self._board: Any = None
        self._began = self._since = time.perf_counter()
        self._read = 0
        """Tokens since then: of a window that a checkpoint kept, those of before took no time here."""
        self._printed, self._said, self._news = 0.0, "", False

    def open(self) -> None:
        """Make files ready: nothing was written so far."""
        if not self._quiet and not _cut(self._out / METRICS, self._start):
            self.say(f"{self._out / METRICS} was damaged: it goes on behind its last whole line")
        if self._writer is not None:
            self._board = self._writer(str(self._out / "tensorboard"))

    def __enter__(self) -> Log:
        if not self._quiet and self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.completed:,.0f}/{task.total:,.0f} steps", markup=False),
                BarColumn(bar_width=24),
                TextColumn("{task.fields[facts]}", markup=False),
                TimeElapsedColumn(),
                console=self._console,
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task("", total=self._steps, completed=self._start, facts="")
        self._began = self._since = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        if self._board is not None:
            self._board.close()

    def step(self, step: int, losses: Losses, **now: float) -> None:
        """A step is done; `now` is told as it is."""
        window = self.window
        for name, mean in losses.means.items():
            total, count = window.parts.get(name, (0.0, 0))
            window.parts[name] = total + mean * losses.counts[name], count + losses.counts[name]
        window.tokens += losses.tokens
        self._read += losses.tokens
        counted = any(count for _, count in window.parts.values())  # else there is no mean
        if counted and (step % self._every == 0 or step == self._steps):
            means = {name: total / max(count, 1) for name, (total, count) in window.parts.items()}
            counts = {name: count for name, (_, count) in window.parts.items()}
            seconds = time.perf_counter() - self._since
            line = {"step": step, "loss": summed(means, counts, losses.weights)}
            line |= means if len(means) > 1 else {}
            line |= now | {"tokens": window.tokens, "seconds": round(seconds, 3)}
            line["tokens_per_second"] = round(self._read / max(seconds, 1e-9), 1)
            self.window, self._read, self._since = Window(), 0, time.perf_counter()
            self._write(line)
            facts = [f"loss {line['loss']:.4f}", f"{line['tokens_per_second']:,.0f} tokens/s"]
            self._said, self._news = " · ".join(facts), True
        self._show(step, last=step == self._steps)

    def dev(self, step: int, result: Result, best: int | None) -> None:
        """The dev split has been looked at; `best`: the step of the best look so far, where that is asked for."""
        scores, main = result.scores, result.main
        line = {"step": step, **{f"dev_{name}": value for name, value in scores.items()}}
        self._write(line if best is None else line | {"best_step": best})
        told = "" if best is None else " · the best so far" if best == step else f" · best: step {best:,}"
        shown = [name for name in scores if not main or name in main or name == self._best]
        self.say(
            f"step {step:,}: dev "
            + (" · ".join(f"{n} {scores[n]:.4f}" for n in shown) or "no scores, for no row has a label")
            + told
        )
        for remark in result.remarks:
            self.say(f"step {step:,}: {remark}")

    def say(self, text: str) -> None:
        """A line for who watches."""
        if not self._quiet:
            self._console.print(text, highlight=False, soft_wrap=True)

    def pause(self, seconds: float) -> None:
        """So many seconds were spent on something else than steps: speed is of steps alone."""
        self._since += seconds

    def _write(self, line: dict[str, Any]) -> None:
        if self._quiet:
            return
        path = self._out / METRICS
        with files.naming(str(path)), path.open("a", encoding="utf-8") as sink:
            sink.write(json.dumps(line) + "\n")
        if self._board is not None:
            for name, value in line.items():
                if name != "step":
                    self._board.add_scalar(name.replace("dev_", "dev/"), value, line["step"])

    def _show(self, step: int, last: bool) -> None:
        if self._quiet:
            return
        now = time.perf_counter()
        left = (now - self._began) / max(step - self._start, 1) * (self._steps - step)
        facts = f"{self._said} · {_duration(left)} left" if self._said else ""
        if self._bar is not None:
            self._bar.update(self._task, completed=step, facts=facts)
        elif self._news and (last or now - self._printed >= _PLAIN_SECONDS):
            self._printed, self._news = now, False
            self.say(f"step {step:,}/{self._steps:,} · {self._said if last else facts}")


def read_metrics(out: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics, up to one that is damaged."""
    return _read(out / METRICS)[0]


def _read(path: Path) -> tuple[list[dict[str, Any]], bool]:
    """Lines up to a damaged one, and whether there is none; of a run that was killed the last may be in part."""
    found: list[dict[str, Any]] = []
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    for line in lines:
        try:
            body = json.loads(line, parse_int=_whole)
        except (ValueError, RecursionError):
            break
        if not isinstance(body, dict) or type(body.get("step")) is not int:
            break
        found.append(body)
    return found, len(found) == len(lines)


def _whole(text: str) -> int:
    if len(text) > _DIGITS:
        raise ValueError("a number that no run writes")
    return int(text)


def _cut(path: Path, step: int) -> bool:
    """Leave out what was told of later steps; the rest is written anew, and put in place at once. Whether all of it
    could be read."""
    found, whole = _read(path)
    kept = [line for line in found if line["step"] <= step]
    with files.write_atomic(str(path)) as sink:
        sink.write("".join(json.dumps(line) + "\n" for line in kept).encode())
    return whole


def _duration(seconds: float) -> str:
    minutes, secs = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{secs:02}" if hours else f"{minutes}:{secs:02}"


def _writer() -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ValueError("tensorboard: true needs pip install 'treegraft[tensorboard]'") from None
    return SummaryWriter
