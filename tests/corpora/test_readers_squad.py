"""Questions on texts: where answers stand, what is rejected, and every layout."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.layout import InputConfig
from tests.corpora.conftest import Read
from tests.corpora.questions import qa, read_files, squad

TEXT = "甲公司成立于2010年。"


def _read(folder: Path, *values: Any, split: str = "train", **layout: Any) -> Read:
    return read_files(
        folder, {f"{i}.json": value for i, value in enumerate(values)}, split=split, format="squad", **layout
    )


@pytest.mark.parametrize(
    ("answer", "start", "counts"),
    [
        (("2010年", 7), 6, {"answers_repaired": 1}),  # (a)
        (("2010年", -1), 6, {"answers_repaired": 1}),  # (b)
        (("2010年", 6), 6, {}),  # (d)
        (("2010年", None), 6, {"answers_repaired": 1}),
        (("2010年", 99), 6, {"answers_repaired": 1}),
        (("2010年", 10**30), 6, {"answers_repaired": 1}),
        ((" 2010年\n", 6), 6, {"answers_trimmed": 1}),
        (("。", 10), 11, {"answers_repaired": 1}),
        (("。", -1), 11, {"answers_repaired": 1}),  # -1 is no offset from the end
        (("甲", 0), 0, {}),
    ],
)
def test_c01_offsets_are_verified_and_mended(
    tmp_path: Path, answer: tuple[str, Any], start: int, counts: dict[str, int]
) -> None:
    for split in ("train", "dev"):
        got = _read(tmp_path, squad(qa([answer])), split=split)
        (row,) = got.rows
        assert row["answers"] == [answer[0].strip()] and row["answer_starts"] == [start]
        assert row["is_impossible"] is False and got.counts == counts and not got.rejects


def test_c01_an_answer_that_is_nowhere(tmp_path: Path) -> None:
    """(c): no row to train on; elsewhere the gold text, without an offset."""
    value = squad(qa([("乙公司", -1)], "q7"))
    got = _read(tmp_path, value)
    assert not got.rows and got.reasons == ["answer_not_in_context"]
    assert "question 'q7' at data[0].paragraphs[0].qas[0]: the answer '乙公司'" in got.rejects[0].detail
    (row,) = _read(tmp_path, value, split="dev").rows
    assert row["answers"] == ["乙公司"] and row["answer_starts"] == [-1] and row["is_impossible"] is False
    assert _read(tmp_path, value, split="dev").counts == {"answers_not_found": 1}
    # Which splits train can be said.
    assert _read(tmp_path, value, split="dev", train_splits=["dev"]).reasons == ["answer_not_in_context"]
    two = {"train": ["0.json"], "other": ["0.json"]}
    assert not InputConfig(format="squad", files=two, train_splits=["other"]).trains("train")
    # One gold answer that can be found is enough.
    (row,) = _read(tmp_path, squad(qa([("乙公司", 0), ("2010年", 6)]))).rows
    assert row["answers"] == ["乙公司", "2010年"] and row["answer_starts"] == [-1, 6]


def test_an_answer_at_several_places(tmp_path: Path) -> None:
    value = squad(qa([("公司", 0)]), context="甲公司和乙公司，公司")
    got = _read(tmp_path, value)
    assert got.reasons == ["ambiguous_answer"] and got.counts == {"answers_ambiguous": 1}
    assert "not at 0, the offset given" in got.rejects[0].detail
    assert _read(tmp_path, value, split="dev").rows[0]["answer_starts"] == [-1]
    for split in ("train", "dev"):
        got = _read(tmp_path, value, split=split, ambiguous_answers="first")
        assert got.rows[0]["answer_starts"] == [1] and got.counts == {"answers_ambiguous": 1}
    # A right offset is not ambiguous, whatever else is there; occurrences may overlap.
    assert _read(tmp_path, squad(qa([("公司", 5)]), context="甲公司和乙公司")).rows[0]["answer_starts"] == [5]
    assert _read(tmp_path, squad(qa([("aa", 9)]), context="aaa")).reasons == ["ambiguous_answer"]


def test_white_space_at_the_edges_of_an_answer(tmp_path: Path) -> None:
    """The offset is that of the space, or of the first letter; the text found there decides."""
    context = "x ab y ab z"
    for given_start, start in ((1, 2), (2, 2), (6, 7), (7, 7)):
        got = _read(tmp_path, squad(qa([(" ab ", given_start)]), context=context))
        assert got.rows[0]["answers"] == ["ab"] and got.rows[0]["answer_starts"] == [start]
        assert got.counts == {"answers_trimmed": 1}
    assert _read(tmp_path, squad(qa([(" ab", 4)]), context=context)).reasons == ["ambiguous_answer"]


def test_c26_no_answer(tmp_path: Path) -> None:
    value = squad(
        qa([], "a", is_impossible=True, plausible_answers=[{"text": "2010年", "answer_start": 6}]),
        qa([("2010年", 6)], "b"),
        qa([], "c", is_impossible=False),
        qa([], "d"),
        qa([("2010年", 6)], "e", is_impossible=True),
        qa([("", -1)], "f", is_impossible=True),
        qa([("2010年", 6)], "g", is_impossible=None),
    )
    for split in ("train", "dev"):
        got = _read(tmp_path, value, split=split)
        assert [(r["doc_id"], r["is_impossible"], r["answers"], r["answer_starts"]) for r in got.rows] == [
            ("a", True, [], []),
            ("b", False, ["2010年"], [6]),
            ("f", True, [], []),
            ("g", False, ["2010年"], [6]),
        ]
        assert got.reasons == ["contradiction"] * 3
        assert [f"question {x!r}" in r.detail for x, r in zip("cde", got.rejects, strict=True)] == [True] * 3


def test_unlabelled_questions(tmp_path: Path) -> None:
    bare = {"id": "a", "question": "何时？"}
    got = _read(tmp_path, squad(bare, {**bare, "answers": None}), split="test")
    assert [(r["answers"], r["answer_starts"], r["is_impossible"]) for r in got.rows] == [
        (None, None, None)
    ] * 2
    assert got.counts == {"questions_unlabelled": 2}
    assert _read(tmp_path, squad(bare)).reasons == ["missing_answers"]
    # One that says it is impossible needs no list of answers.
    (row,) = _read(tmp_path, squad({**bare, "is_impossible": True})).rows
    assert (row["is_impossible"], row["answers"]) == (True, [])


@pytest.mark.parametrize(
    ("text", "answer", "starts"),
    [
        ("我👨‍👩‍👧在北京", "北京", {"characters": 7, "utf16": 10, "bytes": 24}),
        ("❤️，第一行\r\n第二行", "第二行", {"characters": 8, "utf16": 8, "bytes": 20}),
        ("🇨🇳和🇫🇷", "🇫🇷", {"characters": 3, "utf16": 5, "bytes": 11}),
        ("𠮷野家在東京", "東京", {"characters": 4, "utf16": 5, "bytes": 13}),
        ("plain", "ain", {"characters": 2, "utf16": 2, "bytes": 2}),
    ],
)
def test_c27_units_of_offsets(tmp_path: Path, text: str, answer: str, starts: dict[str, int]) -> None:
    for unit, start in starts.items():
        got = _read(tmp_path, squad(qa([(answer, start)]), context=text), offset_unit=unit)
        assert got.rows[0]["answer_starts"] == [starts["characters"]] and not got.counts, unit
        assert text[starts["characters"] :].startswith(answer)


def test_c27_offsets_in_another_unit_are_not_believed(tmp_path: Path) -> None:
    text = "我👨‍👩‍👧在北京"
    for unit, start in (
        ("characters", 10),
        ("utf16", 7),
        ("utf16", 2),
        ("bytes", 25),
        ("bytes", 10),
        ("utf16", 99),
        ("bytes", 10**30),
    ):
        got = _read(tmp_path, squad(qa([("北京", start)]), context=text), offset_unit=unit)
        assert got.rows[0]["answer_starts"] == [7] and got.counts == {"answers_repaired": 1}
    twice = squad(qa([("北京", 10)]), context=text + "北京")
    assert _read(tmp_path, twice).reasons == ["ambiguous_answer"]
    assert _read(tmp_path, twice, offset_unit="utf16").rows[0]["answer_starts"] == [7]


def test_c27_an_offset_within_a_character_is_none(tmp_path: Path) -> None:
    for unit, start, counts in (("utf16", 1, 1), ("utf16", 2, 0), ("bytes", 3, 1), ("bytes", 4, 0)):
        got = _read(tmp_path, squad(qa([("x", start)]), context="😀x"), offset_unit=unit)
        assert got.rows[0]["answer_starts"] == [1] and got.counts["answers_repaired"] == counts


def test_c27_units_are_those_of_each_text(tmp_path: Path) -> None:
    value = {
        "data": [
            squad(qa([("x", s)]), context=c)["data"][0] for c, s in (("😀x", 2), ("é😀x", 3), ("xx😀x", 4))
        ]
    }
    got = _read(tmp_path, value, offset_unit="utf16")
    assert [r["answer_starts"] for r in got.rows] == [[1], [2], [3]] and not got.counts


@pytest.mark.parametrize(
    ("question", "reason", "detail"),
    [
        (qa([("2010年", 6)], question=""), "empty_text", "'question' is empty"),
        (qa([("2010年", 6)], question=" \u3000"), "empty_text", "only white space"),
        ({"id": "q1", "answers": []}, "missing_text", "'question' is missing"),
        (qa([("2010年", 6)], question=7), "bad_type", "'question' must be a string"),
        (qa([("2010年", "6")]), "bad_type", "'answer_start' must be a whole number, found a string"),
        (qa([("2010年", True)]), "bad_type", "a whole number, found a boolean"),
        (qa([("2010年", 6.5)]), "bad_type", "a whole number"),
        (qa([(2010, 6)]), "bad_type", "'text', found a number"),
        (qa([{"answer_start": 6}]), "bad_type", "found null"),
        (qa([None]), "bad_type", "found null"),
        (qa("2010年"), "bad_type", "'answers' must be a list, found a string"),
        (qa({"text": "2010年", "answer_start": 6}), "bad_type", "'answers.text' must be a list"),
        (qa({"text": ["2010年"], "answer_start": []}), "bad_type", "as many numbers"),
        (qa([("", 6)]), "empty_answer", "empty or white space"),
        (qa([(" ", 6)]), "empty_answer", "empty or white space"),
        (qa([("2010年", 6)], is_impossible="no"), "bad_type", "'is_impossible' must be true or false"),
        (qa([("2010年", 6)], is_impossible=0), "bad_type", "found a number"),
        (qa([("2010年", 6)], ["q1"]), "bad_type", "'id'"),
        ("q1", "bad_type", "must be an object"),
    ],
)
def test_a_bad_question_is_rejected_alone(tmp_path: Path, question: Any, reason: str, detail: str) -> None:
    good = [qa([("甲公司", 0)], "before"), qa([("甲公司", 0)], "after")]
    for split in ("train", "dev"):
        got = _read(tmp_path, squad(good[0], question, good[1]), split=split)
        assert [r["doc_id"] for r in got.rows] == ["before", "after"] and got.reasons == [reason]
        (reject,) = got.rejects
        assert detail in reject.detail and "data[0].paragraphs[0].qas[1]" in reject.detail
        raw = (tmp_path / "0.json").read_bytes()
        assert json.JSONDecoder().raw_decode(raw[reject.byte :].decode())[0] == question
        assert reject.excerpt.startswith(json.dumps(question, ensure_ascii=False)[:200])


def test_blank_answers_beside_others_are_left_out(tmp_path: Path) -> None:
    got = _read(tmp_path, squad(qa([("", 0), ("2010年", 6), (" ", 3)])))
    assert got.rows[0]["answers"] == ["2010年"] and got.rows[0]["answer_starts"] == [6]
    assert got.counts == {"answers_empty": 2}


def test_a_bad_text_rejects_each_of_its_questions(tmp_path: Path) -> None:
    pair = [qa([("甲", 0)], "a"), qa([("甲", 0)], "b")]
    for context, reason in (
        ("", "empty_text"),
        (" \n", "empty_text"),
        (None, "missing_text"),
        (7, "bad_type"),
    ):
        got = _read(tmp_path, squad(*pair, context=context))
        assert got.reasons == [reason] * 2 and "'context'" in got.rejects[1].detail
    surrogate = json.dumps(squad(*pair, context="甲\ud800")).encode()
    assert _read(tmp_path, surrogate).reasons == ["bad_unicode"] * 2
    surrogate = json.dumps(squad(pair[0], qa([("甲", 0)], "b", "\udc00?"), context="甲")).encode()
    got = _read(tmp_path, surrogate)
    assert got.reasons == ["bad_unicode"] and [r["doc_id"] for r in got.rows] == ["a"]
    # Escaped pairs are characters, and a field that nobody reads may hold anything.
    emoji = json.dumps(squad(qa([("😀", 1)], x="\ud800"), context="a😀")).encode()
    assert b"\\ud83d" in emoji and _read(tmp_path, emoji).rows[0]["answer_starts"] == [1]


def test_ids_and_sources(tmp_path: Path) -> None:
    got = _read(tmp_path, squad(qa([("甲", 0)], 7), qa([("甲", 0)], None), qa([("甲", 0)], "")))
    ids = [r["doc_id"] for r in got.rows]
    assert ids[0] == "7" and ids[1:] == [r["source"] for r in got.rows[1:]]  # without one, the place
    raw = (tmp_path / "0.json").read_bytes()
    for row in got.rows:
        path, byte = row["source"].split("@")
        assert path == "0.json" and raw[int(byte) :].startswith(b'{"id": ')
    assert (
        got.rows[0]["title"] == "甲"
        and _read(tmp_path, squad(qa([("甲", 0)]), title=None)).rows[0]["title"] is None
    )


CMRC = [
    {
        "context_id": "T_1",
        "context_text": TEXT,
        "title": "甲",
        "qas": [
            {"query_id": "T_1_0", "query_text": "何时？", "answers": ["2010年", "2010年", "于2010年"]},
            {"query_id": "T_1_1", "query_text": "什么？", "answers": ["乙公司"]},
        ],
    },
    {
        "context_id": "T_2",
        "context_text": "公司和公司",
        "title": "",
        "qas": [{"query_id": "T_2_0", "query_text": "谁？", "answers": ["公司"]}],
    },
]


def test_cmrc_own_layout(tmp_path: Path) -> None:
    """Answers without offsets are located; of several places the first is taken, unless told otherwise."""
    got = _read(tmp_path, CMRC)
    assert [(r["doc_id"], r["text"], r["title"], r["answer_starts"]) for r in got.rows] == [
        ("T_1_0", "何时？", "甲", [6, 6, 5]),
        ("T_2_0", "谁？", None, [0]),
    ]
    assert got.counts == {"answers_located": 3, "answers_not_found": 1, "answers_ambiguous": 1}
    assert (
        got.reasons == ["answer_not_in_context"] and "question 'T_1_1' at [0].qas[1]" in got.rejects[0].detail
    )
    assert _read(tmp_path, CMRC, ambiguous_answers="first").rows == got.rows
    got = _read(tmp_path, CMRC, ambiguous_answers="drop")
    assert got.reasons == ["answer_not_in_context", "ambiguous_answer"]
    got = _read(tmp_path, CMRC, split="dev", ambiguous_answers="drop")
    assert [r["answer_starts"] for r in got.rows] == [[6, 6, 5], [-1], [-1]]


def test_drcd(tmp_path: Path) -> None:
    value = {
        "version": "1.3",
        "data": [
            {
                "title": "甲",
                "id": "2128",
                "paragraphs": [
                    {
                        "context": TEXT,
                        "id": "2128-2",
                        "qas": [
                            {
                                "id": "2128-2-1",
                                "question": "何時？",
                                "answers": [{"id": "1", "text": "2010年", "answer_start": 6}],
                            }
                        ],
                    }
                ],
            }
        ],
    }
    (row,) = _read(tmp_path, value).rows
    assert (row["doc_id"], row["title"], row["answers"], row["answer_starts"]) == (
        "2128-2-1",
        "甲",
        ["2010年"],
        [6],
    )


def _flat(id_: str, texts: list[str], starts: Any, **more: Any) -> dict[str, Any]:
    return {
        "id": id_,
        "title": "甲",
        "context": TEXT,
        "question": "何时？",
        "answers": {"text": texts, "answer_start": starts},
        **more,
    }


def test_flat_records_a_line_in_a_list_or_alone(tmp_path: Path) -> None:
    records = [
        _flat("a", ["2010年"], [6]),
        _flat("b", [], []),  # SQuAD 2.0 on the Hub has no field `is_impossible`
        _flat("c", ["2010年", "甲公司"], None),
        _flat("d", [], [], is_impossible=False),
    ]
    lines = "\n".join(json.dumps(r, ensure_ascii=False) for r in records).encode()
    whole = _read(tmp_path, records)
    assert [(r["doc_id"], r["answer_starts"], r["is_impossible"]) for r in whole.rows] == [
        ("a", [6], False),
        ("b", [], True),
        ("c", [6, 0], False),
    ]
    assert whole.reasons == ["contradiction"] and whole.rejects[0].detail.startswith("question 'd' at [3]: ")
    for got in (
        _read(tmp_path / "lines", lines),
        _read(tmp_path / "data", {"data": records}),
        _read(tmp_path / "alone", *records),
        read_files(tmp_path / "named", {"a.jsonl": lines}, format="squad"),
    ):
        assert [{**r, "source": ""} for r in got.rows] == [{**r, "source": ""} for r in whole.rows]
        assert got.reasons == whole.reasons and got.counts == whole.counts
    row = _read(tmp_path / "lines", lines).rows[1]
    assert lines[int(row["source"].split("@")[1]) :].startswith(b'{"id": "b"')


def test_a_paragraph_that_is_none(tmp_path: Path) -> None:
    value = squad(qa([("甲", 0)]))
    value["data"][0]["paragraphs"] += ["x", {"context": "a"}, {"context": "a", "qas": {"id": 1}}]
    value["data"].append({"title": "b", "paragraphs": {}})
    value["data"].append({"title": "c", "paragraphs": [{"context": TEXT, "qas": [qa([("甲", 0)], "last")]}]})
    got = _read(tmp_path, value)
    assert [r["doc_id"] for r in got.rows] == ["q1", "last"] and got.reasons == ["bad_type"] * 4
    assert "data[0].paragraphs[1]" in got.rejects[0].detail and "data[1].paragraphs" in got.rejects[3].detail
    value["data"].append({"title": "d"})
    assert _read(tmp_path, value).reasons[-1] == "unknown_layout"


def test_layouts_of_something_else(tmp_path: Path) -> None:
    for value, found in (
        ([{"article": "a", "options": []}], r"found at \[0\] an object with the keys 'article', 'options'"),
        ({"data": {"a": 1}, "version": 1}, "found an object with the keys 'data', 'version'"),
        ([[["甲"], [{"question": "q"}], "id"]], r"found at \[0\] a list of 3 \(a list, a string\)"),
        ({}, "found an empty object"),
        (7, "found a number"),
        ({"data": [{"paragraphs": [], "qas": []}]}, r"found at data\[0\]"),
    ):
        with pytest.raises(ValueError, match=found) as error:
            _read(tmp_path, value)
        assert "0.json" in str(error.value) and "SQuAD" in str(error.value) and "CMRC" in str(error.value)
    assert _read(tmp_path, {"version": "1", "data": []}).rows == []


# --- whatever is read -------------------------------------------------------------------------

_CHARS = "ab甲乙👨\u200d\u0301 \n\u3000"
_texts = st.text(_CHARS, max_size=8)


@st.composite
def _answers(draw: st.DrawFn) -> tuple[str, list[Any]]:
    context = draw(st.text(_CHARS, min_size=1, max_size=24))
    answers = []
    for _ in range(draw(st.integers(0, 3))):
        a, b = sorted(draw(st.tuples(st.integers(0, len(context)), st.integers(0, len(context)))))
        text = draw(st.one_of(st.just(context[a:b]), _texts))
        answers.append((text, draw(st.one_of(st.just(a), st.integers(-3, 40), st.none()))))
    return context, answers


@given(
    st.lists(_answers(), min_size=1, max_size=4),
    st.sampled_from(["train", "dev"]),
    st.sampled_from(["characters", "utf16", "bytes"]),
    st.sampled_from([None, "first", "drop"]),
)
def test_offsets_point_at_the_answer_or_nowhere(
    paragraphs: list[tuple[str, list[Any]]], split: str, unit: str, ambiguous: str | None
) -> None:
    value = {
        "data": [
            {"paragraphs": [{"context": c, "qas": [qa(a, f"{i}"), qa(a, f"{i}b", is_impossible=True)]}]}
            for i, (c, a) in enumerate(paragraphs)
        ]
    }
    with tempfile.TemporaryDirectory() as folder:
        got = _read(Path(folder), value, split=split, offset_unit=unit, ambiguous_answers=ambiguous)
        raw = (Path(folder) / "0.json").read_bytes()
    assert len(got.rows) + len(got.rejects) == 2 * len(paragraphs)
    for row in got.rows:
        assert len(row["answers"]) == len(row["answer_starts"])
        assert row["is_impossible"] == (not row["answers"])
        for text, start in zip(row["answers"], row["answer_starts"], strict=True):
            assert text == text.strip() != ""
            assert start == -1 or row["text_pair"][start : start + len(text)] == text
            assert (
                start >= 0
                or row["text_pair"].find(text) != row["text_pair"].rfind(text)
                or text not in row["text_pair"]
            )
        if split == "train" and row["answers"]:
            assert max(row["answer_starts"]) >= 0
        at = int(row["source"].split("@")[1])
        assert json.JSONDecoder().raw_decode(raw[at:].decode())[0]["id"] == row["doc_id"]


@settings(max_examples=30)
@given(
    st.lists(_answers(), min_size=1, max_size=5),
    st.sampled_from([64, 1024, 1 << 20]),
    st.sampled_from([1, 200, 1 << 20]),
)
def test_blocks_and_batches_change_nothing(
    paragraphs: list[tuple[str, list[Any]]], block_bytes: int, batch_bytes: int
) -> None:
    files = {f"{i}.json": squad(qa(a, f"q{i}"), context=c) for i, (c, a) in enumerate(paragraphs)}
    with tempfile.TemporaryDirectory() as folder:
        one = read_files(Path(folder), files, format="squad")
        many = read_files(
            Path(folder), files, format="squad", block_bytes=block_bytes, batch_bytes=batch_bytes
        )
    assert one.blocks == 1 and many.blocks == (1 if block_bytes == 1 << 20 else many.blocks)
    assert many.rows == one.rows and many.rejects == one.rejects and many.counts == one.counts


def test_cmrc_trial_set(real_data: Path) -> None:
    """1,002 questions: two have no text, five answers a wrong offset, three a space at the edge."""
    value = (real_data / "cmrc/cmrc2018_trial.json").read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        got = _read(Path(folder), value)
        dev = _read(Path(folder), value, split="dev")
    assert len(got.rows) == 1000 and Counter(got.reasons) == {"empty_text": 2}
    assert got.counts == {"answers_repaired": 5, "answers_trimmed": 3}
    assert dev.rows == got.rows and dev.rejects == got.rejects
    for row in got.rows:
        for text, start in zip(row["answers"], row["answer_starts"], strict=True):
            assert row["text_pair"][start : start + len(text)] == text


def test_squad_sample(real_data: Path) -> None:
    value = (real_data / "sgnet/squad_sample.json").read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        got = _read(Path(folder), value)
    assert len(got.rows) == 120 and not got.rejects and not got.counts
    golds = [q for a in json.loads(value)["data"] for p in a["paragraphs"] for q in p["qas"]]
    for row, gold in zip(got.rows, golds, strict=True):
        assert (row["doc_id"], row["is_impossible"]) == (gold["id"], gold["is_impossible"])
        assert row["answer_starts"] == [a["answer_start"] for a in gold["answers"]]
