"""What runs inside a worker process: the one DoFn, and what local processes are asked to do."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics

from corpora.blocks import Block
from pipelines.engine import Stage, run_block
from pipelines.progress import ProgressFile

# Models are loaded once per process, also when a process runs many small pipelines one after
# another, or a runner makes several copies of the DoFn on several threads. Blocks of a process
# run one at a time: parsers are not thread-safe, and memory is planned for one block.
_LOCK = threading.Lock()
_READY: dict[tuple[str, str], Stage] = {}
# Beam turns whatever a DoFn raises into a RuntimeError of its own; locally the first cause is kept.
_CAUSE: list[BaseException] = []


def _ready(stage: Stage, progress: ProgressFile) -> Stage:
    key = (stage.name, stage.fingerprint)
    if key not in _READY:
        progress.loading()
        _READY.clear()  # a process serves one stage at a time; let the previous models go
        stage.setup()
        _READY[key] = stage
    return _READY[key]


class ProcessBlock(beam.DoFn):
    """Block descriptor (JSON) in, nothing out: the shard, its rejects and its record are on disk."""

    def __init__(self, stage: Stage, out: str, progress: str | None) -> None:
        self._stage, self._out, self._progress = stage, out, progress

    def process(self, element: str) -> Iterator[Any]:
        block = Block.from_json(element)
        with _LOCK:
            try:
                progress = ProgressFile.of_process(self._progress)
                stage = _ready(self._stage, progress)
                record = run_block(stage, block, self._out, progress.tick)
            except BaseException as error:
                _CAUSE[:] = [error]
                raise
            done = Counter(record.counters) + Counter(rejects=sum(record.rejects.values()))
            progress.finish(block, done)
        for name, value in (done + Counter(blocks=1, bytes=block.bytes)).items():
            Metrics.counter("treegraft", name).inc(value)
        yield from ()


def build_pipeline(
    pipeline: Any, blocks: Sequence[Block], stage: Stage, out: str, progress: str | None
) -> None:
    """The pipeline itself, the same on every runner: descriptors in, recorded blocks out."""
    (
        pipeline
        | "Blocks" >> beam.Create([b.to_json() for b in blocks])
        | "Spread" >> beam.Reshuffle()
        | stage.name.capitalize() >> beam.ParDo(ProcessBlock(stage, out, progress))
    )


def run_group(stage: Stage, blocks: list[Block], out: str, progress: str) -> None:
    """One group of blocks as a pipeline of its own, in this process."""
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner

    # `runner=` an instance: a name would be looked up, and 'DirectRunner' tries a download first.
    _CAUSE.clear()
    try:
        with beam.Pipeline(
            runner=FnApiRunner(), options=PipelineOptions(["--direct_num_workers=1"])
        ) as pipeline:
            build_pipeline(pipeline, blocks, stage, out, progress)
    except Exception:
        if _CAUSE:
            raise _CAUSE[0] from None
        raise
