"""Sentence trees as columns against the paper's construction as loops (K-BERT, 3.2 to 3.4)."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg import GraftPolicy, KnowledgeGraph, Trees, Trunks, build_trees, compile_graph, read_spo
from tests.kg.handmade import graph_of, tokenize, tokens, trunks_of
from tests.parity.kbert_reference import Entity, Flat, flatten, inject, longest_mentions

Subjects = dict[str, list[tuple[str, int]]]


def visible_matrix(branch: np.ndarray, mention: np.ndarray) -> np.ndarray:
    """The visible matrix as a predicate over two integers per token."""
    q_branch, k_branch = branch[:, None], branch[None, :]
    one_on_trunk = (q_branch == 0) != (k_branch == 0)
    same_mention = (mention[:, None] == mention[None, :]) & (mention[:, None] >= 0)
    return (q_branch == k_branch) | (one_on_trunk & same_mention)


def check_row(trees: Trees, row: int, expected: Flat) -> None:
    part = slice(*trees.row_offsets[row : row + 2])
    assert tokens(trees.ids[part]) == expected.tokens
    assert trees.soft_positions[part].tolist() == expected.soft_positions
    assert trees.branch_triples[slice(*trees.branch_offsets[row : row + 2])].tolist() == expected.triples
    matrix = visible_matrix(trees.branch[part], trees.mention[part])
    np.testing.assert_array_equal(matrix, np.array(expected.visible, np.bool_))


def lookup(graph: KnowledgeGraph, *paths: Path) -> Subjects:
    """Objects of every subject in file order, straight from the files."""
    subjects: Subjects = {}
    triples: dict[tuple[str, str, str], None] = {}
    for s, p, o, _, _ in read_spo([str(path) for path in paths], lambda _: None):
        triples[s, p, o] = None
    ids = {(graph.subject(t), graph.predicate(t), graph.object(t)): t for t in range(graph.info.triples)}
    assert set(ids) == set(triples)
    for s, p, o in triples:
        subjects.setdefault(s, []).append((o, ids[s, p, o]))
    return subjects


def reference_rows(trunks: Trunks, subjects: Subjects, policy: GraftPolicy) -> list[Flat]:
    """Every row of a block by loops; a row's segments are searched one after the other."""
    rows = []
    for row in range(len(trunks.row_offsets) - 1):
        part = slice(*trunks.row_offsets[row : row + 2])
        trunk = tokens(trunks.ids[part])
        entities: list[Entity] = []
        length = policy.max_length
        for kind in (0, 1):
            text = trunks.texts[kind][row]
            if text is None:
                continue
            spans = [
                (int(a), int(b)) if not special and of == kind else None
                for a, b, special, of in zip(
                    trunks.char_starts[part],
                    trunks.char_stops[part],
                    trunks.special[part],
                    trunks.type_ids[part],
                    strict=True,
                )
            ]
            found = longest_mentions(text, subjects, policy.min_mention_length, policy.stop)
            new = inject(
                trunk,
                spans,
                text,
                found,
                subjects,
                branches_per_mention=policy.branches_per_mention,
                max_object_length=policy.max_object_length,
                max_length=length,
                max_positions=policy.max_positions,
            )
            length -= sum(len(branch) for entity in new for branch, _ in entity.branches)
            entities += new
        rows.append(flatten(trunk, entities))
    return rows


def check_block(graph: KnowledgeGraph, subjects: Subjects, policy: GraftPolicy, trunks: Trunks) -> Trees:
    trees = build_trees(graph, policy, trunks, tokenize)
    for row, expected in enumerate(reference_rows(trunks, subjects, policy)):
        check_row(trees, row, expected)
    return trees


def test_the_papers_figure(tmp_path: Path) -> None:
    """Figure 2: [CLS] Tim Cook is visiting Beijing now; words stand for tokens."""
    trunk = ["[CLS]", "Tim", "Cook", "is", "visiting", "Beijing", "now"]
    flat = flatten(
        trunk,
        [
            Entity(1, 2, [(["CEO", "Apple"], 0)]),
            Entity(5, 5, [(["capital", "China"], 1), (["is_a", "City"], 2)]),
        ],
    )
    assert " ".join(flat.tokens) == "[CLS] Tim Cook CEO Apple is visiting Beijing capital China is_a City now"
    assert flat.soft_positions == [0, 1, 2, 3, 4, 3, 4, 5, 6, 7, 6, 7, 6]
    see = {
        a: [b for b, seen in zip(flat.tokens, row, strict=True) if seen]
        for a, row in zip(flat.tokens, flat.visible, strict=True)
    }
    assert see["Apple"] == ["Tim", "Cook", "CEO", "Apple"]
    assert see["China"] == ["Beijing", "capital", "China"]
    assert see["[CLS]"] == trunk
    assert see["Cook"] == ["[CLS]", "Tim", "Cook", "CEO", "Apple", "is", "visiting", "Beijing", "now"]


letters = st.text("甲乙a1 .", min_size=1, max_size=3)
triple_lists = st.lists(
    st.tuples(letters, st.sampled_from(["类", "属", ""]), st.text("子丑寅卯 ", min_size=1, max_size=5)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=200, deadline=None)
@given(
    triples=triple_lists,
    branches=st.integers(1, 3),
    min_length=st.integers(1, 2),
    object_length=st.integers(1, 5),
    trunk_length=st.integers(4, 24),
    slack=st.integers(0, 12),
    positions=st.integers(0, 6),
    data=st.data(),
)
def test_columns_equal_the_loops(
    triples: list[tuple[str, str, str]],
    branches: int,
    min_length: int,
    object_length: int,
    trunk_length: int,
    slack: int,
    positions: int,
    data: st.DataObject,
) -> None:
    usable = [(s, p, o) for s, p, o in triples if s.strip() and o.strip() and s.strip() != o.strip()]
    if not usable:
        return
    # Rows are full of mentions: subjects, and what could glue them together.
    piece = st.sampled_from([s.strip() for s, _, _ in usable] + ["子", "a", "1", " ", ".", ".1", ",1"])
    text = st.lists(piece, max_size=8).map("".join)
    rows = data.draw(st.lists(st.tuples(text, st.none() | text), min_size=1, max_size=4))
    with tempfile.TemporaryDirectory() as folder:
        graph = graph_of(Path(folder), *("\t".join(triple) for triple in triples))
        subjects = lookup(graph, Path(folder) / "graph.spo")
        stop = data.draw(st.frozensets(st.sampled_from(sorted(subjects)), max_size=1))
        trunks = trunks_of([a for a, _ in rows], [b for _, b in rows], length=trunk_length)
        longest = int(np.diff(trunks.row_offsets).max())
        policy = GraftPolicy(
            branches_per_mention=branches,
            min_mention_length=min_length,
            max_object_length=object_length,
            stop=stop,
            max_length=longest + slack,
            max_positions=longest + positions,
        )
        trees = check_block(graph, subjects, policy, trunks)
        counters = trees.counters
        assert counters["mentions"] == (
            counters["mentions_grafted"]
            + counters["mentions_without_branch"]
            + counters["dropped_anchor_cut"]
            + counters["dropped_unaligned"]
        )
        assert counters["branches"] == len(trees.branch_triples)
        if len(trees.ids):
            assert np.diff(trees.row_offsets).max() <= policy.max_length
            assert trees.soft_positions.max() < policy.max_positions
        on_trunk = trees.branch == 0
        np.testing.assert_array_equal(trees.ids[on_trunk], trunks.ids)
        np.testing.assert_array_equal(trees.trunk_index[on_trunk], trees.soft_positions[on_trunk])
        assert (trees.trunk_index[~on_trunk] == -1).all()


@pytest.fixture(scope="module", params=["HowNet", "Medical"])
def real_graph(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, real_data: Path
) -> tuple[KnowledgeGraph, Subjects]:
    source = real_data / "kg" / f"{request.param}.spo"
    folder = tmp_path_factory.mktemp("kg") / request.param
    compile_graph([str(source)], folder)
    graph = KnowledgeGraph.open(folder)
    return graph, lookup(graph, source)


def reviews(real_data: Path) -> list[str]:
    lines = (real_data / "kbert/chnsenticorp/dev.tsv").read_text(encoding="utf-8").split("\n")[1:]
    return [line.split("\t")[1] for line in lines if line]


def records(real_data: Path) -> list[str]:
    lines = (real_data / "kbert/medical_ner/dev.tsv").read_text(encoding="utf-8").split("\n")[1:]
    return [line.split("\t")[0].replace(" ", "") for line in lines if "\t" in line]


@pytest.mark.parametrize("corpus", [reviews, records])
def test_real_corpora_equal_the_loops(
    real_graph: tuple[KnowledgeGraph, Subjects], real_data: Path, corpus: Callable[[Path], list[str]]
) -> None:
    graph, subjects = real_graph
    rows = corpus(real_data)
    assert len(rows) > 500
    own_field = (corpus is records) == (graph.info.sources == ("Medical.spo",))
    rows = rows if own_field else rows[::5]  # the graph of another field has little to graft
    policy = GraftPolicy(max_length=80, max_positions=72)
    trees = check_block(graph, subjects, policy, trunks_of(rows, length=64))
    assert trees.counters["branches"] > 0 or not own_field
    check_block(graph, subjects, policy, trunks_of(rows[:80], rows[80:160], length=64))


def test_real_rows_exercise_every_budget(
    real_graph: tuple[KnowledgeGraph, Subjects], real_data: Path
) -> None:
    graph, subjects = real_graph
    rows = reviews(real_data)[:150] + records(real_data)[:150]
    policy = GraftPolicy(branches_per_mention=1, max_length=34, max_positions=33, max_object_length=3)
    trees = check_block(graph, subjects, policy, trunks_of(rows, length=32))
    assert trees.counters["dropped_anchor_cut"] > 0
    assert trees.counters["dropped_budget"] + trees.counters["dropped_position"] > 0
    json.dumps(trees.counters)  # plain integers, for manifests
