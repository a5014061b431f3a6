"""jieba's dictionary as a teacher: read as it is, its tags learned by the word vectors, words exchanged for their like."""

import random
from dataclasses import replace

import jieba.posseg
from hypothesis import given
from hypothesis import strategies as st
from thinc.api import fix_random_seed

from pipelines.training.dictionary import Dictionary, TagLessons, jieba_dictionary
from pipelines.training.network import RECIPES, build
from pipelines.training.parsers import example
from pipelines.training.treebanks import Sentence

SMALL = Dictionary(
    words=("学校", "商店", "图书馆", "书", "人", "看见", "北京", "上海"),
    tags=("n", "n", "n", "n", "n", "v", "ns", "ns"),
    counts=(9, 4, 1, 50, 60, 7, 3, 3),
)


def sentence(*words: str, upos: tuple[str, ...]) -> Sentence:
    n = len(words)
    return Sentence("d", words, (False,) * n, upos, (0,) * n, ("root",) + ("x",) * (n - 1))


def test_the_dictionary_is_jiebas() -> None:
    dictionary = jieba_dictionary()
    assert len(dictionary.words) == len(dictionary.tags) == len(dictionary.counts) > 340_000
    assert min(dictionary.counts) > 0
    for word in ("学校", "北京", "看见", "美丽"):
        assert [pair.flag for pair in jieba.posseg.lcut(word, HMM=False)] == [dictionary.tag[word]]


def test_words_are_exchanged_for_others_of_one_tag_and_length() -> None:
    s = sentence(
        "商店", "看见", "图书馆", "书", "北京", "的", upos=("NOUN", "VERB", "NOUN", "NOUN", "PROPN", "PART")
    )
    met = [set[str]() for _ in s.words]
    rng = random.Random(0)
    for _ in range(200):
        changed = SMALL.exchange(s, 1.0, rng)
        assert replace(changed, words=s.words) == s, "only words change"
        for i, word in enumerate(changed.words):
            met[i].add(word)
    assert met == [{"学校", "商店"}, {"看见"}, {"图书馆"}, {"书"}, {"北京", "上海"}, {"的"}]


def test_words_that_the_treebank_and_the_dictionary_see_differently_stay() -> None:
    s = sentence("学校", "看见", "北京", upos=("VERB", "NOUN", "ADV"))
    assert all(SMALL.exchange(s, 1.0, random.Random(seed)) == s for seed in range(20))


@given(st.floats(0, 1), st.integers(0, 1000))
def test_about_the_part_that_was_asked_for_is_exchanged(part: float, seed: int) -> None:
    words = Dictionary(tuple(f"词{chr(i)}" for i in range(0x4E00, 0x4E00 + 500)), ("n",) * 500, (1,) * 500)
    s = sentence(*words.words, upos=("NOUN",) * 500)
    changed = sum(
        a != b for a, b in zip(words.exchange(s, part, random.Random(seed)).words, s.words, strict=True)
    )
    assert abs(changed / 500 - part) < 0.12


def test_word_vectors_learn_the_tags_the_same_way_each_time() -> None:
    recipe = replace(RECIPES["zh"], rows=(300, 60, 60, 20), width=32, hidden=32, depth=1)
    one = [Sentence("d", ("我", "去"), (False, False), ("PRON", "VERB"), (1, 1), ("nsubj", "root"))]

    def learned(updates: int, seed: int) -> tuple[float, bytes]:
        fix_random_seed(seed)
        nlp = build(recipe)
        nlp.initialize(lambda: [example(nlp, one)])
        right = TagLessons(nlp, SMALL, seed=seed).first(updates, words=20)
        return right, nlp.get_pipe("tok2vec").model.to_bytes()

    right, weights = learned(60, seed=1)
    assert right > 0.95, "eight words' tags are soon known"
    assert learned(5, seed=1)[0] < 0.9
    assert learned(60, seed=1)[1] == weights != learned(60, seed=2)[1]
