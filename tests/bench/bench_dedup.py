"""Signing documents against one pass of hashing over their bytes, and against its own bare arithmetic.

One pass is BLAKE2b over each document, which finds equal texts and no others. Signing folds, hashes the whole
text, hashes shingles, makes sets of them and takes 70 minima of each: those multiplications and minima
alone, in a bare loop over as many numbers, are the second limit. Of English there are few shingles (of three
words) to much text, and folding is the larger part.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pipelines.dedup.hashing import constants, mix
from pipelines.dedup.minhash import Banding
from pipelines.dedup.signer import Signer

pytestmark = pytest.mark.bench

ROUNDS = 9


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


@pytest.mark.parametrize(
    ("language", "characters", "n", "bar"), [("zh", True, 5, 4.0), ("en", False, 3, 15.0)]
)
def test_signing_against_hashing(
    real_data: Path, language: str, characters: bool, n: int, bar: float
) -> None:
    """`bar`: how many times the bare multiplications and minima it may take."""
    if language == "zh":
        lines = (real_data / "clue/csl.jsonl").read_text(encoding="utf-8").split("\n")
        texts = [json.loads(line)["abst"] for line in lines if line][:1200]
    else:
        lines = (real_data / "ud/en_ewt/train.conllu").read_text(encoding="utf-8").split("\n")
        sentences = [line.removeprefix("# text = ") for line in lines if line.startswith("# text = ")]
        texts = [" ".join(sentences[i : i + 8]) for i in range(0, 8000, 8)]
    size = sum(len(text.encode()) for text in texts)
    banding = Banding.of(0.8)
    signer = Signer(language, banding, characters=characters, n=n)
    data = [text.encode() for text in texts]
    elements = int(signer.sign(texts).sets.offsets[-1])

    def one_pass() -> None:
        for document in data:
            hashlib.blake2b(document, digest_size=16).digest()

    values = mix(np.arange(elements // 32 * 32, dtype=np.uint64)).astype(np.uint32).reshape(32, -1)
    product = np.empty_like(values)

    def minima() -> None:
        for factor in constants(1, banding.permutations).astype(np.uint32):
            for at in range(0, values.shape[1], 1024):  # as much as the cache holds
                part = product[:, at : at + 1024]
                np.multiply(values[:, at : at + 1024], factor, out=part)
                np.minimum.reduce(part, axis=0)

    rounds = [
        (_seconds(lambda: signer.sign(texts)), _seconds(one_pass), _seconds(minima)) for _ in range(ROUNDS)
    ]
    sign, hashing, arithmetic = (statistics.median(column) for column in zip(*rounds, strict=True))
    print(
        f"\nsigning {language}: {size / sign / 1e6:.0f} MB/s of text; one pass of BLAKE2b is {sign / hashing:.1f} times, "
        f"the bare multiplications and minima {sign / arithmetic:.1f} times as fast"
    )
    assert sign / arithmetic < bar
