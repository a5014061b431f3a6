"""Runs that die: killed at random moments, or out of disk. The real command, both stages."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from corpora.shards import open_shard
from tests.integration.test_cli import SAMPLES, shards
from tests.warm import COMMAND

BLOCKS = 200
FORCED = {"TREEGRAFT_SMALL_BYTES": "0"}  # worker processes, however small the corpus


def many_blocks(folder: Path) -> Path:
    """A tagged corpus of some 200 blocks, a few rejects among them."""
    lines = (SAMPLES / "zh/ner.train.tsv").read_text(encoding="utf-8").split("\n")
    header, body = lines[0], [line for line in lines[1:] if line]
    with (folder / "train.tsv").open("w", encoding="utf-8") as out:
        out.write(header + "\n")
        for n in range(BLOCKS * 8):
            out.write((body[n % len(body)] if n % 97 else "甲 乙\tO") + "\n")
    config = yaml.safe_load((SAMPLES / "zh-ner.yaml").read_text(encoding="utf-8"))
    config["input"]["files"] = "train.tsv"
    config["encode"]["tokenizer"] = str(SAMPLES / "vocab.txt")
    config["encode"]["coarse"]["vocab"] = str(SAMPLES / "coarse_vocab.txt")
    config["graph"]["triples"] = str(SAMPLES / "graph.spo")
    config["run"] = {
        "block_bytes": (folder / "train.tsv").stat().st_size // BLOCKS,
        "max_reject_fraction": 0.05,
    }
    path = folder / "many.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return path


def start(config: Path, out: Path, log: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*COMMAND, "preprocess", str(config), "--out", str(out), "--workers", "2"],
        env={**os.environ, **FORCED},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=log.open("wb"),
    )


def state(out: Path) -> dict[Path, int]:
    """When each recorded block's shard was written."""
    found = {}
    for folder in (out, out / "annotated"):
        for record in (folder / "_work").glob("[!.]*-of-*.json"):  # not one that was being written
            shard = folder / f"{record.stem}.arrow"
            found[shard] = shard.stat().st_mtime_ns
    return found


@pytest.mark.heavy
def test_c23_killed_ten_times_each_rerun_redoes_only_what_was_not_recorded(tmp_path: Path) -> None:
    config, log = many_blocks(tmp_path), tmp_path / "log"
    began = time.monotonic()
    process = start(config, tmp_path / "expected", log)
    assert process.wait() == 0, log.read_text()
    seconds = time.monotonic() - began
    expected = shards(tmp_path / "expected")
    blocks = len([name for name in expected if name.startswith("train")])
    assert blocks >= BLOCKS
    dice, kills = random.Random(11), 0
    for attempt in range(10):
        out = tmp_path / "out"
        shutil.rmtree(out, ignore_errors=True)
        process = start(config, out, log)
        time.sleep(seconds * (0.15 + 0.8 * dice.random()))
        kills += process.poll() is None
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        before = state(out)
        again = start(config, out, log)
        assert again.wait() == 0, log.read_text()
        assert shards(out) == expected, f"attempt {attempt}"
        assert {p: p.stat().st_mtime_ns for p in before} == before, "a recorded block was written again"
        assert not list(out.rglob(".tmp*"))
        print(f"attempt {attempt}: {len(before)} of {2 * blocks} blocks were recorded when it was killed")
    assert kills >= 8


@pytest.mark.heavy
@pytest.mark.skipif(
    os.name != "posix" or os.geteuid() != 0, reason="mounting a small disk needs root on Linux"
)
def test_c23_a_full_disk_ends_with_the_path_and_nothing_half_written(tmp_path: Path) -> None:
    config, disk, log = many_blocks(tmp_path), tmp_path / "disk", tmp_path / "log"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk]).returncode:
        pytest.skip("this system does not allow mounting")
    try:
        assert start(config, disk / "out", log).wait() == 1
        said = log.read_text()
        assert "no space left for" in said, said
        assert str(disk) in said
        assert "Traceback" not in said
        assert not (disk / "out/manifest.json").exists()
        for shard in disk.rglob("*.arrow"):
            if shard.parent.name != "graph":
                open_shard(str(shard)).read_all()  # whole, or it would not have this name
        assert not list(disk.rglob(".tmp*"))
        subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
        assert start(config, disk / "out", log).wait() == 0, log.read_text()
        done = shards(disk / "out")
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
    assert start(config, tmp_path / "expected", log).wait() == 0
    assert done == shards(tmp_path / "expected")
    manifest = json.loads((tmp_path / "expected/manifest.json").read_text(encoding="utf-8"))
    assert manifest["splits"]["train"]["rows"] > 1000
