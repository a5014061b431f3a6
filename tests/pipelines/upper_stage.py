"""A small real stage for engine tests: reads its block's bytes, writes their lines upper-cased.

Run as a script it is a driver of its own, so that tests can kill it:
`python -m tests.pipelines.upper_stage SOURCE OUT WORKERS RUNNER SECONDS_PER_BLOCK [BEAM OPTIONS...]`
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from corpora.blocks import Block, Part
from corpora.manifest import write_manifest
from corpora.records import Reject
from pipelines.engine import BlockWriter, Run, Stage, manifest_of
from pipelines.runners import execute


class Upper(Stage):
    name = "annotate"

    def __init__(self, seconds: float = 0.0, log: str | None = None) -> None:
        self.seconds, self.log = seconds, log

    @property
    def fingerprint(self) -> str:
        return "upper"

    def identities(self) -> dict[str, Any]:
        return {}

    def setup(self) -> None:
        if self.log:
            with Path(self.log).open("a") as log:
                log.write("setup\n")

    def schema(self) -> pa.Schema:
        return pa.schema([pa.field("line", pa.string(), nullable=False)])

    def process(self, block: Block, out: BlockWriter) -> None:
        if self.log:
            with Path(self.log).open("a") as log:
                log.write(f"{block.shard_name}\n")
        for part in block.parts:
            text = Path(part.path).read_bytes()[part.start : part.stop].decode()
            time.sleep(self.seconds)
            lines = text.splitlines()
            good = [line for line in lines if "bad" not in line]
            out.write(pa.record_batch([pa.array([g.upper() for g in good])], schema=self.schema()))
            for line in lines:
                if "bad" in line:
                    out.reject(Reject(part.name, part.start, None, "bad", "expected good", line))
            out.count(records=len(lines), documents=len(good))
            out.see("labels", {line[:1] for line in good})


def blocks_of(source: Path, size: int = 60) -> list[Block]:
    """One block per 6 lines of 10 bytes."""
    total = source.stat().st_size
    starts = range(0, total, size)
    return [
        Block(
            "train",
            i,
            len(starts),
            (Part(str(source), source.name, s, min(s + size, total)),),
            min(size, total - s),
        )
        for i, s in enumerate(starts)
    ]


def write_source(path: Path, blocks: int) -> Path:
    path.write_text("".join(f"{'bad' if n % 17 == 3 else 'row'}{n:06}\n" for n in range(blocks * 6)))
    return path


def drive(source: Path, out: Path, stage: Stage, **how: Any) -> None:
    run = Run(stage, blocks_of(source), str(out))
    run.prepare()
    write_manifest(str(out), manifest_of(run, execute(run, **how), "pretrain"))
    run.clean()


if __name__ == "__main__":
    source, out, workers, runner, seconds, *options = sys.argv[1:]
    drive(
        Path(source),
        Path(out),
        Upper(float(seconds), log=f"{out}.log"),
        workers=int(workers),
        runner=runner,
        options=options,
    )
