"""A KenLM model: log10 probabilities of the last words of n-grams.

One process, the driver, holds it: a model is as large as all n-grams of the corpus, and scoring what is frequent among
them takes seconds, while loading takes minutes.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpora import files
from pipelines.section import ConfigError

_FIELD = "--model"


class Model:
    """An ARPA file, or a binary of it, as KenLM reads it."""

    def __init__(self, path: str) -> None:
        """Load it. A URI is copied to this machine first.

        Raises:
            ConfigError: the package is missing, or the file is not a model that it reads.
        """
        kenlm = load_kenlm()
        config = kenlm.Config()
        config.show_progress = False
        config.arpa_complain = kenlm.ARPALoadComplain.NONE
        with tempfile.TemporaryDirectory(prefix="treegraft-") as folder:
            local = _local(path, folder)
            try:
                self._model = kenlm.Model(local, config)
            except OSError as error:
                raise ConfigError(
                    f"{_FIELD}: KenLM cannot read {path}: {error}; "
                    "it takes ARPA files, and what its build_binary makes of them"
                ) from None
        self._state = kenlm.State
        self.order: int = self._model.order

    def score(self, columns: Sequence[Sequence[str]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """n-grams, a list a place, n of each: log10 p(last word | words before) and log10 p(last word), float64[n];
        both NaN where the model does not know the last word."""
        model, state = self._model, self._state
        score, empty, out = model.BaseScore, state(), state()
        model.NullContextWrite(empty)
        alone = {word: score(empty, word, out) if word in model else np.nan for word in set(columns[-1])}
        before, logs = [empty] * len(columns[0]), []
        for words in columns:
            after = [state() for _ in words]
            logs = [score(b, word, a) for b, word, a in zip(before, words, after, strict=True)]
            before = after
        own = np.array([alone[word] for word in columns[-1]], np.float64)
        return np.where(np.isnan(own), np.nan, np.array(logs, np.float64)), own


def load_kenlm() -> Any:
    """The package. Raises ConfigError where it is not installed."""
    try:
        import kenlm
    except ImportError:
        raise ConfigError(
            "phrases are scored by KenLM, and its package is not installed: pip install 'treegraft[phrases]' "
            "(it is compiled on installing, which needs a C++ compiler and CMake)"
        ) from None
    return kenlm


def _local(path: str, folder: str) -> str:
    if not files.is_uri(path):
        return path
    local = str(Path(folder) / Path(path).name)
    with files.open_read(path) as source, Path(local).open("wb") as sink:
        shutil.copyfileobj(source, sink, 1 << 20)
    return local
