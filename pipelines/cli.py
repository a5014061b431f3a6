"""The command `treegraft`: its rooms of commands, and how trouble is told."""

from __future__ import annotations

import inspect
import logging
import os
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from pipelines import kg_commands, lexicon_commands, look_commands, run_commands
from pipelines.config import ConfigError
from pipelines.display import make_console
from pipelines.view.legible import legible_lines

# Numeric libraries read these when they are first loaded: one thread each, so that sums keep their
# order and worker processes do not fight over cores.
# (What the user said of it is kept for training, which has one process that works.)
os.environ.setdefault("TREEGRAFT_THREADS", os.environ.get("OMP_NUM_THREADS", ""))
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
# Threads of OpenMP, torch's, that wait for each other sleep instead of spinning. Where other programs have the
# cores they wait for a thread that cannot run: training on two threads was 16 to 40 times slower so.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

app = typer.Typer(
    name="treegraft",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode="rich",
    help="Raw corpora to Arrow datasets that carry structure: sentence trees, soft positions, dependency parses "
    "and multi-grained segmentation.\n\nStart with [bold]treegraft preprocess[/bold]: without a config it prepares "
    "the embedded samples in ./out.",
)

app.add_typer(run_commands.app)
app.add_typer(lexicon_commands.app)
app.add_typer(look_commands.app)
app.add_typer(kg_commands.app, name="kg")
# Other packages' rooms (pyproject's entry points). Found twice where a checkout lies beside what is installed.
for _room in {entry.value: entry for entry in entry_points(group="treegraft.commands")}.values():
    app.add_typer(_room.load())


def _let_flow(of: typer.Typer) -> None:
    """Let help fill a terminal of any width: a paragraph is one line, unless it is indented."""
    for command in of.registered_commands:
        told = inspect.cleandoc(command.help or getattr(command.callback, "__doc__", None) or "")
        command.help = "\n\n".join(
            paragraph if paragraph.startswith(" ") else paragraph.replace("\n", " ")
            for paragraph in told.split("\n\n")
        )
    for group in of.registered_groups:
        if group.typer_instance is not None:
            _let_flow(group.typer_instance)


_let_flow(app)

_out = make_console()
_err = make_console(stderr=True)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        _out.print(f"treegraft {version('treegraft')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    pass


def _by_keyboard(error: BaseException | None) -> KeyboardInterrupt | None:
    """The KeyboardInterrupt that it comes from, which nobody spoke about: Typer makes an exit of it."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        silent = error.__suppress_context__ or error.__cause__ is not None
        error = error.__cause__ if silent else error.__context__
    return error


def _hold_streams() -> None:
    """Let a stream that came closed (`>&-`) lead to nowhere: else the first file that is opened has its number, and
    gets what is said."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            taken = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
            os.set_inheritable(taken, True)
        if getattr(sys, name) is None:
            lasting = Path(os.devnull).open("w" if number else "r", encoding="utf-8")  # noqa: SIM115
            setattr(sys, name, lasting)


def main() -> None:
    """Entry point: expected trouble ends in one readable message, not in a traceback."""
    _hold_streams()
    from pipelines.engine import InterruptedRunError, RunError

    logging.getLogger().setLevel(logging.CRITICAL)  # Beam's own news is not the user's
    try:
        app(standalone_mode=True)
    except InterruptedRunError as error:
        _err.print(legible_lines(str(error)))
        sys.exit(130)
    except (KeyboardInterrupt, SystemExit) as error:
        if (asked := _by_keyboard(error)) is None:
            raise
        _err.print(f"{str(asked) or 'stopped'}; run the same command again to continue", soft_wrap=True)
        sys.exit(130)
    except (ConfigError, RunError, OSError, ValueError, MemoryError, IndexError) as error:
        said = _in_one_line(error, sys.argv[1:])
        if not said or os.environ.get("TREEGRAFT_TRACEBACK"):
            raise
        _err.print(Text.assemble(("error: ", "bold red"), legible_lines(said)), soft_wrap=True)
        sys.exit(getattr(error, "exit_code", 1))


def _in_one_line(error: Exception, words: list[str]) -> str:
    """What the user reads of expected trouble; empty for an error of ours, which needs its traceback."""
    if isinstance(error, MemoryError):
        command = " ".join(words[: 2 if words[:1] == ["kg"] else 1])
        more = f" ({error})" if str(error) else ""
        return f"not enough memory for `treegraft {command}`{more}; give it more, or fewer --workers or less input"
    if isinstance(error, IndexError):
        if words[:1] != ["kg"] or words[1:2] not in (["stats"], ["lookup"], ["subjects"]):
            return ""
        return "the graph is damaged: a number in it points to nothing; compile its triples again"
    return str(error) or type(error).__name__
