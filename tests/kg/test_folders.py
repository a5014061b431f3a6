"""Where a graph is written: what stands there already is kept, links are followed, dead builds are cleared."""

from __future__ import annotations

import errno
import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kg import GraphError, KnowledgeGraph, compile_graph, store
from tests.kg.handmade import graph_of


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "a.spo"
    path.write_text("甲乙\t类\t丙\n", encoding="utf-8")
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


# --- what is not ours ---------------------------------------------------------------------------


@pytest.mark.parametrize("meta", ['{"name": "my project"}', "{", "[]", '{"format": "other"}', "[" * 100_000])
def test_a_meta_of_somebody_else_makes_no_graph(source: Path, tmp_path: Path, meta: str) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "meta.json").write_text(meta)
    with pytest.raises(GraphError, match="exists and is not a compiled graph; choose another output"):
        compile_graph([str(source)], project)
    (project / "src").mkdir()
    (project / "src/main.py").write_text("years of work")
    before = contents(project)
    with pytest.raises(GraphError, match="is not a compiled graph: it holds 'src'; choose another output"):
        compile_graph([str(source)], project)
    assert contents(project) == before


@pytest.mark.parametrize("entry", ["notes.txt", "objects.npy.bak", ".hidden", "zz/deep.txt", "objects.npy/x"])
def test_a_graph_with_something_else_in_its_folder_is_kept(source: Path, tmp_path: Path, entry: str) -> None:
    folder = graph_of(tmp_path, "一二\t类\t三").folder
    if (folder / entry).parent != folder:
        (folder / entry).parent.unlink(missing_ok=True)
        (folder / entry).parent.mkdir()
    (folder / entry).write_text("mine")
    before = contents(folder)
    with pytest.raises(GraphError, match=f"it holds '{entry.split('/')[0]}'"):
        compile_graph([str(source)], folder)
    assert contents(folder) == before


def test_what_comes_into_the_folder_while_a_graph_is_made_is_kept(tmp_path: Path) -> None:
    folder = graph_of(tmp_path, "一二\t类\t三").folder
    with pytest.raises(GraphError, match=r"it holds 'late\.txt'"), store.new_folder(folder) as new:
        (new / "meta.json").write_text("{}")
        (folder / "late.txt").write_text("mine")
    assert (folder / "late.txt").read_text() == "mine"
    (folder / "late.txt").unlink()
    assert KnowledgeGraph.open(folder, check=True).info.triples == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["graph.kg", "graph.spo"]


def test_graphs_of_older_versions_are_replaced(source: Path, tmp_path: Path) -> None:
    folder = graph_of(tmp_path, "一二\t类\t三").folder
    for name in ("subjects.marisa", "repeats.npy", "filter_ones.npy", "filter_twos.npy", "filter_threes.npy"):
        (folder / name).write_bytes(b"old")
    (folder / "meta.json").write_text(json.dumps({"format": store.FORMAT, "version": 1}))
    compile_graph([str(source)], folder)
    assert {p.name for p in folder.iterdir()} == {*store.FILES, store.META}
    assert KnowledgeGraph.open(folder, check=True).subject_id("甲乙") == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.spo", "graph.kg", "graph.spo"]


@pytest.mark.parametrize("name", ["a.spo", "objects.npy"])
def test_an_input_inside_the_output_is_refused(tmp_path: Path, name: str) -> None:
    folder = graph_of(tmp_path, "一二\t类\t三").folder
    (folder / name).write_text("甲乙\t类\t丙\n", encoding="utf-8")
    (tmp_path / "link.kg").symlink_to(folder)
    for out in (folder, tmp_path / "link.kg"):
        with pytest.raises(GraphError, match=f"{re.escape(name)} lies in .*, which would be replaced"):
            compile_graph([str(folder / name)], out)
    assert (folder / name).exists()


# --- links and places ---------------------------------------------------------------------------


def test_links_are_followed(source: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    real = graph_of(tmp_path / "disk", "一二\t类\t三").folder
    (tmp_path / "link").symlink_to(real)
    compile_graph([str(source)], tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert KnowledgeGraph.open(real, check=True).subject_id("甲乙") == 0
    (tmp_path / "dangling").symlink_to(tmp_path / "disk/deep/later")
    compile_graph([str(source)], tmp_path / "dangling")
    assert KnowledgeGraph.open(tmp_path / "disk/deep/later", check=True).info.triples == 1


def test_places_that_cannot_be_replaced_are_told_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here/below").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here/below")
    (tmp_path / "round").symlink_to(tmp_path / "round")
    for out, message in (
        (".", "is the working folder or above it"),
        ("..", "is the working folder or above it"),
        (str(tmp_path / "round"), "is a link that leads to itself"),
    ):
        with pytest.raises(GraphError, match=message):
            compile_graph(["nowhere.spo"], Path(out))


# --- temporary names ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["n" * 255, "图" * 85, "n" * 240])
def test_the_longest_names_that_a_disk_takes_will_do(source: Path, tmp_path: Path, name: str) -> None:
    with store.new_folder(tmp_path / name) as new:
        compile_graph([str(source)], new)  # one within the other, as the command does
    assert KnowledgeGraph.open(tmp_path / name, check=True).info.triples == 1


@pytest.mark.parametrize("name", ["my.kg", "图" * 80])
def test_what_a_killed_build_left_is_cleared_and_nothing_else(
    source: Path, tmp_path: Path, name: str
) -> None:
    program = (
        "import os, sys\nfrom pathlib import Path\nfrom kg import compile_graph, store\n"
        "def die(_):\n    (new / 'objects.npy').write_bytes(b'half')\n    os.kill(os.getpid(), 9)\n"
        "with store.new_folder(Path(sys.argv[2])) as new:\n"
        "    compile_graph([sys.argv[1]], new, open_binary=die)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(source), str(tmp_path / name)], check=False)
    assert killed.returncode == -9
    left = [p for p in tmp_path.iterdir() if p.name.startswith(".tmp-")]
    assert len(left) == 2
    machine = left[0].name.split("-")[1]
    assert machine == re.sub(r"[^A-Za-z0-9]", "", platform.node())[:32]
    dead = left[0].name.split("-")[2]
    kept = [
        f".tmp-{machine}-{os.getpid()}-9999-my.kg",  # of a process that lives
        f".tmp-{machine}-{dead}-0-other.kg",
        f".tmp-elsewhere-{dead}-0-my.kg",
        f".tmp-{machine}-{dead}-7-my.kg",  # with something in it that no graph has
    ]
    for folder in kept:
        (tmp_path / folder).mkdir()
    (tmp_path / kept[-1] / "mine.txt").write_text("mine")
    compile_graph([str(source)], tmp_path / name)
    assert {p.name for p in tmp_path.iterdir()} == {"a.spo", name, *kept}
    assert (tmp_path / kept[-1] / "mine.txt").exists()


# --- a full disk --------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [10, 1_000_000])
def test_a_full_disk_is_told_with_the_file(tmp_path: Path, count: int) -> None:
    (tmp_path / "objects.npy").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device") as caught:
        store.ColumnWriter(tmp_path).add({"objects": np.zeros(count, np.int32)})
    assert caught.value.errno == errno.ENOSPC and caught.value.filename == str(tmp_path / "objects.npy")
