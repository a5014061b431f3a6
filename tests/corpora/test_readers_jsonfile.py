"""Whole JSON files: what is JSON, what a broken one costs, where values stand, JSON lines."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.blocks import Part
from corpora.readers import jsonfile
from corpora.readers.jsonfile import Found, read_json
from corpora.readers.jsonwalk import MARK, Text
from corpora.readers.lines import LineNumbers
from corpora.readers.sink import Sink
from corpora.records import Reject
from tests.corpora.questions import qa, read_files, squad


def _read(raw: bytes, *, name: str = "a.json", **options: Any) -> tuple[list[Found], list[Reject]]:
    rejects: list[Reject] = []
    sink = Sink(
        batch_bytes=1 << 20, encoding="utf-8", orphan_inside="keep", on_reject=rejects.append, on_count=None
    )
    part = Part(name, name, 0, None)
    numbers = LineNumbers(part)
    sink.begin(name, numbers)
    options = {"marks": {"x": {None: MARK}}, "inside": "data", **options}
    return list(read_json(io.BytesIO(raw), part, sink, numbers, **options)), rejects


BROKEN = [
    (b'{"data": [1, 2', "the file ends inside a value, at line 1, byte 14"),
    (b'{"data": [1, 2]', "ends inside a value"),
    (b'{"data": [1, {"a": "b', "Unterminated string"),
    (b'{"data": [1,\n 2 3]}', "in data[1]: Expecting ',' delimiter, at line 2, byte 16"),
    (b'{"data": [1, 2]} x', "Extra data"),
    (b'{"data": [1, ]}', "Expecting value"),
    (b'{"data": [1],}', "double quotes"),
    (b'{"data" [1]}', "Expecting ':' delimiter"),
    (b'{"data": [1}', "Expecting ',' delimiter"),
    (b'{"data": [1]]', "Expecting ',' delimiter"),
    (b"{1: 2}", "double quotes"),
    (b"[1", "ends inside"),
    (b"nonsense", "Expecting value"),
    (b'{"data": [1], "data": [2]}', "the key 'data' stands twice"),
    (b'{"data": [{"a": 1, "a": 2}]}', "in data[0]: the key 'a' stands twice"),
    (b'[{"x": [{"a": 1, "a": 2}]}]', "in [0]: the key 'a' stands twice"),
    (b'{"data": [NaN]}', "NaN is not JSON"),
    (b'{"data": [1], "score": -Infinity}', "-Infinity is not JSON"),
    (b'{"data": [' + b"[" * 100_000 + b"]" * 100_000 + b"]}", "nested too deep"),
    (b'{"x": ' + b'{"x":' * 100_000 + b"}" * 100_000 + b"}", "nested too deep"),
    (b'{"data": [' + b"7" * 10_000 + b"]}", "4300 digits"),
    (b'{"data": ["\xc3"]}', "byte 0xc3 at offset 11 of the file"),
    (b"\xff\xfe{\x00}\x00", "UTF-16"),
]


@pytest.mark.parametrize(("raw", "message"), BROKEN)
def test_a_broken_file_is_an_error_that_says_where(raw: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=r"a\.json") as error:
        _read(raw)
    assert message in str(error.value) and not isinstance(error.value, json.JSONDecodeError)


@pytest.mark.parametrize(("raw", "message"), [b for b in BROKEN if b[0].startswith(b"{")])
def test_a_broken_file_of_one_record_is_a_reject(raw: bytes, message: str) -> None:
    found, rejects = _read(raw, lone=True, inside=None)
    assert not found and len(rejects) == 1
    assert rejects[0].reason in ("bad_json", "duplicate_key", "bad_encoding") and rejects[0].byte == 0
    assert rejects[0].excerpt.startswith(raw[:8].decode())


def test_a_large_file_is_an_error_but_not_if_it_is_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonfile, "MAX_FILE_BYTES", 100)
    with pytest.raises(ValueError, match=r"larger than 100 bytes.*split it"):
        _read(json.dumps(["x" * 100]).encode())
    assert len(_read(b'{"a": 1}\n' * 100)[0]) == 100
    assert len(_read(json.dumps(["x" * 80]).encode())[0]) == 1


def test_records_of_every_container() -> None:
    for raw, values, places in (
        (b'[{"a": 1}, 2]', [{"a": 1}, 2], ["[0]", "[1]"]),
        (b'{"v": 1, "data": [[], "x"], "w": 2}', [[], "x"], ["data[0]", "data[1]"]),
        (b'{"v": 1}', [{"v": 1}], [""]),
        (b'{"data": {"a": 1}}', [{"data": {"a": 1}}], [""]),
        (b'{"data": []}', [], []),
        (b"[]", [], []),
        (b"{}", [{}], [""]),
        (b' "a" ', ["a"], [""]),
        (b'\n\n{"a":\n1}\n\n', [{"a": 1}], [""]),
        (b'{"a": 1}\n{"a": 2}', [{"a": 1}, {"a": 2}], ["", ""]),
        (b'\n{"a": 1}\r\n\r\n[2]\r\n', [{"a": 1}, [2]], ["", ""]),
        (b"[1]\n[2]\n", [[1], [2]], ["", ""]),
        (b"[1]\n", [1], ["[0]"]),
        (b"", [], []),
        (b" \n", [], []),
    ):
        for mark in (b"", b"\xef\xbb\xbf"):
            found, rejects = _read(mark + raw)
            assert [f.value for f in found] == values and [f.place for f in found] == places and not rejects


def test_lines_are_rejected_one_by_one() -> None:
    raw = b'{"a": 1}\n{"a": \n\n{"a": 1, "a": 2}\n"\xff"\n{"a": NaN}\n{"a": 2} 3\n{"a": 3}\n'
    found, rejects = _read(raw)
    assert [f.value for f in found] == [{"a": 1}, {"a": 3}]
    assert [(r.reason, r.line) for r in rejects] == [
        ("bad_json", 2),
        ("duplicate_key", 4),
        ("bad_encoding", 5),
        ("bad_json", 6),
        ("bad_json", 7),
    ]
    assert [raw[r.byte :].startswith(b'{"a":') or raw[r.byte :].startswith(b'"\xff"') for r in rejects] == [
        True
    ] * 5
    # A file that is called so is lines, even if its first is broken.
    found, rejects = _read(b'{"a"\n{"a": 1}\n', name="a.jsonl.gz")
    assert [f.value for f in found] == [{"a": 1}] and [r.line for r in rejects] == [1]
    with pytest.raises(ValueError, match="not valid JSON"):
        _read(b'{"a"\n{"a": 1}\n')


@given(st.text("aé\n😀", max_size=12), st.lists(st.integers(0, 12), max_size=6))
def test_places_may_be_asked_for_in_any_order(text: str, asked: list[int]) -> None:
    place = Text(text, 3, 7)
    for at in asked:
        at = min(at, len(text))
        assert place.byte(at) == 3 + len(text[:at].encode())
        assert place.first(at) == 7 + text[:at].count("\n")


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["x", "é", "data", "z"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=100)
@given(
    st.lists(_values, max_size=4),
    st.sampled_from(["list", "data", "lines"]),
    st.sampled_from([None, 0, 2]),
    st.booleans(),
)
def test_what_is_walked_is_what_json_says(
    records: list[Any], kind: str, indent: int | None, ascii_: bool
) -> None:
    def dump(value: Any, indent: int | None) -> str:
        return json.dumps(value, ensure_ascii=ascii_, indent=indent)

    if kind == "lines":
        raw = "\n".join(dump(r, None) for r in records).encode("utf-8", "surrogatepass")
    else:
        raw = dump(records if kind == "list" else {"é": "é", "data": records}, indent).encode(
            "utf-8", "surrogatepass"
        )
    marks = {"x": {None: MARK}, 0: {"x": MARK}}
    name = "a.jsonl" if kind == "lines" else "a.json"
    found, rejects = _read(raw, name=name, marks=marks)
    assert [f.value for f in found] == records and not rejects
    decode = json.JSONDecoder().raw_decode
    for f in found:
        at = f.text.byte(f.at)
        assert decode(raw[at:].decode())[0] == f.value
        assert f.text.first(f.at) == raw[:at].count(b"\n")
        wanted: list[Any] = []
        if isinstance(f.value, dict):
            wanted = f.value["x"] if isinstance(f.value.get("x"), list) else []
        elif isinstance(f.value, list) and f.value and isinstance(f.value[0], dict) and "x" in f.value[0]:
            wanted = [f.value[0]["x"]]
        assert [decode(raw[f.text.byte(m) :].decode())[0] for m in f.marks] == wanted


def test_errors_and_sources_of_a_compressed_file(tmp_path: Path) -> None:
    raw = b"\xef\xbb\xbf" + json.dumps(squad(qa([("甲", 0)])), ensure_ascii=False, indent=1).encode()
    got = read_files(tmp_path, {"a.json.gz": gzip.compress(raw)}, format="squad")
    path, byte = got.rows[0]["source"].split("@")
    assert path == "a.json.gz" and raw[int(byte) :].split()[:3] == [b"{", b'"id":', b'"q1",']
    with pytest.raises(ValueError, match=r"a\.json\.gz"):
        read_files(tmp_path, {"a.json.gz": gzip.compress(raw[:-9])}, format="squad")
    with pytest.raises(ValueError, match=r"damaged|ends|end-of-stream"):
        read_files(tmp_path, {"a.json.gz": gzip.compress(raw)[:-20]}, format="squad")
