"""Where bytes live: the only module that opens, lists, renames or removes files.

Local paths go through plain Python. Paths with a scheme (`gs://`, `s3://`, `hdfs://`) go through
Beam's FileSystems, imported when the first such path is met. Decompression never holds more than
a buffer, whatever a file blows up to, reads every member, stream or frame, and takes nothing
for the end that is not one. gzip and Zstandard are Arrow's (the zstandard package's streams end
quietly where a file is cut off); bzip2 is Python's (Arrow's fails on an empty stream among others).
"""

from __future__ import annotations

import bz2
import errno
import functools
import glob
import importlib.util
import io
import itertools
import os
import platform
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

import pyarrow as pa

URI = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")
TEMPORARY = ".tmp-"
"""Start of the name of every file that is being written."""

_TEMPORARY_NAME = re.compile(re.escape(TEMPORARY) + r"(?:[A-Za-z0-9]+-)?\d+-\d+-.+", re.DOTALL)
"""`.tmp-<host>-<pid>-<n>-<name>`; folders of graphs have no host."""

_CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_BEAM_EXTRAS = {
    "gs": ("gcp", "google.cloud.storage"),
    "s3": ("aws", "boto3"),
    "hdfs": ("hadoop", "hdfs"),
    "azfs": ("azure", "azure.storage.blob"),
}
"""Scheme to Beam's extra that brings it, and a module that comes with it."""
_OUT_OF_SPACE = {errno.ENOSPC, errno.EDQUOT}
_counter = itertools.count()


class CorruptFileError(ValueError):
    """A compressed file that ends early or holds damaged data.

    `byte` is the number of decompressed bytes that could be read before the damage.
    """

    def __init__(self, path: str, byte: int, cause: str, *, exact: bool = True) -> None:
        self.path, self.byte, self.cause, self.exact = path, byte, cause, exact
        count = f"{'' if exact else 'at least '}{byte:,}"
        super().__init__(
            f"{path} is truncated or damaged: {count} decompressed bytes could be read, then: {cause}. "
            "Fetch or make the file again; nothing of it should be trusted."
        )

    def __reduce__(self) -> tuple[Any, ...]:  # crosses process boundaries when a worker fails
        return _corrupt, (self.path, self.byte, self.cause, self.exact)


def _corrupt(path: str, byte: int, cause: str, exact: bool) -> CorruptFileError:
    return CorruptFileError(path, byte, cause, exact=exact)


@dataclass(frozen=True)
class FileInfo:
    """A file that exists: its path, size in bytes, and time of last change in seconds since 1970."""

    path: str
    size: int
    modified: float


def is_uri(path: str) -> bool:
    """Whether `path` names another filesystem by a scheme."""
    return URI.match(path) is not None


def join(base: str, name: str) -> str:
    """`name` under the folder `base`; an absolute `name` or a URI stands for itself."""
    if is_uri(name) or Path(name).is_absolute() or not base:
        return name
    return f"{base.rstrip('/')}/{name}" if is_uri(base) else os.path.join(base, name)  # noqa: PTH118


def _remote(path: str) -> Any:
    try:
        from apache_beam.io.filesystems import FileSystems
    except ImportError:
        raise ImportError(
            f"{path!r} is not a local path and needs Beam: pip install 'treegraft[pipelines]'"
        ) from None
    _known_scheme(path.partition("://")[0])
    return FileSystems


@functools.cache
def _known_scheme(scheme: str) -> None:
    """OSError for a filesystem that Beam does not know, or only with a package that is missing."""
    from apache_beam.io.filesystem import FileSystem

    extra, module = _BEAM_EXTRAS.get(scheme, ("", ""))
    try:
        missing = bool(extra) and importlib.util.find_spec(module) is None
    except ModuleNotFoundError:  # of a package around it
        missing = True
    if missing:
        raise OSError(f"{scheme}:// needs a package that is not here: pip install 'apache-beam[{extra}]'")
    known = {system.scheme() for system in FileSystem.get_all_subclasses()} | _BEAM_EXTRAS.keys()
    if scheme not in known:
        shown = ", ".join(sorted(name for name in known if name))
        raise OSError(f"no filesystem is known for {scheme}://; known are {shown}, and local paths")


# --- finding ----------------------------------------------------------------------------------


def expand(pattern: str, root: str = "") -> list[FileInfo]:
    """The files that a path, glob (`*`, `?`, `[...]`, `**`) or URI pattern names, sorted by path.

    A relative local pattern counts from `root`, and its paths come back relative to it, as the
    pattern was written. A file whose very name looks like a glob is found by that name.

    Raises:
        FileNotFoundError: nothing matches.
        IsADirectoryError: a folder matches; the message gives the pattern to write instead.
        ValueError: what matches is no regular file, or its name is not valid Unicode.
    """
    found = _expand_remote(pattern) if is_uri(pattern) else _expand_local(pattern, root)
    if not found:
        where = f" (from the folder {root})" if root and not is_uri(pattern) else ""
        raise FileNotFoundError(errno.ENOENT, f"no file matches {pattern!r}{where}")
    return sorted(found, key=lambda f: f.path)


def _expand_local(pattern: str, root: str) -> list[FileInfo]:
    if Path(join(root, pattern)).exists():
        names = [pattern]
    else:
        names = glob.glob(pattern, root_dir=root or None, recursive=True)  # noqa: PTH207
    found = []
    for name in dict.fromkeys(names):  # `**` can meet a file twice
        info = os.stat(join(root, name))  # noqa: PTH116
        if stat.S_ISDIR(info.st_mode):
            if Path(pattern).name == "**":  # matches the folders it goes through, too
                continue
            folder = name.rstrip("/")
            raise IsADirectoryError(
                errno.EISDIR,
                f"{folder!r} is a folder (found by {pattern!r}); name its files, "
                f"such as {folder + '/*.txt'!r} or {folder + '/**/*.txt'!r}",
            )
        if not stat.S_ISREG(info.st_mode):
            raise ValueError(f"{name!r} (found by {pattern!r}) is not a regular file")
        try:
            name.encode()
        except UnicodeEncodeError:
            raise ValueError(
                f"the file name {os.fsencode(name)!r} is not UTF-8 and cannot stand in ids; rename the file"
            ) from None
        found.append(FileInfo(name, info.st_size, info.st_mtime))
    return found


def _expand_remote(pattern: str) -> list[FileInfo]:
    result = _remote(pattern).match([pattern])[0]
    return [
        FileInfo(m.path, m.size_in_bytes, float(m.last_updated_in_seconds or 0)) for m in result.metadata_list
    ]


def exists(path: str) -> bool:
    """Whether a file (or, locally, a folder) of this name exists."""
    return bool(_remote(path).exists(path)) if is_uri(path) else Path(path).exists()


def list_names(folder: str) -> list[str]:
    """Names of the files and folders directly in `folder`, sorted; [] where the folder is missing.

    On an object store folders are only prefixes, and only the files come back.
    """
    if not is_uri(folder):
        with suppress(FileNotFoundError):
            return sorted(p.name for p in Path(folder).iterdir())
        return []
    base = folder.rstrip("/") + "/"
    paths = (m.path for m in _remote(folder).match([base + "*"])[0].metadata_list)
    return sorted(p[len(base) :] for p in paths if p.startswith(base) and "/" not in p[len(base) :])


# --- reading ----------------------------------------------------------------------------------


def is_compressed(path: str) -> bool:
    """Whether the name says gzip (.gz), bzip2 (.bz2) or Zstandard (.zst)."""
    return Path(path).suffix.lower() in _CODECS


def open_read(path: str) -> BinaryIO:
    """The file's stored bytes, seekable where the filesystem can."""
    if not is_uri(path):
        return Path(path).open("rb")
    from apache_beam.io.filesystem import CompressionTypes

    return cast(BinaryIO, _remote(path).open(path, compression_type=CompressionTypes.UNCOMPRESSED))


def open_decompressed(path: str) -> BinaryIO:
    """The file's content as a forward stream, decompressed where its name says so.

    Reads of a truncated or damaged file raise CorruptFileError; bytes after the last gzip member,
    bzip2 stream or Zstandard frame count as damage. A file of no bytes at all is empty.
    """
    codec = _CODECS.get(Path(path).suffix.lower())
    if codec is None:
        return open_read(path)
    return cast(BinaryIO, io.BufferedReader(_Decompressed(path, codec), 1 << 18))


class _Decompressed(io.RawIOBase):
    def __init__(self, path: str, codec: str) -> None:
        self._path, self._codec, self._at = path, codec, 0
        self._file = open_read(path)
        self._stream = _stream(self._file, codec)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        try:
            data = self._stream.read(len(view))
        except (OSError, pa.ArrowException) as error:
            self._fail(error, len(view))
        view[: len(data)] = data
        self._at += len(data)
        return len(data)

    def _fail(self, error: Exception, asked: int) -> NoReturn:
        """Say how far the data goes: the failed read lost what it had decompressed before the damage."""
        if is_uri(self._path):  # reading it all again could cost more than the last bytes are worth
            raise CorruptFileError(self._path, self._at, str(error), exact=False) from error
        reached = self._at
        with open_read(self._path) as file:
            stream = _stream(file, self._codec)
            with suppress(OSError, pa.ArrowException):
                left = self._at
                while left:
                    left -= len(stream.read(min(left, 1 << 18)))
                while reached < self._at + asked and stream.read(1):
                    reached += 1
        raise CorruptFileError(self._path, reached, str(error)) from error

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def _stream(file: BinaryIO, codec: str) -> Any:
    if codec == "bz2":
        return _Bzip2(file)
    return pa.CompressedInputStream(pa.PythonFile(file, mode="r"), codec)


class _Bzip2:
    """Successive bzip2 streams; raises OSError where the last one is cut off or followed by other bytes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._stream: bz2.BZ2Decompressor | None = None
        self._input = b""

    def read(self, size: int) -> bytes:
        """At most `size` bytes; none at the end."""
        while True:
            if self._stream is None or self._stream.needs_input:
                self._input = self._input or self._file.read(1 << 16)
                if not self._input:
                    if self._stream is None:
                        return b""
                    raise OSError("the last bzip2 stream is cut off")
            if self._stream is None:
                self._stream = bz2.BZ2Decompressor()
            data = self._stream.decompress(self._input, size)
            self._input = b""
            if self._stream.eof:
                self._input, self._stream = self._stream.unused_data, None
            if data:
                return data


def read_bytes(path: str) -> bytes:
    """The whole file as stored."""
    with open_read(path) as file:
        return file.read()


# --- writing ----------------------------------------------------------------------------------


def make_dirs(path: str) -> None:
    """Make a folder and its parents; none is needed to exist or to be missing."""
    if not is_uri(path):
        Path(path).mkdir(parents=True, exist_ok=True)
    elif not _remote(path).exists(path):
        # Some filesystems raise where the folder came to be in between, object stores do nothing.
        with suppress(OSError):
            _remote(path).mkdirs(path)


def remove(path: str) -> None:
    """Remove a file, or a folder with all in it; no error where there is none."""
    if is_uri(path):
        if _remote(path).exists(path):
            _remote(path).delete([path])
    elif Path(path).is_dir() and not Path(path).is_symlink():
        shutil.rmtree(path)
    else:
        Path(path).unlink(missing_ok=True)


@contextmanager
def naming(path: str) -> Iterator[None]:
    """An OSError in here that names no file, as those of writing and flushing, names this one."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = path
        raise


@contextmanager
def write_atomic(path: str) -> Iterator[BinaryIO]:
    """A file to write that gets its name only when the block ends without an error.

    Until then it is `.tmp-<host>-<pid>-<n>-<name>` in the same folder; local bytes are on the disk
    (fsync of file and folder) before the name is. On any error the temporary file is removed and a
    file that had the name before is still there, whole. On an object store the rename is a copy.

    Raises:
        OSError: as the filesystem says; where space ran out (ENOSPC, EDQUOT) the message says how
            much was written and how much is left.
    """
    folder, name = _split(path)
    host = re.sub(r"[^A-Za-z0-9]", "", platform.node())[:32] or "host"
    temporary = join(folder, f"{TEMPORARY}{host}-{os.getpid()}-{next(_counter)}-{name}")
    write = _write_remote if is_uri(path) else _write_local
    try:
        with naming(path), write(path, temporary) as file:
            yield file
    except OSError as error:
        if error.errno in _OUT_OF_SPACE:
            raise _out_of_space(error, path, folder) from error
        raise


@contextmanager
def _write_local(path: str, temporary: str) -> Iterator[BinaryIO]:
    try:
        with Path(temporary).open("xb", buffering=1 << 20) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)  # noqa: PTH105
    except BaseException as error:
        if isinstance(error, OSError) and error.errno in _OUT_OF_SPACE:
            with suppress(OSError):
                error.written = Path(temporary).stat().st_size  # type: ignore[attr-defined]
        Path(temporary).unlink(missing_ok=True)
        raise
    folder = os.open(Path(path).parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    except OSError as error:  # some network filesystems cannot sync a folder
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(folder)


@contextmanager
def _write_remote(path: str, temporary: str) -> Iterator[BinaryIO]:
    from apache_beam.io.filesystem import CompressionTypes

    systems = _remote(path)
    try:
        with systems.create(temporary, compression_type=CompressionTypes.UNCOMPRESSED) as file:
            yield cast(BinaryIO, file)
        if systems.exists(path):  # renaming onto an existing name is an error on some filesystems
            systems.delete([path])
        systems.rename([temporary], [path])
    except BaseException:
        with suppress(Exception):
            if systems.exists(temporary):
                systems.delete([temporary])
        raise


def _out_of_space(error: OSError, path: str, folder: str) -> OSError:
    written = getattr(error, "written", None)
    had = "" if written is None else f" after {written:,} bytes"
    left = ""
    if not is_uri(folder):
        with suppress(OSError):
            left = f"; {shutil.disk_usage(folder or '.').free:,} bytes are free there now"
    message = (
        f"no space left for {path}{had}{left}. Make room for the rest of the output and run again: "
        "what is finished is kept"
    )
    return OSError(error.errno, message, path)


def remove_temporaries(folder: str) -> list[str]:
    """Remove what writers that died left in `folder`; returns the names removed."""
    names = [n for n in list_names(folder) if is_temporary(n)]
    for name in names:
        remove(join(folder, name))
    return names


def is_temporary(name: str) -> bool:
    """Whether a file of this name is being written, or was when its writer died."""
    return _TEMPORARY_NAME.fullmatch(name) is not None


def _split(path: str) -> tuple[str, str]:
    folder, slash, name = path.rpartition("/")
    if not name:
        raise ValueError(f"{path!r} names no file")
    return (folder or slash), name
