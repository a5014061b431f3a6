"""Which Stanza models parse a language: finding them, telling what they are, without loading them or torch.

A folder of models is laid out as Stanza's own: `resources.json` names the packages of each language, and
`<language>/<processor>/<package>.pt` are their weights. `make stanza` writes such a folder too.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from corpora.files import is_uri
from pipelines.config import ConfigError, resolve

_PARSE = ("pos", "lemma", "depparse")
_WORDS = ("tokenize", "mwt")
_IDENTITY = "identity"
"""The lemmatizer that has no model: the lemma is the word."""

_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


@dataclass(frozen=True)
class StanzaModels:
    """Models of one language on this machine."""

    folder: str
    code: str
    """Stanza's name of the language: `zh-hans` for our `zh`."""
    packages: tuple[tuple[str, str], ...]
    """Processor and package, in the order they run in: tokenize, mwt, pos, lemma, depparse. Without a tokenizer's model
    there is none of the first two."""
    files: tuple[str, ...]
    """What they are read from, relative to `folder`, sorted."""

    @property
    def tokenizes(self) -> bool:
        return "tokenize" in dict(self.packages)

    @property
    def name(self) -> str:
        """`stanza_<language>_<package>`, with every package of the parser where they differ."""
        used = dict.fromkeys(package for _, package in self.packages if package != _IDENTITY)
        return f"stanza_{self.code}_{'+'.join(used)}"


def find_stanza(name: str, language: str, config_path: str) -> StanzaModels:
    """Models of `stanza` (Stanza's own folder, filled by a download where that works) or `stanza:PATH`.

    Raises ConfigError naming what is missing and the line that brings it.
    """
    _installed()
    given = name.removeprefix("stanza").removeprefix(":")
    if given:
        if is_uri(given):
            raise ConfigError(f"annotate.parser: {name!r}: Stanza reads local folders; copy the models here")
        return _models(Path(resolve(config_path, given)), language, _fix_given)
    if name != "stanza":
        raise ConfigError("annotate.parser: 'stanza:' names no folder; write stanza:PATH, or 'stanza'")
    folder = _own_folder()
    try:
        return _models(folder, language, _fix_own)
    except _MissingError as missing:
        return _downloaded(folder, language, missing)


def stanza_identity(models: StanzaModels) -> dict[str, Any]:
    """Name, version of Stanza and torch, and a hash over the model files."""
    digest = hashlib.sha256()
    for name in models.files:
        path = Path(models.folder) / name
        status = path.stat()
        digest.update(f"{name} {_content_hash(path, status.st_size, status.st_mtime_ns)}\n".encode())
    versions = f"{version('stanza')} (torch {version('torch').partition('+')[0]})"
    return {"name": models.name, "version": versions, "sha256": digest.hexdigest()}


class _MissingError(ConfigError):
    """Models that a download may bring."""


@lru_cache(maxsize=64)
def _content_hash(path: Path, size: int, modified: int) -> str:
    with path.open("rb") as file:
        return (
            hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else _old(file)
        )


def _old(file: Any) -> str:
    digest = hashlib.sha256()
    while chunk := file.read(2**20):
        digest.update(chunk)
    return digest.hexdigest()


def _installed() -> None:
    try:
        version("stanza"), version("torch")
    except PackageNotFoundError as error:
        raise ConfigError(
            f"annotate.parser: Stanza needs the package {error.name}, which is not installed: "
            "pip install 'treegraft[stanza]'"
        ) from None


def _own_folder() -> Path:
    """Where Stanza keeps its models."""
    if given := os.environ.get("STANZA_RESOURCES_DIR"):
        return Path(given)
    from stanza.resources.common import DEFAULT_MODEL_DIR

    return Path(DEFAULT_MODEL_DIR)


def _models(folder: Path, language: str, fix: Callable[[str], str]) -> StanzaModels:
    resources = _resources(folder, language, fix)
    try:
        code = _code(resources, language)
        entry = resources.get(code)
        if not isinstance(entry, Mapping):
            known = sorted(name for name, value in resources.items() if isinstance(value, Mapping))
            raise _MissingError(
                f"annotate.parser: {folder} has no Stanza models of {language!r}, only of "
                f"{', '.join(known) or 'nothing'}; " + fix(code)
            )
        packages = _packages(entry)
        if lacking := [name for name in ("pos", "depparse") if name not in packages]:
            raise ConfigError(
                f"annotate.parser: the Stanza models of {code!r} in {folder} lack {' and '.join(lacking)}; "
                "Stanza does not parse this language"
            )
        files = {name: _files(entry, code, name, package) for name, package in packages.items()}
    except _ShapeError as error:
        raise _unreadable(folder, f"of {language!r}, {error}") from None
    if not (folder / code / "tokenize").is_dir():  # a parser alone will do where words are given
        for name in _WORDS:
            packages.pop(name, None)
    wanted = sorted({path for name in packages for path in files[name]})
    if absent := [path for path in wanted if not (folder / path).is_file()]:
        raise _MissingError(
            f"annotate.parser: {folder} lacks the Stanza models {', '.join(absent)}; " + fix(code)
        )
    order = [name for name in (*_WORDS, *_PARSE) if name in packages]
    return StanzaModels(str(folder), code, tuple((name, packages[name]) for name in order), tuple(wanted))


def _resources(folder: Path, language: str, fix: Callable[[str], str]) -> dict[str, Any]:
    try:
        resources = json.loads((folder / "resources.json").read_text(encoding="utf-8"))
        if not isinstance(resources, dict):
            raise ValueError("expected an object")
    except FileNotFoundError:
        raise _MissingError(
            f"annotate.parser: {folder} is no folder of Stanza models, it has no resources.json; "
            + fix(_code({}, language))
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(folder, error) from None
    return resources


def _unreadable(folder: Path, why: object) -> ConfigError:
    return ConfigError(f"annotate.parser: {folder}/resources.json cannot be read: {why}")


def _code(resources: Mapping[str, Any], language: str) -> str:
    code = "zh-hans" if language == "zh" else language
    for name in (language, code):
        entry = resources.get(name)
        if isinstance(entry, Mapping):
            return _name(entry.get("alias", name), "alias")
    return code


def _packages(entry: Mapping[str, Any]) -> dict[str, str]:
    """Package of each processor that we use, of those that Stanza takes by default."""
    default = _object(_object(entry.get("packages", {}), "packages").get("default", {}), "packages.default")
    packages = {
        name: _name(default[name], f"packages.default.{name}")
        for name in (*_WORDS, *_PARSE)
        if name in default
    }
    packages.setdefault("lemma", _IDENTITY)
    return packages


def _files(entry: Mapping[str, Any], code: str, processor: str, package: str) -> list[str]:
    """Weights of a package, and of what it builds on (word vectors, character models)."""
    if package == _IDENTITY:
        return []
    parts = [(processor, package)]
    known = _object(entry.get(processor, {}), processor)
    place = f"{processor}.{package}"
    needs = _object(known.get(package, {}), place).get("dependencies", [])
    if not isinstance(needs, list):
        raise _ShapeError(f"{place}.dependencies: expected a list, found {_excerpt(needs)}")
    for number, need in enumerate(needs):
        at = f"{place}.dependencies[{number}]"
        part = _object(need, at)
        parts.append((_name(part.get("model"), f"{at}.model"), _name(part.get("package"), f"{at}.package")))
    return [f"{code}/{model}/{name}.pt" for model, name in parts]


class _ShapeError(ValueError):
    """A value of `resources.json` that is none that Stanza writes there."""


def _object(value: object, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _ShapeError(f"{place}: expected an object, found {_excerpt(value)}")
    return value


def _name(value: object, place: str) -> str:
    """Part of the path of a model: it must not lead out of the folder."""
    if (
        not isinstance(value, str)
        or value in ("", ".", "..")
        or not value.isprintable()
        or set(value) & {*"/\\"}
    ):
        raise _ShapeError(f"{place}: expected a name, found {_excerpt(value)}")
    return value


def _excerpt(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)[:80]


def _fix_given(code: str) -> str:
    return (
        "train some with `make stanza`, or fetch Stanza's own into it: "
        f"`python -c \"import stanza; stanza.download('{code}', model_dir='PATH')\"`"
    )


def _fix_own(code: str) -> str:
    return (
        f"where the network allows, `python -c \"import stanza; stanza.download('{code}')\"` brings them; "
        "elsewhere copy the folder from another machine and name it by STANZA_RESOURCES_DIR or "
        "`annotate.parser: stanza:PATH`"
    )


def _downloaded(folder: Path, language: str, missing: ConfigError) -> StanzaModels:
    """Stanza's own download, once; what it was for if that does not work."""
    if any(os.environ.get(name, "").lower() in ("1", "true", "yes", "on") for name in _OFFLINE):
        raise ConfigError(f"{missing} (not tried here: {_OFFLINE[0]} is set)")
    import stanza

    code = _code({}, language)
    try:
        stanza.download(
            code, model_dir=str(folder), processors="tokenize,mwt,pos,lemma,depparse", verbose=False
        )
    except Exception as error:  # whatever a network may do, and a language that Stanza does not know
        raise ConfigError(f"{missing} (the download failed: {_first_line(error)})") from None
    return _models(folder, language, _fix_own)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).split("\n")[0][:300]
