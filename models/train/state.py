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
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from corpora import files
from models import checkpoint
from models.bert import Bert
from models.bert_batch import TOKENIZER
from models.train.folder import CHECKPOINTS, OLD, FolderError, damaged, named, of_steps, remove, remove_step

STATE_VERSION = 1


@dataclass
class State:
    """Where a run stands.

    Attributes:
        step: steps done.
        loader: the stream's state (`Loader.state_dict`).
        window: what was summed up since the last line of metrics (`models.train.log`).
        recipe: `Recipe.lasting`.
        best: the best look so far (`models.train.best`).
        owed: whether the look at the dev split after this step failed, and has still to be made.
        computed: in how many pieces, by how many processes (`models.train.facts.computed_by`); None: not known.
    """

    step: int
    loader: dict[str, Any]
    window: dict[str, Any]
    recipe: dict[str, Any]
    best: dict[str, Any] | None = None
    owed: bool = False
    computed: dict[str, Any] | None = None


def save(
    out: Path, state: State, model: Bert, optimizer: torch.optim.Optimizer, tokenizer: bytes | None, keep: int
) -> None:
    """Write the checkpoint of a step, then delete what is older than the newest `keep`."""
    folder = out / CHECKPOINTS
    folder.mkdir(exist_ok=True)
    with _whole(folder / named(state.step)) as made:
        write_model(made, model, tokenizer)
        save_file(_moments(model, optimizer), made / "optimizer.safetensors")
        body = {"version": STATE_VERSION, **asdict(state)}
        (made / "training.json").write_text(json.dumps(body, indent=1), encoding="utf-8")
    for old in of_steps(folder)[:-keep]:
        remove_step(old)


def save_model(path: Path, model: Bert, tokenizer: bytes | None) -> None:
    """Write a model's folder, in the place of the one that may be there."""
    path.parent.mkdir(exist_ok=True)
    with _whole(path) as made:
        write_model(made, model, tokenizer)


def copy_model(source: Path, path: Path) -> None:
    """Copy a model's folder, as `save_model` writes it."""
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
    """Where a run stood at a checkpoint. Raises FolderError where it is damaged, or another release's."""
    try:
        body = json.loads((path / "training.json").read_text(encoding="utf-8"))
        if body.pop("version") != STATE_VERSION:
            raise FolderError(f"{path} was written by another release: begin anew, with --overwrite")
        state = State(**body)
        best = state.best or {"step": 0, "value": 0.0}
        parts = (state.loader, state.window, state.recipe, state.computed or {}, best)
        if not all(isinstance(part, dict) for part in parts) or not best.keys() >= {"step", "value"}:
            raise TypeError("training.json says other things than a run writes")
        if named(state.step) != path.name:
            raise ValueError(f"by training.json it is of step {state.step}")
        return state
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        if isinstance(error, FolderError):
            raise
        raise damaged(path, error) from error


def restore(path: Path, model: Bert, optimizer: torch.optim.Optimizer) -> None:
    """Put the optimizer's moments back. Raises FolderError where they are damaged, or another model's."""
    try:
        saved = load_file(path / "optimizer.safetensors")
    except (OSError, SafetensorError) as error:
        raise damaged(path, error) from error
    for name, weight in model.named_parameters():
        found = {
            key.rpartition("|")[2]: value for key, value in saved.items() if key.rpartition("|")[0] == name
        }
        if any(value.ndim and value.shape != weight.shape for value in found.values()):
            raise damaged(path, f"moments of {name} have another shape")
        if found:
            optimizer.state[weight] = {key: value.to(weight.device) for key, value in found.items()}


def _moments(model: Bert, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    return {
        f"{name}|{key}": value.detach().cpu().contiguous()
        for name, weight in model.named_parameters()
        for key, value in optimizer.state[weight].items()
    }


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
        raise OSError(
            f"{path} could not be written: {error}. Make room; run again, training goes on from its last checkpoint, "
            "if there is one"
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
