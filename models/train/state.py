"""Checkpoints: all that a run needs to go on as if nothing had happened, and that a kill cannot spoil.

A checkpoint is written beside the others under a name that begins with a dot, flushed to the disk, and renamed when
it is whole; one that is no longer kept is renamed before it is deleted. So whatever bears a step's name is complete.
(One of a step that has one already takes its place: a kill in between is mended when the folder is held again.)
Weights and the optimizer's moments are safetensors, all else is JSON; nothing is pickled.

    checkpoints/step-00000500/   config.json, model.safetensors, tokenizer.json: a model for `models.checkpoint.load`
                                 optimizer.safetensors, training.json: what training adds
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, NonNegativeInt, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from corpora import files
from models import checkpoint
from models.bert import Bert
from models.bert_batch import TOKENIZER
from models.train.folder import (
    CHECKPOINTS,
    OLD,
    FolderError,
    check_held,
    damaged,
    named,
    of_steps,
    remove,
    remove_step,
)
from models.train.log import Window

_TRAINING, _OPTIMIZER = "training.json", "optimizer.safetensors"
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class Look(BaseModel):
    """A look at the dev split.

    Attributes:
        step: after which.
        value: its score.
        loss: None: not known, or no number.
        rows: what was looked at (`Split.fingerprint`); None: not known.
    """

    model_config = ConfigDict(strict=True)
    step: NonNegativeInt
    value: Annotated[float, Field(ge=-math.inf)]  # any but NaN
    loss: FiniteFloat | None = None
    rows: str | None = None


class State(BaseModel):
    """Where a run stands.

    Attributes:
        step: steps done.
        loader: the stream's state (`Loader.state_dict`).
        window: what was summed up since the last line of metrics.
        best: the best look so far (`models.train.best`).
        owed: whether the look at the dev split after this step failed, and has still to be made.
        computed: in how many pieces, by how many processes (`models.train.facts.computed_by`); None: not known.
        sums: CRC-32 of the checkpoint's other files; None: not known.
    """

    model_config = ConfigDict(strict=True)
    version: Literal[1, 2] = 2  # the first wrote no sums
    step: NonNegativeInt
    loader: dict[str, Any]
    window: Window = Field(default_factory=Window)
    best: Look | None = None
    owed: bool = False
    computed: dict[str, int] | None = None
    sums: dict[str, int] | None = None


def save(
    out: Path, state: State, model: Bert, optimizer: torch.optim.Optimizer, tokenizer: bytes | None, keep: int
) -> None:
    """Write the checkpoint of a step, then delete what is older than the newest `keep`."""
    check_held()
    folder = out / CHECKPOINTS
    folder.mkdir(exist_ok=True)
    with _whole(folder / named(state.step)) as made:
        write_model(made, model, tokenizer)
        save_file(_moments(model, optimizer), made / _OPTIMIZER)
        body = state.model_dump() | {"sums": _sums(made)}
        (made / _TRAINING).write_text(json.dumps(body, indent=1), encoding="utf-8")
    for old in of_steps(folder)[:-keep]:
        remove_step(old)


def save_model(path: Path, model: Bert, tokenizer: bytes | None) -> None:
    """Write a model's folder, in the place of the one that may be there."""
    check_held()
    path.parent.mkdir(exist_ok=True)
    with _whole(path) as made:
        write_model(made, model, tokenizer)


def copy_model(source: Path, path: Path) -> None:
    """Copy a model's folder, as `save_model` writes it."""
    check_held()
    with _whole(path) as made:
        for file in source.iterdir():
            shutil.copyfile(file, made / file.name)


def write_model(folder: Path, model: Bert, tokenizer: bytes | None) -> None:
    """The model, and its tokenizer where it is known: a folder that transformers loads both from."""
    checkpoint.save(model, folder)
    if tokenizer is not None:
        (folder / TOKENIZER).write_bytes(tokenizer)


def read_tokenizer(folder: str) -> bytes | None:
    """`tokenizer.json` of a dataset, if it has one."""
    path = files.join(folder, TOKENIZER)
    return files.read_bytes(path) if files.exists(path) else None


def read(path: Path) -> State:
    """Where a run stood at a checkpoint. Raises FolderError where that is damaged, or another release's."""
    try:
        state = State.model_validate_json((path / _TRAINING).read_bytes())
    except OSError as error:
        raise damaged(path, error) from error
    except ValidationError as error:
        wrong = error.errors()[0]
        place = ".".join(map(str, wrong["loc"]))
        if place == "version" and wrong["type"] == "literal_error":
            anew = "begin anew, with --overwrite"
            raise FolderError(f"{path} was written by another release: {anew}") from None
        raise damaged(path, f"{_TRAINING}: {place}{': ' * bool(place)}{wrong['msg']}") from error
    if "version" not in state.model_fields_set:
        raise damaged(path, f"{_TRAINING} has no version")
    if named(state.step) != path.name:
        raise damaged(path, f"by {_TRAINING} it is of step {state.step}")
    return state


def read_whole(path: Path) -> State:
    """The same, once all files of the checkpoint were found as they were written."""
    state = read(path)
    try:
        found = _sums(path) if state.sums else {}
    except OSError as error:
        raise damaged(path, error) from error
    for name, value in (state.sums or {}).items():
        if found.get(name) != value:
            raise damaged(path, f"{name} {'is not what was saved' if name in found else 'is gone'}")
    return state


def restore(path: Path, model: Bert, optimizer: torch.optim.AdamW) -> None:
    """Put the optimizer's moments back: of each weight all or, as it never had a gradient, none.

    Raises FolderError where they are damaged, or another model's.
    """
    try:
        saved = load_file(path / _OPTIMIZER)
    except (OSError, SafetensorError) as error:
        raise damaged(path, error) from error
    found: dict[str, dict[str, torch.Tensor]] = {}
    for key, value in saved.items():
        name, _, moment = key.rpartition("|")
        found.setdefault(name, {})[moment] = value
    weights = dict(model.named_parameters())
    for name, moments in found.items():
        if name not in weights:
            raise damaged(path, f"{_OPTIMIZER} has moments of {name!r}, which the model has not")
        weight = weights[name]
        like = {"step": torch.zeros(()), "exp_avg": weight, "exp_avg_sq": weight}
        if missing := sorted(like.keys() ^ moments.keys()):
            raise damaged(path, f"moments of {name}: {', '.join(missing)} is missing, or unknown")
        for moment, value in moments.items():
            if (value.shape, value.dtype) != (like[moment].shape, like[moment].dtype):
                raise damaged(path, f"moments of {name}: {moment} has another shape or type")
        optimizer.state[weight] = {key: value.to(weight.device) for key, value in moments.items()}


def _moments(model: Bert, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    return {
        f"{name}|{key}": value.detach().cpu().contiguous()
        for name, weight in model.named_parameters()
        for key, value in optimizer.state[weight].items()
    }


def _sums(folder: Path) -> dict[str, int]:
    """CRC-32 of each file but the one that tells them: enough to know one that is damaged, or of another step."""
    found = {}
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.name != _TRAINING:
            value = 0
            with path.open("rb") as source:
                while block := source.read(1 << 20):
                    value = zlib.crc32(block, value)
            found[path.name] = value
    return found


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """A new folder that gets its name when all in it is on the disk; what bore the name before is deleted.

    Raises OSError, with the folder's name, where it cannot be written.
    """
    made = path.parent / f".new-{path.name}"
    try:
        remove(made)
        made.mkdir()
        yield made
        _settle(made, path)
    except (OSError, SafetensorError) as error:  # safetensors has no other for a full disk
        with contextlib.suppress(OSError):
            remove(made)
        full = not isinstance(error, OSError) or error.errno in _FULL
        raise OSError(
            f"{path} could not be written: {error}. {'Make room; run' if full else 'Run'} again, training goes on from "
            "its last checkpoint, if there is one"
        ) from error


def _settle(made: Path, path: Path) -> None:
    mode = (made / "config.json").stat().st_mode
    for file in (*made.iterdir(), made):
        if file != made:
            file.chmod(mode)  # safetensors gives its files to their owner alone
        with _opened(file) as descriptor:
            os.fsync(descriptor)
    old = path.with_name(OLD + path.name)
    if path.exists():
        path.rename(old)
    made.rename(path)
    with _opened(path.parent) as descriptor:
        os.fsync(descriptor)
    remove(old)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
