"""Runs a stage over its blocks: on this machine's cores, or on any Beam runner.

A Beam element is the descriptor of a block, never data; the pipeline is the same everywhere.

Locally the driver starts one process per worker and hands out groups of blocks; each group is a
small pipeline on Beam's `FnApiRunner`, named explicitly because `DirectRunner` first tries to
download another runner. Against that runner's own `multi_processing` mode it takes the same time on
even blocks (1.02 times, `tests/bench/bench_engine.py`); what it adds is that groups balance uneven
blocks, models stay loaded from pipeline to pipeline and from stage to stage, a dead worker is
noticed, and progress shows, which a blocking `FnApiRunner.run` cannot. Beam's
`multi_threading` mode lost data when measured and is refused. Very small work stays in the driver.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from typing import Any

from corpora.blocks import Block
from pipelines.engine import BlockRecord, Run, RunError
from pipelines.progress import TICK_SECONDS, read_progress

LOCAL = "local"
_MAX_GROUP = 32
_SMALL_BYTES = int(os.environ.get("TREEGRAFT_SMALL_BYTES", 256 * 2**10))
"""Work of no more raw bytes is done in the driver."""


def execute(
    run: Run,
    *,
    runner: str = LOCAL,
    workers: int = 1,
    options: Sequence[str] = (),
    watch: Callable[[Counter[str]], None] = lambda totals: None,
) -> list[BlockRecord]:
    """Run the pending blocks and return every block's record, in block order.

    `watch` is called a few times a second with counters summed over all workers.
    """
    pending = run.pending()
    if pending:
        if runner == LOCAL:
            _run_local(run, pending, workers, watch)
        else:
            _run_remote(run, pending, runner, options, watch)
    return run.collect()


def _run_local(run: Run, pending: list[Block], workers: int, watch: Callable[[Counter[str]], None]) -> None:
    import tempfile
    from concurrent.futures import FIRST_COMPLETED, wait
    from concurrent.futures.process import BrokenProcessPool

    from pipelines.worker import run_group

    workers = min(workers, len(pending))
    # Longest first would balance best, but order must not matter to anyone, so keep it plain.
    size = min(_MAX_GROUP, max(1, len(pending) // (workers * 4)))
    groups = [pending[i : i + size] for i in range(0, len(pending), size)]
    small = sum(block.bytes for block in pending) <= _SMALL_BYTES
    with tempfile.TemporaryDirectory(prefix="treegraft-") as progress, _single_threaded_libraries():
        pool = _thread() if small else _processes(workers)
        with _deaf():
            waiting = {pool.submit(run_group, run.stage, group, run.out, progress) for group in groups}
        try:
            while waiting:
                finished, waiting = wait(waiting, timeout=TICK_SECONDS, return_when=FIRST_COMPLETED)
                for future in finished:
                    future.result()
                watch(read_progress(progress))
        except BaseException as error:
            # Do not wait for the blocks under way: they are done again, and what they left is swept up.
            stop_workers()
            run.remove_temporaries()
            if isinstance(error, BrokenProcessPool):
                raise RunError(
                    "a worker process died (out of memory, or killed). Finished blocks are kept: run the same "
                    "command again to continue, with fewer --workers or a smaller run.block_bytes if memory was short."
                ) from None
            raise


atexit.register(lambda: stop_workers())
_pools: dict[int, Executor] = {}
"""Worker processes by their number, 0 for the thread: the next stage, or config, uses them again."""


def _thread() -> Executor:
    """One thread of this process: for so little work, starting others would take longer than doing it."""
    from concurrent.futures import ThreadPoolExecutor

    return _pools.setdefault(0, ThreadPoolExecutor(1))


def _processes(workers: int) -> Executor:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    if workers not in _pools:
        stop_workers()
        spawn = multiprocessing.get_context("spawn")
        _pools[workers] = ProcessPoolExecutor(
            workers, mp_context=spawn, initializer=start_worker, initargs=(os.getpid(),)
        )
    return _pools[workers]


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """Processes that are started here never hear Ctrl-C, which a terminal sends to all: this one does, a moment later,
    and ends them. In their first seconds, before a line of ours runs, they would end with tracebacks of their own."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def stop_workers() -> None:
    """End all local workers now, whatever they do."""
    for pool in _pools.values():
        for process in list((getattr(pool, "_processes", None) or {}).values()):
            process.terminate()
        pool.shutdown(wait=True, cancel_futures=True)
    _pools.clear()


def start_worker(parent: int) -> None:
    """First thing in a worker process: quiet Beam down, and die with the driver even if that was killed."""
    logging.getLogger().setLevel(logging.CRITICAL)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _run_remote(
    run: Run, pending: list[Block], runner: str, options: Sequence[str], watch: Callable[[Counter[str]], None]
) -> None:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    from pipelines.worker import build_pipeline

    if "dask" in runner.lower():
        raise RunError(
            "Beam's Dask runner drops outputs silently and is not supported; use Flink, Spark or Dataflow"
        )
    if any("multi_threading" in option for option in options):
        raise RunError(
            "direct_running_mode=multi_threading loses data in Beam; leave it out, or use --runner local"
        )
    short = runner.rsplit(".", 1)[-1]
    chosen: Any = runner
    if short == "FnApiRunner":
        from apache_beam.runners.portability.fn_api_runner import FnApiRunner

        chosen = FnApiRunner()
    with _single_threaded_libraries():
        try:
            pipeline = beam.Pipeline(runner=chosen, options=PipelineOptions(list(options)))
        except (ValueError, ImportError) as error:
            raise RunError(f"--runner {runner}: {error}") from None
        build_pipeline(pipeline, pending, run.stage, run.out, None)
        result = pipeline.run()
        while not result.is_in_state_terminal() if hasattr(result, "is_in_state_terminal") else False:
            watch(read_metrics(result))
            time.sleep(TICK_SECONDS * 4)
        result.wait_until_finish()
    watch(read_metrics(result))


def read_metrics(result: Any) -> Counter[str]:
    """Counters that workers reported through Beam's metrics (remote runners)."""
    from apache_beam.metrics.metric import MetricsFilter

    totals: Counter[str] = Counter()
    with contextlib.suppress(Exception):  # a runner without metrics still runs; the records count
        for counter in result.metrics().query(MetricsFilter().with_namespace("treegraft"))["counters"]:
            value = counter.committed if counter.committed is not None else counter.attempted
            totals[counter.key.metric.name] += value or 0
    return totals


@contextlib.contextmanager
def _single_threaded_libraries() -> Iterator[None]:
    """Workers inherit one thread per numeric library: processes are the parallelism, and sums keep their order."""
    wanted = {
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "BLIS_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
