"""Blocks, records, resume: what must hold whoever dies, and whatever the runner."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipelines import runners
from pipelines.engine import Run, RunError, discard
from pipelines.runners import execute
from tests.pipelines.upper_stage import Upper, blocks_of, drive, write_source

ROOT = Path(__file__).parents[2]


def content(out: Path) -> dict[str, bytes]:
    """Every file of a finished folder, but for the plan and the lock."""
    return {
        str(p.relative_to(out)): p.read_bytes()
        for p in sorted(out.rglob("*"))
        if p.is_file() and p.parent.name != "_work"
    }


def start(
    source: Path, out: Path, *, workers: int = 2, runner: str = "local", seconds: float = 0.0
) -> subprocess.Popen:
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.pipelines.upper_stage",
            source,
            out,
            str(workers),
            runner,
            str(seconds),
        ],
        cwd=ROOT,
        env={**os.environ, "TREEGRAFT_SMALL_BYTES": "0"},
        start_new_session=True,
    )


@pytest.fixture(autouse=True)
def always_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work as small as here would otherwise stay in the driver."""
    monkeypatch.setattr(runners, "_SMALL_BYTES", 0)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_source(tmp_path_factory.mktemp("source") / "lines.txt", 200)


@pytest.fixture(scope="module")
def expected(source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("expected") / "out"
    drive(source, out, Upper(), workers=1)
    return content(out)


def test_rows_and_rejects_are_all_there(expected: dict[str, bytes]) -> None:
    manifest = json.loads(expected["manifest.json"])
    split = manifest["splits"]["train"]
    assert len(split["shards"]) == 200
    assert split["counters"]["records"] == 1200 == split["rows"] + split["rejects"]["bad"]
    assert split["sets"]["labels"] == ["r"]
    lines = sum(v.count(b"\n") for k, v in expected.items() if k.startswith("rejects/"))
    assert lines == split["rejects"]["bad"] == len([n for n in range(1200) if n % 17 == 3])


@pytest.mark.parametrize("workers", [2, pytest.param(4, marks=pytest.mark.heavy)])
def test_worker_count_changes_no_byte(
    source: Path, expected: dict[str, bytes], tmp_path: Path, workers: int
) -> None:
    drive(source, tmp_path / "out", Upper(), workers=workers)
    assert content(tmp_path / "out") == expected


@pytest.mark.parametrize("runner", ["FnApiRunner", "BundleBasedDirectRunner"])
def test_another_beam_runner_gives_the_same_bytes(
    source: Path, expected: dict[str, bytes], tmp_path: Path, runner: str
) -> None:
    drive(source, tmp_path / "out", Upper(), runner=runner)
    assert content(tmp_path / "out") == expected


def test_models_are_loaded_once_a_process(source: Path, tmp_path: Path) -> None:
    """C34: 200 blocks in many small pipelines, two processes, two loads."""
    assert start(source, tmp_path / "out").wait() == 0
    lines = (tmp_path / "out.log").read_text().split("\n")
    assert lines.count("setup") == 2
    assert sorted(set(lines) - {"setup", ""}) == sorted(b.shard_name for b in blocks_of(source))


def test_killed_at_random_moments_a_rerun_finishes_and_redoes_nothing(
    source: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    """C23: kill -9 of the whole process group, again and again, in one folder."""
    out, log, dice = tmp_path / "out", tmp_path / "out.log", random.Random(7)
    killed = 0
    for _ in range(3):
        process = start(source, out, seconds=0.05)
        time.sleep(2.5 + dice.random() * 2.0)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            killed += 1
        process.wait()
        recorded = {p.stem for p in (out / "_work").glob("train-*.json")}
        before = log.read_text().split("\n") if log.exists() else []
        if (out / "manifest.json").exists():
            break
        log.write_text("")
        redone = {name for name in before if name.endswith(".arrow")}
        assert not redone & getattr(start, "recorded", set()), "a recorded block was processed again"
        start.recorded = {f"{name}.arrow" for name in recorded}  # type: ignore[attr-defined]
    start.recorded = set()  # type: ignore[attr-defined]
    assert killed >= 1
    assert start(source, out).wait() == 0
    assert content(out) == expected


def test_a_failing_worker_leaves_finished_blocks(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = Run(Upper(), blocks_of(source)[:10], str(out))
    run.prepare()
    (tmp_path / "gone.txt").write_text("x")
    broken = [*blocks_of(source)[:5], *blocks_of(tmp_path / "gone.txt")]
    (tmp_path / "gone.txt").unlink()
    with pytest.raises(RunError, match=r"train-00000-of-00001.arrow \(gone.txt\): .*No such file"):
        execute(Run(Upper(), broken, str(out)), workers=1)
    assert [p.name for p in sorted(out.glob("*.arrow"))] == [b.shard_name for b in blocks_of(source)[:5]]
    assert not list(out.glob(".tmp*"))
    with pytest.raises(RunError, match="run the same command again"):
        run.collect()


def test_an_unfinished_run_of_another_kind_is_not_mixed_in(source: Path, tmp_path: Path) -> None:
    Run(Upper(), blocks_of(source), str(tmp_path), [{"path": "a", "size": 1, "modified": 1.0}]).prepare()
    changed = Run(Upper(), blocks_of(source), str(tmp_path), [{"path": "a", "size": 1, "modified": 2.0}])
    with pytest.raises(RunError, match="--overwrite"):
        changed.prepare()
    discard(str(tmp_path))
    changed.prepare()


def test_discard_takes_only_what_a_run_wrote(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    drive(source, out, Upper(), workers=1)
    mine = [
        "notes.txt",
        "mine.arrow",
        ".tmp-mine",
        ".tmp-1/x",
        "rejects/mine.jsonl",
        "_work/mine.json",
        "_work/m.txt",
    ]
    for name in mine:
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_text("mine")
    (out / ".tmp-host-1-2-train-00000-of-00001.arrow").write_text("left by a run that died")
    discard(str(out))
    left = [str(p.relative_to(out)) for p in out.rglob("*") if p.is_file() and p.name != "lock"]
    assert sorted(left) == sorted(mine)
    drive(source, out, Upper(), workers=1)
    assert all((out / name).read_text() == "mine" for name in mine)


def test_shards_that_no_run_wrote_are_not_written_over(source: Path, tmp_path: Path) -> None:
    (tmp_path / "train-00000-of-00001.arrow").write_text("mine")
    with pytest.raises(RunError, match=r"train-00000-of-00001\.arrow.*--overwrite"):
        Run(Upper(), blocks_of(source), str(tmp_path)).prepare()


@pytest.mark.parametrize("record", [b"", b"{", b"{}", b"[1]", b"\xff", b'{"shard": {"name": "x"}}'])
def test_a_damaged_record_or_a_lost_shard_is_done_again(
    source: Path, tmp_path: Path, expected: dict[str, bytes], record: bytes
) -> None:
    out = tmp_path / "out"
    run = Run(Upper(), blocks_of(source), str(out))
    run.prepare()
    execute(run, workers=1)
    (out / "_work/train-00000-of-00200.json").write_bytes(record)
    (out / run.blocks[1].shard_name).unlink()
    (out / run.blocks[2].shard_name).write_bytes(b"cut")
    again = Run(Upper(), blocks_of(source), str(out))
    again.prepare()
    lost = {run.blocks[i].shard_name for i in (0, 1, 2)}
    assert {b.shard_name for b in again.pending()} == lost
    drive(source, out, Upper(), workers=1)
    assert content(out) == expected


@pytest.mark.parametrize(
    ("runner", "options", "message"),
    [
        ("DaskRunner", [], "not supported"),
        ("FnApiRunner", ["--direct_running_mode=multi_threading"], "loses data"),
        ("NoSuchRunner", [], "--runner NoSuchRunner"),
    ],
)
def test_unusable_runners_are_refused(
    source: Path, tmp_path: Path, runner: str, options: list[str], message: str
) -> None:
    run = Run(Upper(), blocks_of(source), str(tmp_path))
    run.prepare()
    with pytest.raises(RunError, match=message):
        execute(run, runner=runner, options=options)
