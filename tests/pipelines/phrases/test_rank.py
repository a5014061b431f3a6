"""Which candidates are phrases, and in which order: against a loop over lists."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.phrases.candidates import Candidates, WordRules, links, stop_words
from pipelines.phrases.config import PhrasesConfig
from pipelines.phrases.rank import select, whole_phrases
from pipelines.section import ConfigError

VOCABULARY = pa.array(["<unk>", "<s>", "</s>", "b", "a", "ab", "é", "中", "c"])
GRAMS = st.lists(st.integers(3, 8), min_size=2, max_size=4).map(tuple)
NUMBERS = st.tuples(
    st.integers(1, 6), st.sampled_from([0.05, 0.1, 0.5]), st.sampled_from([-1.0, 0.0, 0.5, 2.0])
)
SCORED = st.dictionaries(GRAMS, NUMBERS, max_size=60)


def batches(scored: dict, size: int) -> list[Candidates]:
    found = []
    for length in (2, 3, 4):
        rows = [(gram, numbers) for gram, numbers in scored.items() if len(gram) == length]
        for at in range(0, len(rows), size):
            some = rows[at : at + size]
            columns = zip(*(numbers for _, numbers in some), strict=True)
            counts, *others = (np.array(column) for column in columns)
            ids = np.array([gram for gram, _ in some], np.uint32)
            found.append(Candidates(ids, counts.astype(np.uint64), *others))
    return found


def inside(short: tuple, long: tuple) -> bool:
    return len(short) < len(long) and any(
        long[at : at + len(short)] == short for at in range(len(long) - len(short) + 1)
    )


@settings(max_examples=200, deadline=None)
@given(
    SCORED,
    st.integers(1, 7),
    st.sampled_from(["gain", "probability", "dependence", "count"]),
    st.integers(1, 30),
    st.sampled_from([0.0, 0.5, 0.8, 1.0]),
)
def test_the_lexicon_is_that_of_the_slow_way(scored, size, rank, most, max_inside):
    config = PhrasesConfig(
        min_probability=0.1, min_dependence=0.0, rank=rank, size=most, max_inside=max_inside
    )
    fell: Counter[str] = Counter()
    found = select(batches(scored, size), config, VOCABULARY, fell)
    above = {g: n for g, n in scored.items() if n[1] >= 0.1 and n[2] >= 0}
    whole = {
        gram: numbers
        for gram, numbers in above.items()
        if not any(inside(gram, other) and above[other][0] > max_inside * numbers[0] for other in above)
    }
    score = {
        "gain": lambda n: n[0] * n[2],
        "probability": lambda n: n[1],
        "dependence": lambda n: n[2],
        "count": lambda n: n[0],
    }[rank]
    named = [(" ".join(VOCABULARY[i].as_py() for i in gram), *numbers) for gram, numbers in whole.items()]
    wanted = sorted(named, key=lambda row: (-score(row[1:]), row[0]))
    assert found.phrases.rows() == wanted[:most]
    assert sum(fell.values()) == len(scored) - min(most, len(wanted))
    assert fell["max_inside"] == len(above) - len(whole)
    assert fell["size"] == max(0, len(wanted) - most)
    assert found.borders.get("size", []) == (wanted[max(0, most - 20) : most] if len(wanted) > most else [])
    assert found.borders.get("below size", []) == wanted[most : most + 20]
    # Whatever the batches, those nearest to a limit are told, ties by their text.
    below = [(" ".join(VOCABULARY[i].as_py() for i in g), *n) for g, n in scored.items() if n[1] < 0.1]
    assert (
        found.borders.get("below min_probability", [])
        == sorted(below, key=lambda r: (-r[2], r[0], r[1:]))[:20]
    )


def test_a_fragment_lies_in_one_longer_phrase():
    held = {
        2: Candidates(np.array([[3, 4], [4, 5]], np.uint32), np.array([10, 10], np.uint64), *np.ones((2, 2))),
        3: Candidates(
            np.array([[3, 4, 5], [4, 5, 6]], np.uint32), np.array([8, 9], np.uint64), *np.ones((2, 2))
        ),
    }
    assert whole_phrases(held, 0.8)[2].tolist() == [True, False]
    assert whole_phrases(held, 0.79)[2].tolist() == [False, False]
    assert whole_phrases(held, 1.0)[2].tolist() == [True, True]
    assert whole_phrases(held, 0.0)[3].tolist() == [True, True]


@pytest.mark.parametrize(
    ("kind", "phrase", "allowed"),
    [
        ("letters", "new york", True),
        ("letters", "美国 队长", True),
        ("letters", "boeing 747", False),
        ("letters", "self - made", False),
        ("letters", "mid-19th century", True),
        ("numbers", "boeing 747", True),
        ("numbers", "self - made", False),
        ("any", "self - made", True),
        ("letters", "of york", False),
        ("letters", "york Of", False),
        ("letters", "war of words", True),
        ("letters", "salt and pepper", False),
        ("letters", "and war of words", False),
    ],
)
def test_words_of_a_phrase(kind, phrase, allowed):
    words = phrase.split(" ")
    rules = WordRules(pa.array(words), kind, ["of", "and"], ["of"])
    of_kind, wanted = rules.check(np.arange(len(words), dtype=np.uint32)[None, :])
    assert bool(of_kind[0] and wanted[0]) is allowed


def test_function_words_by_language_list_or_file(tmp_path):
    english = stop_words(PhrasesConfig(), "en", "")
    assert {"of", "the", "and"} <= english
    assert set(links(PhrasesConfig(), "en-GB")) < english | {"'s", "’s"}
    assert "的" in stop_words(PhrasesConfig(), "zh-Hans", "")
    assert links(PhrasesConfig(), "zh") is None
    assert stop_words(PhrasesConfig(), "qx", "") == frozenset()
    assert stop_words(PhrasesConfig(stop=[]), "en", "") == frozenset()
    assert links(PhrasesConfig(links=["and"]), "en") == ["and"]
    (tmp_path / "stop.txt").write_text("foo\nbar\n")
    assert stop_words(PhrasesConfig(stop="stop.txt"), "en", str(tmp_path / "c.yaml")) == {"foo", "bar"}
    with pytest.raises(ConfigError, match=r"phrases\.stop: .*none\.txt cannot be read"):
        stop_words(PhrasesConfig(stop="none.txt"), "en", str(tmp_path / "c.yaml"))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"longest": 4}, "longest 4 is more than order 3"),
        ({"discount_fallback": [0.5, 1.0]}, "expected three numbers, of at most 1, 2 and 3"),
        ({"discount_fallback": [0.5, 2.5, 1.5]}, "expected three numbers"),
        ({"prune": [0, 2, 1]}, "do not fall"),
        ({"prune": [0, 0, 0, 0]}, "at most 3 numbers"),
        ({"splits": []}, "at least one split"),
    ],
)
def test_settings_that_cannot_be(keys, message):
    with pytest.raises(ValueError, match=message):
        PhrasesConfig(**keys)
