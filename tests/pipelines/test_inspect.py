"""`treegraft inspect`: what is drawn, that it lines up, and that nothing in data can act on a terminal or a page."""

from __future__ import annotations

import io
import itertools
import random
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from typer.testing import CliRunner

from pipelines import look_commands
from pipelines.view.branchview import Branch, TreeToken, Triple
from pipelines.view.folder import FolderError, open_folder
from pipelines.view.inspect import load, render_row, show
from pipelines.view.inspect_html import _levels
from pipelines.view.legible import clip, legible, legible_token
from pipelines.view.maskview import ancestors, grid_text, unilm, visible, window
from pipelines.view.parseview import layout_parse
from pipelines.view.rowview import RowView, Word
from pipelines.view.tables import side_by_side
from pipelines.view.treetext import tree_text
from pipelines.view.treeview import layout_tree
from tests import rows
from tests.pipelines.handmade import Vocabulary, make_row, write_annotated, write_dataset

EVIL = "\x1b[31m\u202e\u200b<script>alert(1)</script>[bold]&\"'\n\x07"


def printed(folder: Path, width: int = 100, **options: object) -> str:
    """What `show` prints to a terminal of `width` cells without colours."""
    out = io.StringIO()
    show(folder, Console(file=out, width=width, color_system=None), **options)  # type: ignore[arg-type]
    return out.getvalue()


def drawn(view: RowView, width: int = 100) -> list[str]:
    """Lines of the sentence tree."""
    return tree_text(view.tree or [], view.branches, width).plain.split("\n")


def view_of(folder: Path, row: int | str = 0, split: str | None = None) -> RowView:
    view = load(folder, row, split)
    assert isinstance(view, RowView)
    return view


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """Two splits; `train` has two shards of three rows and one."""
    fine, coarse = Vocabulary("龘"), Vocabulary("很好")
    apple = make_row(
        fine, coarse, "apple#0", [["苹果", "好"]], [1, 1], [1, 0], [(1, 3, [(1, "水果")])], label=1
    )
    two = make_row(
        fine,
        coarse,
        "two#0",
        [["苹果", "很好", "，"], ["北京", "龘"]],
        [1, 1, 1, 4, 4],
        [1, 0, 3, 1, 0],
        [(1, 3, [(1, "水果"), (2, "红色")]), (6, 8, [(0, "华北")])],
        label=0,
    )
    evil = make_row(fine, coarse, f"evil{EVIL}", [[EVIL, "ok"]], [0, 0], label=0)
    long = make_row(
        fine,
        coarse,
        "long#0",
        [["苹果", "好吃"] * 30],
        [0] * 60,
        grafts=[(81, 83, [(1, "水果")])],
        label_score=0.25,
    )
    return write_dataset(
        tmp_path / "d", {"train": [[apple, two, evil], [long]], "dev": [[two]]}, fine, coarse
    )


# --- the tree ---------------------------------------------------------------------------------


def test_tree_is_drawn_like_the_papers_figure(dataset: Path) -> None:
    assert drawn(view_of(dataset)) == [
        "[CLS] 苹 果 好 [SEP]",
        "  0   1  2  3    4",
        "         └─ 水 果   (苹果 类别 水果)",
        "            3  4",
    ]


def test_branches_of_several_mentions_hang_under_their_own_anchor(dataset: Path) -> None:
    assert drawn(view_of(dataset, 1)) == [
        "[CLS] 苹 果 很 好 ， 北 京 [UNK] [SEP]",
        "  0   1  2  3  4  5  6  7    8     9",
        "         │              └─ 华 北   (北京 位于 华北)",
        "         │                 8  9",
        "         ├─ 水 果   (苹果 类别 水果)",
        "         │  3  4",
        "         └─ 红 色   (苹果 颜色 红色)",
        "            3  4",
    ]


def depth_two(tmp_path: Path) -> Path:
    """苹果 with 水果 and 红色; 红色, a subject too, has two branches of its own, the second a long one."""
    fine, coarse = Vocabulary(), Vocabulary()
    grafts = [(1, 3, [(2, "红色", [(0, "三原色"), (3, "暖色调")]), (1, "水果")])]
    row = make_row(fine, coarse, "a#0", [["苹果", "好"]], [1, 1], grafts=grafts, label=1)
    return write_dataset(tmp_path / "d", {"train": [[row]]}, fine, coarse)


def test_a_branch_of_a_branch_hangs_from_its_parents_last_token(tmp_path: Path) -> None:
    folder = depth_two(tmp_path)
    assert drawn(view_of(folder)) == [
        "[CLS] 苹 果 好 [SEP]",
        "  0   1  2  3    4",
        "         ├─ 红 色   (苹果 颜色 红色)",
        "         │  3  4",
        "         │     ├─ 三 原 色   (北京 位于 华北)",
        "         │     │  5  6  7",
        "         │     └─ 暖 色 调   (triple 3: not in the graph)",
        "         │        5  6  7",
        "         └─ 水 果   (苹果 类别 水果)",
        "            3  4",
    ]
    page = Page.read(folder, tmp_path)
    assert "Sentence tree: 4 branches on 1 mention" in page.texts


@pytest.mark.parametrize("width", [40, 60, 100])
def test_branches_are_listed_with_their_triples_and_where_those_stand(tmp_path: Path, width: int) -> None:
    folder = depth_two(tmp_path)
    text = printed(folder, width)
    assert "1 mention, 4 branches (2 of depth 2)" in " ".join(text.split())
    assert (
        max(cell_len(line) for line in text.split("\nbranches", 1)[1].split("\ntokens")[0].split("\n"))
        <= width
    )
    if width == 100:
        lines = [line.split() for line in text.split("\n")]
        assert ["1", "苹果", "苹果", "颜色", "红色", "g.spo:3"] in lines
        assert ["2", "branch", "1", "北京", "位于", "华北", "g.spo:1"] in lines
        assert ["4", "苹果", "苹果", "类别", "水果", "g.spo:2"] in lines
    page = Page.read(folder, tmp_path).texts
    assert {"branch 1", "g.spo:3", "g.spo:1", "hangs from"} <= set(page)


def test_branches_that_hang_from_nothing_and_chains_without_end_are_still_shown(dataset: Path) -> None:
    view = view_of(dataset)
    chain = [
        Branch(n, 0, [TreeToken(str(n), n, n, 0, -1, n - 1)], Triple("s", "", "o"), n - 1)
        for n in range(1, 2000)
    ]
    layout = layout_tree([*(view.tree or [])[:4], *(t for b in chain for t in b.tokens)], chain, 60)
    assert sum(c.kind == "branch" for c in layout.cells) == len(chain)
    lost = Branch(2, 0, [TreeToken("x", 1, 2, 0, -1, 7)], Triple("s", "", "o"), 7)
    layout = layout_tree(view.tree or [], [*view.branches, lost], 60)
    assert "branch 2 hangs on branch 7:" in [c.text for c in layout.cells]


def at_cell(line: str, column: int) -> str:
    """The text of `line` from terminal column `column` on; fails if the column cuts a character."""
    width = 0
    for i, char in enumerate(line):
        if width == column:
            return line[i:]
        width += cell_len(char)
    assert width == column, f"column {column} lies inside a character or past {line!r}"
    return ""


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(40, 120))
def test_every_token_stands_over_its_soft_position(
    tmp_path_factory: pytest.TempPathFactory, seed: int, width: int
) -> None:
    view = random_view(tmp_path_factory.mktemp("r"), seed)
    layout = layout_tree(view.tree or [], view.branches, width)
    lines = drawn(view, width)
    others = [c for c in layout.cells if c.kind != "position"]
    below = {(c.y, c.x + (len(c.text) - 1) / 2): c.text for c in layout.cells if c.kind == "position"}
    tokens = [c for c in others if c.kind != "triple"]
    assert len(tokens) == len(view.tree or [])
    for cell in layout.cells:
        assert at_cell(lines[cell.y], cell.x).startswith(cell.text)
    for cell in tokens:  # each token's middle is within a cell of the middle of its position
        middle = cell.x + (cell_len(cell.text) - 1) / 2
        near = [text for (y, x), text in below.items() if y == cell.y + 1 and abs(x - middle) <= 1]
        assert len(near) == 1
        assert f"soft position {near[0]}" in cell.title
    for link in layout.links:  # nothing but its own branches touches a connector
        for y in range(link.top, link.stops[-1] + 1):
            assert at_cell(lines[y], link.x)[0] in "│├└"
    assert len(layout.links) == len({(b.mention, b.parent) for b in view.branches})


@pytest.mark.parametrize("before", range(30))
def test_branches_of_branches_hang_from_the_last_token(before: int) -> None:
    trunk = [TreeToken("字", n, 0, -1, n) for n in range(before)]
    trunk += [TreeToken("苹", before, 0, 0, before), TreeToken("果", before + 1, 0, 0, before + 1)]
    outer = [TreeToken(char, before + 2 + n, 1, 0, -1) for n, char in enumerate("一致性甲乙")]
    inner = [TreeToken("续", before + 7, 2, 0, -1, 1)]
    branches = [Branch(1, 0, outer, Triple("苹果", "义原", "一致性"))]
    branches.append(Branch(2, 0, inner, Triple("一致性", "义原", "续" * 12), 1))
    for width in (60, 80, 100):
        layout = layout_tree([*trunk, *outer, *inner], branches, width)
        (last,) = [c for c in layout.cells if c.text == "乙"]
        (child,) = [c for c in layout.cells if c.text == "续"]
        (link,) = [link for link in layout.links if child.y in link.stops]
        assert last.x <= link.x < last.x + cell_len(last.text)
        assert max(c.x + cell_len(c.text) for c in layout.cells) <= width


def random_view(folder: Path, seed: int) -> RowView:
    row = rows.make_row(random.Random(seed), "classify", rows.GROUPS, "r", most_words=20)
    schema = rows.rows_schema("classify", rows.GROUPS)
    return view_of(rows.write_folder(folder, schema, {"train": [[row]]}, task="classify"))


def test_a_branch_without_an_anchor_is_still_shown(dataset: Path) -> None:
    view = view_of(dataset)
    tree = [t for t in view.tree or [] if t.trunk not in (1, 2)]
    layout = layout_tree(tree, view.branches, 80)
    assert any("hangs on no anchor" in c.text for c in layout.cells)
    assert [c.text for c in layout.cells if c.kind == "branch"] == ["水", "果"]


def test_trees_of_another_graph_get_no_triples(dataset: Path, tmp_path: Path) -> None:
    from kg.compile import compile_graph

    (tmp_path / "other.spo").write_text("苹果\t类别\t公司\n", encoding="utf-8")
    compile_graph([str(tmp_path / "other.spo")], dataset / "graph")
    text = printed(dataset)
    assert "公司" not in text
    assert "triple 1" in text
    assert "not the one these rows were made with" in text


# --- the parts --------------------------------------------------------------------------------


def test_header_and_tokens(dataset: Path) -> None:
    text = printed(dataset, row=1)
    assert "two#0" in text
    assert "train-00000-of-00002.arrow, row 1" in text
    assert "negative (0)" in text
    line = next(line.split() for line in text.splitlines() if "[UNK]" in line and "龘" in line)
    assert line[:5] == ["8", "[UNK]", "1", "龘", "7–8"]
    coarse = next(line for line in text.splitlines() if "很·3" in line)
    assert coarse.split() == ["2", "[UNK]", "1", "很·3", "好·4", "很好·1"]


def test_fine_tokens_stand_under_their_coarse_token(dataset: Path) -> None:
    lines = printed(dataset, row=1, width=34).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("coarse tokens"))
    assert lines[at] == "coarse tokens  7 over 10 tokens"
    assert [line.rstrip() for line in lines[at + 1 : at + 6]] == [
        "[CLS]  苹果   [UNK]  ，  北京",
        "[CLS]  苹 果  很 好  ，  北 京",
        "",
        "龘     [SEP]",
        "[UNK]  [SEP]",
    ]


def test_score_is_shown_and_a_row_of_the_second_shard_is_found(dataset: Path) -> None:
    text = printed(dataset, row=3, grid="none")
    assert "train-00001-of-00002.arrow, row 0" in text
    assert "0.25" in text


@pytest.mark.parametrize("width", [60, 80, 120])
def test_narrow_terminals_fold_words_and_leave_numbers_whole(tmp_path: Path, width: int) -> None:
    """All columns there are, and a token of 100 characters: a number is shown whole or its column left out."""
    fine, coarse = Vocabulary(), Vocabulary()
    row = make_row(
        fine,
        coarse,
        "t#0",
        [["w" * 100, "苹果"]],
        [0, 0],
        grafts=[(101, 103, [(1, "水果")])],
        token_labels=[0],
    )
    row["text_pair"], row["token_labels"] = "好", [-100, *[1] * 102, -100]
    row["input_ids"][101] = 123_456  # type: ignore[index]
    labels = ["O", "B-" + "very-long-label" * 3]
    folder = write_dataset(tmp_path / "d", {"train": [[row]]}, fine, coarse, task="tag", labels=labels)
    text = printed(folder, width=width, grid="none")
    table = text[text.index("tokens  104") : text.index("dependency parse")]
    assert max(cell_len(line) for line in table.split("\n")) <= width
    assert "…" not in table
    title, header = table.split("\n")[:2]
    left_out = title.partition("left out")[2]
    line = next(line.split() for line in table.split("\n") if line.startswith("101 "))
    for name, value in (("id", "123456"), ("chars", "100–101"), ("mention", "0")):
        assert (value in line) == (name in header.split()) == (name not in left_out)
    assert "soft" in header.split()
    assert width < 120 or "left out" not in title


def test_branches_with_predicates_and_unknown_objects_are_told_by_their_triple(tmp_path: Path) -> None:
    """A branch of nothing but [UNK], and one that begins with its predicate, as `graph.predicate` makes them."""
    fine, coarse = Vocabulary("水", "果"), Vocabulary()
    grafts = [(1, 3, [(1, "水果"), (2, "颜色红色")])]
    row = make_row(fine, coarse, "a#0", [["苹果", "好"]], [1, 1], grafts=grafts, label=1)
    folder = write_dataset(tmp_path / "d", {"train": [[row]]}, fine, coarse)
    assert drawn(view_of(folder)) == [
        "[CLS] 苹 [UNK] 好 [SEP]",
        "  0   1    2   3    4",
        "           ├─ [UNK] [UNK]   (苹果 类别 水果)",
        "           │    3     4",
        "           └─ 颜 色 红 色   (苹果 颜色 红色)",
        "              3  4  5  6",
    ]
    assert "(苹果 类别 水果)" in printed(folder, width=40)
    assert {"(苹果 类别 水果)", "(苹果 颜色 红色)"} <= set(Page.read(folder, tmp_path).texts)


def test_one_of_a_thing_is_singular(tmp_path: Path) -> None:
    fine, coarse = Vocabulary(), Vocabulary()
    row = make_row(fine, coarse, "a#0", [["好"]], [0], label=1)
    text = printed(write_dataset(tmp_path / "d", {"train": [[row]]}, fine, coarse))
    assert "text  1 character\n" in text
    assert "1 word, 1 sentence\n" in text


def test_parse_is_indented(dataset: Path) -> None:
    text = printed(dataset, row=1)
    block = text[text.index("dependency parse") :].split("\n")
    assert [line.split() for line in block[1:8]] == [
        ["sentence", "0"],
        ["很好", "root", "1"],
        ["├─", "苹果", "nsubj", "0", "←", "1"],
        ["└─", "，", "punct", "2", "←", "1"],
        ["sentence", "1"],
        ["龘", "root", "4"],
        ["└─", "北京", "nsubj", "3", "←", "4"],
    ]
    columns = {
        cell_len(line[: line.index(word)])
        for line, word in zip(block[2:5], ["root", "nsubj", "punct"], strict=True)
    }
    assert len(columns) == 1, "relations stand in one column, whatever the width of the words"


@given(st.integers(0, 10**6), st.integers(1, 40))
def test_parse_holds_every_word_once_below_its_head(seed: int, count: int) -> None:
    rng = random.Random(seed)
    heads = rows.make_heads(rng, [0] * count, extra_roots=0.2)
    words = [Word(str(i), h, "", 0) for i, h in enumerate(heads)]
    lines = layout_parse(words, range(count), 200)
    assert sorted(b.word for b in lines) == list(range(count))
    path: list[int] = []
    for bough in lines:
        path[bough.depth :] = [bough.word]
        assert heads[bough.word] == (path[bough.depth - 1] if bough.depth else bough.word)


def test_a_cycle_and_a_very_deep_parse_are_drawn() -> None:
    words = [Word(w, h, "", 0) for w, h in (("a", 0), ("b", 2), ("c", 1))]
    assert [(b.guide, b.word) for b in layout_parse(words, range(3), 80)] == [("", 0), ("? ", 1), ("? ", 2)]
    chain = [Word("w", max(i - 1, 0), "", 0) for i in range(3000)]
    lines = layout_parse(chain, range(3000), 80)
    assert len(lines) == 3000
    assert max(cell_len(b.guide) for b in lines) <= 44
    assert "2999 deep" in lines[-1].guide


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=30))
def test_arcs_that_share_a_stretch_have_different_heights(pairs: list[tuple[int, int]]) -> None:
    spans = [(min(p), max(p), i) for i, p in enumerate(pairs) if p[0] != p[1]]
    levels = _levels(spans)
    for a, b, i in spans:
        for c, d, j in spans:
            if i < j and a < d and c < b:
                assert levels[i] != levels[j]


def test_tag_rows_show_each_tokens_label(tmp_path: Path) -> None:
    fine, coarse = Vocabulary(), Vocabulary()
    row = make_row(fine, coarse, "t#0", [["北京", "好"]], [1, 1], token_labels=[-100, 1, 2, 0, -100])
    names = ["O", "B-LOC", "I-LOC"]
    folder = write_dataset(tmp_path / "d", {"train": [[row]]}, fine, coarse, task="tag", labels=names)
    assert [t.label for t in view_of(folder).tokens] == ["", "B-LOC", "I-LOC", "O", ""]
    line = next(line for line in printed(folder).splitlines() if "B-LOC" in line)
    assert line.split()[1] == "北"


@pytest.mark.parametrize(
    ("label", "words"),
    [(0, "B follows A"), (1, "B is random"), (None, "single segment, no next-sentence label")],
)
def test_pretrain_rows_show_the_next_sentence_label_in_words(
    tmp_path: Path, label: int | None, words: str
) -> None:
    fine, coarse = Vocabulary(), Vocabulary()
    row = make_row(fine, coarse, "p#0", [["好"]], [0], label=label)
    folder = write_dataset(tmp_path / "d", {"train": [[row]]}, fine, coarse, task="pretrain", labels=[])
    assert words in printed(folder)


def test_without_vocabulary_text_stands_for_tokens(tmp_path: Path) -> None:
    fine, coarse = Vocabulary(), Vocabulary()
    row = make_row(fine, coarse, "a#0", [["苹果"]], [0], grafts=[(1, 3, [(1, "水果")])], label=1)
    folder = write_dataset(tmp_path / "d", {"train": [[row]]}, fine, coarse, tokens=False, graph=False)
    view = view_of(folder)
    assert [t.string for t in view.tokens] == ["[CLS]", "苹", "果", "[SEP]"]
    assert [t.string for t in view.branches[0].tokens] == [f"#{fine['水']}", f"#{fine['果']}"]
    assert view.branches[0].triple.text == "triple 1"
    text = printed(folder)
    assert "tokens.txt is missing" in text
    assert "coarse_tokens.txt is missing" in text
    given_strings = render_row(folder, 0, tokenizer=fine.strings)
    assert "水" in "".join(str(part) for part in given_strings)


def test_only_lf_separates_token_strings(dataset: Path) -> None:
    strings = (dataset / "tokens.txt").read_text(encoding="utf-8").split("\n")
    strings[5] = "\u2028"
    (dataset / "tokens.txt").write_text("\n".join(strings), encoding="utf-8", newline="")
    assert [t.string for t in view_of(dataset).tokens[:3]] == ["[CLS]", "\u2028", "果"]


def test_columns_that_are_not_there_are_not_shown(tmp_path: Path) -> None:
    fine, coarse = Vocabulary(), Vocabulary()
    row = make_row(fine, coarse, "a#0", [["苹果"]], [0], label=1)
    folder = write_dataset(tmp_path / "d", {"train": [[row]]}, fine, coarse, groups=(), graph=False)
    text = printed(folder)
    assert "tokens" in text
    for absent in ("tree", "parse", "coarse", "matrix", "mask"):
        assert absent not in text
    with pytest.raises(FolderError, match=r"without 'syntax' in encode\.columns"):
        printed(folder, grid="syntax")


DOCUMENT: dict[str, object] = {
    "doc_id": "d@0",
    "text": "我爱北京。\n好。",
    "text_pair": None,
    "language": "zh",
    "source": "f@0",
    "label": None,
    "label_score": None,
    "tag_starts": [0, 1],
    "tag_stops": [1, 2],
    "tag_labels": ["O", "B-X"],
    "sentence_starts": [0, 6],
    "sentence_stops": [5, 8],
    "word_starts": [0, 1, 2, 4, 6, 7],
    "word_stops": [1, 2, 4, 5, 7, 8],
    "word_heads": [1, 1, 1, 1, 4, 4],
    "word_deprels": ["nsubj", "root", "obj", "punct", "root", "punct"],
    "word_pos": ["PRON", "VERB", "PROPN", "PUNCT", "ADJ", "PUNCT"],
}


def test_annotated_documents_are_shown_with_their_parse(tmp_path: Path) -> None:
    folder = write_annotated(tmp_path / "a", DOCUMENT)
    text = printed(folder, id="d@0")
    assert "我爱北京。\\n好。" in text
    lines = [line.split() for line in text.splitlines()]
    assert ["1", "6–8", "好。"] in lines
    assert ["爱", "root", "VERB", "1"] in lines
    assert ["├─", "北京", "obj", "PROPN", "2", "←", "1"] in lines
    assert ["爱", "B-X"] in lines
    page = Page.read(folder, tmp_path, row=0)
    assert {"我爱北京。\\n好。", "B-X", "北京"} <= set(page.texts)


# --- masks ------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_masks_equal_slow_loops(seed: int) -> None:
    row = rows.make_row(random.Random(seed), "classify", rows.GROUPS, "r", most_words=8)
    branch, mention = row["tree_branch"], row["tree_mention"]
    parent = [0, *row["branch_parents"]]
    seen = visible(np.array(branch), np.array(mention), np.array([parent[b] for b in branch]))
    for i in range(len(branch)):
        for j in range(len(branch)):
            if branch[i] == branch[j]:
                expected = True
            elif branch[i] and branch[j]:
                expected = branch[i] == parent[branch[j]] or branch[j] == parent[branch[i]]
            elif 0 in (branch[i], branch[j]):
                expected = mention[i] == mention[j] != -1
            else:
                expected = False
            assert seen[i, j] == expected
    heads, word = row["word_heads"], row["word_index"]
    mask = ancestors(np.array(word), np.array(row["word_dfs_in"], int), np.array(row["word_dfs_out"], int))
    for i, own in enumerate(word):
        above = set()
        while own >= 0 and own not in above:
            above.add(own)
            own = heads[own]
        for j, other in enumerate(word):
            assert mask[i, j] == (i == j or other in above)


def grid_lines(text: str) -> tuple[list[str], list[str]]:
    lines = text.split("\n")
    body = [i for i, line in enumerate(lines) if line.rstrip()[-1:] in ("●", "·")]
    return lines[: body[0]], [lines[i] for i in body]


def test_grid_columns_line_up_with_wide_and_narrow_labels(dataset: Path) -> None:
    labels = [("[CLS]", "0"), ("苹", "1"), ("é", "2"), ("##ing", "10"), ("\\u202e", "11")]
    seen = np.eye(5, dtype=bool)
    head, body = grid_lines(grid_text(labels, seen).plain)
    marks = [cell_len(line[: line.index("●")]) for line in body]
    assert [b - a for a, b in itertools.pairwise(marks)] == [2, 2, 2, 2]
    for (label, _), column in zip(labels, marks, strict=True):
        upright = [at_cell(line.ljust(200), column)[0] for line in head]
        assert "".join(upright).strip() == label
    assert grid_text(labels, np.ones((5, 5), bool)).plain.count("●") == 25


def test_a_long_row_shows_the_mask_around_the_first_mention_and_says_so(dataset: Path) -> None:
    text = printed(dataset, row=3, max_grid=20)
    assert (
        "76 to 95 of 124, around the first mention; ● = row sees column; numbers are soft positions"
        in " ".join(text.split())
    )
    whole = " ".join(printed(dataset, row=0).split())
    assert "visible matrix 7 tree tokens; ● = row sees column; numbers are soft positions" in whole
    _, body = grid_lines(text[text.index("visible matrix") :])
    assert len(body) == 20
    assert body[5].split()[:2] == ["苹", "81"]
    syntax = printed(dataset, row=3, max_grid=20, grid="syntax")
    assert "visible matrix" not in syntax
    header = " ".join(syntax[syntax.index("syntax mask") :].split())
    assert header.startswith(
        "syntax mask (ancestors) tokens 0 to 19 of 122, from the start; ● = row sees column; numbers are token"
    )
    _, body = grid_lines(syntax[syntax.index("syntax mask") :])
    assert [line.split()[1] for line in body] == [str(i) for i in range(20)]
    narrow = printed(dataset, row=3, width=60)
    assert max(cell_len(line) for line in narrow[narrow.index("visible matrix") :].split("\n")) <= 60
    assert "matrix" not in printed(dataset, row=3, grid="none")


def test_unilms_masks_stand_side_by_side_around_the_border(tmp_path: Path) -> None:
    fine, coarse = Vocabulary(), Vocabulary()
    made = make_row(fine, coarse, "p#0", [list("甲乙丙丁戊己子丑寅卯辰巳")], [0] * 12, label=0)
    made["token_type_ids"] = [0] * 7 + [1] * 7
    folder = write_dataset(tmp_path / "d", {"train": [[made]]}, fine, coarse)
    text = printed(folder, grid="unilm", only=["mask"])
    assert "UniLM's masks  tokens 4 to 13 of 14; ● = row sees column" in text
    assert all(name in text for name in ("bidirectional", "left to right", "sequence to sequence"))
    rows = {
        name: next(line for line in text.splitlines() if f"{name} ●" in line) for name in (" 5", " 8", "13")
    }
    marks = {name: "".join(re.findall("[●·]", line)) for name, line in rows.items()}
    assert marks[" 5"] == "●●●●●●●●●●" + "●●········" + "●●●·······"  # of the source
    assert marks[" 8"] == "●●●●●●●●●●" + "●●●●●·····" * 2
    assert marks["13"] == "●" * 30
    printed(folder, grid="unilm", html=tmp_path / "u.html")
    page = (tmp_path / "u.html").read_text(encoding="utf-8")
    assert "sequence to sequence <small" in page and "syntax mask" not in page


@settings(max_examples=30)
@given(st.lists(st.integers(0, 1), max_size=9).map(sorted))
def test_unilms_masks_equal_slow_loops(segments: list[int]) -> None:
    masks = unilm(np.array(segments, int))
    for i, own in enumerate(segments):
        for j, other in enumerate(segments):
            assert masks["bidirectional"][i, j]
            assert masks["left to right"][i, j] == (j <= i)
            assert masks["sequence to sequence"][i, j] == (other == 0 or (own == 1 and j <= i))


def test_only_some_parts(dataset: Path) -> None:
    text = printed(dataset, only=["tree", "mask"])
    assert "sentence tree" in text and "visible matrix" in text and "apple#0" in text
    for left_out in ("tokens  ", "dependency parse", "coarse tokens", "text  "):
        assert f"\n{left_out}" not in text
    assert "text" in printed(dataset, only=["text"])


def test_window_stays_inside() -> None:
    for count in range(1, 30):
        for mention in [None, *range(count)]:
            start, stop = window(count, mention, 8)
            assert 0 <= start < stop <= count
            assert stop - start == min(count, 8)
            assert mention is None or start <= mention < stop


# --- escaping ---------------------------------------------------------------------------------


@given(st.text())
def test_legible_text_prints_as_itself(text: str) -> None:
    shown = legible(text)
    assert shown.replace("\u3000", "").isprintable()
    assert cell_len(legible_token(text)) > 0 or not text
    assert cell_len(clip(legible(text), 5)) <= 5


def test_controls_overrides_and_line_ends_are_escaped() -> None:
    assert (
        legible("a\x1b[0m\u202eb\nc\u2028\xa0\u3000\ufe0f")
        == "a\\x1b[0m\\u202eb\\nc\\u2028\\xa0\u3000\\ufe0f"
    )
    assert legible("苹果 good é") == "苹果 good é"
    assert legible_token("\u0301") == "\u25cc\u0301"


def test_nothing_in_data_reaches_the_terminal_raw(tmp_path: Path) -> None:
    """Text, id, token strings, label, relation and triples of a hostile row; ESC would run, markup would vanish."""
    fine, coarse = Vocabulary(), Vocabulary()
    row = make_row(
        fine, coarse, f"i{EVIL}", [[EVIL, "苹果"]], [0, 0], [1, 1], [(44, 46, [(0, "x")])], label=0
    )
    folder = write_dataset(
        tmp_path / "d",
        {"train": [[row]]},
        fine,
        coarse,
        labels=[f"l{EVIL}"],
        deprels=["root", f"r{EVIL}"],
        graph=False,
    )
    for grid in ("visible", "syntax"):
        text = printed(folder, width=200, grid=grid)
        assert not [c for c in text if c != "\n" and not c.isprintable() and c != "\u3000"]
        assert "[bold]" in text
        assert f"l{legible(EVIL)}" in text
        assert f"r{legible(EVIL)}" in text
    with pytest.raises(FolderError) as error:
        load(folder, f"other{EVIL}")
    assert str(error.value).isprintable()


def test_a_hostile_triple_is_escaped_in_the_tree() -> None:
    tree = [TreeToken("a", 0, 0, 0, 0), TreeToken(EVIL, 1, 1, 0, -1)]
    layout = layout_tree(tree, [Branch(1, 0, tree[1:], Triple("s", EVIL, "o"))], 60)
    assert all(c.text.isprintable() and c.title.isprintable() for c in layout.cells)


class Page(HTMLParser):
    """Tags, attributes and texts of a page; `open` must be empty at its end."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.open: list[str] = []

    @classmethod
    def read(cls, folder: Path, tmp_path: Path, **options: object) -> Page:
        target = tmp_path / "page.html"
        show(folder, Console(file=io.StringIO()), html=target, **options)  # type: ignore[arg-type]
        return cls.parse(target.read_text(encoding="utf-8"))

    @classmethod
    def parse(cls, source: str) -> Page:
        page = cls()
        page.feed(source)
        page.close()
        assert page.open == []
        return page

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in ("meta", "rect", "path"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def check(self) -> None:
        """Self-contained and inert."""
        assert not self.tags & {
            "script",
            "link",
            "img",
            "iframe",
            "object",
            "embed",
            "base",
            "form",
            "use",
            "image",
        }
        assert not [
            a for a, _ in self.attributes if a.startswith("on") or a in ("src", "href", "xlink:href", "style")
        ]
        assert not [v for a, v in self.attributes if v and "://" in v]
        assert "url(" not in "".join(self.texts)
        assert "@import" not in "".join(self.texts)


@pytest.mark.parametrize("row", range(4))
def test_pages_are_self_contained_and_escaped(dataset: Path, tmp_path: Path, row: int) -> None:
    page = Page.read(dataset, tmp_path, row=row)
    page.check()
    assert "svg" in page.tags
    source = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script" not in source
    assert not [c for c in source if c != "\n" and not c.isprintable()]
    assert "prefers-color-scheme: dark" in source
    if row == 2:
        assert legible(EVIL) in "".join(page.texts)


def test_page_draws_tree_parse_and_both_masks(dataset: Path, tmp_path: Path) -> None:
    page = Page.read(dataset, tmp_path, row=1)
    titles = [
        t for t in page.texts if t.startswith(("Sentence tree", "Dependency parse", "visible", "syntax"))
    ]
    assert "Sentence tree: 3 branches on 2 mentions" in titles
    assert "Dependency parse of sentence 1" in titles
    assert "visible matrix" in titles
    assert "syntax mask (ancestors)" in titles
    assert "(苹果 颜色 红色)" in page.texts
    view = view_of(dataset, 1)
    tokens = view.tree or []
    columns = ([t.branch for t in tokens], [t.mention for t in tokens], [t.parent for t in tokens])
    seen = visible(*(np.array(column) for column in columns))
    squares = next(v for a, v in page.attributes if a == "d" and v and v.count("z") == int(seen.sum()))
    assert squares


# --- what is not there ------------------------------------------------------------------------


def test_ids_are_found_in_any_split(dataset: Path) -> None:
    assert view_of(dataset, "two#0").place.split == "train"
    assert view_of(dataset, "two#0", "dev").place == place("dev", "dev-00000-of-00001.arrow", 0, 0)
    assert view_of(dataset, "long#0").place == place("train", "train-00001-of-00002.arrow", 0, 3)


def test_an_id_may_be_a_documents_or_begin_one_alone(tmp_path: Path) -> None:
    fine, coarse = Vocabulary(), Vocabulary()
    names = ["ab#0", "abc#0", "abc#1", "abd#0", "xyz#0", "xyz#1", "#5"]
    made = [make_row(fine, coarse, name, [["好"]], [0], [0], label=0) for name in names]
    folder = write_dataset(tmp_path / "d", {"train": [made[:2], made[2:]]}, fine, coarse)
    for asked, found in (("ab", "ab#0"), ("abc", "abc#0"), ("abc#1", "abc#1"), ("xy", "xyz#0"), ("#", "#5")):
        assert view_of(folder, asked).id == found
    with pytest.raises(FolderError, match=r"several ids of .* begin with 'a': 'ab', 'abc', 'abd'; give more"):
        view_of(folder, "a")
    with pytest.raises(FolderError, match=r"has the id 'xxyz#0'.* did you mean 'xyz'\?"):
        view_of(folder, "xxyz#0")


def place(split: str, shard: str, shard_row: int, row: int) -> object:
    from pipelines.view.folder import Place

    return Place(split, shard, shard_row, row)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"row": 4}, r"split 'train' of .* has no row 4: it holds 4 rows, numbered 0 to 3"),
        ({"row": -1}, r"has no row -1: it holds 4 rows"),
        ({"row": 1, "split": "dev"}, r"split 'dev' .* holds 1 row, number 0"),
        (
            {"id": "none#0"},
            r"no row of .* has the id 'none#0' \(looked in train, dev\); ids look like 'apple#0'",
        ),
        ({"row": 0, "split": "test"}, r"has no split 'test'; it has train, dev"),
        ({"row": 0, "id": "apple#0"}, "not both"),
        ({"grid": "nice"}, "grid must be one of visible, syntax, unilm, none; found 'nice'"),
        (
            {"only": ["tree", "maks"]},
            "no part 'maks' to show; name some of text,tree,tokens,parse,coarse,mask",
        ),
        ({"choice": 0}, "row 'apple#0' has no choice 0: it is of task 'classify'"),
        ({"only": ["tree"], "html": "x.html"}, "a page shows the whole row"),
    ],
)
def test_errors_say_what_there_is(dataset: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(FolderError, match=message):
        printed(dataset, **options)


def test_folders_that_are_no_datasets(dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="does not exist"):
        printed(tmp_path / "nowhere")
    with pytest.raises(FolderError, match=r"is a file; give the dataset's folder"):
        printed(dataset / "tokens.txt")
    with pytest.raises(FolderError, match=r"not a dataset folder.*did you mean .*/d\?"):
        printed(tmp_path)
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "train-00000-of-00001.arrow").write_bytes(b"ARROW1\0\0")
    with pytest.raises(FolderError, match="not a whole Arrow IPC file"):
        printed(tmp_path / "e")


def test_a_folder_that_datasets_saved_is_told_as_such(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    one = datasets.Dataset.from_dict({"text": ["a", "b"]})
    one.save_to_disk(tmp_path / "two" / "one")
    datasets.DatasetDict({"train": one}).save_to_disk(tmp_path / "all")
    for folder in ("two/one", "all", "all/train"):
        with pytest.raises(
            FolderError, match=r"saved by the library `datasets`.*input: {format: dataset, files"
        ):
            open_folder(tmp_path / folder)
    with pytest.raises(FolderError, match="not a dataset folder") as error:
        open_folder(tmp_path / "two")
    assert "did not finish" not in str(error.value)


def test_an_unfinished_folder_is_shown_with_a_note(dataset: Path) -> None:
    (dataset / "manifest.json").unlink()
    (dataset / "train-00001-of-00002.arrow").unlink()
    text = " ".join(printed(dataset).split())
    assert "no manifest.json: the run that writes here did not finish; run the same command again" in text
    assert "1 of 2 shards of split 'train' is missing" in text


def test_a_run_that_came_to_no_shard_is_to_be_run_again(dataset: Path, tmp_path: Path) -> None:
    """Cut off while annotating, or before encoding: what is suggested must be finished itself."""
    run = tmp_path / "out" / "run"
    annotated = write_annotated(run / "annotated", DOCUMENT)
    manifest = (annotated / "manifest.json").read_bytes()
    with pytest.raises(FolderError, match=r"run the same command again.*did you mean .*run/annotated\?"):
        printed(run)
    (annotated / "manifest.json").unlink()
    for leaves in ((), ("graph",), ("graph", "_work")):
        for name in leaves:
            (run / name).mkdir(exist_ok=True)
        with pytest.raises(FolderError, match=r"run holds no shards yet: .* run the same command") as error:
            printed(run)
        assert "did you mean" not in str(error.value)
    with pytest.raises(FolderError, match=r"no shards .*; give the folder that"):
        printed(tmp_path / "out")
    unfinished = tmp_path / "two" / "a"
    write_annotated(unfinished, DOCUMENT)
    (unfinished / "manifest.json").unlink()
    with pytest.raises(FolderError, match=r"two/a holds some, but .* did not finish; run the same") as error:
        printed(tmp_path / "two")
    assert "did you mean" not in str(error.value)
    write_annotated(tmp_path / "two" / "b", DOCUMENT)
    with pytest.raises(FolderError, match=r"did you mean .*two/b\?"):
        printed(tmp_path / "two")
    (annotated / "manifest.json").write_bytes(manifest)
    assert "d@0" in printed(annotated)


def test_an_empty_split_says_so(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "d", {"train": [[]]}, Vocabulary(), Vocabulary())
    with pytest.raises(FolderError, match="has no rows"):
        printed(folder)


def test_a_part_that_the_rows_lack_is_said(tmp_path: Path) -> None:
    """Not a header alone, which says nothing."""
    fine, coarse = Vocabulary(), Vocabulary()
    one = make_row(fine, coarse, "a#0", [["好"]], [0], label=1)
    folder = write_dataset(tmp_path / "d", {"train": [[one]]}, fine, coarse, groups=(), graph=False)
    for part, group in (("tree", "tree"), ("parse", "syntax"), ("coarse", "coarse")):
        with pytest.raises(FolderError, match=f"no {part} to show: .* without '{group}' in encode.columns"):
            printed(folder, only=["text", part])


def test_verify_tells_a_folder_that_is_none_as_inspect_does(dataset: Path, tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        done = CliRunner().invoke(look_commands.app, ["verify", str(folder)])
        with pytest.raises(FolderError) as error:
            open_folder(folder)
        assert str(done.exception) == str(error.value)


def test_a_long_text_is_shown_in_part(tmp_path: Path) -> None:
    document = {**DOCUMENT, "text": DOCUMENT["text"] + "猫" * 90_000}
    said = "".join(printed(write_annotated(tmp_path / "d", document)).split())
    assert f"[{len(document['text']) - 2_000:,}charactersmore]" in said and said.count("猫") < 2_100


def test_labels_stay_whole_where_another_table_makes_room() -> None:
    names, label = ["train", "dev", "test", "total"], "unknown tokens of text [UNK]"
    tables = side_by_side(names, [(label, ["123,456 (12.3%)"] * 4)], 80)
    said = io.StringIO()
    for table in tables:
        Console(file=said, width=80).print(table)
    assert said.getvalue().count(label) == len(tables) == 2


def test_only_may_stand_several_times(dataset: Path) -> None:
    said = [
        CliRunner().invoke(look_commands.app, ["inspect", str(dataset), *options]).output
        for options in (["--only", "text,tokens"], ["--only", "text", "--only", "tokens"])
    ]
    assert said[0] == said[1] and "tokens" in said[0]


def test_a_page_in_a_missing_folder(dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="nowhere does not exist; make it first"):
        printed(dataset, html=tmp_path / "nowhere" / "x.html")
    with pytest.raises(FolderError, match="it is a folder"):
        printed(dataset, html=tmp_path)


def test_printed_lines_keep_to_the_width(dataset: Path) -> None:
    for row in (0, 1, 3):
        for line in printed(dataset, width=100, row=row).split("\n"):
            assert cell_len(line) <= 100
