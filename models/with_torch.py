"""What stands between a command and torch: whether it is there, that it is quiet, what its errors mean.

Importing this loads nothing: who has no torch is told so, and a command that needs none is to begin at once.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager

_MEMORY = ("DefaultCPUAllocator", "Storage size calculation overflowed")
"""In what torch says when a processor's memory does not suffice."""
_SHARED = ("shared memory", "</torch_")
"""In what torch says when a process that reads ahead cannot hand over a batch, which it does in /dev/shm."""
_PEER = ("onnection closed by peer", "onnection reset by peer", "remote process exited")
"""In what gloo and nccl say when another process is gone."""


class MissingError(ValueError):
    """What a command needs is not installed."""


def need_torch() -> None:
    """Raise MissingError unless there is torch."""
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("transformers") is None:
        raise MissingError("training needs torch and transformers: pip install 'treegraft[train]'")


def quiet() -> None:
    """Tell transformers and the hub's code to be quiet; this loads them."""
    import huggingface_hub.utils.logging as of_hub
    from transformers.utils import logging

    of_hub.set_verbosity_error()  # that it asks again, and again; the error itself is told
    logging.disable_progress_bar()  # one for every file that is read or written
    logging.set_verbosity_error()  # the run itself says which weights are new


@contextmanager
def torch_said() -> Iterator[None]:
    """Of torch's errors, those that are no fault of the program, as what they mean (MemoryError, OSError); others go on
    as they are."""
    try:
        yield
    except RuntimeError as error:
        first = (str(error).splitlines() or [""])[0]
        # Torch's, which may not be loaded yet, of GPUs; and what its processors' code says.
        if type(error).__name__ == "OutOfMemoryError" or any(sign in first for sign in _MEMORY):
            cure = (
                "Raise batch.accumulate, or lower batch.rows or batch.tokens (of generate also --beam-size)"
            )
            raise MemoryError(f"{first.rstrip('.')}. {cure}") from None
        if first.startswith("DataLoader worker"):  # torch's handler raises it wherever the program is
            raise OSError(
                f"a process that reads ahead was killed or crashed ({first}): often memory ran out, of the machine or "
                "in /dev/shm; take fewer `workers`, or none. Training goes on from its last checkpoint when it is run "
                "again"
            ) from None
        if any(sign in str(error) for sign in _SHARED):
            last = str(error).splitlines()[-1]
            raise OSError(
                f"no room for what is read ahead: {last}. It lies in /dev/shm, which is small in containers "
                "(docker run --shm-size=1g); take fewer `workers`, or none. Training goes on from its last checkpoint "
                "when it is run again"
            ) from None
        if any(sign in first for sign in _PEER):
            raise OSError(
                "another process of the run ended: what it said tells why. Training goes on from its last checkpoint "
                "when it is run again"
            ) from None
        raise
