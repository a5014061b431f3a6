from __future__ import annotations

import bz2
import errno
import gc
import gzip
import importlib.util
import os
import pickle
import resource
import shutil
import sys
import tracemalloc
from pathlib import Path

import pytest
import zstandard

from corpora import files

BODY = b"".join(b"line %d of a small corpus\n" % i for i in range(5000))
COMPRESS = {
    ".gz": lambda data: gzip.compress(data, mtime=0),
    ".bz2": bz2.compress,
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}


@pytest.fixture(params=COMPRESS)
def suffix(request: pytest.FixtureRequest) -> str:
    return request.param


def _read(path: Path) -> bytes:
    with files.open_decompressed(str(path)) as file:
        return file.read()


# --- decompression ----------------------------------------------------------------------------


def test_every_member_stream_and_frame_is_read(tmp_path: Path, suffix: str) -> None:
    compress = COMPRESS[suffix]
    path = tmp_path / f"a{suffix}"
    path.write_bytes(compress(BODY) + compress(b"") + compress(BODY))
    assert _read(path) == BODY * 2
    assert files.is_compressed(str(path)) and not files.is_compressed("a.tsv")


def test_empty_files_are_empty(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    for data in (b"", COMPRESS[suffix](b"")):
        path.write_bytes(data)
        assert _read(path) == b""


@pytest.mark.parametrize("lost", [1, 8, 20, -5])
def test_c22_truncated_file_names_itself_and_how_far_it_goes(tmp_path: Path, suffix: str, lost: int) -> None:
    path = tmp_path / f"a{suffix}"
    data = COMPRESS[suffix](BODY)
    path.write_bytes(data[:-lost])  # -5: nothing but the first bytes of the header
    with pytest.raises(files.CorruptFileError) as caught:
        _read(path)
    error = caught.value
    assert str(path) in str(error) and f"{error.byte:,} decompressed bytes" in str(error)
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.path, copy.byte, str(copy)) == (error.path, error.byte, str(error))


def test_c22_the_byte_reached_is_exact(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(BODY)[:-20])
    with gzip.open(path) as file, pytest.raises(EOFError):
        expected = 0
        while True:
            expected += len(file.read1(1))
    with pytest.raises(files.CorruptFileError) as caught:
        _read(path)
    assert caught.value.byte == expected and 70_000 < expected < len(BODY)


def test_truncation_in_a_second_member_is_seen(tmp_path: Path, suffix: str) -> None:
    data = COMPRESS[suffix](BODY)
    path = tmp_path / f"a{suffix}"
    for cut in (3, len(data) - 2):
        path.write_bytes(data + data[:cut])
        with pytest.raises(files.CorruptFileError) as caught:
            _read(path)
        assert caught.value.byte >= len(BODY)


def test_damage_is_seen(tmp_path: Path, suffix: str) -> None:
    data = bytearray(COMPRESS[suffix](BODY))
    data[len(data) // 2] ^= 0x55
    path = tmp_path / f"a{suffix}"
    path.write_bytes(bytes(data))
    with pytest.raises(files.CorruptFileError):
        _read(path)
    path.write_bytes(BODY)
    with pytest.raises(files.CorruptFileError):
        _read(path)


def test_a_bomb_is_read_in_bounded_memory(tmp_path: Path, suffix: str) -> None:
    size = 256 << 20
    path = tmp_path / f"a{suffix}"
    path.write_bytes(COMPRESS[suffix](b"\0" * size))
    tracemalloc.start()
    before = _peak_rss()
    with files.open_decompressed(str(path)) as file:
        total = 0
        while data := file.read(1 << 20):
            total += len(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == size
    assert peak < 16 << 20 and _peak_rss() - before < 64 << 20


def _peak_rss() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


# --- finding ----------------------------------------------------------------------------------


def test_expand_sorts_by_code_point_and_stays_relative(tmp_path: Path) -> None:
    for name in ("b.txt", "B.txt", "é.txt", "中.txt", "a10.txt", "a9.txt", ".hidden.txt", "x.tsv"):
        (tmp_path / name).write_bytes(b"1")
    found = files.expand("*.txt", str(tmp_path))
    assert [f.path for f in found] == ["B.txt", "a10.txt", "a9.txt", "b.txt", "é.txt", "中.txt"]
    assert found[0].size == 1 and found[0].modified > 0
    assert [f.path for f in files.expand(str(tmp_path / "a?.txt"))] == [str(tmp_path / "a9.txt")]
    (tmp_path / "deep/er").mkdir(parents=True)
    (tmp_path / "deep/er/z.txt").write_bytes(b"")
    assert "deep/er/z.txt" in [f.path for f in files.expand("**/*.txt", str(tmp_path))]
    assert len(files.expand("**", str(tmp_path))) == 8


def test_a_name_that_looks_like_a_glob_is_found(tmp_path: Path) -> None:
    root = tmp_path / "run[1]"
    root.mkdir()
    (root / "a[1].txt").write_bytes(b"")
    (root / "a1.txt").write_bytes(b"")
    assert [f.path for f in files.expand("a[1].txt", str(root))] == ["a[1].txt"]
    assert [f.path for f in files.expand("a*.txt", str(root))] == ["a1.txt", "a[1].txt"]


def test_expand_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no file matches 'no\*'"):
        files.expand("no*", str(tmp_path))
    (tmp_path / "folder").mkdir()
    for pattern in ("folder", "fold*", "folder/"):
        with pytest.raises(IsADirectoryError, match=r"folder/\*\.txt"):
            files.expand(pattern, str(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="regular file"):
        files.expand("pipe", str(tmp_path))
    bad = os.fsencode(tmp_path) + b"/\xff.txt"
    Path(os.fsdecode(bad)).write_bytes(b"")
    with pytest.raises(ValueError, match="not UTF-8"):
        files.expand("*.txt", str(tmp_path))


def test_join_and_names(tmp_path: Path) -> None:
    assert files.join("gs://b/c/", "d") == "gs://b/c/d"
    assert files.join("/a", "gs://b") == "gs://b" and files.join("/a", "/b") == "/b"
    assert files.join("", "b") == "b" and files.join("/a", "../b") == "/a/../b"
    assert files.is_uri("s3://b") and not files.is_uri("C:/x") and not files.is_uri("a/b://c")
    assert files.list_names(str(tmp_path / "none")) == []
    (tmp_path / "b").mkdir()
    (tmp_path / "a").write_bytes(b"xy")
    assert files.list_names(str(tmp_path)) == ["a", "b"]
    assert files.read_bytes(str(tmp_path / "a")) == b"xy"
    files.remove(str(tmp_path / "b"))
    files.remove(str(tmp_path / "a"))
    files.remove(str(tmp_path / "a"))
    assert not files.exists(str(tmp_path / "b")) and files.list_names(str(tmp_path)) == []
    files.make_dirs(str(tmp_path / "x/y"))
    files.make_dirs(str(tmp_path / "x/y"))
    assert files.exists(str(tmp_path / "x/y"))


# --- atomic writing ---------------------------------------------------------------------------


def test_the_name_appears_only_when_all_is_written(tmp_path: Path) -> None:
    path = tmp_path / "shard.arrow"
    path.write_bytes(b"old")
    with files.write_atomic(str(path)) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
        names = files.list_names(str(tmp_path))
        assert len(names) == 2 and names[0].startswith(".tmp-") and names[0].endswith("-shard.arrow")
    assert path.read_bytes() == b"new" and files.list_names(str(tmp_path)) == ["shard.arrow"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_failed_write_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "shard.arrow"
    with pytest.raises(error), files.write_atomic(str(path)) as file:
        file.write(b"half")
        raise error
    assert files.list_names(str(tmp_path)) == []


def test_two_writers_of_one_name_do_not_meet(tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    with files.write_atomic(path) as first, files.write_atomic(path) as second:
        first.write(b"1")
        second.write(b"2")
    assert files.read_bytes(path) == b"1"


def test_c23_a_full_disk_says_where_and_how_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    path = tmp_path / "shard.arrow"
    with (
        pytest.raises(
            OSError, match=r"no space left for .*shard\.arrow after 1,234 bytes; [\d,]+ bytes are free"
        ) as caught,
        files.write_atomic(str(path)) as file,
    ):
        file.write(b"x" * 1234)
    assert caught.value.errno == errno.ENOSPC and caught.value.filename == str(path)
    assert files.list_names(str(tmp_path)) == []


def test_an_error_of_writing_names_the_file(tmp_path: Path) -> None:
    """The system does not: a full disk is told of as the file's bytes are flushed."""
    path = tmp_path / "a.json"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError, match=f"File too large: '{path}'"), files.write_atomic(str(path)) as file:
            file.write(b"x" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.iterdir())


def test_temporaries_of_the_dead_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".tmp-host-1-0-a").write_bytes(b"x")
    (tmp_path / "a").write_bytes(b"x")
    assert files.remove_temporaries(str(tmp_path)) == [".tmp-host-1-0-a"]
    assert files.list_names(str(tmp_path)) == ["a"]


# --- another filesystem -----------------------------------------------------------------------


@pytest.fixture
def remote(tmp_path: Path) -> str:
    """A filesystem of the scheme shelf://, registered with Beam as gs:// and hdfs:// are."""
    from apache_beam.io.filesystem import BeamIOError
    from apache_beam.io.localfilesystem import LocalFileSystem

    root = tmp_path / "shelf"
    root.mkdir()

    class Shelf(LocalFileSystem):
        """Local files under `root`, with the manners of an object store."""

        @classmethod
        def scheme(cls) -> str:
            return "shelf"

        def _local(self, path: str) -> str:
            return str(root / path.removeprefix("shelf://"))

        def join(self, base: str, *paths: str) -> str:
            return "/".join([base.rstrip("/"), *paths])

        def split(self, path: str) -> tuple[str, str]:
            head, _, tail = path.rpartition("/")
            return head, tail

        def mkdirs(self, path: str) -> None:
            super().mkdirs(self._local(path))

        def _list(self, path: str):
            from apache_beam.io.filesystem import FileMetadata

            base = self._local(path)
            for at in sorted(Path(base).rglob("*")) if Path(base).is_dir() else [Path(base)]:
                if at.is_file():
                    name = "shelf://" + str(at.relative_to(root))
                    yield FileMetadata(name, at.stat().st_size, at.stat().st_mtime)

        def metadata(self, path):
            return next(self._list(path)) if "://" in path else super().metadata(path)

        def create(self, path, mime_type="x", compression_type="auto"):
            return super().create(self._local(path), mime_type, compression_type)

        def open(self, path, mime_type="x", compression_type="auto"):
            return super().open(self._local(path), mime_type, compression_type)

        def rename(self, sources, targets):
            for source, target in zip(sources, targets, strict=True):
                if Path(self._local(target)).exists():
                    raise BeamIOError("target exists", {(source, target): "exists"})
                Path(self._local(source)).rename(self._local(target))

        def exists(self, path):
            return Path(self._local(path)).exists()

        def delete(self, paths):
            super().delete([self._local(p) for p in paths])

    yield "shelf://bucket"
    del Shelf
    gc.collect()  # Beam finds filesystems among the classes that are alive
    shutil.rmtree(root)


def test_uris_go_through_beam(remote: str) -> None:
    files.make_dirs(f"{remote}/in")
    for name, data in (("b.txt", b"bb"), ("a.txt.gz", gzip.compress(BODY))):
        for _ in range(2):  # the second write takes the place of the first
            with files.write_atomic(f"{remote}/in/{name}") as file:
                file.write(data)
    assert files.list_names(f"{remote}/in") == ["a.txt.gz", "b.txt"]
    assert [(f.path, f.size) for f in files.expand(f"{remote}/in/b*")] == [(f"{remote}/in/b.txt", 2)]
    assert files.read_bytes(f"{remote}/in/b.txt") == b"bb"
    with files.open_decompressed(f"{remote}/in/a.txt.gz") as file:
        assert file.read() == BODY
    with files.open_read(f"{remote}/in/b.txt") as file:
        file.seek(1)
        assert file.read() == b"b"
    with pytest.raises(RuntimeError), files.write_atomic(f"{remote}/in/c") as file:
        raise RuntimeError
    assert files.list_names(f"{remote}/in") == ["a.txt.gz", "b.txt"]
    with files.write_atomic(f"{remote}/in/t.gz") as file:
        file.write(gzip.compress(BODY)[:-20])
    with (
        pytest.raises(files.CorruptFileError, match="at least"),
        files.open_decompressed(f"{remote}/in/t.gz") as f,
    ):
        f.read()
    files.remove(f"{remote}/in/t.gz")
    files.remove(f"{remote}/in/t.gz")
    assert files.exists(f"{remote}/in/b.txt") and not files.exists(f"{remote}/in/t.gz")
    with pytest.raises(FileNotFoundError):
        files.expand(f"{remote}/in/none*")


def test_a_uri_without_beam_names_the_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apache_beam.io.filesystems", None)
    with pytest.raises(ImportError, match=r"pip install 'treegraft\[pipelines\]'"):
        files.exists("gs://bucket/a")


@pytest.mark.parametrize(
    ("uri", "module", "message"),
    [
        ("s3://b/x*.txt", "boto3", r"pip install 'apache-beam\[aws\]'"),
        ("gs://b/x.txt", "google.cloud.storage", r"pip install 'apache-beam\[gcp\]'"),
        ("hdfs://b/x.txt", "hdfs", r"pip install 'apache-beam\[hadoop\]'"),
        ("http://b/x.txt", "", r"no filesystem is known for http://; known are .*s3"),
    ],
)
def test_a_filesystem_that_is_not_installed_names_the_pip_line(
    uri: str, module: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == module else real(name))
    files._known_scheme.cache_clear()
    for ask in (files.expand, files.open_read, files.exists):
        with pytest.raises(OSError, match=message):
            ask(uri)
