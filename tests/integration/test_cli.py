"""The real command line on small corpora: what a user types, sees and gets."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pytest
import yaml

from tests.warm import COMMAND, treegraft

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "corpora/samples"


def shards(folder: Path) -> dict[str, str]:
    """Hash of every shard of both stages, and of the rejects."""
    found = sorted([*folder.rglob("*.arrow"), *folder.rglob("*.jsonl")])
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in found}


def rows_of(folder: Path, split: str) -> list[dict]:
    rows: list[dict] = []
    for path in sorted(folder.glob(f"{split}-*.arrow")):
        rows += pa.ipc.open_file(pa.memory_map(str(path))).read_all().to_pylist()
    return rows


def small_config(folder: Path, **changes: object) -> Path:
    """A classification corpus of a few blocks, with every column group."""
    if not (folder / "data").exists():  # written once: a file with a new date is a new input
        lines = (SAMPLES / "zh/reviews.tsv").read_text(encoding="utf-8").split("\n")
        header, body = lines[0], [line for line in lines[1:] if line]
        (folder / "data").mkdir()
        (folder / "data/train.tsv").write_text("\n".join([header, *body[:50]]) + "\n", encoding="utf-8")
        (folder / "data/dev.tsv").write_text("\n".join([header, *body[50:]]) + "\n", encoding="utf-8")
    config = yaml.safe_load((SAMPLES / "zh-reviews.yaml").read_text(encoding="utf-8"))
    config["input"]["files"] = {"train": "data/train.tsv", "dev": "data/dev.tsv"}
    for section, key in (("encode", "tokenizer"), ("graph", "triples")):
        config[section][key] = str(SAMPLES / config[section][key])
    config["encode"]["coarse"]["vocab"] = str(SAMPLES / "coarse_vocab.txt")
    config["run"] = {"block_bytes": 1024}
    for name, value in changes.items():
        config[name] = {**config.get(name, {}), **value} if isinstance(value, dict) else value
    path = folder / "reviews.yaml"
    path.write_text(yaml.safe_dump(config, allow_unicode=True, sort_keys=False), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_config(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def expected(corpus: Path) -> Path:
    done = treegraft("preprocess", corpus, "--out", corpus.parent / "expected", cwd=corpus.parent)
    assert done.returncode == 0, done.stderr
    return corpus.parent / "expected"


def test_rows_are_the_records_and_labels_are_the_sources(corpus: Path, expected: Path) -> None:
    for split in ("train", "dev"):
        lines = (corpus.parent / f"data/{split}.tsv").read_text(encoding="utf-8").split("\n")[1:-1]
        rows = rows_of(expected, split)
        assert [(str(r["label"]), r["text"]) for r in rows] == [tuple(line.split("\t")) for line in lines]
        assert all(r["input_ids"][0] == 2 and r["input_ids"][-1] == 3 for r in rows)
    manifest = json.loads((expected / "manifest.json").read_text(encoding="utf-8"))
    assert len(manifest["splits"]["train"]["shards"]) > 3
    assert list(manifest["splits"]) == ["train", "dev"]


@pytest.mark.parametrize(
    ("workers", "seed"),
    [
        pytest.param(1, "0", marks=pytest.mark.heavy),
        (2, "1"),
        pytest.param(4, "random", marks=pytest.mark.heavy),
    ],
    ids=["1-worker", "2-workers", "4-workers"],
)
def test_c06_same_bytes_for_any_worker_count_hash_seed_and_working_directory(
    corpus: Path, expected: Path, tmp_path: Path, workers: int, seed: str
) -> None:
    # Processes are forced: work this small would stay in the driver.
    env = {"PYTHONHASHSEED": seed, "TREEGRAFT_SMALL_BYTES": "0"}
    done = treegraft(
        "preprocess", corpus, "--out", "here", "--workers", workers, cwd=tmp_path, env=env, anew=True
    )
    assert done.returncode == 0, done.stderr
    assert shards(tmp_path / "here") == shards(expected)


def test_a_second_run_does_nothing_and_a_changed_one_asks_first(corpus: Path, tmp_path: Path) -> None:
    config = small_config(tmp_path)
    assert treegraft("preprocess", config, cwd=tmp_path).returncode == 0
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "out/reviews").rglob("*.arrow")}
    again = treegraft("preprocess", config, cwd=tmp_path)
    assert again.returncode == 0
    assert again.stderr.count("already finished") == 2
    assert before == {p: p.stat().st_mtime_ns for p in (tmp_path / "out/reviews").rglob("*.arrow")}

    small_config(tmp_path, encode={"max_length": 32})
    refused = treegraft("preprocess", config, cwd=tmp_path)
    assert refused.returncode == 1
    assert "--overwrite" in refused.stderr
    assert before == {p: p.stat().st_mtime_ns for p in (tmp_path / "out/reviews").rglob("*.arrow")}
    replaced = treegraft("preprocess", config, "--overwrite", cwd=tmp_path)
    assert replaced.returncode == 0, replaced.stderr
    assert "annotate: already finished" in replaced.stderr  # only the fast stage ran again
    assert max(len(r["input_ids"]) for r in rows_of(tmp_path / "out/reviews", "train")) == 32

    with (tmp_path / "data/train.tsv").open("a", encoding="utf-8") as more:
        more.write("1\t很好的酒店。\n")
    assert "of another config, code or input" in treegraft("preprocess", config, cwd=tmp_path).stderr


def test_dry_run_writes_nothing(corpus: Path, tmp_path: Path) -> None:
    done = treegraft("preprocess", corpus, "--dry-run", cwd=tmp_path)
    assert done.returncode == 0
    assert "plan of reviews.yaml" in done.stdout
    assert not list(tmp_path.iterdir())


def test_rejects_are_listed_counted_and_bounded(tmp_path: Path) -> None:
    config = small_config(tmp_path)
    with (tmp_path / "data/train.tsv").open("a", encoding="utf-8") as more:
        more.write("1\ttoo\tmany\n0\t\n")
    failed = treegraft("preprocess", config, cwd=tmp_path)
    assert failed.returncode == 1
    assert "2 of 62 records were rejected (3.2%)" in failed.stderr
    assert not (tmp_path / "out/reviews/manifest.json").exists()
    small_config(tmp_path, run={"block_bytes": 1024, "max_reject_fraction": 0.05})
    done = treegraft("preprocess", config, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "blocks were done before" in done.stderr
    rejects = [
        json.loads(line) for p in (tmp_path / "out").rglob("*.jsonl") for line in p.open(encoding="utf-8")
    ]
    assert sorted((r["path"], r["line"], r["reason"]) for r in rejects) == [
        ("data/train.tsv", 52, "unequal_fields"),
        ("data/train.tsv", 53, "empty_text"),
    ]
    manifest = json.loads((tmp_path / "out/reviews/annotated/manifest.json").read_text(encoding="utf-8"))
    split = manifest["splits"]["train"]
    assert split["counters"]["records"] == 52 == split["rows"] + sum(split["rejects"].values())


def test_a_label_found_only_in_dev_is_named(tmp_path: Path) -> None:
    """C02."""
    config = small_config(tmp_path)
    with (tmp_path / "data/dev.tsv").open("a", encoding="utf-8") as more:
        more.write("7\t很好的酒店。\n")
    failed = treegraft("preprocess", config, cwd=tmp_path)
    assert failed.returncode == 2
    assert "label '7' of split 'dev' does not occur in split 'train'" in failed.stderr


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"encode": {"tokenizer": "nowhere/vocab.txt"}}, "encode.tokenizer"),
        ({"graph": {"triples": "nowhere.spo"}}, "nowhere.spo"),
        ({"annotate": {"parser": "en_no_such_pipeline"}}, "annotate.parser"),
        ({"input": {"files": "nowhere/*.tsv"}}, "nowhere/*.tsv"),
        ({"input": {"text": "txet_a"}}, "text_a"),
        ({"annotate": {"user_dict": "nowhere.txt"}}, "nowhere.txt"),
        ({"language": "qq"}, "qq"),
    ],
)
def test_wrong_names_stop_before_any_work(tmp_path: Path, changes: dict, message: str) -> None:
    config = small_config(tmp_path, **changes)
    failed = treegraft("preprocess", config, cwd=tmp_path)
    assert failed.returncode in (1, 2)
    assert message in failed.stderr
    assert "Traceback" not in failed.stderr
    assert not list(tmp_path.rglob("*.arrow"))


def test_unknown_options_are_refused(corpus: Path, tmp_path: Path) -> None:
    failed = treegraft("preprocess", corpus, "--worker", "3", cwd=tmp_path)
    assert failed.returncode == 2
    assert "did you mean --workers" in failed.stderr


def test_verify_inspect_and_stats(expected: Path, tmp_path: Path) -> None:
    good = treegraft("verify", expected, cwd=tmp_path)
    assert good.returncode == 0, good.stdout
    shown = treegraft("inspect", expected, "--row", 3, cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    for part in ("sentence tree", "dependency parse", "coarse tokens", "visible matrix"):
        assert part in shown.stdout
    figures = treegraft("stats", expected, "--html", "stats.html", cwd=tmp_path)
    assert figures.returncode == 0, figures.stderr
    assert (tmp_path / "stats.html").stat().st_size > 1000

    broken = tmp_path / "broken"
    subprocess.run(["cp", "-r", expected, broken], check=True)
    shard = next(broken.glob("train-*.arrow"))
    raw = bytearray(shard.read_bytes())
    raw[len(raw) // 2] ^= 1
    shard.write_bytes(raw)
    bad = treegraft("verify", broken, cwd=tmp_path)
    assert bad.returncode == 1
    assert shard.name in bad.stdout


def test_stages_alone_and_annotations_shared(corpus: Path, expected: Path, tmp_path: Path) -> None:
    shared = tmp_path / "documents"
    first = treegraft("annotate", corpus, "--annotated", shared, "--out", tmp_path / "a", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    for name in ("a", "b"):
        second = treegraft("encode", corpus, "--annotated", shared, "--out", tmp_path / name, cwd=tmp_path)
        assert second.returncode == 0, second.stderr
    assert shards(tmp_path / "a") == shards(tmp_path / "b")
    assert shards(tmp_path / "a").items() <= shards(expected).items()


def test_repeated_ids_show_both_places(tmp_path: Path) -> None:
    lines = [
        json.dumps({"id": f"r{n % 37}", "text": f"第{n}条。", "label": n % 2}, ensure_ascii=False)
        for n in range(40)
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    source = {
        "format": "jsonl",
        "id": "id",
        "label": "label",
        "text": "text",
        "files": str(tmp_path / "a.jsonl"),
    }
    config = small_config(tmp_path)
    raw = yaml.safe_load(config.read_text(encoding="utf-8"))
    config.write_text(yaml.safe_dump({**raw, "input": source}, sort_keys=False), encoding="utf-8")
    failed = treegraft("preprocess", config, cwd=tmp_path)
    assert failed.returncode == 1
    second = len("\n".join(lines[:37]).encode()) + 1
    assert "3 records of split 'train' have the id of an earlier one" in failed.stderr
    assert f"'r0' is at {tmp_path}/a.jsonl@0 and at {tmp_path}/a.jsonl@{second}" in failed.stderr
    assert not list(tmp_path.rglob("manifest.json"))


def test_names_that_look_like_markup_neither_crash_nor_style_nor_steer_the_terminal(tmp_path: Path) -> None:
    odd = tmp_path / "[/] :smile: 中文\x1b[31m"
    (odd / "data").mkdir(parents=True)
    (odd / "data/train.tsv").write_text("label\ttext_a\n[/]\t[bold]好[/]\n\x1b[31m\t北京\n", encoding="utf-8")
    config = {
        "task": "classify",
        "language": "zh",
        "input": {
            "format": "tsv",
            "text": "text_a",
            "label": "label",
            "files": {"train": "data/train.tsv", "dev": "data/train.tsv"},
        },
        "annotate": {"parser": "none"},
        "encode": {"tokenizer": str(SAMPLES / "vocab.txt"), "columns": []},
    }
    path = odd / "[red].yaml"
    path.write_text(yaml.safe_dump(config, allow_unicode=True), encoding="utf-8")
    out = odd / "out"
    for words in (
        ("preprocess", path, "--dry-run", "--out", out),
        ("preprocess", path, "--out", out),
        ("preprocess", path, "--out", out),  # already finished
        ("annotate", path, "--out", out),
        ("encode", path, "--out", out),
        ("verify", out),
        ("stats", out),
        ("inspect", out, "--row", "1"),
    ):
        done = treegraft(*words, cwd=tmp_path, env={"COLUMNS": "400"})
        assert done.returncode == 0, done.stderr
        assert "\x1b" not in done.stdout + done.stderr
        if "/out" in done.stdout + done.stderr:
            assert "[/] :smile: 中文\\x1b[31m/out" in done.stdout + done.stderr
    (out / "train-00000-of-00001.arrow").unlink()
    for words in (("verify", out), ("preprocess", odd / "missing.yaml")):
        done = treegraft(*words, cwd=tmp_path)
        assert done.returncode in (1, 2) and "Traceback" not in done.stderr
        assert "\x1b" not in done.stdout + done.stderr


def test_the_config_reference_shows_defaults_in_brackets(tmp_path: Path) -> None:
    done = treegraft("config", cwd=tmp_path, env={"COLUMNS": "200"})
    line = next(line for line in done.stdout.splitlines() if "encode.columns" in line)
    assert "[syntax]" in line


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": "golden"}, "input.label: no record of split 'train' has the field 'golden'"),
        ({"language": "lang"}, "input.language: no record of split 'train' has the field 'lang'"),
    ],
)
def test_a_field_that_no_record_has_is_a_mistake(tmp_path: Path, change: dict, message: str) -> None:
    lines = [json.dumps({"text": f"第{n}条。", "label": n % 2}, ensure_ascii=False) for n in range(10)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = small_config(tmp_path)
    raw = yaml.safe_load(config.read_text(encoding="utf-8"))
    source = {"format": "jsonl", "label": "label", "files": "a.jsonl", **change}
    config.write_text(yaml.safe_dump({**raw, "input": source}, sort_keys=False), encoding="utf-8")
    failed = treegraft("preprocess", config, cwd=tmp_path)
    assert failed.returncode == 1
    assert message in failed.stderr


def test_an_unlabelled_split_is_taken_and_said(tmp_path: Path) -> None:
    for name, label in (("train", {"label": "good"}), ("test", {})):
        lines = [json.dumps({"text": f"第{n}条。", **label}, ensure_ascii=False) for n in range(10)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = small_config(tmp_path)
    raw = yaml.safe_load(config.read_text(encoding="utf-8"))
    source = {"format": "jsonl", "label": "label", "files": {"train": "train.jsonl", "test": "test.jsonl"}}
    config.write_text(yaml.safe_dump({**raw, "input": source}, sort_keys=False), encoding="utf-8")
    done = treegraft("preprocess", config, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "10 records have no label" in done.stderr
    assert {r["label"] for r in rows_of(tmp_path / "out/reviews", "test")} == {None}
    assert {r["label"] for r in rows_of(tmp_path / "out/reviews", "train")} == {0}


def test_stopped_by_the_keyboard_it_says_what_is_kept(tmp_path: Path) -> None:
    config = small_config(tmp_path)
    process = subprocess.Popen(
        [*COMMAND, "preprocess", str(config), "--workers", "1"],
        cwd=tmp_path,
        env={**os.environ, "TREEGRAFT_SMALL_BYTES": "0"},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    time.sleep(4)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    if process.returncode != 0:  # not so fast that it had finished
        assert process.returncode == 130
        assert "the same command goes on from there" in said or "again to continue" in said
        assert "Traceback" not in said


def test_workers_leave_the_keyboard_to_the_process_that_started_them(tmp_path: Path) -> None:
    """Ctrl-C in a terminal reaches them too, and in their first seconds they would have tracebacks to show."""
    process = subprocess.Popen(
        [*COMMAND, "preprocess", str(small_config(tmp_path)), "--workers", "1"],
        cwd=tmp_path,
        env={**os.environ, "TREEGRAFT_SMALL_BYTES": "0"},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    asked = set()
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.exists():
        pytest.skip("only Linux lists a process's children")
    while process.poll() is None:
        for child in set(children.read_text().split()) - asked:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it may be over
                if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                    os.kill(int(child), signal.SIGINT)
                    asked.add(child)
        time.sleep(0.05)
    _, said = process.communicate()
    assert asked and process.returncode == 0 and "Traceback" not in said, said


def test_annotated_documents_that_were_changed_or_lost_are_found_and_made_again(tmp_path: Path) -> None:
    config, out = (
        small_config(tmp_path, annotate={"parser": "none"}, encode={"columns": ["coarse", "tree"]}),
        tmp_path / "out",
    )
    assert treegraft("preprocess", config, "--out", out, cwd=tmp_path).returncode == 0
    finished = shards(out)
    shard = next(iter(sorted((out / "annotated").glob("train-*.arrow"))))
    whole = shard.read_bytes()
    at = whole.index("的".encode())
    for damaged, message in (
        (whole[:at] + "了".encode() + whole[at + 3 :], "was changed after it was written"),
        (whole[:-1], "bytes, the manifest says"),
        (None, "is missing"),
    ):
        (out / "manifest.json").unlink(missing_ok=True)
        shard.unlink()
        if damaged is not None:
            shard.write_bytes(damaged)
        refused = treegraft("preprocess", config, "--out", out, cwd=tmp_path)
        assert refused.returncode == 1 and message in refused.stderr and "--overwrite" in refused.stderr
        again = treegraft("preprocess", config, "--out", out, "--overwrite", cwd=tmp_path)
        assert again.returncode == 0, again.stderr
        assert shards(out) == finished


def test_damaged_notes_of_a_run_do_not_stand_in_its_way(tmp_path: Path) -> None:
    config, out = (
        small_config(tmp_path, annotate={"parser": "none"}, encode={"columns": ["coarse", "tree"]}),
        tmp_path / "out",
    )
    assert treegraft("preprocess", config, "--out", out, cwd=tmp_path).returncode == 0
    finished = shards(out)
    (out / "graph/objects.npy").write_bytes(b"cut")
    (out / "_work/plan.json").write_bytes(b"{")
    (out / "manifest.json").write_bytes(b"{")
    assert treegraft("preprocess", config, "--out", out, cwd=tmp_path).returncode == 1
    again = treegraft("preprocess", config, "--out", out, "--overwrite", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert shards(out) == finished


def test_a_file_is_no_output_folder(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    done = treegraft("preprocess", corpus, "--out", "file", cwd=tmp_path)
    assert done.returncode == 2 and "--out: file is a file" in done.stderr


def test_a_file_that_changes_while_it_is_read_commits_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipelines import engine, flow, watched
    from pipelines.config import load_config
    from pipelines.options import Options

    path, out = small_config(tmp_path), str(tmp_path / "out")
    execute = watched.execute

    def grow(title: str, run: engine.Run, options: Options) -> list[engine.BlockRecord]:
        records = execute(title, run, options)
        with (tmp_path / "data/dev.tsv").open("a") as file:
            file.write("1\tlate\n")
        return records

    monkeypatch.setattr(watched, "execute", grow)
    with pytest.raises(engine.RunError, match=r"dev\.tsv was changed while the run read it"):
        flow.annotate(load_config(path), str(path), Options(out=out, annotated=out))
    assert not (tmp_path / "out/manifest.json").exists()
