"""What a compiled graph costs: seconds and memory to build, time to open, memory of one more process.

Every figure is taken in a process of its own. Memory is the most that was resident (`VmHWM`), and for
processes that share a graph what is theirs alone (`smaps_rollup`), while another process has the same
graph open and has read the same pages. Linux only.

`TREEGRAFT_BENCH_TRIPLES` names files of triples to build beside the made ones of 250,000 and a million triples
(`python -m tests.bench.graphs` makes larger ones).

Measured on a busy machine: 3 to 4 CPU s a million triples; at most 310 MB resident with a million triples,
1.7 GB with ten; opened in 1 to 10 ms; a further process has 4 MB of its own with a million, 16 MB with ten.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bench.graphs import write_graph

pytestmark = [
    pytest.mark.bench,
    pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="reads Linux's /proc"),
]

BAR_MB = 100
"""What a further process may add."""
SIZES = {"250k": (75_000, 250_000), "1M": (300_000, 1_000_000)}

MEMORY = """
import json, re, sys, time
from pathlib import Path
def kilobytes(file, *names):
    text = Path(f"/proc/self/{file}").read_text()
    return sum(int(re.search(rf"^{name}:\\s+(\\d+) kB", text, re.M)[1]) for name in names)
def private():
    return kilobytes("smaps_rollup", "Private_Clean", "Private_Dirty")
"""

BUILD = (
    MEMORY
    + """
from kg import compile_graph
triples, out = sys.argv[1:]
before = kilobytes("status", "VmHWM")
cpu, wall = time.process_time(), time.perf_counter()
info = compile_graph([triples], Path(out))
print(json.dumps({
    "cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall, "triples": info.triples,
    "subjects": info.subjects, "peak": kilobytes("status", "VmHWM"), "before": before,
    "bytes": sum(file.stat().st_size for file in Path(out).iterdir()),
}))
"""
)

USE = (
    MEMORY
    + """
import numpy as np
from kg import GraftPolicy, KnowledgeGraph, TreeBuilder, Trunks
folder, texts = sys.argv[1], Path(sys.argv[2]).read_text(encoding="utf-8").split("\\n")[1:]
def characters(strings):
    flat = np.frombuffer("".join(strings).encode("utf-32-le"), np.uint32).astype(np.int32)
    return flat, np.cumsum([0, *map(len, strings)])
def trunks(strings):
    ids, offsets = characters(strings)
    starts = (np.arange(len(ids)) - np.repeat(offsets[:-1], np.diff(offsets))).astype(np.int32)
    nothing = np.zeros(len(ids), np.int8)
    return Trunks(offsets, ids, nothing, starts, starts + 1, nothing.astype(bool), (strings, [None] * len(strings)))
texts = [text[:200] for text in texts]
before = private()
wall = time.perf_counter()
graph = KnowledgeGraph.open(Path(folder))
opened, after_open = time.perf_counter() - wall, private()
builder = TreeBuilder(graph, GraftPolicy(max_length=512, max_positions=512), characters)
branches = sum(builder.build(trunks(texts[i:i + 500])).counters["branches"] for i in range(0, len(texts), 500))
print(json.dumps({
    "opened": opened, "before": before, "after_open": after_open, "used": private(), "branches": branches,
}), flush=True)
sys.stdin.read()  # stays, with its pages, until it is told to go
"""
)


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files of triples by name, smallest first."""
    folder = tmp_path_factory.mktemp("triples")
    found = {}
    for name, (subjects, triples) in SIZES.items():
        found[name] = folder / f"{name}.spo"
        write_graph(found[name], subjects, triples)
    given = [Path(path) for path in os.environ.get("TREEGRAFT_BENCH_TRIPLES", "").split(os.pathsep) if path]
    return found | {path.stem: path for path in given}


def test_build_open_and_share(graphs: dict[str, Path], real_data: Path, tmp_path: Path) -> None:
    for name, triples in graphs.items():
        folder = tmp_path / f"{name}.kg"
        built = json.loads(
            subprocess.run(command(BUILD, triples, folder), stdout=subprocess.PIPE, check=True).stdout
        )
        millions = built["triples"] / 1e6
        print(
            f"\nbuild {name}: {built['cpu'] / millions:.1f} CPU s a million triples ({built['wall']:.1f} s for "
            f"{built['triples']:,} of {built['subjects']:,} subjects), peak {built['peak'] / 1e3:,.0f} MB "
            f"({built['before'] / 1e3:,.0f} before), folder {built['bytes'] / 1e6:,.0f} MB"
        )
        first, second = shared(folder, real_data / "kbert/chnsenticorp/train.tsv")
        added = (second["used"] - second["before"]) / 1e3
        print(
            f"open {name}: {second['opened'] * 1e3:.1f} ms (the first process {first['opened'] * 1e3:.1f}); one more process: "
            f"{(second['after_open'] - second['before']) / 1e3:.1f} MB of its own to open, {added:.1f} MB after "
            f"{second['branches']:,} branches, caches and all"
        )
        assert second["branches"] == first["branches"] > 0
        assert added < BAR_MB


def command(script: str, *arguments: Path) -> list[str]:
    return [sys.executable, "-c", script, *map(str, arguments)]


def shared(folder: Path, texts: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the first process, and one beside it, say of themselves."""
    running = []
    reports = []
    try:
        for _ in range(2):
            process = subprocess.Popen(
                command(USE, folder, texts), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            running.append(process)
            assert process.stdout
            reports.append(json.loads(process.stdout.readline()))
    finally:
        for process in running:
            process.communicate()
    return reports[0], reports[1]
