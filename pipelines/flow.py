"""The one road: raw files -> annotated documents -> shards.

Both stages go the same way: plan the blocks, check that the output folder is free or holds the
same work unfinished, run what is missing, then commit with the manifest. What a manifest says
already is not done again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text

from corpora import files
from corpora.blocks import Block, Part
from corpora.layout import InputConfig
from corpora.manifest import MANIFEST, Manifest, ManifestError, read_manifest, write_manifest
from corpora.plan import plan_blocks
from corpora.tableplan import splits_left_out
from pipelines import engine, refusals, watched
from pipelines.annotate.stage import Annotate
from pipelines.config import Config, ConfigError
from pipelines.dedup.config import DedupConfig
from pipelines.dedup.flow import Deduplication
from pipelines.dedup.result import Drops
from pipelines.differences import Facts, differences, listed
from pipelines.display import counts, summary
from pipelines.encode.advice import unused_phrases, warnings
from pipelines.encode.stage import Encode
from pipelines.graphs import compiled_graph
from pipelines.options import Options
from pipelines.settings import annotate_settings
from pipelines.view.legible import legible
from pipelines.vocab.result import refuse_unnamed

ANNOTATED = "annotated"


@dataclass(frozen=True)
class Plan:
    """A stage ready to run."""

    title: str
    task: str
    run: engine.Run
    max_reject_fraction: float
    source: InputConfig | None = None
    """Of the annotate stage: how the corpus was read."""


# --- planning ---------------------------------------------------------------------------------


def plan_annotate(config: Config, config_path: str, options: Options, drops: Drops | None = None) -> Plan:
    """Blocks of the raw corpus, and which documents to leave out. Raises ConfigError before any work."""
    try:
        blocks = plan_blocks(config.input, _folder_of(config_path), config.run.block_bytes)
    except OSError as error:
        raise ConfigError(f"input.files: {error.strerror or error}") from None
    stage = Annotate(config, config_path, drops)
    return Plan(
        "annotate",
        config.task,
        engine.Run(stage, blocks, options.annotated, refusals.raw_inputs(blocks)),
        config.run.max_reject_fraction,
        source=config.input,
    )


def _folder_of(config_path: str) -> str:
    return str(Path(config_path).resolve().parent)


def note_splits_left_out(config: Config, config_path: str, options: Options) -> None:
    """A folder of several splits that is named for one of them: the others are not read, which must be said."""
    if config.input.format != "dataset":
        return
    for folder, splits in splits_left_out(config.input, _folder_of(config_path)).items():
        note = (
            f"note: {folder} holds more splits, which no split of input.files takes: {', '.join(splits[:10])}"
        )
        example = f"; `{splits[0]}: {folder}` beside the others would take one"
        options.console.print(Text(legible(note + example)), soft_wrap=True)


def plan_encode(
    config: Config, config_path: str, options: Options, annotated: Manifest, graph: str | None
) -> Plan:
    """One block per annotated shard. `graph`: folder of the compiled graph, where its shards want trees."""
    labels = label_names(config, annotated)
    deprels = sorted({d for split in annotated.splits.values() for d in split.sets.get("deprels", [])})
    stage = Encode(config, config_path, annotated=annotated, labels=labels, deprels=deprels, graph=graph)
    blocks = [
        Block(
            split=name,
            index=index,
            count=len(split.shards),
            parts=(Part(files.join(options.annotated, shard.name), shard.name, 0, None, shard.sha256),),
            bytes=shard.bytes,
        )
        for name, split in annotated.splits.items()
        for index, shard in enumerate(split.shards)
    ]
    inputs = [
        {"path": s.name, "sha256": s.sha256} for split in annotated.splits.values() for s in split.shards
    ]
    return Plan(
        "encode", config.task, engine.Run(stage, blocks, options.out, inputs), config.run.max_reject_fraction
    )


def label_names(config: Config, annotated: Manifest) -> list[str]:
    """Label names in index order: the config's, or those of the first split that has any (`O` first, then sorted).

    Only labels of classes and tags have names. Raises ConfigError when another split holds a label that the list
    lacks.
    """
    if config.task not in ("classify", "tag") or config.input.score:
        return []
    splits = {name: split.sets.get("labels", []) for name, split in annotated.splits.items()}
    first = next((name for name, found in splits.items() if found), next(iter(splits)))
    names = config.encode.labels or sorted(splits[first], key=_label_order)
    for split, found in splits.items():
        if unknown := sorted(set(found) - set(names), key=_label_order):
            known = f"`encode.labels` ({', '.join(names)})" if config.encode.labels else f"split {first!r}"
            raise ConfigError(
                f"label {unknown[0]!r} of split {split!r} does not occur in {known}; "
                f"list every label in `encode.labels`, or correct the data"
            )
    return names


def _label_order(label: str) -> tuple[int, int, str]:
    if label == "O":
        return (0, 0, "")
    return (1, int(label), "") if label.isdecimal() and len(label) < 10 else (2, 0, label)


# --- running ----------------------------------------------------------------------------------


def run_plan(plan: Plan, options: Options) -> Manifest:
    """Run a stage to its manifest, or find that it is there already."""
    run, console = plan.run, options.console
    try:
        finished = run.is_finished()
        damage = run.damage(hashes=options.overwrite) if finished else None
    except ManifestError:  # of another release, or damaged
        if not options.overwrite:
            raise
        finished = damage = None
    if damage and not options.overwrite:
        raise engine.RunError(
            f"{run.out} was changed after it was finished: {damage}. Pass --overwrite to make it again."
        )
    if finished and not damage:
        console.print(Text(f"{plan.title}: already finished in {legible(run.out)}"))
        return read_manifest(run.out)
    if finished is False and not options.overwrite:
        raise engine.RunError(
            f"{run.out} holds a finished dataset of another config, code or input:"
            f"{listed(run.differences())}\n{_way_out(plan, options)}"
        )
    with engine.only_writer(run.out):
        if options.overwrite and (files.exists(files.join(run.out, MANIFEST)) or not run.is_planned()):
            engine.discard(run.out)
        run.prepare()
        if run.done:
            console.print(f"{plan.title}: {len(run.done):,} of {len(run.blocks):,} blocks were done before")
        records = watched.execute(plan.title, run, options)
        if plan.title == "annotate":
            refusals.refuse_changed_inputs(run)
        manifest = engine.manifest_of(run, records, plan.task)
        refusals.refuse_rejects(run.out, manifest, plan.max_reject_fraction)
        if plan.source is not None:
            refusals.refuse_missing_fields(plan.source, manifest)
            if plan.source.has_ids:
                refusals.refuse_duplicate_ids(run.out, manifest)
        for name, content in run.stage.companions().items():
            with files.write_atomic(files.join(run.out, name)) as sink:
                sink.write(content)
        write_manifest(run.out, manifest)
        run.clean()
    _report(plan, manifest, options)
    return manifest


def _way_out(plan: Plan, options: Options) -> str:
    if plan.title == "annotate" and options.annotated != files.join(options.out, ANNOTATED):
        return (
            "Other datasets may be made from these annotated documents: name another folder as `annotated` in the "
            "config (or with --annotated). --overwrite would replace them."
        )
    return "Choose another folder with --out, or pass --overwrite to replace it."


def _report(plan: Plan, manifest: Manifest, options: Options) -> None:
    """What came of it: a table, or with `brief` a line; rejects are never left unsaid."""
    folder = legible(plan.run.out)
    options.console.print(Text(f"{plan.title}: {manifest.rows:,} rows in {folder}"))
    if not options.brief:
        options.console.print(summary(_summary_rows(manifest)))
    if reasons := manifest.rejects:
        where = legible(files.join(plan.run.out, engine.REJECTS))
        options.console.print(
            Text(
                f"{reasons.total():,} records rejected ({counts(reasons)}), each listed in {where}", "yellow"
            )
        )
    if missing := sum(s.counters.get("records_without_label", 0) for s in manifest.splits.values()):
        options.console.print(Text(f"{missing:,} records have no label; theirs is null", "yellow"))


def _summary_rows(manifest: Manifest) -> dict[str, dict[str, int]]:
    return {
        name: {"shards": len(split.shards), "rows": split.rows, **split.counters}
        | ({"rejects": sum(split.rejects.values())} if split.rejects else {})
        for name, split in manifest.splits.items()
    }


# --- the commands -----------------------------------------------------------------------------


def annotate(config: Config, config_path: str, options: Options) -> Manifest:
    """Stage 1 alone, without the duplicates if the config has a `dedup` section."""
    drops = None
    if config.dedup is not None:
        plan_annotate(
            config, config_path, options
        )  # what is wrong there stops before the search for duplicates
        drops = dedup(config, config_path, options)
    plan = plan_annotate(config, config_path, options, drops)
    note_splits_left_out(config, config_path, options)
    return run_plan(plan, options)


def dedup(config: Config, config_path: str, options: Options) -> Drops:
    """Find duplicates; by the rules of the `dedup` section, or the default ones."""
    return Deduplication(config, config_path, options.out, config.dedup or DedupConfig()).run(options)


def check(config: Config, config_path: str, options: Options) -> None:
    """What stage 2 needs, before any work: what is wrong raises ConfigError, what is odd is told."""
    refuse_unnamed(config, config_path, options.out)
    Encode.check(config, config_path)
    _warn(unused_phrases(config, config_path), options)


def encode(config: Config, config_path: str, options: Options) -> Manifest:
    """Stage 2 alone, on finished annotations."""
    check(config, config_path, options)
    if not files.exists(files.join(options.annotated, MANIFEST)):
        raise engine.RunError(
            f"{options.annotated} holds no finished annotations; run `treegraft annotate {config_path}` first"
        )
    annotated = read_manifest(options.annotated)
    _refuse_other_annotations(config, config_path, options, annotated)
    return _encode(config, config_path, options, annotated, _graph(config, config_path, options))


def _refuse_other_annotations(
    config: Config, config_path: str, options: Options, annotated: Manifest
) -> None:
    """What `annotated` was made by must be what the config says, as far as that can be told here.

    Neither the raw files nor the parser need be on this machine: then the settings alone are compared.
    """
    again = "Choose another folder as `annotated` (or with --annotated) and run `treegraft annotate` there"
    parser = annotated.identities.get("parser")
    if annotated.stage != "annotate":
        raise engine.RunError(f"{options.annotated} holds shards, not annotated documents. {again}.")
    if "syntax" in config.encode.columns and isinstance(parser, dict) and parser.get("name") == "none":
        raise engine.RunError(
            f"the annotations in {options.annotated} have no parse (annotate.parser was 'none'), and encode.columns "
            f"has 'syntax' (its default), which needs one. {again}, with a parser; or set encode.columns to "
            f"[{', '.join(c for c in config.encode.columns if c != 'syntax')}]."
        )
    wanted = Facts(annotate_settings(config))
    try:
        run = plan_annotate(config, config_path, options).run
        wanted = Facts(wanted.settings, run.stage.identities(), inputs=engine.undated(run.inputs))
    except (ConfigError, ValueError):
        pass
    if lines := differences(engine.facts_of(annotated), wanted):
        raise engine.RunError(
            f"the annotations in {options.annotated} are of another config or input:{listed(lines)}\n"
            f"{again}, or make the config say what they were made with."
        )


def preprocess(config: Config, config_path: str, options: Options) -> Manifest:
    """Both stages; wrong labels, tokenizers and graphs are found before the slow one where they can be."""
    check(config, config_path, options)
    graph = _graph(config, config_path, options)
    annotated = annotate(config, config_path, options)
    return _encode(config, config_path, options, annotated, graph)


def _graph(config: Config, config_path: str, options: Options) -> str | None:
    return compiled_graph(config, config_path, options.out, options.overwrite, options.console)


def _encode(
    config: Config, config_path: str, options: Options, annotated: Manifest, graph: str | None
) -> Manifest:
    manifest = run_plan(plan_encode(config, config_path, options, annotated, graph), options)
    totals = sum((Counter(split.counters) for split in manifest.splits.values()), Counter())
    _warn(warnings(config, config_path, options.out, totals), options)
    return manifest


def _warn(lines: list[str], options: Options) -> None:
    for line in lines:
        options.console.print(Text.assemble(("warning: ", "yellow"), line))
