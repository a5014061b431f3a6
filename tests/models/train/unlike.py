"""`treegraft` in two processes, the second of which cannot read what the first can."""

import os

from models.train import parts
from pipelines.cli import main

if os.environ["RANK"] == "1":

    def missing(*arguments: object) -> None:
        raise OSError("this machine has no such file")

    parts.make_optimizer = missing

main()
