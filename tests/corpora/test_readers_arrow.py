"""Tables: Parquet, Arrow files and streams, and the folders that `datasets` saves."""

from __future__ import annotations

import gzip
import json
import pickle
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora import files
from corpora.layout import InputConfig
from corpora.plan import plan_blocks
from corpora.readers import ipc, read_block, tables
from corpora.readers.columns import ColumnError
from corpora.readers.tablefiles import CorruptTableError, TableFile
from corpora.tableplan import splits_left_out
from tests.corpora.conftest import Read, read_layout
from tests.corpora.test_files import remote  # noqa: F401  (a fixture)

KINDS = ("parquet", "file", "stream")
ReadTable = Callable[..., Read]


def write_table(path: Path, table: pa.Table, kind: str, rows: int = 1000, **options: Any) -> None:
    """`rows` in a row group or record batch."""
    if kind == "parquet":
        pq.write_table(table, path, row_group_size=rows, **options)
        return
    new = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    with new(path, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=rows)


def layout_of(kind: str, name: str, **keys: Any) -> InputConfig:
    format_ = "parquet" if kind == "parquet" else "arrow"
    return InputConfig.model_validate({"format": format_, "files": {"train": name}, **keys})


@pytest.fixture
def read_table(tmp_path: Path) -> ReadTable:
    """Write a table, read it back as a corpus."""

    def run(
        table: pa.Table | dict[str, Any],
        kind: str = "parquet",
        *,
        task: str = "pretrain",
        language: str = "en",
        rows: int = 1000,
        block_bytes: int = 1 << 20,
        batch_bytes: int = 1 << 20,
        write: dict[str, Any] | None = None,
        **keys: Any,
    ) -> Read:
        table = pa.table(table) if isinstance(table, dict) else table
        write_table(tmp_path / "a", table, kind, rows, **(write or {}))
        return read_layout(layout_of(kind, "a", **keys), tmp_path, task, language, block_bytes, batch_bytes)

    return run


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_numbered_in_their_file(read_table: ReadTable, kind: str) -> None:
    texts = [f"text {i}" for i in range(100)]
    for block_bytes in (1, 700, 1 << 20):
        got = read_table({"text": texts, "x": texts}, kind, rows=7, block_bytes=block_bytes)
        assert got.texts == texts and not got.rejects
        assert (
            [r["source"] for r in got.rows]
            == [r["doc_id"] for r in got.rows]
            == [f"a@{i}" for i in range(100)]
        )
        assert got.rows[0]["label"] is None and got.rows[0]["word_starts"] is None
        assert (got.blocks > 1) == (block_bytes < 1000)
        assert all(table.num_rows for table in got.tables)


# --- the rules are those of JSON lines --------------------------------------------------------

_TEXTS = st.sampled_from(
    [
        None,
        "",
        " ",
        "\u3000\n",
        "a",
        "好",
        "a b",
        "x" * 40,
        "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
    ]
)
_RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "text": _TEXTS,
            "pair": _TEXTS,
            "label": st.sampled_from([None, "", "pos", "neg", "-"]),
            "number": st.sampled_from([None, 0, 1, -1, 7]),
            "score": st.sampled_from([None, 0.5, -1.0, 3e38, 1e39, float("inf")]),
            "id": st.sampled_from([None, "", "i1", "i2"]),
            "lang": st.sampled_from([None, "", "zh", "en"]),
        }
    ),
    max_size=30,
)
_TYPES = st.sampled_from(
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.large_string()),
        pa.binary(),
        pa.large_binary(),
    ]
)
_LAYOUTS = st.sampled_from(
    [
        {},
        {"text_pair": "pair"},
        {"id": "id"},
        {"language": "lang", "text_pair": "pair"},
        {"label": "label", "task": "classify"},
        {"label": "label", "task": "classify", "skip_labels": ["-"], "id": "id"},
        {"label": "number", "task": "classify"},
        {"label": "number", "task": "classify", "skip_labels": ["7"]},
        {"label": "score", "score": True, "task": "classify"},
        {"label": "number", "score": True, "task": "classify", "text_pair": "pair"},
        {"text": ["text", "pair"]},
        {"text": ["text", "pair"], "label": "label", "task": "classify", "id": "number"},
    ]
)


def _comparable(read: Read) -> tuple[Any, ...]:
    """Rows and rejects without places, which count bytes there and rows here."""
    rows = [{k: v for k, v in r.items() if k not in ("source", "doc_id")} for r in read.rows]
    ids = [None if "@" in r["doc_id"] else r["doc_id"] for r in read.rows]
    return rows, ids, [(r.reason, r.detail) for r in read.rejects], dict(read.counts)


@settings(max_examples=80, deadline=None)
@given(
    _RECORDS,
    _LAYOUTS,
    _TYPES,
    st.sampled_from(KINDS),
    st.integers(1, 12),
    st.integers(1, 3000),
    st.integers(1, 300),
)
def test_tables_give_what_json_lines_give(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[dict[str, Any]],
    keys: dict[str, Any],
    kind_of_text: pa.DataType,
    kind: str,
    rows: int,
    block_bytes: int,
    batch_bytes: int,
) -> None:
    folder = tmp_path_factory.mktemp("tables")
    layout = {k: v for k, v in keys.items() if k != "task"}
    task = keys.get("task", "pretrain")
    # JSON cannot say infinity, and a table's float that is none is out of range like 1e39.
    lines = [json.dumps({**r, "score": 1e39 if r["score"] == float("inf") else r["score"]}) for r in records]
    (folder / "a.jsonl").write_text("\n".join(lines))
    config = InputConfig.model_validate({"format": "jsonl", "files": "a.jsonl", **layout})
    expected = read_layout(config, folder, task, "en", 1 << 20, 1 << 20)
    strings = {
        n: pa.array([r[n] for r in records], pa.string()).cast(kind_of_text)
        for n in ("text", "pair", "label", "id", "lang")
    }
    table = pa.table(
        {
            **strings,
            "number": pa.array([r["number"] for r in records], pa.int16()),
            "score": pa.array([r["score"] for r in records], pa.float64()),
        }
    )
    write_table(folder / "a", table, kind, rows)
    whole = read_layout(layout_of(kind, "a", **layout), folder, task, "en", 1 << 20, 1 << 20)
    assert _comparable(whole) == _comparable(expected)
    cut = read_layout(layout_of(kind, "a", **layout), folder, task, "en", block_bytes, batch_bytes)
    assert (cut.rows, cut.rejects, cut.counts) == (whole.rows, whole.rejects, whole.counts)
    assert len(whole.rows) + len(whole.rejects) + whole.counts["labels_skipped"] == len(records)


def test_rejects_name_row_and_values(read_table: ReadTable) -> None:
    got = read_table(
        {"text": ["a", None, "b"], "label": ["x", "y", ""]}, label="label", task="classify", rows=2
    )
    assert [(r.byte, r.line, r.reason) for r in got.rejects] == [
        (1, None, "missing_text"),
        (2, None, "empty_label"),
    ]
    assert json.loads(got.rejects[0].excerpt) == {"text": None, "label": "y"}
    assert got.rejects[0].to_json()


def test_c24_missing_and_null_columns(read_table: ReadTable) -> None:
    table = {"text": ["a", "b"], "label": pa.nulls(2), "lang": pa.nulls(2)}
    got = read_table(table, "file", label="label", language="lang", task="classify")
    assert [r["label"] for r in got.rows] == [None, None]
    assert read_table({"text": pa.nulls(0, pa.string())}).rows == []
    with pytest.raises(ColumnError, match=r"must hold strings, or lists of strings, but its type is null"):
        read_table({"text": pa.nulls(2)}, "file")


def test_columns_are_checked_by_the_plan(read_table: ReadTable, tmp_path: Path) -> None:
    write_table(tmp_path / "a", pa.table({"text": ["a"], "lable": [1], "s": [{"x": "a", "y": 1}]}), "parquet")
    for keys, message in (
        (
            {"label": "label"},
            r"a has no column 'label' \(input.label\); columns: 'text', 'lable', 's', 's.x', 's.y'; did you mean 'lable'",
        ),
        (
            {"text": "lable"},
            r"'lable' \(input.text\) must hold strings, or lists of strings, but its type is int64",
        ),
        ({"text": "s"}, r"its type is struct<.*name what is in it, such as 's.x'"),
        ({"text": "s.z"}, r"no column 's.z'"),
        ({"text": "s.x.y"}, r"no column 's.x.y'"),
        ({"id": "s"}, r"\(input.id\) must hold strings or numbers"),
        ({"language": "lable"}, r"\(input.language\) must hold strings"),
    ):
        with pytest.raises(ColumnError, match=message):
            plan_blocks(layout_of("parquet", "a", **keys), str(tmp_path))
    keys = {"label": "label", "label_optional": True, "files": {"test": "a"}}
    assert plan_blocks(layout_of("parquet", "a", **keys), str(tmp_path))
    twice = pa.Table.from_arrays([pa.array(["a"])] * 2, names=["text", "text"])
    for kind in ("file", "stream"):
        with pytest.raises(ColumnError, match=r"'text' .* 2 times"):
            read_table(twice, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_dotted_names_lead_into_structs(read_table: ReadTable, kind: str) -> None:
    pairs = pa.array(
        [{"de": "Haus", "en": "house"}, None, {"de": "Maus", "en": None}],
        pa.struct([("de", pa.string()), ("en", pa.string())]),
    )
    got = read_table(
        {"translation": pairs, "other.en": ["x", "y", "z"]},
        kind,
        text="translation.de",
        text_pair="translation.en",
    )
    assert [(r["text"], r["text_pair"]) for r in got.rows] == [("Haus", "house")]
    assert got.reasons == ["missing_text"] * 2
    # A column of that very name comes first.
    assert read_table({"translation": pairs, "other.en": ["x", "y", "z"]}, kind, text="other.en").texts == [
        "x",
        "y",
        "z",
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_columns_that_are_needed_are_read(
    read_table: ReadTable, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []
    monkeypatch.setattr(
        tables,
        "checked",
        lambda column, batch, f=tables.checked: (seen.append(batch.schema.names), f(column, batch))[1],
    )
    table = {"x": ["x"], "text": ["a"], "s": [{"a": "b", "c": "d"}], "label": [1]}
    read_table(table, kind, label="label")  # pretraining reads no labels
    assert seen == [["text"]]
    read_table(table, kind, text="s.a", label="label", task="classify")
    assert sorted(seen[-1]) == ["label", "s"]


def test_bytes_that_are_no_utf8_cost_their_row(read_table: ReadTable) -> None:
    good, bad = "好".encode(), b"a\xff"
    for kind in KINDS:
        got = read_table({"text": pa.array([good, bad, good, None])}, kind)
        assert got.texts == ["好", "好"] and got.reasons == ["bad_encoding", "missing_text"]
        assert "byte 0xff at offset 1" in got.rejects[0].detail and got.rejects[0].byte == 1
        as_text = pa.array([good, bad, good]).view(pa.string())  # Arrow does not look
        got = read_table({"text": as_text}, kind)
        assert got.texts == ["好", "好"] and got.reasons == ["bad_encoding"]
        tokens = pa.array([[good], [bad, good], [good]]).cast(pa.list_(pa.binary()))
        wrong = pa.ListArray.from_arrays(tokens.offsets, tokens.values.view(pa.string()))
        got = read_table(
            {"tokens": wrong, "tags": [["O"], ["O", "O"], ["O"]]},
            kind,
            text="tokens",
            label="tags",
            task="tag",
        )
        assert got.texts == ["好", "好"] and got.reasons == ["bad_encoding"]


def test_a_text_that_is_too_long_is_rejected(read_table: ReadTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MAX_RECORD_BYTES", 100)
    for keys in ({}, {"text": ["text"]}, {"batch_bytes": 10}, {"text": ["text"], "batch_bytes": 10}):
        got = read_table({"text": ["a", "x" * 101, "好" * 33, "好" * 34]}, **keys)
        assert got.texts == ["a", "好" * 33] and got.reasons == ["record_too_long"] * 2
        assert [r.byte for r in got.rejects] == [1, 3]


def test_a_dictionary_of_long_texts_is_not_expanded_at_once(tmp_path: Path) -> None:
    """A file of 100 KB whose text is 500 MB."""
    same = pa.DictionaryArray.from_arrays(pa.array([0] * 5000, pa.int16()), pa.array(["x" * 100_000]))
    write_table(tmp_path / "a", pa.table({"text": same}), "file", 5000)
    (block,) = plan_blocks(layout_of("file", "a"), str(tmp_path), 1 << 30)
    rows = 0
    for table in read_block(
        block, layout_of("file", "a"), "pretrain", "en", pytest.fail, batch_bytes=1 << 20
    ):
        rows += table.num_rows
        assert table.nbytes < 3 << 20
    assert rows == 5000


# --- labels and features of `datasets` --------------------------------------------------------


def _with_features(table: pa.Table, features: dict[str, Any]) -> pa.Table:
    info = json.dumps({"info": {"features": features}})
    return table.replace_schema_metadata({"huggingface": info})


def _labels(names: list[str]) -> dict[str, Any]:
    return {"names": names, "_type": "ClassLabel"}


@pytest.mark.parametrize("kind", KINDS)
def test_label_numbers_become_names(read_table: ReadTable, kind: str) -> None:
    table = pa.table({"text": list("abcdef"), "label": [1, 0, -1, None, 2, -2]})
    table = _with_features(
        table, {"text": {"dtype": "string", "_type": "Value"}, "label": _labels(["neg", "pos"])}
    )
    keys = {"label": "label", "task": "classify"}
    got = read_table(table, kind, **keys)
    assert [r["label"] for r in got.rows] == ["pos", "neg", None, None]
    assert [(r.reason, r.byte) for r in got.rejects] == [("bad_label", 4), ("bad_label", 5)]
    assert "has the number 2, but the file names 2 labels" in got.rejects[0].detail
    got = read_table(table, kind, **keys, skip_labels=["-1", "neg"])
    assert [r["label"] for r in got.rows] == ["pos", None] and got.counts["labels_skipped"] == 2
    scored = read_table(table, kind, **keys, score=True)
    assert [r["label_score"] for r in scored.rows] == [1, 0, -1, None, 2, -2]
    plain = read_table(table.replace_schema_metadata(None), kind, **keys)
    assert [r["label"] for r in plain.rows] == ["1", "0", "-1", None, "2", "-2"]
    for junk in (
        b"{",
        b"[]",
        b'{"info": 1}',
        b"[" * 100_000,
        b'{"info": {"features": {"label": {"_type": "ClassLabel", "names": [1]}}}}',
    ):
        again = read_table(table.replace_schema_metadata({"huggingface": junk}), kind, **keys)
        assert again.rows == plain.rows


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "feature",
    [
        {"feature": _labels(["O", "B-PER", "I-PER"]), "_type": "Sequence"},
        {"feature": _labels(["O", "B-PER", "I-PER"]), "_type": "List"},
        [_labels(["O", "B-PER", "I-PER"])],
    ],
)
def test_conll2003_as_a_table(read_table: ReadTable, kind: str, feature: Any) -> None:
    table = pa.table(
        {
            "id": ["0", "1", "2", "3"],
            "tokens": [["EU", "calls", "Ann", "Lee"], ["a", "b"], ["c"], None],
            "ner_tags": pa.array([[0, 0, 1, 2], [0], [9], [0]], pa.list_(pa.int64())),
        }
    )
    table = _with_features(table, {"ner_tags": feature})
    for block_bytes in (1, 1 << 20):
        got = read_table(
            table, kind, text="tokens", label="ner_tags", id="id", task="tag", rows=1, block_bytes=block_bytes
        )
        (row,) = got.rows
        assert (row["doc_id"], row["source"], row["text"]) == ("0", "a@0", "EU calls Ann Lee")
        assert row["tag_labels"] == ["O", "O", "B-PER", "I-PER"]
        assert row["tag_starts"] == [0, 3, 9, 13]
        assert got.reasons == ["unequal_counts", "bad_label", "missing_text"]


@pytest.mark.parametrize(
    "list_type",
    [
        pa.large_list(pa.string()),
        pa.list_(pa.string(), 2),
        pa.list_(pa.large_string()),
        pa.list_(pa.dictionary(pa.int8(), pa.string())),
        pa.list_view(pa.string()),
        pa.list_(pa.string_view()),
    ],
    ids=str,
)
def test_lists_of_every_kind(read_table: ReadTable, list_type: pa.DataType) -> None:
    tokens = pa.array([["a", "b"], ["c", "d"]], list_type)
    keys = {"text": "tokens", "label": "tags", "task": "tag"}
    for kind in ("file", "stream"):
        got = read_table({"tokens": tokens, "tags": [["O", "X"], ["O", "O"]]}, kind, rows=1, **keys)
        assert got.texts == ["a b", "c d"] and got.rows[0]["tag_labels"] == ["O", "X"]
    assert read_table({"tokens": tokens, "tags": ["O X", "O O"]}, "file", **keys).texts == ["a b", "c d"]


def test_extension_types_are_what_they_are_stored_as(read_table: ReadTable) -> None:
    class Marked(pa.ExtensionType):
        def __init__(self) -> None:
            super().__init__(pa.string(), "tests.marked")

        def __arrow_ext_serialize__(self) -> bytes:
            return b""

        @classmethod
        def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Marked:
            return cls()

    pa.register_extension_type(Marked())
    try:
        column = pa.ExtensionArray.from_storage(Marked(), pa.array(["a", "b"]))
        for kind in KINDS:
            assert read_table({"text": column}, kind).texts == ["a", "b"]
            nested = pa.StructArray.from_arrays([column], ["x"])
            assert read_table({"s": nested}, kind, text="s.x").texts == ["a", "b"]
    finally:
        pa.unregister_extension_type("tests.marked")


# --- saved datasets ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    datasets = pytest.importorskip("datasets")
    folder = tmp_path_factory.mktemp("saved")
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])}
    )

    def make(n: int) -> Any:
        rows = [{"text": f"text {i}", "label": i % 2} for i in range(n)]
        return datasets.Dataset.from_list(rows, features=features)

    both = datasets.DatasetDict({"train": make(2500), "test": make(3)})
    both.save_to_disk(str(folder / "d"), num_shards={"train": 3, "test": 1})
    both["train"].to_parquet(str(folder / "train.parquet"), batch_size=100)
    return folder


def _saved(folder: Path, block_bytes: int = 1 << 20, **keys: Any) -> Read:
    layout = InputConfig.model_validate({"format": "dataset", "label": "label", **keys})
    return read_layout(layout, folder, "classify", "en", block_bytes, 1 << 20)


def test_saved_datasets(saved: Path) -> None:
    for keys in (
        {"files": "d/train"},
        {"files": {"train": "d"}},
        {"files": {"train": "d/train/"}},
        {"files": {"dev": "d/train"}},
    ):
        for block_bytes in (5_000, 1 << 20):
            got = _saved(saved, block_bytes, **keys)
            assert got.texts == [f"text {i}" for i in range(2500)]
            assert [r["label"] for r in got.rows[:3]] == ["neg", "pos", "neg"]
    assert got.rows[0]["source"] == "d/train/data-00000-of-00003.arrow@0"
    assert got.rows[-1]["source"] == "d/train/data-00002-of-00003.arrow@832"
    both = _saved(saved, files={"train": "d", "test": "d"})
    assert len(both.rows) == 2503
    assert len(_saved(saved, files=str(saved / "d/te*")).rows) == 3
    assert len(_saved(saved, files="d/train/data-*.arrow").rows) == 2500
    layout = layout_of("parquet", "train.parquet", label="label")
    parquet = read_layout(layout, saved, "classify", "en", 3_000, 1 << 20)
    assert [r["label"] for r in parquet.rows] == [r["label"] for r in _saved(saved, files="d/train").rows]
    assert parquet.blocks > 5


def test_folders_that_are_no_dataset(saved: Path, tmp_path: Path) -> None:
    shutil.copytree(saved / "d", tmp_path / "d")
    (tmp_path / "bare").mkdir()
    state = json.loads((tmp_path / "d/test/state.json").read_text())
    with pytest.raises(
        ValueError, match="has the splits 'train', 'test', not 'dev'; name a split's own folder"
    ):
        _saved(tmp_path, files={"dev": "d"})
    with pytest.raises(ValueError, match=r"'bare' is not a dataset .*'bare/\*.parquet'"):
        _saved(tmp_path, files="bare")
    with pytest.raises(FileNotFoundError):
        _saved(tmp_path, files="nowhere")
    (tmp_path / "plain.tsv").write_text("text\tlabel\na\tb\n")
    with pytest.raises(
        ValueError, match=r"input.files.train: 'plain.tsv' is a file; `format: dataset` is for"
    ):
        _saved(tmp_path, files="plain.tsv")
    for broken, message in (
        (
            {**state, "_data_files": [{"filename": "../train/data-00000-of-00003.arrow"}]},
            "expected names of files",
        ),
        ({**state, "_data_files": [{"filename": "/etc/passwd"}]}, "expected names of files"),
        ({**state, "_data_files": 7}, "expected names of files"),
        ({**state, "_indices_data_files": [{"filename": "i.arrow"}]}, "selection of its rows"),
        ([], "must hold an object"),
    ):
        (tmp_path / "d/test/state.json").write_text(json.dumps(broken))
        with pytest.raises(ValueError, match=message):
            _saved(tmp_path, files="d/test")
    (tmp_path / "d/test/state.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match="is not JSON"):
        _saved(tmp_path, files="d/test")
    with pytest.raises(ValueError, match="twice"):
        _saved(tmp_path, files={"train": ["d", "d/train"]})


@pytest.mark.parametrize("folder", ["d[1]", "e"])
def test_files_of_a_dataset_are_named_literally(saved: Path, tmp_path: Path, folder: str) -> None:
    shutil.copytree(saved / "d" / "test", tmp_path / folder)
    assert len(_saved(tmp_path, files=folder).rows) == 3
    where = tmp_path / folder / "state.json"
    state = json.loads(where.read_text())
    (name,) = (f["filename"] for f in state["_data_files"])
    for other in ("data-*.arrow", "data-0000?-of-00001.arrow", "[d]" + name[1:], "gone.arrow"):
        where.write_text(json.dumps({**state, "_data_files": [{"filename": other}]}))
        with pytest.raises(FileNotFoundError) as error:
            _saved(tmp_path, files=folder)
        assert f"state.json lists {other!r}, but" in str(error.value)
    (tmp_path / folder / "gone.arrow").symlink_to(name)
    assert len(_saved(tmp_path, files=folder).rows) == 3


@pytest.mark.parametrize(
    ("named", "left"),
    [
        ("d", {"d": ["test"]}),
        ({"dev": "d/"}, None),
        ({"train": "d", "test": "d"}, {}),
        ({"train": "d", "dev": "d/test"}, {}),
        ("d/train", {}),
        ({"test": "d"}, {"d": ["train"]}),
    ],
)
def test_splits_of_a_dataset_that_no_split_takes(saved: Path, named: Any, left: Any) -> None:
    layout = InputConfig.model_validate({"format": "dataset", "files": named})
    if left is None:
        with pytest.raises(ValueError, match="has the splits 'train', 'test'"):
            splits_left_out(layout, str(saved))
    else:
        assert splits_left_out(layout, str(saved)) == left


# --- files that are not what they should be ---------------------------------------------------


def test_other_kinds_of_files_are_named(tmp_path: Path) -> None:
    table = pa.table({"text": ["a"]})
    for kind in KINDS:
        write_table(tmp_path / kind, table, kind)
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"x"))
    (tmp_path / "json").write_bytes(b'{"text": "a"}\n' * 9)
    (tmp_path / "empty").write_bytes(b"")
    pyarrow.feather.write_feather(table, tmp_path / "v1", version=1)
    for kind, name, message in (
        ("parquet", "file", "file is an Arrow file, not Parquet: use `format: arrow`"),
        ("file", "parquet", "parquet is a Parquet file, not Arrow: use `format: parquet`"),
        ("parquet", "a.gz", "unpack it"),
        ("file", "json", "neither an Arrow file nor an Arrow stream"),
        ("parquet", "json", "json is truncated or damaged"),
        ("file", "v1", "Feather's first version"),
        ("file", "empty", "the file is empty"),
        ("parquet", "empty", "the file is empty"),
    ):
        with pytest.raises(ValueError, match=message):
            plan_blocks(layout_of(kind, name), str(tmp_path))


@pytest.mark.parametrize("kind", KINDS)
def test_c22_truncated_tables_fail_and_name_the_file(tmp_path: Path, kind: str) -> None:
    table = pa.table({"text": [f"text {i}" for i in range(50)]})
    write_table(tmp_path / "whole", table, kind, 10)
    raw = (tmp_path / "whole").read_bytes()
    ends = set()
    if (
        kind == "stream"
    ):  # cut between two messages, a stream is a shorter stream: nothing says that more was there
        with (tmp_path / "whole").open("rb") as file:
            ends = {batch.start for batch in ipc.scan(file, len(raw)).batches} | {len(raw) - 8}
    for size in [*range(1, len(raw), 37), *sorted(ends), len(raw) - 1]:
        (tmp_path / "a").write_bytes(raw[:size])
        if size in ends:
            got = read_layout(layout_of(kind, "a"), tmp_path, "pretrain", "en", 1 << 20, 1 << 20)
            assert got.texts == table["text"].to_pylist()[: len(got.rows)]
            continue
        if kind == "stream" and any(size - end in range(1, 8) for end in [len(raw) - 8]):
            continue  # only the mark of the end is missing
        with pytest.raises(
            CorruptTableError, match=r"^a is truncated or damaged: .*Fetch or make the file again"
        ):
            plan_blocks(layout_of(kind, "a"), str(tmp_path))


def test_errors_cross_processes() -> None:
    error = pickle.loads(pickle.dumps(CorruptTableError("a", 7, "why")))
    assert str(error) == str(CorruptTableError("a", 7, "why")) and "after 7 rows: why" in str(error)
    assert isinstance(error, files.CorruptFileError)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("compression", [None, "zstd"])
@pytest.mark.parametrize(
    "seeds", [range(25), pytest.param(range(25, 3000), marks=pytest.mark.heavy)], ids=str
)
def test_damaged_tables_never_crash(tmp_path: Path, kind: str, compression: str | None, seeds: range) -> None:
    """Bytes changed anywhere give an error that names the file, or rows and rejects; nothing else."""
    table = pa.table(
        {
            "text": [f"text {i} 好" for i in range(40)],
            "tokens": [[f"t{i}", "b"] for i in range(40)],
            "tags": [["O", "B"]] * 40,
            "word": pa.array(["u", "v"] * 20).dictionary_encode(),
        }
    )
    options = (
        {"compression": compression} if compression else {"compression": "none"} if kind == "parquet" else {}
    )
    write_table(tmp_path / "whole", table, kind, 15, **options)
    raw = (tmp_path / "whole").read_bytes()
    failed = 0
    for seed in seeds:
        rng, data = random.Random(seed), bytearray(raw)
        for _ in range(rng.choice((1, 1, 2, 8))):
            at = rng.randrange(len(data))
            data[at : at + 1] = rng.choice(
                (b"\xff", b"\x00", b"\x80", bytes([data[at] ^ (1 << rng.randrange(8))]))
            )
        if seed % 5 == 0:
            at = rng.randrange(0, len(data) - 8)
            data[at : at + 8] = struct.pack("<q", rng.choice((-1, 2**62, 2**31, len(raw))))
        (tmp_path / "a").write_bytes(data)
        for task, keys in (
            ("pretrain", {}),
            ("tag", {"text": "tokens", "label": "tags"}),
            ("classify", {"label": "word"}),
        ):
            try:
                got = read_layout(layout_of(kind, "a", **keys), tmp_path, task, "en", 500, 1 << 20)
            except (CorruptTableError, ColumnError) as error:  # noqa: PERF203
                failed += 1
                assert "a" in str(error)
            else:
                assert len(got.rows) + len(got.rejects) <= 45
    assert failed > 5


def _stream(table: pa.Table, tmp_path: Path, **options: Any) -> bytearray:
    write_table(tmp_path / "s", table, "stream", **options)
    return bytearray((tmp_path / "s").read_bytes())


def test_batches_that_say_they_grow_without_bound_are_refused(tmp_path: Path) -> None:
    raw = _stream(pa.table({"text": ["x" * 10_000] * 10}), tmp_path, compression="zstd")
    with (tmp_path / "s").open("rb") as file:
        (batch,) = ipc.scan(file, len(raw)).batches
    at = raw.index(struct.pack("<q", 100_000), batch.start)  # the length in front of a compressed buffer
    raw[at : at + 8] = struct.pack("<q", 1 << 40)
    (tmp_path / "a").write_bytes(raw)
    with pytest.raises(CorruptTableError, match="says that it grows to 1,099,511"):
        plan_blocks(layout_of("stream", "a"), str(tmp_path))


def test_an_end_in_the_middle_loses_no_rows_in_silence(tmp_path: Path) -> None:
    table = pa.table({"text": [f"text {i}" for i in range(50)]})
    for kind, message in (
        ("stream", "goes on behind its end"),
        ("file", "lists 5 record batches, but it has 2"),
    ):
        write_table(tmp_path / "a", table, kind, 10)
        raw = bytearray((tmp_path / "a").read_bytes())
        with (tmp_path / "a").open("rb") as file:
            at = ipc.scan(file, len(raw)).batches[2].start
        raw[at + 4 : at + 8] = bytes(4)
        (tmp_path / "a").write_bytes(raw)
        with pytest.raises(CorruptTableError, match=message):
            plan_blocks(layout_of(kind, "a"), str(tmp_path))


def test_scan_finds_what_arrow_wrote(tmp_path: Path) -> None:
    table = pa.table(
        {"text": [f"t{i}" for i in range(100)], "d": pa.array(["u", "v"] * 50).dictionary_encode()}
    )
    for kind in ("file", "stream"):
        for options in (
            {},
            {"compression": "lz4"},
            {"use_legacy_format": True},
            {"metadata_version": pa.ipc.MetadataVersion.V4},
        ):
            write_table(tmp_path / "a", table, kind, 30, **options)
            size = (tmp_path / "a").stat().st_size
            with (tmp_path / "a").open("rb") as file:
                found = ipc.scan(file, size)
                assert found.is_file == (kind == "file")
                assert [(b.row, b.rows) for b in found.batches] == [(0, 30), (30, 30), (60, 30), (90, 10)]
                part = ipc.scan(file, size, found.batches[2].start) if file.seek(0) == 0 else None
                assert part is not None and part.batches == found.batches[:2]
            got = read_layout(layout_of(kind, "a"), tmp_path, "pretrain", "en", 700, 1 << 20)
            assert got.texts == table["text"].to_pylist()


def test_compressed_and_replaced_dictionaries(tmp_path: Path) -> None:
    """Each batch has a dictionary of its own: a range takes those that come before its batches."""
    parts = [
        pa.table({"text": pa.array([f"{c}{i % 3}" for i in range(20)]).dictionary_encode()}) for c in "abcd"
    ]
    with pa.ipc.new_stream(tmp_path / "a", parts[0].schema) as writer:
        for part in parts:
            writer.write_table(part)
    expected = [t for part in parts for t in part["text"].to_pylist()]
    for block_bytes in (1, 300, 1 << 20):
        got = read_layout(layout_of("stream", "a"), tmp_path, "pretrain", "en", block_bytes, 50)
        assert got.texts == expected


def test_row_groups_go_to_the_range_of_their_first_byte(tmp_path: Path) -> None:
    write_table(tmp_path / "a", pa.table({"text": [f"text {i}" for i in range(90)]}), "parquet", 30)
    with TableFile(str(tmp_path / "a"), "a", parquet=True) as file:
        starts = [group.start for group in file.groups]
        assert [(g.row, g.rows) for g in file.groups] == [(0, 30), (30, 30), (60, 30)]
        for i, start in enumerate(starts):
            assert file.within(start, start + 1) == [i]
        assert file.within(0, None) == [0, 1, 2] and file.within(starts[0] + 1, starts[2]) == [1]
    blocks = plan_blocks(layout_of("parquet", "a"), str(tmp_path), 1)
    assert [b.parts[0].start for b in blocks] == [0, *starts[1:]]
    assert sum(b.bytes for b in blocks) == (tmp_path / "a").stat().st_size
    assert len(plan_blocks(layout_of("parquet", "a"), str(tmp_path), 1 << 20)) == 1


# --- questions on texts -----------------------------------------------------------------------

_CONTEXT = "Ann Lee met Bob. Bob left."
_QUESTIONS = [
    {"id": "q1", "title": "T", "context": _CONTEXT, "question": "Who?", "answers": {"text": ["Ann Lee"], "answer_start": [0]}},
    {"id": "q2", "title": "T", "context": _CONTEXT, "question": "Whom?", "answers": {"text": ["Bob", "Bob"], "answer_start": [12, 17]}},
    {"id": "q3", "title": "T", "context": _CONTEXT, "question": "Why?", "answers": {"text": [], "answer_start": []}},
    {"id": "q4", "title": "T", "context": _CONTEXT, "question": "Lost?", "answers": {"text": ["Zoe"], "answer_start": [3]}},
    {"id": "q5", "title": "T", "context": None, "question": "Bad?", "answers": {"text": ["Ann"], "answer_start": [0]}},
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("split", ["train", "test"])
def test_questions_of_squad_as_a_table(tmp_path: Path, kind: str, split: str) -> None:
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, _QUESTIONS)))
    squad = InputConfig.model_validate({"format": "squad", "files": {split: "a.jsonl"}})
    expected = read_layout(squad, tmp_path, "span", "en", 1 << 20, 1 << 20)
    names = {"text": "question", "text_pair": "context", "label": "answers", "id": "id"}
    for nested in ("struct", "list"):
        rows = _QUESTIONS
        if nested == "list":  # answers as SQuAD's own files have them
            pairs = [zip(q["answers"]["text"], q["answers"]["answer_start"], strict=True) for q in rows]
            rows = [
                {**q, "answers": [{"text": t, "answer_start": s} for t, s in p]}
                for q, p in zip(rows, pairs, strict=True)
            ]
        answers = pa.struct([("text", pa.list_(pa.string())), ("answer_start", pa.list_(pa.int32()))])
        if nested == "list":
            answers = pa.list_(pa.struct([("text", pa.string()), ("answer_start", pa.int64())]))
        table = pa.table(
            {k: pa.array([q[k] for q in rows], answers if k == "answers" else pa.string()) for k in rows[0]}
        )
        write_table(tmp_path / "a", table, kind, 2)
        layout = layout_of(kind, "a", **names, files={split: "a"})
        for block_bytes in (1, 1 << 20):
            got = read_layout(layout, tmp_path, "span", "en", block_bytes, 100)
            assert _comparable(got)[:2] == _comparable(expected)[:2]
            assert got.counts == expected.counts and got.reasons == expected.reasons
    assert [r["doc_id"] for r in got.rows] == ["q1", "q2", "q3"] + ["q4"] * (split == "test")
    assert got.rows[1]["answer_starts"] == [12, 17] and got.rows[2]["is_impossible"] is True
    assert got.rows[0]["title"] == "T" and got.rows[0]["text_pair"] == _CONTEXT


# --- elsewhere --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_tables_on_other_filesystems(
    remote: str,  # noqa: F811
    tmp_path: Path,
    kind: str,
) -> None:
    texts = [f"text {i}" for i in range(60)]
    write_table(tmp_path / "local", pa.table({"text": texts}), kind, 10)
    with files.write_atomic(f"{remote}/a") as file:
        file.write((tmp_path / "local").read_bytes())
    for block_bytes in (200, 1 << 20):
        got = read_layout(layout_of(kind, f"{remote}/a"), tmp_path, "pretrain", "en", block_bytes, 1 << 20)
        assert got.texts == texts and got.rows[7]["doc_id"] == f"{remote}/a@7"
    assert (read_layout(layout_of(kind, f"{remote}/a"), tmp_path, "pretrain", "en", 200, 99).blocks > 1) == (
        kind == "parquet"
    )


def test_saved_datasets_on_other_filesystems(remote: str, saved: Path) -> None:  # noqa: F811
    for path in sorted((saved / "d").rglob("*")):
        if path.is_file():
            name = f"{remote}/{path.relative_to(saved)}"
            files.make_dirs(name.rpartition("/")[0])
            with files.write_atomic(name) as file:
                file.write(path.read_bytes())
    for pattern in (f"{remote}/d", f"{remote}/d/train"):
        assert len(_saved(saved, files={"train": pattern}).rows) == 2500
