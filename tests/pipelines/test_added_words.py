"""Words added to jieba: text without them is cut as before, in whatever order they come."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from unittest import mock

import jieba
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from pipelines.annotate import added_words
from pipelines.annotate.added_words import add_words
from pipelines.annotate.jieba_words import JiebaWords
from pipelines.annotate.whole_words import WholeWords
from pipelines.annotate.words import sentences_of

SAMPLE = Path(__file__).parents[2] / "corpora/samples/zh/pretrain.txt"
SENTENCES = [s for s in re.split(r"(?<=[。！？])|\n", SAMPLE.read_text(encoding="utf-8")) if s.strip()][:60]
Entries = list[tuple[str, int | None]]


@cache
def base() -> tuple[dict[str, int], int]:
    """jieba's dictionary as far as the sentences ask for it, and the sum of all its counts."""
    tokenizer = jieba.Tokenizer()
    with tokenizer.get_dict_file() as file:
        counts, total = tokenizer.gen_pfdict(file)
    mine = set("".join(SENTENCES))
    return {word: count for word, count in counts.items() if mine.issuperset(word)}, total


def with_words(entries: Iterable[tuple[str, int | None]]) -> jieba.Tokenizer:
    tokenizer = jieba.Tokenizer()
    counts, tokenizer.total = base()
    tokenizer.FREQ, tokenizer.initialized = dict(counts), True
    add_words(tokenizer.FREQ, tokenizer.total, entries)
    return tokenizer


COUNTS = st.none() | st.integers(1, 50) | st.just(10**7)


@st.composite
def pieces(draw: st.DrawFn) -> str:
    """Some characters of a sentence, words or not."""
    sentence = draw(st.sampled_from(SENTENCES))
    begin = draw(st.integers(0, len(sentence) - 1))
    return sentence[begin : begin + draw(st.integers(1, 6))]


LEXICONS = st.lists(
    st.tuples(pieces() | st.sampled_from(["北京大", "京大", "龘龘", "A京"]), COUNTS), max_size=30
)


@settings(max_examples=25, deadline=None)
@given(LEXICONS)
@example([("龘龘", 10**8)])  # a sum raised so far would part many words of every text
def test_text_without_the_words_is_cut_as_before(entries: Entries) -> None:
    plain, added = with_words([]), with_words(entries)
    words = [word for word, _ in entries]
    free = [s for s in SENTENCES if not any(word in s for word in words)]
    assume(free)
    for sentence in free:
        assert list(added.cut(sentence)) == list(plain.cut(sentence))


@settings(max_examples=25, deadline=None)
@given(LEXICONS, st.randoms(use_true_random=False))
def test_the_order_of_the_words_does_not_matter(entries: Entries, rng: random.Random) -> None:
    other = entries * 2
    rng.shuffle(other)
    with mock.patch.object(added_words, "_GROUP", rng.choice([1, 2, 1 << 16])):
        assert with_words(other).FREQ == with_words(entries).FREQ


@settings(max_examples=25, deadline=None)
@given(LEXICONS)
def test_counts_equal_the_loop(entries: Entries) -> None:
    counts, total = base()
    slow = dict(counts)
    given_: dict[str, int] = {}
    for word, count in entries:
        given_[word] = max(given_.get(word, 0), count or 0)
    slow |= {word: count for word, count in given_.items() if count}
    for word in sorted((word for word, count in given_.items() if not count), key=len):
        best = [1.0]  # of what is left from each place on, backwards
        for begin in range(len(word) - 1, -1, -1):
            sizes = range(1, len(word) - begin + 1)
            ways = [slow.get(word[begin : begin + n], 0) / total * best[-n] for n in sizes]
            best.append(max(ways) or best[-1] / total)
        slow[word] = max(int(best[-1] * total) + 1, slow.get(word, 0))
    slow |= {w[:i]: 0 for w in given_ for i in range(1, len(w)) if w[:i] not in slow}
    assert slow == with_words(entries).FREQ


def test_words_without_counts_are_found_one_within_another() -> None:
    names = ["天安门广", "天安门广场上", "的研究生", "我的研究生", "王小明同"]
    for order in (names, names[::-1]):
        tokenizer = with_words([(name, None) for name in order])
        assert all(list(tokenizer.cut(name)) == [name] for name in names)


def test_a_lexicon_is_read_and_heeded(tmp_path: Path) -> None:
    path = tmp_path / "user.txt"
    path.write_text("我的研究生\n研究生命\nEdu Trust认证\n", encoding="utf-8")
    text = "他是我的研究生，研究生命，有Edu Trust认证。"
    found = JiebaWords(str(path)).segment([text], sentences_of([text], "zh"))
    assert {"我的研究生", "研究生命", "Edu Trust认证"} <= set(found.forms)


# --- words that no dictionary looks up ----------------------------------------------------------


WORDS = st.lists(st.text("ab é-·北]^", min_size=1, max_size=5).filter(str.strip), max_size=8)


@given(WORDS, st.text("ab é-·北]^", max_size=30))
def test_whole_words_equal_a_pattern(words: list[str], text: str) -> None:
    def pattern(word: str) -> str:
        left = "(?<![A-Za-z0-9])" if re.match("[A-Za-z0-9]", word) else ""
        right = "(?![A-Za-z0-9])" if re.search("[A-Za-z0-9]$", word) else ""
        return left + re.escape(word) + right

    longest = sorted(set(words), key=lambda word: (-len(word), word))
    expected = re.split("(" + "|".join(map(pattern, longest)) + ")", text) if words else [text]
    assert WholeWords(words).split(text) == expected


@pytest.mark.parametrize("text", ["", "é"])
def test_no_words_split_nothing(text: str) -> None:
    assert WholeWords([]).split(text) == [text]
