"""Summaries: counted by arrays, equal to counting by hand and by a loop."""

from __future__ import annotations

import math
import statistics
import tracemalloc
from collections import Counter
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg import BuildOptions, GraphError, KnowledgeGraph, compile_graph, folders, store, summarize, summary
from kg.summary import Spread
from tests.kg.handmade import graph_of


def test_a_summary_by_hand(tmp_path: Path) -> None:
    graph = graph_of(
        tmp_path,
        "苹果\t类\t水果", "苹果\t色\t红", "苹果\t类\t公司", "公司\t有\t苹果", "公司\t类\tGROUP",
        "group\t类\t公司", "Group\t类\t集团", "Group\t\t红",
        fold=("case",),
    )  # fmt: skip
    found = summarize(graph, top=2)
    assert found.degrees == Spread(2, 3, 8 / 3, 3, 3)
    assert found.top_subjects == [("Group", 3), ("苹果", 3)]
    assert found.subject_lengths == Spread(2, 2, 3.0, 5, 5)
    assert found.object_lengths == Spread(1, 2, 14 / 6, 5, 5)
    assert found.top_objects == [("公司", 2), ("红", 2)]
    assert found.top_predicates == [("类", 5), ("", 1)]
    assert found.sources == [("graph.spo", 8)]
    assert (found.merged_subjects, found.merged) == (1, [["Group", "group"]])
    assert found.subjects_in_several_files == 0
    assert found.objects_that_are_subjects == 3  # 公司, GROUP, 苹果
    assert found.triples_to_subjects == 4
    assert found.two_cycles == 2
    assert found.file_bytes == {
        p.name: p.stat().st_size for p in graph.folder.iterdir() if p.suffix == ".npy"
    }


names = st.text(st.sampled_from("aAb甲𠀀é"), min_size=1, max_size=3)


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(st.tuples(names, st.sampled_from("pq"), names, st.integers(0, 2)), min_size=1, max_size=40),
    rule=st.sampled_from([(), ("case",)]),
)
def test_a_summary_is_what_a_loop_counts(
    rows: list[tuple[str, str, str, int]], rule: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("kg")
    paths = [folder / f"{k}.spo" for k in range(3)]
    for k, path in enumerate(paths):
        path.write_bytes("".join(f"{s}\t{p}\t{o}\n" for s, p, o, file in rows if file == k).encode())
    with mock.patch.object(folders, "sync"):
        try:
            compile_graph([str(path) for path in paths], folder / "kg", options=BuildOptions(fold=rule))
        except GraphError:
            return  # self triples only
    graph = KnowledgeGraph.open(folder / "kg")
    with mock.patch.object(summary, "_CHUNK_BYTES", 7), mock.patch.object(summary, "_CHUNK_TRIPLES", 5):
        found = summarize(graph)
    subjects, triples = range(graph.info.subjects), range(graph.info.triples)
    degrees = [len(graph.triples_of(s)) for s in subjects]
    assert found.degrees == spread(degrees)
    assert found.subject_lengths == spread([len(graph.subject_text(s)) for s in subjects])
    objects = Counter(graph.object(t) for t in triples)
    assert found.object_lengths == spread([len(text) for text in objects])
    assert found.top_objects == sorted(objects.items(), key=lambda item: (-item[1], item[0]))[:20]
    predicates = Counter(graph.predicate(t) for t in triples)
    assert found.top_predicates == sorted(predicates.items(), key=lambda item: (-item[1], item[0]))
    sources = Counter(graph.source(t)[0] for t in triples)
    assert found.sources == [(f"{k}.spo", sources[f"{k}.spo"]) for k in range(3)]
    several = [s for s in subjects if len(graph.spellings(s)) > 1]
    assert found.merged_subjects == len(several)
    assert sorted(map(sorted, found.merged)) == sorted(sorted(graph.spellings(s)) for s in several)
    files = [{graph.source(t)[0] for t in graph.triples_of(s)} for s in subjects]
    assert found.subjects_in_several_files == sum(len(names) > 1 for names in files)
    links = [(s, graph.subject_id(graph.object(t))) for s in subjects for t in graph.triples_of(s)]
    assert found.triples_to_subjects == sum(o >= 0 for _, o in links)
    assert found.objects_that_are_subjects == sum(graph.subject_id(text) >= 0 for text in objects)
    edges = set(links)
    assert found.two_cycles == sum((b, a) in edges and a < b for a, b in edges)


def spread(values: list[int]) -> Spread:
    ordered = sorted(values)
    return Spread(
        ordered[0],
        statistics.median_low(ordered),
        pytest.approx(sum(ordered) / len(ordered)),
        ordered[math.ceil(0.99 * len(ordered)) - 1],
        ordered[-1],
    )


def test_ranks_of_a_thousand() -> None:
    assert Spread.of(np.arange(1, 1001)) == Spread(1, 500, 500.5, 990, 1000)


def test_a_damaged_graph_is_an_error(tmp_path: Path) -> None:
    graph_of(tmp_path, "甲\t类\t乙", "丙\t类\t丁")
    for name in ("triple_offsets", "subject_spellings"):
        path = tmp_path / "graph.kg" / f"{name}.npy"
        content = path.read_bytes()
        path.write_bytes(content[:132] + np.int32(-5).tobytes() + content[136:])
        with pytest.raises(GraphError, match="is damaged"):
            summarize(KnowledgeGraph.open(tmp_path / "graph.kg"))
        path.write_bytes(content)


@pytest.mark.parametrize("value", [-5, 2, 2**31 - 1])
@pytest.mark.parametrize("name", ["predicates", "objects", "object_subjects", "source_files"])
def test_a_number_that_there_is_not_is_an_error_and_asks_for_no_memory(
    tmp_path: Path, name: str, value: int
) -> None:
    graph = graph_of(tmp_path, "甲\t类\t乙", "丙\t属\t丁")
    path = graph.folder / f"{name}.npy"
    item = np.array([value]).astype(store.COLUMNS[name]).tobytes()
    path.write_bytes(path.read_bytes()[:128] + item + path.read_bytes()[128 + len(item) :])
    tracemalloc.start()
    with pytest.raises(GraphError, match="is damaged"):
        summarize(KnowledgeGraph.open(graph.folder))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10 * 2**20
