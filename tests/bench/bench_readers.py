"""How near reading comes to what Python can do at all.

Finding lines against bare `bytes.split` of data in memory, and whole records (decoded, checked, with ids
and offsets, as Arrow tables) in megabytes of file a second; one process, CPU time, best of some rounds.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corpora.layout import InputConfig
from corpora.readers.lines import read_lines
from tests.corpora.conftest import read_blocks

pytestmark = pytest.mark.bench

BAR_LINES = 4.0
"""Finding lines and their offsets may take this many times bare splitting."""
ROUNDS = 5


def _seconds(work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


@pytest.fixture(scope="module")
def folder(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real corpora, some times over: reviews, labelled sequences, abstracts, paragraphs."""
    out = tmp_path_factory.mktemp("bench")
    for name in ("chnsenticorp", "medical_ner"):
        header, body = (real_data / f"kbert/{name}/train.tsv").read_bytes().split(b"\n", 1)
        (out / f"{name}.tsv").write_bytes(header + b"\n" + body * 5)
    abstracts = (real_data / "clue/csl.jsonl").read_bytes()
    (out / "csl.jsonl").write_bytes(abstracts * 5)
    texts = [json.loads(line)["abst"] for line in abstracts.splitlines()]
    (out / "csl.txt").write_text("\n\n".join(texts * 5), encoding="utf-8")
    return out


@pytest.mark.parametrize("name", ["chnsenticorp.tsv", "medical_ner.tsv", "csl.jsonl", "csl.txt"])
def test_lines_against_bare_split(folder: Path, name: str) -> None:
    data = (folder / name).read_bytes()

    def ours() -> None:
        for _ in read_lines(io.BytesIO(data), 0, None):
            pass

    def bare() -> None:
        for at in range(0, len(data), 1 << 20):
            data[at : at + (1 << 20)].split(b"\n")

    ratio = _seconds(ours) / _seconds(bare)
    print(f"\n{name}: lines with offsets take {ratio:.1f} times bare split")
    assert ratio < BAR_LINES


@pytest.mark.parametrize(
    ("name", "task", "layout"),
    [
        ("chnsenticorp.tsv", "classify", {"format": "tsv", "text": "text_a", "label": "label"}),
        ("medical_ner.tsv", "tag", {"format": "tsv", "text": "text_a", "label": "label"}),
        ("csl.jsonl", "classify", {"format": "jsonl", "text": "abst", "label": "label"}),
        ("csl.txt", "pretrain", {"format": "text"}),
    ],
)
def test_records(folder: Path, name: str, task: str, layout: dict[str, Any]) -> None:
    config = InputConfig(files={"train": [name]}, **layout)
    size = (folder / name).stat().st_size
    rows = 0

    def work() -> None:
        nonlocal rows
        rows = sum(table.num_rows for table in read_blocks(config, folder, task, "zh", 8 << 20, 8 << 20))

    seconds = _seconds(work)
    print(f"\n{name}: {size / 1e6 / seconds:.0f} MB/s, {seconds / rows * 1e6:.1f} microseconds a record")
    assert rows
