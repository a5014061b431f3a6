"""Graphs through the real command: from files or compiled, stopped, killed, shared."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import time
from pathlib import Path

import yaml

from kg.graph import KnowledgeGraph
from tests.integration.test_cli import SAMPLES, rows_of, shards, small_config
from tests.warm import COMMAND, treegraft

BUILD = {"fold": ["nfkc", "case", "simplified"], "max_object": 8}
PLAIN = {"annotate": {"parser": "none"}, "encode": {"columns": ["coarse", "tree"], "max_length": 64}}


def contents(folder: Path) -> dict[str, str]:
    """Hash of every file of a graph."""
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}


def with_graph(folder: Path, name: str, graph: dict[str, object]) -> Path:
    """The small corpus with this `graph` section, as a config of its own."""
    path = small_config(folder, **PLAIN)
    body = yaml.safe_load(path.read_text(encoding="utf-8"))
    body["graph"] = graph
    made = folder / f"{name}.yaml"
    made.write_text(yaml.safe_dump(body, allow_unicode=True, sort_keys=False), encoding="utf-8")
    return made


def test_files_and_a_compiled_graph_give_the_same_bytes_and_configs_share_it(tmp_path: Path) -> None:
    policy = {
        "depth": 2,
        "rank": "most_frequent",
        "min_mention_length": 1,
        "max_length": 128,
        "max_positions": 96,
    }
    files = with_graph(tmp_path, "files", {"triples": str(SAMPLES / "graph.spo"), "build": BUILD, **policy})
    one = with_graph(tmp_path, "one", {"compiled": "my.kg", **policy})
    two = with_graph(
        tmp_path,
        "two",
        {"compiled": "my.kg", **policy, "branches_per_row": 1, "exclude_predicates": ["没有"]},
    )
    flags = ["--fold", "nfkc", "--fold", "case", "--fold", "simplified", "--max-object", "8"]
    built = treegraft("kg", "build", SAMPLES / "graph.spo", "--out", "my.kg", *flags, cwd=tmp_path)
    assert built.returncode == 0, built.stderr
    for config in (files, one, two):
        done = treegraft("preprocess", config, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "verified: 60 rows" in done.stderr
        assert done.stderr.count("graph.exclude_predicates") == (config is two)  # said once
    out = tmp_path / "out"
    assert shards(out / "one") == shards(out / "files")
    assert contents(out / "one/graph") == contents(out / "files/graph") == contents(tmp_path / "my.kg")
    for name in ("one", "two"):
        assert (out / name / "graph/objects.npy").samefile(tmp_path / "my.kg/objects.npy")
    parents = [p for r in rows_of(out / "one", "train") for p in r["branch_parents"]]
    assert any(parents), "depth 2 does something here"
    most = max(len(r["branch_triples"]) for r in rows_of(out / "two", "train"))
    assert most == 1 < max(len(r["branch_triples"]) for r in rows_of(out / "one", "train"))

    again = treegraft("preprocess", one, cwd=tmp_path)
    assert again.stderr.count("already finished") == 2
    rebuilt = treegraft("kg", "build", SAMPLES / "graph.spo", "--out", "my.kg", cwd=tmp_path)
    assert rebuilt.returncode == 0
    refused = treegraft("preprocess", one, cwd=tmp_path)
    assert refused.returncode == 1 and "--overwrite" in refused.stderr
    verified = treegraft("verify", out / "one", cwd=tmp_path)
    assert verified.returncode == 0, verified.stdout


def test_killed_with_build_options_the_same_command_goes_on(tmp_path: Path) -> None:
    config = with_graph(tmp_path, "killed", {"triples": str(SAMPLES / "graph.spo"), "build": BUILD})
    done = treegraft("preprocess", config, "--out", "expected", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    process = subprocess.Popen(
        [*COMMAND, "preprocess", str(config), "--out", "out", "--workers", "1"],
        cwd=tmp_path,
        env={**os.environ, "TREEGRAFT_SMALL_BYTES": "0"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    work = tmp_path / "out/_work"
    deadline = time.monotonic() + 120
    while not list(work.glob("train-*.json")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = {p.name: p.stat().st_ino for p in (tmp_path / "out/graph").iterdir()}
    again = treegraft("preprocess", config, "--out", "out", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert shards(tmp_path / "out") == shards(tmp_path / "expected")
    assert {p.name: p.stat().st_ino for p in (tmp_path / "out/graph").iterdir()} == before, "compiled once"
    assert not list((tmp_path / "out").rglob(".tmp*"))


def test_a_build_stopped_by_the_keyboard_leaves_the_old_graph_alone(tmp_path: Path) -> None:
    small = tmp_path / "small.spo"
    small.write_text("甲\t类别\t乙\n", encoding="utf-8")
    assert treegraft("kg", "build", small, "--out", "my.kg", cwd=tmp_path).returncode == 0
    with (tmp_path / "large.spo").open("w", encoding="utf-8") as large:
        large.writelines(f"主{n}\t谓{n % 9}\t宾{n % 5003}\n" for n in range(800_000))
    process = subprocess.Popen(
        [*COMMAND, "kg", "build", "large.spo", "--out", "my.kg"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not list(tmp_path.glob(".tmp-*")) and process.poll() is None:
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert "nothing was written to my.kg" in said and "Traceback" not in said
    assert sorted(p.name for p in tmp_path.iterdir()) == ["large.spo", "my.kg", "small.spo"]
    assert KnowledgeGraph.open(tmp_path / "my.kg", check=True).info.triples == 1
