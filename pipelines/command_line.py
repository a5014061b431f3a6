"""What commands on a config have in common: their arguments, and the options of a run that these make."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corpora import files
from corpora.files import is_uri
from pipelines.config import Config, ConfigError, load_config
from pipelines.display import make_console

if TYPE_CHECKING:  # imported late below: Beam takes a second to load
    from pipelines.options import Options

_err = make_console(stderr=True)

ConfigPath = Annotated[
    Path, typer.Argument(help="YAML config; relative paths in it count from its own folder.")
]
Out = Annotated[
    str | None,
    typer.Option(help="Folder of the shards. Default: the config's `output`, or out/<config name>."),
]
Annotated_ = Annotated[
    str | None,
    typer.Option(
        "--annotated", help="Folder of the annotated documents. Default: the config's, or <out>/annotated."
    ),
]
Runner = Annotated[
    str,
    typer.Option(
        help="'local' (worker processes on this machine), or a Beam runner: FlinkRunner, SparkRunner, "
        "DataflowRunner, ... whose own options follow."
    ),
]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Local worker processes. Default: the cores there are.")
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace what another config wrote to the folder.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check the config, print the plan, write nothing.")]
PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


def start(
    context: typer.Context,
    config: Path,
    out: str | None,
    annotated: str | None,
    runner: str,
    workers: int | None,
    overwrite: bool,
) -> tuple[Config, Options]:
    """What a command on one config works with."""
    loaded = load_config(config)
    _, beam = split_configs(context, [config], runner)
    return loaded, make_options(loaded, config, out, annotated, runner, workers, beam, overwrite)


def split_configs(context: typer.Context, configs: list[Path], runner: str) -> tuple[list[Path], list[str]]:
    """Typer hands unknown options and their values to whichever list comes first: sort them out again."""
    given = [str(c) for c in configs] + list(context.args)
    beam_at = next((i for i, word in enumerate(given) if word.startswith("-")), len(given))
    paths, beam = [Path(word) for word in given[:beam_at]], given[beam_at:]
    if beam and runner == "local":
        name = beam[0].split("=")[0]
        raise ConfigError(f"unknown option {name}; {_instead(context, name)}")
    return paths, beam


def _instead(context: typer.Context, name: str) -> str:
    """What to do about an option that a command lacks."""
    commands: dict[str, Any] = getattr(context.find_root().command, "commands", {})
    if takers := [other for other in sorted(commands) if name in _options_of(context, commands[other])]:
        verb = "takes" if len(takers) == 1 else "take"
        return f"{', '.join(takers[:-1])}{' and ' if takers[1:] else ''}{takers[-1]} alone {verb} it"
    near = difflib.get_close_matches(name, _options_of(context, context.command), n=1)
    return f"did you mean {near[0]}?" if near else "Beam options need --runner"


def _options_of(context: typer.Context, command: Any) -> list[str]:
    return [option for parameter in command.get_params(context) for option in parameter.opts]


def make_options(
    config: Config,
    path: Path,
    out: str | None,
    annotated: str | None,
    runner: str,
    workers: int | None,
    beam: list[str],
    overwrite: bool,
    brief: bool = False,
) -> Options:
    from pipelines import flow
    from pipelines.config import resolve
    from pipelines.folders import check_folder
    from pipelines.options import Options

    if runner.lower() in ("directrunner", "direct"):
        _err.print("DirectRunner first tries to download another runner: using 'local', Beam's FnApiRunner")
        runner = "local"
    out, annotated = (name and (name.rstrip("/") or "/") for name in (out, annotated))
    folder = out or (resolve(path, config.output) if config.output else f"out/{path.stem}")
    beside = annotated or (
        resolve(path, config.annotated) if config.annotated else files.join(folder, flow.ANNOTATED)
    )
    if runner != "local" and not is_uri(folder):
        _err.print(
            "note: with a cluster, --out must be a folder that every worker reaches (a URI or a shared mount)"
        )
    for option, name in (("--out", folder), ("--annotated", beside)):
        check_folder(name, option)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Options(
        out=folder,
        annotated=beside,
        runner=runner,
        workers=workers or config.run.workers or cores,
        beam_options=beam,
        overwrite=overwrite,
        brief=brief,
        console=_err,
    )
