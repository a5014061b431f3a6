"""Every rule of multiple choice and of sources and targets fires, and only where it should."""

from __future__ import annotations

import copy
import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.verify import verify
from tests.corpora.breaking import Break, at, breaks, expect, put, raw_folder
from tests.corpora.test_verify_rows import CASES as PAIR_CASES
from tests.corpora.test_verify_rows import PAIR
from tests.corpora.test_verify_tree import CASES as TREE_CASES
from tests.corpora.test_verify_tree import DEEP, DEEP_CASES
from tests.rows import CLS, GROUPS, SEP, Row, make_rows, rows_schema, to_batch, write_folder

LISTS = [name for name, value in PAIR.items() if isinstance(value, list)]
COUNTS = {
    "choice_lengths": "input_ids",
    "choice_words": "word_heads",
    "choice_coarse": "coarse_ids",
    "choice_tree": "tree_ids",
    "choice_branches": "branch_triples",
}
NO_BRANCH: Row = {
    # [CLS] ab [SEP] h [SEP]
    "input_ids": [2, 10, 3, 15, 3],
    "token_type_ids": [0, 0, 0, 1, 1],
    "char_starts": [0, 0, 0, 5, 0],
    "char_stops": [0, 2, 0, 6, 0],
    "word_index": [-1, 0, -1, 1, -1],
    "word_heads": [0, 1],
    "word_deprels": [1, 3],
    "word_dfs_in": [0, 1],
    "word_dfs_out": [1, 2],
    "sentence_index": [0, 1],
    "coarse_ids": [2, 20, 3, 23, 3],
    "coarse_token_type_ids": [0, 0, 0, 1, 1],
    "coarse_index": [0, 1, 2, 3, 4],
    "tree_ids": [2, 10, 3, 15, 3],
    "tree_token_type_ids": [0, 0, 0, 1, 1],
    "tree_soft_positions": [0, 1, 2, 3, 4],
    "tree_branch": [0] * 5,
    "tree_mention": [-1] * 5,
    "tree_trunk_index": [0, 1, 2, 3, 4],
    "branch_triples": [],
    "branch_parents": [],
}


def question(choice: Row, others: Row, place: int, lines: tuple[str, str]) -> Row:
    """Two choices: `choice` is number `place`, the lists of `others` are the other one."""
    both = [choice, others] if place == 0 else [others, choice]
    row: Row = {"id": choice["id"], "text": choice["text"], "text_pair": "\n".join(lines), "label": 1}
    row |= {name: [v for part in both for v in part[name]] for name in LISTS}
    row |= {count: [len(part[of]) for part in both] for count, of in COUNTS.items()}
    starts = [0, len(lines[0]) + 1]
    return row | {
        "choice_starts": starts,
        "choice_stops": [s + len(line) for s, line in zip(starts, lines, strict=True)],
    }


ROW = question(PAIR, NO_BRANCH, 0, ("ef g", "h"))
CASES = [
    breaks("nulls", "starts", put(choice_starts=None)),
    breaks("lengths", "N", put(choice_words=[4, 1, 1])),
    breaks("second_text", "none", put(text_pair=None)),
    breaks("choice_lengths", "short", at("choice_lengths", 1, 4)),
    breaks("choice_lengths", "words", at("choice_words", 0, 5)),
    breaks("choice_lengths", "coarse", at("choice_coarse", 1, 4)),
    breaks("choice_lengths", "tree", at("choice_tree", 1, 6)),
    breaks("choice_lengths", "branches", at("choice_branches", 1, 1)),
    breaks("choice_lengths", "negative", put(choice_words=[7, -1])),
    breaks("choice_lengths", "one-token", put(choice_lengths=[12, 1])),
    breaks("choice_lengths", "none", put(**{name: [] for name in (*COUNTS, "choice_starts", "choice_stops")}, label=None)),
    breaks("choices", "more-lines", put(text_pair="ef g\nh\n")),
    breaks("choices", "one-line", put(text_pair="ef g h")),
    breaks("choices", "starts-late", put(choice_starts=[1, 5])),
    breaks("choices", "gap", put(choice_starts=[0, 6], choice_stops=[4, 6])),
    breaks("choices", "backwards", put(choice_starts=[0, 5], choice_stops=[4, 4])),
    breaks("choices", "ends-early", put(text_pair="ef g\nhi")),
    breaks("choices", "elsewhere", put(choice_starts=[0, 4], choice_stops=[3, 6])),
    breaks("choice_tokens", "of-the-other", put(char_starts=[*PAIR["char_starts"], 0, 0, 0, 2, 0],
                                                char_stops=[*PAIR["char_stops"], 0, 2, 0, 4, 0])),
    breaks("choice_tokens", "over-the-line", put(char_starts=[*PAIR["char_starts"], 0, 0, 0, 4, 0])),
    breaks("label", "beyond", put(label=2)),
    breaks("label", "negative", put(label=-1)),
    breaks("special_tokens", "cls-of-the-second", at("input_ids", 8, 10)),
    breaks("max_length", "second", lambda r: lengthen(r)),
]  # fmt: skip


def lengthen(row: Row) -> None:
    """The second choice gets 70 tokens more, all of its last word's character."""
    for name, value in (
        ("input_ids", 15), ("token_type_ids", 1), ("char_starts", 5), ("char_stops", 6), ("word_index", 1),
        ("coarse_index", 3),
    ):  # fmt: skip
        row[name][12:12] = [value] * 70
    row["choice_lengths"][1] += 70
    for name, value in (
        ("tree_ids", 15),
        ("tree_token_type_ids", 1),
        ("tree_branch", 0),
        ("tree_mention", -1),
    ):
        row[name][-1:-1] = [value] * 70
    row["choice_tree"][1] += 70
    for name in ("tree_soft_positions", "tree_trunk_index"):
        row[name][-5:] = range(75)


def schema_of(groups: tuple[str, ...] = GROUPS) -> Any:
    return rows_schema("choice", groups)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_broken_question_is_found(case: Break, tmp_path: Path) -> None:
    expect(tmp_path, case, ROW, make_rows(4, "choice", GROUPS, 9), schema_of(), "encode", "choice")


# Every rule of pairs and trees holds for each choice by itself.
SHARED = [
    (case, PAIR)
    for case in PAIR_CASES
    if case.rule not in ("nulls", "lengths", "label", "max_length")
    # Other rules tell these of choices: the second text, the length, the line.
    and (case.rule, case.name)
    not in (
        ("special_tokens", "pair-without-text"),
        ("coarse_special_tokens", "empty"),
        ("offsets", "beyond-b"),
    )
] + [
    (case, row)
    for cases, row in ((TREE_CASES, PAIR), (DEEP_CASES, DEEP))
    for case in cases
    if case.rule not in ("nulls", "lengths")
]


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize(("case", "pair"), SHARED, ids=[f"{c}-{i}" for i, (c, _) in enumerate(SHARED)])
def test_a_rule_of_pairs_is_found_in_any_choice(case: Break, pair: Row, place: int, tmp_path: Path) -> None:
    other = {
        **NO_BRANCH,
        "char_starts": list(NO_BRANCH["char_starts"]),
        "char_stops": list(NO_BRANCH["char_stops"]),
    }
    text = pair["text_pair"]
    lines = (text, "h") if place == 0 else ("h", text)

    def build(choice: Row) -> Row:
        choice, rest = copy.deepcopy(choice), copy.deepcopy(other)
        shift = 0 if place == 0 else 2
        for part, by in ((choice, shift), (rest, len(text) + 1 - 5 if place == 0 else -5)):
            for edge in ("char_starts", "char_stops"):
                part[edge] = [
                    v + by if kind == 1 and identity != SEP and identity != CLS else v
                    for v, kind, identity in zip(part[edge], pair_types(part), part["input_ids"], strict=True)
                ]
        return question({**choice, "id": pair["id"], "text": pair["text"]}, rest, place, lines)

    def pair_types(part: Row) -> list[int]:
        # Where a case breaks the types themselves, the sound row's tell the segments.
        return (
            pair["token_type_ids"]
            if len(part["input_ids"]) == len(pair["input_ids"])
            else part["token_type_ids"]
        )

    def change(row: Row) -> None:
        broken = copy.deepcopy(pair)
        case.change(broken)
        row.clear()
        row.update(build(broken))

    report = expect(
        tmp_path,
        Break(case.rule, case.name, change, case.also),
        build(pair),
        make_rows(4, "choice", GROUPS, 9),
        schema_of(),
        "encode",
        "choice",
    )
    assert all(p.detail.startswith(f"choice {place}: ") for p in report.problems)


@pytest.mark.parametrize("groups", [(), ("syntax",), ("coarse",), ("tree",), GROUPS])
def test_valid_questions_are_clean_and_counted(groups: tuple[str, ...], tmp_path: Path) -> None:
    rows = make_rows(9, "choice", groups, 90)
    splits = {"train": [rows[:50], [], rows[50:]]}
    folder = write_folder(tmp_path, schema_of(groups), splits, task="choice", max_batch_rows=16)
    report = verify(str(folder))
    assert report.ok, "\n".join(report.render())
    assert report.counts["tokens"] == sum(len(r["input_ids"]) for r in rows)
    assert {len(r["choice_lengths"]) for r in rows} == {2, 3, 4} and {r["label"] for r in rows} == {
        None,
        0,
        1,
        2,
        3,
    }


# --- targets ----------------------------------------------------------------------------------

WHOLE = {**{k: v for k, v in PAIR.items() if k != "label"}, "target_cut": False}
CUT = {
    name: value[:-1] if name in LISTS and value[-1] in (3, 7, 5, -1, 1, 0) else value
    for name, value in WHOLE.items()
}
for name in (
    "branch_triples",
    "branch_parents",
    "word_deprels",
    "word_heads",
    "word_dfs_in",
    "word_dfs_out",
    "sentence_index",
):
    CUT[name] = WHOLE[name]
CUT["target_cut"] = True
TARGETS = [
    (WHOLE, breaks("second_text", "none", put(text_pair=None))),
    (WHOLE, breaks("special_tokens", "said-to-be-cut", put(target_cut=True))),
    (CUT, breaks("special_tokens", "said-to-be-whole", put(target_cut=False))),
    (CUT, breaks("special_tokens", "no-middle-sep", at("input_ids", 4, 10))),
    (CUT, breaks("special_tokens", "sep-last", lambda r: (at("input_ids", 4, 10)(r), at("input_ids", 6, SEP)(r)))),
    (WHOLE, breaks("coarse_special_tokens", "cut", lambda r: r.update(
        coarse_ids=r["coarse_ids"][:-1], coarse_token_type_ids=r["coarse_token_type_ids"][:-1]))),
    (CUT, breaks("coarse_special_tokens", "whole", lambda r: r.update(
        coarse_ids=[*r["coarse_ids"], SEP], coarse_token_type_ids=[*r["coarse_token_type_ids"], 1]))),
    (CUT, breaks("tree_trunk", "ends-with-sep", lambda r: [r[n].append(v) for n, v in (
        ("tree_ids", SEP), ("tree_token_type_ids", 1), ("tree_soft_positions", 7), ("tree_branch", 0),
        ("tree_mention", -1), ("tree_trunk_index", 7))])),
]  # fmt: skip


@pytest.mark.parametrize(("row", "case"), TARGETS, ids=[str(c) for _, c in TARGETS])
def test_a_broken_target_is_found(row: Row, case: Break, tmp_path: Path) -> None:
    others = make_rows(4, "seq2seq", GROUPS, 9)
    expect(tmp_path, case, row, others, rows_schema("seq2seq", GROUPS), "encode", "seq2seq")


def without(start: int, stop: int) -> Any:
    """Take tokens away."""

    def change(row: Row) -> None:
        for name in ("input_ids", "token_type_ids", "char_starts", "char_stops"):
            del row[name][start:stop]

    return change


EMPTY = [breaks("target_tokens", "source", without(1, 4)), breaks("target_tokens", "target", without(5, 7))]


@pytest.mark.parametrize("case", EMPTY, ids=str)
def test_an_empty_side_is_found(case: Break, tmp_path: Path) -> None:
    row = {name: WHOLE[name] for name in rows_schema("seq2seq", ()).names}
    others = make_rows(4, "seq2seq", (), 9)
    expect(tmp_path, case, row, others, rows_schema("seq2seq", ()), "encode", "seq2seq")


@pytest.mark.parametrize("groups", [(), ("syntax",), ("coarse",), ("tree",), GROUPS])
def test_valid_targets_are_clean(groups: tuple[str, ...], tmp_path: Path) -> None:
    rows = make_rows(9, "seq2seq", groups, 120)
    assert {r["target_cut"] for r in rows} == {True, False}
    folder = write_folder(tmp_path, rows_schema("seq2seq", groups), {"train": [rows]}, task="seq2seq")
    assert verify(str(folder)).ok


# --- anything at all --------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["span", "choice", "seq2seq"])
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_any_numbers_end_as_problems_never_as_a_crash(task: str, seed: int) -> None:
    """Rows with some numbers, lengths, texts and flags changed at will."""
    rng = random.Random(seed)
    schema = rows_schema(task, GROUPS)
    rows = make_rows(seed % 7, task, GROUPS, 12)
    for _ in range(rng.randint(1, 4)):
        row, name = rng.choice(rows), rng.choice(schema.names)
        value, kind = row[name], str(schema.field(name).type)
        numbers = [-32768, -1, 0, 1, 2, 3, 7, 100, 32767]
        if kind.startswith("list") and "string" not in kind:
            items = [
                not v if "bool" in kind else rng.choice(numbers if "int8" not in kind else [-1, 0, 1, 2])
                for v in value
            ]
            chosen = rng.randrange(len(items) + 1)
            row[name] = rng.choice(
                [[*value[:chosen], *items[chosen:]], value[:chosen], [*value, *value[:1]], []]
            )
        elif kind.startswith("list"):
            row[name] = rng.choice([[], ["x"], [""], [*value, "y"]])
        elif kind == "string":
            row[name] = rng.choice(["", "\n", "a" * 9, "q#1", "q#", "\u200b", rows[0][name]])
        else:
            row[name] = (not value) if kind == "bool" else rng.choice(numbers)
    with tempfile.TemporaryDirectory() as folder:
        path = raw_folder(Path(folder) / "f", schema, [[to_batch(rows, schema)]], "encode", task)
        report = verify(path)
    assert report.counts["rows"] == len(rows)
    assert not {"unreadable", "invalid_arrow", "manifest"} & set(report.rule_counts)
