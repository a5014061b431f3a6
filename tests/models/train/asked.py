"""`treegraft`, whose second process is asked to stop in its third step."""

import os
import signal

from models.train.loop import _Run
from pipelines.cli import main

check = _Run.check


def asked(self, step, *rest):
    if step == 3 and not self.ranks.first:
        os.kill(os.getpid(), signal.SIGTERM)
    check(self, step, *rest)


_Run.check = asked
main()
