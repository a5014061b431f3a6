"""Memory of a process that annotates for long: flat after the first tenth, whatever words there are.

Short sentences of real treebanks and reviews, English and Chinese in turns, again and again; into each goes one word
that no other has, so that a vocabulary that is never freed would grow by all of them. The stage runs as
in a worker: block after block, shards written. `SENTENCES` in the environment sets how many (default 100,000;
a million takes a quarter of an hour of a core).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from corpora.conllu import read_conllu
from corpora.plan import plan_blocks
from pipelines.annotate.stage import Annotate
from pipelines.config import Config
from pipelines.engine import Run, run_block

pytestmark = pytest.mark.bench

BAR = 1.10
"""Resident memory at the end against that after the first tenth."""
BLOCK_BYTES = 1 << 18
PER_DOCUMENT = 20  # sentences
LONGEST = {"en": 3, "zh": 4}  # words, characters


def short_sentences(language: str, real_data: Path) -> list[str]:
    """Real ones, each once."""
    if language == "en":
        found = (
            s.text for s in read_conllu(real_data / "ud/en_ewt/dev.conllu") if len(s.forms) <= LONGEST["en"]
        )
        return sorted({text for text in found if text[-1] in ".!?"})
    lines = (real_data / "kbert/chnsenticorp/dev.tsv").read_text(encoding="utf-8").split("\n")[1:]
    clauses = {clause for line in lines if "\t" in line for clause in line.split("\t")[1].split("。")}
    return sorted(
        clause + "。" for clause in clauses if 2 <= len(clause) <= LONGEST["zh"] and not clause.isascii()
    )


def rare(number: int, language: str) -> str:
    """A word of its own for each number: Latin letters and digits, or three Chinese characters."""
    if language == "en":
        return f"Z{number * 7919:x}q"
    return "".join(chr(0x4E00 + number // 20_000**i % 20_000) for i in (0, 1)) + chr(
        0x4E00 + number * 7919 % 20_000
    )


def write_corpus(path: Path, sentences: int, real_data: Path) -> None:
    known = {language: short_sentences(language, real_data) for language in ("en", "zh")}
    with path.open("w", encoding="utf-8") as file:
        for first in range(0, sentences, PER_DOCUMENT):
            language = ("en", "zh")[first // PER_DOCUMENT % 2]
            some = known[language]
            texts = [
                rare(n, language) + (" " if language == "en" else "，") + some[n * 31 % len(some)]
                for n in range(first, first + PER_DOCUMENT)
            ]
            text = (" " if language == "en" else "").join(texts)
            file.write(json.dumps({"text": text, "language": language}, ensure_ascii=False) + "\n")


def resident() -> float:
    """MiB of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def run(corpus: Path, out: Path) -> Iterator[tuple[int, int, float]]:
    """Annotate the corpus in this process: sentences, words and resident MiB after each block."""
    body = {
        "task": "pretrain",
        "language": "en",
        "input": {"format": "jsonl", "files": [str(corpus)], "language": "language"},
        "annotate": {"sentences": "rules"},
        "encode": {"tokenizer": "x", "columns": []},
    }
    config = Config.model_validate(body)
    stage = Annotate(config, str(corpus))
    blocks = plan_blocks(config.input, str(corpus.parent), BLOCK_BYTES)
    Run(stage, blocks, str(out)).prepare()
    stage.setup()
    sentences = words = 0
    for block in blocks:
        record = run_block(stage, block, str(out), lambda totals: None)
        (out / block.shard_name).unlink()
        sentences += record.counters["sentences"]
        words += record.counters["words"]
        yield sentences, words, resident()


def main(folder: Path) -> None:
    """Annotate `corpus.jsonl` of a folder, and print what `run` says as JSON lines."""
    for found in run(folder / "corpus.jsonl", folder / "out"):
        print(json.dumps(found), flush=True)


def test_memory_is_flat_after_the_first_tenth(real_data: Path, tmp_path: Path) -> None:
    sentences = int(os.environ.get("SENTENCES", "100_000"))
    write_corpus(tmp_path / "corpus.jsonl", sentences, real_data)
    script = "import sys; from pathlib import Path; from tests.bench import bench_annotate_memory as b; b.main(Path(sys.argv[1]))"
    command = [sys.executable, "-W", "ignore", "-c", script, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    seen = [json.loads(line) for line in done.stdout.splitlines()]
    total = seen[-1][0]
    assert total >= sentences
    at = {
        share: next(mib for count, _, mib in seen if count >= share * total)
        for share in (0.1, 0.25, 0.5, 0.75, 1.0)
    }
    told = ", ".join(f"{share:.0%} {mib:.0f}" for share, mib in at.items())
    print(f"\nannotate, {total:,} sentences, {seen[-1][1]:,} words: resident MiB at {told} (bar {BAR})")
    assert max(mib for count, _, mib in seen if count >= 0.1 * total) < BAR * at[0.1]
