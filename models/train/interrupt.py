"""Ctrl-C, SIGTERM and SIGHUP (of a terminal that is closed) wait for the end of a step, so that a run can keep what it
has learned."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from models.train.screen import tell

_SAME = 1.0
"""Seconds within which a second signal is the first one, come by another way (from the terminal and from a parent)."""
_SAID = b"\nstopping after this step (the last one ends the run as ever); once more stops at once\n"


@contextmanager
def deferred(alone: bool) -> Iterator[Callable[[], bool]]:
    """What is given says whether the user has asked to stop. Where a process is `alone`, asking twice stops at once;
    of several the one that starts them sees to that."""
    if threading.current_thread() is not threading.main_thread():  # which alone hears signals
        yield lambda: False
        return
    owner, asked = os.getpid(), list[float]()

    def ask(number: int, frame: FrameType | None) -> None:
        if os.getpid() != owner:  # a loader's worker: its parent tells it when to stop, by SIGTERM at last
            if number == signal.SIGTERM:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
            return
        now = time.monotonic()
        if not asked and alone:
            tell(2, _SAID)  # a console may be in the middle of a line
        if alone and asked and now - asked[0] > _SAME and number != signal.SIGHUP:  # by which nobody asks
            raise KeyboardInterrupt
        asked.append(now)

    # One that is ignored (a job in the background, of nohup) stays so.
    asking = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    heard = [number for number in asking if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, ask) for number in heard}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
