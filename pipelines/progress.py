"""Counters that local workers keep in small files while Beam's local runner blocks; the driver sums them."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections import Counter
from pathlib import Path
from typing import ClassVar

from corpora import files
from corpora.blocks import Block

TICK_SECONDS = 0.5


def read_progress(folder: str) -> Counter[str]:
    """Sum of the small counter files that local workers keep."""
    totals: Counter[str] = Counter()
    for name in files.list_names(folder):
        if name.endswith(".json"):
            with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
                totals.update(json.loads(files.read_bytes(files.join(folder, name))))
    return totals


class ProgressFile:
    """A worker's counters, rewritten at most twice a second; the driver sums these files."""

    _of_process: ClassVar[dict[str | None, ProgressFile]] = {}

    @classmethod
    def of_process(cls, folder: str | None) -> ProgressFile:
        """This process's one file in `folder`: its totals span all pipelines that the process runs."""
        return cls._of_process.setdefault(folder, cls(folder))

    def __init__(self, folder: str | None) -> None:
        self._path = None if folder is None else Path(folder) / f"{os.getpid()}.json"
        self._totals: Counter[str] = Counter()
        self._last = 0.0
        self._lock = threading.Lock()

    def loading(self) -> None:
        """Models are being loaded: so it is shown until there is something to count."""
        self._write(Counter(loading=1))

    def tick(self, current: Counter[str]) -> None:
        if time.monotonic() - self._last >= TICK_SECONDS:
            self._write(current)

    def finish(self, block: Block, current: Counter[str]) -> None:
        self._totals.update(current)
        self._totals.update(blocks=1, bytes=block.bytes)
        self._write(Counter())

    def _write(self, current: Counter[str]) -> None:
        if self._path is None:
            return
        with self._lock:
            self._last = time.monotonic()
            temporary = self._path.with_suffix(".new")
            temporary.write_text(json.dumps(self._totals + current), encoding="utf-8")
            temporary.replace(self._path)
