"""Reading a recipe: paths, changes from the command line, and what is told of a wrong one.

As in the configs of the pipelines a wrong key or value stops before any work, with a message that names it, and
relative paths count from the folder of the file.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from corpora.files import is_uri
from corpora.sections import SettingsError, explain, parse_yaml, read_yaml
from models.train.recipe import Recipe

_WRITTEN = {
    "model": ": `bert`, `kbert`, `unilm`, `sgnet` or `ambert`",
    "task": ": what is learned, such as `mlm`, `classify`, `tag`, `span`",
    "data": ", such as `data: {folder: out/my}`",
    "data.folder": ": the folder that `treegraft preprocess` wrote",
    "out": ": the folder for checkpoints, metrics and the trained model",
    "optim": ", such as `optim: {lr: 1e-4, epochs: 3}`",
}
_PATHS = ("init", "out", "data.folder", "data.dev_folder")
_EITHER = (("init", "new"), ("optim.steps", "optim.epochs"), ("batch.rows", "batch.tokens"))
"""Keys of which a recipe has one: a change to the one takes the other's place."""


class RecipeError(ValueError):
    """The recipe cannot be used; the message names the key and what to write."""

    exit_code = 2


def load_recipe(path: str | Path, changes: Iterable[str] = (), out: str | None = None) -> Recipe:
    """Read a recipe; relative paths in it become absolute.

    Args:
        path: the YAML file.
        changes: `key=value` each, the key dotted (`optim.lr=3e-5`), the value YAML; paths in them count from the
            working directory. Where a recipe has one key or another (`init` or `new`), a change to one drops the other,
            and changes to both are an error.
        out: another `out`, a path as it is, no YAML.

    Raises:
        RecipeError: a key or value is wrong.
    """
    path = Path(path)
    try:
        found = read_yaml(path, "recipe")
        if "model" not in found and any(key in found for key in ("input", "annotate", "encode")):
            raise RecipeError(
                f"recipe {path} looks like a config for `treegraft preprocess`; a recipe of training says model, task, "
                "data and out (`treegraft pretrain --help` shows one)"
            )
        raw = _resolved(found, path.resolve().parent)
        changed = {key for change in changes for key in _change(raw, change)}
        for one, other in _EITHER:
            if changed >= {one, other}:
                raise RecipeError(f"--set {one} and --set {other} exclude each other: write one of them")
        if out is not None:  # also an empty one, of a variable that the shell does not have
            raw["out"] = _path(out, Path.cwd(), hub=False)
        return Recipe.model_validate(raw)
    except SettingsError as error:
        raise RecipeError(str(error)) from None
    except RecursionError:
        raise RecipeError(f"recipe {path} or a change to it is nested too deep, or holds itself") from None
    except ValidationError as error:
        raise RecipeError(f"recipe {path}:\n" + "\n".join(explain(error, Recipe, _WRITTEN))) from None


def switched(changes: Iterable[str]) -> frozenset[str]:
    """Options of the model that changes from the command line name. Raises RecipeError as `load_recipe`."""
    raw: dict[str, Any] = {}
    for change in changes:
        _change(raw, change)
    named = raw.get("options")
    return frozenset(named if isinstance(named, dict) else ())


def check_folders(recipe: Recipe) -> None:
    """Raise RecipeError where a folder that is read is not there, or one of a run stands for its model."""
    read = [("data.folder", source.folder) for source in recipe.data.folder]
    if recipe.data.dev_folder is not None:
        read.append(("data.dev_folder", recipe.data.dev_folder))
    for key, folder in read:
        if not is_uri(folder) and not Path(folder).is_dir():
            if Path(folder).is_file():
                raise RecipeError(
                    f"{key}: {folder} is a file: name the folder of the dataset, with all its shards"
                )
            raise RecipeError(f"{key}: there is no folder {folder}: `treegraft preprocess` writes one")
    init = Path(recipe.init or "")
    if not init.is_absolute() or init.is_file():  # an id on the hub; a file is told of where it is read
        return
    if not init.is_dir():
        raise RecipeError(f"init: there is no folder {init}")
    if not (init / "config.json").exists() and (init / "model/config.json").exists():
        raise RecipeError(f"init: {init} is the folder of a run: did you mean {init / 'model'}?")


def check_keys(section: str, given: Mapping[str, Any], names: Collection[str]) -> None:
    """Raise RecipeError for a key that a section does not have."""
    for key in given:
        if key not in names:
            near = difflib.get_close_matches(str(key), names, n=1)
            hint = (
                f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(sorted(names)) or 'none'}"
            )
            raise RecipeError(f"{section}.{key}: unknown key; {hint}")


def _change(raw: dict[str, Any], change: str) -> set[str]:
    """Make a change to a recipe; which keys of `_EITHER` it gives a value."""
    import yaml

    key, given, value = change.partition("=")
    if not given or not re.fullmatch(r"\w+(\.\w+)*", key):
        raise RecipeError(f"--set takes key=value, such as optim.lr=3e-5, found {change!r}")
    if re.search(r"\.\d+(\.|$)", key):
        raise RecipeError(
            f"--set {key}: a list is written as a whole, such as --set 'data.folder=[out/a, out/b]' or "
            "--set 'optim.betas=[0.9, 0.98]'"
        )
    try:
        made: Any = parse_yaml(value)
        node = yaml.compose(value, yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise RecipeError(f"--set {key}: the value is not YAML: {error}") from None
    if node is not None and (rest := value[node.end_mark.index :].strip()):
        raise RecipeError(f"--set {key}: {rest!r} is a comment in YAML: write the value in quotes of its own")
    for name in reversed(key.split(".")):
        made = {name: made}
    changed = {key for pair in _EITHER for key in pair if _at(made, key) is not None}
    for pair in _EITHER:
        for one, other in (pair, pair[::-1]):
            if one in changed and other not in changed and _at(raw, other) is not None:
                _at(raw, other.rpartition(".")[0]).pop(other.rpartition(".")[2])
    _merge(raw, _resolved(made, Path.cwd()))
    return changed


def _at(raw: Any, key: str) -> Any:
    """What stands under a dotted key, the whole under an empty one; None where there is nothing."""
    for name in key.split(".") if key else ():
        raw = raw.get(name) if isinstance(raw, dict) else None
    return raw


def _merge(into: dict[str, Any], new: dict[str, Any]) -> None:
    for name, value in new.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = value


def _resolved(raw: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The same with paths against the folder."""
    for name in _PATHS:
        outer, _, key = name.rpartition(".")
        section = _at(raw, outer)
        if isinstance(section, dict) and section.get(key) is not None:
            section[key] = _path(section[key], folder, hub=name == "init")
    return raw


def _path(value: Any, folder: Path, hub: bool) -> Any:
    if isinstance(value, list):
        return [_path(one, folder, hub) for one in value]
    if isinstance(value, dict) and "folder" in value:
        return {**value, "folder": _path(value["folder"], folder, hub)}
    if not isinstance(value, str) or not value or is_uri(value):
        return value
    if hub and not (folder / value).exists() and re.fullmatch(r"[\w-][\w.-]*(/[\w.-]+)?", value):
        owner, _, name = value.partition("/")
        if not name or not (folder / owner).is_dir():
            return value  # an id on the hub
    try:
        return str((folder / Path(value).expanduser()).resolve())
    except (RuntimeError, ValueError) as error:  # of ~ where there is no such user; of a NUL
        raise RecipeError(f"{value!r} is no path: {error}") from None
