"""A screen that may go away: a run is more than who watches it. Nothing here needs torch.

A terminal is closed, or `tee` dies that a run was piped into: from then on nobody is told how it goes on.
`metrics.jsonl` goes on, and the exit status says what became of the run.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, cast

from rich.console import Console

_GONE = {errno.EPIPE, errno.EIO}
"""What writing is answered with where there is no reader, or no terminal, any more."""
_LEAST = 80
"""Columns of a table of figures. Where there are fewer a terminal breaks lines; rich would empty cells."""


def make_screen(*, stderr: bool = False) -> Console:
    """A console that prints strings as they are, and whose loss is no error."""
    stream = _Lasting(sys.stderr if stderr else sys.stdout)
    made = Console(file=cast(IO[str], stream), stderr=stderr, markup=False, emoji=False, highlight=False)
    if made.width < 1:  # COLUMNS=0: nothing would be told
        made.width = _LEAST
    return made


def make_page() -> Console:
    """A console for results, on stdout: strings as they are, and tables whole. It ends with its reader (`| head`)."""
    made = Console(markup=False, emoji=False, highlight=False)
    made.width = max(made.width, _LEAST)
    return made


def tell(descriptor: int, said: bytes) -> None:
    """Write to a stream; where its reader is gone all that is written to it goes to nowhere, now and later."""
    with _unheeded(lambda: descriptor):
        os.write(descriptor, said)


@contextmanager
def _unheeded(descriptor: Callable[[], int]) -> Iterator[None]:
    """An error of writing to a stream is none; where its reader is gone, the stream goes to nowhere from then on."""
    with suppress(OSError):
        try:
            yield
        except OSError as error:
            if error.errno in _GONE:  # others, as of a full disk, may pass
                _let_go(descriptor())


def _let_go(descriptor: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


class _Lasting:
    """A text stream to which writing never fails."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with _unheeded(self._stream.fileno):
            self._stream.write(text)
            self._stream.flush()
        return len(text)

    def flush(self) -> None:
        """Nothing: all that was written is flushed."""
