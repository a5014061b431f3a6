"""Local worker processes: groups of blocks handed out by the driver, against Beam's own process mode.

The same stage (annotate with the embedded parser) over the same blocks on two processes, taken in
turns, wall time: `local` as users get it, and one pipeline on `FnApiRunner` with
`direct_running_mode=multi_processing`, which deals out the blocks once and for all.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import pytest

from corpora.plan import plan_blocks
from pipelines import runners
from pipelines.annotate import Annotate
from pipelines.config import Config
from pipelines.engine import Run, discard

pytestmark = pytest.mark.bench

WORKERS = 2
ROUNDS = 3


def test_local_processes_against_beams_own(
    real_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runners, "_SMALL_BYTES", 0)
    source = {"format": "tsv", "text": "text_a", "label": "label", "files": ["dev.tsv"]}
    config = Config.model_validate(
        {"task": "classify", "language": "zh", "input": source, "encode": {"tokenizer": "vocab.txt"}}
    )
    folder = real_data / "kbert/chnsenticorp"
    blocks = plan_blocks(config.input, str(folder), 24 * 2**10)

    def timed(**how: object) -> float:
        out = str(tmp_path / "out")
        discard(out)
        runners.stop_workers()
        run = Run(Annotate(config, str(folder / "config.yaml")), blocks, out)
        run.prepare()
        start = time.perf_counter()
        records = runners.execute(run, **how)  # type: ignore[arg-type]
        assert sum(record.shard.rows for record in records) == 1200
        return time.perf_counter() - start

    options = ["--direct_running_mode=multi_processing", f"--direct_num_workers={WORKERS}"]
    pairs = [(timed(workers=WORKERS), timed(runner="FnApiRunner", options=options)) for _ in range(ROUNDS)]
    ratio = statistics.median(a / b for a, b in pairs)
    mine, theirs = (min(side) for side in zip(*pairs, strict=True))
    print(
        f"\nlocal workers: {ratio:.2f} times Beam's multi_processing ({mine:.1f} s against {theirs:.1f} s, "
        f"{len(blocks)} blocks on {WORKERS} processes, starting them included)"
    )
