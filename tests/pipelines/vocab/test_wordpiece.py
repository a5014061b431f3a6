"""Training repeats itself, whatever the order of words, and learns nothing of characters without an entry."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordPiece

from pipelines.vocab import wordpiece
from pipelines.vocab.wordpiece import SPECIALS, alphabet, character_forms, train


def words(seed: int, count: int = 400) -> dict[str, int]:
    rng = random.Random(seed)
    made = ("".join(rng.choices("aeioubcdé中", k=rng.randint(1, 7))) for _ in range(count))
    return {word: rng.randint(1, 30) for word in made}


def vocabulary(counts: dict[str, int], size: int = 300, **more) -> wordpiece.Trained:
    characters = alphabet(character_forms(counts), lowercase=True)
    return train(counts, characters, size, 2, **more)


@settings(deadline=None, max_examples=20)
@given(st.randoms(use_true_random=False))
def test_the_order_of_words_does_not_matter(rng: random.Random) -> None:
    counts = words(1)
    shuffled = list(counts.items())
    rng.shuffle(shuffled)
    assert vocabulary(dict(shuffled)) == vocabulary(counts)


def test_another_process_gives_the_same() -> None:
    code = (
        "from pipelines.vocab.wordpiece import *; import json, sys; counts = json.load(sys.stdin); "
        "print(json.dumps(train(counts, alphabet(character_forms(counts), lowercase=True), 300, 2).entries))"
    )
    command = [sys.executable, "-c", code]
    said = subprocess.run(command, input=json.dumps(words(2)), capture_output=True, text=True, check=True)
    assert json.loads(said.stdout) == vocabulary(words(2)).entries


def test_slices_of_any_size_feed_the_same_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    fed = "".join(wordpiece._texts(words(3).items()))
    whole = vocabulary(words(3))
    for size in (1, 7, 100):
        monkeypatch.setattr(wordpiece, "_SLICE", size)
        assert "".join(wordpiece._texts(words(3).items())) == fed
        assert vocabulary(words(3)) == whole
    assert fed.split() == [word for word, count in words(3).items() for _ in range(count)]


def test_every_word_of_known_characters_has_tokens() -> None:
    counts = words(4)
    entries = vocabulary(counts).entries
    model = Tokenizer(WordPiece({e: i for i, e in enumerate(entries)}, unk_token="[UNK]"))
    assert entries[:5] == list(SPECIALS)
    assert len(entries) == len(set(entries)) == 300
    assert all("[UNK]" not in model.encode(word).tokens for word in counts)


def test_the_alphabet_keeps_the_most_frequent_characters_and_ascii() -> None:
    forms = character_forms({"é中": 9, "文": 7, "ü": 7, "ñ": 1, "x": 1})
    assert forms == {"é": 9, "##中": 9, "文": 7, "ü": 7, "ñ": 1, "x": 1}
    signs = wordpiece.printable_ascii(lowercase=True)
    assert len(signs) == 94 - 26
    characters = alphabet(forms, lowercase=True, most=len(signs) + 3, min_count=2)
    assert set(characters.whole) - set(signs) == {"é", "中", "ü"}  # ü before 文: their code points
    assert set(characters.rest) - set(signs) == {"中"}
    assert alphabet({}, lowercase=False, most=1).whole == sorted(map(chr, range(0x21, 0x7F)))


def test_words_with_a_character_without_entry_teach_nothing() -> None:
    counts = {"ab": 5, "abñ": 50, "ñab": 50}
    characters = alphabet(character_forms({"ab": 5}), lowercase=True)
    made = train(counts, characters, 1000, 2)
    assert [e for e in made.entries if "ñ" in e] == []
    assert made.entries[-1] == "ab"
    assert train(counts, characters, 1000, 6).entries[-1] != "ab"


def test_too_many_words_are_scaled_and_rare_ones_stay() -> None:
    counts = {"common": 10_000, "rarity": 1}
    made = vocabulary(counts, most_words=100)
    assert made.scale == pytest.approx(100 / 10_001)
    assert "common" in made.entries
    assert "rarity" in made.entries  # once after scaling, and pairs of scaled counts are merged from one on
    assert vocabulary(counts).scale == 1
