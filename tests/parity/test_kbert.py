"""Sentence trees as columns against the paper's construction as loops (K-BERT, 3.2 to 3.4)."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import jieba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg import BuildOptions, GraftPolicy, KnowledgeGraph, TreeBuilder, Trees, Trunks, Words, compile_graph
from tests.kg.handmade import graph_of, tokenize, tokens, trunks_of, words_of
from tests.parity.kbert_reference import (
    Branch,
    Entity,
    Flat,
    Knowledge,
    Triple,
    find_entity,
    flatten,
    inject,
    longest_mentions,
    read_knowledge,
    word_mentions,
)


def visible_matrix(branch: np.ndarray, mention: np.ndarray, parents: np.ndarray) -> np.ndarray:
    """The visible matrix as a predicate over the branch and mention of each token and the parent of each
    branch of the row."""
    q_branch, k_branch = branch[:, None], branch[None, :]
    one_on_trunk = (q_branch == 0) != (k_branch == 0)
    same_mention = (mention[:, None] == mention[None, :]) & (mention[:, None] >= 0)
    parent = np.concatenate(([-1], np.where(parents > 0, parents, -1)))[branch]  # -1 on and from the trunk
    hangs = (parent[:, None] == k_branch) | (q_branch == parent[None, :])
    return (q_branch == k_branch) | (one_on_trunk & same_mention) | hangs


class Rows:
    """Rows of a block beside what the loops say."""

    def __init__(self, graph: KnowledgeGraph, knowledge: Knowledge) -> None:
        self.graph = graph
        self.knowledge = knowledge
        said = (Triple(*triple) for triples in knowledge.triples.values() for triple in map(_parts, triples))
        numbers = {
            Triple(knowledge.folded(graph.subject(t)), graph.predicate(t), graph.object(t)): t
            for t in range(graph.info.triples)
        }
        assert len(numbers) == graph.info.triples
        assert set(numbers) == set(said)
        self.number = numbers

    def check(self, policy: GraftPolicy, trunks: Trunks, builder: TreeBuilder | None = None) -> Trees:
        trees = (builder or TreeBuilder(self.graph, policy, tokenize)).build(trunks)
        counts: Counter[str] = Counter()
        for row, (expected, counted) in enumerate(reference_rows(trunks, self.knowledge, policy)):
            self.check_row(trees, row, expected)
            counts.update(counted)
        assert {name: n for name, n in trees.counters.items() if n} == +counts
        return trees

    def check_row(self, trees: Trees, row: int, expected: Flat) -> None:
        part = slice(*trees.row_offsets[row : row + 2])
        branches = slice(*trees.branch_offsets[row : row + 2])
        assert tokens(trees.ids[part]) == expected.tokens
        assert trees.soft_positions[part].tolist() == expected.soft_positions
        assert trees.branch_triples[branches].tolist() == [self.number[t] for t in expected.triples]
        assert trees.branch_parents[branches].tolist() == expected.parents
        matrix = visible_matrix(trees.branch[part], trees.mention[part], trees.branch_parents[branches])
        np.testing.assert_array_equal(matrix, np.array(expected.visible, np.bool_))


def _parts(triple: Triple) -> tuple[str, str, str]:
    return triple.subject, triple.predicate, triple.object


def reference_rows(
    trunks: Trunks, knowledge: Knowledge, policy: GraftPolicy
) -> Iterator[tuple[Flat, Counter[str]]]:
    """Every row of a block by loops; a row's segments are searched one after the other."""
    for row in range(len(trunks.row_offsets) - 1):
        part = slice(*trunks.row_offsets[row : row + 2])
        trunk = tokens(trunks.ids[part])
        columns = (trunks.char_starts, trunks.char_stops, trunks.special, trunks.type_ids)
        marks = list(zip(*(column[part].tolist() for column in columns), strict=True))
        entities: list[Entity] = []
        counts: Counter[str] = Counter()
        for kind in (0, 1):
            text = trunks.texts[kind][row]
            if text is None:
                continue
            if policy.match == "words":
                assert trunks.words is not None
                words = trunks.words[kind]
                mentions = []
                if words is not None:
                    given = slice(*words.offsets[row : row + 2])
                    pairs = list(zip(words.starts[given].tolist(), words.stops[given].tolist(), strict=True))
                    mentions = word_mentions(text, pairs, knowledge, policy)
            else:
                mentions = longest_mentions(text, knowledge, policy)
            spans = [None if special or of != kind else (a, b) for a, b, special, of in marks]
            for mention in mentions:
                counts["mentions"] += 1
                entity = find_entity(spans, mention)
                if isinstance(entity, str):
                    counts[f"dropped_{entity}"] += 1
                else:
                    entity.subject = knowledge.folded(text[slice(*mention)])
                    entities.append(entity)
        counts += inject(trunk, entities, knowledge, policy)
        yield flatten(trunk, entities), counts


def test_the_papers_figure() -> None:
    """Figure 2: [CLS] Tim Cook is visiting Beijing now; words stand for tokens."""
    trunk = ["[CLS]", "Tim", "Cook", "is", "visiting", "Beijing", "now"]
    ceo, capital, city = (
        Triple("Tim Cook", "CEO", "Apple"),
        Triple("Beijing", "capital", "China"),
        Triple("Beijing", "is_a", "City"),
    )
    flat = flatten(
        trunk,
        [
            Entity(1, 2, [Branch(["CEO", "Apple"], ceo)]),
            Entity(5, 5, [Branch(["capital", "China"], capital), Branch(["is_a", "City"], city)]),
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


def test_a_path_goes_through_a_branch_and_what_hangs_from_it() -> None:
    fruit, plant, red = (
        Triple("apple", "is", "fruit"),
        Triple("fruit", "is", "plant"),
        Triple("apple", "is", "red"),
    )
    tree = [Entity(1, 1, [Branch(["fruit"], fruit, [Branch(["plant"], plant)]), Branch(["red"], red)])]
    flat = flatten(["[CLS]", "apple", "[SEP]"], tree)
    assert flat.tokens == ["[CLS]", "apple", "fruit", "plant", "red", "[SEP]"]
    assert flat.soft_positions == [0, 1, 2, 3, 2, 2]
    assert flat.parents == [0, 1, 0]
    assert [[j for j, seen in enumerate(row) if seen] for row in flat.visible] == [
        [0, 1, 5],
        [0, 1, 2, 3, 4, 5],
        [1, 2, 3],
        [1, 2, 3],
        [1, 4],
        [0, 1, 5],
    ]


# --- any graph, any text, any policy ------------------------------------------------------------

FOLDS: list[tuple[str, ...]] = [(), (), ("case",), ("nfkc", "case", "simplified")]
letters = st.text("甲乙aA1Ａ .", min_size=1, max_size=3)
predicates = st.sampled_from(["类", "属", ""])
things = letters | st.text("子丑寅卯 ", min_size=1, max_size=5)  # objects, often subjects too
triple_lists = st.lists(st.tuples(letters, predicates, things), min_size=1, max_size=14)


@st.composite
def policies(draw: st.DrawFn, longest: int, subjects: Sequence[str]) -> GraftPolicy:
    include = draw(st.none() | st.frozensets(predicates, min_size=1, max_size=2))
    exclude = draw(st.frozensets(predicates, max_size=2)) - (include or set())
    least = draw(st.integers(1, 2))
    return GraftPolicy(
        match=draw(st.sampled_from(["longest", "words"])),
        branches_per_mention=draw(st.integers(1, 3)),
        branches_per_row=draw(st.none() | st.integers(1, 6)),
        depth=draw(st.sampled_from([1, 2, 2])),
        rank=draw(st.sampled_from(["file", "shortest", "most_frequent", "least_frequent"])),
        predicate=draw(st.booleans()),
        include_predicates=include,
        exclude_predicates=exclude,
        min_mention_length=least,
        max_mention_length=draw(st.none() | st.integers(least, 3)),
        max_object_length=draw(st.integers(1, 5)),
        stop=draw(st.frozensets(st.sampled_from(subjects), max_size=1)),
        max_length=longest + draw(st.integers(0, 16)),
        max_positions=longest + draw(st.integers(0, 8)),
    )


def words_of_rows(draw: Callable[..., int], texts: Sequence[str | None]) -> Words:
    """Some segmentation of each text: pieces of one to three characters."""
    cuts = []
    for text in texts:
        at, pieces = 0, []
        while at < len(text or ""):
            end = min(at + draw(st.integers(1, 3)), len(text or ""))
            pieces.append((at, end))
            at = end
        cuts.append(pieces)
    return words_of(cuts)


@settings(max_examples=120, deadline=None)
@given(triples=triple_lists, fold=st.sampled_from(FOLDS), trunk_length=st.integers(4, 24), data=st.data())
def test_columns_equal_the_loops(
    triples: list[tuple[str, str, str]], fold: tuple[str, ...], trunk_length: int, data: st.DataObject
) -> None:
    lines = ["\t".join(triple) for triple in triples]
    knowledge = read_knowledge(lines, fold)
    if not knowledge.triples:
        return
    # Rows are full of mentions: subjects, and what could glue them together.
    subjects = sorted({s.strip() for s, _, _ in triples if s.strip()})
    piece = st.sampled_from([*subjects, "子", "a", "1", " ", ".", ".1", ",1"])
    text = st.lists(piece, max_size=8).map("".join)
    rows = data.draw(st.lists(st.tuples(text, st.none() | text), min_size=1, max_size=4))
    first, second = [a for a, _ in rows], [b for _, b in rows]
    trunks = trunks_of(first, second, length=trunk_length)
    trunks = dataclasses.replace(
        trunks, words=(words_of_rows(data.draw, first), words_of_rows(data.draw, second))
    )
    policy = data.draw(policies(int(np.diff(trunks.row_offsets).max()), subjects))
    with tempfile.TemporaryDirectory() as folder:
        graph = graph_of(Path(folder), *lines, fold=fold)
        trees = Rows(graph, knowledge).check(policy, trunks)
    check_invariants(policy, trunks, trees)


def check_invariants(policy: GraftPolicy, trunks: Trunks, trees: Trees) -> None:
    counters = trees.counters
    assert counters["mentions"] == (
        counters["mentions_grafted"]
        + counters["mentions_without_branch"]
        + counters["dropped_anchor_cut"]
        + counters["dropped_unaligned"]
    )
    assert counters["branches"] == len(trees.branch_triples) == len(trees.branch_parents)
    assert np.diff(trees.row_offsets).max(initial=0) <= policy.max_length
    assert trees.soft_positions.max(initial=0) < policy.max_positions
    on_trunk = trees.branch == 0
    np.testing.assert_array_equal(trees.ids[on_trunk], trunks.ids)
    np.testing.assert_array_equal(trees.trunk_index[on_trunk], trees.soft_positions[on_trunk])
    assert (trees.trunk_index[~on_trunk] == -1).all()
    row = np.repeat(np.arange(len(trees.branch_offsets) - 1), np.diff(trees.branch_offsets))
    number = np.arange(len(row)) - trees.branch_offsets[row] + 1
    assert (trees.branch_parents < number).all() and (trees.branch_parents >= 0).all()
    json.dumps(counters)  # plain integers, for manifests


# --- real graphs and texts ----------------------------------------------------------------------


@pytest.fixture(scope="module", params=["HowNet", "Medical"])
def real(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, real_data: Path) -> Rows:
    source = real_data / "kg" / f"{request.param}.spo"
    folder = tmp_path_factory.mktemp("kg") / request.param
    compile_graph([str(source)], folder)
    lines = source.read_text(encoding="utf-8").split("\n")
    return Rows(KnowledgeGraph.open(folder), read_knowledge(lines))


def reviews(real_data: Path, *splits: str) -> list[str]:
    rows = []
    for split in splits:
        text = (real_data / f"kbert/chnsenticorp/{split}.tsv").read_text(encoding="utf-8")
        rows += [line.split("\t")[1] for line in text.split("\n")[1:] if line]
    return rows


def records(real_data: Path, *splits: str) -> list[str]:
    rows = []
    for split in splits:
        text = (real_data / f"kbert/medical_ner/{split}.tsv").read_text(encoding="utf-8")
        rows += [line.split("\t")[0].replace(" ", "") for line in text.split("\n")[1:] if "\t" in line]
    return rows


def segmented(texts: Sequence[str]) -> Words:
    """Words by jieba, for both sides."""
    cuts = []
    for text in texts:
        at, pieces = 0, []
        for word in jieba.cut(text):
            pieces.append((at, at + len(word)))
            at += len(word)
        assert at == len(text)
        cuts.append(pieces)
    return words_of(cuts)


Corpus = Callable[..., list[str]]


@pytest.mark.parametrize("corpus", [reviews, records])
def test_real_corpora_equal_the_loops(real: Rows, real_data: Path, corpus: Corpus) -> None:
    rows = corpus(real_data, "dev")
    assert len(rows) > 500
    own_field = (corpus is records) == (real.graph.info.sources == ("Medical.spo",))
    rows = rows[::3] if own_field else rows[::8]  # the graph of another field has little to graft
    policy = GraftPolicy(max_length=80, max_positions=72)
    trees = real.check(policy, trunks_of(rows, length=64))
    assert trees.counters["branches"] > 0 or not own_field
    real.check(policy, trunks_of(rows[:60], rows[-60:], length=64))


@pytest.mark.parametrize(
    "policy",
    [
        {"match": "words", "min_mention_length": 1},
        {"depth": 2, "branches_per_mention": 3, "min_mention_length": 1, "max_length": 120},
        {"rank": "shortest", "predicate": True},
        {"rank": "most_frequent", "branches_per_row": 3},
        {"rank": "least_frequent", "max_mention_length": 5, "depth": 2},
    ],
)
def test_real_rows_under_other_policies(real: Rows, real_data: Path, policy: dict[str, object]) -> None:
    rows = reviews(real_data, "dev")[:100] + records(real_data, "dev")[:100]
    trunks = dataclasses.replace(trunks_of(rows, length=64), words=(segmented(rows), None))
    trees = real.check(GraftPolicy(**{"max_length": 90, "max_positions": 80, **policy}), trunks)  # type: ignore[arg-type]
    assert trees.counters["branches"] > 0, trees.counters


@pytest.mark.parametrize("match", ["longest", "words"])
def test_real_rows_and_a_folded_graph(tmp_path: Path, real_data: Path, match: str) -> None:
    """Some reviews are written in traditional characters, HowNet is not."""
    source, fold = real_data / "kg/HowNet.spo", ("nfkc", "case", "simplified")
    compile_graph([str(source)], tmp_path / "kg", options=BuildOptions(fold=fold))
    graph = KnowledgeGraph.open(tmp_path / "kg")
    lines = source.read_text(encoding="utf-8").split("\n")
    written = reviews(real_data, "train", "dev", "test")
    rows = [text for text in written if set(text) & set("這還沒對說來時個們會後")]
    assert len(rows) > 50
    trunks = dataclasses.replace(trunks_of(rows, length=96), words=(segmented(rows), None))
    policy = GraftPolicy(match=match, depth=2, max_length=128, min_mention_length=1)  # type: ignore[arg-type]
    trees = Rows(graph, read_knowledge(lines, fold)).check(policy, trunks)
    plain = read_knowledge(lines)
    unfolded = sum(len(longest_mentions(text, plain, policy)) for text in rows)
    assert trees.counters["mentions"] > (unfolded if match == "longest" else 0)


def test_real_rows_exercise_every_budget(real: Rows, real_data: Path) -> None:
    rows = reviews(real_data, "dev")[:150] + records(real_data, "dev")[:150]
    policy = GraftPolicy(branches_per_mention=1, max_length=34, max_positions=33, max_object_length=3)
    trees = real.check(policy, trunks_of(rows, length=32))
    assert trees.counters["dropped_anchor_cut"] > 0
    assert trees.counters["dropped_budget"] + trees.counters["dropped_position"] > 0


@pytest.mark.heavy
@pytest.mark.parametrize("match", ["longest", "words"])
@pytest.mark.parametrize("corpus", [reviews, records])
def test_every_row_of_the_real_corpora_equals_the_loops(
    real: Rows, real_data: Path, corpus: Corpus, match: str
) -> None:
    """Tokens, soft positions, triples and visible matrix of each row of train, dev and test."""
    rows = corpus(real_data, "train", "dev", "test")
    assert len(rows) > 7_000
    least = 1 if match == "words" else 2
    policy = GraftPolicy(match=match, min_mention_length=least, max_length=160, max_positions=128)  # type: ignore[arg-type]
    builder = TreeBuilder(real.graph, policy, tokenize)
    compared = branches = 0
    for at in range(0, len(rows), 1_000):
        block = rows[at : at + 1_000]
        trunks = dataclasses.replace(trunks_of(block, length=128), words=(segmented(block), None))
        branches += real.check(policy, trunks, builder).counters["branches"]
        compared += len(block)
    assert compared == len(rows)
    print(f"{compared} rows with {branches} branches compared")
