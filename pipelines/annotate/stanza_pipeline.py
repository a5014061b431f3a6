"""Loading Stanza and letting it run: safely, and the same way every time.

Weights are read as weights: torch is told to refuse a pickle that holds anything else, whatever the version of
Stanza asks for. Nothing is downloaded here. One thread, deterministic kernels; a GPU only if asked for.
"""

from __future__ import annotations

import contextlib
import logging
import os
import traceback
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pipelines.annotate.stanza_models import StanzaModels
from pipelines.config import ConfigError

_KINDS = {"tokenize": "tokenizer", "mwt": "multiword expander", "pos": "tagger", "depparse": "parser"}
_NOT_READ = "holds more than weights, or is damaged, and is not read; fetch it again, or train it again (`make stanza`)"


def load_pipeline(models: StanzaModels, processors: Sequence[str], gpu: bool, **settings: Any) -> Any:
    """A `stanza.Pipeline` of some of the models. Raises ConfigError naming the file that cannot be loaded."""
    import stanza

    packages = {"tokenize": "default", **dict(models.packages)}
    logging.getLogger("stanza").setLevel(logging.ERROR)
    try:
        with steady(), _weights_only(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is wrong is said once, by the error
            return stanza.Pipeline(
                models.code,
                dir=models.folder,
                processors={name: packages[name] for name in processors if name in packages},
                package=None,
                download_method=None,
                use_gpu=gpu,
                logging_level="CRITICAL",
                **settings,
            )
    except Exception as error:  # a damaged file may raise anything
        raise ConfigError(f"annotate.parser: {_refusal(models, error)}") from None


def _refusal(models: StanzaModels, error: Exception) -> str:
    """Which file Stanza was reading, and what is wrong with it, without torch's advice to trust it."""
    said = f"{type(error).__name__}: {(str(error).strip() or 'no more is known').splitlines()[0][:200]}"
    frames = traceback.extract_tb(error.__traceback__)
    modules = [Path(frame.filename).stem for frame in frames]
    name = next((n for n in _KINDS if f"{n}_processor" in modules), None)
    if name is None:
        return f"Stanza cannot load its models of {models.code!r} in {models.folder}: {said}"
    own = f"{models.code}/{name}/{dict(models.packages).get(name)}.pt"
    # Word vectors and character models: what it builds on.
    others = [path for path in models.files if path.split("/")[1] not in _KINDS]
    for path in (own, *others):
        if not _is_weights(Path(models.folder) / path):
            return f"{models.folder}/{path} {_NOT_READ}"
    return (
        f"{models.folder}/{own} is no {_KINDS[name]} of Stanza, or one of another version ({said}); "
        "fetch it again, or train it again (`make stanza`)"
    )


def _is_weights(path: Path) -> bool:
    import torch

    try:
        torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # a damaged file may raise anything
        return False
    return True


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
