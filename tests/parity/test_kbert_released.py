"""Where the code that K-BERT's authors released does otherwise than the paper, and what is done here.

`Released` is a small emulation of `brain/knowgraph.py`, written for these tests from what that file does.
Where nothing is cut and no choice is left to a set, it and the trees here are the same.
"""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg import GraftPolicy, KnowledgeGraph, TreeBuilder, Trees, compile_graph
from kg.tree.rows import Trunks
from tests.kg.handmade import graph_of, tokenize, tokens, trees_of, trunks_of, words_of
from tests.parity.test_kbert import visible_matrix

TAGS = ("[CLS]", "[SEP]", "[PAD]")


@dataclass
class Released:
    """What `add_knowledge_with_vm` returns for one sentence, given its words."""

    tokens: list[str]
    positions: list[int]
    visible: np.ndarray  # bool[n, n]
    injected: list[int]  # 1 on tokens of the graph

    @classmethod
    def row(cls, words: list[str], table: dict[str, list[str]], most: int = 2) -> Released:
        tokens: list[str] = []
        positions: list[int] = []
        injected: list[int] = []
        trunk: list[int] = []
        entities: list[tuple[list[int], list[list[int]]]] = []
        position = -1
        for word in words:
            pieces = [word] if word in TAGS else list(word)
            own = list(range(len(tokens), len(tokens) + len(pieces)))
            tokens += pieces
            positions += range(position + 1, position + 1 + len(pieces))
            injected += [0] * len(pieces)
            position += len(pieces)
            trunk += own
            branches = []
            for value in table.get(word, [])[:most]:
                branches.append(list(range(len(tokens), len(tokens) + len(value))))
                tokens += value
                positions += range(position + 1, position + 1 + len(value))
                injected += [1] * len(value)
            entities.append((own, branches))
        visible = np.zeros((len(tokens), len(tokens)), np.bool_)
        for own, branches in entities:
            for i in own:
                visible[i, trunk + [j for branch in branches for j in branch]] = True
            for branch in branches:
                for i in branch:
                    visible[i, branch + own] = True
        return cls(tokens, positions, visible, injected)

    def cut(self, length: int) -> Released:
        """Cut or padded to `length`."""
        more = max(0, length - len(self.tokens))
        return Released(
            (self.tokens + ["[PAD]"] * more)[:length],
            (self.positions + [length - 1] * more)[:length],
            np.pad(self.visible, ((0, more), (0, more)))[:length, :length],
            (self.injected + [0] * more)[:length],
        )


def trunk_of_words(words: list[str]) -> Trunks:
    text = "".join(words)
    ends = np.cumsum([0, *map(len, words)]).tolist()
    given_words = words_of([list(itertools.pairwise(ends))])
    plain = trunks_of([text])
    return Trunks(**{**vars(plain), "words": (given_words, None)})


@settings(max_examples=100, deadline=None)
@given(words=st.lists(st.sampled_from(["苹果", "果", "好", "梨子", "很甜的", "子"]), max_size=12))
def test_the_same_where_nothing_is_cut_and_nothing_chosen(words: list[str], small: KnowledgeGraph) -> None:
    table = {"苹果": ["水果", "红"], "梨子": ["水果"], "子": ["很长的对象"]}
    theirs = Released.row(["[CLS]", *words, "[SEP]"], table)
    policy = GraftPolicy(match="words", min_mention_length=1)
    ours = TreeBuilder(small, policy, tokenize).build(trunk_of_words(words))
    assert tokens(ours.ids) == theirs.tokens
    assert ours.soft_positions.tolist() == theirs.positions
    assert (ours.branch > 0).astype(int).tolist() == theirs.injected
    np.testing.assert_array_equal(
        visible_matrix(ours.branch, ours.mention, ours.branch_parents), theirs.visible
    )


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeGraph:
    lines = ("苹果\t类\t水果", "苹果\t色\t红", "梨子\t类\t水果", "子\t类\t很长的对象")
    return graph_of(tmp_path_factory.mktemp("kg"), *lines)


def test_which_objects_are_taken_hangs_on_the_hash_seed_there(tmp_path: Path) -> None:
    """Objects are put into a set, and the first two of it are taken."""
    script = "print(list({'A1', 'A2', 'A3', 'A4', 'A5'})[:2])"
    taken = {
        subprocess.run(
            [sys.executable, "-c", script], env={"PYTHONHASHSEED": str(seed)}, capture_output=True
        ).stdout
        for seed in range(6)
    }
    assert len(taken) > 1
    lines = [f"甲词\t类\tA{k}" for k in range(1, 6)]
    build = (
        "from pathlib import Path; from tests.kg.handmade import graph_of, trees_of, tokens; import sys; "
        f"print(tokens(trees_of(graph_of(Path(sys.argv[1]), *{lines!r}), '甲词').ids))"
    )
    ours = set()
    for seed in range(2):
        folder = tmp_path / str(seed)
        folder.mkdir()
        ran = subprocess.run(
            [sys.executable, "-c", build, str(folder)],
            cwd=Path(__file__).parents[2], env={"PYTHONHASHSEED": str(seed), "PYTHONUTF8": "1"},
            capture_output=True, check=True,
        )  # fmt: skip
        ours.add(ran.stdout.decode())
    assert ours == {"['[CLS]', '甲', '词', 'A', '1', 'A', '2', '[SEP]']\n"}


def test_rows_are_cut_through_branch_trunk_and_last_sep_there(small: KnowledgeGraph) -> None:
    words = ["我", "爱", "苹果", "和", "梨子"]
    theirs = Released.row(["[CLS]", *words, "[SEP]"], {"苹果": ["水果", "红"], "梨子": ["水果"]})
    assert theirs.cut(6).tokens == [
        "[CLS]",
        "我",
        "爱",
        "苹",
        "果",
        "水",
    ]  # half a branch, no trunk, no [SEP]
    trunks = trunks_of(["我爱苹果和梨子"], length=6)
    ours = TreeBuilder(small, GraftPolicy(max_length=6), tokenize).build(trunks)
    assert tokens(ours.ids) == ["[CLS]", "我", "爱", "苹", "果", "[SEP]"]
    roomy = TreeBuilder(small, GraftPolicy(max_length=7), tokenize).build(trunks)
    assert tokens(roomy.ids) == ["[CLS]", "我", "爱", "苹", "果", "红", "[SEP]"]


def test_padding_has_a_real_position_and_sees_nothing_there(small: KnowledgeGraph) -> None:
    theirs = Released.row(["[CLS]", "苹果", "[SEP]"], {"苹果": ["水果"]}).cut(9)
    pad = [k for k, token in enumerate(theirs.tokens) if token == "[PAD]"]
    assert [theirs.positions[k] for k in pad] == [8, 8, 8]  # max_length - 1, a place that a token may have
    assert not theirs.visible[pad].any()  # a softmax over nothing
    ours = trees_of(small, "苹果", max_length=9)
    assert len(ours.ids) == 7 and "[PAD]" not in tokens(ours.ids)
    matrix = visible_matrix(ours.branch, ours.mention, ours.branch_parents)
    assert matrix.diagonal().all()


def test_segments_are_numbered_by_the_seps_seen_there(small: KnowledgeGraph) -> None:
    """The string "[SEP]" in a text counts as one, and so does the one at the end of each segment."""

    def numbered(row: list[str]) -> list[int]:
        number, numbers = 1, []
        for token in row:
            numbers.append(number)
            number += token == "[SEP]"
        return numbers

    theirs = Released.row(["[CLS]", "甲", "[SEP]", "乙", "[SEP]", "苹果", "[SEP]"], {"苹果": ["水果"]})
    assert numbered(theirs.tokens)[-1] == 3
    ours = TreeBuilder(small, GraftPolicy(), tokenize).build(trunks_of(["甲[SEP]乙"], ["苹果"]))
    assert tokens(ours.ids)[1:8] == list("甲[SEP]乙")[:7]
    assert ours.type_ids.tolist() == [0] * 9 + [1] * 6
    assert set(ours.type_ids[ours.branch > 0].tolist()) == {1}  # a branch has its anchor's


def test_a_line_that_is_no_triple_repeats_the_one_before_there(tmp_path: Path) -> None:
    def read(lines: list[str]) -> list[tuple[str, str, str]]:
        triples = []
        for line in lines:
            with contextlib.suppress(ValueError):
                subject, predicate, object_ = line.strip().split("\t")
            triples.append((subject, predicate, object_))
        return triples

    good = "苹果\t类\t水果"
    assert read([good, "苹果 类 红"]) == [("苹果", "类", "水果")] * 2
    with pytest.raises(UnboundLocalError):
        read(["苹果 类 红", good])
    source = tmp_path / "broken.spo"
    source.write_text(f"苹果 类 红\n{good}\n苹果\t类\n", encoding="utf-8")
    rejected: list[int] = []
    info = compile_graph([str(source)], tmp_path / "kg", on_reject=lambda line: rejected.append(line.line))
    assert (info.triples, rejected) == (1, [1, 3])


def test_predicate_and_object_are_glued_there(tmp_path: Path) -> None:
    theirs = Released.row(["TimCook"], {"TimCook": ["CEO" + "Apple"]})
    assert "".join(theirs.tokens) == "TimCookCEOApple"  # and to characters, whatever the vocabulary is
    asked: list[str] = []

    def listen(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        asked.extend(texts)
        return tokenize(texts)

    graph = graph_of(tmp_path, "TimCook\tCEO\tApple")
    TreeBuilder(graph, GraftPolicy(predicate=True), listen).build(trunks_of(["TimCook"]))
    assert asked == ["CEO Apple"]


def test_entities_of_tags_reach_over_the_graphs_tokens_there(tmp_path: Path) -> None:
    """The end of an entity is the last token before the next tag, injected ones included: where the same
    entity has another branch, or none, it is another entity."""

    def spans(tags: list[str]) -> list[tuple[int, int]]:
        found = []
        for start, tag in enumerate(tags):
            if tag.startswith("B-"):
                end = start + 1
                while end < len(tags) and tags[end] != "O" and not tags[end].startswith("B-"):
                    end += 1
                found.append((start, end))
        return found

    labels = ["B-LOC", "I-LOC", "O"]
    theirs = Released.row(["北京", "好"], {"北京": ["首都"]})
    queue = iter(labels)
    tags = ["[ENT]" if injected else next(queue) for injected in theirs.injected]
    assert (tags, spans(tags)) == (["B-LOC", "I-LOC", "[ENT]", "[ENT]", "O"], [(0, 4)])

    ours: Trees = trees_of(graph_of(tmp_path, "北京\t类\t首都"), "北京好")
    on_trunk = ours.trunk_index >= 0
    flat = np.where(on_trunk, np.array(["", *labels, ""])[ours.trunk_index], "[ENT]")
    back = np.empty(5, object)
    back[ours.trunk_index[on_trunk]] = flat[on_trunk]
    assert spans(back[1:-1].tolist()) == [(0, 2)]


def test_a_tag_may_be_an_entity_there(tmp_path: Path) -> None:
    theirs = Released.row(["[CLS]", "好", "[SEP]"], {"[SEP]": ["记号"]})
    assert theirs.tokens == ["[CLS]", "好", "[SEP]", "记", "号"]
    ours = trees_of(graph_of(tmp_path, "[SEP]\t类\t记号", "[CLS]\t类\t记号"), "好")
    assert tokens(ours.ids) == ["[CLS]", "好", "[SEP]"]
