"""The large road gives the very bytes of the small one: for any blocks, ranges and workers."""

from __future__ import annotations

import gzip
import math
import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from corpora.blocks import Block, Part
from pipelines import engine, runners
from pipelines.ngrams import by_block, source
from pipelines.ngrams.count import LEFT_OUT
from pipelines.ngrams.discounts import FALLBACK, DiscountError
from pipelines.ngrams.flow import Estimation
from pipelines.ngrams.keys import Packing
from pipelines.ngrams.source import Lines
from pipelines.ngrams.tokens import number
from tests.pipelines.ngrams import slow
from tests.pipelines.ngrams.test_estimate import model


def heavy(*values):
    """Starting processes takes seconds."""
    return pytest.param(*values, marks=pytest.mark.heavy)


def corpus(seed: int, sentences: int = 300) -> list[str]:
    """Sentences of words as uneven as those of a language, with empty ones and special symbols."""
    rng = random.Random(seed)
    words = ["<s>", "</s>", "<UNK>", "中文", "a\u00a0b", "x\u3000", "é"] + [f"w{i}" for i in range(200)]
    return [
        " ".join(
            words[
                min(int(rng.paretovariate(0.7)) + 2, len(words) - 1)
                if rng.random() < 0.98
                else rng.randrange(7)
            ]
            for _ in range(rng.choice([0, 1, 3, 8, 20]))
        )
        for _ in range(sentences)
    ]


def estimation(tmp_path: Path, lines: list[str], blocks: int, name: str = "work", **more) -> Estimation:
    path = tmp_path / "text.txt"
    path.write_bytes("".join(line + "\n" for line in lines).encode())
    size = path.stat().st_size
    edges = [size * i // blocks for i in range(blocks + 1)]
    parts = [
        Block("text", i, blocks, (Part(str(path), "text.txt", low, high),), high - low)
        for i, (low, high) in enumerate(pairwise(edges))
    ]
    return Estimation(Lines(), parts, str(tmp_path / name), **{"fallback": FALLBACK, **more})


def execute(title: str, run: engine.Run) -> list[engine.BlockRecord]:
    """Without Beam, which takes longer to start than these blocks do."""
    run.stage.setup()
    for block in run.pending():
        engine.run_block(run.stage, block, run.out, lambda counters: None)
    return run.collect()


@pytest.mark.parametrize(
    ("order", "prune", "blocks", "range_rows"),
    [(2, (), 1, 4096), (3, (), 5, 300), (3, (0, 0, 1), 3, 64), (4, (0, 1), 2, 500), (5, (1, 1, 2), 4, 200)],
)
def test_the_large_road_gives_the_bytes_of_the_small_one(tmp_path, order, prune, blocks, range_rows):
    lines = corpus(order)
    job = estimation(tmp_path, lines, blocks, order=order, prune=prune, range_rows=range_rows)
    target = tmp_path / "model.arpa"
    found = job.run(str(target), execute)
    wanted = model(lines, order, prune)
    assert target.read_bytes() == b"".join(wanted.arpa())
    assert found.discounts == [a[1:].tolist() for a in wanted.discounts.amounts]
    assert found.fell_back == wanted.discounts.fell_back
    assert found.ngrams == [len(o.probabilities) for o in wanted.orders]
    assert all(all_of >= kept for all_of, kept in zip(found.counted, found.ngrams, strict=True))
    kept = [w for line in lines for w in line.replace("\t", " ").split(" ") if w]
    special = sum(w in LEFT_OUT for w in kept)
    assert found.sentences == len(lines)
    assert (found.words, found.special_words) == (len(kept) - special, special)
    assert found.vocabulary == len(wanted.words)
    if blocks > 1:
        assert len(list((tmp_path / "work" / "adjust").glob("*.arrow"))) > 1


@pytest.mark.parametrize(("order", "bits"), [(3, 30), (5, 30), (4, 20)])
def test_keys_of_several_columns_give_the_same_bytes(tmp_path, monkeypatch, order, bits):
    """As millions of words have."""
    lines = corpus(order)
    wanted = b"".join(model(lines, order).arpa())
    monkeypatch.setattr(Packing, "of", classmethod(lambda cls, words: cls(bits)))
    job = estimation(tmp_path, lines, 3, order=order, longest=order, min_count=3, range_rows=300)
    target = tmp_path / "model.arpa"
    job.run(str(target), execute)
    assert target.read_bytes() == wanted
    assert {len(words) for batch in job.frequent() for words in batch["words"].to_pylist()} >= {2, 3}


@pytest.mark.parametrize(
    ("order", "prune", "longest", "min_count"),
    [(2, (), 2, 1), (3, (), 3, 4), (3, (0, 2), 3, 2), (4, (), 3, 1), (5, (0, 0, 1), 5, 3)],
)
def test_frequent_ngrams_are_those_of_a_slow_count(tmp_path, order, prune, longest, min_count):
    lines = corpus(order + longest)
    job = estimation(
        tmp_path, lines, 3, order=order, prune=prune, longest=longest, min_count=min_count, range_rows=200
    )
    target = tmp_path / "model.arpa"
    job.run(str(target), execute)
    words = job.vocabulary().to_pylist()
    counts: Counter[tuple[str, ...]] = Counter()
    for line in lines:
        sentence = [w for w in line.split(" ") if w and w not in LEFT_OUT]
        for k in range(2, longest + 1):
            counts.update(zip(*(sentence[i:] for i in range(k)), strict=False))
    wanted = {gram: count for gram, count in counts.items() if count >= min_count}
    rows = [row for batch in job.frequent() for row in batch.to_pylist()]
    found = {tuple(words[i] for i in row["words"]): row for row in rows}
    assert len(found) == len(rows) > 20
    assert {gram: row["count"] for gram, row in found.items()} == wanted
    model_says = slow.read_arpa(str(target))
    for gram, row in found.items():
        if row["probability"] is None:
            assert gram not in model_says[len(gram) - 1]
        else:
            log = model_says[len(gram) - 1][gram][0]
            assert math.log10(row["probability"]) == pytest.approx(log, abs=1e-6)
    assert any(row["probability"] is None for row in rows) == (prune != () and min_count <= prune[-1])
    job.clear()
    assert not (tmp_path / "work").exists()
    with pytest.raises(RuntimeError, match="removed"):
        job.vocabulary()


def test_what_is_longer_than_the_order_is_not_counted(tmp_path):
    with pytest.raises(ValueError, match=r"longest: expected at most the order, 3, found 4"):
        estimation(tmp_path, ["a"], 1, order=3, longest=4).run(str(tmp_path / "m"), execute)


@pytest.mark.parametrize("lines", [[], [""], ["a"], ["a"] * 9, ["<s>"]])
def test_odd_corpora(tmp_path, lines):
    target = tmp_path / "model.arpa"
    estimation(tmp_path, lines, 2, order=3).run(str(target), execute)
    assert target.read_bytes() == b"".join(model(lines, 3).arpa())
    other = estimation(tmp_path, lines, 2, "other", order=3, fallback=None)
    if "a" in lines:
        with pytest.raises(DiscountError, match="cannot be estimated"):
            other.run(str(target), execute)
    else:
        assert other.run(str(target), execute).fell_back == [1, 2, 3]


def test_a_run_that_died_goes_on(tmp_path):
    lines = corpus(7)
    target = tmp_path / "model.arpa"
    started: list[str] = []

    def dying(title: str, run: engine.Run) -> list[engine.BlockRecord]:
        started.append(title)
        if title == "weigh" and started.count("weigh") == 1:
            run.stage.setup()
            engine.run_block(run.stage, run.blocks[0], run.out, lambda counters: None)
            raise KeyboardInterrupt
        if len(started) > 5:
            assert title in ("weigh", "interpolate") or not run.pending()
            assert title != "weigh" or len(run.pending()) == len(run.blocks) - 1
        return execute(title, run)

    with pytest.raises(KeyboardInterrupt):
        estimation(tmp_path, lines, 4, order=3, range_rows=300).run(str(target), dying)
    assert not target.exists()
    estimation(tmp_path, lines, 4, order=3, range_rows=300).run(str(target), dying)
    assert target.read_bytes() == b"".join(model(lines, 3).arpa())


def test_a_byte_order_mark_is_no_part_of_a_word(tmp_path):
    lines = ["a b", "a c", "b", "a \ufeff"]
    target = tmp_path / "model.arpa"
    estimation(tmp_path, ["\ufeff" + lines[0], *lines[1:]], 2, order=2).run(str(target), execute)
    assert target.read_bytes() == b"".join(model(lines, 2).arpa())


def test_bytes_that_are_no_text(tmp_path):
    job = estimation(tmp_path, ["good", "bb d"], 1, order=2)
    (tmp_path / "text.txt").write_bytes(b"good\nb\xff d\n")
    with pytest.raises(engine.RunError, match=r"text\.txt: expected UTF-8, found other bytes at byte 6"):
        job.run(str(tmp_path / "model.arpa"), execute)


def test_windows_of_a_block_change_nothing(tmp_path, monkeypatch):
    """A huge compressed file is one block; what a worker holds of it at a time is bounded."""
    monkeypatch.setattr(source, "_STEP", 300)
    monkeypatch.setattr(by_block, "WINDOW_WORDS", 100)
    sizes: list[int] = []

    def spy(some, stand_in):
        sizes.append(sum(len(words.words) for words in some))
        return number(some, stand_in)

    monkeypatch.setattr(by_block, "number", spy)
    lines = corpus(5)
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    part = Part(str(path), "text.txt.gz", 0, None)
    blocks = [Block("text", i, 2, (part,), path.stat().st_size) for i in range(2)]
    job = Estimation(Lines(), blocks, str(tmp_path / "work"), order=3, fallback=FALLBACK)
    target = tmp_path / "model.arpa"
    found = job.run(str(target), execute)
    assert target.read_bytes() == b"".join(model(lines * 2, 3).arpa())
    assert found.sentences == 600
    assert len(sizes) > 20
    assert max(sizes) < 300


def test_a_file_without_line_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "_STEP", 100)
    monkeypatch.setattr(source, "LONGEST", 1000)
    for blocks in (1, 2):
        job = estimation(tmp_path, ["a b", "c " * 1400], blocks, f"{blocks}", order=2)
        with pytest.raises(
            engine.RunError, match=r"text\.txt: expected sentences of at most 1,000 bytes.*split"
        ):
            job.run(str(tmp_path / "model.arpa"), execute)
    longest = "c " * 549  # with what was read before it
    job = estimation(tmp_path, [longest], 1, "passes", order=2)
    assert job.run(str(tmp_path / "model.arpa"), execute).words == 549


@pytest.mark.parametrize("order", [0, 1, 6])
def test_orders_that_there_are_not(tmp_path, order):
    with pytest.raises(ValueError, match="expected 2, 3, 4 or 5"):
        estimation(tmp_path, ["a"], 1, order=order).run(str(tmp_path / "m"), execute)


@pytest.mark.parametrize(("workers", "seed"), [(2, "1"), heavy(1, "2"), heavy(4, "random")])
def test_worker_processes_give_the_same_bytes(tmp_path, monkeypatch, workers, seed):
    monkeypatch.setattr(runners, "_SMALL_BYTES", 0)
    monkeypatch.setenv("PYTHONHASHSEED", seed)  # of the processes that start now
    runners.stop_workers()
    lines = corpus(11)
    target = tmp_path / "model.arpa"
    job = estimation(tmp_path, lines, 5, order=3, range_rows=500)
    job.run(str(target), lambda title, run: runners.execute(run, workers=workers))
    runners.stop_workers()
    assert target.read_bytes() == b"".join(model(lines, 3).arpa())
