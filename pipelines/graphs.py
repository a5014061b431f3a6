"""The compiled graph beside the shards: made once, opened by every worker, there for provenance.

A graph is memory-mapped, so a worker opens a local folder. With an output on another filesystem it
is compiled in a temporary folder, stored beside the shards, and each worker fetches it once.
"""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from corpora import files
from corpora.manifest import MANIFEST
from kg.compile import compile_graph
from kg.errors import GraphError
from kg.graph import KnowledgeGraph
from kg.read import RejectedLine
from pipelines import engine
from pipelines.config import Config, ConfigError, resolve
from pipelines.display import counts
from pipelines.view.legible import legible

GRAPH = "graph"
MAX_LISTED = 100_000
"""Rejected lines of a graph that are written out; all are counted."""


def triple_files(patterns: Sequence[str], config_path: str) -> list[files.FileInfo]:
    """The files of `graph.triples`. Raises ConfigError where one is missing."""
    try:
        return [info for pattern in patterns for info in files.expand(resolve(config_path, pattern))]
    except OSError as error:
        raise ConfigError(f"graph.triples: {error.strerror or error}") from None


def compiled_graph(
    config: Config, config_path: str, out: str, overwrite: bool, console: Console
) -> str | None:
    """Folder of the compiled graph of the dataset in `out`, or None where rows have no trees.

    Compiled into `<out>/graph`, but not again while the triples' files are as they were, and never over
    the graph of a finished dataset that nobody asked to replace: then it is compiled aside, and only
    tells whether anything changed.
    """
    if config.graph is None or "tree" not in config.encode.columns:
        return None
    infos = triple_files(config.graph.triples or (), config_path)
    folder, work = files.join(out, GRAPH), files.join(out, engine.WORK)
    key = [[info.path, info.size, info.modified] for info in infos]
    note = files.join(work, "graph.key")
    with engine.only_writer(out):
        if _is_compiled(folder, note, key):
            return folder
        if aside := files.exists(files.join(out, MANIFEST)) and not overwrite:
            folder = files.join(work, GRAPH)
        rejects: list[str] = []
        info = _compile([i.path for i in infos], folder, rejects)
        files.make_dirs(work)
        listed = _list_rejects(rejects, out)
        if not aside:
            with files.write_atomic(note) as sink:
                sink.write(json.dumps(key).encode())
    dropped = {**info.rejects, **info.left_out}
    dropped = {reason: count for reason, count in dropped.items() if count}
    console.print(
        f"graph: {info.triples:,} triples, {info.subjects:,} subjects"
        + (f"; left out: {counts(dropped)}" if dropped else ""),
        highlight=False,
    )
    if listed:
        console.print(
            Text(f"lines of the graph that are no triples are listed in {legible(listed)}", "yellow")
        )
    return folder


def open_graph(folder: str, *, check: bool = False) -> KnowledgeGraph:
    """The graph in a folder of any filesystem; `check` hashes every file. Raises GraphError."""
    if not files.is_uri(folder):
        return KnowledgeGraph.open(folder, check=check)
    local = tempfile.mkdtemp(prefix="treegraft-graph-")
    atexit.register(shutil.rmtree, local, ignore_errors=True)
    for name in files.list_names(folder):
        (Path(local) / name).write_bytes(files.read_bytes(files.join(folder, name)))
    return KnowledgeGraph.open(local, check=check)


def _list_rejects(rejects: list[str], out: str) -> str | None:
    """Write the rejected lines beside the other rejects; their path, None where there are none."""
    folder = files.join(out, engine.REJECTS)
    path = files.join(folder, "graph.jsonl")
    if not rejects:
        if files.exists(path):
            files.remove(path)  # of triples that were mended since
        return None
    files.make_dirs(folder)
    with files.write_atomic(path) as sink:
        sink.write("".join(rejects).encode("utf-8", "backslashreplace"))
    return path


def _compile(paths: list[str], folder: str, rejects: list[str]) -> Any:
    def reject(line: RejectedLine) -> None:
        if len(rejects) < MAX_LISTED:
            rejects.append(json.dumps(asdict(line), ensure_ascii=False) + "\n")

    if not files.is_uri(folder):
        return compile_graph(paths, Path(folder), on_reject=reject, open_binary=files.open_decompressed)
    with tempfile.TemporaryDirectory(prefix="treegraft-graph-") as temporary:
        local = Path(temporary) / GRAPH
        info = compile_graph(paths, local, on_reject=reject, open_binary=files.open_decompressed)
        # meta.json last: without it the folder is no graph.
        for file in sorted(local.iterdir(), key=lambda f: (f.name == "meta.json", f.name)):
            with files.write_atomic(files.join(folder, file.name)) as sink:
                sink.write(file.read_bytes())
        return info


def _is_compiled(folder: str, note: str, key: list[Any]) -> bool:
    """Whether `folder` holds the whole graph of the files that `key` tells."""
    if not (files.exists(note) and files.exists(folder)):
        return False
    try:
        same = json.loads(files.read_bytes(note)) == key
        if not files.is_uri(folder):
            KnowledgeGraph.open(folder)
    except (ValueError, GraphError):  # damaged: compiled again
        return False
    return bool(same)
