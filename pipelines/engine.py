"""Runs a stage over its blocks on a Beam runner, so that any death is harmless.

A Beam element is the descriptor of a block, never data: the worker that gets it reads, computes
and writes the whole block, then records it. Three files make a block, in this order, each under a
temporary name first: its rejects (only if any), its shard, its record `_work/<shard>.json`. A
rerun skips blocks whose record stands; the manifest, written last, is the commit mark.

Locally the driver starts one process per worker and hands out groups of blocks; each group is a
small pipeline on Beam's `FnApiRunner`, named explicitly because `DirectRunner` first tries to
download another runner. Measured against that runner's own `multi_processing` mode on two cores
(README, "Measured"): handing out groups balances uneven blocks, loads models once per process
instead of once per pipeline, and shows progress, which a blocking `FnApiRunner.run` cannot. Its
`multi_threading` mode lost data when measured and is refused.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import pyarrow as pa
from corpora.shards import ShardInfo, ShardWriter

from corpora import files
from corpora.manifest import MANIFEST, Manifest, ShardRecord, SplitRecord, read_manifest
from corpora.plan import Block, Part
from corpora.records import Reject

WORK = "_work"
REJECTS = "rejects"
LOCAL = "local"
_MAX_GROUP = 32
_TICK_SECONDS = 0.5


class RunError(RuntimeError):
    """The run cannot start or go on; the message says what to do."""


class Stage(ABC):
    """A pure function from a block to rows. Pickled to workers before `setup`, so it must be small."""

    name: str

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Hash of all that shapes the output beside the blocks themselves."""

    @abstractmethod
    def identities(self) -> dict[str, Any]:
        """Name, version and content hash of every tool and resource that shapes the output."""

    @abstractmethod
    def setup(self) -> None:
        """Load models; called once per process, never in the driver of a remote run."""

    @abstractmethod
    def schema(self) -> pa.Schema:
        """Schema of the shards, metadata included."""

    @abstractmethod
    def process(self, block: Block, out: BlockWriter) -> None:
        """Write the block's rows, rejects and counts to `out`."""


@dataclass(frozen=True)
class BlockRecord:
    """What a finished block left behind: the unit of resume, and the manifest's source."""

    split: str
    index: int
    shard: ShardInfo
    rejects: dict[str, int]
    counters: dict[str, int]
    sets: dict[str, list[str]]

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), ensure_ascii=False, sort_keys=True).encode()

    @classmethod
    def from_json(cls, raw: bytes) -> BlockRecord:
        body = json.loads(raw)
        return cls(**{**body, "shard": ShardInfo(**body["shard"])})


class BlockWriter:
    """Where a stage puts what it makes of one block."""

    def __init__(
        self, shard: ShardWriter, rejects: _RejectFile, tick: Callable[[Counter[str]], None]
    ) -> None:
        self._shard, self._reject_file, self._tick = shard, rejects, tick
        self.counters: Counter[str] = Counter()
        self.rejects: Counter[str] = Counter()
        self.sets: dict[str, set[str]] = {}

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        self._shard.write(rows)

    def reject(self, reject: Reject) -> None:
        self._reject_file.write(reject)
        self.rejects[reject.reason] += 1
        self.count(rejects=1)

    def count(self, **counters: int) -> None:
        """Add to the block's counters; the live display reads them."""
        self.counters.update(counters)
        self._tick(self.counters)

    def see(self, kind: str, values: Iterable[str]) -> None:
        """Gather a small set of strings (labels, relations) in the manifest."""
        self.sets.setdefault(kind, set()).update(values)


class _RejectFile:
    """`rejects/<shard>.jsonl`, made at the first reject."""

    def __init__(self, out: str, block: Block, stack: contextlib.ExitStack) -> None:
        folder = files.join(out, REJECTS)
        self._folder, self._stack, self._sink = folder, stack, None
        self._path = files.join(folder, block.shard_name.removesuffix(".arrow") + ".jsonl")

    def write(self, reject: Reject) -> None:
        if self._sink is None:
            files.make_dirs(self._folder)
            self._sink = self._stack.enter_context(files.write_atomic(self._path))
        self._sink.write(reject.to_json().encode("utf-8", "backslashreplace") + b"\n")


def run_block(stage: Stage, block: Block, out: str, tick: Callable[[Counter[str]], None]) -> BlockRecord:
    """Process one block whole and record it."""
    with contextlib.ExitStack() as stack:
        # The stack unwinds in reverse: the shard is committed first, then the rejects. Neither
        # counts before the record below says so.
        rejects = _RejectFile(out, block, stack)
        shard = stack.enter_context(ShardWriter(files.join(out, block.shard_name), stage.schema()))
        writer = BlockWriter(shard, rejects, tick)
        stage.process(block, writer)
    record = BlockRecord(
        split=block.split,
        index=block.index,
        shard=shard.result,
        rejects=dict(writer.rejects),
        counters={k: v for k, v in writer.counters.items() if k != "rejects"},
        sets={kind: sorted(values) for kind, values in writer.sets.items()},
    )
    with files.write_atomic(_record_path(out, block)) as sink:
        sink.write(record.to_json())
    return record


def _record_path(out: str, block: Block) -> str:
    return files.join(files.join(out, WORK), block.shard_name.removesuffix(".arrow") + ".json")


# --- the plan on disk -------------------------------------------------------------------------


@dataclass
class Run:
    """One stage, its blocks and its output folder."""

    stage: Stage
    blocks: Sequence[Block]
    out: str
    inputs: Sequence[dict[str, Any]] = ()
    """Size and modification time of every input: a changed file is never mixed with old blocks."""
    done: dict[str, BlockRecord] = field(default_factory=dict)

    @property
    def key(self) -> dict[str, Any]:
        return {
            "stage": self.stage.name,
            "fingerprint": self.stage.fingerprint,
            "blocks": len(self.blocks),
            "inputs": list(self.inputs),
        }

    def prepare(self) -> None:
        """Make the folder ours: fresh, or with the finished blocks of an earlier, equal run."""
        work = files.join(self.out, WORK)
        files.make_dirs(work)
        plan = files.join(work, "plan.json")
        if files.exists(plan) and json.loads(files.read_bytes(plan)) != self.key:
            raise RunError(
                f"{self.out} holds an unfinished run of another config, code or input. Choose another folder, "
                "or pass --overwrite to throw that work away."
            )
        files.remove_temporaries(self.out)
        files.remove_temporaries(work)
        files.remove_temporaries(files.join(self.out, REJECTS))
        with files.write_atomic(plan) as sink:
            sink.write(json.dumps(self.key, ensure_ascii=False, sort_keys=True).encode())
        for block in self.blocks:
            if files.exists(path := _record_path(self.out, block)):
                self.done[block.shard_name] = BlockRecord.from_json(files.read_bytes(path))

    def pending(self) -> list[Block]:
        return [b for b in self.blocks if b.shard_name not in self.done]

    def collect(self) -> list[BlockRecord]:
        """All records in block order; raises RunError if a block is missing."""
        for block in self.pending():
            path = _record_path(self.out, block)
            if not files.exists(path):
                raise RunError(
                    f"block {block.shard_name} was not finished; run the same command again to continue"
                )
            self.done[block.shard_name] = BlockRecord.from_json(files.read_bytes(path))
        return [self.done[b.shard_name] for b in self.blocks]

    def clean(self) -> None:
        """Drop the blocks' records; the manifest stands now. The plan stays: it dates the inputs."""
        work = files.join(self.out, WORK)
        for name in files.list_names(work):
            if name not in ("plan.json", "lock"):
                files.remove(files.join(work, name))

    def is_finished(self) -> bool | None:
        """True if the folder holds exactly this run, finished; False if another; None if none is."""
        if not files.exists(files.join(self.out, MANIFEST)):
            return None
        manifest = read_manifest(self.out)
        same = manifest.stage == self.stage.name and manifest.config_fingerprint == self.stage.fingerprint
        plan = files.join(files.join(self.out, WORK), "plan.json")
        return same and (not files.exists(plan) or bool(json.loads(files.read_bytes(plan)) == self.key))


def discard(out: str) -> None:
    """Remove what an earlier run wrote to `out`: its own files, nothing else."""
    manifest = files.join(out, MANIFEST)
    if files.exists(manifest):
        files.remove(manifest)  # first: from here on the folder no longer looks finished
    for folder, suffixes in (
        (out, (".arrow",)),
        (files.join(out, REJECTS), (".jsonl",)),
        (files.join(out, WORK), (".json",)),
    ):
        files.remove_temporaries(folder)
        for name in files.list_names(folder):
            if name.endswith(suffixes):
                files.remove(files.join(folder, name))


def manifest_of(run: Run, records: Sequence[BlockRecord], task: str) -> Manifest:
    """The manifest that commits `records`."""
    splits: dict[str, SplitRecord] = {}
    for name in dict.fromkeys(r.split for r in records):
        mine = [r for r in records if r.split == name]
        sets: dict[str, set[str]] = {}
        for record in mine:
            for kind, values in record.sets.items():
                sets.setdefault(kind, set()).update(values)
        splits[name] = SplitRecord.of([ShardRecord.of(r.shard, r.counters, r.rejects) for r in mine], sets)
    return Manifest(
        stage=run.stage.name,  # type: ignore[arg-type]
        task=task,  # type: ignore[arg-type]
        config_fingerprint=run.stage.fingerprint,
        splits=splits,
        identities=run.stage.identities(),
        versions=package_versions(),
        inputs=[{k: v for k, v in item.items() if k != "modified"} for item in run.inputs],
    )


def package_versions() -> dict[str, str]:
    """Versions of the packages that shape data."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for package in (
        "treegraft",
        "pyarrow",
        "numpy",
        "tokenizers",
        "jieba",
        "spacy",
        "marisa-trie",
        "apache-beam",
    ):
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


# --- running ----------------------------------------------------------------------------------


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


def build_pipeline(
    pipeline: Any, blocks: Sequence[Block], stage: Stage, out: str, progress: str | None
) -> None:
    """The pipeline itself, the same on every runner: descriptors in, recorded blocks out."""
    import apache_beam as beam

    from pipelines.worker import ProcessBlock

    (
        pipeline
        | "Blocks" >> beam.Create([json.dumps(asdict(b)) for b in blocks])
        | "Spread" >> beam.Reshuffle()
        | stage.name.capitalize() >> beam.ParDo(ProcessBlock(stage, out, progress))
    )


def block_from_json(raw: str) -> Block:
    body = json.loads(raw)
    return Block(**{**body, "parts": tuple(Part(**p) for p in body["parts"])})


def _run_local(run: Run, pending: list[Block], workers: int, watch: Callable[[Counter[str]], None]) -> None:
    import multiprocessing
    import tempfile
    from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
    from concurrent.futures.process import BrokenProcessPool

    from pipelines.worker import run_group, start_worker

    workers = min(workers, len(pending))
    # Longest first would balance best, but order must not matter to anyone, so keep it plain.
    size = min(_MAX_GROUP, max(1, len(pending) // (workers * 4)))
    groups = [pending[i : i + size] for i in range(0, len(pending), size)]
    with tempfile.TemporaryDirectory(prefix="treegraft-") as progress, _single_threaded_libraries():
        pool = ProcessPoolExecutor(
            workers,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=start_worker,
            initargs=(os.getpid(),),
        )
        waiting = {pool.submit(run_group, run.stage, group, run.out, progress) for group in groups}
        try:
            while waiting:
                finished, waiting = wait(waiting, timeout=_TICK_SECONDS, return_when=FIRST_COMPLETED)
                for future in finished:
                    future.result()
                watch(read_progress(progress))
        except BrokenProcessPool:
            raise RunError(
                "a worker process died (out of memory, or killed). Finished blocks are kept: run the same command "
                "again to continue, with fewer --workers or a smaller run.block_bytes if memory was short."
            ) from None
        finally:
            for future in waiting:
                future.cancel()
            for process in list((pool._processes or {}).values()):
                if waiting:
                    process.terminate()
            pool.shutdown(wait=True, cancel_futures=True)


def _run_remote(
    run: Run, pending: list[Block], runner: str, options: Sequence[str], watch: Callable[[Counter[str]], None]
) -> None:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

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
            time.sleep(_TICK_SECONDS * 4)
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


def read_progress(folder: str) -> Counter[str]:
    """Sum of the small counter files that local workers keep."""
    totals: Counter[str] = Counter()
    for name in files.list_names(folder):
        if name.endswith(".json"):
            with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
                totals.update(json.loads(files.read_bytes(files.join(folder, name))))
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


class ProgressFile:
    """A worker's counters, rewritten at most twice a second; the driver sums these files."""

    _of_process: ClassVar[dict[str | None, ProgressFile]] = {}

    @classmethod
    def of_process(cls, folder: str | None) -> ProgressFile:
        """This process's one file in `folder`: its totals span all pipelines that the process runs."""
        return cls._of_process.setdefault(folder, cls(folder))

    def __init__(self, folder: str | None) -> None:
        self._path = None if folder is None else files.join(folder, f"{os.getpid()}.json")
        self._totals: Counter[str] = Counter()
        self._last = 0.0
        self._lock = threading.Lock()

    def tick(self, current: Counter[str]) -> None:
        if self._path is not None and time.monotonic() - self._last >= _TICK_SECONDS:
            self._write(current)

    def finish(self, block: Block, current: Counter[str]) -> None:
        self._totals.update(current)
        self._totals.update(blocks=1, bytes=block.bytes)
        if self._path is not None:
            self._write(Counter())

    def _write(self, current: Counter[str]) -> None:
        with self._lock:
            self._last = time.monotonic()
            temporary = f"{self._path}.new"
            with open(temporary, "w", encoding="utf-8") as sink:  # noqa: PTH123 - local and tiny
                json.dump(self._totals + current, sink)
            os.replace(temporary, self._path)  # noqa: PTH105
