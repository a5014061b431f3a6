from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corpora.layout import InputConfig
from corpora.records import RAW_SCHEMA
from tests.corpora.conftest import Read, read_layout


def _one(read: Callable[..., Read], line: str | bytes, **layout: Any) -> Read:
    """The line between two good ones, which must come through whatever it is."""
    good = {"text": ["好"], "label": ["O"]} if layout.get("task") == "tag" else {"text": "好"}
    good |= {"pair": "好"} if "text_pair" in layout else {}
    good |= {"label": 1} if layout.get("score") else {}
    wrap = json.dumps({"id": "a", **good}, ensure_ascii=False).encode()
    raw = line if isinstance(line, bytes) else line.encode()
    got = read(wrap + b"\n" + raw + b"\n" + wrap.replace(b'"a"', b'"z"'), format="jsonl", **layout)
    assert got.texts[0] == got.texts[-1] == "好"
    assert len(got.rows) + len(got.rejects) == 3
    for reject in got.rejects:
        assert (reject.line, reject.byte) == (2, len(wrap) + 1)
        json.loads(reject.to_json().encode())
    got.rows = got.rows[1:-1]
    return got


@pytest.mark.parametrize(
    ("line", "reason", "detail"),
    [
        ('{"text": "a"', "bad_json", "character"),
        ("text", "bad_json", "character 1"),
        ('["a"]', "bad_json", "found a list"),
        ('"a"', "bad_json", "found a bare value"),
        ('{"text": "a"} {"text": "b"}', "bad_json", "Extra data"),
        ('{"text": "a", "x": NaN}', "bad_json", "NaN is not JSON"),
        ('{"text": "a", "x": -Infinity}', "bad_json", "-Infinity is not JSON"),
        ('{"text": "a", "text": "b"}', "duplicate_key", "'text' stands twice"),
        ('{"text": "a", "x": {"k": 1, "k": 1}}', "duplicate_key", "'k' stands twice"),
        ('{"\\ud800": 1, "\\ud800": 2}', "duplicate_key", "twice"),
        ('{"x": 1}', "missing_text", "'text' is missing or null"),
        ('{"text": null}', "missing_text", "'text' is missing or null"),
        ('{"text": ""}', "empty_text", "is empty"),
        ('{"text": " \\n\\u3000"}', "empty_text", "only white space"),
        ('{"text": 7}', "bad_type", "must be a string, found a number"),
        ('{"text": true}', "bad_type", "found a boolean"),
        ('{"text": ["a", 0]}', "bad_type", "must be a string, or a list of strings, found a number"),
        ('{"text": ["a", null]}', "bad_type", "found null"),
        ('{"text": ["a", ["b"]]}', "bad_type", "found a list"),
        ('{"text": []}', "empty_text", "is empty"),
        ('{"text": [" ", ""]}', "empty_text", "is empty"),
        ('{"text": ["a\\ud800b"]}', "bad_unicode", "lone surrogate \\ud800"),
        ('{"text": {"a": 1}}', "bad_type", "found an object"),
        ('{"text": "a\\ud800b"}', "bad_unicode", "lone surrogate \\ud800"),
        ('{"text": "\\udc00\\ud800"}', "bad_unicode", "lone surrogate \\udc00"),
        ('{"text": "a", "x": ' + "[" * 200_000 + "]" * 200_000 + "}", "bad_json", "nested too deep"),
        ('{"text": "a", "x": ' + "7" * 10_000 + "}", "bad_json", "4300 digits"),
        (b'{"text": "a\xc3"}', "bad_encoding", "byte 0xc3"),
    ],
)
def test_bad_lines_are_rejected_with_a_reason(
    read: Callable[..., Read], line: str | bytes, reason: str, detail: str
) -> None:
    got = _one(read, line)
    assert got.rows == [] and got.reasons == [reason]
    assert detail in got.rejects[0].detail


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ('{"text": "a\\ud83d\\ude00"}', "a😀"),
        ('{"text": "a\\u0000b\\u2028"}', "a\0b\u2028"),
        ('{"text": "a\tb\0\x0c"}', "a\tb\0\x0c"),  # raw control characters
        (' \t{"text": "a"} \r', "a"),
        ('{"x": "\\ud800", "text": "a"}', "a"),  # a field that nobody reads
        ('{"text": "[SEP]"}', "[SEP]"),
    ],
)
def test_odd_but_good_lines_are_read(read: Callable[..., Read], line: str, text: str) -> None:
    got = _one(read, line)
    assert [r["text"] for r in got.rows] == [text] and not got.rejects


@pytest.mark.parametrize(
    ("value", "label"),
    [
        ('"pos"', "pos"),
        ("1", "1"),
        ("-3", "-3"),
        ("true", "true"),
        ("false", "false"),
        ("1.5", "1.5"),
        ("null", None),
    ],
)
def test_labels_are_text_as_written(read: Callable[..., Read], value: str, label: str | None) -> None:
    got = _one(read, f'{{"text": "a", "y": {value}}}', label="y", task="classify")
    assert got.rows[0]["label"] == label and got.rows[0]["label_score"] is None


def test_c24_missing_and_null_are_the_same(read: Callable[..., Read]) -> None:
    layout = {"label": "y", "language": "lang", "task": "classify"}
    missing = _one(read, '{"text": "a"}', **layout)
    null = _one(read, '{"text": "a", "y": null, "lang": null}', **layout)
    missing.rows[0].update(source="", doc_id="")
    null.rows[0].update(source="", doc_id="")
    assert missing.rows == null.rows and missing.rows[0]["label"] is None
    # The schema is the declared one even where a column holds nothing but nulls.
    assert all(table.schema.equals(RAW_SCHEMA) for table in missing.tables + null.tables)
    # An empty list is not a missing one: it says that there is nothing to read.
    tag = {"label": "label", "task": "tag"}
    assert _one(read, '{"text": [], "label": []}', **tag).reasons == ["empty_text"]
    assert _one(read, '{"text": ["a"], "label": null}', **tag).reasons == ["missing_label"]
    assert _one(read, '{"text": ["a"]}', **tag).reasons == ["missing_label"]
    assert _one(read, '{"text": ["a"], "label": []}', **tag).reasons == ["unequal_counts"]
    assert _one(read, '{"label": []}', **tag).reasons == ["missing_text"]


def test_labels_and_scores_of_the_wrong_kind(read: Callable[..., Read]) -> None:
    for value, reason in (
        ('""', "empty_label"),
        ("[1]", "bad_type"),
        ("{}", "bad_type"),
        ("1e999", "bad_type"),
    ):
        assert _one(read, f'{{"text": "a", "y": {value}}}', label="y", task="classify").reasons == [reason]
    for value, reason in (
        ('"x"', "bad_score"),
        ("true", "bad_type"),
        ("[]", "bad_type"),
        ("1e39", "bad_score"),
        ("1e999", "bad_score"),
        ("1" + "0" * 400, "bad_score"),
        ('"nan"', "bad_score"),
        ('"1_0"', "bad_score"),
        ('"１"', "bad_score"),
    ):
        got = _one(read, f'{{"text": "a", "label": {value}}}', label="label", score=True, task="classify")
        assert got.reasons == [reason], value
    for value, score in (("3", 3.0), ("-0.5", -0.5), ('"2.5"', 2.5), ("null", None), ('"1e3"', 1000.0)):
        got = _one(read, f'{{"text": "a", "label": {value}}}', label="label", score=True, task="classify")
        assert got.rows[0]["label_score"] == score and got.rows[0]["label"] is None


def test_ids_and_languages(read: Callable[..., Read]) -> None:
    layout = {"id": "id", "language": "lang"}
    got = _one(read, '{"id": 7, "text": "a", "lang": "en"}', **layout)
    assert (got.rows[0]["doc_id"], got.rows[0]["language"]) == ("7", "en")
    assert got.rows[0]["source"].startswith("a.txt@")
    for line, reason in (
        ('{"text": "a"}', "missing_id"),
        ('{"text": "a", "id": null}', "missing_id"),
        ('{"text": "a", "id": ""}', "missing_id"),
        ('{"text": "a", "id": [1]}', "bad_type"),
        ('{"text": "a", "id": "\\ud800"}', "bad_unicode"),
        ('{"text": "a", "id": "b", "lang": 1}', "bad_type"),
    ):
        assert _one(read, line, **layout).reasons == [reason]


def test_c10_an_empty_side_rejects_the_pair(read: Callable[..., Read]) -> None:
    layout = {"text_pair": "pair", "task": "classify", "label": "y"}
    got = _one(read, '{"text": "a", "pair": "b"}', **layout)
    assert (got.rows[0]["text"], got.rows[0]["text_pair"]) == ("a", "b")
    for line, reason in (
        ('{"text": "", "pair": "b"}', "empty_text"),
        ('{"text": "a", "pair": " "}', "empty_text"),
        ('{"text": "a", "pair": null}', "missing_text"),
        ('{"text": "a"}', "missing_text"),
    ):
        assert _one(read, line, **layout).reasons == [reason]


def test_sequences_as_lists_or_as_separated_strings(read: Callable[..., Read]) -> None:
    layout = {"label": "label", "task": "tag"}
    for line in (
        '{"text": ["北", "京", "好"], "label": ["B-LOC", "I-LOC", "O"]}',
        '{"text": "北 京 好", "label": ["B-LOC", "I-LOC", "O"]}',
        '{"text": ["北", "京", "好"], "label": "B-LOC I-LOC O"}',
    ):
        (row,) = _one(read, line, **layout).rows
        assert row["text"] == "北京好" and row["tag_labels"] == ["B-LOC", "I-LOC", "O"]
        assert row["tag_starts"] == [0, 1, 2] and row["tag_stops"] == [1, 2, 3]
    (row,) = _one(read, '{"text": ["a", "b"], "label": [0, 12]}', **layout).rows
    assert row["tag_labels"] == ["0", "12"]
    for line, reason in (
        ('{"text": ["a", ""], "label": ["O", "O"]}', "empty_token"),
        ('{"text": ["a", "b"], "label": ["O", ""]}', "empty_label"),
        ('{"text": ["a", "b"], "label": ["O", null]}', "empty_label"),
        ('{"text": ["a", 1], "label": ["O", "O"]}', "bad_type"),
        ('{"text": ["a", "b"], "label": ["O", ["O"]]}', "bad_type"),
        ('{"text": ["a", "b"], "label": ["O"]}', "unequal_counts"),
        ('{"text": {"a": 1}, "label": ["O"]}', "bad_type"),
        ('{"text": ["\\ud800"], "label": ["O"]}', "bad_unicode"),
        ('{"text": [" "], "label": ["O"]}', "empty_text"),
    ):
        assert _one(read, line, **layout).reasons == [reason], line


def test_the_language_of_a_record_decides_its_joiner(read: Callable[..., Read]) -> None:
    rows = [
        {"text": ["Ab", "c"], "label": ["B-X", "O"], "lang": "en"},
        {"text": ["北", "京"], "label": ["B-X", "I-X"], "lang": "zh"},
        {"text": ["d", "ef", "g"], "label": ["O", "O", "O"]},
    ]
    body = "\n".join(json.dumps(row) for row in rows).encode()
    layout = {"format": "jsonl", "label": "label", "language": "lang", "task": "tag"}
    got = read(body, corpus_language="en", **layout)
    assert got.texts == ["Ab c", "北京", "d ef g"]
    assert [r["tag_starts"] for r in got.rows] == [[0, 3], [0, 1], [0, 2, 5]]
    assert [r["tag_stops"] for r in got.rows] == [[2, 4], [1, 2], [1, 4, 6]]
    assert read(body, corpus_language="zh", **layout).texts == ["Ab c", "北京", "defg"]
    assert read(body, joiner="__", **layout).texts == ["Ab__c", "北__京", "d__ef__g"]


def test_real_abstracts_are_read_whole(real_data: Path) -> None:
    layout = InputConfig(
        format="jsonl", files={"train": ["clue/csl.jsonl"]}, text="abst", label="label", id="id"
    )
    got = read_layout(layout, real_data, "classify", "zh", 200_000, 1 << 20)
    lines = (real_data / "clue/csl.jsonl").read_bytes().split(b"\n")[:-1]
    assert len(got.rows) == len(lines) == 2838 and not got.rejects
    for row, line in zip(got.rows, lines, strict=True):
        record = json.loads(line)
        assert (
            row["text"] == record["abst"]
            and row["label"] == record["label"]
            and row["doc_id"] == str(record["id"])
        )
