"""How a command runs, whatever it computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console

from pipelines import runners
from pipelines.display import make_console


@dataclass(frozen=True)
class Options:
    """How to run; nothing here changes what is written."""

    out: str
    annotated: str
    runner: str = runners.LOCAL
    workers: int = 1
    beam_options: Sequence[str] = ()
    overwrite: bool = False
    brief: bool = False
    """A line a stage instead of a table."""
    console: Console = field(default_factory=lambda: make_console(stderr=True))
