"""Batches from one process to another: many arrays and tensors in one block of shared memory."""

from __future__ import annotations

import io
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

_ALIGNMENT = 64
_ALIVE = 0.5
"""Seconds between two looks of a worker whether the process that it ships to is still there."""


class _Pickler(pickle.Pickler):
    """Tensors as numpy arrays, whose memory protocol 5 leaves to `Packer`."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.device.type == "cpu" and not value.requires_grad:
            try:
                return torch.from_numpy, (value.numpy(),)
            except TypeError:  # numpy has no such type
                return NotImplemented
        return NotImplemented


class Packer:
    """Packs values, one time after the other; it keeps the memory in which it puts them together."""

    def __init__(self) -> None:
        self._room = np.empty(0, np.uint8)

    def __call__(self, values: Iterable[Any]) -> tuple[torch.Tensor, list[tuple[bytes, list[int]]]]:
        """All arrays and tensors of some values in one block of shared memory; and for every value what is around
        them, and where each begins and ends.

        A message to another process costs one file handle for each tensor in it; this makes it one. A value is
        asked for when the one before it is packed, and may be made in that one's memory.
        """
        packed, stop = [], 0
        for value in values:
            buffers: list[pickle.PickleBuffer] = []
            body, places = io.BytesIO(), []
            _Pickler(body, protocol=5, buffer_callback=buffers.append).dump(value)
            for buffer in buffers:
                raw = buffer.raw()
                start = -(-stop // _ALIGNMENT) * _ALIGNMENT
                stop = start + raw.nbytes
                if stop > len(self._room):
                    self._room = np.resize(self._room, 2 * stop)
                self._room[start:stop] = raw
                places += [start, stop]
            packed.append((body.getvalue(), places))
        return _shared(self._room[:stop]), packed


def _shared(values: NDArray[np.uint8]) -> torch.Tensor:
    """A copy in memory that another process can be given; made there as by torch's own collating in workers."""
    storage = torch.UntypedStorage._new_shared(max(len(values), 1))
    memory = torch.empty(0, dtype=torch.uint8).set_(storage)
    if torch.multiprocessing.get_sharing_strategy() == "file_descriptor":
        # Half the time of writing to the memory, which would be a page fault for each new page; and where there is
        # no memory left to share it is an error that says so, not a signal.
        handle, _ = storage._share_fd_cpu_()
        done = 0
        while done < len(values):
            done += os.pwrite(handle, values.data[done:], done)
    else:
        memory.numpy()[: len(values)] = values
    return memory


def unpack(memory: torch.Tensor, packed: Iterable[tuple[bytes, list[int]]]) -> Iterator[Any]:
    """The values that a `Packer` was given; their arrays and tensors lie in `memory`."""
    view = memoryview(memory.numpy())
    for body, places in packed:
        parts = [view[start:stop] for start, stop in zip(places[::2], places[1::2], strict=True)]
        yield pickle.loads(body, buffers=parts)  # noqa: S301  # from a worker of this process, never from a file


def end_with_parent(worker: int) -> None:
    """Have a worker end when its parent was killed. Torch's own watch is not enough: it leaves the worker's loop, and
    what was shipped is then waited for until somebody reads it, from a pipe that the worker itself keeps open.

    Of SIGTERM only the parent's own counts: who asks all processes of a run to end (`timeout`, a scheduler) would take
    the workers from under a parent that first keeps what it has learned.
    """
    parent, began = multiprocessing.parent_process(), os.getppid()
    assert parent is not None
    heard = hasattr(signal, "sigtimedwait")  # not on macOS
    if heard:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def watch() -> None:
        # Workers that began later hold an end of the pipe that tells of the parent; it tells also who began too late.
        while os.getppid() == began and parent.is_alive():
            if not heard:
                time.sleep(_ALIVE)
            elif (asked := signal.sigtimedwait({signal.SIGTERM}, _ALIVE)) and asked.si_pid == began:
                os._exit(0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
