"""Choosing and scoring candidates against KenLM's own calls for the same words, in one bare loop."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import kenlm
import numpy as np
import pyarrow as pa
import pytest

from corpora.shards import MAX_BATCH_ROWS
from pipelines.ngrams.by_range import FREQUENT_NGRAMS
from pipelines.ngrams.tokens import words_of
from pipelines.phrases.candidates import WordRules, candidates
from pipelines.phrases.model import Model
from tests.pipelines.ngrams.test_estimate import model

pytestmark = pytest.mark.bench

ROUNDS = 5


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def test_scoring_against_bare_calls(real_data: Path, tmp_path: Path) -> None:
    text = (real_data / "ud/en_ewt/train.conllu").read_text(encoding="utf-8").lower().split("\n")
    lines = [line.removeprefix("# text = ") for line in text if line.startswith("# text = ")]
    path = tmp_path / "model.arpa"
    path.write_bytes(b"".join(model(lines, 3).arpa()))
    scorer, bare = Model(str(path)), kenlm.Model(str(path))
    encoded = words_of(pa.array(lines)).words.dictionary_encode()
    ids, vocabulary = encoded.indices.to_numpy(), encoded.dictionary
    grams = np.stack([ids[:-2], ids[1:-1], ids[2:]], axis=1).astype(np.uint32)
    rows = [
        pa.array(list(grams)),
        pa.array(np.ones(len(grams), np.uint64)),
        pa.nulls(len(grams), pa.float32()),
    ]
    arrays = [row.cast(field.type) for row, field in zip(rows, FREQUENT_NGRAMS, strict=True)]
    batches = pa.Table.from_arrays(arrays, schema=FREQUENT_NGRAMS).to_batches(max_chunksize=MAX_BATCH_ROWS)
    rules = WordRules(vocabulary, "any", [], None)
    words = [[vocabulary[i].as_py() for i in gram] for gram in grams.tolist()]

    def ours() -> None:
        assert sum(len(c.counts) for c in candidates(batches, vocabulary, rules, scorer, Counter())) == len(
            grams
        )

    def calls() -> None:
        empty, first, second, last = (kenlm.State() for _ in range(4))
        bare.NullContextWrite(empty)
        score = bare.BaseScore
        for a, b, c in words:
            score(empty, a, first)
            score(first, b, second)
            score(second, c, last)

    times = [(_seconds(ours), _seconds(calls)) for _ in range(ROUNDS)]
    mine, limit = (statistics.median(column) for column in zip(*times, strict=True))
    print(
        f"\n{len(grams):,} trigrams: {len(grams) / mine:,.0f} a second; {mine / limit:.2f} times the bare calls"
    )
