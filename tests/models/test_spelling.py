"""Text of tokens, and references spelled as tokens would: equal wherever every word has its tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from models.generate.spelling import Speller

WORDS = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *"abcdefghijklmnopqrstuvwxyz0123456789.,!?'-()，。！？《》“”市图书馆新手机",
    *'/[]:;$%"’—…（）他说约',
    *(f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz0123456789"),
    *("the", "cat", "##ing", "don", "phone"),
]


def wordpiece(lowercase: bool = True) -> Tokenizer:
    made = Tokenizer(models.WordPiece({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return made


def speller(tokenizer: Tokenizer) -> Speller:
    return Speller(tokenizer.to_str().encode())


def written(text: str) -> str:
    return speller(wordpiece()).text(wordpiece().encode(text).ids)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("市图书馆新馆，新手机！", "市图书馆新馆，新手机！"),
        ("The cat, phoning.", "the cat, phoning."),
        ("don't", "don't"),
        ("新 phone 手机", "新phone手机"),
        ("“新”phone", "“新”phone"),
        ("他说“phone”——新手机……", "他说“phone”——新手机……"),
        ("he said “the cat” to her — don’t phone… (it’s a well-hidden cat).",) * 2,
        ('he "said" it, "twice": he did; km/h [on] me',) * 2,
        ("3.5 cats, 9,000 dogs, 1,000,000 phones, 50% off, $5 at 10:30.",) * 2,
        ("in 2010, 300 phones", "in 2010, 300 phones"),
        ("市3.5新（约$5,000），20%！",) * 2,
        ("", ""),
    ],
)
def test_pieces_are_joined_and_chinese_has_no_blanks(text: str, expected: str) -> None:
    assert written(text) == expected
    assert speller(wordpiece()).spelled(text) == expected


def test_a_reference_keeps_words_that_no_token_has() -> None:
    one = speller(wordpiece())
    assert one.spelled("The Straße of 北京") == "the straße of北京"
    assert "[UNK]" in written("北京"), "a token for the unknown is to be seen, not to be lost"


def test_case_is_kept_where_the_tokenizer_keeps_it() -> None:
    assert speller(wordpiece(lowercase=False)).spelled("The Cat.") == "The Cat."


@given(
    st.text(
        st.sampled_from("abcThe catÉ don't 019.,!?'-()[]/:;$%\"’—…，。！？《》“”市图书馆新手机\n\t"),
        max_size=40,
    )
)
def test_a_reference_is_spelled_as_its_own_tokens_are(text: str) -> None:
    assert speller(wordpiece()).spelled(text) == written(text)


def test_other_tokenizers_lose_nothing() -> None:
    made = Tokenizer(models.WordLevel({"[UNK]": 0, "A": 1, "b": 2}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    assert speller(made).spelled("A  b-C 市 图") == "A  b-C 市 图"
    assert speller(made).text([1, 2]) == "A b"


def test_ids_beyond_the_vocabulary_say_nothing() -> None:
    assert speller(wordpiece()).text([len(WORDS) + 3, WORDS.index("cat")]) == "cat"


@pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b'{"model": {"type": "WordPiece"}}', b"\xff"])
def test_what_is_no_tokenizer_is_said(body: bytes, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"tokenizer.json cannot be read"):
        Speller(body)
