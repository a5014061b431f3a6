"""Compiled graphs: what is in them, that their bytes are a function of the triples, and that damage shows."""

from __future__ import annotations

import json
import os
import pickle
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg import GraphError, KnowledgeGraph, compile_graph, read_spo, store
from kg.store import FILES
from tests.kg.handmade import graph_of

ROOT = Path(__file__).parents[2]


def objects(graph: KnowledgeGraph, subject: str) -> list[str]:
    return [graph.object(t) for t in graph.triples_of(graph.subject_id(subject))]


def folder_bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_look_up_by_subject_and_triple(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "苹果\t类别\t水果", "# 注释", "北京\t\t首都", "苹果\t颜色\t红色")
    assert objects(graph, "苹果") == ["水果", "红色"]
    assert graph.subject_id("梨") == graph.subject_id("苹") == graph.subject_id("\ud800") == -1
    (capital,) = graph.triples_of(graph.subject_id("北京"))
    assert (graph.subject(capital), graph.predicate(capital), graph.object(capital)) == ("北京", "", "首都")
    assert graph.source(capital) == ("graph.spo", 3)
    assert graph.info.empty_predicates == 1
    for wrong in (-1, 3):
        with pytest.raises(IndexError):
            graph.object(wrong)
        with pytest.raises(IndexError):
            graph.triples_of(wrong)


def test_c14_duplicates_once_and_cycles_kept(tmp_path: Path) -> None:
    graph = graph_of(
        tmp_path, "甲乙\t类\t甲乙", "甲乙\t类\t丙丁", "甲乙\t类\t丙丁", "丙丁\t类\t甲乙", "甲乙\t属\t丙丁"
    )
    info = graph.info
    assert (info.triples, info.self_triples, info.duplicates, info.lines) == (3, 1, 1, 5)
    assert objects(graph, "甲乙") == ["丙丁", "丙丁"]
    assert objects(graph, "丙丁") == ["甲乙"]


def test_several_files_keep_their_order(tmp_path: Path) -> None:
    for name, lines in (("z", "甲词\t类\tZ1\n甲词\t类\tA1\n"), ("a", "甲词\t类\tA2\n甲词\t类\tZ1\n")):
        (tmp_path / f"{name}.spo").write_text(lines, encoding="utf-8")
    compile_graph([str(tmp_path / "z.spo"), str(tmp_path / "a.spo")], tmp_path / "kg")
    graph = KnowledgeGraph.open(tmp_path / "kg")
    assert objects(graph, "甲词") == ["Z1", "A1", "A2"]
    assert [graph.source(t) for t in graph.triples_of(0)] == [("z.spo", 1), ("z.spo", 2), ("a.spo", 1)]
    assert graph.info.duplicates == 1


PRINT_TREE = """
import sys
from pathlib import Path
from kg import KnowledgeGraph, compile_graph
from tests.kg.handmade import trees_of
compile_graph([sys.argv[1]], Path(sys.argv[2]))
graph = KnowledgeGraph.open(sys.argv[2])
trees = trees_of(graph, "甲词", branches_per_mention=2)
sys.stdout.buffer.write(b"".join(c.tobytes() for c in (trees.ids, trees.soft_positions, trees.branch, trees.mention)))
print([graph.object(t) for t in trees.branch_triples], list(trees.counters.items()))
"""


def test_c06_object_choice_is_file_order_under_any_hash_seed(tmp_path: Path) -> None:
    source = tmp_path / "a.spo"
    lines = [f"甲词\t类\tA{k}" for k in (1, 2, 3, 4)] + [f"词{k}\t类{k % 7}\t物{k % 5}" for k in range(200)]
    source.write_text("\n".join(lines), encoding="utf-8")
    outputs, folders = [], []
    for seed in range(6):
        out = tmp_path / f"kg{seed}"
        done = subprocess.run(
            [sys.executable, "-c", PRINT_TREE, str(source), str(out)],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
        outputs.append(done.stdout)
        folders.append(folder_bytes(out))
    assert b"['A1', 'A2']" in outputs[0]
    assert len(set(outputs)) == 1
    assert all(folder == folders[0] for folder in folders)


def test_bytes_do_not_depend_on_where_the_files_are(tmp_path: Path) -> None:
    for place in ("here", "elsewhere/deep"):
        (tmp_path / place / "sub").mkdir(parents=True)
        (tmp_path / place / "a.spo").write_text("甲乙\t类\t丙\n", encoding="utf-8")
        (tmp_path / place / "sub/b.spo").write_text("丁戊\t类\t己\n", encoding="utf-8")
        compile_graph(
            [str(tmp_path / place / name) for name in ("a.spo", "sub/b.spo")], tmp_path / place / "kg"
        )
    assert folder_bytes(tmp_path / "here/kg") == folder_bytes(tmp_path / "elsewhere/deep/kg")
    assert KnowledgeGraph.open(tmp_path / "here/kg").info.sources == ("a.spo", "sub/b.spo")


def test_identity_is_of_the_triples_and_their_order(tmp_path: Path) -> None:
    a = graph_of(tmp_path, "甲乙\t类\t丙", "甲乙\t类\t丁", name="a").info.sha256
    same = graph_of(tmp_path, "#", " 甲乙\t类\t丙", "甲乙\t类\t丙", "甲乙\t类\t丁", name="same").info.sha256
    other = graph_of(tmp_path, "甲乙\t类\t丁", "甲乙\t类\t丙", name="other").info.sha256
    assert a == same != other


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n"), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(triples=st.lists(st.tuples(names, names, names), min_size=1, max_size=20))
def test_everything_that_went_in_is_found(
    triples: list[tuple[str, str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("kg")
    source = folder / "a.spo"
    source.write_bytes("".join("\t".join(t) + "\n" for t in triples).encode())
    expected: dict[str, list[tuple[str, str]]] = {}
    for s, p, o, _, _ in read_spo([str(source)], lambda _: None):
        if (p, o) not in expected.setdefault(s, []):
            expected[s].append((p, o))
    if not expected:
        with pytest.raises(GraphError, match="no triple"):
            compile_graph([str(source)], folder / "kg")
        return
    with mock.patch.object(store, "_sync"):
        info = compile_graph([str(source)], folder / "kg")
    graph = KnowledgeGraph.open(folder / "kg", check=True)
    for s, pairs in expected.items():
        found = graph.triples_of(graph.subject_id(s))
        assert [(graph.subject(t), graph.predicate(t), graph.object(t)) for t in found] == [
            (s, p, o) for p, o in pairs
        ]
        starts, stops, ids = graph.longest_mentions(s)
        if len(starts) and (starts[0], stops[0]) == (0, len(s)):
            assert ids[0] == graph.subject_id(s)
        else:
            raise AssertionError(f"{s!r} is not found in itself")
    assert info.triples == sum(map(len, expected.values()))
    assert (
        info.lines
        == info.triples
        + info.duplicates
        + info.self_triples
        + info.blank
        + info.comments
        + sum(info.rejects.values())
    )


@pytest.mark.parametrize("name", ["HowNet", "Medical"])
def test_real_graphs_lose_nothing(real_data: Path, tmp_path: Path, name: str) -> None:
    source = real_data / "kg" / f"{name}.spo"
    info = compile_graph([str(source)], tmp_path / "kg")
    lines = [tuple(line.split("\t")) for line in source.read_text(encoding="utf-8").split("\n") if line]
    assert info.lines == len(lines)
    assert info.lines == info.triples + info.duplicates + info.self_triples + sum(info.rejects.values())
    kept = [line for line in dict.fromkeys(lines) if line[0] != line[2]]
    graph = KnowledgeGraph.open(tmp_path / "kg")
    found = {(graph.subject(t), graph.predicate(t), graph.object(t)) for t in range(info.triples)}
    assert info.triples == len(kept) and found == set(kept)
    assert info.longest_subject == {"HowNet": 18, "Medical": 21}[name]
    spaced = [s for s, _, _ in kept if " " in s]
    assert all(graph.subject_id(s) >= 0 for s in spaced)


# --- damage and misuse --------------------------------------------------------------------------


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    graph_of(tmp_path, *(f"甲{k}乙\t类\t丙{k}" for k in range(50)))
    return tmp_path / "graph.kg"


@pytest.mark.parametrize("name", FILES)
def test_truncated_and_missing_files_are_named(compiled: Path, name: str) -> None:
    path = compiled / name
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(
        GraphError, match=rf"{name} should have {len(content)} bytes, found {len(content) - 1} bytes"
    ):
        KnowledgeGraph.open(compiled)
    path.unlink()
    with pytest.raises(GraphError, match=rf"{name} should have .* no such file"):
        KnowledgeGraph.open(compiled)


@pytest.mark.parametrize("name", FILES)
def test_edited_files_show_when_hashes_are_checked(compiled: Path, name: str) -> None:
    path = compiled / name
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(GraphError, match=f"{name} was changed after it was compiled"):
        KnowledgeGraph.open(compiled, check=True)


def test_overwritten_array_header_is_a_clear_error(compiled: Path) -> None:
    path = compiled / "objects.npy"
    path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(GraphError, match=r"objects\.npy is damaged"):
        KnowledgeGraph.open(compiled)


def test_folders_that_are_no_graph_are_refused(compiled: Path, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="does not exist"):
        KnowledgeGraph.open(tmp_path / "nowhere")
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    with pytest.raises(GraphError, match=r"is not a compiled graph: it has no meta\.json"):
        KnowledgeGraph.open(foreign)
    for content, message in (
        ("{", "is damaged"),
        ("[]", "is not a compiled graph"),
        ('{"format": "other"}', "is not a compiled graph"),
        ('{"format": "treegraft-graph", "version": 99}', "is of version 99"),
        (json.dumps({"format": store.FORMAT, "version": store.VERSION, "files": []}), "is damaged"),
    ):
        (foreign / "meta.json").write_text(content)
        with pytest.raises(GraphError, match=message):
            KnowledgeGraph.open(foreign)


def test_files_of_two_graphs_do_not_mix(compiled: Path, tmp_path: Path) -> None:
    graph_of(tmp_path, "甲乙\t类\t丙", name="other")
    meta = json.loads((compiled / "meta.json").read_text())
    shutil.copy(tmp_path / "other.kg/subjects.marisa", compiled)
    meta["files"]["subjects.marisa"]["bytes"] = (compiled / "subjects.marisa").stat().st_size
    (compiled / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(GraphError, match="belong to different graphs"):
        KnowledgeGraph.open(compiled)


def test_nothing_is_left_behind_by_a_failure_and_old_graphs_are_replaced(
    compiled: Path, tmp_path: Path
) -> None:
    before = folder_bytes(compiled)
    old = KnowledgeGraph.open(compiled)
    with pytest.raises(GraphError, match="does not exist"):
        compile_graph([str(tmp_path / "graph.spo"), str(tmp_path / "nowhere.spo")], compiled)
    assert folder_bytes(compiled) == before
    (tmp_path / "graph.spo").write_text("丁戊\t类\t己\n", encoding="utf-8")
    compile_graph([str(tmp_path / "graph.spo")], compiled)
    assert KnowledgeGraph.open(compiled).info.triples == 1
    assert old.object(49).startswith("丙")  # who has it open keeps it
    assert sorted(path.name for path in tmp_path.iterdir()) == ["graph.kg", "graph.spo"]


def test_what_is_not_a_graph_is_never_overwritten(tmp_path: Path) -> None:
    source = tmp_path / "a.spo"
    source.write_text("甲乙\t类\t丙\n", encoding="utf-8")
    precious = tmp_path / "thesis"
    precious.mkdir()
    (precious / "chapter1").write_text("years of work")
    for out in (precious, source):
        with pytest.raises(GraphError, match="is not a compiled graph; choose another output"):
            compile_graph([str(source)], out)
    assert (precious / "chapter1").read_text() == "years of work"


def test_files_without_a_triple_say_what_was_found(tmp_path: Path) -> None:
    source = tmp_path / "a.spo"
    source.write_text("苹果 类别 水果\n梨 类别 水果\n", encoding="utf-8")
    with pytest.raises(
        GraphError, match=r"2 lines read \(2 wrong_field_count\); expected lines of subject TAB"
    ):
        compile_graph([str(source)], tmp_path / "kg")
    with pytest.raises(GraphError, match="no triples files were named"):
        compile_graph([], tmp_path / "kg")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.spo"]


def test_a_pickled_graph_is_opened_again(compiled: Path) -> None:
    graph = KnowledgeGraph.open(compiled)
    carried = pickle.dumps(graph)
    assert len(carried) < 1000
    assert pickle.loads(carried).object(3) == graph.object(3)


# --- size ---------------------------------------------------------------------------------------


def write_large(path: Path, triples: int) -> None:
    with path.open("w", encoding="utf-8") as stream:
        for i in range(triples):
            subject = i * 7919 % (triples // 2)
            stream.write(f"实体{subject:07d}号\t类别{i % 50}\t属性值{i * 31 % 300_000}\n")


MEASURE = """
import re, sys, time
from pathlib import Path
from kg import KnowledgeGraph, compile_graph
def peak():  # MiB; ru_maxrss would be the parent's where the child was forked from a larger process
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
start = time.process_time()
info = compile_graph([sys.argv[1]], Path(sys.argv[2]))
print(info.triples, time.process_time() - start, peak())
"""

USE = """
import re, sys, time
from kg import KnowledgeGraph
def private():  # pages that are this process's own, not the shared map's
    return sum(int(n) for n in re.findall(r"Private_Dirty: +([0-9]+)", open("/proc/self/smaps_rollup").read())) / 1024
KnowledgeGraph.open(sys.argv[2])  # imports are paid for
before, start = private(), time.process_time()
graph = KnowledgeGraph.open(sys.argv[1])
opened = time.process_time() - start
graph.longest_mentions("此处没有")
starts, stops, ids = graph.longest_mentions("见实体0000123号文" * 50)
assert len(starts) == 50, starts
assert graph.longest_mentions("今天天气很好")[0].tolist() == []
print(opened, private() - before)
"""


def compile_and_share(tmp_path: Path, triples: int) -> tuple[float, float, list[tuple[float, float]]]:
    """(seconds, MiB) of compiling, and (seconds, private MiB) of opening in each of 4 workers at once."""
    write_large(tmp_path / "large.spo", triples)
    graph_of(tmp_path, "甲乙\t类\t丙", name="small")
    command = [sys.executable, "-c"]
    arguments = [str(tmp_path / "large.spo"), str(tmp_path / "large.kg")]
    done = subprocess.run(
        [*command, MEASURE, *arguments], cwd=ROOT, capture_output=True, check=True, text=True
    )
    count, seconds, size = map(float, done.stdout.split())
    assert count == triples
    use = [*command, USE, str(tmp_path / "large.kg"), str(tmp_path / "small.kg")]
    workers = [subprocess.Popen(use, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    outputs = [worker.communicate()[0] for worker in workers]
    assert all(worker.returncode == 0 for worker in workers)
    opened = [tuple(map(float, output.split())) for output in outputs]
    print(f"compile {triples}: {seconds:.1f} s, {size:.0f} MiB; open: {opened}")
    return seconds, size, opened  # type: ignore[return-value]


linux = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux's smaps_rollup")


@linux
def test_c16_a_graph_is_mapped_not_loaded(tmp_path: Path) -> None:
    _, size, opened = compile_and_share(tmp_path, 200_000)
    assert size < 400
    assert max(seconds for seconds, _ in opened) < 0.1
    assert max(private for _, private in opened) < 2


@linux
@pytest.mark.heavy
def test_c16_two_million_triples_in_bounded_time_and_memory(tmp_path: Path) -> None:
    seconds, size, opened = compile_and_share(tmp_path, 2_000_000)
    assert seconds < 60
    assert size < 1024
    assert max(seconds for seconds, _ in opened) < 0.1
    assert max(private for _, private in opened) < 2  # four workers share one copy


def test_a_ten_megabyte_object_is_one_triple(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "甲城\t全文\t" + "长" * 3_500_000, "甲城\t类\t城市")
    assert len(objects(graph, "甲城")[0]) == 3_500_000
    start = time.process_time()
    assert graph.longest_mentions("我住甲城")[0].tolist() == [2]
    assert time.process_time() - start < 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 4 * 2**20  # KiB


def test_objects_are_numbered_by_text_and_know_their_triples_and_subjects(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "丙丁\tz\t甲乙", "甲乙\ta\t乙", "丙丁\ta\t乙", "甲乙\t\t丙丁", "甲乙\t\t丙丁")
    names = [graph.object_text(k) for k in range(graph.info.objects)]
    assert names == sorted(names) == ["丙丁", "乙", "甲乙"]
    assert graph.object_counts.tolist() == [1, 2, 1]
    assert graph.object_subjects.tolist() == [graph.subject_id("丙丁"), -1, graph.subject_id("甲乙")]
    for triple in range(graph.info.triples):
        assert names[graph.objects[triple]] == graph.object(triple)
    assert [graph.predicate(t) for t in graph.triples_of(graph.subject_id("丙丁"))] == ["z", "a"]
    by_number = sorted((int(graph.predicates[t]), graph.predicate(t)) for t in range(graph.info.triples))
    assert by_number == sorted(by_number, key=lambda pair: pair[1])
