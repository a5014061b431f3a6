"""Remote shards, fetched when they are needed into a local folder of bounded size.

A file in the folder is named by the hash of its bytes and gets its name only when it is whole and the hash
is right, so nothing in it can be stale or half written, and processes, runs and datasets may share one
folder without a word to each other: whoever finds a shard gone fetches it again.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corpora import files
from corpora.manifest import MANIFEST, Manifest, ManifestError, ShardRecord, parse_manifest
from corpora.shards import ShardError, check_shard

DEFAULT_LIMIT = 20 * 2**30
_PACKAGES = {
    "s3": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "hf": "huggingface_hub",
    "az": "adlfs",
    "abfs": "adlfs",
}
_ABANDONED = 24 * 3600
"""Seconds after which a file that is still being written belongs to a process that died."""


def _default_folder() -> str:
    return str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "treegraft" / "shards")


@dataclass(frozen=True)
class Cache:
    """Where remote shards are kept.

    Attributes:
        folder: a local folder, made when it is needed.
        limit: bytes that the shards in it may take; those used longest ago make room.
        options: passed to the filesystem (fsspec's `storage_options`): endpoints, `anon`, ...
    """

    folder: str = field(default_factory=_default_folder)
    limit: int = DEFAULT_LIMIT
    options: dict[str, Any] = field(default_factory=dict)

    def manifest(self, folder: str) -> Manifest:
        """The manifest of a remote dataset; ManifestError where there is none or it is foreign."""
        path = files.join(folder, MANIFEST)
        system, inner = self._system(path)
        try:
            body = json.loads(system.cat_file(inner).decode("utf-8"))
        except FileNotFoundError:
            raise ManifestError(
                f"{folder} has no {MANIFEST}: the address is wrong, or the run that writes there did not finish"
            ) from None
        except (ValueError, RecursionError) as error:
            raise ManifestError(
                f"{path} cannot be read ({error}); run the pipeline again, with --overwrite"
            ) from error
        return parse_manifest(body, path)

    def fetch(self, uri: str, record: ShardRecord) -> str:
        """Local path of a shard whose bytes have the hash that its manifest gives.

        Raises:
            ShardError: the shard is gone, other bytes than the manifest says, or larger than the limit.
            OSError: as the filesystem says.
        """
        target = self._place(record)
        with suppress(FileNotFoundError):
            if target.stat().st_size == record.bytes:
                os.utime(target)  # used now: the last to make room
                return str(target)
        if record.bytes > self.limit:
            raise ShardError(
                f"{uri} has {record.bytes:,} bytes, the cache's limit is {self.limit:,}: raise it"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        self._make_room(record.bytes)
        system, inner = self._system(uri)
        digest, size = hashlib.sha256(), 0
        try:
            with system.open(inner, "rb") as source, files.write_atomic(str(target)) as sink:
                while size <= record.bytes and (data := source.read(1 << 20)):
                    digest.update(data)
                    size += len(data)
                    sink.write(data)
                if (size, digest.hexdigest()) != (record.bytes, record.sha256):
                    raise ShardError(
                        f"{uri} is not the shard that its manifest describes ({size:,} bytes read, {record.bytes:,} "
                        "expected, or another hash): it was changed or cut after it was written"
                    )
        except FileNotFoundError as error:
            raise ShardError(f"{uri} is in the manifest, but there is no such file") from error
        return str(target)

    def verify(self, record: ShardRecord) -> None:
        """Throw a shard out if it is here and its bytes are no longer those that the manifest describes."""
        target = self._place(record)
        with suppress(FileNotFoundError):
            try:
                check_shard(str(target), record.sha256)
            except ShardError:
                target.unlink()

    def _place(self, record: ShardRecord) -> Path:
        return Path(self.folder) / f"{record.sha256}.arrow"

    def _make_room(self, needed: int) -> None:
        found = []
        for path in Path(self.folder).iterdir():
            with suppress(FileNotFoundError):  # another process may be making room as well
                info = path.stat()
                if path.name.startswith(files.TEMPORARY):
                    if info.st_mtime < time.time() - _ABANDONED:
                        path.unlink()
                elif path.suffix == ".arrow":
                    found.append((info.st_mtime, path, info.st_size))
        over = sum(size for _, _, size in found) + needed - self.limit
        for _, path, size in sorted(found):
            if over <= 0:
                break
            path.unlink(missing_ok=True)  # whoever has it mapped keeps it until they are done
            over -= size

    def _system(self, uri: str) -> tuple[Any, str]:
        scheme = uri.partition("://")[0].lower()
        try:
            import fsspec
        except ImportError:
            raise OSError(
                f"{uri} is not local and needs a package that is not here: pip install fsspec"
            ) from None
        try:
            return fsspec.core.url_to_fs(uri, **self.options)
        except ImportError as error:
            package = _PACKAGES.get(scheme)
            what = f"a package that is not here: pip install {package}" if package else f"more: {error}"
            raise OSError(f"{scheme}:// needs {what}") from None
        except ValueError as error:
            raise OSError(f"no filesystem is known for {scheme}:// ({error})") from None
