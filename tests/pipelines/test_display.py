"""Live progress: plain text in a pipe, and no time left before it is known."""

from __future__ import annotations

import io
from collections import Counter

import pytest
from rich.console import Console

from pipelines import display
from pipelines.display import StageProgress, summary


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


def test_what_comes_before_the_first_count_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Soon after the start, too: a line that comes after ten seconds makes a run look hung."""
    lines = told(monkeypatch, (2.5, {}), (12.5, {"loading": 2}), (22.5, {"loading": 1, "words": 40_000}))
    assert lines == [
        "annotate: 0/4 blocks · starting workers",
        "annotate: 0/4 blocks · loading parser and dictionaries",
        "annotate: 0/4 blocks · 40,000 words",
    ]


def test_the_rate_is_that_of_the_work_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = told(monkeypatch, (30.0, {"words": 4_000}), (50.0, {"words": 24_000, "documents": 9}))
    assert lines[1] == "annotate: 0/4 blocks · 9 documents · 24,000 words · 1,000 words/s"


def test_time_left_runs_down_while_no_block_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    half = {"words": 9, "blocks": 1, "bytes": 500}
    lines = told(monkeypatch, (0.0, {"words": 1}), (40.0, half), (60.0, half), (90.0, half))
    assert [line.rpartition(" · ")[2] for line in lines] == ["0:40 left", "0:20 left", "0 words/s"]


def test_a_summary_says_what_became_of_questions() -> None:
    """Beside documents and records, "questions without answer 1" alone does not tell whether a row was made."""
    out = io.StringIO()
    counters = {"documents": 3, "questions_without_answer": 1, "records": 2}
    Console(file=out, width=80).print(summary({"train": counters}))
    assert "questions without an answer, left out │     1 │" in out.getvalue()
