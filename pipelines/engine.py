"""A stage, its blocks and what they leave on disk, so that any death is harmless.

A worker that gets a block reads, computes and writes it whole, then records it. Three files make
a block, each under a temporary name first: its rejects (only if any), its shard, and last its
record `_work/<shard>.json`. A rerun skips blocks whose record stands; the manifest, written when
all records are there, is the commit mark of the folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from corpora import files
from corpora.blocks import Block
from corpora.manifest import MANIFEST, SHARD_NAME, Manifest, ShardRecord, SplitRecord, read_manifest
from corpora.records import Reject
from corpora.shards import ShardError, ShardInfo, ShardWriter, check_shard
from pipelines.differences import Facts, differences, listed
from pipelines.section import ConfigError

WORK = "_work"
REJECTS = "rejects"
LOCAL = "local"
_MAX_GROUP = 32
_TICK_SECONDS = 0.5


class RunError(RuntimeError):
    """The run cannot start or go on; the message says what to do."""


class InterruptedRunError(RunError):
    """The user stopped the run; it can go on."""


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

    def settings(self) -> dict[str, Any]:
        """The settings that shape the output, by dotted config key: for the manifest, and for whoever asks
        what another run did otherwise. The fingerprint, not this, decides whether two runs are the same."""
        return {}

    def companions(self) -> dict[str, bytes]:
        """Small files that belong beside the shards: name to content."""
        return {}

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


class BlockWriter:
    """Where a stage puts what it makes of one block."""

    def __init__(
        self, shard: ShardWriter, rejects: _RejectFile, tick: Callable[[Counter[str]], None]
    ) -> None:
        self._shard, self._reject_file, self._tick = shard, rejects, tick
        self.counters: Counter[str] = Counter()
        self._ahead: Counter[str] = Counter()
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
        for name in counters:
            self._ahead.pop(name, None)
        self._tick(self.counters + self._ahead)

    def working(self, **counters: int) -> None:
        """Show the live display what is under way; nothing of it stays once `count` has it."""
        self._ahead.update(counters)
        self._tick(self.counters + self._ahead)

    def see(self, kind: str, values: Iterable[str]) -> None:
        """Gather a small set of strings (labels, relations) in the manifest."""
        self.sets.setdefault(kind, set()).update(values)


class _RejectFile:
    """`rejects/<shard>.jsonl`, made at the first reject."""

    def __init__(self, out: str, block: Block, stack: contextlib.ExitStack) -> None:
        folder = files.join(out, REJECTS)
        self._folder, self._stack = folder, stack
        self._sink: BinaryIO | None = None
        self._path = files.join(folder, block.shard_name.removesuffix(".arrow") + ".jsonl")

    def write(self, reject: Reject) -> None:
        if self._sink is None:
            files.make_dirs(self._folder)
            self._sink = self._stack.enter_context(files.write_atomic(self._path))
        self._sink.write(reject.to_json().encode("utf-8", "backslashreplace") + b"\n")


def run_block(stage: Stage, block: Block, out: str, tick: Callable[[Counter[str]], None]) -> BlockRecord:
    """Process one block whole and record it."""
    with contextlib.ExitStack() as stack:
        # The stack unwinds in reverse, rejects before shard. Neither counts before the record says so.
        rejects = _RejectFile(out, block, stack)
        shard = stack.enter_context(ShardWriter(files.join(out, block.shard_name), stage.schema()))
        writer = BlockWriter(shard, rejects, tick)
        try:
            stage.process(block, writer)
        except (OSError, ValueError) as error:  # bad input or a bad disk, not a bug: one clear message
            names = ", ".join(dict.fromkeys(part.name for part in block.parts[:3]))
            raise RunError(f"block {block.shard_name} ({names}): {error}") from error
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
            "blocks": _digest(self.blocks),
            "inputs": list(self.inputs),
        }

    def prepare(self) -> None:
        """Make the folder ours: fresh, or with the finished blocks of an earlier, equal run."""
        files.make_dirs(files.join(self.out, WORK))
        plan = _plan_path(self.out)
        if files.exists(plan) and not self.is_planned():
            raise RunError(
                f"{self.out} holds an unfinished run of another config, code or input:"
                f"{listed(self.differences())}\nChoose another folder, or pass --overwrite to throw that work away."
            )
        if not files.exists(plan) and (foreign := [n for n in files.list_names(self.out) if _is_shard(n)]):
            raise RunError(
                f"{self.out} holds shards that no run there wrote, such as {foreign[0]}. Choose another folder, or "
                "pass --overwrite to remove them."
            )
        self.remove_temporaries()
        with files.write_atomic(plan) as sink:
            sink.write(json.dumps({**self.key, **self._told}, ensure_ascii=False, sort_keys=True).encode())
        for block in self.blocks:
            if (record := _read_record(self.out, block)) is not None:
                self.done[block.shard_name] = record

    def remove_temporaries(self) -> None:
        """Remove half-written files; only while no worker of this run is alive."""
        for folder in (self.out, files.join(self.out, WORK), files.join(self.out, REJECTS)):
            files.remove_temporaries(folder)

    def is_recorded(self, block: Block) -> bool:
        """Whether the block is finished, as far as the disk knows."""
        return files.exists(_record_path(self.out, block))

    def pending(self) -> list[Block]:
        return [b for b in self.blocks if b.shard_name not in self.done]

    def collect(self) -> list[BlockRecord]:
        """All records in block order; raises RunError if a block is missing."""
        for block in self.pending():
            record = _read_record(self.out, block)
            if record is None:
                raise RunError(
                    f"block {block.shard_name} was not finished; run the same command again to continue"
                )
            self.done[block.shard_name] = record
        return [self.done[b.shard_name] for b in self.blocks]

    def clean(self) -> None:
        """Drop the blocks' records, and the folder of rejects that an earlier run had; the manifest stands now.

        The plan stays: it dates the inputs.
        """
        work = files.join(self.out, WORK)
        for name in files.list_names(work):
            if _is_shard(name.removesuffix(".json") + ".arrow") or name == "graph":
                files.remove(files.join(work, name))
        if not files.is_uri(self.out):  # elsewhere a folder is often but a prefix
            with contextlib.suppress(OSError):
                Path(self.out, REJECTS).rmdir()

    def is_planned(self) -> bool:
        """Whether the plan in the folder is there, whole, and this one."""
        plan = _read_json(_plan_path(self.out))
        return isinstance(plan, dict) and {name: plan.get(name) for name in self.key} == self.key

    @property
    def _told(self) -> dict[str, Any]:
        """What the plan says beside the key, for `differences` alone."""
        return {
            "settings": self.stage.settings(),
            "identities": self.stage.identities(),
            "versions": package_versions(),
        }

    def differences(self) -> list[str]:
        """What the run that the folder holds, finished or not, did otherwise, a line each."""
        plan = _read_json(_plan_path(self.out))
        plan = plan if isinstance(plan, dict) else {}
        if files.exists(files.join(self.out, MANIFEST)):
            manifest = read_manifest(self.out)
            stage: str | None = manifest.stage
            old = facts_of(manifest)
        else:
            told = {name: plan.get(name) or {} for name in self._told}
            stage = plan.get("stage")
            old = Facts(**told, inputs=undated(plan.get("inputs") or ()))
        if stage != self.stage.name:
            return [f"stage: {stage!r} -> {self.stage.name!r}"]
        lines = differences(old, Facts(**self._told, inputs=undated(self.inputs)))
        if not lines and plan.get("blocks", self.key["blocks"]) != self.key["blocks"]:
            lines.append("the corpus is cut into other blocks: run.block_bytes, or the order of the files")
        if not lines:
            before = {item.get("path"): item for item in plan.get("inputs") or ()}
            lines += [
                f"input {item['path']}: written again since"
                for item in self.inputs
                if before.get(item["path"], item) != item
            ]
        return lines or ["nothing that was recorded: the release, or a setting that it did not record"]

    def damage(self, *, hashes: bool = False) -> str | None:
        """What a finished folder lost since: its first shard that is missing, or has another size or hash."""
        for split in read_manifest(self.out).splits.values():
            for shard in split.shards:
                try:
                    (info,) = files.expand(files.join(self.out, shard.name))
                except OSError:
                    return f"{shard.name} is missing"
                if info.size != shard.bytes:
                    return f"{shard.name} has {info.size:,} bytes, the manifest says {shard.bytes:,}"
                if hashes:
                    try:
                        check_shard(info.path, shard.sha256)
                    except ShardError as error:
                        return str(error)
        return None

    def is_finished(self) -> bool | None:
        """True if the folder holds exactly this run, finished; False if another; None if none is."""
        if not files.exists(files.join(self.out, MANIFEST)):
            return None
        manifest = read_manifest(self.out)
        same = manifest.stage == self.stage.name and manifest.config_fingerprint == self.stage.fingerprint
        return same and (not files.exists(_plan_path(self.out)) or self.is_planned())


def facts_of(manifest: Manifest) -> Facts:
    """What the manifest says of how its folder was made."""
    return Facts(manifest.settings, manifest.identities, manifest.versions, manifest.inputs)


def undated(inputs: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Inputs as a manifest lists them: no time of change, which differs from machine to machine."""
    return [{k: v for k, v in item.items() if k != "modified"} for item in inputs]


def _plan_path(out: str) -> str:
    return files.join(files.join(out, WORK), "plan.json")


def _is_shard(name: str) -> bool:
    return SHARD_NAME.fullmatch(name) is not None


def _read_json(path: str) -> Any:
    """A file's JSON; None where it is missing or damaged, which is the same to a run that goes on."""
    try:
        return json.loads(files.read_bytes(path))
    except (FileNotFoundError, ValueError, RecursionError):
        return None


def _read_record(out: str, block: Block) -> BlockRecord | None:
    """The record of a block that is done: whole, and its shard there as recorded."""
    body = _read_json(_record_path(out, block))
    try:
        record = BlockRecord(**{**body, "shard": ShardInfo(**body["shard"])})
        (info,) = files.expand(files.join(out, block.shard_name))
    except (TypeError, KeyError, OSError):
        return None
    return record if info.size == record.shard.bytes and record.shard.name == block.shard_name else None


def _digest(blocks: Sequence[Block]) -> str:
    """Hash of where the blocks' bounds lie, wherever the files do."""
    plan = [(b.split, b.index, b.count, [(p.name, p.start, p.stop) for p in b.parts]) for b in blocks]
    return hashlib.sha256(json.dumps(plan, ensure_ascii=False).encode()).hexdigest()


def discard(out: str) -> None:
    """Remove what an earlier run wrote to `out`: its own files, nothing else."""
    manifest = files.join(out, MANIFEST)
    if files.exists(manifest):
        files.remove(manifest)  # first: from here on the folder no longer looks finished
    for folder, suffix in (
        (out, ".arrow"),
        (files.join(out, REJECTS), ".jsonl"),
        (files.join(out, WORK), ".json"),
    ):
        files.remove_temporaries(folder)
        for name in files.list_names(folder):
            if name.endswith(suffix) and _is_shard(name.removesuffix(suffix) + ".arrow"):
                files.remove(files.join(folder, name))
    files.remove(_plan_path(out))


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
        inputs=undated(run.inputs),
        settings=run.stage.settings(),
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
        "apache-beam",
    ):
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


@contextlib.contextmanager
def only_writer(folder: str) -> Iterator[None]:
    """Hold a lock on a local output folder; the system lets it go when the process dies, however it dies."""
    if files.is_uri(folder):
        yield
        return
    try:
        import fcntl
    except ImportError:  # pragma: no cover - no such lock on Windows
        yield
        return
    work = Path(folder) / WORK
    try:
        work.mkdir(parents=True, exist_ok=True)
        lock = (work / "lock").open("w")
    except OSError as error:
        raise ConfigError(
            f"--out or --annotated: {folder} cannot be made or written to ({error.strerror}); name another folder"
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunError(
                f"another run is writing to {folder}; wait for it, or choose another folder"
            ) from None
        yield
