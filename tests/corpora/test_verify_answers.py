"""Every rule of questions and their windows fires, and only where it should."""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from corpora.verify import Report, verify
from corpora.verify.edges import trimmed
from tests.corpora.breaking import at, breaks, expect, put, raw_folder
from tests.rows import GROUPS, Row, make_rows, make_windows, rows_schema, to_batch, write_folder

WINDOW = {
    # [CLS] wo [SEP] a b cd e [SEP], the answer is "b cd"
    "id": "by-hand#0",
    "text": "wo?",
    "text_pair": "a b\u200b cd e ",
    "input_ids": [2, 10, 3, 11, 12, 13, 14, 3],
    "token_type_ids": [0, 0, 0, 1, 1, 1, 1, 1],
    "char_starts": [0, 0, 0, 0, 2, 5, 8, 0],
    "char_stops": [0, 2, 0, 1, 3, 7, 9, 0],
    "answer_start": 4,
    "answer_stop": 6,
    "is_impossible": False,
    "answers": ["other", " b\u200b cd "],
    "is_max_context": [False] * 3 + [True] * 4 + [False],
}

CASES = [
    breaks("nulls", "answers", put(answers=None)),
    breaks("nulls", "answer", put(answers=["b\u200b cd", None])),
    breaks("lengths", "T", put(is_max_context=[True] * 7)),
    breaks("second_text", "none", put(text_pair=None)),
    breaks("answer_span", "in-the-question", put(answer_start=1)),
    breaks("answer_span", "on-its-sep", put(answer_start=2)),
    breaks("answer_span", "on-the-last-sep", put(answer_stop=8)),
    breaks("answer_span", "beyond", put(answer_stop=9)),
    breaks("answer_span", "empty", put(answer_stop=4)),
    breaks("answer_span", "backwards", put(answer_stop=3)),
    breaks("answer_span", "negative", put(answer_start=-1)),
    breaks("answer_span", "half-null", put(answer_start=0)),
    breaks("answer_span", "null-too-long", put(answer_start=0, answer_stop=2)),
    breaks("answer_span", "no-null", put(answer_start=0, answer_stop=0)),
    breaks("answer_text", "short", put(answer_stop=5)),
    breaks("answer_text", "long", put(answer_start=3)),
    breaks("answer_text", "none", put(answers=[])),
    breaks("answer_text", "elsewhere", put(answers=["b cd"])),
    breaks("impossible", "answers", put(is_impossible=True, answer_start=0, answer_stop=1)),
    breaks("impossible", "span", put(is_impossible=True), ),
    breaks("max_context", "cls", at("is_max_context", 0, True)),
    breaks("max_context", "question", at("is_max_context", 1, True)),
    breaks("max_context", "sep", at("is_max_context", 2, True)),
    breaks("max_context", "last-sep", at("is_max_context", 7, True)),
    breaks("max_context", "in-no-window", at("is_max_context", 5, False)),
    breaks("windows", "not-the-first", put(id="by-hand#1")),
    breaks("windows", "no-number", put(id="by-hand")),
    breaks("windows", "begins-late", put(text_pair="a b\u200b cd e ", char_starts=[0, 0, 0, 2, 2, 5, 8, 0],
                                         char_stops=[0, 2, 0, 3, 3, 7, 9, 0], answers=["b\u200b cd"])),
    breaks("windows", "ends-early", put(text_pair="a b\u200b cd e f")),
    breaks("windows", "no-text", put(
        input_ids=[2, 10, 3, 3], token_type_ids=[0, 0, 0, 1], char_starts=[0, 0, 0, 0], char_stops=[0, 2, 0, 0],
        is_max_context=[False] * 4, answer_start=0, answer_stop=1)),
]  # fmt: skip


def single(count: int) -> list[Row]:
    """Windows of questions that have one each."""
    rng, found = random.Random(3), []
    while len(found) < count:
        windows = make_windows(rng, (), f"other{len(found)}")
        found += windows if len(windows) == 1 else []
    return found


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_broken_window_is_found(case, tmp_path: Path) -> None:
    expect(tmp_path, case, WINDOW, single(9), rows_schema("span", ()), "encode", "span")


def test_wider_answers_are_right_where_the_config_wants_them(tmp_path: Path) -> None:
    wide = {**WINDOW, "answers": ["d"]}
    folders = [
        write_folder(
            tmp_path / how, rows_schema("span", (), misaligned=how), {"train": [[wide]]}, task="span"
        )
        for how in ("drop", "widen")
    ]
    assert [sorted(verify(str(f)).rule_counts) for f in folders] == [["answer_text"], []]
    wrong = {**WINDOW, "answers": ["de"]}
    schema = rows_schema("span", (), misaligned="widen")
    folder = write_folder(tmp_path / "other", schema, {"train": [[wrong]]}, task="span")
    assert list(verify(str(folder)).rule_counts) == ["answer_text"]


def test_edges_that_no_token_holds() -> None:
    assert trimmed("\u3000\x00\u200b\ufeff\u0301 a b\ufffd\u00ad\u2028\ufe0f") == "a b"
    assert trimmed(" \u200b") == "" == trimmed("")
    assert trimmed("\u0e33。") == "\u0e33。"  # a spacing vowel, a mark of punctuation


# --- several windows --------------------------------------------------------------------------

TEXT = "a b c d e f g"


def window(number: int, start: int, stop: int, best: str, answer: tuple[int, int] | None) -> Row:
    """Window of letters [start, stop) of `TEXT`; `best` are those with most context here."""
    letters = range(start, stop)
    return {
        "id": f"q#{number}",
        "text": "wo?",
        "text_pair": TEXT,
        "input_ids": [2, 10, 3, *(20 + i for i in letters), 3],
        "token_type_ids": [0, 0, 0, *(1 for _ in letters), 1],
        "char_starts": [0, 0, 0, *(2 * i for i in letters), 0],
        "char_stops": [0, 2, 0, *(2 * i + 1 for i in letters), 0],
        "answer_start": 3 + answer[0] - start if answer else 0,
        "answer_stop": 3 + answer[1] - start if answer else 1,
        "is_impossible": False,
        "answers": ["d e"],
        "is_max_context": [False] * 3 + [TEXT[2 * i] in best for i in letters] + [False],
    }


QUESTION = [
    window(0, 0, 4, "abc", None),
    window(1, 2, 6, "de", (3, 5)),
    window(2, 3, 7, "fg", (3, 5)),
]


def change(number: int, **values: object) -> Callable[[list[Row]], None]:
    return lambda rows: rows[number].update(values)


def replace(number: int, row: Row) -> Callable[[list[Row]], None]:
    def put_in(rows: list[Row]) -> None:
        rows[number] = row

    return put_in


WINDOWS = [
    ("windows", "swapped", 1, lambda rows: rows.insert(1, rows.pop())),
    ("windows", "lost", 1, lambda rows: rows.pop(1)),
    ("windows", "lost-last", 1, lambda rows: rows.pop()),
    ("windows", "lost-first", 0, lambda rows: rows.pop(0)),
    ("windows", "wrong-number", 1, change(1, id="q#7")),
    ("windows", "other-text", 2, change(2, text="wo!")),
    ("windows", "other-second-text", 1, change(1, text_pair=TEXT + " ")),
    ("windows", "other-answers", 1, change(1, answers=["d e", "x"])),
    ("windows", "impossible", 1, lambda rows: [r.update(
        answers=[], answer_start=0, answer_stop=1, is_impossible=r["id"] == "q#0") for r in rows]),
    ("windows", "other-question", 1, change(1, input_ids=[2, 11, 3, 22, 23, 24, 25, 3])),
    ("windows", "gap", 2, lambda rows: (rows.__setitem__(1, window(1, 2, 5, "de", (3, 5))), rows.__setitem__(2, window(2, 6, 7, "fg", None)))),
    ("windows", "stands-still", 1, replace(1, window(1, 0, 4, "de", None))),
    ("windows", "goes-back", 2, replace(2, window(2, 1, 7, "fg", (3, 5)))),
    ("windows", "ends-before", 1, replace(1, window(1, 2, 3, "", None))),
    ("windows", "cut-otherwise", 1, change(1, char_stops=[0, 2, 0, 5, 8, 9, 11, 0], char_starts=[0, 0, 0, 4, 7, 8, 10, 0],
                                           answer_start=0, answer_stop=1)),
    ("windows", "answer-missed", 1, replace(1, window(1, 2, 6, "de", None))),
    ("windows", "answer-missed-later", 2, replace(2, window(2, 3, 7, "fg", None))),
    ("windows", "answers-differ", 2, lambda rows: [r.update(answers=["d e", "e"]) for r in rows] and rows[2].update(answer_start=4)),
    ("max_context", "twice", 1, replace(1, window(1, 2, 6, "cde", (3, 5)))),
    ("max_context", "twice-later", 2, replace(2, window(2, 3, 7, "defg", (3, 5)))),
    ("max_context", "never-first", 1, replace(0, window(0, 0, 4, "bc", None))),
    ("max_context", "never-shared", 2, replace(1, window(1, 2, 6, "d", (3, 5)))),
    ("max_context", "never-last", 2, replace(2, window(2, 3, 7, "f", (3, 5)))),
]  # fmt: skip


def check(folder: Path, rows: list[Row], *, batches: int = 1) -> Report:
    """`rows` among other questions, in one or two record batches of a shard."""
    schema = rows_schema("span", ())
    whole = to_batch([*single(2), *rows, *single(5)[2:]], schema)
    cut = [whole] if batches == 1 else [whole.slice(0, 4), whole.slice(4)]
    return verify(raw_folder(folder, schema, [cut], "encode", "span"))


@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.parametrize(
    ("rule", "name", "where", "spoil"), WINDOWS, ids=[f"{r}-{n}" for r, n, *_ in WINDOWS]
)
def test_windows_that_do_not_fit_together_are_found(rule, name, where, spoil, batches, tmp_path) -> None:
    rows = copy.deepcopy(QUESTION)
    assert check(tmp_path / "sound", rows, batches=batches).ok
    spoil(rows)
    report = check(tmp_path / "broken", rows, batches=batches)
    assert report.rule_counts == {rule: 1}, report.render()
    (problem,) = report.problems
    assert (problem.row, problem.id) == (2 + where, rows[where]["id"]) and problem.detail


def test_nothing_is_said_of_windows_beside_a_broken_one(tmp_path: Path) -> None:
    for number in range(3):
        rows = copy.deepcopy(QUESTION)
        rows[number]["token_type_ids"][1] = 1
        report = check(tmp_path / str(number), rows)
        assert report.rule_counts == {"token_types": 1}, report.render()


@pytest.mark.parametrize("groups", [(), GROUPS])
def test_valid_windows_are_clean_over_batches_and_shards(groups, tmp_path: Path) -> None:
    rows = make_rows(9, "span", groups, 300)
    sizes = Counter(row["id"].partition("#")[0] for row in rows)
    assert max(sizes.values()) > 5 and {row["answer_start"] > 0 for row in rows} == {True, False}
    first = next(i for i, row in enumerate(rows) if i > 150 and row["id"].endswith("#0"))
    splits = {"train": [rows[:first], [], rows[first:]], "dev": [rows[:first]]}
    folder = write_folder(tmp_path, rows_schema("span", groups), splits, task="span", max_batch_rows=7)
    report = verify(str(folder))
    assert report.ok, "\n".join(report.render())
    assert report.counts["rows"] == len(rows) + first


def test_a_question_that_a_shard_cuts_is_found(tmp_path: Path) -> None:
    splits = {"train": [QUESTION[:1], QUESTION[1:]]}
    report = verify(str(write_folder(tmp_path, rows_schema("span", ()), splits, task="span")))
    assert set(report.rule_counts) == {"windows"}
    assert [(p.shard[6:11], p.row) for p in report.problems] == [("00000", 0), ("00001", 0)]
