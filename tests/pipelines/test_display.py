"""Live progress: plain text in a pipe, and no time left before it is known."""

from __future__ import annotations

import io
from collections import Counter

import pytest
from rich.console import Console

from pipelines import display
from pipelines.display import StageProgress


def told(
    monkeypatch: pytest.MonkeyPatch, *ticks: tuple[float, dict[str, int]], total: int = 1000, **console: bool
) -> list[str]:
    """Lines that a pipe gets of counters at these seconds."""
    now = [0.0]
    monkeypatch.setattr(display.time, "monotonic", lambda: now[0])
    out = io.StringIO()
    screen = Console(file=out, width=200, markup=False, **console)  # type: ignore[arg-type]
    with StageProgress(screen, "annotate", 4, total, 0, 0) as progress:
        for seconds, counters in ticks:
            now[0] = seconds
            progress(Counter(counters))
    return out.getvalue().splitlines()


def test_a_pipe_gets_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = told(monkeypatch, (11.0, {"documents": 7, "rejects": 3}))
    assert line == "annotate: 0/4 blocks · 7 documents · 3 rejects"


def test_a_terminal_shows_rejects_too(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = "\n".join(told(monkeypatch, (11.0, {"rejects": 3}), force_terminal=True))
    assert "3 rejects" in drawn and "[red]" not in drawn


def test_time_left_waits_until_it_can_be_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block of a thousandth of the corpus, done while the others load their models, says nothing of the rest."""
    lines = told(
        monkeypatch,
        (8.0, {"documents": 1}),
        (12.0, {"documents": 9, "blocks": 1, "bytes": 1}),
        (28.0, {"documents": 99, "blocks": 2, "bytes": 500}),
        (48.0, {"documents": 999, "blocks": 4, "bytes": 1000}),
    )
    assert ["left" in line for line in lines] == [False, True, True]
    assert lines[1].endswith("0:20 left")  # half of it took 20 seconds once work began
    assert lines[2].endswith("0:00 left")
