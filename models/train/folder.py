"""The folder of a run: whose it is, who holds it, what it says of itself. Nothing here needs torch.

out/recipe.json    `Recipe.lasting` of the run that the folder is of: another recipe is refused
    run.json       the whole recipe, defaults filled in; device, versions, the dataset
    checkpoints/   `models.train.state`
    best/          `models.train.best`
    model/         the trained model
    eval-SPLIT/, generate-SPLIT/    what was told of it, or of another model
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from corpora import files
from models.train.recipe import LOOKED, Recipe, settled

RECIPE, RUN, CHECKPOINTS, BEST, MODEL = "recipe.json", "run.json", "checkpoints", "best", "model"
METRICS = "metrics.jsonl"
_LOCK, _CURVES, _BOARD = ".lock", "curves.svg", "tensorboard"
_GONE = ".old-recipe.json"
"""Name of `recipe.json` from the moment that its run is to be deleted until another has taken its place."""
_OURS = {"model", "task", "optim", "data"}
"""Keys by which a `recipe.json` is one of ours: others have files of that name."""
_TOLD = {"metrics.json", "predictions.jsonl", "answers.json", "no_answer.json", "generated.jsonl"}
"""What `treegraft evaluate` and `generate` write to a folder of their own."""
OLD = ".new-old-"
"""Before the name of a whole folder that is being replaced."""
_STEP = re.compile(r"step-([0-9]{8,})")
_HELD = set[IO[str]]()
"""Locks of this process. One that is forked from it (a loader's worker) lets go of them: else a folder would be held as
long as that one lives, also when its parent was killed."""


class FolderError(ValueError):
    """A folder or a checkpoint that a run cannot go on from; the message says why and what to do."""


@contextlib.contextmanager
def held(out: Path, recipe: Recipe, overwrite: bool) -> Iterator[Path | None]:
    """Hold the folder of a run, for one run at a time; gives the newest checkpoint of the same recipe, if there is one.

    It becomes this run's by `begin`. Where an error ends what is done before, the folder is left as it was.

    Raises:
        FolderError: the folder is in use, another recipe's, or not of a run.
    """
    _usable(out)
    if overwrite or (out / _GONE).exists():
        _check_apart(out, recipe)
    else:
        _check_room(out)
    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    out.mkdir(parents=True, exist_ok=True)
    made += [out / name for name in (RECIPE, RUN, _LOCK) if not (out / name).exists()]
    with _locked(out):
        anew = overwrite or (out / _GONE).exists()
        if not anew:
            _compare(out, recipe)
        for left in (*out.glob(".new-*"), *(out / CHECKPOINTS).glob(".*"), *(out / BEST).glob(".*")):
            if not _put_back(left):
                remove(left)
        files.remove_temporaries(str(out))
        try:
            yield None if anew else newest(out)
        except BaseException:
            if all(map(_in_place, _HELD)) and not _learned(out) and not (out / METRICS).exists():
                for path in sorted(made, reverse=True):  # what is in a folder before it
                    with contextlib.suppress(OSError):  # something else is in it by now
                        (Path.rmdir if path.is_dir() else remove)(path)
            raise


@contextlib.contextmanager
def _locked(out: Path) -> Iterator[None]:
    with (out / _LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise FolderError(
                f"out: another run is writing to {out}: wait for it, or name another folder"
            ) from None
        _HELD.add(lock)
        try:
            yield
        finally:
            _HELD.discard(lock)


def check_held() -> None:
    """Raise FolderError where the folder that this process holds is no longer the one at its path."""
    for lock in _HELD:
        if not _in_place(lock):
            raise FolderError(
                f"out: {Path(lock.name).parent} was deleted, moved or replaced while this run was going on, so nothing "
                "more is written there. Put it back and the same command goes on from its last checkpoint; else it "
                "begins anew"
            )


def _in_place(lock: IO[str]) -> bool:
    try:
        return os.path.samestat(Path(lock.name).stat(), os.fstat(lock.fileno()))
    except FileNotFoundError:
        return False


def _let_go() -> None:
    for lock in _HELD:
        lock.close()
    _HELD.clear()


os.register_at_fork(after_in_child=_let_go)


def begin(out: Path, recipe: Recipe, overwrite: bool, facts: Mapping[str, Any]) -> None:
    """Make a folder that is held this run's, and write down what the run is.

    What a run left that is to be overwritten is deleted first. A kill in between leaves no mixture: that run is gone as
    soon as its recipe has another name, and whichever run comes next deletes what is left.
    """
    if overwrite and (out / RECIPE).exists():
        (out / RECIPE).rename(out / _GONE)
    if (out / _GONE).exists():
        for name in (RUN, CHECKPOINTS, BEST, MODEL, METRICS, _CURVES, _BOARD):
            remove(out / name)
        for path in filter(_is_told, list(out.iterdir())):
            remove(path)  # of weights that are gone
    _write(out / RECIPE, recipe.lasting())
    remove(out / _GONE)
    write_run(out, facts)


def check_free(out: Path, recipe: Recipe) -> None:
    """Raise FolderError where the folder is another recipe's, or not of a run."""
    _usable(out)
    if not (out / _GONE).exists():
        _check_room(out)
        _compare(out, recipe)


def newest(out: Path) -> Path | None:
    """The checkpoint of the highest step in the folder of a run."""
    return next(reversed(of_steps(out / CHECKPOINTS)), None)


def named(step: int) -> str:
    """Name of the folder of a step."""
    return f"step-{step:08}"


def of_steps(folder: Path) -> list[Path]:
    """Folders of steps in a folder, the newest last."""
    found = [path for path in folder.iterdir() if _STEP.fullmatch(path.name)] if folder.is_dir() else []
    return sorted(found, key=lambda path: int(path.name[5:]))


def write_run(out: Path, facts: Mapping[str, Any]) -> None:
    """Write down what a run is: for who asks later what it did, or wants to do it again."""
    _write(out / RUN, facts)


def another(out: Path, differs: Sequence[str]) -> FolderError:
    """The error of a folder that a run cannot go on in, for these reasons."""
    shown = "\n".join(f"  {line}" for line in differs[:8])
    learned = out / MODEL if (out / MODEL).exists() else newest(out)
    return FolderError(
        f"out: {out} holds a run of another recipe:\n{shown}\n"
        f"name another folder (--out; with --set init={learned} the run begins from what this one learned), or begin "
        "anew in this one (--overwrite)"
    )


def damaged(path: Path, why: object) -> FolderError:
    """The error of a checkpoint that a run cannot go on from."""
    return FolderError(
        f"checkpoint {path} cannot be read: delete that folder to go on from the one before, or use --overwrite ({why})"
    )


def remove(path: Path) -> None:
    """Delete a file or a folder, if it is there."""
    files.remove(str(path))


def remove_step(path: Path) -> None:
    """Delete the folder of a step, which until then is whole."""
    old = path.with_name(f".old-{path.name}")
    path.rename(old)
    remove(old)


def _usable(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise FolderError(f"out: {out} is a file: name a folder")
    there = [path for path in (out / RECIPE, out / _GONE) if path.exists()]
    if not out.exists() or (there and all(map(_is_ours, there))) or all(map(_is_free, out.iterdir())):
        return
    kept, damaged = newest(out), [path for path in there if not _is_ours(path)]
    if kept is not None and damaged:
        raise FolderError(
            f"out: {damaged[0]} is damaged, so whose run {out} holds is not known: name another folder (--out). What "
            f"it learned may be the beginning of another run: --set init={kept}"
        )
    raise FolderError(f"out: {out} holds other files and no {RECIPE} of a run: name a folder of its own")


def _is_free(path: Path) -> bool:
    """Whether this may lie in a folder that is to be a run's: a kill leaves as little."""
    return path.name == _LOCK or files.is_temporary(path.name) or _is_told(path)


def _is_told(path: Path) -> bool:
    """Whether this is what `treegraft evaluate` or `generate` wrote: it may be of another model (`--model`), before the
    folder's own is trained."""
    if not path.name.startswith(("eval-", "generate-")) or not path.is_dir():
        return False
    names = {file.name for file in path.iterdir() if not files.is_temporary(file.name)}
    return "metrics.json" in names or names <= _TOLD  # of one that failed, or was killed


def _is_ours(path: Path) -> bool:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.keys() >= _OURS


def _check_apart(out: Path, recipe: Recipe) -> None:
    """Raise FolderError where what a run reads lies in its folder, which is about to be emptied."""
    read = [("data.folder", source.folder) for source in recipe.data.folder]
    for key, path in (*read, ("data.dev_folder", recipe.data.dev_folder), ("init", recipe.init)):
        place = Path(path or "")
        if place.is_absolute() and place.resolve().is_relative_to(out.resolve()):  # no URI, no id on the hub
            raise FolderError(
                f"{key}: {path} lies in out, which --overwrite deletes, and the run reads it: name another folder "
                "(--out)"
            )


def _check_room(out: Path) -> None:
    """Raise FolderError where something else bears a name that a run writes to: found later, it would cost steps."""
    for name in (CHECKPOINTS, BEST, MODEL):
        path = out / name
        if path.is_symlink() and not path.exists():
            raise FolderError(f"out: {path} is a link to nothing, where a run keeps a folder: move it away")
        if path.is_file():
            raise FolderError(f"out: {path} is a file, where a run keeps a folder: move it away")
    for path in (out / name for name in (RUN, METRICS, _LOCK)):
        if path.is_dir():
            raise FolderError(f"out: {path} is a folder, where a run keeps a file: move it away")


def _put_back(left: Path) -> bool:
    """Give a folder that was being replaced its name again, if a kill came before another had it."""
    place = left.with_name(left.name.removeprefix(OLD))
    if place == left or place.exists():
        return False
    left.rename(place)
    return True


def _learned(out: Path) -> bool:
    """Whether there is something that could be lost."""
    return newest(out) is not None or (out / MODEL).exists()


def _compare(out: Path, recipe: Recipe) -> None:
    path = out / RECIPE
    if not path.exists() or not _learned(out):
        return
    found = settled(json.loads(path.read_bytes()))  # earlier releases left them out
    here = json.loads(json.dumps(recipe.lasting()))
    if found.get("best") and newest(out) and not of_steps(out / BEST):  # no look had it: name another
        found, here = ({k: v for k, v in one.items() if k not in LOOKED} for one in (found, here))
    if differs := list(_differences(found, here)):
        raise another(out, differs)


def _write(path: Path, body: Mapping[str, Any]) -> None:
    with files.write_atomic(str(path)) as sink:
        sink.write(json.dumps(body, indent=1, ensure_ascii=False).encode("utf-8") + b"\n")


def _differences(there: Any, here: Any, name: str = "") -> Iterator[str]:
    if isinstance(there, dict) and isinstance(here, dict):
        for key in dict.fromkeys([*here, *there]):
            yield from _differences(there.get(key), here.get(key), f"{name}.{key}".lstrip("."))
    elif there != here:
        yield f"{name}: {_said(there)} there, {_said(here)} here"


def _said(value: Any) -> str:
    return "not set" if value is None else json.dumps(value, ensure_ascii=False)
