"""The command `treegraft`."""

from __future__ import annotations

import difflib
import logging
import os
import sys
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from corpora import files
from corpora.files import is_uri
from pipelines import kg_commands
from pipelines.config import Config, ConfigError, load_config
from pipelines.display import make_console
from pipelines.view.legible import legible

# Numeric libraries read these when they are first loaded: one thread each, so that sums keep their
# order and worker processes do not fight over cores.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

if TYPE_CHECKING:  # imported late below: Beam takes a second to load
    from pipelines.options import Options

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

app.add_typer(kg_commands.app, name="kg")


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
Folder = Annotated[str, typer.Argument(help="Folder of a finished dataset (or of its annotated documents).")]
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
    from pipelines.retokenize import Retokenizer

    chosen, beam = _split_configs(configs or [], context.args, runner)
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
    done: list[tuple[str, str]] = []
    """Folder and first split of each dataset."""
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
        report = verify_folder(options.out, branch_tokens=Retokenizer(options.out))
        if not report.ok:
            _err.print(_safe("\n".join(report.render())))
            raise typer.Exit(1)
        _err.print(f"verified: {report.counts['rows']:,} rows, every rule holds")
        done.append((options.out, next(iter(manifest.splits))))
    if samples and done:
        folder_shown = next((d for d, _ in done if d.endswith("zh-reviews")), done[0][0])
        _out.print(Text(f"\ntreegraft inspect {legible(folder_shown)} --row 0 --split train\n"))
        inspect(folder_shown, row=0, split="train")
    if len(done) > 1:
        _err.print(
            f"wrote {len(done)} datasets: {', '.join(legible(d) for d, _ in done)}",
            highlight=False,
            markup=False,
        )
    if done:
        _next_steps(*done[-1])


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

    loaded = load_config(config)
    _, beam = _split_configs([config], context.args, runner)
    options = _options(loaded, config, out, annotated, runner, workers, beam, overwrite)
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

    loaded = load_config(config)
    _, beam = _split_configs([config], context.args, runner)
    options = _options(loaded, config, out, annotated, runner, workers, beam, overwrite)
    manifest = flow.encode(loaded, str(config), options)
    _next_steps(options.out, next(iter(manifest.splits)))


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

    loaded = load_config(config)
    _, beam = _split_configs([config], context.args, runner)
    options = _options(loaded, config, out, None, runner, workers, beam, overwrite)
    folder = legible(flow.dedup(loaded, str(config), options).folder)
    _err.print(
        f"wrote {folder}: report.json (largest clusters), dropped.arrow (every duplicate)", soft_wrap=True
    )
    if loaded.dedup is None:
        _err.print("next: add a `dedup:` section to the config, and `treegraft preprocess` leaves them out")


@app.command()
def verify(folder: Folder) -> None:
    """Prove a dataset right: hashes, schema, offsets, parses and trees. Exit status 1 if anything is wrong."""
    from corpora.manifest import MANIFEST
    from corpora.verify import verify as verify_folder
    from pipelines.graphs import is_graph, open_graph
    from pipelines.retokenize import Retokenizer

    if is_graph(folder) and not files.exists(files.join(folder, MANIFEST)):
        info = open_graph(folder, check=True).info
        _out.print(f"a compiled graph of {info.triples:,} triples; every file is as it was compiled")
        return
    with _err.status("verifying") as status:
        report = verify_folder(
            folder,
            progress=lambda done, of: status.update(f"verifying row {done:,} of {of:,}"),
            branch_tokens=Retokenizer(folder),
        )
    _out.print(_safe("\n".join(report.render())))
    if not report.ok:
        raise typer.Exit(1)


@app.command()
def stats(
    folder: Folder,
    html: Annotated[Path | None, typer.Option(help="Also write a page with charts.")] = None,
) -> None:
    """Lengths, coverage, labels, trees and rejects of a dataset."""
    from pipelines.view import stats_show as module

    module.show(folder, _out, html)


@app.command()
def inspect(
    folder: Folder,
    row: Annotated[int | None, typer.Option(help="Row number within the split, from 0.")] = None,
    id: Annotated[str | None, typer.Option(help="Row id instead of a number.")] = None,
    split: Annotated[str | None, typer.Option(help="Split. Default: the first.")] = None,
    grid: Annotated[str, typer.Option(help="Mask to draw: visible, syntax or none.")] = "visible",
    html: Annotated[Path | None, typer.Option(help="Write a page instead of printing.")] = None,
) -> None:
    """Look at one row: tokens, tree with branches and soft positions, parse, coarse tokens, mask."""
    from pipelines.view import inspect as module

    module.show(folder, _out, row=row, id=id, split=split, grid=grid, html=html)


@app.command(name="parse-eval")
def parse_eval(
    treebanks: Annotated[list[Path], typer.Argument(help="Treebanks in CoNLL-U.")],
    parser: Annotated[
        str | None,
        typer.Option(
            help="As `annotate.parser`: default (embedded), a spaCy pipeline by name or path, stanza, stanza:PATH. "
            "Paths count from here."
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Take parser, segmenter and language from this config's `annotate`.")
    ] = None,
    language: Annotated[str | None, typer.Option(help="Language of the treebanks: en, zh, ...")] = None,
    words: Annotated[
        str,
        typer.Option(
            help="gold: parse the treebank's words. own: parse the words of the segmenter, and score those that "
            "are the same."
        ),
    ] = "gold",
    segmenter: Annotated[
        str | None, typer.Option(help="With --words own, as `annotate.segmenter`: jieba, parser, ...")
    ] = None,
    no_punct: Annotated[
        bool, typer.Option("--no-punct", help="Leave words out that are punctuation throughout (CoNLL 2007).")
    ] = False,
    main_relations: Annotated[
        bool, typer.Option("--main-relations", help="`nmod:tmod` counts as `nmod` (CoNLL 2018).")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Everything as JSON.")] = False,
) -> None:
    """How well a parser parses treebanks: UPOS, UAS, LAS and CLAS.

    UAS: words with the right head; LAS: and the right relation; CLAS: LAS of content words, as an F1.
    All words of the treebank count, punctuation too, and relations with their subtypes.

    treegraft parse-eval en_ewt-ud-test.conllu --language en

    treegraft parse-eval dev.conllu --language zh --parser stanza:models --words own --segmenter parser
    """
    from pipelines.parse_eval_show import show

    show(
        treebanks,
        _out,
        config=config,
        parser=parser,
        language=language,
        segmenter=segmenter,
        words=words,
        punctuation=not no_punct,
        main_relations=main_relations,
        as_json=json,
    )


@app.command(name="config")
def config_reference(
    markdown: Annotated[bool, typer.Option("--markdown", help="As a Markdown table.")] = False,
) -> None:
    """Every key of a config file: its default and what it does."""
    from rich.table import Table

    from pipelines.config import reference

    if markdown:
        print("| key | default | meaning |\n|---|---|---|")
        for key, default, meaning in reference():
            shown = "required" if default == "required" else f"`{default}`" if default else ""
            print(f"| `{key}` | {shown} | {meaning.replace('|', chr(92) + '|')} |")
        return
    table = Table("key", "default", "meaning", show_lines=False)
    for key, default, meaning in reference():
        table.add_row(Text(key, "bold"), Text(default), Text(meaning))
    _out.print(table)


@app.command()
def presets() -> None:
    """Corpora known by name: what `input.preset` may be."""
    from rich.table import Table

    from corpora.presets import PRESETS

    table = Table("preset", "task", "files", "what to know", show_lines=False)
    for name, preset in PRESETS.items():
        table.add_row(Text(name, "bold"), preset.task, Text(preset.files), Text(preset.note))
    _out.print(table)
    _err.print(
        "next: `input: {preset: glue/sst2, files: {train: SST-2/train.tsv}}`; what else you write there wins"
    )


# --- shared by the commands -------------------------------------------------------------------


def _split_configs(configs: list[Path], extra: list[str], runner: str) -> tuple[list[Path], list[str]]:
    """Typer hands unknown options and their values to whichever list comes first: sort them out again."""
    given = [str(c) for c in configs] + list(extra)
    beam_at = next((i for i, word in enumerate(given) if word.startswith("-")), len(given))
    paths, beam = [Path(word) for word in given[:beam_at]], given[beam_at:]
    if beam and runner == "local":
        name = beam[0].split("=")[0]
        known = ["--out", "--annotated", "--runner", "--workers", "--overwrite", "--dry-run", "--help"]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else "Beam options need --runner"
        raise ConfigError(f"unknown option {name}; {hint}")
    return paths, beam


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
        if not is_uri(name) and Path(name).exists() and not Path(name).is_dir():
            raise ConfigError(f"{option}: {name} is a file; name a folder, which may be new")
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

    flow.Encode.check(config, str(path))
    _out.print(Text(f"plan of {legible(path.name)}"))
    _out.print(summary(flow.describe_plan(config, str(path), options)))
    _out.print(f"annotated documents: {legible(options.annotated)}")
    _out.print(f"shards:              {legible(options.out)}")
    _out.print(f"columns:             base, {', '.join(config.encode.columns)}")
    _out.print(f"runner:              {options.runner}, {options.workers} workers")


def _next_steps(folder: str, split: str) -> None:
    folder = legible(folder)
    _err.print(
        f"wrote {folder}. Next: treegraft inspect {folder} · treegraft stats {folder} · "
        f'datasets.load_dataset("arrow", data_files="{folder}/{split}-*.arrow")',
        soft_wrap=True,
    )


def _safe(message: str) -> str:
    """Lines of a message with what would steer the terminal escaped: paths, ids and labels may hold anything."""
    return "\n".join(map(legible, message.split("\n")))


def _by_keyboard(error: BaseException | None) -> bool:
    """Whether it comes from a KeyboardInterrupt that nobody spoke about: Typer makes an exit of it."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        silent = error.__suppress_context__ or error.__cause__ is not None
        error = error.__cause__ if silent else error.__context__
    return error is not None


def main() -> None:
    """Entry point: expected trouble ends in one readable message, not in a traceback."""
    from pipelines.engine import InterruptedRunError, RunError

    logging.getLogger().setLevel(logging.CRITICAL)  # Beam's own news is not the user's
    try:
        app(standalone_mode=True)
    except InterruptedRunError as error:
        _err.print(_safe(str(error)))
        sys.exit(130)
    except (KeyboardInterrupt, SystemExit) as error:
        if isinstance(error, SystemExit) and not _by_keyboard(error):
            raise
        _err.print("stopped; run the same command again to continue")
        sys.exit(130)
    except (ConfigError, RunError, OSError, ValueError, MemoryError, IndexError) as error:
        said = _in_one_line(error, sys.argv[1:])
        if not said or os.environ.get("TREEGRAFT_TRACEBACK"):
            raise
        _err.print(Text.assemble(("error: ", "bold red"), _safe(said)), soft_wrap=True)
        sys.exit(2 if isinstance(error, ConfigError) else 1)


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
