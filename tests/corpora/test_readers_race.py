"""Multiple choice: RACE in its three layouts, C3, and how choices are composed."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.corpora.conftest import Read
from tests.corpora.questions import read_files

PASSAGE: dict[str, Any] = {
    "article": "Ann went home. She was tired.",
    "questions": ["Why did Ann go home?", "She was  _  ."],
    "options": [["To eat", "She was tired", "It rained", "By bus"], ["hungry", "tired", "", "."]],
    "answers": ["B", "B"],
    "id": "high1.txt",
}
WORDS: dict[str, Any] = {
    "article": [["Ann", "went", "home", "."], ["She", "was", "tired", "."]],
    "question": ["She", "was", "_", "."],
    "options": [["very", "tired"], ["hungry"]],
    "ground_truth": 0,
    "q_id": 7,
    "filename": "x",
}
C3 = [
    [
        ["男：累吗?", "女：很累。"],
        [
            {"question": "女的怎么样?", "choice": ["很累", "不累"], "answer": "很累"},
            {"question": "谁累?", "choice": ["男的", "女的", "都不"], "answer": "女的"},
        ],
        "1-5",
    ],
    [["一段\n文章"], [{"question": "这是_。", "choice": ["文章", "书", "报", "信"], "answer": "文章"}], "m1"],
]


def _race(folder: Path, *values: Any, language: str = "en", **layout: Any) -> Read:
    files = {f"{i}.txt": value for i, value in enumerate(values)}
    return read_files(folder, files, format="race", language=language, **layout)


def _c3(folder: Path, value: Any, **layout: Any) -> Read:
    return read_files(folder, {"c3.json": value}, format="c3", **layout)


def _choices(row: dict[str, Any]) -> list[str]:
    return [row["text_pair"][a:b] for a, b in zip(row["choice_starts"], row["choice_stops"], strict=True)]


def _plain(got: Read) -> list[dict[str, Any]]:
    return [{**row, "source": ""} for row in got.rows]


def test_published_files(tmp_path: Path) -> None:
    got = _race(tmp_path, PASSAGE)
    assert [(r["doc_id"], r["text"], r["label"]) for r in got.rows] == [
        ("high1.txt-0", PASSAGE["article"], "1"),
        ("high1.txt-1", PASSAGE["article"], "1"),
    ]
    assert _choices(got.rows[0]) == [
        "Why did Ann go home? To eat",
        "Why did Ann go home? She was tired",
        "Why did Ann go home? It rained",
        "Why did Ann go home? By bus",
    ]
    # An empty option is one all the same: its choice is the bare question.
    assert _choices(got.rows[1]) == [
        "She was  _  . hungry",
        "She was  _  . tired",
        "She was  _  .",
        "She was  _  . .",
    ]
    assert got.counts == {"options_empty": 1} and not got.rejects
    assert all(r["word_starts"] is None for r in got.rows)
    raw = (tmp_path / "0.txt").read_bytes()
    assert [raw[int(r["source"].split("@")[1]) :][:9] for r in got.rows] == [b'"Why did ', b'"She was ']


def test_blanks_are_filled(tmp_path: Path) -> None:
    got = _race(tmp_path, PASSAGE, blank="fill")
    assert _choices(got.rows[0])[0] == "Why did Ann go home? To eat"  # no blank: behind it
    assert _choices(got.rows[1]) == [
        "She was  hungry  .",
        "She was  tired  .",
        "She was    .",
        "She was  .  .",
    ]
    value = {**PASSAGE, "questions": ["___ and _", "_"], "options": [["a\\1", "b"], ["c", "d"]]}
    got = _race(tmp_path, value, blank="fill")
    assert [_choices(r) for r in got.rows] == [["a\\1 and _", "b and _"], ["c", "d"]]
    value["options"][1][0] = " "
    assert _race(tmp_path, value, blank="fill").reasons == ["empty_text"]


def test_lists_and_lines_are_the_same(tmp_path: Path) -> None:
    other = {**PASSAGE, "id": "middle2.txt", "answers": [0, "She was tired"]}
    other["options"] = [["To eat", "x"], ["She was tired", "y"]]
    one = _race(tmp_path / "a", PASSAGE, other)
    listed = _race(tmp_path / "b", [PASSAGE, other])
    lines = _race(tmp_path / "c", f"{json.dumps(PASSAGE)}\n{json.dumps(other)}\n".encode())
    assert _plain(one) == _plain(listed) == _plain(lines) and len(one.rows) == 4
    assert [r["label"] for r in one.rows] == ["1", "1", "0", "0"]
    assert len({r["source"] for r in lines.rows}) == 4


def test_single_questions(tmp_path: Path) -> None:
    value = [
        {
            "example_id": "high1.txt",
            "article": "A b.",
            "question": "Q1?",
            "options": ["a", "b"],
            "answer": "B",
        },
        {
            "example_id": "high1.txt",
            "article": "A b.",
            "question": "Q2?",
            "options": ["a", "b"],
            "answer": "A",
        },
        {"id": 9, "article": "A b.", "question": "Q3?", "options": ["a", "b", "c"], "label": 2},
    ]
    got = _race(tmp_path, value)
    assert [r["label"] for r in got.rows] == ["1", "0", "2"]
    # The passage's id would name both of its questions.
    assert [r["doc_id"] for r in got.rows] == [got.rows[0]["source"], got.rows[1]["source"], "9"]


def test_given_words_are_kept(tmp_path: Path) -> None:
    (row,) = _race(tmp_path, [WORDS]).rows
    assert (row["doc_id"], row["label"]) == ("7", "0")
    assert row["text"] == "Ann went home . She was tired ."
    assert row["text_pair"] == "She was _ . very tired\nShe was _ . hungry"
    sentences, words = _annotated(row, "")
    assert sentences == ["Ann went home .", "She was tired ."] and words == [
        w for s in WORDS["article"] for w in s
    ]
    sentences, words = _annotated(row, "_pair")
    assert sentences == ["She was _ .", "very tired", "She was _ .", "hungry"]
    assert words == ["She", "was", "_", ".", "very", "tired", "She", "was", "_", ".", "hungry"]
    assert row["word_heads"] is None and row["word_heads_pair"] is None


def test_given_words_fill_blanks(tmp_path: Path) -> None:
    (row,) = _race(tmp_path, [WORDS], blank="fill").rows
    assert row["text_pair"] == "She was very tired .\nShe was hungry ."
    assert _annotated(row, "_pair")[0] == ["She was very tired .", "She was hungry ."]
    # A blank that is part of a word parts it.
    value = {**WORDS, "question": ["so", "to_.", "_"], "options": [["very", "tired"], []]}
    got = _race(tmp_path, [value], blank="fill")
    assert got.rows[0]["text_pair"] == "so to very tired . _\nso to . _" and got.counts == {
        "options_empty": 1
    }


def test_words_of_nothing_are_left_out(tmp_path: Path) -> None:
    value = {
        **WORDS,
        "article": [[" ", ""], ["a ", "\u200b", "b\nc", "\u3000"], []],
        "options": [["x\ny"], [" "]],
    }
    got = _race(tmp_path, [value])
    (row,) = got.rows
    assert row["text"] == "a \u200b b c" and _annotated(row, "") == (["a \u200b b c"], ["a", "\u200b", "b c"])
    assert _choices(row) == ["She was _ . x y", "She was _ ."]
    assert got.counts == {"words_blank": 4, "options_empty": 1}


def _annotated(row: dict[str, Any], suffix: str) -> tuple[list[str], list[str]]:
    text = row["text_pair" if suffix else "text"]

    def cut(kind: str) -> list[str]:
        spans = zip(row[f"{kind}_starts{suffix}"], row[f"{kind}_stops{suffix}"], strict=True)
        return [text[a:b] for a, b in spans]

    return cut("sentence"), cut("word")


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        ("A", "0"), ("C", "2"), (0, "0"), (2, "2"), ("x", "0"), ("B", "1"), ("A b", "1"),
        ("D", None), (3, None), (-1, None), (True, None), (1.0, None), ("a", None), ("", None), ("1", None), ([0], None),
    ],
)  # fmt: skip
def test_answers(tmp_path: Path, answer: Any, label: str | None) -> None:
    value = {"article": "t", "question": "q", "options": ["x", "A b", "A"], "answer": answer, "id": "i"}
    got = _race(tmp_path, [value])
    if label is None:
        assert got.reasons == ["bad_answer"]
        assert "question 'i' at [0]: the answer must be one of 3 options" in got.rejects[0].detail
        assert "(A to C)" in got.rejects[0].detail
    else:
        assert [r["label"] for r in got.rows] == [label]


@pytest.mark.parametrize(
    ("answer", "label"),
    [("a", "5"), ("a1", "1"), ("[", None), ("`", None), ("Z", "25"), ("A", "0"), (32, "32")],
)
def test_only_capitals_are_letters(tmp_path: Path, answer: Any, label: str | None) -> None:
    """However many options there are: `a` is no 33rd letter, and an option that is one sign is its text."""
    options = [f"a{n}" for n in range(33)]
    options[5] = "a"
    value = {"article": "t", "question": "q", "options": options, "answer": answer, "id": "i"}
    c3 = [[["t"], [{"question": "q", "choice": options, "answer": answer}], "i"]]
    for got in (_race(tmp_path, [value]), _c3(tmp_path, c3)):
        if label is None:
            assert got.reasons == ["bad_answer"] and "its letter (A to Z)" in got.rejects[0].detail
        else:
            assert [r["label"] for r in got.rows] == [label]


def test_answers_of_words(tmp_path: Path) -> None:
    for answer, label in (("A", "0"), ("B", "1"), ("very tired", "0"), (1, "1")):
        assert _race(tmp_path, [{**WORDS, "ground_truth": answer}]).rows[0]["label"] == label
    assert _race(tmp_path, [{**WORDS, "ground_truth": 2}]).reasons == ["bad_answer"]


def test_questions_without_an_answer(tmp_path: Path) -> None:
    value = {key: item for key, item in PASSAGE.items() if key != "answers"}
    got = _race(tmp_path, value, split="test")
    assert [r["label"] for r in got.rows] == [None, None] and got.counts["questions_unlabelled"] == 2
    assert _race(tmp_path, value).reasons == ["missing_label"] * 2
    assert _race(tmp_path, {**PASSAGE, "answers": [None, "A"]}, split="dev").rows[0]["label"] is None


@pytest.mark.parametrize(
    ("change", "reasons"),
    [
        ({"answers": ["A"]}, ["unequal_counts"]),
        ({"options": [["a", "b"]]}, ["unequal_counts"]),
        ({"options": "ab"}, ["bad_type"]),
        ({"questions": {}}, ["bad_type"]),
        ({"id": []}, ["bad_type"]),
        ({"article": ""}, ["empty_text"] * 2),
        ({"article": None}, ["missing_text"] * 2),
        ({"article": [["a"]]}, ["bad_type"] * 2),
        ({"questions": ["q", " "]}, ["empty_text"]),
        ({"questions": [None, "q"]}, ["missing_text"]),
        ({"options": [["a"], ["b", "a"]]}, ["too_few_options"]),
        ({"options": [[], None]}, ["too_few_options", "missing_text"]),
        ({"options": [["a", "b"], ["a", 1]]}, ["bad_type"]),
        ({"options": [["a", "b"], "ab"]}, ["bad_type"]),
        ({"answers": ["A", "E"]}, ["bad_answer"]),
        ({"article": "\ud800"}, ["bad_unicode"]),
    ],
)
def test_bad_passages(tmp_path: Path, change: dict[str, Any], reasons: list[str]) -> None:
    raw = json.dumps({**PASSAGE, **change}).encode()
    got = _race(tmp_path, PASSAGE, raw, PASSAGE)
    assert got.reasons == reasons
    assert len(got.rows) == 4 + (2 - len(reasons) if "questions[" in got.rejects[0].detail else 0)
    assert all(r.path == "1.txt" and ("high1.txt" in r.detail or "id" in change) for r in got.rejects)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"article": []}, "empty_text"),
        ({"article": [[" "]]}, "empty_text"),
        ({"article": ["a"]}, "bad_type"),
        ({"article": [["a", 1]]}, "bad_type"),
        ({"question": "q"}, "bad_type"),
        ({"question": []}, "empty_text"),
        ({"options": [["a"]]}, "too_few_options"),
        ({"options": [["a"], "b"]}, "bad_type"),
    ],
)
def test_bad_words(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    got = _race(tmp_path, [WORDS, {**WORDS, **change}, WORDS])
    assert len(got.rows) == 2 and got.reasons == [reason]
    assert got.rejects[0].detail.startswith("question 7 at [1]: ")


def test_a_broken_file_costs_a_passage_or_stops(tmp_path: Path) -> None:
    good = json.dumps(PASSAGE).encode()
    got = _race(tmp_path, good, good[:-20], good + b"x", b'{"a": 1, "a": 2}', b'{"x": "\xff"}', good)
    assert len(got.rows) == 4
    assert got.reasons == ["bad_json", "bad_json", "duplicate_key", "bad_encoding"]
    with pytest.raises(ValueError, match=r"0\.txt is not valid JSON in \[1\]"):
        _race(tmp_path, b"[" + good + b"," + good[:-20])
    with pytest.raises(
        ValueError, match=r"0\.txt is in no layout .* RACE .* found an object with the keys 'data'"
    ):
        _race(tmp_path, {"data": []})
    assert _race(tmp_path, [PASSAGE, 7]).reasons == ["unknown_layout"]


# --- C3 ---------------------------------------------------------------------------------------


def test_c3(tmp_path: Path) -> None:
    got = _c3(tmp_path, C3)
    assert [(r["doc_id"], r["text"], r["label"], _choices(r)) for r in got.rows] == [
        ("c3.json:1-5-0", "男：累吗?\n女：很累。", "0", ["女的怎么样?很累", "女的怎么样?不累"]),
        ("c3.json:1-5-1", "男：累吗?\n女：很累。", "1", ["谁累?男的", "谁累?女的", "谁累?都不"]),
        ("c3.json:m1-0", "一段\n文章", "0", ["这是_。文章", "这是_。书", "这是_。报", "这是_。信"]),
    ]
    assert _choices(_c3(tmp_path, C3, blank="fill").rows[2])[0] == "这是文章。"
    assert _choices(_c3(tmp_path, C3, language="en").rows[0])[0] == "女的怎么样? 很累"
    raw = (tmp_path / "c3.json").read_bytes()
    for row, question in zip(got.rows, [q for _, qs, _ in C3 for q in qs], strict=True):
        at = int(row["source"].split("@")[1])
        assert json.JSONDecoder().raw_decode(raw[at:].decode())[0] == question
    lines = "\n".join(json.dumps(p) for p in C3).encode()
    assert _plain(_c3(tmp_path / "lines", lines)) == _plain(got)


def test_c3_answers(tmp_path: Path) -> None:
    """Text comes first; of two equal options the first is taken, and counted: C3 has two such questions."""
    for choice, answer, label in (
        (["甲", "乙"], "乙", "1"),
        (["B", "A"], "A", "1"),
        (["甲", "乙"], "A", "0"),
        (["甲", "乙", "乙"], "乙", "1"),
        (["甲", "乙"], 1, "1"),
    ):
        got = _c3(tmp_path, [[["t"], [{"question": "q", "choice": choice, "answer": answer}], "i"]])
        assert got.rows[0]["label"] == label
        assert got.counts == ({"answers_ambiguous": 1} if choice.count("乙") > 1 else {})
    got = _c3(tmp_path, [[["t"], [{"question": "q", "choice": ["甲", "乙"], "answer": "丙"}], "i"]])
    assert got.reasons == ["bad_answer"] and "question 'c3.json:i-0' at [0][1][0]" in got.rejects[0].detail


def test_c3_that_is_not(tmp_path: Path) -> None:
    good = {"question": "q", "choice": ["a", "b"], "answer": "a"}
    got = _c3(
        tmp_path,
        [
            [["t"], [good], "i"],
            [["t", 1], [good, good], "j"],
            [["", " "], [good], "k"],
            [["t"], [good, "x", {**good, "choice": ["a"]}, {"question": "q"}], []],
            {"id": 3, "context": ["a", "b"], **good},
            {"x": 1},
        ],
    )
    assert [(r["doc_id"], r["text"]) for r in got.rows[:1] + got.rows[-1:]] == [
        ("c3.json:i-0", "t"),
        ("c3.json:3", "a\nb"),
    ]
    assert got.rows[1]["doc_id"] == got.rows[1]["source"]
    assert got.reasons == ["bad_type"] * 2 + [
        "empty_text",
        "bad_type",
        "too_few_options",
        "missing_text",
        "unknown_layout",
    ]
    with pytest.raises(
        ValueError, match=r"no layout .* C3 .* found at \[0\] an object with the keys 'article'"
    ):
        _c3(tmp_path, [PASSAGE])


# --- whatever is read -------------------------------------------------------------------------

_strings = st.text("ab _\n甲😀", max_size=6)


@given(
    st.text("ab _\n甲😀", min_size=1, max_size=8).filter(str.strip),
    st.lists(_strings, min_size=2, max_size=5),
    st.sampled_from(["append", "fill"]),
    st.sampled_from(["zh", "ja", "en"]),
)
def test_composing_keeps_texts(question: str, options: list[str], blank: str, language: str) -> None:
    value = [{"article": "t", "question": question, "options": options, "answer": 1}]
    with tempfile.TemporaryDirectory() as folder:
        got = _race(Path(folder), value, blank=blank, language=language)
    assert len(got.rows) + len(got.rejects) == 1
    filled = blank == "fill" and "_" in question
    for row in got.rows:
        lines = row["text_pair"].split("\n")
        assert _choices(row) == lines and len(lines) == len(options)
        for line, option in zip(lines, options, strict=True):
            shown, asked = option.replace("\n", " "), question.replace("\n", " ")
            if filled:
                before, _, after = asked.partition("_")
                assert line == before + shown + after.lstrip("_")
            else:
                joined = shown.strip() and ("" if language in ("zh", "ja") else " ") + shown
                assert line == asked + joined
    if got.rejects:
        assert filled and got.reasons == ["empty_text"]


_words = st.lists(st.sampled_from(["a", "bc", "_", "x_y", " ", "", "甲"]), max_size=4)


@given(
    st.lists(_words, max_size=3),
    _words,
    st.lists(_words, min_size=2, max_size=3),
    st.sampled_from(["append", "fill"]),
)
def test_given_words_tile_their_texts(article: Any, question: Any, options: Any, blank: str) -> None:
    value = [{**WORDS, "article": article, "question": question, "options": options}]
    with tempfile.TemporaryDirectory() as folder:
        got = _race(Path(folder), value, blank=blank)
    assert len(got.rows) + len(got.rejects) == 1
    for row in got.rows:
        for suffix, text in (("", row["text"]), ("_pair", row["text_pair"])):
            sentences, words = _annotated(row, suffix)
            assert all(words) and all(sentences)
            starts, stops = row[f"word_starts{suffix}"], row[f"word_stops{suffix}"]
            assert all(a < b for a, b in zip(starts, stops, strict=True))
            assert all(b < a for b, a in zip(stops, starts[1:], strict=False))
            inked = {i for a, b in zip(starts, stops, strict=True) for i in range(a, b)}
            assert {i for i, c in enumerate(text) if not c.isspace()} == inked
            bounds = list(zip(row[f"sentence_starts{suffix}"], row[f"sentence_stops{suffix}"], strict=True))
            assert all(any(s <= a and b <= e for s, e in bounds) for a, b in zip(starts, stops, strict=True))
        inside = list(zip(row["choice_starts"], row["choice_stops"], strict=True))
        assert all(
            any(a <= s and e <= b for a, b in inside)
            for s, e in zip(row["sentence_starts_pair"], row["sentence_stops_pair"], strict=True)
        )


@settings(max_examples=30)
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=6),
    st.sampled_from([1, 2000, 1 << 20]),
    st.sampled_from([1, 1 << 20]),
)
def test_blocks_and_batches_change_nothing(kinds: list[int], block_bytes: int, batch_bytes: int) -> None:
    values = [PASSAGE, [WORDS, PASSAGE], {**PASSAGE, "answers": ["Z", "A"]}, b'{"broken']
    files = {f"{i}.txt": values[kind] for i, kind in enumerate(kinds)}
    with tempfile.TemporaryDirectory() as folder:
        one = read_files(Path(folder), files, format="race")
        many = read_files(
            Path(folder), files, format="race", block_bytes=block_bytes, batch_bytes=batch_bytes
        )
    assert many.blocks == (len(kinds) if block_bytes == 1 else many.blocks)
    assert many.rows == one.rows and many.rejects == one.rejects and many.counts == one.counts


def test_the_sample_of_sg_net(real_data: Path) -> None:
    raw = (real_data / "sgnet/race_sample.json").read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        got = _race(Path(folder), raw)
    questions = json.loads(raw)
    assert len(got.rows) == len(questions) == 718 and not got.rejects and not got.counts
    for row, value in zip(got.rows, questions, strict=True):
        assert (row["doc_id"], row["label"]) == (str(value["q_id"]), str(value["ground_truth"]))
        assert _annotated(row, "")[1] == [w for s in value["article"] for w in s]
        asked = " ".join(value["question"])
        assert _choices(row) == [f"{asked} {' '.join(option)}" for option in value["options"]]
