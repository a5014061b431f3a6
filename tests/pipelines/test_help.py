"""What `--help` shows on a narrow terminal: flowing text, and examples that can be copied."""

from __future__ import annotations

import inspect

import pytest
import typer
from typer.testing import CliRunner

from pipelines.cli import app


def commands(of, *names):
    for name, command in getattr(of, "commands", {}).items():
        if hasattr(command, "commands"):
            yield from commands(command, *names, name)
        else:
            yield (*names, name), command


@pytest.mark.parametrize(("names", "command"), commands(typer.main.get_command(app)), ids=lambda x: str(x))
def test_text_flows_and_examples_keep_their_lines(names, command):
    shown = CliRunner().invoke(app, [*names, "--help"], env={"COLUMNS": "80", "TERM": "dumb"}).output
    lines = [line.strip() for line in shown.splitlines()]
    paragraphs = inspect.cleandoc(command.callback.__doc__ or command.help).split("\n\n")
    assert "\b" not in shown and len(paragraphs[0]) > 20
    for paragraph in paragraphs:
        if paragraph.startswith(" "):
            assert {line.strip() for line in paragraph.splitlines()} <= set(lines)
        else:  # as wide as it can be
            assert paragraph.replace("\n", " ") in " ".join(lines)
            assert not any(line.startswith("- ") for line in paragraph.splitlines())
