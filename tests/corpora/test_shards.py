"""Shards: deterministic bytes, whole or absent, one declared schema."""

from __future__ import annotations

import errno
import hashlib
import itertools
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import corpora.shards as shards
from corpora.shards import ShardError, ShardInfo, ShardWriter, open_shard, read_rows
from tests.rows import GROUPS, documents_schema, make_documents, make_rows, rows_schema, to_batch

SCHEMA = rows_schema("tag", GROUPS)
ROWS = make_rows(1, "tag", GROUPS, 60)


def write(path: Path, batches: list, schema: pa.Schema = SCHEMA, **options: int) -> ShardInfo:
    with ShardWriter(str(path), schema, **options) as shard:
        for batch in batches:
            shard.write(batch)
    return shard.result


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def read(path: Path) -> list[dict]:
    return open_shard(str(path)).read_all().to_pylist()


def test_result_is_what_lies_on_the_disk(tmp_path):
    info = write(tmp_path / "train-00000-of-00001.arrow", [to_batch(ROWS, SCHEMA)], max_batch_rows=25)
    raw = (tmp_path / info.name).read_bytes()
    assert info == ShardInfo("train-00000-of-00001.arrow", 60, len(raw), hashlib.sha256(raw).hexdigest())
    assert read(tmp_path / info.name) == ROWS
    reader = open_shard(str(tmp_path / info.name))
    assert reader.schema.equals(SCHEMA, check_metadata=True)
    assert [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)] == [25, 25, 10]
    assert names(tmp_path) == [info.name]


def test_rows_are_memory_mapped_not_copied(tmp_path):
    write(tmp_path / "a", [to_batch(ROWS, SCHEMA)])
    reader = open_shard(str(tmp_path / "a"))
    before = pa.total_allocated_bytes()
    batch = reader.get_batch(0)
    assert pa.total_allocated_bytes() - before < batch.nbytes / 4


@given(cuts=st.lists(st.integers(0, 60), max_size=5), as_table=st.booleans())
@settings(max_examples=30, deadline=None)
def test_bytes_do_not_depend_on_how_rows_are_handed_over(tmp_path_factory, cuts, as_table):
    folder = tmp_path_factory.mktemp("bytes")
    whole = to_batch(ROWS, SCHEMA)
    edges = [0, *sorted(cuts), len(ROWS)]
    parts = [whole.slice(a, b - a) for a, b in itertools.pairwise(edges)]
    batches = [pa.Table.from_batches(parts)] if as_table else parts
    want = write(folder / "x", [whole], max_batch_rows=17)
    assert write(folder / "x", batches, max_batch_rows=17) == want
    assert read(folder / "x") == ROWS


def test_what_lies_under_nulls_does_not_reach_the_file(tmp_path):
    schema = pa.schema(
        [pa.field("n", pa.int32()), pa.field("t", pa.string()), pa.field("l", pa.list_(pa.int32()))]
    )
    valid = pa.py_buffer(np.packbits([1, 0, 1], bitorder="little").tobytes())
    made = []
    for hidden in (0, 77):
        number = pa.Array.from_buffers(pa.int32(), 3, [valid, pa.py_buffer(np.array([1, hidden, 3], "<i4"))])
        offsets = pa.py_buffer(np.array([0, 1, 1 + (hidden > 0), 2 + (hidden > 0)], "<i4"))
        text = pa.Array.from_buffers(
            pa.string(), 3, [valid, offsets, pa.py_buffer(b"a?c" if hidden else b"ac")]
        )
        lists = pa.Array.from_buffers(
            pa.list_(pa.int32()),
            3,
            [valid, offsets],
            children=[pa.array([1, 2, 3] if hidden else [1, 3], pa.int32())],
        )
        made.append(pa.RecordBatch.from_arrays([number, text, lists], schema=schema))
    assert made[0].to_pylist()[1] == {"n": None, "t": None, "l": None}
    hashes = [write(tmp_path / "x", [batch], schema).sha256 for batch in made]
    assert hashes[0] == hashes[1]
    assert read(tmp_path / "x")[0] == {"n": 1, "t": "a", "l": [1]}


def test_batches_are_cut_by_size_too(tmp_path):
    schema = pa.schema([pa.field("t", pa.string(), nullable=False)])
    texts = ["x" * n for n in (400, 400, 400, 5000, 10, 10)]
    write(tmp_path / "x", [pa.record_batch({"t": texts}, schema=schema)], schema, max_batch_bytes=1000)
    reader = open_shard(str(tmp_path / "x"))
    sizes = [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)]
    assert sizes == [2, 1, 1, 2]  # a single larger row stands alone
    assert [r["t"] for r in read(tmp_path / "x")] == texts


def test_many_small_writes_are_gathered(tmp_path):
    whole = to_batch(ROWS, SCHEMA)
    parts = [whole.slice(i % 60, 1) for i in range(600)]
    info = write(tmp_path / "x", parts, max_batch_rows=512)
    assert info.rows == 600 and open_shard(str(tmp_path / "x")).num_record_batches == 2


# --- dictionaries -----------------------------------------------------------------------------

LISTS = pa.schema([pa.field("d", pa.list_(pa.dictionary(pa.int16(), pa.string())), nullable=True)])


def string_lists(values: list) -> pa.RecordBatch:
    return pa.record_batch({"d": pa.array(values, pa.list_(pa.string()))})


def dictionary_lists(values: list, dictionary: list[str], index: pa.DataType) -> pa.RecordBatch:
    flat = [dictionary.index(v) for entry in values if entry is not None for v in entry]
    items = pa.DictionaryArray.from_arrays(pa.array(flat, index), pa.array(dictionary))
    offsets = np.concatenate([[0], np.cumsum([len(v or ()) for v in values])])
    mask = pa.array([v is None for v in values])
    column = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items, mask=mask)
    return pa.record_batch({"d": column})


VALUES = [["b", "a"], None, [], ["a", "c", "b"], ["d"], None, ["a"]]


def test_one_dictionary_grows_over_the_batches_of_a_shard(tmp_path):
    info = write(tmp_path / "x", [string_lists(VALUES)], LISTS, max_batch_rows=2)
    assert [r["d"] for r in read(tmp_path / "x")] == VALUES
    reader = open_shard(str(tmp_path / "x"))
    reader.read_all().validate(full=True)
    assert reader.get_batch(3).column(0).flatten().dictionary.to_pylist() == ["", "b", "a", "c", "d"]
    # Strings, or dictionaries in any order with unused entries: the same bytes.
    parts = [
        dictionary_lists(VALUES[:3], ["z", "a", "b"], pa.int32()),
        string_lists(VALUES[3:4]),
        dictionary_lists(VALUES[4:], ["d", "a", "q"], pa.int16()),
    ]
    assert write(tmp_path / "x", parts, LISTS, max_batch_rows=2) == info


def test_a_dictionary_too_large_for_its_indices_is_an_error(tmp_path):
    batch = string_lists([[str(n)] for n in range(2**15 + 1)])
    with pytest.raises(ShardError, match="'d' has more than 32,768 different values"):
        write(tmp_path / "x", [batch], LISTS)
    assert names(tmp_path) == []


def test_annotated_documents_in_many_batches(tmp_path):
    schema = documents_schema(pair=True)
    rows = make_documents(2, 50, pair=True)
    write(tmp_path / "x", [to_batch(rows, schema)], schema, max_batch_rows=7)
    assert read(tmp_path / "x") == rows


# --- C24 and other batches that do not fit ----------------------------------------------------


def test_c24_a_null_typed_column_is_refused_and_empty_lists_keep_their_type(tmp_path):
    schema = documents_schema(parsed=False)
    empty, full = make_documents(3, 2, parsed=False)
    empty |= {"tag_starts": [], "tag_stops": [], "tag_labels": []}
    full |= {"tag_starts": None, "tag_stops": None, "tag_labels": None}
    for name, row in (("a", empty), ("b", full)):
        write(tmp_path / name, [to_batch([row], schema)], schema)
    a, b = open_shard(str(tmp_path / "a")), open_shard(str(tmp_path / "b"))
    assert a.schema.equals(b.schema, check_metadata=True) and a.schema.equals(schema, check_metadata=True)
    assert read(tmp_path / "a")[0]["tag_labels"] == []  # an empty list is not a missing one
    assert read(tmp_path / "b")[0]["tag_labels"] is None
    guessed = pa.Table.from_pylist([full])  # the types that only this row shows
    assert pa.types.is_null(guessed.schema.field("tag_labels").type)
    guessed = guessed.select(schema.names)
    columns = [
        guessed[f.name].combine_chunks()
        if pa.types.is_null(guessed[f.name].type)
        else guessed[f.name].cast(f.type)
        for f in schema
    ]
    fields = [
        f if not pa.types.is_null(c.type) else pa.field(f.name, pa.null())
        for f, c in zip(schema, columns, strict=True)
    ]
    with pytest.raises(ShardError, match=r"column 'text_pair': expected string, found null"):
        write(tmp_path / "c", [pa.Table.from_arrays(columns, schema=pa.schema(fields))], schema)
    assert names(tmp_path) == ["a", "b"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b.drop_columns(["word_index"]), "column 'word_index' is missing"),
        (lambda b: b.append_column("extra", pa.array([1] * b.num_rows)), "unexpected column 'extra'"),
        (lambda b: b.append_column("id", b.column(0)), "column 'id' is there more than once"),
        (lambda b: b.select([1, 0, *range(2, b.num_columns)]), "columns in the order text, id"),
        (
            lambda b: b.set_column(2, "text_pair", pa.array([b"x"] * b.num_rows)),
            "column 'text_pair': expected string, found binary",
        ),
        (
            lambda b: b.set_column(0, pa.field("id", pa.string()), b.column(0)),
            "column 'id': expected string not null, found string",
        ),
        (
            lambda b: b.set_column(
                3,
                pa.field("input_ids", pa.list_(pa.int32()), nullable=False),
                b.column(3).cast(pa.list_(pa.int32())),
            ),
            "column 'input_ids': expected list<item: int32 not null> not null, found list<item: int32> not null",
        ),
    ],
)
def test_a_batch_of_another_schema_names_the_field(tmp_path, change, message):
    with pytest.raises(ShardError, match=f"x: rows do not fit the shard's schema: {message}"):
        write(tmp_path / "x", [to_batch(ROWS, SCHEMA), change(to_batch(ROWS, SCHEMA))])
    assert names(tmp_path) == []


def test_nulls_where_none_may_be_are_refused(tmp_path):
    rows = [{**ROWS[0], "text": None}]
    with pytest.raises(ShardError, match="column 'text' may not hold nulls"):
        write(tmp_path / "x", [to_batch(rows, SCHEMA)])
    items = pa.array([[1, None]], pa.list_(pa.int32())).flatten()
    kind = pa.list_(pa.field("item", pa.int32(), nullable=False))
    column = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), items, type=kind)
    schema = pa.schema([pa.field("l", kind, nullable=False)])
    with pytest.raises(ShardError, match="lists of column 'l' may not hold nulls"):
        write(tmp_path / "x", [pa.RecordBatch.from_arrays([column], schema=schema)], schema)
    assert names(tmp_path) == []


# --- C23: whole or absent ---------------------------------------------------------------------


def test_an_error_while_writing_leaves_what_was_there(tmp_path):
    write(tmp_path / "x", [to_batch(ROWS[:5], SCHEMA)])
    with (
        pytest.raises(ZeroDivisionError),
        ShardWriter(str(tmp_path / "x"), SCHEMA, max_batch_rows=2) as shard,
    ):
        shard.write(to_batch(ROWS, SCHEMA))
        raise ZeroDivisionError
    assert names(tmp_path) == ["x"] and read(tmp_path / "x") == ROWS[:5]
    with pytest.raises(RuntimeError, match="not finished"):
        _ = shard.result


_SLOW_WRITER = """
import sys, time
from tests.corpora.test_shards import ROWS, SCHEMA, to_batch
from corpora.shards import ShardWriter
with ShardWriter(sys.argv[1], SCHEMA, max_batch_rows=5) as shard:
    shard.write(to_batch(ROWS, SCHEMA))
    shard._sink._sink.flush()
    print("half", flush=True)
    time.sleep(60)
"""


def test_c23_a_killed_writer_leaves_no_shard_and_a_rerun_gives_the_bytes_of_a_clean_run(tmp_path):
    clean = write(tmp_path / "clean", [to_batch(ROWS, SCHEMA)], max_batch_rows=5)
    (tmp_path / "clean").unlink()
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", _SLOW_WRITER, str(tmp_path / "x")], cwd=root, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "half\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    left = names(tmp_path)
    assert len(left) == 1 and left[0].startswith(".tmp-") and (tmp_path / left[0]).stat().st_size > 1000
    again = write(tmp_path / "x", [to_batch(ROWS, SCHEMA)], max_batch_rows=5)
    assert again.sha256 == clean.sha256


def test_c23_a_full_disk_names_the_path_and_the_bytes_needed(tmp_path, monkeypatch):
    real = shards._HashingSink.write

    def full(self, data):
        if self.bytes > 20_000:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, data)

    monkeypatch.setattr(shards._HashingSink, "write", full)
    with pytest.raises(OSError, match=r"no space left for .*/x after [\d,]+ bytes") as caught:
        write(tmp_path / "x", [to_batch(ROWS, SCHEMA)], max_batch_rows=10)
    assert caught.value.errno == errno.ENOSPC
    assert names(tmp_path) == []


_FULL_DISK = """
import sys
from tests.corpora.test_shards import ROWS, SCHEMA, names, to_batch, write
from pathlib import Path
folder = Path(sys.argv[1])
done = 0
try:
    for index in range(1000):
        write(folder / f"s{index}", [to_batch(ROWS, SCHEMA)] * 20)
        done += 1
except OSError as error:
    print(error.errno, error)
print(done, names(folder) == sorted(f"s{i}" for i in range(done)))
"""


def test_c23_a_disk_that_really_is_full(tmp_path):
    command = f"mount -t tmpfs -o size=1m tmpfs {tmp_path} && {sys.executable} -c '{_FULL_DISK}' {tmp_path}"
    probe = subprocess.run(
        ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)], capture_output=True
    )
    if probe.returncode:
        pytest.skip("cannot mount a small tmpfs in a namespace of our own here")
    root = Path(__file__).parents[2]
    result = subprocess.run(["unshare", "-rm", "sh", "-c", command], cwd=root, capture_output=True, text=True)
    said, left = result.stdout.splitlines()
    assert said.startswith(f"{errno.ENOSPC} ") and f"no space left for {tmp_path}/s" in said
    done, only_whole = left.split()
    assert int(done) >= 1 and only_whole == "True"


# --- reading ----------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [0, 7, 100, -1])
def test_c23_a_half_written_or_foreign_file_is_a_clear_error(tmp_path, cut):
    write(tmp_path / "x", [to_batch(ROWS, SCHEMA)])
    (tmp_path / "y").write_bytes((tmp_path / "x").read_bytes()[:cut])
    (tmp_path / "z").write_text("not arrow at all, but long enough to be looked at\n" * 9)
    for name in "yz":
        with pytest.raises(ShardError, match=f"{name} is not a whole Arrow IPC file"):
            open_shard(str(tmp_path / name))
    with pytest.raises(FileNotFoundError):
        open_shard(str(tmp_path / "missing"))


@pytest.mark.parametrize("batches", [[], [to_batch([], SCHEMA)]])
def test_a_shard_without_rows(tmp_path, batches):
    info = write(tmp_path / "x", batches)
    assert info.rows == 0 and read(tmp_path / "x") == []
    assert read_rows(str(tmp_path / "x"), 0, 5).schema.equals(SCHEMA)
    assert info == write(tmp_path / "x", [])


def test_read_rows_across_batches(tmp_path):
    write(tmp_path / "x", [to_batch(ROWS, SCHEMA)], max_batch_rows=7)
    rng = random.Random(0)
    for _ in range(40):
        start, count = rng.randrange(60), rng.randrange(30)
        assert read_rows(str(tmp_path / "x"), start, count).to_pylist() == ROWS[start : start + count]
    for start in (-1, 60):
        with pytest.raises(IndexError, match=f"no row {start}: it holds 60 rows"):
            read_rows(str(tmp_path / "x"), start, 1)
    with pytest.raises(ValueError, match="count"):
        read_rows(str(tmp_path / "x"), 0, -1)


def test_a_dictionary_may_stay_empty_for_a_whole_batch(tmp_path):
    """A pair corpus whose first batches lack the second text: Arrow takes no delta to an empty dictionary."""
    kind = pa.list_(pa.dictionary(pa.int16(), pa.string()))
    schema = pa.schema([pa.field("word_pos_pair", kind)])
    rows = [None, [], ["NOUN", "VERB"], None, ["VERB", ""]]
    with ShardWriter(str(tmp_path / "x.arrow"), schema, max_batch_rows=1) as shard:
        for row in rows:
            shard.write(pa.record_batch([pa.array([row], pa.list_(pa.string()))], names=["word_pos_pair"]))
    assert open_shard(str(tmp_path / "x.arrow")).read_all()["word_pos_pair"].to_pylist() == rows
