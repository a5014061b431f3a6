from __future__ import annotations

from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines import slices as slices_module
from pipelines.config import ConfigError
from pipelines.encode import coarse as module
from pipelines.encode.coarse import LACKING, CoarseVocabulary
from pipelines.encode.tokenizer import load_tokenizer
from pipelines.phrases.lexicon import PhraseLexicon
from pipelines.ragged import bounds
from pipelines.slices import slices
from tests.pipelines.annotated import SAMPLES

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
BERT = load_tokenizer(str(SAMPLES / "vocab.txt"))


def vocabulary(folder: Path, *words: str) -> CoarseVocabulary:
    (folder / "coarse.txt").write_text("\n".join([*SPECIALS, *words]) + "\n", encoding="utf-8")
    return CoarseVocabulary("coarse.txt", str(folder / "config.yaml"), BERT)


def test_words_are_compared_as_the_tokenizer_compares_text(tmp_path: Path) -> None:
    coarse = vocabulary(tmp_path, "北京", "café", "Apple", "apple", "好")
    words = ["北京", "Cafe", "天", "APPLE", "好", "北", "好"]
    assert coarse.look_up(words).tolist() == [5, 6, LACKING, 7, 9, LACKING, 9]


def test_c18_no_word_is_a_special_token(tmp_path: Path) -> None:
    assert vocabulary(tmp_path, "好").look_up(["[MASK]", "[SEP]", "[PAD]", "好"]).tolist() == [-1, -1, -1, 5]


def test_pieces_are_fine_tokens_by_their_strings_and_no_words(tmp_path: Path) -> None:
    coarse = vocabulary(tmp_path, "##s", "##", "The", "the", "北", "[unused]")
    ids = {BERT.surface(i): coarse.pieces[i] for i in range(BERT.vocab_size)}
    assert {token: i for token, i in ids.items() if i != LACKING} == {"##s": 5, "the": 7, "北": 9}
    assert coarse.look_up(["##s", "##", "s"]).tolist() == [LACKING, 6, LACKING]


def test_phrases_are_entries_with_a_space(tmp_path: Path) -> None:
    coarse = vocabulary(tmp_path, "New York", "##s of")
    lexicon = PhraseLexicon([("new", "york"), ("york", "new"), ("##s", "of")], BERT.normalize)
    assert coarse.look_up_phrases(lexicon).tolist() == [5, LACKING, 6]
    assert coarse.look_up(["new york", "new"]).tolist() == [5, LACKING]  # a word that holds a space


@given(
    st.lists(
        st.lists(st.sampled_from(["a", "é", "北京", "👨", " ", "\u0301"]), max_size=8).map("".join),
        max_size=5,
    ),
    st.data(),
)
def test_slices_equal_slices(texts: list[str], data: st.DataObject) -> None:
    spans = [
        [(data.draw(st.integers(0, len(t))), data.draw(st.integers(0, len(t)))) for _ in range(3)]
        for t in texts
    ]
    flat = np.array([sorted(span) for own in spans for span in own], np.int64).reshape(-1, 2)
    with mock.patch.object(slices_module, "_STRIDE", 2):
        found = slices(texts, bounds([3] * len(texts)), flat[:, 0], flat[:, 1])
    expected = [t[min(span) : max(span)] for t, own in zip(texts, spans, strict=True) for span in own]
    assert found.to_pylist() == expected


def test_unique_words_do_not_fill_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CACHE_WORDS", 10)
    coarse = vocabulary(tmp_path, "好")
    for i in range(50):
        assert coarse.look_up([f"w{i}", "好"]).tolist() == [-1, 5]
        assert len(coarse._seen) <= 12


def test_bad_vocabularies_name_the_field(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"encode\.coarse\.vocab: file .*none\.txt does not exist; `treegraft vocab"
    ):
        CoarseVocabulary("none.txt", str(tmp_path / "config.yaml"), BERT)
    (tmp_path / "coarse.txt").write_text("好\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"encode\.coarse\.vocab: .* lacks the special tokens"):
        CoarseVocabulary(str(tmp_path / "coarse.txt"), "", BERT)
