"""Opening splits: which rows, of which shards, known by what; and all that can be wrong there."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from corpora.manifest import ManifestError
from corpora.shards import ShardError, ShardWriter
from models.stream.cache import Cache
from models.stream.open import join_splits, open_files, open_split
from models.stream.shards import SplitError
from tests.models.stream.test_shards import back, folder_of
from tests.rows import (
    GROUPS,
    documents_schema,
    make_documents,
    make_rows,
    rows_schema,
    to_batch,
    write_folder,
)


def test_files_named_come_in_their_order(tmp_path: Path) -> None:
    folder, written = folder_of(tmp_path / "d", counts=(3, 2))
    paths = sorted((str(p) for p in folder.glob("*.arrow")), reverse=True)
    split = open_files(paths, tuple(written[0]))
    assert back(split.take(np.arange(5))) == written[3:] + written[:3]
    with pytest.raises(SplitError, match="no file is named"):
        open_files([])
    with pytest.raises(SplitError, match=r"s3://b/x.arrow is not local: open its folder with open_split"):
        open_files(["s3://b/x.arrow"])


def test_metadata_is_the_datasets(tmp_path: Path) -> None:
    path = str(tmp_path / "x.arrow")
    schema = rows_schema("classify", ())
    with ShardWriter(path, schema) as shard:
        shard.write(to_batch(make_rows(0, "classify", (), 2), schema))
    split = open_files([path])
    assert split.metadata == json.loads(schema.metadata[b"treegraft"])


def test_a_fingerprint_tells_rows_and_their_order_wherever_they_lie(tmp_path: Path) -> None:
    schema = rows_schema("classify", ())
    rows = [make_rows(seed, "classify", (), 3) for seed in range(4)]
    splits = {"train": [rows[0], rows[1]], "dev": [rows[1], rows[0]], "test": [rows[2], rows[3]]}
    folder = write_folder(tmp_path / "a", schema, splits, task="classify")
    train, dev, test = (open_split(str(folder), name) for name in splits)
    joined, turned = join_splits([train, test]), join_splits([test, train])
    paths = sorted(str(path) for path in folder.glob("t*.arrow"))
    files, mixed = open_files(paths), open_files(paths[::-1])
    prints = [split.fingerprint for split in (train, dev, test, joined, turned, files, mixed)]
    assert len(set(prints)) == 7
    moved = folder.rename(tmp_path / "b")
    assert open_split(str(moved), "train").fingerprint == train.fingerprint
    assert open_files([path.replace("/a/", "/b/") for path in paths]).fingerprint == prints[5]
    remote = open_split(f"file://{moved}", "train", cache=Cache(str(tmp_path / "c")))
    assert remote.fingerprint == train.fingerprint


# --- what can be wrong ------------------------------------------------------------------------


def refused(
    folder: Path | str, split: str | None = "train", columns: tuple[str, ...] = ("input_ids",)
) -> str:
    with pytest.raises((SplitError, ShardError, ManifestError)) as caught:
        open_split(str(folder), split, columns)
    return str(caught.value)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("tree_ids", "comes with `encode.columns: [tree]`; add tree there and encode again"),
        ("tree_ids", "encode again (annotations are kept)"),
        ("coarse_index", "comes with `encode.columns: [coarse]`"),
        ("coarse_index", "encode again (if annotate.segmenter is 'none': name one, and annotate again, too"),
        ("word_dfs_in", "comes with `encode.columns: [syntax]`"),
        ("word_dfs_in", "encode again (if annotate.parser is 'none': name one, and annotate again, too"),
        ("token_labels", "rows of task tag have it, these are of task 'classify'"),
        ("choice_words", "rows of task choice have it, these are of task 'classify'"),
        ("input_id", "no dataset has a column 'input_id'; did you mean 'input_ids'?"),
        ("x", "no dataset has a column 'x' (README"),
    ],
)
def test_a_missing_column_says_where_it_comes_from(tmp_path: Path, column: str, message: str) -> None:
    write_folder(
        tmp_path, rows_schema("classify", ()), {"train": [make_rows(0, "classify", (), 3)]}, task="classify"
    )
    assert message in refused(tmp_path, columns=("input_ids", column))


def test_splits_that_are_not_there(tmp_path: Path) -> None:
    schema = rows_schema("classify", ())
    rows = make_rows(0, "classify", (), 3)
    folder = write_folder(tmp_path / "d", schema, {"train": [rows], "dev": [[]]}, task="classify")
    assert "has no split 'test'; it has train, dev" in refused(folder, "test")
    assert "has several splits: name one of train, dev" in refused(folder, None)
    assert "split 'dev' of " in refused(folder, "dev") and "holds no rows" in refused(folder, "dev")
    assert "does not exist" in refused(tmp_path / "other")
    (folder / "manifest.json").unlink()
    assert "the run did not finish" in refused(folder)


def test_folders_and_shards_of_another_kind(tmp_path: Path) -> None:
    documents = [make_documents(0, 3)]
    notes = write_folder(
        tmp_path / "a", documents_schema(), {"train": documents}, stage="annotate", task="classify"
    )
    assert "holds annotated documents, not rows: run `treegraft encode`" in refused(notes)
    with pytest.raises(SplitError, match="holds annotated documents, not rows"):
        open_files([str(next(notes.glob("*.arrow")))])
    rows = make_rows(0, "classify", (), 3)
    for name, schema, message in (
        ("v", rows_schema("classify", (), schema_version=2), "schema version 2, this release reads 3"),
        ("f", rows_schema("classify", ()).remove_metadata(), "not a treegraft shard"),
        ("d", rows_schema("classify", ()).with_metadata({"treegraft": "[" * 10**5}), "is damaged, no JSON"),
    ):
        folder = write_folder(tmp_path / name, schema, {"train": [rows]}, task="classify")
        assert message in refused(folder) and ".arrow" in refused(folder)


def test_a_manifest_whose_rows_are_not_those_of_its_shards_is_refused(tmp_path: Path) -> None:
    folder, _ = folder_of(tmp_path / "d")
    path = folder / "manifest.json"
    body = json.loads(path.read_text())
    for change, shards in (({"shards": []}, 0), ({"rows": 19}, 20), ({"rows": 0}, 20)):
        train = body["splits"]["train"] | change
        path.write_text(json.dumps(body | {"splits": {"train": train}}))
        said = refused(folder)
        assert f"gives split 'train' {train['rows']} rows and shards of {shards}: it is damaged" in said


def test_shards_of_two_configs_do_not_mix(tmp_path: Path) -> None:
    rows = make_rows(0, "classify", (), 3)
    for name in "ab":
        schema = rows_schema("classify", (), fingerprint=name * 16)
        write_folder(tmp_path / name, schema, {"train": [rows]}, task="classify")
    paths = [str(next((tmp_path / name).glob("*.arrow"))) for name in "ab"]
    with pytest.raises(SplitError, match="was made by another config"):
        open_files(paths)


def test_a_column_of_another_type_is_refused(tmp_path: Path) -> None:
    schema = rows_schema("classify", ())
    place = schema.get_field_index("input_ids")
    wide = schema.set(place, pa.field("input_ids", pa.list_(pa.field("item", pa.int64(), nullable=False))))
    folder = write_folder(tmp_path, wide, {"train": [make_rows(0, "classify", (), 3)]}, task="classify")
    assert "column 'input_ids' is list<item: int64" in refused(folder)


def test_joined_splits_must_mean_the_same(tmp_path: Path) -> None:
    rows = make_rows(0, "classify", GROUPS, 3)
    folders = {}
    changed = {
        "a": {},
        "b": {"vocab_size": 7},
        "c": {"labels": ["x"]},
        "d": {"deprels": ["obj", "nsubj"], "coarse_vocab_size": 7},
    }
    for name, changes in changed.items():
        schema = rows_schema("classify", GROUPS, **changes)
        folders[name] = str(write_folder(tmp_path / name, schema, {"train": [rows]}, task="classify"))
    first = open_split(folders["a"])
    for other, key, remedy in (("b", "vocab_size", "encode.tokenizer"), ("c", "labels", "encode.labels")):
        with pytest.raises(SplitError, match=f"cannot be joined: {key} .*{remedy}"):
            join_splits([first, open_split(folders[other])])
    for column, key, remedy in (
        ("word_deprels", "deprels", "annotate.parser"),
        ("coarse_ids", "coarse_vocab_size", "encode.coarse.vocab"),
    ):
        with pytest.raises(SplitError, match=f"cannot be joined: {key} .*{remedy}"):
            join_splits([open_split(folders[name], columns=(column,)) for name in "ad"])
    with pytest.raises(SplitError, match="open both with the same"):
        join_splits([first, open_split(folders["a"], columns=("label",))])
    join_splits(
        [open_split(folders[name], columns=("word_dfs_in",)) for name in "ad"]
    )  # whose ids are not read


def test_splits_of_other_tasks_are_joined_where_no_label_is_read(tmp_path: Path) -> None:
    splits = {}
    for task in ("classify", "tag", "seq2seq"):
        rows = make_rows(0, task, (), 3)
        folder = write_folder(tmp_path / task, rows_schema(task, ()), {"train": [rows]}, task=task)
        splits[task] = open_split(str(folder))
    with pytest.raises(SplitError, match="cannot be joined: task is 'classify' and 'tag'"):
        join_splits([splits["classify"], splits["tag"]])
    joined = join_splits([splits["classify"], splits["tag"]], labelled=False)
    assert joined.rows == 6 and pickle.loads(pickle.dumps(joined)).rows == 6
    with pytest.raises(SplitError, match="cannot be joined: task is 'tag' and 'seq2seq'"):
        join_splits([splits["tag"], splits["seq2seq"]], labelled=False)


def test_joined_splits_are_as_long_as_the_longest(tmp_path: Path) -> None:
    rows = make_rows(0, "classify", GROUPS, 3)
    splits = []
    for length in (48, 128, 64):
        lengths = {"max_length": length, "max_positions": 200 - length, "tree_max_length": 2 * length}
        schema = rows_schema("classify", GROUPS, **lengths)
        folder = write_folder(tmp_path / str(length), schema, {"train": [rows]}, task="classify")
        splits.append(open_split(str(folder)))
    found = join_splits(splits).metadata
    assert [found[key] for key in ("max_length", "max_positions", "tree_max_length")] == [128, 152, 256]


def test_damage_is_named(tmp_path: Path) -> None:
    folder, _ = folder_of(tmp_path / "d")
    path = folder / "train-00000-of-00003.arrow"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert f"{path} is not a whole Arrow IPC file" in refused(folder)
    path.write_bytes(b"")
    assert f"{path} is not a whole Arrow IPC file" in refused(folder)
    path.write_bytes((folder / "train-00001-of-00003.arrow").read_bytes())
    assert "has 1 rows" in refused(folder) and "its manifest says 7 rows" in refused(folder)
    path.unlink()
    assert "is in the manifest, but the file is gone" in refused(folder)
    spoilt = bytearray(whole)
    spoilt[len(whole) // 2] ^= 255
    path.write_bytes(bytes(spoilt))
    with pytest.raises(ShardError, match="its hash is not the one in its manifest"):
        open_split(str(folder), verify=True)
