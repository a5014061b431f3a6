"""The manifest: deterministic, and clear about folders that are not finished or not ours."""

from __future__ import annotations

import json

import pytest

from corpora.manifest import (
    MANIFEST,
    Manifest,
    ManifestError,
    ShardRecord,
    SplitRecord,
    read_manifest,
    write_manifest,
)
from corpora.shards import ShardInfo


def shard(split: str = "train", index: int = 0, count: int = 2, rows: int = 5) -> ShardRecord:
    info = ShardInfo(f"{split}-{index:05d}-of-{count:05d}.arrow", rows, 100, "ab" * 32)
    return ShardRecord.of(info, {"records": rows + index, "b": 1}, {"bad_json": index})


def manifest() -> Manifest:
    splits = {
        "train": SplitRecord.of([shard(), shard(index=1)], {"labels": ["é", "b"]}),
        "dev": SplitRecord.of([shard("dev", 0, 1)]),
    }
    return Manifest(
        stage="encode",
        task="classify",
        config_fingerprint="f0",
        splits=splits,
        identities={"tokenizer": {"name": "vocab.txt", "sha256": None}},
        versions={"pyarrow": "25", "numpy": "2"},
        inputs=[{"name": "语料.txt", "bytes": 3}],
    )


def test_it_reads_back_and_totals_are_sums(tmp_path):
    write_manifest(str(tmp_path), manifest())
    again = read_manifest(str(tmp_path))
    assert again == manifest() and again.rows == 15
    train = again.splits["train"]
    assert (train.rows, train.rejects, train.counters) == (10, {"bad_json": 1}, {"records": 11, "b": 2})
    assert train.sets == {"labels": ["b", "é"]}


def test_equal_manifests_are_equal_bytes_whatever_the_order_they_were_made_in(tmp_path):
    write_manifest(str(tmp_path), manifest())
    raw = (tmp_path / MANIFEST).read_bytes()
    body = json.loads(raw)

    def backwards(value):
        if isinstance(value, dict):
            return {k: backwards(value[k]) for k in reversed(list(value))}
        return [backwards(v) for v in value] if isinstance(value, list) else value

    shuffled = backwards(body)
    shuffled["splits"] = {name: shuffled["splits"][name] for name in body["splits"]}  # their order is data
    write_manifest(str(tmp_path), Manifest.model_validate(shuffled))
    assert (tmp_path / MANIFEST).read_bytes() == raw
    assert raw.endswith(b"}\n") and "语料".encode() in raw and raw.startswith(b'{\n "config_fingerprint"')


def test_a_missing_manifest_says_how_to_go_on(tmp_path):
    with pytest.raises(ManifestError, match="the run did not finish; run the same command again to continue"):
        read_manifest(str(tmp_path))
    with pytest.raises(ManifestError, match="nowhere does not exist"):
        read_manifest(str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "cannot be read"),
        (b'{"manifest_version": 1', "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        (b"[]", "not a treegraft manifest"),
        (b'{"name": "other tool"}', "not a treegraft manifest"),
        (b'{"manifest_version": 2}', "version 2, this release reads 1.*matching release"),
        (b'{"manifest_version": true}', "version True"),
        (b'{"manifest_version": 1, "stage": "x"}', "damaged or was edited:\n  stage"),
    ],
)
def test_a_foreign_newer_or_damaged_manifest_is_refused(tmp_path, raw, message):
    (tmp_path / MANIFEST).write_bytes(raw)
    with pytest.raises(ManifestError, match=f"(?s){MANIFEST} .*{message}"):
        read_manifest(str(tmp_path))


@pytest.mark.parametrize(
    "name",
    [
        "../train-00000-of-00002.arrow",
        "/etc/train-00000-of-00002.arrow",
        "sub/train-00000-of-00002.arrow",
        "train-00000-of-00002.arrow\n",
        "gs://b/train-00000-of-00002.arrow",
        "..",
        "",
        "train.arrow",
    ],
)
def test_a_shard_name_cannot_leave_its_folder(tmp_path, name):
    write_manifest(str(tmp_path), manifest())
    body = json.loads((tmp_path / MANIFEST).read_bytes())
    body["splits"]["train"]["shards"][0]["name"] = name
    (tmp_path / MANIFEST).write_text(json.dumps(body))
    with pytest.raises(ManifestError, match="is not of the form"):
        read_manifest(str(tmp_path))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b["splits"]["train"]["shards"].append(b["splits"]["train"]["shards"][0]), "listed twice"),
        (lambda b: b["splits"].update(test=b["splits"].pop("train")), "under split 'test'"),
        (lambda b: b["splits"]["dev"].update(rows=-1), "splits.dev.rows"),
        (lambda b: b["splits"]["dev"]["shards"][0].update(sha256="xyz"), "sha256"),
        (lambda b: b.update(surprise=1), "surprise"),
    ],
)
def test_an_edited_manifest_names_the_field(tmp_path, change, message):
    write_manifest(str(tmp_path), manifest())
    body = json.loads((tmp_path / MANIFEST).read_bytes())
    change(body)
    (tmp_path / MANIFEST).write_text(json.dumps(body))
    with pytest.raises(ManifestError, match=f"(?s)damaged or was edited.*{message}"):
        read_manifest(str(tmp_path))


def test_splits_keep_the_order_of_the_config(tmp_path):
    """Label names default to those of the first split, so a reader must see which one that was."""
    splits = {name: SplitRecord.of([]) for name in ("train", "dev", "another")}
    manifest = Manifest(stage="annotate", task="tag", config_fingerprint="x", splits=splits)
    write_manifest(str(tmp_path), manifest)
    assert list(read_manifest(str(tmp_path)).splits) == ["train", "dev", "another"]
