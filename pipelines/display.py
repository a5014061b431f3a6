"""What a run shows: live progress, and a summary at the end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from pipelines.view.reasons import MENTIONS, in_words, of_questions

PLAIN_SECONDS, FIRST_SECONDS = 10.0, 2.0
"""Where output is no terminal, a progress line this often, and the first one so soon."""
_TELLING = 0.05
"""Share of the bytes to be done that must be done before they tell the time left: a small block that was done first
would make it hours."""
_LOADED = {"annotate": "parser and dictionaries", "encode": "tokenizer and graph"}
"""What the workers of a stage load before they begin."""


def make_console(*, stderr: bool = False) -> Console:
    """A console that prints strings as they are: paths and labels may hold what would be markup or an emoji code."""
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


class StageProgress:
    """Blocks, documents, tokens, rejects, rate and time left of one stage.

    A terminal gets a live bar, a log file a line every ten seconds. Rate and time left count from when the first
    worker had something to tell: models are loaded once. Time left is by input bytes of finished blocks; until the
    next is finished it runs down, and where it has run out nothing is said.
    """

    def __init__(
        self, console: Console, title: str, blocks: int, total_bytes: int, already: int, done_bytes: int
    ) -> None:
        self._console, self._title = console, title
        self._blocks, self._bytes, self._already = blocks, max(total_bytes, 1), already
        self._done_bytes = done_bytes
        self._next_line = time.monotonic() + FIRST_SECONDS
        self._began: float | None = None
        self._before: Mapping[str, int] = {}
        self._moved, self._moved_at = 0, 0.0
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> StageProgress:
        if self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}", "bold", markup=False),
                BarColumn(bar_width=24),
                TextColumn("{task.fields[facts]}", markup=False),
                TextColumn("{task.fields[rejects]}", "red", markup=False),
                TextColumn("{task.fields[left]}", markup=False),
                TimeElapsedColumn(),
                console=self._console,
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task(
                self._title, total=self._bytes, facts="starting workers", rejects="", left=""
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, totals: Counter[str]) -> None:
        now = time.monotonic()
        counted = Counter({name: number for name, number in totals.items() if name != "loading"})
        if self._began is None and counted:
            self._began, self._before = now, counted
        facts = self._facts(counted, now)
        if not counted:
            doing = (
                f"loading {_LOADED.get(self._title, 'models')}" if totals["loading"] else "starting workers"
            )
            facts += f" · {doing}"
        rejects = f"{totals['rejects']:,} rejects" if totals["rejects"] else ""
        left = self._left(totals["bytes"], now)
        if self._bar is not None and self._task is not None:
            moved = self._done_bytes + totals["bytes"]
            self._bar.update(self._task, completed=moved, facts=facts, rejects=rejects, left=left)
        elif now >= self._next_line:
            self._next_line = now + PLAIN_SECONDS
            line = " · ".join(filter(None, (facts, rejects, left)))
            self._console.print(f"{self._title}: {line}", highlight=False)

    def _left(self, moved: int, now: float) -> str:
        """Time left at the speed so far, once that is known."""
        wanted = self._bytes - self._done_bytes
        if moved != self._moved:
            self._moved, self._moved_at = moved, now
        if self._began is None or moved < _TELLING * wanted or not moved:
            return ""
        seconds = (self._moved_at - self._began) * (wanted - moved) / moved - (now - self._moved_at)
        return f"{_duration(seconds)} left" if seconds >= 0 else ""

    def _facts(self, totals: Counter[str], now: float) -> str:
        unit = "tokens" if totals["tokens"] else "words"
        parts = [f"{self._already + totals['blocks']:,}/{self._blocks:,} blocks"]
        parts += [f"{totals[key]:,} {key}" for key in ("documents", "rows", unit) if totals[key]]
        new = totals[unit] - self._before.get(unit, 0)
        if self._began is not None and new > 0 and now > self._began:
            parts.append(f"{new / (now - self._began):,.0f} {unit}/s")
        return " · ".join(parts)


def _duration(seconds: float) -> str:
    minutes, secs = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{secs:02}" if hours else f"{minutes}:{secs:02}"


def summary(rows: Mapping[str, Mapping[str, int]]) -> Table:
    """A column per split, a line per counter that is not zero everywhere."""
    names: list[str] = []
    for counters in rows.values():
        names += [n for n, value in counters.items() if value and n not in names]
    table = Table()
    table.add_column("")
    for split in rows:
        table.add_column(split, justify="right")
    for name in names:
        table.add_row(Text(_counter(name)), *[f"{counters.get(name, 0):,}" for counters in rows.values()])
    return table


def _counter(name: str) -> str:
    if name.startswith("dropped_"):
        return f"{'mentions' if name in MENTIONS else 'branches'} dropped: {in_words(name)}"
    return in_words(name) if of_questions(name) else name.replace("_", " ")


def counts(reasons: Mapping[str, int]) -> str:
    """`reason 12, other 3`, the most frequent first."""
    return ", ".join(
        f"{reason} {count:,}" for reason, count in sorted(reasons.items(), key=lambda r: (-r[1], r[0]))
    )
