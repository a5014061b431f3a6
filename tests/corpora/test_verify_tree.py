"""Every rule of the tree columns fires, and only on trees that a slow reader of the contract refuses."""

from __future__ import annotations

import copy
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.verify.facts import RowFacts
from corpora.verify.report import SHOWN_PER_RULE, Findings
from corpora.verify.tree import check_tree
from corpora.verify.view import View
from tests.corpora.breaking import at, breaks, expect, put
from tests.corpora.test_verify_rows import PAIR
from tests.rows import CLS, GROUPS, MASK, PAD, SEP, TRIPLES, VOCAB, make_rows, metadata, rows_schema, to_batch

COLUMNS = [c for c in rows_schema("pretrain", ("tree",)).names if c.startswith("tree_")]


def entries(**changes):
    """Change entries of tree columns: `ids={3: 7}`."""

    def change(row):
        for name, values in changes.items():
            for index, value in values.items():
                row[f"tree_{name}"][index] = value

    return change


def rearranged(*order: int):
    """Tree tokens in another order."""
    return lambda row: row.update({c: [row[c][i] for i in order] for c in COLUMNS})


CASES = [
    breaks("lengths", "F", lambda r: r["tree_ids"].append(5)),
    breaks("nulls", "item", at("branch_triples", 0, None)),
    breaks("tree_ids", "beyond", at("tree_ids", 3, VOCAB)),
    breaks("tree_ids", "negative", at("tree_ids", 3, -1)),
    *(breaks("tree_ids", f"control-{c}", at("tree_ids", 3, c)) for c in (PAD, CLS, SEP, MASK)),
    breaks("tree_length", "long", lambda r: r.update(
        {
            "tree_ids": [2, 10, 11, *[30] * 60, *[31] * 60, 12, 3, 13, 33, 14, 3],
            "tree_token_type_ids": [0] * 125 + [1] * 4,
            "tree_soft_positions": [0, 1, 2, *range(3, 63), *range(3, 63), 3, 4, 5, 6, 6, 7],
            "tree_branch": [0, 0, 0, *[1] * 60, *[2] * 60, 0, 0, 0, 3, 0, 0],
            "tree_mention": [-1, 0, 0, *[0] * 120, -1, -1, 1, 1, -1, -1],
            "tree_trunk_index": [0, 1, 2, *[-1] * 120, 3, 4, 5, -1, 6, 7],
        })),
    breaks("tree_trunk", "other-token", at("tree_ids", 6, 50)),
    breaks("tree_trunk", "lost-token", rearranged(0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11)),
    breaks("tree_trunk", "twice", rearranged(0, 1, 2, 3, 4, 5, 6, 6, 7, 8, 9, 10, 11)),
    breaks("tree_trunk", "order", rearranged(0, 2, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11), "tree_soft_positions"),
    breaks("tree_trunk", "index", at("tree_trunk_index", 6, 4)),
    breaks("tree_trunk", "index-on-branch", at("tree_trunk_index", 3, 3)),
    breaks("tree_token_types", "trunk", at("tree_token_type_ids", 6, 1)),
    breaks("tree_token_types", "branch", at("tree_token_type_ids", 9, 0)),
    breaks("tree_soft_positions", "trunk", at("tree_soft_positions", 6, 6)),
    breaks("tree_soft_positions", "branch-start", entries(soft_positions={3: 4, 4: 5})),
    breaks("tree_soft_positions", "branch-step", at("tree_soft_positions", 4, 3)),
    breaks("tree_soft_positions", "sibling", at("tree_soft_positions", 5, 5)),
    breaks("tree_branches", "swapped", entries(branch={3: 2, 4: 2, 5: 1})),
    breaks("tree_branches", "gap", at("tree_branch", 9, 4)),
    breaks("tree_branches", "from-two", entries(branch={3: 2, 4: 2, 5: 3, 9: 4})),
    breaks("tree_branches", "negative", at("tree_branch", 9, -1)),
    breaks("tree_branches", "in-two-pieces", rearranged(0, 1, 2, 3, 5, 4, 6, 7, 8, 9, 10, 11), "branch_triples"),
    breaks("tree_branches", "in-front", lambda r: (
        rearranged(3, 0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11)(r)), "branch_triples"),
    breaks("tree_anchor", "branch-other", entries(mention={5: 1})),
    breaks("tree_mention", "branch-none", entries(mention={3: -1, 4: -1, 5: -1}), "tree_anchor"),
    breaks("tree_mention", "within-branch", at("tree_mention", 4, 1), "tree_anchor"),
    breaks("tree_mention", "below", at("tree_mention", 6, -2)),
    breaks("tree_mention", "repeated", entries(mention={8: 0, 9: 0})),
    breaks("tree_mention", "falls", entries(mention={1: 2, 2: 2, 3: 2, 4: 2, 5: 2})),
    breaks("tree_anchor", "part-of-anchor", at("tree_mention", 6, 0)),  # a b | branches | cd
    breaks("tree_anchor", "no-branch", at("tree_mention", 10, 2)),
    breaks("tree_anchor", "other-anchor", entries(mention={9: 2})),
    breaks("tree_anchor", "not-behind", rearranged(0, 1, 2, 6, 3, 4, 5, 7, 8, 9, 10, 11), "tree_soft_positions"),
    breaks("tree_anchor", "special", entries(mention={7: 1, 8: 1})),
    breaks("branch_triples", "few", put(branch_triples=[7, 8], branch_parents=[0, 0])),
    breaks("branch_triples", "many", put(branch_triples=[7, 8, 9, 10], branch_parents=[0] * 4)),
    breaks("branch_triples", "beyond", at("branch_triples", 0, TRIPLES)),
    breaks("branch_triples", "negative", at("branch_triples", 0, -1)),
]  # fmt: skip


DEEP = PAIR | {
    # anchor a b with branches 1 and 4, 1 with children 2 and 3; anchor ef with branch 5 and its child 6
    "tree_ids": [2, 10, 11, 30, 31, 32, 33, 34, 35, 12, 3, 13, 36, 37, 14, 3],
    "tree_token_type_ids": [0] * 11 + [1] * 5,
    "tree_soft_positions": [0, 1, 2, 3, 4, 5, 5, 6, 3, 3, 4, 5, 6, 7, 6, 7],
    "tree_branch": [0, 0, 0, 1, 1, 2, 3, 3, 4, 0, 0, 0, 5, 6, 0, 0],
    "tree_mention": [-1, *[0] * 8, -1, -1, 1, 1, 1, -1, -1],
    "tree_trunk_index": [0, 1, 2, *[-1] * 6, 3, 4, 5, -1, -1, 6, 7],
    "branch_triples": [7, 8, 9, 7, 8, 9],
    "branch_parents": [0, 1, 1, 0, 0, 5],
}

DEEP_CASES = [
    breaks("lengths", "B", put(branch_parents=[0, 1, 1, 0, 0])),
    breaks("nulls", "parent", at("branch_parents", 1, None)),
    breaks("branch_parents", "negative", at("branch_parents", 1, -1)),
    breaks("branch_parents", "very-negative", at("branch_parents", 1, -32768)),
    breaks("branch_parents", "itself", at("branch_parents", 0, 1)),
    breaks("branch_parents", "later", at("branch_parents", 1, 4)),
    breaks("branch_parents", "beyond", at("branch_parents", 5, 32767)),
    breaks("branch_parents", "depth-three", at("branch_parents", 2, 2)),
    breaks("branch_parents", "of-another-mention", at("branch_parents", 5, 4)),
    breaks("branch_parents", "not-behind", lambda r: (
        put(branch_parents=[0, 0, 1, 0, 0, 5])(r), at("tree_soft_positions", 5, 3)(r))),
    breaks("tree_soft_positions", "child-from-anchor", at("tree_soft_positions", 5, 3)),
    breaks("tree_soft_positions", "child-from-sibling", entries(soft_positions={6: 6, 7: 7})),
    breaks("tree_soft_positions", "child-step", at("tree_soft_positions", 7, 7)),
    breaks("tree_soft_positions", "no-child", at("branch_parents", 2, 0)),
    breaks("tree_soft_positions", "no-branch-of-the-trunk", at("branch_parents", 3, 1)),
    breaks("tree_anchor", "child-other-mention", at("tree_mention", 5, 1)),
    breaks("tree_token_types", "child", at("tree_token_type_ids", 13, 0)),
    breaks("tree_branches", "swapped-children", entries(branch={5: 3, 6: 2, 7: 2})),
]  # fmt: skip


@pytest.mark.parametrize("case", DEEP_CASES, ids=str)
def test_a_broken_tree_of_depth_two_is_found(case, tmp_path):
    others, schema = make_rows(4, "pretrain", GROUPS, 9), rows_schema("pretrain", GROUPS)
    expect(tmp_path, case, DEEP, others, schema, "encode", "pretrain")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_broken_tree_is_found(case, tmp_path):
    expect(
        tmp_path,
        case,
        PAIR,
        make_rows(4, "pretrain", GROUPS, 9),
        rows_schema("pretrain", GROUPS),
        "encode",
        "pretrain",
    )


def test_c19_a_soft_position_beyond_the_table_is_found(tmp_path):
    schema = rows_schema("pretrain", ("tree",), max_positions=8)
    row = {name: PAIR[name] for name in schema.names}
    # A branch of three tokens behind `g` (token 6) would need positions 7, 8 and 9.
    longer = breaks(
        "tree_soft_positions",
        "table",
        lambda r: r.update(
            tree_ids=[*r["tree_ids"][:11], 40, 41, 42, 3],
            tree_token_type_ids=[*r["tree_token_type_ids"][:11], 1, 1, 1, 1],
            tree_soft_positions=[*r["tree_soft_positions"][:11], 7, 8, 9, 7],
            tree_branch=[*r["tree_branch"][:11], 4, 4, 4, 0],
            tree_mention=[*r["tree_mention"][:10], 2, 2, 2, 2, -1],
            tree_trunk_index=[*r["tree_trunk_index"][:11], -1, -1, -1, 7],
            branch_triples=[7, 8, 9, 10],
            branch_parents=[0] * 4,
        ),
    )
    report = expect(
        tmp_path, longer, row, [{**row, "id": f"{i}"} for i in range(6)], schema, "encode", "pretrain"
    )
    assert "has soft position 8, max_positions is 8" in report.problems[0].detail


def slow_reader_accepts(row: dict, max_positions: int = 96, max_length: int = 128) -> bool:
    """The contract of a tree, read token by token."""
    ids, kinds, soft, branch, mention, index = (row[c] for c in COLUMNS)
    special = (CLS, SEP)
    trunk = [i for i, b in enumerate(branch) if b == 0]
    if len(ids) > max_length or not all(0 <= p < max_positions for p in soft):
        return False
    if [ids[i] for i in trunk] != row["input_ids"] or [kinds[i] for i in trunk] != row["token_type_ids"]:
        return False
    if [index[i] for i in trunk] != list(range(len(trunk))) or [soft[i] for i in trunk] != list(
        range(len(trunk))
    ):
        return False
    anchors: dict[int, list[int]] = {}
    for i in trunk:
        if mention[i] < -1 or (mention[i] >= 0 and ids[i] in special):
            return False
        if mention[i] >= 0:
            if anchors and mention[i] < max(anchors):
                return False
            anchors.setdefault(mention[i], []).append(i)
    for where in anchors.values():
        # In one piece, and a branch right behind.
        if where != list(range(where[0], where[-1] + 1)) or branch[where[-1] + 1] == 0:
            return False
    triples, parents = row["branch_triples"], row["branch_parents"]
    if len(triples) != max(branch) or not all(0 <= t < TRIPLES for t in triples):
        return False
    tails = {b: i for i, b in enumerate(branch)}  # each branch's last token
    for b, parent in enumerate(parents, start=1):
        if not 0 <= parent < b or (parent and parents[parent - 1]):  # depth 2 at most
            return False
    seen = 0
    for i, b in enumerate(branch):
        if b == 0:
            continue
        if i == 0 or b < 0 or index[i] != -1 or not 0 <= ids[i] < VOCAB or ids[i] in (PAD, CLS, SEP, MASK):
            return False
        if mention[i] not in anchors:
            return False
        last = anchors[mention[i]][-1]
        parent = parents[b - 1]
        stem = tails.get(parent, -1) if parent else last
        between = (branch[j] for j in range(stem + 1, i))
        if parent and any(c != b and (c == 0 or parents[c - 1] != parent) for c in between):
            return False  # something between a child and its parent that is no child of it
        if b == branch[i - 1]:
            if soft[i] != soft[i - 1] + 1 or mention[i] != mention[i - 1]:
                return False
        elif b != seen + 1 or not 0 <= stem < i or soft[i] != soft[stem] + 1:
            return False
        # Nothing but branches of the same anchor between it and this token.
        if any(branch[j] == 0 or mention[j] != mention[i] for j in range(last + 1, i)) or i < last:
            return False
        if kinds[i] != kinds[last]:
            return False
        seen = max(seen, b)
    return len(triples) == seen


SCHEMA = rows_schema("pretrain", ("tree",))
FACTS = RowFacts.read(metadata("pretrain", ("tree",)), ("tree",))


@given(seed=st.integers(0, 10**9), edits=st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_the_rules_agree_with_a_slow_reader_of_the_contract(seed, edits):
    rng = random.Random(seed)
    # No more rows than a rule names: beyond that, findings are counted but rows are not told.
    rows = [copy.deepcopy(r) for r in make_rows(seed, "pretrain", ("tree",), SHOWN_PER_RULE)]
    for row in rows:
        for _ in range(edits):
            column = rng.choice([*COLUMNS, *COLUMNS, "branch_triples", "branch_parents", "branch_parents"])
            if not row[column]:
                continue
            place = rng.randrange(len(row[column]))
            kind = rng.random()
            if kind < 0.5:
                row[column][place] += rng.choice([-1, 1])
            elif kind < 0.8:
                row[column][place] = rng.choice(row[column])
            else:
                other = rng.randrange(len(row["tree_ids"]))
                for name in COLUMNS:  # two tokens change places
                    place = min(place, len(row[name]) - 1)
                    row[name][place], row[name][other] = row[name][other], row[name][place]
    view = View(to_batch(rows, SCHEMA), np.arange(len(rows)), "s", findings := Findings())
    bad = set()
    findings.add_rows = lambda rule, shard, named, detail, count: bad.update(r for r, _ in named)  # type: ignore[method-assign]
    check_tree(view, FACTS)
    assert bad == {i for i, row in enumerate(rows) if not slow_reader_accepts(row)}
    if edits == 0:
        assert not bad
