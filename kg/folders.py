"""A folder that is written under a temporary name and takes its place in one step, and what may stand there.

Only files that are known by name are ever removed, and never a folder with anything else in it.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import platform
import re
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from kg.errors import GraphError

_LONGEST_LABEL = 100
"""Bytes of a folder's name that its temporary names repeat; a file's name has at most 255 bytes."""
_TEMPORARY = re.compile(r"\.tmp-(?:([A-Za-z0-9]+)-)?(\d+)-\d+-")
_counter = itertools.count()


@contextlib.contextmanager
def new_folder(
    out: Path, *, names: Collection[str], is_ours: Callable[[Path], bool], inputs: Collection[str] = ()
) -> Iterator[Path]:
    """A temporary folder beside `out` that takes its place on success and vanishes on failure.

    Links are followed. What processes of this machine that died left beside `out` is removed first.

    Args:
        names: the files that a folder of ours may hold; those of an older one are removed.
        is_ours: whether a folder that holds no others is ours.
        inputs: files that are read to make the folder.

    Raises GraphError where `out` exists and is neither empty nor ours, is the working folder or above
    it, is a link to nowhere, or holds an input: what is not ours is never removed.
    """
    out = _place(out, inputs)
    _check(out, names, is_ours)
    out.parent.mkdir(parents=True, exist_ok=True)
    label = _label(out.name)
    _remove_dead(out.parent, label, names)
    temporary = _temporary(out.parent, label)
    temporary.mkdir()
    try:
        yield temporary
        for path in sorted(temporary.iterdir()):
            sync(path)
        _check(out, names, is_ours)
        _replace(temporary, out, label, names)
        sync(out.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def sync(path: Path) -> None:
    """Wait until the disk has a file, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _place(out: Path, inputs: Collection[str]) -> Path:
    """`out` without links."""
    place = Path(os.path.realpath(out))
    if place.is_symlink():
        raise GraphError(f"{out} is a link that leads to itself; choose another output or remove it")
    here = Path.cwd()
    if place == here or place in here.parents:
        raise GraphError(
            f"{out} is the working folder or above it and cannot be replaced; name one inside it"
        )
    for path in inputs:
        if "://" not in path and place in Path(os.path.realpath(path)).parents:
            raise GraphError(f"{path} lies in {out}, which would be replaced; choose another output")
    return place


def _check(out: Path, names: Collection[str], is_ours: Callable[[Path], bool]) -> None:
    if not out.exists():
        return
    what = f"{out} exists and is not a compiled graph"
    if not out.is_dir():
        raise GraphError(f"{what}; choose another output or remove it")
    entries = sorted(out.iterdir())
    for entry in entries:
        if entry.name not in names or (entry.is_dir() and not entry.is_symlink()):
            raise GraphError(f"{what}: it holds {entry.name!r}; choose another output or remove it")
    if entries and not is_ours(out):
        raise GraphError(f"{what}; choose another output or remove it")


def _replace(temporary: Path, out: Path, label: str, names: Collection[str]) -> None:
    if out.exists():
        # A folder cannot be renamed over a full one; those who have the old one mapped keep its pages.
        old = _temporary(out.parent, label)
        out.rename(old)
        try:
            temporary.rename(out)
        except OSError:
            old.rename(out)
            raise
        _remove(old, names)
    else:
        temporary.rename(out)


def _remove(folder: Path, names: Collection[str]) -> None:
    """Remove the files of ours in a folder, and the folder where nothing else is in it."""
    with contextlib.suppress(OSError):
        for entry in sorted(folder.iterdir()):
            if entry.name in names:
                entry.unlink()
        folder.rmdir()


# --- temporary names: .tmp-<machine>-<process>-<count>-<label> -------------------------------------


def _temporary(parent: Path, label: str) -> Path:
    return parent / f".tmp-{_machine()}-{os.getpid()}-{next(_counter)}-{label}"


def _label(name: str) -> str:
    """A folder's name as its temporary names have it: short, and the same for a temporary one of it."""
    while begin := _TEMPORARY.match(name):
        name = name[begin.end() :]
    raw = os.fsencode(name)
    if len(raw) <= _LONGEST_LABEL:
        return name
    return f"{raw[:32].decode('ascii', 'replace')}-{hashlib.sha256(raw).hexdigest()[:16]}".replace(
        "\ufffd", "_"
    )


def _machine() -> str:
    return re.sub(r"[^A-Za-z0-9]", "", platform.node())[:32] or "host"


def _remove_dead(parent: Path, label: str, names: Collection[str]) -> None:
    """Remove what processes of this machine that are no more left beside a folder."""
    for entry in sorted(parent.iterdir()):
        begin = _TEMPORARY.match(entry.name)
        if begin is None or _label(entry.name) != label or entry.is_symlink() or not entry.is_dir():
            continue
        if begin[1] == _machine() and not _lives(int(begin[2])):
            _remove(entry, names)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True
