"""What counting and estimating a model costs, beside KenLM's `lmplz` on the same text and order: CPU seconds of all
processes together, so that other work on the machine tells little.

    python -m tests.bench.ngrams --words 10000000 100000000 --lmplz .../bin/lmplz --work /tmp/ngrams

`lmplz` is built from KenLM's sources (cmake; Boost); without it, its columns stay empty. The text is that of
`tests/bench/ngram_corpus.py`. Peak memory is that of the largest process.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from corpora.blocks import Block, Part
from pipelines import runners
from pipelines.ngrams.discounts import FALLBACK
from pipelines.ngrams.flow import Estimation
from pipelines.ngrams.source import Lines
from tests.bench.ngram_corpus import write_corpus

BLOCK_BYTES = 16 << 20


class Cost(NamedTuple):
    cpu: float
    """Seconds, user and system, with all that the process waited for."""
    peak: int
    """Bytes of the largest process."""


def measure(command: list[str], text: Path | None = None) -> Cost:
    with (text or Path(os.devnull)).open("rb") as source:
        process = subprocess.Popen(command, stdin=source, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def estimate(text: Path, model: Path, order: int, workers: int) -> None:
    """The large road over a file of lines."""
    size = text.stat().st_size
    count = -(-size // BLOCK_BYTES)
    edges = [size * i // count for i in range(count + 1)]
    blocks = [
        Block("text", i, count, (Part(str(text), text.name, low, high),), high - low)
        for i, (low, high) in enumerate(pairwise(edges))
    ]
    work = model.with_suffix(".work")
    shutil.rmtree(work, ignore_errors=True)
    job = Estimation(Lines(), blocks, str(work), order=order, fallback=FALLBACK)
    job.run(str(model), lambda title, run: runners.execute(run, workers=workers))
    runners.stop_workers()
    job.clear()


def header(model: Path) -> list[bytes]:
    """How many n-grams of each order an ARPA file says that it has."""
    with model.open("rb") as file:
        return [line for line in (file.readline() for _ in range(8)) if line.startswith(b"ngram ")]


def largest_difference(model: Path, other: Path) -> float:
    """Of a log10 probability or back-off, in files that must have the same n-grams in the same order."""
    largest = 0.0
    with model.open("rb") as one, other.open("rb") as two:
        for line, wanted in zip(one, two, strict=True):
            if line != wanted:
                gram, theirs = line.split(b"\t"), wanted.split(b"\t")
                assert gram[1].rstrip() == theirs[1].rstrip() and len(gram) == len(theirs), (line, wanted)
                for at in (0, 2)[: len(gram) - 1]:
                    largest = max(largest, abs(float(gram[at]) - float(theirs[at])))
    return largest


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--words", type=int, nargs="+", default=[10_000_000])
    parser.add_argument("--order", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--lmplz", type=Path)
    parser.add_argument("--compare", action="store_true", help="the two models, too, number by number")
    parser.add_argument("--work", type=Path, default=Path("/tmp/treegraft-ngrams"))
    parser.add_argument("--only", nargs=2, type=Path, metavar=("TEXT", "MODEL"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only:
        text, model = args.only
        estimate(text, model, args.order, args.workers)
        return
    args.work.mkdir(parents=True, exist_ok=True)
    columns = "words", "CPU s", "µs/word", "lmplz CPU s", "ratio", "peak MB", "lmplz peak MB", "n-grams"
    print(" | ".join(columns), flush=True)
    for words in args.words:
        text, model = args.work / f"{words}.txt", args.work / f"{words}.arpa"
        if not text.exists():
            write_corpus(text, words)
        options = ["--order", str(args.order), "--workers", str(args.workers)]
        mine = measure(
            [sys.executable, "-m", "tests.bench.ngrams", *options, "--only", str(text), str(model)]
        )
        counts = header(model)
        theirs = None
        if args.lmplz:
            other = model.with_suffix(".lmplz.arpa")
            command = [str(args.lmplz), "-o", str(args.order), "-S", "2G", "-T", f"{args.work}/"]
            theirs = measure([*command, "--skip_symbols", "--discount_fallback", "--arpa", str(other)], text)
            assert header(other) == counts, (header(other), counts)
        row = [
            f"{words:,}",
            f"{mine.cpu:.1f}",
            f"{mine.cpu / words * 1e6:.2f}",
            f"{theirs.cpu:.1f}" if theirs else "",
            f"{mine.cpu / theirs.cpu:.2f}" if theirs else "",
            f"{mine.peak / 1e6:.0f}",
            f"{theirs.peak / 1e6:.0f}" if theirs else "",
            " ".join(line.decode().split("=")[1].strip() for line in counts),
        ]
        print(" | ".join(row), flush=True)
        if theirs and args.compare:
            print(f"largest difference of a log10: {largest_difference(model, other):.1e}", flush=True)


if __name__ == "__main__":
    main()
