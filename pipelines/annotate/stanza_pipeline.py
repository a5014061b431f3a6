"""Loading Stanza and letting it run: safely, and the same way every time.

Weights are read as weights: torch is told to refuse a pickle that holds anything else, whatever the version of
Stanza asks for. Nothing is downloaded here. One thread, deterministic kernels; a GPU only if asked for.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from typing import Any

from pipelines.annotate.stanza_models import StanzaModels
from pipelines.config import ConfigError


def load_pipeline(models: StanzaModels, processors: Sequence[str], gpu: bool, **settings: Any) -> Any:
    """A `stanza.Pipeline` of some of the models. Raises ConfigError naming what cannot be loaded."""
    import stanza

    packages = {"tokenize": "default", **dict(models.packages)}
    logging.getLogger("stanza").setLevel(logging.ERROR)
    try:
        with steady(), _weights_only():
            return stanza.Pipeline(
                models.code,
                dir=models.folder,
                processors={name: packages[name] for name in processors if name in packages},
                package=None,
                download_method=None,
                use_gpu=gpu,
                verbose=False,
                **settings,
            )
    except Exception as error:  # a damaged file may raise anything
        said = str(error).strip().split("\n")[0] or type(error).__name__
        if type(error).__name__ == "UnpicklingError":
            said = f"a file holds more than weights, or is damaged, and is not read ({said[:200]})"
        raise ConfigError(
            f"annotate.parser: Stanza cannot load its models of {models.code!r} in {models.folder}: {said}"
        ) from error


@contextlib.contextmanager
def _weights_only() -> Iterator[None]:
    """torch refuses pickles that run code, even where it is not asked to."""
    name = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


@contextlib.contextmanager
def steady() -> Iterator[None]:
    """One thread and the same kernels every time; workers are processes, and threads of theirs would only compete."""
    import torch

    threads, mode, fixed = (
        torch.get_num_threads(),
        torch.get_deterministic_debug_mode(),
        torch.backends.cudnn.deterministic,
    )
    torch.set_num_threads(1)
    torch.set_deterministic_debug_mode("warn")
    torch.backends.cudnn.deterministic = True
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_deterministic_debug_mode(mode)
        torch.backends.cudnn.deterministic = fixed
