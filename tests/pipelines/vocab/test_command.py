"""`treegraft vocab` as it is typed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from tests.pipelines.vocab.running import FILES, settings, write_corpus
from tests.warm import COMMAND, treegraft

FORCED = {"TREEGRAFT_SMALL_BYTES": "0"}  # worker processes, however small the corpus


def write(folder: Path, documents: int = 60, **changes: object) -> Path:
    """A corpus and a config in `folder`."""
    write_corpus(folder, documents=documents)
    body = settings(folder).model_dump(mode="json", exclude_unset=True)
    encode = {
        "tokenizer": "out/my/vocab/vocab.txt",
        "columns": ["coarse"],
        "coarse": {"vocab": "out/my/vocab/coarse_vocab.txt", "phrases": "phrases.tsv"},
    }
    path = folder / "my.yaml"
    path.write_text(yaml.safe_dump({**body, "encode": encode, **changes}, sort_keys=False), encoding="utf-8")
    return path


def vocabularies(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


@pytest.mark.heavy
def test_workers_and_hash_seeds_change_nothing(tmp_path: Path) -> None:
    config = write(tmp_path, documents=20)
    treegraft("annotate", config.name, cwd=tmp_path)
    found = []
    for workers, seed in ((1, "0"), (2, "7"), (4, "4711")):
        out, env = f"out/{workers}", {**FORCED, "PYTHONHASHSEED": seed}
        options = ("--out", out, "--annotated", "out/my/annotated", "--workers", workers)
        said = treegraft("vocab", config.name, *options, cwd=tmp_path, env=env, anew=True)
        assert said.returncode == 0, said.stderr
        found.append(vocabularies(tmp_path / out / "vocab"))
    assert found[0] == found[1] == found[2]


def test_preprocess_goes_on_from_there(tmp_path: Path) -> None:
    config = write(tmp_path, documents=20)
    said = treegraft("vocab", config.name, cwd=tmp_path)
    assert said.stderr.rstrip().endswith("next: treegraft preprocess my.yaml")
    said_by_itself = "output: out/my\n" + config.read_text(encoding="utf-8")  # the same folder
    config.write_text(said_by_itself, encoding="utf-8")
    said = treegraft("vocab", config.name, cwd=tmp_path)
    assert said.stderr.rstrip().endswith("next: treegraft preprocess my.yaml")
    said = treegraft("preprocess", config.name, cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "every rule holds" in said.stderr


def test_phrases_that_the_config_names_are_not_named_again(tmp_path: Path) -> None:
    coarse = {"vocab": "out/my/vocab/coarse_vocab.txt", "phrases": "out/my/phrases/phrases.tsv"}
    encode = {"tokenizer": "out/my/vocab/vocab.txt", "columns": ["coarse"], "coarse": coarse}
    easy = {"min_count": 2, "min_dependence": 0, "discount_fallback": [0.5, 1, 1.5]}
    config = write(tmp_path, encode=encode, phrases=easy, output="out/my")
    said = treegraft("phrases", config.name, cwd=tmp_path)
    assert said.stderr.rstrip().endswith("\nnext: treegraft vocab my.yaml")


def test_the_graph_of_another_config_is_named(tmp_path: Path) -> None:
    config = write(tmp_path, documents=20, encode={"tokenizer": "out/my/vocab/vocab.txt", "columns": []})
    (tmp_path / "g.tsv").write_text("new york\tis\t大都市\n", encoding="utf-8")
    body = yaml.safe_load(config.read_text(encoding="utf-8"))
    body["encode"]["columns"], body["graph"] = ["tree"], {"triples": "g.tsv"}
    (tmp_path / "reviews.yaml").write_text(yaml.safe_dump(body), encoding="utf-8")
    said = treegraft("vocab", config.name, "--graph", "reviews.yaml", cwd=tmp_path)
    assert said.stderr.rstrip().endswith("next: treegraft preprocess my.yaml")
    assert "\n都\n" in (tmp_path / "out/my/vocab/vocab.txt").read_text(encoding="utf-8")
    said = treegraft("vocab", config.name, "--graph", "my.yaml", cwd=tmp_path)
    assert said.returncode == 2
    assert "--graph: my.yaml has no `graph` section" in said.stderr


@pytest.mark.heavy
def test_a_lexicon_that_is_found_is_to_be_named_and_missed_by_preprocess(tmp_path: Path) -> None:
    encode = {"tokenizer": "out/my/vocab/vocab.txt", "columns": []}
    config = write(tmp_path, documents=20, encode=encode)
    (tmp_path / "out/my/phrases").mkdir(parents=True)
    (tmp_path / "phrases.tsv").rename(tmp_path / "out/my/phrases/phrases.tsv")
    said = treegraft("vocab", config.name, "--fine", "--coarse", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert said.stderr.rstrip().endswith(
        "next: in the config, encode.coarse.vocab: out/my/vocab/coarse_vocab.txt and encode.columns: [coarse] and "
        "encode.coarse.phrases: out/my/phrases/phrases.tsv; then treegraft preprocess my.yaml"
    )
    coarse = {"vocab": "out/my/vocab/coarse_vocab.txt"}
    write(tmp_path, documents=20, encode=encode | {"columns": ["coarse"], "coarse": coarse})
    said = treegraft("preprocess", config.name, "--dry-run", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "of several words, but the config names no phrases" in " ".join(said.stderr.split())


@pytest.mark.heavy
def test_what_the_config_lacks_is_said(tmp_path: Path) -> None:
    encode = {"tokenizer": "vocab.txt", "columns": []}
    said = treegraft("vocab", write(tmp_path, encode=encode).name, cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert (
        "next: in the config, encode.tokenizer: out/my/vocab/vocab.txt; then treegraft preprocess"
        in said.stderr
    )
    assert not (tmp_path / "out/my/vocab/coarse_vocab.txt").exists()


def test_preprocess_names_the_vocabularies_that_were_made_elsewhere(tmp_path: Path) -> None:
    encode = {"tokenizer": "vocab.txt", "columns": ["coarse"], "coarse": {"vocab": "coarse.txt"}}
    config = write(tmp_path, documents=20, encode=encode)
    said = treegraft("preprocess", config.name, cwd=tmp_path)
    assert said.returncode == 2
    assert "`treegraft vocab my.yaml` makes it from the corpus" in said.stderr
    assert treegraft("vocab", config.name, cwd=tmp_path).returncode == 0
    keys = "encode.tokenizer: out/my/vocab/vocab.txt", "encode.coarse.vocab: out/my/vocab/coarse_vocab.txt"
    for command in ("preprocess", "encode"):
        said = treegraft(command, config.name, cwd=tmp_path)
        assert said.returncode == 2
        assert f"but `treegraft vocab` made both; in the config, {keys[1]} and {keys[0]}" in said.stderr
    write(tmp_path, documents=20, encode={**encode, "tokenizer": "out/my/vocab/vocab.txt"})
    said = treegraft("preprocess", config.name, cwd=tmp_path)
    assert (
        f"coarse.txt does not exist, but `treegraft vocab` made one; in the config, {keys[1]}\n"
        in said.stderr
    )
    (tmp_path / "out/my/vocab/coarse_vocab.txt").unlink()
    said = treegraft("preprocess", config.name, cwd=tmp_path)
    assert "coarse.txt does not exist; `treegraft vocab my.yaml` makes it" in said.stderr


@pytest.mark.heavy
def test_a_bad_config_is_told_in_one_message(tmp_path: Path) -> None:
    config = write(tmp_path, documents=5, vocab={"fine": {"sise": 9}})
    said = treegraft("vocab", config.name, cwd=tmp_path)
    assert said.returncode == 2
    assert "vocab.fine.sise: unknown key; did you mean 'size'?" in said.stderr
    assert "Traceback" not in said.stderr


@pytest.mark.heavy
def test_killed_five_times_each_rerun_gives_the_same(tmp_path: Path) -> None:
    config = write(tmp_path, documents=300)
    annotated = str(tmp_path / "annotated")

    def start(out: str) -> subprocess.Popen[bytes]:
        words = ["vocab", config.name, "--out", out, "--annotated", annotated, "--workers", "2"]
        return subprocess.Popen(
            [*COMMAND, *words],
            cwd=tmp_path,
            env={**os.environ, **FORCED},
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    assert start("first").wait() == 0  # annotates
    began = time.monotonic()
    assert start("expected").wait() == 0
    seconds = time.monotonic() - began
    dice, kills = random.Random(3), 0
    for attempt in range(5):
        process = start(f"out{attempt}")
        time.sleep(seconds * (0.2 + 0.75 * dice.random()))
        kills += process.poll() is None
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert start(f"out{attempt}").wait() == 0
        folder = tmp_path / f"out{attempt}/vocab"
        assert vocabularies(folder) == vocabularies(tmp_path / "expected/vocab"), attempt
        assert sorted(p.name for p in folder.iterdir()) == sorted([*FILES, "_work"])
        assert [p.name for p in (folder / "_work").iterdir()] == ["lock"]
    assert kills >= 3
