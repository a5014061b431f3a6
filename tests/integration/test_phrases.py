"""`treegraft phrases` as a user runs it: the same bytes however many workers, killed and begun again, real text."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from pipelines.config import load_config
from pipelines.phrases.flow import PhraseSearch
from tests.integration.test_cli import SAMPLES
from tests.pipelines.dedup.running import options, plainly
from tests.warm import COMMAND, treegraft

FILES = ("phrases.tsv", "model.arpa", "report.json", "manifest.json")
FORCED = {"TREEGRAFT_SMALL_BYTES": "0"}  # worker processes, however small the corpus


def config(folder: Path, **phrases: object) -> Path:
    """The embedded English text six times over, in blocks; every n-gram is seen six times, so it has no discounts."""
    text = (SAMPLES / "en/pretrain.txt").read_text(encoding="utf-8")
    (folder / "text.txt").write_text("\n".join([text] * 6), encoding="utf-8")
    body = {
        "task": "pretrain",
        "language": "en",
        "input": {"files": "text.txt", "format": "text", "document": "line"},
        "annotate": {"parser": "none"},
        "encode": {"tokenizer": str(SAMPLES / "vocab.txt"), "columns": []},
        "phrases": {"min_count": 4, "min_dependence": 0.5, "discount_fallback": [0.5, 1.0, 1.5], **phrases},
        "run": {"block_bytes": (folder / "text.txt").stat().st_size // 8},
    }
    path = folder / "my.yaml"
    path.write_text(yaml.safe_dump(body), encoding="utf-8")
    return path


def made(path: Path, out: Path, workers: int, seed: str) -> dict[str, bytes]:
    env = {**(FORCED if workers > 1 else {}), "PYTHONHASHSEED": seed}
    done = treegraft("phrases", path, "--out", out, "--workers", workers, cwd=path.parent, env=env, anew=True)
    assert done.returncode == 0, done.stderr
    assert "encode.coarse.phrases" in done.stderr
    assert sorted(p.name for p in (out / "phrases").iterdir()) == sorted(["_work", *FILES])
    return {name: (out / "phrases" / name).read_bytes() for name in FILES}


@pytest.fixture(scope="module")
def wanted(tmp_path_factory) -> tuple[Path, dict[str, bytes]]:
    """A config, and what this process makes of it, block by block and without Beam."""
    folder = tmp_path_factory.mktemp("phrases")
    path, out = config(folder, text="lines"), folder / "out"
    with plainly():
        PhraseSearch(load_config(path), str(path), options(out)).run()
    return path, {name: (out / "phrases" / name).read_bytes() for name in FILES}


@pytest.mark.parametrize(
    ("workers", "seed"),
    [(1, "1"), pytest.param(2, "2", marks=pytest.mark.heavy), pytest.param(4, "77", marks=pytest.mark.heavy)],
)
def test_the_same_bytes_for_any_workers_and_hash_seed(tmp_path, wanted, workers, seed):
    path, one = wanted
    assert len(one["phrases.tsv"].splitlines()) > 20
    assert made(path, tmp_path / "out", workers, seed) == one


@pytest.mark.heavy
def test_killed_and_begun_again(tmp_path, wanted):
    (path, one), out = wanted, tmp_path / "out"
    process = subprocess.Popen(
        [*COMMAND, "phrases", str(path), "--out", str(out), "--workers", "2"],
        env={**os.environ, **FORCED},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while not list(out.glob("phrases/_work/*/count/*.arrow")) and time.monotonic() < deadline:
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (out / "phrases/manifest.json").exists()
    assert made(path, out, 1, "3") == one
    assert not list(out.rglob(".tmp*"))


@pytest.mark.heavy
def test_wikipedia_gives_multiword_units(tmp_path, real_data):
    body = {
        "task": "pretrain",
        "language": "en",
        "input": {"files": str(real_data / "wiki/enwiki-sample.xml.bz2"), "format": "wikipedia"},
        "annotate": {"parser": "none"},
        "encode": {"tokenizer": str(SAMPLES / "vocab.txt"), "columns": []},
    }
    path = tmp_path / "wiki.yaml"
    path.write_text(yaml.safe_dump(body), encoding="utf-8")
    done = treegraft("phrases", path, "--out", tmp_path / "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "out/phrases/phrases.tsv").read_text(encoding="utf-8").splitlines()
    best = [line.split("\t")[0] for line in lines][:200]
    units = {"united states", "los angeles", "world war ii", "supreme court", "periodic table", "hong kong"}
    units |= {"new york city", "articles of confederation", "new york", "human rights", "took place"}
    assert units <= set(best)
    assert not {"of the", "york city", "war ii", "the united", "in the", "sodium and potassium"} & set(best)
    model = json.loads((tmp_path / "out/phrases/manifest.json").read_text(encoding="utf-8"))["model"]
    assert model["fell_back"] == []
