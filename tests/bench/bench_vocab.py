"""Counting words against `tokenizers` cutting the same texts, and training from counts against training from texts.

`tokenizers` is asked for every text here, as its own training does, and its pieces counted in Python. Fed from counts,
its trainer reads each word as often as it occurs, but finds them cut and lower-cased already.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.trainers import WordPieceTrainer

from pipelines.vocab.pretokens import PreTokens
from pipelines.vocab.wordpiece import alphabet, character_forms, train

pytestmark = pytest.mark.bench

ROUNDS = 5


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _texts(real_data: Path, language: str) -> list[str]:
    if language == "zh":
        lines = (real_data / "kbert/chnsenticorp/train.tsv").read_text(encoding="utf-8").split("\n")[1:]
        return [line.split("\t")[1] for line in lines if "\t" in line]
    lines = (real_data / "ud/en_ewt/train.conllu").read_text(encoding="utf-8").split("\n")
    return [line.removeprefix("# text = ") for line in lines if line.startswith("# text = ")]


def _tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = BertNormalizer(), BertPreTokenizer()
    return tokenizer


@pytest.mark.parametrize("language", ["zh", "en"])
def test_counting_against_tokenizers(real_data: Path, language: str) -> None:
    texts = _texts(real_data, language)
    array, tokenizer = pa.array(texts), _tokenizer()

    def bare() -> Counter[str]:
        counts: Counter[str] = Counter()
        for text in texts:
            normal = tokenizer.normalizer.normalize_str(text)
            counts.update(word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normal))
        return counts

    found = PreTokens(lowercase=True).count(array)
    assert dict(zip(found.texts.to_pylist(), found.counts.tolist(), strict=True)) == bare()
    ratios = [
        _seconds(lambda: PreTokens(lowercase=True).count(array)) / _seconds(bare) for _ in range(ROUNDS)
    ]
    size = sum(map(len, texts)) / 1e6
    print(
        f"\n{language}, {size:.1f} million characters: {statistics.median(ratios):.2f} of the time of tokenizers"
    )


@pytest.mark.parametrize("language", ["zh", "en"])
def test_training_from_counts_against_training_from_texts(real_data: Path, language: str) -> None:
    texts = _texts(real_data, language)
    found = PreTokens(lowercase=True).count(pa.array(texts))
    counts = dict(zip(found.texts.to_pylist(), found.counts.tolist(), strict=True))
    characters = alphabet(character_forms(counts), lowercase=True)
    size = len(characters.forms()) + 3000

    def bare() -> None:
        trainer = WordPieceTrainer(vocab_size=size, min_frequency=2, show_progress=False)
        _tokenizer().train_from_iterator(texts, trainer)

    ratios = [_seconds(lambda: train(counts, characters, size, 2)) / _seconds(bare) for _ in range(ROUNDS)]
    print(
        f"\n{language}, {sum(counts.values()):,} words: {statistics.median(ratios):.2f} of the time from texts"
    )
