"""Chinese words by pkuseg (the package spacy-pkuseg): a conditional random field over characters.

The package brings a dictionary but no model: it would download one at first use into `PKUSEG_HOME`
(`~/.pkuseg`). A run downloads nothing; it takes the model that is there, or the folder that
`annotate.segmenter: pkuseg:FOLDER` names, and reads no pickled weights.
"""

from __future__ import annotations

import hashlib
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pipelines.annotate.chinese_words import ChineseWords
from pipelines.annotate.user_dict import read_user_dict, user_dict_bytes
from pipelines.config import ConfigError, resolve

DEFAULT_MODEL = "spacy_ontonotes"
_FILES = ("features.msgpack", "weights.npz")
_PROCESSORS = "pkuseg_processors"
"""Beside the model where a spaCy pipeline brings one: its words."""


class PkusegWords(ChineseWords):
    """A model in a folder. `user_dict`: words that are never cut, the longest first; counts mean nothing here."""

    def __init__(self, folder: Path, user_dict: str | None = None) -> None:
        import spacy_pkuseg

        model = spacy_pkuseg.pkuseg(str(folder))
        _set_processors(model, folder)
        words = [] if user_dict is None else [word for word, _ in read_user_dict(user_dict)]
        for word in words:
            model.preprocesser.insert(word, "")
        super().__init__(model.cut, [word for word in words if re.search(r"\s", word)])


def _set_processors(model: Any, folder: Path) -> None:
    """The words of a spaCy pipeline's tokenizer, as spaCy sets them."""
    path = folder.parent / _PROCESSORS
    if folder.name != "pkuseg_model" or not path.exists():
        return
    import spacy_pkuseg
    import srsly

    words, process, common, other = srsly.read_msgpack(path)
    model.preprocesser = spacy_pkuseg.Preprocesser(words)
    model.postprocesser.do_process = process
    model.postprocesser.common_words, model.postprocesser.other_words = set(common), set(other)


def find_model(setting: str, config_path: str) -> Path:
    """Folder of the model that `pkuseg` or `pkuseg:FOLDER` names. Raises ConfigError where there is none."""
    _, given, path = setting.partition(":")
    if given:
        return check_model(Path(resolve(config_path, path)))
    _installed()
    from spacy_pkuseg.config import config

    folder = Path(config.pkuseg_home) / DEFAULT_MODEL
    if not folder.exists():
        raise ConfigError(
            f"annotate.segmenter: pkuseg's model is not on this machine: {folder} is missing. The package brings none, "
            "and a run downloads nothing: fetch it once with `python -c 'import spacy_pkuseg; spacy_pkuseg.pkuseg()'`, "
            f"or name a folder with {' and '.join(_FILES)}: `segmenter: pkuseg:FOLDER`"
        )
    return check_model(folder)


def check_model(folder: Path) -> Path:
    """The folder, which holds a model. Raises ConfigError for what it lacks."""
    _installed()
    if missing := [name for name in _FILES if not (folder / name).exists()]:
        raise ConfigError(
            f"annotate.segmenter: {folder} is no model of pkuseg: it lacks {' and '.join(missing)}. Models that hold "
            "features.pkl instead are of an old form that can run code when it is read; train or fetch one of today's"
        )
    return folder


def _installed() -> str:
    try:
        return version("spacy-pkuseg")
    except PackageNotFoundError:
        raise ConfigError(
            "annotate.segmenter: the package spacy-pkuseg is missing; pip install 'treegraft[segmenters]'"
        ) from None


def pkuseg_identity(folder: Path, user_dict: str | None) -> dict[str, Any]:
    """Name, version and hash of model and words, found without loading them."""
    digest = hashlib.sha256()
    for path in (*(folder / name for name in _FILES), folder.parent / _PROCESSORS):
        if path.exists() and (path.parent == folder or folder.name == "pkuseg_model"):
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    if user_dict is not None:
        digest.update(user_dict_bytes(user_dict))
    return {"name": "pkuseg", "version": _installed(), "sha256": digest.hexdigest()}
