"""The compiled graph beside the shards: made or linked once, opened by every worker, there for provenance.

A graph is memory-mapped, so a worker opens a local folder. With an output on another filesystem it
is compiled in a temporary folder, stored beside the shards, and each worker fetches it once.

A graph that `treegraft kg build` made is not copied where it need not be: its files become hard links,
which take no room, and which keep their content when somebody builds that graph anew (a build never
writes into files that are there).
"""

from __future__ import annotations

import atexit
import difflib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from corpora import files
from corpora.manifest import MANIFEST
from kg import store
from kg.errors import GraphError
from kg.graph import KnowledgeGraph
from kg.store import GraphInfo
from pipelines import engine
from pipelines.config import Config, resolve
from pipelines.display import counts
from pipelines.graph_build import (
    build_options,
    check_formats,
    compile_files,
    options_key,
    triple_files,
)
from pipelines.graph_config import GraphConfig
from pipelines.section import ConfigError
from pipelines.view.legible import legible
from pipelines.view.reasons import in_words

GRAPH = "graph"
_NAMES = 10_000
"""Predicates, the most frequent ones, among which near names are looked for."""


def check_graph(config: Config, config_path: str, console: Console | None = None) -> None:
    """Find missing files, unknown formats, wrong options and, where the graph is compiled, unknown predicates
    before any work; `console` hears the remarks. Raises ConfigError."""
    if (graph := config.graph) is None:
        return
    if graph.compiled is not None:
        try:
            opened = open_graph(_source(graph.compiled, config_path))
        except GraphError as error:
            raise ConfigError(f"graph.compiled: {error}") from None
        check_predicates(opened, graph, console or Console(quiet=True))
        return
    options = build_options(graph.build, config_path)
    check_formats(triple_files(graph.triples or (), config_path), options, "graph.triples")


def compiled_graph(
    config: Config, config_path: str, out: str, overwrite: bool, console: Console
) -> str | None:
    """Folder of the compiled graph of the dataset in `out`, or None where rows have no trees.

    It comes to lie in `<out>/graph`, but not again while triples and options are as they were, and never
    over the graph of a finished dataset that nobody asked to replace: then it is compiled aside, and only
    tells whether anything changed. What lies there already is read through and its hashes compared.

    Raises ConfigError where the `graph` section names what is not there, GraphError as `kg` does.
    """
    graph = config.graph
    if graph is None or "tree" not in config.encode.columns:
        return None
    with engine.only_writer(out):
        keep = files.exists(files.join(out, MANIFEST)) and not overwrite
        if graph.compiled is None:
            folder = _built(graph, config_path, out, keep, console)
        else:
            folder = _linked(_source(graph.compiled, config_path), out, keep, console)
    check_predicates(open_graph(folder), graph, console)
    return folder


def is_graph(folder: str) -> bool:
    """Whether a folder looks like a compiled graph, sound or not."""
    return files.exists(files.join(folder, store.META))


def open_graph(folder: str, *, check: bool = False) -> KnowledgeGraph:
    """The graph in a folder of any filesystem; `check` hashes every file. Raises GraphError."""
    if files.is_uri(folder):
        local = tempfile.mkdtemp(prefix="treegraft-graph-")
        atexit.register(shutil.rmtree, local, ignore_errors=True)
        for name in (*store.FILES, store.META):
            _copy(files.join(folder, name), str(Path(local) / name))
        folder = local
    return KnowledgeGraph.open(folder, check=check)


def check_predicates(graph: KnowledgeGraph, config: GraphConfig, console: Console) -> None:
    """A predicate that is asked for and that the graph lacks is a mistake; one that is excluded, a remark."""
    for name in config.include_predicates or ():
        if graph.predicate_id(name) < 0:
            raise ConfigError(
                f"graph.include_predicates: no triple has the predicate {name!r}; {_near(graph, name)}"
            )
    for name in config.exclude_predicates:
        if graph.predicate_id(name) < 0:
            remark = f"graph.exclude_predicates: no triple has the predicate '{legible(name)}'; {_near(graph, name)}"
            console.print(Text.assemble(("warning: ", "yellow"), remark))


def _near(graph: KnowledgeGraph, name: str) -> str:
    """The names of the graph's predicates that look like `name`, or else the most frequent ones."""
    frequent = np.argsort(-np.bincount(graph.predicates, minlength=graph.info.predicates), kind="stable")[
        :_NAMES
    ]
    names = [graph.predicate_text(int(number)) for number in frequent]
    if near := difflib.get_close_matches(name, names, n=3):
        return f"did you mean {' or '.join(repr(legible(n)) for n in near)}?"
    shown = ", ".join(repr(legible(n)) for n in names[:5])
    if len(names) <= 5:
        return f"its only predicate is {shown}" if len(names) == 1 else f"its predicates are {shown}"
    return f"the most frequent of {graph.info.predicates:,} are {shown}"


# --- from files of triples --------------------------------------------------------------------


def _built(graph: GraphConfig, config_path: str, out: str, keep: bool, console: Console) -> str:
    infos = triple_files(graph.triples or (), config_path)
    options = build_options(graph.build, config_path)
    check_formats(infos, options, "graph.triples")
    folder, work = files.join(out, GRAPH), files.join(out, engine.WORK)
    key = {"files": [[i.path, i.size, i.modified] for i in infos], "build": options_key(options)}
    if _is_made(folder, _note(out), key):
        return folder
    if keep:
        folder = files.join(work, GRAPH)
    try:
        if files.is_uri(folder):
            with tempfile.TemporaryDirectory(prefix="treegraft-graph-") as temporary:
                local = Path(temporary) / GRAPH
                info, rejects = compile_files(infos, local, options, console)
                _store(str(local), folder)
        else:
            info, rejects = compile_files(infos, Path(folder), options, console)
    except GraphError as error:
        if str(error).startswith("columns."):  # an option that only the files' first lines show to be wrong
            raise ConfigError(f"graph.build.{error}") from None
        raise
    if rejects.lines:
        files.make_dirs(files.join(out, engine.REJECTS))
    listed = files.join(files.join(out, engine.REJECTS), "graph.jsonl")
    any_listed = rejects.write(listed)
    if not keep:
        _write_note(out, key)
    _report(info, console)
    if any_listed:
        share = sum(info.rejects.values()) / max(info.read, 1)
        line = f"{share:.1%} of the graph's lines are malformed, each listed in {legible(listed)}"
        console.print(Text(line, "yellow"))
    return folder


def _report(info: GraphInfo, console: Console) -> None:
    left = {in_words(k): n for part in (info.left_out, info.rejects) for k, n in part.items() if n}
    dropped = f"; left out: {counts(left)}" if left else ""
    console.print(f"graph: {info.triples:,} triples, {info.subjects:,} subjects{dropped}", highlight=False)


# --- from a compiled graph --------------------------------------------------------------------


def _source(compiled: str, config_path: str) -> str:
    """The folder that `graph.compiled` names. Raises ConfigError where no graph is there."""
    folder = resolve(config_path, compiled).rstrip("/")
    if not files.exists(files.join(folder, store.META)):
        inner = files.join(folder, GRAPH)  # of a dataset
        if files.exists(files.join(inner, store.META)):
            return inner
        if files.exists(files.join(folder, MANIFEST)):
            raise ConfigError(
                f"graph.compiled: {folder} is a dataset without a graph; name a folder that `treegraft kg build` "
                "made, or a dataset that has trees"
            )
        what = "is no compiled graph" if files.exists(folder) else "does not exist"
        raise ConfigError(
            f"graph.compiled: {folder} {what}; make one with `treegraft kg build FILES --out {compiled}`, or name "
            "the files as `triples`"
        )
    return folder


def _linked(source: str, out: str, keep: bool, console: Console) -> str:
    """`source` as `<out>/graph`: as hard links where the filesystem has them, else as a copy."""
    folder = files.join(out, GRAPH)
    key = {"compiled": json.loads(files.read_bytes(files.join(source, store.META)))}
    if _is_made(folder, _note(out), key) or _is_same(folder, source):
        return folder
    try:
        info = open_graph(source, check=True).info
    except GraphError as error:
        raise ConfigError(f"graph.compiled: {error}") from None
    if keep:  # tells whether the finished dataset is of this graph
        return source
    if files.is_uri(folder):
        _store(source, folder)
        how = "copied from"
    else:
        with store.new_folder(Path(folder)) as new:
            linked = [_link(files.join(source, n), str(new / n)) for n in (*store.FILES, store.META)]
        how = "linked to" if all(linked) else "copied from"
    _write_note(out, key)
    listed = files.join(files.join(out, engine.REJECTS), "graph.jsonl")
    if files.exists(listed):
        files.remove(listed)  # of triples that were compiled here before
    console.print(
        Text(f"graph: {info.triples:,} triples, {info.subjects:,} subjects, {how} {legible(source)}")
    )
    return folder


def _is_same(folder: str, source: str) -> bool:
    """Whether the graph that the config names is the one beside the shards."""
    if files.is_uri(folder) or files.is_uri(source) or not Path(folder).exists():
        return False
    return Path(folder).samefile(source)


def _link(source: str, target: str) -> bool:
    """Give a file a second name, or copy it where that cannot be; whether it is linked."""
    if not files.is_uri(source):
        try:
            os.link(os.path.realpath(source), target)
        except OSError:  # another filesystem, or one without links, or too many of them
            pass
        else:
            return True
    _copy(source, target)
    return False


# --- small things -----------------------------------------------------------------------------


def _store(source: str, folder: str) -> None:
    """Copy a graph's files to a folder of any filesystem; `meta.json` last: without it the folder is no graph."""
    files.make_dirs(folder)
    for name in (*store.FILES, store.META):
        _copy(files.join(source, name), files.join(folder, name))


def _copy(source: str, target: str) -> None:
    with files.open_read(source) as inner, files.write_atomic(target) as sink:
        shutil.copyfileobj(inner, sink, 1 << 20)


def _note(out: str) -> str:
    return files.join(files.join(out, engine.WORK), "graph.key")


def _write_note(out: str, key: dict[str, Any]) -> None:
    files.make_dirs(files.join(out, engine.WORK))
    with files.write_atomic(_note(out)) as sink:
        sink.write(json.dumps(key).encode())


def _is_made(folder: str, note: str, key: dict[str, Any]) -> bool:
    """Whether `folder` holds, undamaged, the graph that `key` tells."""
    if not (files.exists(note) and files.exists(folder)):
        return False
    try:
        if json.loads(files.read_bytes(note)) != json.loads(json.dumps(key)):
            return False
        if not files.is_uri(folder):
            KnowledgeGraph.open(folder, check=True)
    except (ValueError, OSError):  # damaged: made again
        return False
    return True
