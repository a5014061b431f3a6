"""The whole road: what is dropped from a corpus, for what, whoever does the work."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as limits
from hypothesis import strategies as st

from corpora import files
from corpora.blocks import Block
from corpora.plan import plan_blocks
from pipelines import runners
from pipelines.dedup import sign
from pipelines.dedup.config import AgainstConfig
from pipelines.engine import RunError
from pipelines.section import ConfigError
from tests.corpora.test_files import remote  # noqa: F401
from tests.pipelines.dedup import slow
from tests.pipelines.dedup.planted import plant
from tests.pipelines.dedup.running import config, corpus, dedup, dropped, gone, options, plainly

ROOT = Path(__file__).parents[3]
LINE = st.text("abc ,好的", min_size=1, max_size=14).filter(lambda t: t.strip())


def content(out: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted((out / "dedup").iterdir()) if p.is_file()}


# --- rules ------------------------------------------------------------------------------------


@given(
    st.lists(LINE, min_size=1, max_size=25),
    st.sampled_from([0.51, 0.8, 1.0]),
    st.booleans(),
    st.integers(1, 40),
)
@limits(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=40)
def test_clusters_are_those_of_all_pairs(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], threshold: float, words: bool, window: int
) -> None:
    """Never a duplicate that all pairs would not give; equal texts always. Bands may miss a pair, rarely."""
    folder = tmp_path_factory.mktemp("all")
    corpus(folder, texts)
    with plainly(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sign, "_WINDOW_ROWS", 4 * window)
        patch.setattr(sign, "_WINDOW_TEXTS", window)
        patch.setattr(sign, "_TABLE_ROWS", 5)
        shingle = "words" if words else "characters"
        dedup(folder, folder / "out", config(block_bytes=1024), threshold=threshold, shingle=shingle, ngram=2)
    found = gone(folder / "out", texts)
    sets = [slow.of_text(t, characters=not words, n=2) for t in texts]
    same = [slow.fold(t) or f"\0{t}" for t in texts]
    all_pairs = slow.similar_pairs(sets, threshold)
    equal = [(i, j) for i in range(len(texts)) for j in range(i + 1, len(texts)) if same[i] == same[j]]
    expected = slow.clusters(len(texts), [*all_pairs, *equal])
    labels = [found[i]["kept"] if i in found else i for i in range(len(texts))]
    for number, label in enumerate(labels):
        assert expected[label] == expected[number], "two texts that no chain of pairs ties together"
        assert labels[label] == label, "what is kept must not go"
    assert all(labels[i] == labels[j] for i, j in equal)
    for number, row in found.items():
        assert (row["kind"] == "exact") == (same[number] == same[row["kept"]])
        wanted = 1.0 if row["kind"] == "exact" else slow.jaccard(sets[number], sets[row["kept"]])
        assert row["similarity"] == pytest.approx(wanted, abs=1e-6)


def test_pairs_just_at_the_threshold_count(tmp_path: Path) -> None:
    """Four of five shingles: 0.8. Bands miss one in two hundred of them."""
    letters = [chr(0x4E00 + n) for n in range(200)]
    texts = ["".join(letters[at : at + size]) for at in range(0, 200, 5) for size in (4, 5)]
    corpus(tmp_path, texts)
    with plainly():
        dedup(tmp_path, tmp_path / "out", ngram=1)
    found = gone(tmp_path / "out", texts)
    assert len(found) >= 38
    assert all(row["similarity"] == pytest.approx(0.8) for row in found.values())


def test_the_first_is_kept_across_blocks_and_splits(tmp_path: Path) -> None:
    base = plant(None, "zh", 60).texts[:40]
    corpus(tmp_path, base, "train.txt")
    corpus(tmp_path, [base[7].upper() + "。", "另一篇完全不同的文章在这里", *base[:3]], "dev.txt")
    files = {"dev": ["dev.txt"], "train": ["train.txt"]}
    settings = config(block_bytes=1024, format="text", document="line", files=files)
    with plainly():
        drops = dedup(tmp_path, tmp_path / "out", settings)
    rows = dropped(tmp_path / "out").to_pylist()
    assert {r["split"] for r in rows if r["kept_split"] == "dev"} == {"train"}
    assert len([r for r in rows if r["kept_split"] == "dev"]) >= 4
    assert list(drops.result.blocks) == ["dev", "train"]
    assert [(r["split"], r["block"], r["record"]) for r in rows] == sorted(
        (r["split"], r["block"], r["record"]) for r in rows
    )


def test_texts_that_fold_to_nothing(tmp_path: Path) -> None:
    """Compared as they are: `...` repeats `...`, and is not `!!!`."""
    texts = ["...", "!!!", "...", "a", "b", "a", "!!!", "A."]
    corpus(tmp_path, texts)
    with plainly():
        dedup(tmp_path, tmp_path / "out")
    assert {k: v["kept"] for k, v in gone(tmp_path / "out", texts).items()} == {2: 0, 5: 3, 6: 1, 7: 3}


def test_what_looks_blank_is_compared_as_it_is(tmp_path: Path) -> None:
    """Zero-width characters alone; readers take no records of white space alone."""
    texts = ["\u200b", "x y z", "\u200b\u200b", "\u200b"]
    (tmp_path / "a.jsonl").write_text(
        "\n".join(json.dumps({"text": t}) for t in [*texts, "  "]), encoding="utf-8"
    )
    with plainly():
        drops = dedup(tmp_path, tmp_path / "out", config(format="jsonl", files="a.jsonl"))
    assert [r["record"] for r in dropped(tmp_path / "out").to_pylist()] == [3]
    assert drops.result.splits["train"] == {
        "documents": 4,
        "kept": 3,
        "duplicates_exact": 1,
        "duplicates_near": 0,
        "contradictory_labels": 0,
    }


def test_only_equal_texts_where_near_ones_are_not_wanted(tmp_path: Path) -> None:
    planted = plant(None, "zh", 80)
    corpus(tmp_path, planted.texts)
    with plainly():
        dedup(tmp_path, tmp_path / "out", near=False)
    assert set(gone(tmp_path / "out", planted.texts)) == {b for _, b in planted.exact}


def test_pairs_are_compared_as_pairs(tmp_path: Path) -> None:
    pairs = [
        ("一个问题", "一个回答"),
        ("一个问题", "另外的回答"),
        ("一个问题", "一个回答。"),
        ("一个问题一个", "回答"),
    ]
    lines = [json.dumps({"a": a, "b": b, "label": "x"}) for a, b in pairs]
    (tmp_path / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")
    settings = config(
        task="classify", format="jsonl", text="a", text_pair="b", label="label", files="a.jsonl"
    )
    with plainly():
        dedup(tmp_path, tmp_path / "out", settings)
    rows = dropped(tmp_path / "out").to_pylist()
    assert [(r["record"], r["kind"]) for r in rows] == [(2, "exact")]


def test_duplicates_with_another_label_are_counted(tmp_path: Path) -> None:
    rows = [
        ("好书一本", "1"),
        ("好书一本", "0"),
        ("好书一本", "1"),
        ("坏书一本", "0"),
        ("好书一本", None),
        ("坏书一本", "1"),
    ]
    lines = [json.dumps({"text": t, "label": label}) for t, label in rows]
    (tmp_path / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")
    settings = config(task="classify", format="jsonl", label="label", files="a.jsonl")
    with plainly():
        counts = dedup(tmp_path, tmp_path / "out", settings).result.splits["train"]
    assert (counts["duplicates_exact"], counts["contradictory_labels"]) == (4, 2)


def test_records_of_different_languages_are_not_duplicates(tmp_path: Path) -> None:
    records = [
        ("en", "one two three four"),
        ("zh", "one two three four"),
        ("zh-Hans", "one two three four!"),
        (None, "One, two three four"),
    ]
    lines = [json.dumps({"text": t, "lang": lang}) for lang, t in records]
    (tmp_path / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")
    with plainly():
        dedup(tmp_path, tmp_path / "out", config("en", format="jsonl", language="lang", files="a.jsonl"))
    assert [(r["record"], r["kept_id"]) for r in dropped(tmp_path / "out").to_pylist()] == [
        (2, f"a.jsonl@{len(lines[0]) + 1}"),
        (3, "a.jsonl@0"),
    ]


# --- against another corpus -------------------------------------------------------------------


@pytest.mark.parametrize("within", [True, False])
def test_what_another_corpus_holds_is_dropped(tmp_path: Path, within: bool) -> None:
    planted = plant(None, "zh", 120)
    corpus(tmp_path, planted.texts)
    originals = [a for a, _ in planted.exact[:10]]
    lines = [json.dumps({"body": planted.texts[i] + "！"}) for i in originals]
    (tmp_path / "test.jsonl").write_text("\n".join(lines), encoding="utf-8")
    against = AgainstConfig(files=["test.jsonl"], format="jsonl", text="body")
    with plainly():
        drops = dedup(tmp_path, tmp_path / "out", config(block_bytes=2048), against=against, within=within)
    found = gone(tmp_path / "out", planted.texts)
    theirs = {i for i, row in found.items() if row["kept_split"] is None}
    assert theirs == {i for pair in planted.exact[:10] for i in pair}
    assert all(found[i]["kept_id"].startswith("test.jsonl@") for i in theirs)
    others = set(found) - theirs
    assert others >= {b for _, b in planted.exact[10:]} if within else not others
    assert drops.result.splits["against"]["documents"] == 10 == drops.result.splits["against"]["kept"]
    assert list(drops.result.blocks) == ["train"]


def test_the_other_corpus_is_read_as_this_one_unless_said(tmp_path: Path) -> None:
    tagged = [{"tokens": ["北", "京"], "tags": ["B", "I"]}, {"tokens": ["上", "海"], "tags": ["B", "I"]}]
    for name, rows in (("a.jsonl", tagged), ("b.jsonl", tagged[1:])):
        (tmp_path / name).write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    settings = config(task="tag", format="jsonl", text="tokens", label="tags", files="a.jsonl")
    with plainly():
        dedup(tmp_path, tmp_path / "out", settings, against="b.jsonl")
    assert [r["record"] for r in dropped(tmp_path / "out").to_pylist()] == [1]


def test_another_corpus_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    corpus(tmp_path, ["一篇文章"])
    (tmp_path / "b.jsonl").write_text('{"text": "一篇文章"}\n', encoding="utf-8")
    wrong = AgainstConfig(files=["b.jsonl"], format="jsonl", text="body")
    with (
        plainly(),
        pytest.raises(RunError, match=r"dedup\.against: 1 of 1 records were rejected.*missing_text"),
    ):
        dedup(tmp_path, tmp_path / "out", against=wrong)
    with pytest.raises(ConfigError, match=r"dedup\.against\.files: no file matches 'c\.jsonl'"):
        dedup(tmp_path, tmp_path / "out", against="c.jsonl")
    with pytest.raises(ConfigError, match=r"dedup\.against: .*'document' is for format text"):
        dedup(
            tmp_path,
            tmp_path / "out",
            against=AgainstConfig(files=["b.jsonl"], format="jsonl", document="line"),
        )


# --- whoever does the work --------------------------------------------------------------------


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many")
    corpus(folder, plant(None, "zh", 400).texts)
    return folder


SMALL = config(block_bytes=8192)


def blocks_of(folder: Path) -> list[Block]:
    return plan_blocks(SMALL.input, str(folder), SMALL.run.block_bytes)


@pytest.fixture(scope="module")
def expected(many: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("expected")
    with plainly():
        drops = dedup(many, out, SMALL)
    assert len(drops.result.blocks["train"]) > 20
    assert drops.result.dropped.rows > 100
    assert sorted(content(out)) == ["dropped.arrow", "manifest.json", "report.json"]
    return content(out)


@pytest.mark.parametrize(
    "how",
    [
        {"workers": 1},
        {"workers": 2},
        pytest.param({"workers": 4}, marks=pytest.mark.heavy),
        {"runner": "BundleBasedDirectRunner"},
    ],
)
def test_workers_and_runners_change_no_byte(
    many: Path, expected: dict[str, bytes], tmp_path: Path, how: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runners, "_SMALL_BYTES", 0)
    dedup(many, tmp_path, SMALL, options(tmp_path, **how))
    assert content(tmp_path) == expected
    assert not list((tmp_path / "dedup/_work").glob("*ed"))


def start(many: Path, out: Path, hash_seed: int) -> subprocess.Popen:
    code = (
        "import sys; from pathlib import Path; from tests.pipelines.dedup.running import *;"
        "from tests.pipelines.dedup.test_dedup import SMALL;"
        "dedup(Path(sys.argv[1]), Path(sys.argv[2]), SMALL, options(Path(sys.argv[2]), workers=2))"
    )
    env = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "TREEGRAFT_SMALL_BYTES": "0"}
    return subprocess.Popen(
        [sys.executable, "-c", code, many, out], cwd=ROOT, env=env, start_new_session=True
    )


def test_killed_at_random_moments_a_rerun_finishes(
    many: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    dice, killed = random.Random(3), 0
    for attempt in range(2):
        process = start(many, tmp_path, attempt)
        time.sleep(2.5 + 1.5 * dice.random())
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            killed += 1
        process.wait()
        if (tmp_path / "dedup/manifest.json").exists():
            break
    assert killed
    assert start(many, tmp_path, 77).wait() == 0
    assert content(tmp_path) == expected
    assert not list(tmp_path.rglob(".tmp*"))


def test_finished_work_is_not_done_again_and_changed_work_not_used(many: Path, tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    shutil.copytree(many, source)
    with plainly():
        first = dedup(source, out, SMALL)
    stamp = (out / "dedup/dropped.arrow").stat().st_mtime_ns
    with plainly():
        assert dedup(source, out, SMALL).result == first.result
    assert (out / "dedup/dropped.arrow").stat().st_mtime_ns == stamp
    with plainly(), pytest.raises(RunError, match="--overwrite"):
        dedup(source, out, SMALL, threshold=0.9)
    body = (out / "dedup/dropped.arrow").read_bytes()
    (out / "dedup/dropped.arrow").write_bytes(body[:-1])
    with (
        plainly(),
        pytest.raises(RunError, match=r"dropped.arrow was changed after it was written.*--overwrite"),
    ):
        dedup(source, out, SMALL)
    with plainly():
        dedup(source, out, SMALL, options(out, overwrite=True))
    assert (out / "dedup/dropped.arrow").read_bytes() == body
    os.utime(source / "a.txt", (1, 1))
    with plainly(), pytest.raises(RunError, match="another config, code or input"):
        dedup(source, out, SMALL)
    (out / "dedup/manifest.json").write_text("{")
    with plainly(), pytest.raises(RunError, match="--overwrite"):
        dedup(source, out, SMALL)
    with plainly():
        dedup(source, out, SMALL, options(out, overwrite=True), threshold=0.9)


def test_another_filesystem_gets_the_same_bytes(
    many: Path,
    expected: dict[str, bytes],
    remote: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    out = f"{remote}/out"
    how = replace(options(tmp_path), out=out)
    with plainly():
        drops = dedup(many, out, SMALL, how)
        assert dedup(many, out, SMALL, how).result == drops.result
        dedup(many, out, SMALL, replace(how, overwrite=True), near=False)
        dedup(many, out, SMALL, replace(how, overwrite=True))
    assert {n: files.read_bytes(f"{out}/dedup/{n}") for n in expected} == expected
    lost = [len(rows) for b in blocks_of(many) if (rows := drops.of(b)._records) is not None]
    assert lost == drops.result.blocks["train"]


def test_a_file_that_changes_meanwhile_commits_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, process = corpus(tmp_path, ["一篇文章", "又一篇"]), sign.Sign.process

    def touching(*args: object) -> None:
        process(*args)
        os.utime(path, (1, 1))

    monkeypatch.setattr(sign.Sign, "process", touching)
    with plainly(), pytest.raises(RunError, match="was changed while the run read it"):
        dedup(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out/dedup/manifest.json").exists()


def test_unfinished_work_of_another_config_is_not_mixed_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["一篇长长的文章", "一篇长长的文章。", "又一篇"]
    corpus(tmp_path, texts)

    def fails(*_: object) -> None:
        raise ValueError("no more")

    with monkeypatch.context() as patch, plainly(), pytest.raises(RunError, match="no more"):
        patch.setattr(sign.Sign, "process", fails)
        dedup(tmp_path, tmp_path / "out")
    with plainly(), pytest.raises(RunError, match="unfinished run of another config"):
        dedup(tmp_path, tmp_path / "out", ngram=2)
    with plainly():
        dedup(tmp_path, tmp_path / "out", ngram=2, how=options(tmp_path / "out", overwrite=True))
    assert set(gone(tmp_path / "out", texts)) == {1}


# --- hostile ----------------------------------------------------------------------------------


def test_a_text_repeated_many_times_stays_linear(tmp_path: Path) -> None:
    count = 50_000
    texts = ["同一句话说了很多很多遍。"] * count
    corpus(tmp_path, texts)
    began = time.process_time()
    with plainly():
        drops = dedup(tmp_path, tmp_path / "out", config(block_bytes=1 << 18))
    assert time.process_time() - began < 20
    assert drops.result.splits["train"]["duplicates_exact"] == count - 1
    report = json.loads((tmp_path / "out/dedup/report.json").read_text(encoding="utf-8"))
    assert report["largest"][0]["dropped"] == count - 1


def test_a_template_filled_in_many_times_stays_linear(tmp_path: Path) -> None:
    """Near, not equal: every bucket is a crowd."""
    count, form = (
        3000,
        "尊敬的客户您好您的订单已经发出预计三天之内送达请注意查收谢谢您的惠顾欢迎再次光临本店编号",
    )
    texts = [f"{form}{n:06d}" for n in range(count)]
    corpus(tmp_path, texts)
    with plainly():
        drops = dedup(tmp_path, tmp_path / "out", config(block_bytes=1 << 16))
    assert drops.result.splits["train"]["duplicates_near"] == count - 1
    report = json.loads((tmp_path / "out/dedup/report.json").read_text(encoding="utf-8"))
    assert report["uncompared"] == 0


@pytest.mark.parametrize("text", ["好", "a"])
def test_texts_of_one_character(tmp_path: Path, text: str) -> None:
    texts = [text, "x", text, text.upper(), "y"]
    corpus(tmp_path, texts)
    with plainly():
        dedup(tmp_path, tmp_path / "out")
    assert set(gone(tmp_path / "out", texts)) == {2, 3}


def test_an_empty_corpus(tmp_path: Path) -> None:
    corpus(tmp_path, [])
    with plainly():
        drops = dedup(tmp_path, tmp_path / "out")
    assert drops.result.dropped.rows == 0
    assert isinstance(dropped(tmp_path / "out"), pa.Table)


@pytest.mark.heavy
def test_documents_of_64_megabytes(tmp_path: Path) -> None:
    dice = random.Random(1)
    text = "".join(chr(dice.randrange(0x4E00, 0x9000)) for _ in range(1000))
    long = "".join(text[i:] + text[:i] for i in (dice.randrange(1000) for _ in range(21_000)))
    texts = [long, long[:-500] + text[:500], long[::-1]]
    corpus(tmp_path, texts)
    with plainly():
        dedup(tmp_path, tmp_path / "out")
    assert set(gone(tmp_path / "out", texts)) == {1}
