from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.layout import InputConfig
from corpora.readers import jsonarray
from corpora.readers.jsonarray import ArrayError
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
        ('{"x": 1}', "missing_text", "'text' is missing or null; the record has the fields 'x'"),
        ("{}", "missing_text", "'text' is missing or null; the record is empty"),
        ('{"a": {"b": 1}}', "missing_text", "the fields 'a', 'a.b'"),
        (
            "{" + ", ".join(f'"{"k" * 50}{i}": 1' for i in range(30)) + "}",
            "missing_text",
            f"'{'k' * 40}', ...",
        ),
        ('{"text": "a', "bad_json", "Unterminated string starting at character 10"),
        ('{"text": null, "x": 1}', "missing_text", "'text' is missing or null"),
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
    assert "null" not in str(line) or "has the fields" not in got.rejects[0].detail


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


def test_a_field_that_holds_a_list_is_joined(read: Callable[..., Read]) -> None:
    for joiner, text in ((None, "a b\u2028 c"), ("；", "a；b\u2028 c"), ("", "ab\u2028 c")):
        got = _one(read, '{"text": ["a", "", " ", "b\\u2028 c"]}', joiner=joiner)
        assert [r["text"] for r in got.rows] == [text]
    got = _one(read, '{"text": "a", "pair": ["b", "c"]}', text_pair="pair")
    assert got.rows[0]["text_pair"] == "b c"


def test_several_fields_are_joined_by_line_ends(read: Callable[..., Read]) -> None:
    layout = {"format": "jsonl", "text": ["title", "body", "tags"], "text_pair": ["c"]}
    records = [
        {"title": " a ", "body": "b\r\nc", "tags": ["d", "e"], "c": "f"},
        {"title": None, "body": " ", "tags": ["d"], "c": "f"},
        {"body": "b", "c": "f"},
        {"title": "", "body": " ", "tags": [], "c": "f"},
        {"title": None, "c": "f"},
        {"title": 7, "body": "b", "c": "f"},
        {"title": "a", "tags": [1], "c": "f"},
        {"title": "a", "c": " "},
    ]
    got = read("\n".join(json.dumps(r) for r in records).encode(), **layout)
    assert got.texts == [" a \nb\r\nc\nd e", "d", "b"]
    assert [r["text_pair"] for r in got.rows] == ["f"] * 3
    assert got.reasons == ["empty_text", "missing_text", "bad_type", "bad_type", "empty_text"]
    assert "'title' must be a string" in got.rejects[2].detail
    assert "text fields ['title', 'body', 'tags']" in got.rejects[1].detail


def test_dots_lead_into_nested_objects(read: Callable[..., Read]) -> None:
    layout = {"text": "a.b.c", "id": "x.id", "label": "x.y", "task": "classify", "format": "jsonl"}
    records = [
        {"a": {"b": {"c": "good"}}, "x": {"id": 1, "y": "L"}},
        {"a.b.c": "plain", "a": {"b": {"c": "nested"}}, "x": {"id": 2}},
        {"a": {"b": ["c"]}, "x": {"id": 3}},
        {"a": None, "x": {"id": 4}},
        {"a": {"b": {"c": "good"}}, "x": "id"},
    ]
    got = read("\n".join(json.dumps(r) for r in records).encode(), **layout)
    assert [(r["text"], r["doc_id"], r["label"]) for r in got.rows] == [
        ("good", "1", "L"),
        ("plain", "2", None),
    ]
    assert got.reasons == ["missing_text", "missing_text", "missing_id"]


def test_labels_to_skip_are_counted(read: Callable[..., Read]) -> None:
    layout = {"format": "jsonl", "label": "y", "skip_labels": ["-", "0"], "task": "classify"}
    body = b'{"text":"a","y":"-"}\n{"text":"b","y":0}\n{"text":"c","y":1}\n{"text":"d"}\n{"text":"","y":"-"}'
    got = read(body, **layout)
    assert got.texts == ["c", "d"] and got.counts == {"labels_skipped": 2} and got.reasons == ["empty_text"]


def test_pairs_for_generation(read: Callable[..., Read]) -> None:
    layout = {"format": "jsonl", "text": "q", "text_pair": "a", "task": "seq2seq"}
    got = read(b'{"q":"x","a":"y"}\n{"q":"x","a":""}\n{"q":" ","a":"y"}\n{"q":"x"}', **layout)
    assert [(r["text"], r["text_pair"], r["label"]) for r in got.rows] == [("x", "y", None)]
    assert got.reasons == ["empty_text", "empty_text", "missing_text"]


# --- one array a file -------------------------------------------------------------------------

_VALUE = st.recursive(
    st.text(st.sampled_from('ab"\\[{}],中😀\n\0'), max_size=5) | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries({"text": st.text(min_size=1, max_size=8).map(lambda t: t + "x"), "n": _VALUE})
    ),
    st.sampled_from([None, 0, 2]),
    st.booleans(),
    st.integers(1, 50),
    st.sampled_from(["utf-8", "gb18030"]),
)
def test_an_array_gives_what_its_lines_would(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[dict[str, Any]],
    indent: int | None,
    ascii_only: bool,
    chunk: int,
    encoding: str,
) -> None:
    records = [r for r in records if r["text"].isprintable() or ascii_only]
    folder = tmp_path_factory.mktemp("array")
    body = json.dumps(records, ensure_ascii=ascii_only, indent=indent)
    (folder / "a.json").write_bytes(body.encode(encoding))
    layout = InputConfig(format="jsonl", files={"train": ["a.json"]}, encoding=encoding)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonarray, "CHUNK", chunk)
        got = read_layout(layout, folder, "pretrain", "zh", 20, 30)
    assert got.texts == [r["text"] for r in records] and not got.rejects and got.blocks == 1
    raw = body.encode(encoding)
    for row in got.rows:
        at = int(row["source"].partition("@")[2])
        found, _ = json.JSONDecoder().raw_decode(raw[at:].decode(encoding))
        assert found["text"] == row["text"]


@pytest.mark.parametrize("chunk", [3, 4, 1 << 20])
def test_bad_records_of_an_array_are_rejected_one_by_one(
    read: Callable[..., Read], monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(jsonarray, "CHUNK", chunk)
    items = [
        b'{"text": "a"}',
        b'{"text": "b", "text": "c"}',
        b'{"text": "d", "x": [NaN]}',
        b'{"x": 1}',
        b'"e"',
        b"12",
        b"[[1]]",
        b'{"text": "\xff"}',
        b'{"text": "f\\ud800"}',
        b'{"text": "g", "x": ' + b"7" * 10_000 + b"}",
        '{"text": "好"}'.encode(),
    ]
    got = read(b"\xef\xbb\xbf [\n" + b",\n".join(items) + b"\n]\n", format="jsonl")
    assert got.texts == ["a", "好"]
    assert got.reasons == [
        "duplicate_key",
        "bad_json",
        "missing_text",
        *["bad_json"] * 3,
        "bad_encoding",
        "bad_unicode",
        "bad_json",
    ]
    assert [r.line for r in got.rejects] == list(range(3, 12))
    at = [6 + sum(len(i) + 2 for i in items[:n]) for n in range(len(items))]
    assert [r.byte for r in got.rejects] == at[1:10]
    assert got.rejects[6].detail == f"byte 0xff at offset {at[7] + 10} of the file is not valid utf-8"
    assert got.rows[1]["source"] == f"a.txt@{at[10]}"
    assert "found a bare value" in got.rejects[3].detail and "found a list" in got.rejects[5].detail
    assert read(b" [ ] ", format="jsonl").rows == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('[{"text": "a"} {"text": "b"}]', "byte 15 (line 1) on: expected `,` or `]`, found '{'"),
        (
            '[{"text": "a"},\n{"text": "b]',
            "byte 16 (line 2) on: Unterminated string starting at character 10 of the item.",
        ),
        ('[{"text": "a"},\n{"text": "b"}', "the file ends where `,` or `]` should be"),
        ('[{"text": "a"},', "the file ends where an object should be"),
        ('[{"text": "a"},]', "byte 15 (line 1) on: Expecting value"),
        ('[{"text": "a"}]\n[{"text": "b"}]', "byte 16 (line 2) on: there is more behind the array's end"),
        ('[{"text": ' + "[" * 200_000, "nested too deep"),
    ],
)
def test_a_broken_array_ends_the_run(read: Callable[..., Read], body: str, message: str) -> None:
    with pytest.raises(ArrayError) as caught:
        read(body.encode(), format="jsonl")
    assert message in str(caught.value) and "jq -c" in str(caught.value)


def test_a_long_item_of_an_array_is_given_up_in_bounds(
    read: Callable[..., Read], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonarray, "CHUNK", 64)
    monkeypatch.setattr(jsonarray, "MAX_RECORD_BYTES", 1000)
    text = "x" * 900
    assert read(f'[{{"text": "{text}"}}]'.encode(), format="jsonl").texts == [text]
    with pytest.raises(ArrayError, match="longer than 1,000 characters"):
        read(f'[{{"text": "{text * 3}"}}]'.encode(), format="jsonl")


def test_lines_that_begin_like_an_array_stay_lines(read: Callable[..., Read]) -> None:
    got = read(b'["a"]\n{"text": "b"}\n', format="jsonl")
    assert got.texts == ["b"] and got.reasons == ["bad_json"]


def test_a_compressed_array(tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(json.dumps([{"text": "a"}, {"text": "b"}]).encode()))
    layout = InputConfig(format="jsonl", files={"train": ["a.json.gz"]})
    assert read_layout(layout, tmp_path, "pretrain", "zh", 10, 100).texts == ["a", "b"]


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
