"""The commands that make something of a config: preprocess, annotate, encode, dedup."""

from __future__ import annotations

from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from pipelines.command_line import (
    PASS_ON,
    Annotated_,
    ConfigPath,
    DryRun,
    Out,
    Overwrite,
    Runner,
    Workers,
    make_options,
    split_configs,
    start,
)
from pipelines.config import Config, ConfigError, load_config
from pipelines.display import make_console
from pipelines.view.legible import legible, legible_lines

if TYPE_CHECKING:  # imported late below: Beam takes a second to load
    from corpora.manifest import Manifest
    from pipelines.options import Options

app = typer.Typer()

_out = make_console()
_err = make_console(stderr=True)


@app.command(context_settings=PASS_ON)
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

    chosen, beam = split_configs(context, configs or [], runner)
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
        options = make_options(
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


@app.command(context_settings=PASS_ON)
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

    loaded, options = start(context, config, out, annotated, runner, workers, overwrite)
    if dry_run:
        _print_plan(loaded, config, options)
        return
    flow.annotate(loaded, str(config), options)
    _err.print(f"next: treegraft encode {legible(str(config))}")


@app.command(context_settings=PASS_ON)
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

    loaded, options = start(context, config, out, annotated, runner, workers, overwrite)
    manifest = flow.encode(loaded, str(config), options)
    _next_steps(options.out, manifest)


@app.command(context_settings=PASS_ON)
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

    loaded, options = start(context, config, out, None, runner, workers, overwrite)
    folder = legible(flow.dedup(loaded, str(config), options).folder)
    _err.print(
        f"wrote {folder}: report.json (largest clusters), dropped.arrow (every duplicate)", soft_wrap=True
    )
    if loaded.dedup is None:
        _err.print("next: add a `dedup:` section to the config, and `treegraft preprocess` leaves them out")


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
    _out.print(f"columns:             {', '.join(('base', *config.encode.columns))}")
    _out.print(f"runner:              {options.runner}, {options.workers} workers")


def _next_steps(folder: str, manifest: Manifest) -> None:
    """What was written, how to look at it, with what reads it here: `datasets`, or else pyarrow; and what trains."""
    learn = "pretrain" if manifest.task == "pretrain" else "finetune"
    split, record = next(iter(manifest.splits.items()))
    folder = legible(folder)
    if find_spec("datasets"):
        reading = f'datasets.load_dataset("arrow", data_files="{folder}/{split}-*.arrow")'
    else:
        reading = f'pyarrow.ipc.open_file("{folder}/{record.shards[0].name}").read_all()'
    _err.print(
        f"wrote {folder}. Next: treegraft inspect {folder} · treegraft stats {folder} · "
        f"train: treegraft {learn} --help · {reading}",
        soft_wrap=True,
    )
