"""`treegraft dedup` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from tests.pipelines.dedup.planted import plant
from tests.pipelines.dedup.running import corpus, dropped
from tests.warm import treegraft


def write(folder: Path, **section: object) -> Path:
    body = {
        "task": "pretrain",
        "language": "zh",
        "input": {"format": "text", "document": "line", "files": "a.txt"},
        "encode": {"tokenizer": "vocab.txt"},
        **section,
    }
    path = folder / "my.yaml"
    path.write_text(yaml.safe_dump(body), encoding="utf-8")
    return path


def test_it_reports_and_says_what_to_do_next(tmp_path: Path) -> None:
    planted = plant(None, "zh", 100)
    corpus(tmp_path, planted.texts)
    path = write(tmp_path)
    said = treegraft("dedup", path.name, "--workers", "1", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "duplicates exact" in said.stderr
    assert "wrote out/my/dedup: report.json" in said.stderr
    assert "add a `dedup:` section" in said.stderr
    found = dropped(tmp_path / "out/my").to_pylist()
    assert len(found) >= len(planted.exact)
    report = json.loads((tmp_path / "out/my/dedup/report.json").read_text(encoding="utf-8"))
    counts = report["splits"]["train"]
    assert counts["duplicates_exact"] + counts["duplicates_near"] == len(found)
    assert counts["kept"] == len(planted.texts) - len(found)
    assert report["largest"][0]["kept"]["excerpt"]


def test_a_mistyped_key_names_the_near_one(tmp_path: Path) -> None:
    corpus(tmp_path, ["一篇文章"])
    said = treegraft("dedup", write(tmp_path, dedup={"treshold": 0.9}).name, cwd=tmp_path)
    assert said.returncode == 2
    assert "dedup.treshold: unknown key; did you mean 'threshold'?" in said.stderr
    nested = treegraft("dedup", write(tmp_path, dedup={"against": {"file": "b"}}).name, cwd=tmp_path)
    assert "dedup.against.file: unknown key; did you mean 'files'?" in nested.stderr
