"""The commands that make something of a config: preprocess, annotate, encode, dedup."""

from __future__ import annotations

import difflib
import os
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from corpora import files
from corpora.files import is_uri
from pipelines.config import Config, ConfigError, load_config
from pipelines.display import make_console
from pipelines.view.legible import legible, legible_lines

if TYPE_CHECKING:  # imported late below: Beam takes a second to load
    from corpora.manifest import Manifest
    from pipelines.options import Options

app = typer.Typer()

_out = make_console()
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
_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


@app.command(context_settings=_PASS_ON)
def preprocess(
    context: typer.Context,
    configs: Annotated[
        list[Path] | None, typer.Argument(help="YAML configs. Default: the embedded samples.")
    ] = None,
    out: Out = None,
    annotated: Annotated_ = None,
    runner: Runner = "local",
    workers: Workers = None,
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
) -> None:
    """Annotate and encode a corpus: raw files to verified shards.

    A run that was stopped, killed even, goes on when the same command runs again.

    Every option of the chosen Beam runner may follow:
    treegraft preprocess my.yaml --runner FlinkRunner --flink_master=host:8081
    """
    from corpora.verify import verify as verify_folder
    from pipelines import flow
    from pipelines.recoarse import Recoarse
    from pipelines.retokenize import Retokenizer
    from pipelines.view.inspect import show

    chosen, beam = _split_configs(context, configs or [], runner)
    samples = not chosen
    if samples:
        folder = resources.files("corpora") / "samples"
        chosen = sorted(Path(str(entry)) for entry in folder.iterdir() if entry.name.endswith(".yaml"))
        _err.print(
            f"No config given: preparing the {len(chosen)} embedded samples in {legible(out or 'out')}/"
        )
    if len(chosen) > 1 and out is not None and not samples:
        raise ConfigError(
            "--out names one folder, but several configs were given: set `output` in each config"
        )
    loaded = [(path, load_config(path)) for path in chosen]  # all of them, before any work
    done: dict[str, Manifest] = {}
    for path, config in loaded:
        target = str(Path(out or "out") / path.stem) if samples else out
        options = _options(
            config,
            path,
            target,
            annotated,
            runner,
            workers,
            beam,
            overwrite or samples,
            brief=len(loaded) > 1,
        )
        if len(loaded) > 1:
            _err.rule(Text(legible(path.stem)))
        if dry_run:
            _print_plan(config, path, options)
            continue
        manifest = flow.preprocess(config, str(path), options)
        report = verify_folder(
            options.out, branch_tokens=Retokenizer(options.out), coarse_text=Recoarse(options.out)
        )
        if not report.ok:
            _err.print(legible_lines("\n".join(report.render())))
            raise typer.Exit(1)
        _err.print(f"verified: {report.counts['rows']:,} rows, every rule holds")
        done[options.out] = manifest
    if not done:
        return
    told = next((folder for folder in done if samples and folder.endswith("zh-reviews")), list(done)[-1])
    if samples:
        _out.print(Text(f"\ntreegraft inspect {legible(told)} --row 0 --split train\n"))
        show(told, _out, row=0, split="train")
    if len(done) > 1:
        _err.print(
            f"wrote {len(done)} datasets: {', '.join(map(legible, done))}", highlight=False, markup=False
        )
    _next_steps(told, done[told])


@app.command(context_settings=_PASS_ON)
def annotate(
    context: typer.Context,
    config: ConfigPath,
    out: Out = None,
    annotated: Annotated_ = None,
    runner: Runner = "local",
    workers: Workers = None,
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
) -> None:
    """Stage 1 alone: sentences, words and parses (slow; kept for every later encode)."""
    from pipelines import flow

    loaded, options = _start(context, config, out, annotated, runner, workers, overwrite)
    if dry_run:
        _print_plan(loaded, config, options)
        return
    flow.annotate(loaded, str(config), options)
    _err.print(f"next: treegraft encode {legible(str(config))}")


@app.command(context_settings=_PASS_ON)
def encode(
    context: typer.Context,
    config: ConfigPath,
    out: Out = None,
    annotated: Annotated_ = None,
    runner: Runner = "local",
    workers: Workers = None,
    overwrite: Overwrite = False,
) -> None:
    """Stage 2 alone: tokens, trees and rows from finished annotations (fast)."""
    from pipelines import flow

    loaded, options = _start(context, config, out, annotated, runner, workers, overwrite)
    manifest = flow.encode(loaded, str(config), options)
    _next_steps(options.out, manifest)


@app.command(context_settings=_PASS_ON)
def dedup(
    context: typer.Context,
    config: ConfigPath,
    out: Out = None,
    runner: Runner = "local",
    workers: Workers = None,
    overwrite: Overwrite = False,
) -> None:
    """Find exact and near duplicates and report them; with a `dedup` section, preprocess leaves them out."""
    from pipelines import flow

    loaded, options = _start(context, config, out, None, runner, workers, overwrite)
    folder = legible(flow.dedup(loaded, str(config), options).folder)
    _err.print(
        f"wrote {folder}: report.json (largest clusters), dropped.arrow (every duplicate)", soft_wrap=True
    )
    if loaded.dedup is None:
        _err.print("next: add a `dedup:` section to the config, and `treegraft preprocess` leaves them out")


def _start(
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
    _, beam = _split_configs(context, [config], runner)
    return loaded, _options(loaded, config, out, annotated, runner, workers, beam, overwrite)


def _split_configs(context: typer.Context, configs: list[Path], runner: str) -> tuple[list[Path], list[str]]:
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


def _options(
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


def _print_plan(config: Config, path: Path, options: Options) -> None:
    from pipelines import flow
    from pipelines.display import summary
    from pipelines.dry_run import describe_plan

    flow.check(config, str(path), options)
    splits = describe_plan(config, str(path), options)
    _out.print(Text(f"plan of {legible(path.name)}"))
    _out.print(summary(splits))
    _out.print(f"annotated documents: {legible(options.annotated)}")
    _out.print(f"shards:              {legible(options.out)}")
    _out.print(f"columns:             base, {', '.join(config.encode.columns)}")
    _out.print(f"runner:              {options.runner}, {options.workers} workers")


def _next_steps(folder: str, manifest: Manifest) -> None:
    """What was written and how to look at it, with what reads it here: `datasets`, or else pyarrow."""
    split, record = next(iter(manifest.splits.items()))
    folder = legible(folder)
    if find_spec("datasets"):
        reading = f'datasets.load_dataset("arrow", data_files="{folder}/{split}-*.arrow")'
    else:
        reading = f'pyarrow.ipc.open_file("{folder}/{record.shards[0].name}").read_all()'
    _err.print(
        f"wrote {folder}. Next: treegraft inspect {folder} · treegraft stats {folder} · {reading}",
        soft_wrap=True,
    )
