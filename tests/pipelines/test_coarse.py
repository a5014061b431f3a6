from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipelines.config import ConfigError
from pipelines.encode import coarse as module
from pipelines.encode.coarse import CoarseVocabulary
from pipelines.encode.source import Texts, Words
from pipelines.encode.tokenizer import load_tokenizer
from pipelines.ragged import bounds
from tests.pipelines.annotated import SAMPLES

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
BERT = load_tokenizer(str(SAMPLES / "vocab.txt"))


def vocabulary(folder: Path, *words: str) -> CoarseVocabulary:
    (folder / "coarse.txt").write_text("\n".join([*SPECIALS, *words]) + "\n", encoding="utf-8")
    return CoarseVocabulary("coarse.txt", str(folder / "config.yaml"), BERT)


def look_up(coarse: CoarseVocabulary, *texts: list[str]) -> list[int]:
    """Ids of the words of texts, each text its words end to end."""
    lengths = [[len(w) for w in words] for words in texts]
    offsets = bounds([len(words) for words in texts])
    starts = np.concatenate([bounds(own)[:-1] for own in lengths])
    stops = np.concatenate([bounds(own)[1:] for own in lengths])
    strings = ["".join(words) for words in texts]
    words = Words(offsets, starts, stops, np.zeros(len(starts), np.int64), None, None)
    return coarse.look_up(Texts(strings, bounds([len(s) for s in strings])), words).tolist()


def test_words_are_compared_as_the_tokenizer_compares_text(tmp_path: Path) -> None:
    coarse = vocabulary(tmp_path, "北京", "café", "Apple", "apple", "好")
    assert look_up(coarse, ["北京", "Cafe", "天"], [], ["APPLE", "好", "北"]) == [5, 6, 1, 7, 9, 1]


def test_c18_no_word_is_a_special_token(tmp_path: Path) -> None:
    assert look_up(vocabulary(tmp_path, "好"), ["[MASK]", "[SEP]", "[PAD]", "好"]) == [1, 1, 1, 5]


def test_unique_words_do_not_fill_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CACHE_WORDS", 10)
    coarse = vocabulary(tmp_path, "好")
    for i in range(50):
        assert look_up(coarse, [f"w{i}", "好"]) == [1, 5]
        assert len(coarse._seen) <= 12


def test_bad_vocabularies_name_the_field(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"encode\.coarse\.vocab: file .*none\.txt does not exist"):
        CoarseVocabulary("none.txt", str(tmp_path / "config.yaml"), BERT)
    (tmp_path / "coarse.txt").write_text("好\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"encode\.coarse\.vocab: .* lacks the special tokens"):
        CoarseVocabulary(str(tmp_path / "coarse.txt"), "", BERT)
