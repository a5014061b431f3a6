"""Files of triples to a compiled graph, as `treegraft kg build` and a config with `graph.triples` do it."""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from corpora import files
from kg import store
from kg.compile import BuildOptions, compile_graph
from kg.errors import GraphError
from kg.read import ReadOptions, RejectedLine
from kg.read.options import format_of
from kg.store import GraphInfo
from pipelines.config import resolve
from pipelines.display import PLAIN_SECONDS
from pipelines.graph_config import BuildConfig
from pipelines.section import ConfigError
from pipelines.stop_list import stop_list
from pipelines.view.legible import legible

MAX_LISTED = 100_000
"""Rejected lines of a graph that are written out; all are counted."""
_LIST_LINE = 1 << 20
_READ_BYTES = 1 << 20


# --- what goes in -----------------------------------------------------------------------------


def triple_files(
    patterns: Sequence[str], config_path: str = "", field: str = "graph.triples"
) -> list[files.FileInfo]:
    """The files that paths, globs, folders and URIs name: each pattern's sorted by path, none twice.

    A folder stands for the files in it (not below) whose names tell a format of triples. Relative
    patterns count from the folder of `config_path`, or from where we are. Raises ConfigError naming
    `field` where nothing is there.
    """
    found: dict[str, files.FileInfo] = {}
    try:
        for pattern in patterns:
            path = resolve(config_path, pattern) if config_path else pattern
            folder = not files.is_uri(path) and Path(path).is_dir()
            for info in _files_in(path, field) if folder else files.expand(path):
                found.setdefault(info.path if files.is_uri(info.path) else os.path.realpath(info.path), info)
    except OSError as error:
        raise ConfigError(f"{field}: {error.strerror or error}") from None
    return list(found.values())


def _files_in(folder: str, field: str) -> list[files.FileInfo]:
    names = [name for name in files.list_names(folder) if not name.startswith(".") and _tells_format(name)]
    infos = [info for name in names for info in files.expand(files.join(folder, name))]
    if not infos:
        raise ConfigError(f"{field}: the folder {folder} holds no file whose name tells a format of triples")
    return infos


def _tells_format(name: str) -> bool:
    try:
        return bool(format_of(name, ReadOptions(language="en")))
    except GraphError:
        return False


def build_options(build: BuildConfig, config_path: str = "", field: str = "graph.build") -> BuildOptions:
    """`kg`'s own options, stop list read. Raises ConfigError naming `field`."""
    stop = stop_list(build.stop, config_path, f"{field}.stop" if field else "--stop")
    try:
        return BuildOptions(
            read=build.read_options(),
            fold=tuple(build.fold),
            min_subject=build.min_subject,
            max_subject=build.max_subject,
            max_object=build.max_object,
            stop=stop,
        )
    except GraphError as error:
        raise ConfigError(f"{field}.{error}" if field else str(error)) from None


def check_formats(infos: Sequence[files.FileInfo], options: BuildOptions, field: str) -> None:
    """Find a file whose name does not tell how to read it before any is read. Raises ConfigError."""
    try:
        for info in infos:
            format_of(info.path, options.read)
    except GraphError as error:
        raise ConfigError(f"{field}: {error}") from None


def options_key(options: BuildOptions) -> dict[str, Any]:
    """Every option in plain values: graphs of the same files and options are the same."""
    found = asdict(options)
    return {**found, "stop": sorted(options.stop), "fold": list(options.fold)}


# --- compiling --------------------------------------------------------------------------------


@dataclass
class Rejects:
    """Rejected lines as JSON, the first `MAX_LISTED` of them; `first` are the very first, as they came."""

    lines: list[str] = field(default_factory=list)
    first: list[RejectedLine] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def __call__(self, line: RejectedLine) -> None:
        if len(self.lines) < MAX_LISTED:
            self.lines.append(json.dumps(asdict(line), ensure_ascii=False) + "\n")
        if len(self.first) < 3:
            self.first.append(line)

    def write(self, path: str) -> bool:
        """Write them to `path`, or remove what an earlier build listed there; whether there are any."""
        if self.lines:
            with files.write_atomic(path) as sink:
                sink.write("".join(self.lines).encode("utf-8", "backslashreplace"))
        elif files.exists(path):
            files.remove(path)  # of triples that were mended since
        return bool(self.lines)


def refuse_foreign_list(path: str) -> None:
    """Raise ConfigError where `path` is something that `Rejects.write` did not write, and would replace."""
    if not files.exists(path):
        return
    if files.is_uri(path) or Path(path).is_file():
        with files.open_read(path) as stream, suppress(ValueError):
            found = json.loads(stream.readline(_LIST_LINE))
            if isinstance(found, dict) and set(found) == {f.name for f in fields(RejectedLine)}:
                return
    raise ConfigError(
        f"malformed lines would be listed in {path}, and what is there is no such list; "
        "move it, or give the graph another name"
    )


def compile_files(
    infos: Sequence[files.FileInfo],
    out: Path,
    options: BuildOptions,
    console: Console,
    *,
    accept: Callable[[GraphInfo, Rejects], None] = lambda info, rejects: None,
    say: Callable[[str], str] = str,
) -> tuple[GraphInfo, Rejects]:
    """Compile into the folder `out`, with progress; `accept` may raise before anything stands there.
    What may not be what was meant is printed, in the words that `say` makes of it.

    Raises GraphError as `compile_graph` does, CorruptFileError for a damaged compressed file.
    """
    rejects = Rejects()
    paths = [info.path for info in infos]
    with store.new_folder(out, paths) as folder, Reading(console, infos) as reading:
        info = compile_graph(
            paths,
            folder,
            options=options,
            on_reject=rejects,
            open_binary=reading.open,
            on_remark=rejects.remarks.append,
        )
        accept(info, rejects)
    for remark in rejects.remarks:
        console.print(Text.assemble(("warning: ", "yellow"), legible(say(remark))), soft_wrap=True)
    return info, rejects


class Reading:
    """How far files are read: a live bar in a terminal, elsewhere a line every ten seconds.

    Counted are stored bytes; those of a compressed file when it is done.
    """

    def __init__(self, console: Console, infos: Sequence[files.FileInfo]) -> None:
        self._console = console
        self._sizes = {info.path: info.size for info in infos}
        self._total = max(sum(self._sizes.values()), 1)
        self._opened = self._done = self._bytes = 0
        self._start = self._last_line = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Reading:
        if self._console.is_terminal:
            columns = (BarColumn(bar_width=20), TextColumn("{task.description}"), TimeElapsedColumn())
            self._bar = Progress(*columns, console=self._console, transient=True)
            self._bar.start()
            self._task = self._bar.add_task(
                "reading", total=self._total + 1
            )  # finished with the files, not done
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def open(self, path: str) -> BinaryIO:
        """The content of `path`, decompressed where its name says so, counted as it is read."""
        self._opened += 1
        return io.BufferedReader(_Counted(files.open_decompressed(path), path, self), _READ_BYTES)

    def read(self, path: str, count: int) -> None:
        """`count` more bytes of the content of `path`."""
        self._bytes += count
        if not files.is_compressed(path):
            self._done += count
        self._show()

    def close(self, path: str) -> None:
        """`path` is done."""
        if files.is_compressed(path):
            self._done += self._sizes.get(path, 0)
        self._show()

    def _show(self) -> None:
        last = self._opened == len(self._sizes) and self._done >= self._total
        facts = f"read {self._bytes / 1e6:,.0f} MB, file {self._opened} of {len(self._sizes)}"
        if last:
            facts = f"read {self._bytes / 1e6:,.0f} MB; sorting and writing"
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=min(self._done, self._total), description=facts)
        elif time.monotonic() - self._last_line >= PLAIN_SECONDS:
            self._last_line = time.monotonic()
            self._console.print(facts, highlight=False)


class _Counted(io.RawIOBase):
    def __init__(self, inner: BinaryIO, path: str, reading: Reading) -> None:
        self._inner, self._path, self._reading = inner, path, reading

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._inner.read(len(buffer))
        buffer[: len(data)] = data
        self._reading.read(self._path, len(data))
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._inner.close()
            self._reading.close(self._path)
        super().close()


def refuse_rejects(info: GraphInfo, rejects: Rejects, limit: float, hint: str) -> None:
    """Raise ConfigError where more than `limit` of what was read is malformed; `hint` says what to do."""
    wrong = sum(info.rejects.values())
    if info.read and wrong / info.read > limit:
        shown = "".join(f"\n  {legible(first_line(line))}" for line in rejects.first)
        raise ConfigError(
            f"{wrong:,} of {info.read:,} lines are malformed ({wrong / info.read:.2%}), more than {limit:.2%}:{shown}\n"
            f"{hint}"
        )


def first_line(line: RejectedLine) -> str:
    """A rejected line as one line of text: place, why, and how it begins."""
    return f"{line.path}:{line.line}: {line.detail}: {line.excerpt[:60]!r}"
