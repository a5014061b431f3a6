"""The coarse vocabulary against the rule read aloud."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.encode.coarse import CoarseVocabulary
from pipelines.encode.tokenizer import Tokenizer, load_tokenizer, vocabulary_lines
from pipelines.vocab.choose import Counted, choose, fits_a_line
from pipelines.vocab.wordpiece import SPECIALS
from tests.pipelines.vocab import slow

LETTERS = "abcd"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = tmp_path_factory.mktemp("fine") / "vocab.txt"
    entries = [
        *SPECIALS,
        *LETTERS,
        *(f"##{c}" for c in LETTERS),
        "ab",
        "##cd",
        "#",
        "[",
        "]",
        "mask",
        "中",
        "。",
    ]
    path.write_text("".join(f"{e}\n" for e in entries), encoding="utf-8")
    return load_tokenizer(str(path))


def pieces(tokenizer: Tokenizer, word: str) -> list[str]:
    return [tokenizer.surface(i) or "" for i in tokenizer.encode_ids([word])[0]]


WORD = st.text(LETTERS, min_size=1, max_size=4)
COUNTS = st.dictionaries(WORD, st.integers(1, 9), max_size=12)
PHRASES = st.dictionaries(st.lists(WORD, min_size=2, max_size=3).map(" ".join), st.integers(1, 9), max_size=6)


@settings(deadline=None)
@given(COUNTS, PHRASES, st.integers(6, 40), st.integers(1, 4), st.sampled_from([0.0, 0.2, 0.5, 1.0]))
def test_it_is_the_largest_number_of_units_that_fits(
    tokenizer: Tokenizer,
    words: dict[str, int],
    phrases: dict[str, int],
    size: int,
    min_count: int,
    share: float,
) -> None:
    made = choose(Counted(words, phrases, {}), tokenizer, size, min_count, share)
    wanted = slow.chosen(words, phrases, lambda w: pieces(tokenizer, w), size, min_count, share)
    assert (made.pieces, made.units) == wanted
    assert len(made.entries) == len(set(made.entries)) <= size


def test_units_stand_by_count_then_code_point_and_what_is_both_stands_once(tokenizer: Tokenizer) -> None:
    words = {"b": 3, "a": 3, "ab": 5, "cdcd": 1, "aaa": 1}
    made = choose(Counted(words, {"ab b": 3}, {"##d": 4}), tokenizer, 100, 2, 0.5)
    assert made.units == ["ab", "a", "ab b", "b"]
    assert made.pieces == ["##d", "##a", "##cd", "c"]  # "a" is needed and is a word
    assert made.fallen == []
    assert made.lost_pieces == 0


def test_a_phrase_without_room_makes_its_words_more_frequent(tokenizer: Tokenizer) -> None:
    words = {"aa": 9, "bb": 8, "cc": 2, "dd": 2}
    made = choose(Counted(words, {"cc dd": 7}, {}), tokenizer, 5 + 2, 2, 0.0)
    assert made.units == ["aa", "cc"]  # "cc dd" would be the third; "cc" occurs 9 times without it
    made = choose(Counted({"aa": 5, "cc": 1, "dd": 1}, {"cc dd": 4}, {}), tokenizer, 5 + 1, 1, 0.0)
    assert made.units == ["aa"]
    assert made.fallen == [("cc", 5), ("dd", 5)]


def test_words_that_occur_in_phrases_alone_have_pieces(tokenizer: Tokenizer) -> None:
    made = choose(Counted({"dd": 9}, {"abab cc": 4}, {}), tokenizer, 100, 2, 0.5)
    assert made.units == ["dd", "abab cc"]
    assert made.pieces == ["##a", "##b", "##c", "ab", "c"]  # for a row that ends between the two words


def test_what_no_reader_would_find_again_is_no_entry(tokenizer: Tokenizer) -> None:
    bad = ["[MASK]", "##ab", "a\nb", "a\rb", "a\x85b", "a\u2028b", "a\x00", " a", "a\u3000", "\u00a0"]
    made = choose(Counted(dict.fromkeys([*bad, "##", "a\u00a0b"], 9), {}, {}), tokenizer, 100, 1, 0.5)
    assert made.units == ["##", "a\u00a0b"]
    assert not any(fits_a_line(word) for word in bad[2:])


def test_its_file_is_read_back_entry_by_entry(tokenizer: Tokenizer, tmp_path: Path) -> None:
    words = {"ab": 4, "a\u00a0b": 3, "中": 3, "[mask]": 2, "##": 2, "abcd": 1, "👨\u200d👩": 2}
    made = choose(Counted(words, {"ab 中": 2}, {}), tokenizer, 100, 2, 0.5)
    path = tmp_path / "coarse_vocab.txt"
    path.write_bytes(vocabulary_lines(made.entries))
    assert [line.rstrip() for line in path.read_text(encoding="utf-8").splitlines()] == made.entries
    known = CoarseVocabulary(str(path), "", tokenizer)
    assert known.vocab_size == len(made.entries)
    assert known.look_up(made.units).tolist() == [made.entries.index(u) for u in made.units]


def test_pieces_are_cut_off_by_count_where_they_would_take_too_much(tokenizer: Tokenizer) -> None:
    others = Counter({"a": 1, "b": 3, "c": 2, "##d": 9})
    made = choose(Counted({"ab": 1}, {}, others), tokenizer, 6, 1, 0.34)
    assert (made.pieces, made.units, made.lost_pieces) == (["##d"], [], 4)
