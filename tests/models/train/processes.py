"""Two processes of a run: by torchrun itself, or as it starts them, spared the seconds of their imports."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.warm import ROOT, ready

_GRACE = 20.0
"""Seconds that a process has to end when the other has failed."""


def torchrun(module: str, *arguments: str, seconds: float = 300) -> subprocess.CompletedProcess[str]:
    """As a user starts them."""
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
        "-m",
        module,
    ]
    return subprocess.run([*command, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=seconds)


def both(module: str | None, *arguments: str, seconds: float = 300) -> subprocess.CompletedProcess[str]:
    """`python -m module` (None: `treegraft`) in two ranks, with the variables that torchrun sets.

    One that fails takes the other with it, soon. What they say is one text, as with torchrun.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
        running = [
            ready().start(
                arguments, ROOT, out, err, {**env, "RANK": str(rank), "LOCAL_RANK": str(rank)}, module
            )
            for rank in (0, 1)
        ]
        until = time.monotonic() + seconds
        while None in (codes := [process.poll() for process in running]):
            if any(codes):  # the other may be about to end by itself
                until = min(until, time.monotonic() + _GRACE)
            if time.monotonic() > until:
                for process in running:
                    if process.poll() is None:
                        process.kill()
            time.sleep(0.005)
        texts = [Path(stream.name).read_text(encoding="utf-8") for stream in (out, err)]
    code = min(codes) if min(codes) < 0 else max(codes)  # first of all that of one that had to be killed
    return subprocess.CompletedProcess([*arguments], code, *texts)
