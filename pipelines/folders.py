"""Folders that results go into: whether they can be, and whose files lie there already.

Files whose names a command writes may be a user's own. They are a run's where a manifest says so, or the mark that a
run leaves while it writes, so that what was stopped half-way goes on.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from corpora import files
from corpora.manifest import MANIFEST
from pipelines.engine import WORK, RunError
from pipelines.section import ConfigError

Result = TypeVar("Result")
WRITING = "writing"
"""The mark, in the folder of the work."""


def check_folder(folder: str, option: str = "--out") -> None:
    """Raises ConfigError that names the option where the folder, or one that it would lie in, is a file."""
    if files.is_uri(folder):
        return
    for path in (Path(folder), *Path(folder).parents):
        if path.is_dir():
            return
        if path.exists():
            raise ConfigError(f"{option}: {path} is a file; name a folder, which may be new")


def refuse_strangers(folder: str, names: Sequence[str]) -> None:
    """Raises RunError where one of the files is there, but not the mark. For names that no manifest tells of."""
    found = [name for name in names if files.exists(files.join(folder, name))]
    if found and not files.exists(_mark(folder)):
        raise RunError(
            f"{folder} holds {' and '.join(found)}, but no sound {MANIFEST} says that a run of this command made it: "
            "it may be your own. Move it away, choose another folder with --out, or pass --overwrite to replace it."
        )


def read_manifest_of(folder: str, stage: str, made: Callable[[dict[str, Any]], Result]) -> Result | None:
    """What `made` makes of the manifest of a finished stage; None where there is none, or one that is damaged."""
    path = files.join(folder, MANIFEST)
    if not files.exists(path):
        return None
    try:
        body = json.loads(files.read_bytes(path))
        return made(body) if body.pop("stage") == stage else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


@contextlib.contextmanager
def marked(folder: str) -> Iterator[None]:
    """Leave the mark while files are written; it stays where that fails."""
    with files.write_atomic(_mark(folder)):
        pass
    yield
    files.remove(_mark(folder))


def _mark(folder: str) -> str:
    return files.join(files.join(folder, WORK), WRITING)
