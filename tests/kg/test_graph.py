"""Compiled graphs, opened: look-ups, that damage shows or does no harm, that nothing is loaded."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import kg
from kg import GraphError, KnowledgeGraph, compile_graph, store
from kg.store import FILES
from tests.kg.handmade import graph_of

ROOT = Path(__file__).parents[2]


def folder_bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_look_up_by_subject_and_triple(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "苹果\t类别\t水果", "# 注释", "北京\t\t首都", "苹果\t颜色\t红色")
    fruit = graph.triples_of(graph.subject_id("苹果"))
    assert [(graph.subject(t), graph.object(t)) for t in fruit] == [("苹果", "水果"), ("苹果", "红色")]
    assert graph.subject_id("梨") == graph.subject_id("苹") == graph.subject_id("\ud800") == -1
    assert graph.subject_id("") == graph.subject_id("苹果苹果") == -1
    (capital,) = graph.triples_of(graph.subject_id("北京"))
    assert (graph.subject(capital), graph.predicate(capital), graph.object(capital)) == ("北京", "", "首都")
    assert graph.source(capital) == ("graph.spo", 3)
    for wrong in (-1, 3):
        for ask in (graph.subject, graph.predicate, graph.object, graph.source, graph.object_text):
            with pytest.raises(IndexError):
                ask(wrong)
        for ask_subject in (graph.triples_of, graph.subject_text, graph.spellings):
            with pytest.raises(IndexError):
                ask_subject(wrong)


def test_predicates_are_found_by_text(tmp_path: Path) -> None:
    predicates = ["", "a", "ab", "b", "é", "类", "\U0001f34e"]
    graph = graph_of(tmp_path, *(f"甲\t{p}\t乙{k}" for k, p in enumerate(reversed(predicates))))
    for number, text in enumerate(predicates):
        assert graph.predicate_id(text) == number and graph.predicate_text(number) == text
    assert [graph.predicate_id(text) for text in ("aa", "0", "\U0001f34f", "\ud800")] == [-1] * 4


def test_objects_are_numbered_by_text_and_know_their_triples_and_subjects(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "丙丁\tz\t甲乙", "甲乙\ta\t乙", "丙丁\ta\t乙", "甲乙\t\t丙丁", "甲乙\t\t丙丁")
    names = [graph.object_text(k) for k in range(graph.info.objects)]
    assert names == sorted(names) == ["丙丁", "乙", "甲乙"]
    assert graph.object_counts.tolist() == [1, 2, 1]
    assert graph.object_subjects.tolist() == [graph.subject_id("丙丁"), -1, graph.subject_id("甲乙")]
    for triple in range(graph.info.triples):
        assert names[graph.objects[triple]] == graph.object(triple)


def test_columns_are_arrays_that_numpy_reads(tmp_path: Path) -> None:
    graph_of(tmp_path, "甲\t类\t乙", "丙\t类\t丁")
    for name, dtype in store.COLUMNS.items():
        mapped = store.map_column(tmp_path / "graph.kg", name)
        loaded = np.load(tmp_path / "graph.kg" / f"{name}.npy", allow_pickle=False)
        assert mapped.dtype == loaded.dtype == dtype and mapped.tolist() == loaded.tolist()
        assert not mapped.flags.writeable or not len(mapped)


def test_the_room_has_what_it_names() -> None:
    assert sorted(kg.__all__) == kg.__all__
    assert all(getattr(kg, name).__module__.startswith("kg.") for name in kg.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Trie'"):
        _ = kg.Trie


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
    outputs = set()
    for seed in range(3):
        done = subprocess.run(
            [sys.executable, "-c", PRINT_TREE, str(source), str(tmp_path / f"kg{seed}")],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1
    assert b"['A1', 'A2']" in outputs.pop()


# --- damage -------------------------------------------------------------------------------------


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    graph_of(tmp_path, *(f"甲Ａ{k}乙\t类\t丙{k}" for k in range(50)), fold=("nfkc",))
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
    content = path.read_bytes()
    for place in {0, 9, 100, len(content) // 2, len(content) - 1}:
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(GraphError, match=f"{name} was changed after it was compiled"):
            KnowledgeGraph.open(compiled, check=True)


@pytest.mark.parametrize("name", FILES)
def test_an_overwritten_header_is_a_clear_error(compiled: Path, name: str) -> None:
    path = compiled / name
    content = path.read_bytes()
    for header in (
        b"x" * 128,
        content[:128].replace(b"'shape': (", b"'shape': (9"),
        content[:128].replace(b"'descr': '", b"'descr': 'O"),
    ):
        path.write_bytes(header[:128] + content[128:])
        with pytest.raises(GraphError, match=rf"{name} is damaged: not an array of"):
            KnowledgeGraph.open(compiled)


def test_files_of_two_graphs_do_not_mix(compiled: Path, tmp_path: Path) -> None:
    graph_of(tmp_path, "甲乙\t类\t丙", name="other")
    meta = json.loads((compiled / "meta.json").read_text())
    for name in ("objects", "object_counts", "spelling_offsets", "triple_offsets"):
        before = (compiled / f"{name}.npy").read_bytes()
        shutil.copy(tmp_path / f"other.kg/{name}.npy", compiled)
        changed = {**meta["files"], f"{name}.npy": {"bytes": (compiled / f"{name}.npy").stat().st_size}}
        (compiled / "meta.json").write_text(json.dumps(store.sign({**meta, "files": changed})))
        with pytest.raises(GraphError, match="belong to different graphs"):
            KnowledgeGraph.open(compiled)
        (compiled / f"{name}.npy").write_bytes(before)


def test_folders_that_are_no_graph_are_refused(compiled: Path, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="does not exist"):
        KnowledgeGraph.open(tmp_path / "nowhere")
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    with pytest.raises(GraphError, match=r"is not a compiled graph: it has no meta\.json"):
        KnowledgeGraph.open(foreign)
    for content, message in (
        ("{", "is damaged"),
        ("[" * 100_000, "is damaged"),
        ("9" * 10_000, "is damaged"),
        ("[]", "is not a compiled graph"),
        ('{"format": "other"}', "is not a compiled graph"),
        ('{"format": "treegraft-graph", "version": 99}', "is of version 99"),
        (json.dumps({"format": store.FORMAT, "version": store.VERSION, "files": []}), "is damaged"),
    ):
        (foreign / "meta.json").write_text(content)
        with pytest.raises(GraphError, match=message):
            KnowledgeGraph.open(foreign)


def edited(meta: dict[str, object], *path: str, value: object) -> str:
    copy = json.loads(json.dumps(meta))
    place = copy
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(store.sign(copy))


HOSTILE = [
    None,
    -1,
    2**62,
    10**30,
    1.5,
    True,
    "x",
    [],
    {},
    [None],
    {"a": -1},
    {"a": "b"},
    ["case", "nfkc"],
    [[]],
]


def test_a_hostile_meta_is_an_error_and_never_leads_out_of_the_folder(compiled: Path, tmp_path: Path) -> None:
    meta = json.loads((compiled / "meta.json").read_text())
    refused = 0
    for key in store.GraphInfo.__dataclass_fields__:
        for value in HOSTILE:
            (compiled / "meta.json").write_text(edited(meta, key, value=value))
            try:
                graph = KnowledgeGraph.open(compiled)
                graph.longest_mentions("见甲A3乙文")
                graph.source(0)
            except (GraphError, IndexError):
                refused += 1
    assert refused > 100
    for value in HOSTILE:
        (compiled / "meta.json").write_text(edited(meta, "files", "objects.npy", value=value))
        with pytest.raises(GraphError):
            KnowledgeGraph.open(compiled)
        (compiled / "meta.json").write_text(edited(meta, "files", "objects.npy", "bytes", value=value))
        with pytest.raises(GraphError, match=r"objects\.npy should have"):
            KnowledgeGraph.open(compiled)
    secret = tmp_path / "secret.npy"
    secret.write_bytes((compiled / "objects.npy").read_bytes())
    strange = {**meta["files"], "../secret.npy": {"bytes": 1, "sha256": "0"}}
    (compiled / "meta.json").write_text(edited(meta, "files", value=strange))
    opened = []
    real = Path.open

    def watched(path: Path, *args: object, **kwargs: object) -> object:
        opened.append(path)
        return real(path, *args, **kwargs)  # type: ignore[call-overload]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "open", watched)
        assert KnowledgeGraph.open(compiled, check=True).file_bytes.keys() == set(FILES)
    assert opened and all(path.parent == compiled for path in opened)


def test_a_meta_that_was_edited_is_not_believed(compiled: Path) -> None:
    meta = json.loads((compiled / "meta.json").read_text())
    edits = {"longest_subject": 1, "fold": [], "sources": ["other.spo"], "read": 10**6, "more": 1}
    for key, value in edits.items():
        (compiled / "meta.json").write_text(json.dumps({**meta, key: value}))
        with pytest.raises(GraphError, match=r"meta\.json was changed after it was compiled"):
            KnowledgeGraph.open(compiled)
    unsigned = {key: value for key, value in meta.items() if key != "meta_sha256"}
    (compiled / "meta.json").write_text(json.dumps(unsigned))
    with pytest.raises(GraphError, match=r"meta\.json is damaged \(\"'meta_sha256'\"\)"):
        KnowledgeGraph.open(compiled)
    (compiled / "meta.json").write_text(json.dumps(dict(reversed(meta.items())), indent=7))
    assert KnowledgeGraph.open(compiled, check=True).info.triples > 1


def test_a_meta_of_gigabytes_is_not_read(compiled: Path) -> None:
    with (compiled / "meta.json").open("r+b") as stream:
        stream.truncate(3 * 2**30)  # a hole: it takes no room on the disk
    start = time.process_time()
    with pytest.raises(GraphError, match=r"meta\.json is damaged \(over"):
        KnowledgeGraph.open(compiled)
    assert time.process_time() - start < 0.1


def test_places_that_cannot_be_are_errors_without_check(tmp_path: Path) -> None:
    graph_of(tmp_path, "甲\t类\t乙", "丙\t类\t丁", "丙\t属\t戊")
    folder = tmp_path / "graph.kg"

    def damaged(name: str, index: int, value: int) -> KnowledgeGraph:
        column = np.load(folder / f"{name}.npy")
        content = (folder / f"{name}.npy").read_bytes()
        column[index] = value
        (folder / f"{name}.npy").write_bytes(content[:128] + column.tobytes())
        graph = KnowledgeGraph.open(folder)
        assert graph.info.triples == 3  # nothing is looked at before it is asked for
        (folder / f"{name}.npy").unlink()  # the graph keeps its own
        (folder / f"{name}.npy").write_bytes(content)
        return graph

    for value in (-1, 2**40, 2**62):
        with pytest.raises(GraphError, match="texts of the graph are damaged"):
            damaged("object_offsets", 1, value).object_text(0)
        with pytest.raises(GraphError, match="texts of the graph are damaged"):
            damaged("spelling_offsets", 1, value).subject_text(0)
    for value in (0, 2, 2**31 - 1):
        with pytest.raises(GraphError, match="texts of the graph are damaged"):
            damaged("object_lengths", 0, value).object_text(0)
    with pytest.raises(GraphError, match="texts of the graph are damaged"):
        damaged("object_bytes", 0, 0xFF).object_text(0)
    for value in (-1, 4, 2**31 - 1):
        graph = damaged("triple_offsets", 1, value)
        with pytest.raises(GraphError, match="is damaged; compile the triples again"):
            graph.triples_of(0)
        with pytest.raises(GraphError, match="is damaged; compile the triples again"):
            graph.triple_ranges(np.array([1, 0]))
    with pytest.raises(GraphError, match="is damaged; compile the triples again"):
        damaged("triple_offsets", 0, 3).triple_ranges(np.array([0]))
    for value in (-1, 0, 3):
        with pytest.raises(GraphError, match="is damaged; compile the triples again"):
            damaged("subject_spellings", 1, value).spellings(0)
    starts, stops = KnowledgeGraph.open(folder).triple_ranges(np.array([1, 0]))
    assert (starts.tolist(), stops.tolist()) == ([2, 0], [3, 2]) and starts.dtype == stops.dtype == np.int64
    with pytest.raises(IndexError):
        KnowledgeGraph.open(folder).triple_ranges(np.array([2]))


FLIP = """
import random, sys, warnings
from pathlib import Path
from kg import GraphError, GraftPolicy, KnowledgeGraph, TreeBuilder, store, summarize
from tests.kg.handmade import tokenize, trunks_of
warnings.simplefilter("ignore")
folder, seed, rounds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
rng = random.Random(seed)
text = Path(sys.argv[4]).read_text(encoding="utf-8")
trunks = trunks_of([text, text[::-1]], length=500)
policies = [GraftPolicy(depth=2, branches_per_mention=3), GraftPolicy(rank="most_frequent", predicate=True)]
refused = wrong = missed = 0

def use():
    graph = KnowledgeGraph.open(folder)
    results = [graph.subject_id("物甲Ａ3乙"), graph.predicate_id("类1")]
    results.append([column.tolist() for column in graph.longest_mentions(text)])
    results.append([(o.start, o.stop, o.subject, o.why) for o in graph.matcher().places(text).first()])
    for triple in range(graph.info.triples):
        results.append((graph.subject(triple), graph.predicate(triple), graph.object(triple), graph.source(triple)))
    for subject in range(graph.info.subjects):
        results.append((graph.triples_of(subject), graph.spellings(subject)))
    for policy in policies:
        trees = TreeBuilder(graph, policy, tokenize).build(trunks)
        results.append([column.tolist() for column in (trees.ids, trees.branch, trees.branch_triples)])
    summarize(graph)
    return results

right = use()
for round in range(rounds):
    path = folder / rng.choice([*store.FILES, store.META])
    content = path.read_bytes()
    damaged = bytearray(content)
    for _ in range(rng.choice([1, 1, 3, 50])):
        header = 0 if rng.random() < 0.1 or path.name == store.META else 128
        place = rng.randrange(header, max(len(damaged), header + 1))
        if place >= len(damaged):
            continue
        damaged[place] = rng.choice([damaged[place] ^ (1 << rng.randrange(8)), rng.randrange(256), 0, 255])
    path.write_bytes(damaged)
    try:
        if use() != right:
            wrong += 1
    except (GraphError, IndexError):
        refused += 1
    except BaseException as error:
        print("round", round, path.name, [i for i, (a, b) in enumerate(zip(content, damaged)) if a != b][:5])
        raise
    if damaged != content and path.name != store.META:
        try:
            KnowledgeGraph.open(folder, check=True)
        except GraphError:
            pass
        else:
            missed += 1
    path.write_bytes(content)
print(refused, wrong, missed)
"""


def flipped(tmp_path: Path, seed: int, rounds: int) -> tuple[int, int, int]:
    """(refused, wrong, not found by `check`) of damaged graphs used in a process of their own."""
    lines = [f"物甲Ａ{k}乙\t类{k % 3}\t物甲A{k + 1}乙" for k in range(40)]
    lines += [f"城{k}\t类{k % 5}\t{'长' * (k % 9)}值{k % 11}" for k in range(60)]
    graph_of(tmp_path, *lines, "物甲A1乙\t别\t城3", fold=("nfkc", "case"))
    text = tmp_path / "text"
    text.write_text("".join(f"见物甲a{k}乙与城{k}，" for k in range(20)), encoding="utf-8")
    arguments = [str(tmp_path / "graph.kg"), str(seed), str(rounds), str(text)]
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({6 * 2**30}, {6 * 2**30}))\n"
    done = subprocess.run(
        [sys.executable, "-c", limited + FLIP, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60 + rounds,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    refused, wrong, missed = map(int, done.stdout.split())
    return refused, wrong, missed


def test_any_damaged_byte_is_found_or_harmless(tmp_path: Path) -> None:
    refused, wrong, missed = flipped(tmp_path, seed=0, rounds=80)
    assert missed == 0
    assert refused > 5 and wrong > 0  # wrong texts are what a graph without `check` may give


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(1, 5))
def test_many_damaged_bytes_are_found_or_harmless(tmp_path: Path, seed: int) -> None:
    assert flipped(tmp_path, seed, rounds=2000)[2] == 0


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


OPEN = """
import re, sys, time
def private():  # pages that are this process's own: dirty ones, and clean ones that nobody else has mapped
    found = open("/proc/self/smaps_rollup").read()
    return [sum(map(int, re.findall(rf"Private_{kind}: +([0-9]+)", found))) / 1024 for kind in ("Dirty", "Clean")]
from kg.graph import KnowledgeGraph
from kg.tree import GraftPolicy, TreeBuilder
KnowledgeGraph.open(sys.argv[2])  # imports are paid for
before, start = private(), time.perf_counter()
graph = KnowledgeGraph.open(sys.argv[1])
opened, after = time.perf_counter() - start, private()
assert after[0] - before[0] < 1, "something was loaded"
texts = open(sys.argv[3], encoding="utf-8").read().splitlines()
mentions = graph.matcher().longest(texts)
objects = [graph.object(graph.triples_of(s)[0]) for s in mentions.subjects.tolist()]
assert not {"pyarrow", "pandas"} & sys.modules.keys(), "matching needs numpy alone"
print(opened, *private(), len(objects), flush=True)
sys.stdin.readline()
"""


def open_in_processes(tmp_path: Path, folder: Path, text: str, count: int) -> list[list[float]]:
    """(seconds to open, private dirty and clean MiB after matching, mentions) of processes that stay
    alive until all have matched; the last one counts, as the others have its pages mapped as well."""
    graph_of(tmp_path, "甲乙\t类\t丙", name="small")
    (tmp_path / "text").write_text(text, encoding="utf-8")
    command = [sys.executable, "-c", OPEN, str(folder), str(tmp_path / "small.kg"), str(tmp_path / "text")]
    workers, found = [], []
    for _ in range(count):
        worker = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        workers.append(worker)
        assert worker.stdout is not None
        found.append([float(value) for value in worker.stdout.readline().split()])
    for worker in workers:
        worker.communicate("\n")
        assert worker.returncode == 0
    return found


linux = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux's smaps_rollup")


@linux
def test_c16_a_graph_is_mapped_not_loaded(tmp_path: Path) -> None:
    write_large(tmp_path / "large.spo", 100_000)
    compile_graph([str(tmp_path / "large.spo")], tmp_path / "large.kg")
    text = "".join(f"见实体{k * 7:07d}号文\n" for k in range(2000))
    first, second = open_in_processes(tmp_path, tmp_path / "large.kg", text, 2)
    assert first[3] == second[3] == 2000
    assert second[0] < 0.1
    assert second[1] + second[2] < 60  # Python and numpy are 16 MiB of it


@linux
@pytest.mark.heavy
def test_c16_ten_million_triples_cost_a_further_process_little(tmp_path: Path) -> None:
    from tests.bench.graphs import write_graph

    write_graph(tmp_path / "large.spo", 3_000_000, 10_000_000)
    compile_graph([str(tmp_path / "large.spo")], tmp_path / "large.kg")
    with (tmp_path / "large.spo").open(encoding="utf-8") as lines:  # objects are like real texts
        text = "".join(next(lines).replace("\t", "，") for _ in range(50_000))
    found = open_in_processes(tmp_path, tmp_path / "large.kg", text, 3)
    print(found)
    opened, dirty, clean, mentions = found[-1]
    assert opened < 0.5 and mentions > 50_000
    assert dirty + clean < 100
