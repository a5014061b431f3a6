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

from pipelines.view.reasons import MENTIONS, in_words

PLAIN_SECONDS = 10.0
"""Where output is no terminal, a progress line this often."""
_TELLING = 0.05
"""Share of the bytes to be done that must be done before they tell the time left: a small block that was done first
would make it hours."""


def make_console(*, stderr: bool = False) -> Console:
    """A console that prints strings as they are: paths and labels may hold what would be markup or an emoji code."""
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


class StageProgress:
    """Blocks, documents, tokens, rejects, rate and time left of one stage.

    A terminal gets a live bar, a log file a line every ten seconds. Time left counts input bytes of finished
    blocks, from when the first worker had something to tell: models are loaded once.
    """

    def __init__(
        self, console: Console, title: str, blocks: int, total_bytes: int, already: int, done_bytes: int
    ) -> None:
        self._console, self._title = console, title
        self._blocks, self._bytes, self._already = blocks, max(total_bytes, 1), already
        self._done_bytes = done_bytes
        self._start = self._last_line = time.monotonic()
        self._began: float | None = None
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
        if self._began is None and totals:
            self._began = now
        facts = _facts(totals, self._already + totals["blocks"], self._blocks, now - self._start)
        rejects = f"{totals['rejects']:,} rejects" if totals["rejects"] else ""
        left = self._left(totals["bytes"], now)
        if self._bar is not None and self._task is not None:
            moved = self._done_bytes + totals["bytes"]
            self._bar.update(self._task, completed=moved, facts=facts, rejects=rejects, left=left)
        elif now - self._last_line >= PLAIN_SECONDS:
            self._last_line = now
            line = " · ".join(filter(None, (facts, rejects, left)))
            self._console.print(f"{self._title}: {line}", highlight=False)

    def _left(self, moved: int, now: float) -> str:
        """Time left at the speed so far, once that is known."""
        wanted = self._bytes - self._done_bytes
        if self._began is None or moved < _TELLING * wanted or not moved:
            return ""
        return f"{_duration((now - self._began) * (wanted - moved) / moved)} left"


def _facts(totals: Mapping[str, int], blocks: int, all_blocks: int, seconds: float) -> str:
    parts = [f"{blocks:,}/{all_blocks:,} blocks"]
    parts += [f"{totals[key]:,} {key}" for key in ("documents", "rows", "tokens") if totals.get(key)]
    unit = "tokens" if totals.get("tokens") else "words"
    if totals.get(unit) and seconds > 0:
        parts.append(f"{totals[unit] / seconds:,.0f} {unit}/s")
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
    return name.replace("_", " ")


def counts(reasons: Mapping[str, int]) -> str:
    """`reason 12, other 3`, the most frequent first."""
    return ", ".join(
        f"{reason} {count:,}" for reason, count in sorted(reasons.items(), key=lambda r: (-r[1], r[0]))
    )
