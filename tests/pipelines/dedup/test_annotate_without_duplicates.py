"""The stage that annotates leaves out what is dropped, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from pipelines import flow
from pipelines.config import Config, load_config
from pipelines.dedup.result import BlockDrops, Drops
from pipelines.dry_run import describe_plan
from pipelines.engine import RunError
from pipelines.section import ConfigError
from tests.pipelines.dedup.planted import plant
from tests.pipelines.dedup.running import dropped, options, plainly


def write(folder: Path, texts: list[str], **changes: Any) -> tuple[Config, str]:
    lines = [json.dumps({"text": t, "label": str(n % 2)}) for n, t in enumerate(texts)]
    lines[5:5] = ["{", json.dumps({"text": "", "label": "1"})]
    (folder / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")
    body = {
        "task": "classify",
        "language": "zh",
        "input": {"format": "jsonl", "label": "label", "files": "a.jsonl"},
        "annotate": {"parser": "none"},
        "encode": {"tokenizer": "vocab.txt", "columns": []},
        "run": {"block_bytes": 16384, "max_reject_fraction": 0.1},
        "dedup": {},
        **changes,
    }
    path = folder / "c.yaml"
    path.write_text(yaml.safe_dump({k: v for k, v in body.items() if v is not None}), encoding="utf-8")
    return load_config(path), str(path)


def annotated(out: Path) -> list[dict[str, Any]]:
    shards = sorted((out / "annotated").glob("*.arrow"))
    return [row for path in shards for row in pa.ipc.open_file(str(path)).read_all().to_pylist()]


def test_documents_in_are_documents_out_and_what_was_left_out(tmp_path: Path) -> None:
    texts = plant(None, "zh", 120).texts
    config, path = write(tmp_path, texts)
    with plainly():
        plain = flow.annotate(config.model_copy(update={"dedup": None}), path, options(tmp_path / "all"))
        manifest = flow.annotate(config, path, options(tmp_path / "out"))
    split = manifest.splits["train"]
    gone = {row["doc_id"] for row in dropped(tmp_path / "out").to_pylist()}
    assert len(split.shards) > 5
    assert len(gone) > 30
    assert annotated(tmp_path / "out") == [r for r in annotated(tmp_path / "all") if r["doc_id"] not in gone]
    counters = split.counters
    assert counters["duplicates_exact"] + counters["duplicates_near"] == len(gone)
    assert counters["records"] == plain.splits["train"].counters["records"] == len(texts) + 2
    assert counters["records"] == split.rows + len(gone) + manifest.rejects.total()
    assert manifest.rejects == {"bad_json": 1, "empty_text": 1}


def test_each_split_loses_its_own(tmp_path: Path) -> None:
    texts = plant(None, "zh", 40).texts
    halves = {"dev": texts[:30] + texts[:7], "train": texts[30:] + texts[:8]}
    for name, some in halves.items():
        lines = [json.dumps({"text": t, "label": "x"}) for t in some]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    layout = {"format": "jsonl", "label": "label", "files": {name: f"{name}.jsonl" for name in halves}}
    config, path = write(tmp_path, texts, input=layout)
    with plainly():
        manifest = flow.annotate(config, path, options(tmp_path / "out"))
    gone = {(row["split"], row["doc_id"]) for row in dropped(tmp_path / "out").to_pylist()}
    for name, some in halves.items():
        mine = len([split for split, _ in gone if split == name])
        assert mine >= 7
        assert manifest.splits[name].rows == len(some) - mine


def test_other_duplicates_are_another_run(tmp_path: Path) -> None:
    texts = plant(None, "zh", 40).texts
    config, path = write(tmp_path, texts)
    with plainly():
        flow.annotate(config, path, options(tmp_path / "out"))
        flow.annotate(config, path, options(tmp_path / "out"))  # finished already
    stricter, path = write(tmp_path, texts, dedup={"near": False})
    with plainly(), pytest.raises(RunError, match="--overwrite"):
        flow.annotate(stricter, path, options(tmp_path / "out"))
    with plainly():
        flow.annotate(stricter, path, options(tmp_path / "out", overwrite=True))
    assert set(dropped(tmp_path / "out")["kind"].to_pylist()) == {"exact"}


def test_a_parser_that_is_missing_stops_before_the_search(tmp_path: Path) -> None:
    config, path = write(tmp_path, ["一篇文章"], annotate={"parser": "no_such_pipeline"})
    with plainly(), pytest.raises(ConfigError, match="no_such_pipeline"):
        flow.annotate(config, path, options(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_missing_other_corpus_stops_a_dry_run(tmp_path: Path) -> None:
    config, path = write(tmp_path, ["一篇文章"], dedup={"against": "gone.jsonl"})
    with pytest.raises(ConfigError, match=r"dedup\.against\.files: no file matches"):
        describe_plan(config, path, options(tmp_path / "out"))


def test_drops_of_another_plan_or_corpus_are_refused(tmp_path: Path) -> None:
    texts = plant(None, "zh", 40).texts
    config, path = write(tmp_path, texts)
    with plainly():
        drops = flow.dedup(config, path, options(tmp_path / "out"))
    (block, *_) = flow.plan_annotate(config, path, options(tmp_path / "out")).run.blocks
    wrong = Drops(drops.folder, drops.result)
    wrong.result.blocks["train"].append(0)
    with pytest.raises(RunError, match="another plan"):
        wrong.of(block)
    rows = dropped(tmp_path / "out").slice(0, 3)
    at = rows["record"].to_pylist()
    ids = [f"x{n}" for n in range(at[2] + 1)]
    with pytest.raises(RunError, match="other documents"):
        BlockDrops("dropped.arrow", rows).keep(pa.chunked_array([ids]))


def test_records_are_asked_for_table_after_table() -> None:
    rows = pa.table(
        {"record": [1, 3, 4, 9], "doc_id": ["b", "d", "e", "j"], "kind": ["exact", "near", "near", "exact"]}
    )
    drops, ids = BlockDrops("dropped.arrow", rows), list("abcdefghij")
    found = [drops.keep(pa.chunked_array([ids[a:b]])) for a, b in ((0, 3), (3, 3), (3, 9), (9, 10))]
    assert [keep.tolist() for keep, _ in found] == [
        [True, False, True],
        [],
        [False, False, True, True, True, True],
        [False],
    ]
    assert [dict(counts) for _, counts in found] == [
        {"duplicates_exact": 1},
        {},
        {"duplicates_near": 2},
        {"duplicates_exact": 1},
    ]
