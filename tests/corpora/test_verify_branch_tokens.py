"""`branch_tokens`: a branch that is half its triple, or more, or another one, is found."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.verify import verify
from corpora.verify.branch_tokens import check_branch_tokens
from corpora.verify.report import SHOWN_PER_RULE, Findings
from corpora.verify.view import View
from tests.corpora.breaking import at, breaks, expect, put, raw_folder
from tests.corpora.test_verify_rows import PAIR
from tests.corpora.test_verify_tree import COLUMNS
from tests.rows import TRIPLES, VOCAB, make_rows, rows_schema, to_batch, triple_tokens

SCHEMA = rows_schema("pretrain", ("tree",))


def tokens_of(triples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The hook: only ever asked for distinct triples of the graph, rising."""
    assert triples.dtype == np.int64 and (np.diff(triples) > 0).all()
    assert triples[0] >= 0 and triples[-1] < TRIPLES
    said = [triple_tokens(t) for t in triples.tolist()]
    return np.array([i for s in said for i in s], np.int32), np.cumsum([0, *map(len, said)])


def _of_length(length: int, count: int) -> list[int]:
    found = (t for t in range(TRIPLES) if len(triple_tokens(t)) == length)
    return list(itertools.islice(found, count))


TWO, (ONE, OTHER) = _of_length(2, 1)[0], _of_length(1, 2)
ROW = {name: PAIR[name] for name in SCHEMA.names} | {
    "tree_ids": [
        2,
        10,
        11,
        *triple_tokens(TWO),
        *triple_tokens(ONE),
        12,
        3,
        13,
        *triple_tokens(OTHER),
        14,
        3,
    ],
    "branch_triples": [TWO, ONE, OTHER],
}


def half(row: dict) -> None:
    """The first branch loses its second token."""
    for name in COLUMNS:
        del row[name][4]


def more(row: dict) -> None:
    """The last branch goes on for another token."""
    for name in COLUMNS:
        row[name].insert(10, row[name][9])
    row["tree_soft_positions"][10] += 1


CASES = [
    breaks("branch_tokens", "half", half),
    breaks("branch_tokens", "more", more),
    breaks("branch_tokens", "first-token", at("tree_ids", 3, 5 + (triple_tokens(TWO)[0] - 4) % (VOCAB - 5))),
    breaks("branch_tokens", "last-token", at("tree_ids", 4, 5 + (triple_tokens(TWO)[1] - 4) % (VOCAB - 5))),
    breaks("branch_tokens", "other-triple", put(branch_triples=[TWO, OTHER, OTHER])),
    breaks("branch_tokens", "swapped", put(branch_triples=[TWO, OTHER, ONE])),
    breaks("branch_tokens", "shifted", put(branch_triples=[ONE, TWO, OTHER])),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_branch_that_is_not_its_triple_is_found(case, tmp_path):
    others = make_rows(4, "pretrain", ("tree",), 9)
    expect(tmp_path, case, ROW, others, SCHEMA, "encode", "pretrain", branch_tokens=tokens_of)


def test_without_the_hook_the_rule_is_left_out(tmp_path: Path):
    row = {**ROW, "branch_triples": [ONE, TWO, OTHER]}
    path = raw_folder(tmp_path / "f", SCHEMA, [[to_batch([row], SCHEMA)]], "encode", "pretrain")
    assert verify(path).ok and not verify(path, branch_tokens=tokens_of).ok


def test_the_problem_says_both_sides(tmp_path: Path):
    row = {**ROW, "branch_triples": [TWO, TWO, OTHER]}
    path = raw_folder(tmp_path / "f", SCHEMA, [[to_batch([row], SCHEMA)]], "encode", "pretrain")
    (problem,) = verify(path, branch_tokens=tokens_of).problems
    want = ", ".join(map(str, triple_tokens(TWO)))
    assert problem.detail == f"branch 2 is [{triple_tokens(ONE)[0]}], its triple {TWO} is [{want}]"


@pytest.mark.parametrize("error", [ValueError("torn"), OSError("torn")], ids=repr)
def test_a_graph_that_cannot_be_read_is_one_problem_and_other_rules_go_on(error, tmp_path: Path):
    rows, asked = make_rows(9, "pretrain", ("tree",), 12), []

    def torn(triples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        asked.append(triples)
        raise error

    batches = [to_batch(rows, SCHEMA), to_batch([{**ROW, "tree_ids": [0, *ROW["tree_ids"][1:]]}], SCHEMA)]
    batches.append(to_batch([{**rows[0], "id": "again"}], SCHEMA))
    path = raw_folder(tmp_path / "f", SCHEMA, [batches], "encode", "pretrain")
    report = verify(path, branch_tokens=torn)
    assert report.rule_counts["graph"] == 1 and len(report.rule_counts) > 1
    assert "branch_tokens" not in report.rule_counts
    (problem,) = [p for p in report.problems if p.rule == "graph"]
    assert (problem.shard, problem.row) == ("", None) and problem.detail.endswith(": torn")
    assert len(asked) == 1


def test_a_graph_without_a_triple_of_the_rows_is_a_problem_of_the_rows_with_branches(tmp_path: Path):
    rows = make_rows(9, "pretrain", ("tree",), 12)

    def torn(triples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        raise IndexError("torn")

    path = raw_folder(tmp_path / "f", SCHEMA, [[to_batch(rows, SCHEMA)]], "encode", "pretrain")
    report = verify(path, branch_tokens=torn)
    grafted = sum(bool(row["branch_triples"]) for row in rows)
    assert report.rule_counts == {"branch_tokens": grafted} and 0 < grafted < 12
    assert "cannot be looked up: torn" in report.problems[0].detail


def test_rows_broken_otherwise_are_not_looked_up(tmp_path: Path):
    """Triples past the graph never reach the hook (it would complain), whatever else rows hold."""
    rows = make_rows(9, "pretrain", ("tree",), 12)
    broken = [{**ROW, "branch_triples": [TWO, ONE, TRIPLES]}, {**ROW, "branch_triples": [TWO, ONE, -1]}]
    path = raw_folder(tmp_path / "f", SCHEMA, [[to_batch([*rows, *broken], SCHEMA)]], "encode", "pretrain")
    assert verify(path, branch_tokens=tokens_of).rule_counts["branch_triples"] == 2


@given(seed=st.integers(0, 10**9), edits=st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_it_agrees_with_a_slow_reader(seed: int, edits: int):
    rng = random.Random(seed)
    rows = make_rows(seed, "pretrain", ("tree",), SHOWN_PER_RULE)
    for row in rows:
        grafted = [i for i, b in enumerate(row["tree_branch"]) if b]
        for _ in range(edits if grafted else 0):
            if rng.random() < 0.5:
                row["tree_ids"][rng.choice(grafted)] = rng.randint(5, VOCAB - 1)
            else:
                row["branch_triples"][rng.randrange(len(row["branch_triples"]))] = rng.randrange(TRIPLES)
    view = View(to_batch(rows, SCHEMA), np.arange(len(rows)), "s", Findings())
    check_branch_tokens(view, tokens_of)
    for row, bad in zip(rows, view.bad, strict=True):
        said: list[list[int]] = [[] for _ in row["branch_triples"]]
        for token, branch in zip(row["tree_ids"], row["tree_branch"], strict=True):
            if branch:
                said[branch - 1].append(token)
        assert bad == (said != [triple_tokens(t) for t in row["branch_triples"]])
    if edits == 0:
        assert not view.bad.any()
