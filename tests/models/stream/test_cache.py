"""Remote shards: fetched once, checked, bounded; through `file://` and fsspec's `memory://`."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path

import fsspec
import numpy as np
import pytest

from corpora.manifest import ManifestError
from corpora.shards import ShardError
from models.stream.cache import Cache
from models.stream.loader import Loader
from models.stream.open import open_split
from models.stream.shards import SplitError
from tests.models.stream.test_shards import back, folder_of


@pytest.fixture
def remote(tmp_path: Path) -> tuple[str, list[int], list[dict[str, object]]]:
    """Address of a dataset of four shards, their sizes, and its rows."""
    folder, written = folder_of(tmp_path / "d", counts=(9, 9, 9, 9))
    shards = sorted(folder.glob("*.arrow"))
    return f"file://{folder}", [path.stat().st_size for path in shards], written


def kept(cache: Cache) -> list[Path]:
    return sorted(Path(cache.folder).iterdir())


def test_remote_rows_are_those_of_the_folder(remote: tuple, tmp_path: Path) -> None:
    uri, sizes, written = remote
    cache = Cache(str(tmp_path / "c"))
    split = open_split(uri, "train", tuple(written[0]), cache=cache)
    assert len(kept(cache)) == 1  # the first shard, for its schema; the others when their rows are asked for
    order = np.array([35, 0, 17, 18, 35])
    assert back(split.take(order)) == [written[index] for index in order]
    assert sum(path.stat().st_size for path in kept(cache)) == sum(sizes)
    for shard in Path(uri.removeprefix("file://")).glob("*.arrow"):
        shard.unlink()
    again = open_split(uri, "train", tuple(written[0]), cache=cache)  # all of it is here
    assert (
        back(again.take(order))
        == back(pickle.loads(pickle.dumps(split)).take(order))
        == back(split.take(order))
    )
    batches = [back(rows) for rows in Loader(again, 6, order="global", workers=2)]
    assert batches == [back(rows) for rows in Loader(again, 6, order="global")]


def test_the_cache_keeps_its_limit(remote: tuple, tmp_path: Path) -> None:
    uri, sizes, written = remote
    cache = Cache(str(tmp_path / "c"), limit=2 * max(sizes))
    split = open_split(uri, "train", tuple(written[0]), cache=cache)
    for start in (0, 9, 20, 27, 3, 30):
        rows = np.arange(start, start + 6)
        assert back(split.take(rows)) == written[start : start + 6]
        assert sum(path.stat().st_size for path in kept(cache)) <= cache.limit
    with pytest.raises(SplitError, match=r"4 shards .* read at once, more than the cache's limit"):
        split.take(np.array([0, 10, 20, 30]))
    with pytest.raises(ShardError, match="the cache's limit is 10: raise it"):
        open_split(uri, "train", cache=Cache(str(tmp_path / "e"), limit=10))


def test_a_shard_that_another_process_threw_out_is_fetched_again(remote: tuple, tmp_path: Path) -> None:
    uri, _, written = remote
    cache = Cache(str(tmp_path / "c"))
    split = open_split(uri, "train", tuple(written[0]), cache=cache)
    split.take(np.array([0, 30]))
    for path in kept(cache):
        path.unlink()
    assert back(split.take(np.array([1, 12, 31]))) == [written[1], written[12], written[31]]


def test_half_a_file_is_never_taken(remote: tuple, tmp_path: Path) -> None:
    uri, _, written = remote
    cache = Cache(str(tmp_path / "c"))
    open_split(uri, "train", cache=cache)
    (only,) = kept(cache)
    only.write_bytes(only.read_bytes()[:100])
    assert back(open_split(uri, "train", tuple(written[0]), cache=cache).take(np.array([2]))) == [written[2]]


def test_verify_throws_out_what_was_altered_in_the_cache(remote: tuple, tmp_path: Path) -> None:
    uri, _, written = remote
    cache = Cache(str(tmp_path / "c"))
    open_split(uri, "train", cache=cache).take(np.array([0, 30]))
    first, second = kept(cache)
    whole = first.read_bytes()
    middle = len(whole) // 2
    first.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    untouched = second.stat().st_ino
    split = open_split(uri, "train", tuple(written[0]), cache=cache, verify=True)
    assert back(split.take(np.array([0, 30]))) == [written[0], written[30]]
    assert first.read_bytes() == whole and second.stat().st_ino == untouched


def test_what_is_not_what_its_manifest_says_is_refused(remote: tuple, tmp_path: Path) -> None:
    uri, _, _ = remote
    folder = Path(uri.removeprefix("file://"))
    shard = sorted(folder.glob("*.arrow"))[0]
    whole = shard.read_bytes()
    for wrong in (whole[:-7], whole + b"x", whole[:50] + b"?" + whole[51:]):
        shard.write_bytes(wrong)
        cache = Cache(str(tmp_path / "c"))
        with pytest.raises(ShardError, match="is not the shard that its manifest describes"):
            open_split(uri, "train", cache=cache)
        assert kept(cache) == []
    shard.unlink()
    with pytest.raises(ShardError, match="is in the manifest, but there is no such file"):
        open_split(uri, "train", cache=Cache(str(tmp_path / "c")))
    (folder / "manifest.json").unlink()
    with pytest.raises(ManifestError, match=r"has no manifest.json: the address is wrong"):
        open_split(uri, "train")


def test_other_filesystems_come_through_fsspec(remote: tuple, tmp_path: Path) -> None:
    uri, _, written = remote
    memory = fsspec.filesystem("memory")
    for path in Path(uri.removeprefix("file://")).iterdir():
        memory.pipe(f"/set/{path.name}", path.read_bytes())
    split = open_split("memory://set", "train", tuple(written[0]), cache=Cache(str(tmp_path / "c")))
    assert back(split.take(np.array([33]))) == [written[33]]
    memory.pipe("/bad/manifest.json", json.dumps({"manifest_version": 9}).encode())
    with pytest.raises(ManifestError, match="manifest version 9"):
        open_split("memory://bad")
    memory.pipe("/bad/manifest.json", b"{")
    with pytest.raises(ManifestError, match="cannot be read"):
        open_split("memory://bad")


@pytest.mark.parametrize(
    ("module", "uri", "message"),
    [
        ("fsspec", "s3://b/x", "needs a package that is not here: pip install fsspec"),
        ("s3fs", "s3://b/x", "s3:// needs a package that is not here: pip install s3fs"),
        ("gcsfs", "gs://b/x", "gs:// needs a package that is not here: pip install gcsfs"),
        ("", "nosuch://b/x", "no filesystem is known for nosuch://"),
    ],
)
def test_a_missing_package_names_its_line(
    monkeypatch: pytest.MonkeyPatch, module: str, uri: str, message: str
) -> None:
    if module:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(OSError, match=message):
        open_split(uri, "train")
