"""The processes of a run: one, or as many as torchrun starts. All there is of several machines is here.

torchrun --nproc-per-node 2 --no-python treegraft pretrain my.yaml
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

_NEWER = "forward_sync_buffers" in inspect.signature(DistributedDataParallel).parameters
_OWN_BUFFERS: dict[str, Any] = {"forward_sync_buffers" if _NEWER else "broadcast_buffers": False}
"""Buffers are constants, so processes need not be told of each other's; torch 2.13 has another name for it."""
ASKED = "TREEGRAFT_THREADS"
"""What OMP_NUM_THREADS said before the command line set it, for the preprocessing's many processes."""


@dataclass(frozen=True)
class Ranks:
    """Which process this is, of how many, and the device it computes on."""

    rank: int = 0
    count: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    _shared: list[nn.Module] = field(default_factory=list, repr=False, compare=False)

    @property
    def first(self) -> bool:
        """Whether this one writes and speaks."""
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all processes, in place."""
        if self.count > 1:
            distributed.all_reduce(values)
        return values

    def gather(self, value: Any) -> list[Any]:
        """Every process's value, small ones, by rank."""
        if self.count == 1:
            return [value]
        found: list[Any] = [None] * self.count
        distributed.all_gather_object(found, value)
        return found

    def shared(self, model: nn.Module) -> nn.Module:
        """The model, whose gradients are those of all processes (the mean over them)."""
        if self.count == 1:
            return model
        self._shared.append(DistributedDataParallel(model, gradient_as_bucket_view=True, **_OWN_BUFFERS))
        return self._shared[-1]

    def together(self, error: Exception | None) -> None:
        """Raise what went wrong in any process, in all of them: else those where nothing did would wait for ever."""
        for rank, said in enumerate(self.gather(None if error is None else str(error))):
            if said is not None:
                raise error or ValueError(f"process {rank} stopped: {said}")

    @contextmanager
    def agreed(self) -> Iterator[None]:
        """What any process finds wrong in here is raised in all of them."""
        error = None
        try:
            yield
        except (ValueError, OSError) as raised:
            error = raised
        self.together(error)

    def leave(self) -> None:
        """Exchange nothing any more; models that are shared are of no use from then on.

        Whoever holds the group of processes last waits for its threads to end, and one of them may be waiting for
        Python's lock, to free a tensor of the last exchange. Python's own handle of the group gives the lock up for
        that long. What DDP holds of it in C++ does not, and the process would never end: so DDP lets go first.
        """
        if self.count == 1:
            return
        for module in self._shared:
            module.reducer = module.logger = None
        self._shared.clear()
        distributed.destroy_process_group()


@contextmanager
def joined(threads: int | None, deterministic: bool) -> Iterator[Ranks]:
    """This process among those that torchrun started, if it did; its device and threads are set."""
    count, local = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("LOCAL_RANK", "0"))
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    before, exact = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(threads or _threads())
    if deterministic and cuda:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    if count > 1:
        distributed.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo")
    ranks = Ranks(int(os.environ.get("RANK", "0")), count, device)
    try:
        yield ranks
    finally:
        ranks.leave()
        torch.set_num_threads(before)
        torch.use_deterministic_algorithms(exact)


def _threads() -> int:
    """Threads of a process that was told of none: what OMP_NUM_THREADS says, else its share of the cores.

    Where several processes run here, torchrun has set that to 1, whatever there is.
    """
    beside = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    said = os.environ.get(ASKED, os.environ.get("OMP_NUM_THREADS", "")).partition(",")[0].strip()
    if beside == 1 and said.isdecimal() and int(said) > 0:
        return int(said)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // beside)
