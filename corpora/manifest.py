"""The manifest: what a finished folder holds, and the mark that it is finished.

`manifest.json` is written last, so a folder without one is the work of a run that did not end.
It lists every shard with rows, size, hash and counters, what was rejected and why, and the
identity of everything that shaped the data. No clock, no host, no absolute path: the same run
gives the same manifest.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    field_validator,
    model_validator,
)

from corpora import files
from corpora.schema import Task
from corpora.shards import ShardInfo

MANIFEST = "manifest.json"
MANIFEST_VERSION = 1
SHARD_NAME = re.compile(r"(?P<split>[A-Za-z0-9_]+)-(?P<index>\d{5,9})-of-(?P<count>\d{5,9})\.arrow")

_Count = Annotated[int, Field(ge=0)]
_Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class ManifestError(ValueError):
    """A folder's manifest is missing, foreign, newer or damaged; the message says what to do."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ShardRecord(_Model):
    """One shard: file name, rows, size in bytes, sha256 of the bytes, and what its block counted."""

    name: str
    rows: _Count
    bytes: _Count
    sha256: _Sha256
    counters: dict[str, int] = {}
    rejects: dict[str, _Count] = {}

    @field_validator("name")
    @classmethod
    def _stays_in_its_folder(cls, value: str) -> str:
        # The name is joined to the folder by every reader, so it must be nothing but a name.
        if not SHARD_NAME.fullmatch(value):
            raise ValueError(f"shard name {value!r} is not of the form <split>-00000-of-00016.arrow")
        return value

    @classmethod
    def of(
        cls,
        info: ShardInfo,
        counters: Mapping[str, int] | None = None,
        rejects: Mapping[str, int] | None = None,
    ) -> ShardRecord:
        """Record of a shard that has just been written."""
        return cls(
            name=info.name,
            rows=info.rows,
            bytes=info.bytes,
            sha256=info.sha256,
            counters=dict(counters or {}),
            rejects=dict(rejects or {}),
        )


class SplitRecord(_Model):
    """One split: its shards in order and their totals."""

    shards: list[ShardRecord]
    rows: _Count
    rejects: dict[str, _Count] = {}
    counters: dict[str, int] = {}
    sets: dict[str, list[str]] = {}
    """Small sets of strings met in the data, sorted: `labels`, `deprels`."""

    @classmethod
    def of(
        cls, shards: Iterable[ShardRecord], sets: Mapping[str, Iterable[str]] | None = None
    ) -> SplitRecord:
        """The split that `shards` make up, with totals summed."""
        shards = list(shards)
        rejects: Counter[str] = Counter()
        counters: Counter[str] = Counter()
        for shard in shards:
            rejects.update(shard.rejects)
            counters.update(shard.counters)
        rows = sum(shard.rows for shard in shards)
        return cls(
            shards=shards,
            rows=rows,
            rejects=dict(rejects),
            counters=dict(counters),
            sets={kind: sorted(values) for kind, values in (sets or {}).items()},
        )


class Manifest(_Model):
    """Everything a finished folder holds. All but `manifest_version` comes from the run."""

    manifest_version: int = MANIFEST_VERSION
    stage: Literal["annotate", "encode"]
    task: Task
    config_fingerprint: str
    splits: dict[str, SplitRecord]
    identities: dict[str, JsonValue] = {}
    """Name, version and content hash of parser, segmenter, tokenizer, graph, ..."""
    versions: dict[str, str] = {}
    """Versions of the packages that shape the data."""
    inputs: list[dict[str, JsonValue]] = []
    """The raw files, as the config names them."""
    settings: dict[str, JsonValue] = {}
    """The settings that shaped the data, by dotted config key, defaults filled in; empty where an earlier
    release did not record them."""

    @model_validator(mode="after")
    def _shards_belong(self) -> Manifest:
        seen = set()
        for split, record in self.splits.items():
            for shard in record.shards:
                if shard.name in seen:
                    raise ValueError(f"shard {shard.name} is listed twice")
                seen.add(shard.name)
                if not shard.name.startswith(f"{split}-") or "-" in split:
                    raise ValueError(f"shard {shard.name} is listed under split {split!r}")
        return self

    @property
    def rejects(self) -> Counter[str]:
        """Rejects of all splits, by reason."""
        return sum((Counter(split.rejects) for split in self.splits.values()), Counter())

    @property
    def rows(self) -> int:
        """Rows of all splits."""
        return sum(split.rows for split in self.splits.values())


def write_manifest(folder: str, manifest: Manifest) -> None:
    """Write `folder`/manifest.json atomically; equal manifests give equal bytes."""
    body = _sorted(manifest.model_dump(mode="json"))
    body["splits"] = {name: body["splits"][name] for name in manifest.splits}  # in the config's order
    with files.write_atomic(files.join(folder, MANIFEST)) as sink:
        sink.write(json.dumps(body, indent=1, ensure_ascii=False).encode("utf-8") + b"\n")


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def read_manifest(folder: str) -> Manifest:
    """The manifest of a finished folder. Raises ManifestError."""
    path = files.join(folder, MANIFEST)
    if not files.exists(path):
        if not files.exists(folder):
            raise ManifestError(f"{folder} does not exist; give the folder that a run wrote")
        raise ManifestError(
            f"{folder} has no {MANIFEST}: the run did not finish; run the same command again to continue"
        )
    try:
        body = json.loads(files.read_bytes(path).decode("utf-8"))
    except (ValueError, RecursionError, OSError) as error:  # bad JSON and bad UTF-8 are ValueErrors
        raise ManifestError(
            f"{path} cannot be read ({error}); run the pipeline again, with --overwrite"
        ) from error
    return parse_manifest(body, path)


def parse_manifest(body: Any, path: str) -> Manifest:
    """A manifest from parsed JSON; `path` is for messages. Raises ManifestError."""
    if not isinstance(body, dict) or "manifest_version" not in body:
        raise ManifestError(f"{path} is not a treegraft manifest: it has no 'manifest_version'")
    version = body["manifest_version"]
    if version != MANIFEST_VERSION or isinstance(version, bool):
        raise ManifestError(
            f"{path} has manifest version {version!r}, this release reads {MANIFEST_VERSION}; "
            "run the pipeline again (with --overwrite), or install the matching release"
        )
    try:
        return Manifest.model_validate(body)
    except ValidationError as error:
        lines = [
            f"  {'.'.join(str(p) for p in e['loc']) or 'manifest'}: {e['msg'].removeprefix('Value error, ')}"
            for e in error.errors()[:5]
        ]
        raise ManifestError(f"{path} is damaged or was edited:\n" + "\n".join(lines)) from error
