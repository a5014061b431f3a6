"""Questions as targets: sources of an answer and the text around it, from every layout, and splits that are held out."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.holdout import side
from corpora.layout import InputConfig
from corpora.plan import plan_blocks
from corpora.readers import read_block
from corpora.readers.asking import Chosen, source, window
from corpora.records import Reject
from tests.corpora.conftest import Read
from tests.corpora.questions import qa, read_files, squad

TEXT = "甲公司成立于2010年。乙公司在上海。"


def ask(folder: Path, value: Any, **more: Any) -> Read:
    return read_files(folder, {"q.json": value}, format="squad", task="seq2seq", **more)


def pairs(got: Read) -> list[tuple[str, str, str]]:
    return [(row["doc_id"], row["text"], row["text_pair"]) for row in got.rows]


FLAT = {"id": "q1", "title": "甲", "context": TEXT, "question": "何时？"}
LAYOUTS: dict[str, Any] = {
    "squad": squad(qa([("2010年", 6)]), context=TEXT),
    "drcd": {
        "version": "1.3",
        "data": [
            {
                "id": "1",
                "title": "甲",
                "paragraphs": [{"id": "1-1", "context": TEXT, "qas": [qa([("2010年", 6)])]}],
            }
        ],
    },
    "cmrc": [
        {
            "context_id": "1",
            "context_text": TEXT,
            "title": "甲",
            "qas": [{"query_id": "q1", "query_text": "何时？", "answers": ["2010年", "年"]}],
        }
    ],
    "datasets": {**FLAT, "answers": {"text": ["2010年"], "answer_start": [6]}},
    "datasets, several": [{**FLAT, "answers": {"text": ["2010年"], "answer_start": [6]}}],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_answer_text_and_question(tmp_path: Path, layout: str) -> None:
    got = ask(tmp_path, LAYOUTS[layout])
    assert pairs(got) == [("q1", f"2010年\n{TEXT}", "何时？")] and not got.rejects
    (row,) = got.rows
    assert (row["title"], row["answers"], row["answer_starts"], row["is_impossible"]) == ("甲", *[None] * 3)
    (row,) = ask(tmp_path, LAYOUTS[layout], context=15).rows
    assert row["text"] == "2010年\n立于2010年。"


def test_the_first_answer_that_stands_in_the_text_is_asked_about(tmp_path: Path) -> None:
    got = ask(tmp_path, squad(qa([("2011年", 6), ("上海", 16), ("甲", 0)]), context=TEXT), context=7)
    assert [row["text"] for row in got.rows] == ["上海\n在上海。"]
    assert got.counts == {"answers_not_found": 1}


def test_questions_without_an_answer_are_left_out_and_counted(tmp_path: Path) -> None:
    """They are no mistakes: a SQuAD 2.0 has a third of them. What is one is rejected as ever."""
    value = squad(
        qa([("2010年", 6)]),
        qa([], "q2", is_impossible=True),
        qa([], "q3"),
        qa([("丙", 0)], "q4"),
        {"id": "q5", "question": "谁？"},
        qa([(" ", 0)], "q6"),
        context=TEXT,
    )
    got = ask(tmp_path, value)
    assert [row["doc_id"] for row in got.rows] == ["q1"]
    assert got.reasons == ["contradiction", "answer_not_in_context", "missing_answers", "empty_answer"]
    assert got.counts == {"questions_without_answer": 1, "answers_not_found": 1}
    dev = ask(tmp_path, value, split="dev", context=10)
    assert [(row["doc_id"], row["text"]) for row in dev.rows] == [
        ("q1", "2010年\n2010年"),  # whole, though there is room for four characters alone
        ("q4", "丙\n甲公司成立于20"),  # nowhere in the text, which is taken from its beginning
    ]
    assert dev.reasons == ["contradiction", "empty_answer"]
    assert dev.counts == {"questions_without_answer": 2, "answers_not_found": 1}


def test_a_window_begins_and_ends_at_words_and_clauses() -> None:
    text = "The Normans were the people who in the 10th century gave their name to Normandy, in France."
    at = text.index("10th")
    first, last = window(text, at, len("10th century"), 50)
    assert text[first:last] == "people who in the 10th century gave their name "
    first, last = window(text, text.index("France"), 6, 31)  # the text ends: the other side has what is left
    assert text[first:last] == "name to Normandy, in France."
    zh = "一二三四五六七八，九十。甲乙丙丁戊己庚辛壬癸"
    first, last = window(zh, zh.index("甲"), 1, 11)
    assert zh[first:last] == "九十。甲乙丙丁戊己"  # behind a mark; no mark is near the other edge
    assert window("x" * 99, 50, 1, 9) == (46, 55)
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"  # one character to its reader
    assert window(f"xx{family}答{family}xx", 7, 1, 9) == (7, 8)
    assert window(f"xx{family}答{family}xx", 7, 1, 11) == (2, 13)


TEXTS = st.text(st.sampled_from("ab 甲乙，。\n\U0001f600"), min_size=1, max_size=60)


@given(TEXTS, st.data(), st.integers(1, 80))
def test_the_answer_stands_whole_in_both_places(text: str, data: st.DataObject, context: int) -> None:
    at = data.draw(st.integers(0, len(text) - 1))
    answer = text[at : data.draw(st.integers(at + 1, len(text)))]
    made = source(Chosen(answer, at), text, context)
    first, _, rest = made[: len(answer)], made[len(answer)], made[len(answer) + 1 :]
    assert first == answer and made[len(answer)] == "\n"
    assert len(made) <= max(context, 2 * len(answer) + 1)
    if len(answer) + 1 + len(text) <= context:
        assert rest == text
        return
    start, stop = window(text, at, len(answer), max(context - len(answer) - 1, 0))
    assert rest == text[start:stop] and start <= at and at + len(answer) <= stop <= len(text)
    assert rest[at - start :].startswith(answer)
    room = max(context - len(answer) - 1, 0) - len(answer)
    assert stop - start - len(answer) >= min(room // 2 - 1, len(text) - len(answer) - 1)  # little is given up


def test_one_text_in_any_order_is_on_one_side() -> None:
    shares = {"dev": 0.1, "test": 0.2}
    sides = [side(shares, f"text {i}") for i in range(20_000)]
    assert sides[:3] == [side(shares, f"text {i}") for i in range(3)]
    assert sides == [side({"test": 0.2, "dev": 0.1}, f"text {i}") for i in range(20_000)]
    found = Counter(sides)
    assert abs(found["dev"] - 2_000) < 200 and abs(found["test"] - 4_000) < 300  # five standard deviations
    assert side({"dev": 0.1}, "a") in (None, "dev") and side({}, "a") is None
    assert {i for i in range(20_000) if sides[i] == "dev"} == {
        i for i in range(20_000) if side({"dev": 0.1}, f"text {i}") == "dev"
    }


def splits_of(folder: Path, files: list[str], task: str = "seq2seq", **more: Any) -> dict[str, Read]:
    layout = InputConfig(format="squad", files={"train": files}, **more)
    found = {split: Read() for split in layout.sources}
    for block in plan_blocks(layout, str(folder)):
        got = found[block.split]

        def reject(one: Reject, got: Read = got) -> None:
            got.rejects.append(one)

        def count(name: str, number: int, got: Read = got) -> None:
            got.counts[name] += number

        for table in read_block(block, layout, task, "zh", reject, on_count=count):
            got.rows.extend(table.to_pylist())
    return found


@pytest.mark.parametrize("task", ["span", "seq2seq"])
def test_held_out_texts_take_all_their_questions(tmp_path: Path, task: str) -> None:
    for number in (0, 1):
        paragraphs = [
            {"context": f"{TEXT}{i}", "qas": [qa([("2010年", 6)], f"{number}-{i}-{k}") for k in range(3)]}
            for i in range(40)
        ]
        bad = [{"context": "甲", "qas": 3}, {"context": 5, "qas": [qa([("甲", 0)], f"x{number}")]}]
        value = {"data": [{"title": "甲", "paragraphs": [*paragraphs, *bad]}, 7]}
        read_files(tmp_path, {f"{number}.json": value}, format="squad")
    whole = splits_of(tmp_path, ["0.json", "1.json"], task)["train"]
    found = splits_of(tmp_path, ["0.json", "1.json"], task, holdout={"dev": 0.3, "test": 0.1})
    ids = {split: {row["doc_id"] for row in got.rows} for split, got in found.items()}
    assert set.union(*ids.values()) == {row["doc_id"] for row in whole.rows} and len(whole.rows) == 240
    assert sum(map(len, ids.values())) == 240 and all(ids.values())
    for split, texts in ((s, {i.split("-")[1] for i in found_ids}) for s, found_ids in ids.items()):
        assert len(ids[split]) == 6 * len(texts)  # in both files, all three questions
    assert found["train"].rejects == whole.rejects and len(whole.rejects) == 6
    assert not found["dev"].rejects and not found["test"].rejects
    other = splits_of(tmp_path, ["1.json", "0.json"], task, holdout={"dev": 0.3, "test": 0.1})
    assert {split: {row["doc_id"] for row in got.rows} for split, got in other.items()} == ids


def test_single_questions_and_lines_that_are_none(tmp_path: Path) -> None:
    lines = [
        f'{{"id": "q{i}", "context": "甲在{i}", "question": "谁？", "answers": {{"text": ["甲"]}}}}'
        for i in range(30)
    ]
    (tmp_path / "q.json").write_text("\n".join([*lines, "{", '{"a": 1}']), encoding="utf-8")
    found = splits_of(tmp_path, ["q.json"], holdout={"dev": 0.4})
    assert len(found["train"].rows) + len(found["dev"].rows) == 30 and found["dev"].rows
    assert [one.reason for one in found["train"].rejects] == ["bad_json", "unknown_layout"]
    assert not found["dev"].rejects


def test_cmrc_trial_set(real_data: Path) -> None:
    got = splits_of(real_data, ["cmrc/cmrc2018_trial.json"], context=205, holdout={"dev": 0.1})
    assert {split: len(one.rows) for split, one in got.items()} == {"train": 892, "dev": 108}
    assert Counter(one.reason for one in got["train"].rejects + got["dev"].rejects) == {"empty_text": 2}
    whole = splits_of(real_data, ["cmrc/cmrc2018_trial.json"], "span")["train"].rows
    texts = {row["doc_id"]: row for row in whole}
    for row in got["train"].rows + got["dev"].rows:
        answer, _, around = row["text"].partition("\n")
        gold = texts[row["doc_id"]]
        if "\n" not in gold["answers"][0]:
            assert answer == gold["answers"][0] and answer in around and around in gold["text_pair"]
        assert (
            len(row["text"]) <= max(205, 2 * len(gold["answers"][0]) + 1) and row["text_pair"] == gold["text"]
        )


def test_squad_sample(real_data: Path) -> None:
    got = splits_of(real_data, ["sgnet/squad_sample.json"])["train"]
    assert len(got.rows) == 53 and not got.rejects and got.counts == {"questions_without_answer": 67}


def test_reading_in_small_tables_changes_nothing() -> None:
    value = [squad(qa([("2010年", 6)], f"q{i}"), context=TEXT)["data"][0] for i in range(9)]
    with tempfile.TemporaryDirectory() as folder:
        one = ask(Path(folder), {"data": value}, context=14)
        many = ask(Path(folder), {"data": value}, context=14, batch_bytes=100)
    assert one.rows == many.rows and len(one.tables) == 1 and len(many.tables) > 1
