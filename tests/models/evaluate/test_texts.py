"""ROUGE and BLEU of generated texts: hand cases, both languages, and no downloads."""

from __future__ import annotations

import socket

import pytest

from models.evaluate.texts import Characters, text_scores


@pytest.mark.parametrize(
    "texts", [["北京是中国的首都。", "他说 Hello 了"], ["the cat sat on the mat", "a dog barks at night"]]
)
def test_the_same_texts_score_one(texts: list[str]) -> None:
    assert text_scores(texts, texts) == pytest.approx({"rouge1": 1, "rouge2": 1, "rougeL": 1, "bleu": 1})


def test_english_by_hand() -> None:
    scores = text_scores(["the cat sat"], ["the cat is the one"])
    # 2 common words of 3 and 5; 1 bigram of 2 and 4; "the cat" in order.
    assert scores["rouge1"] == pytest.approx(2 * 2 / (3 + 5))
    assert scores["rouge2"] == pytest.approx(2 * 1 / (2 + 4))
    assert scores["rougeL"] == pytest.approx(2 * 2 / (3 + 5))


def test_chinese_by_hand() -> None:
    scores = text_scores(["我爱北京"], ["北京我爱"])
    assert scores["rouge1"] == 1
    assert scores["rouge2"] == pytest.approx(2 / 3)  # 我爱, 北京 of three
    assert scores["rougeL"] == 0.5
    bare = text_scores(["我爱北京"], ["北京我爱"], language="en")
    assert bare["rouge1"] == 0, "words of ASCII alone: the reason why Chinese has a tokenizer"


def test_the_mean_is_over_texts_and_bleu_over_the_corpus() -> None:
    wanted, generated = ["甲乙丙丁", "一二三四五六七八"], ["甲乙丙丁", "三"]
    scores = text_scores(wanted, generated)
    assert scores["rouge1"] == pytest.approx((1 + 2 / 9) / 2)
    assert 0 < scores["bleu"] < 1, "one corpus: a text far too short costs brevity, not all"


def test_texts_without_any_word_are_right_or_wrong() -> None:
    """To `rouge-score` they are empty; a text of one word keeps its ROUGE-2 of 0."""
    one = {"rouge1": 1, "rouge2": 1, "rougeL": 1}
    scores = text_scores(["?!", "..."], ["?!", "!"], language="en")
    assert {name: scores[name] for name in one} == dict.fromkeys(one, 0.5)
    assert text_scores(["?!"], ["?! yes"], language="en")["rouge1"] == 0
    assert text_scores(["yes"], ["yes"])["rouge2"] == 0


def test_tokens_of_characters() -> None:
    assert Characters().tokenize("iPhone 15 发布，é！") == ["iphone", "15", "发", "布", "，", "é", "！"]


def test_an_empty_text_scores_zero_and_none_at_all_nothing() -> None:
    assert text_scores(["北京"], [""]) == {"rouge1": 0, "rouge2": 0, "rougeL": 0, "bleu": 0}
    assert text_scores([], []) == {}
    with pytest.raises(ValueError, match="2 wanted ones, found 1"):
        text_scores(["a", "b"], ["a"])


def test_nothing_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **settings: object) -> None:
        raise AssertionError("a connection was asked for")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    from models.evaluate.answers import cmrc_scores

    assert text_scores(["北京"], ["北京"])["rouge1"] == text_scores(["Beijing"], ["Beijing"])["rouge1"] == 1
    assert cmrc_scores(["a Beijing 人"], "Beijing 人")[1] == pytest.approx(0.8)


def test_a_perfect_result_is_one_and_no_more() -> None:
    texts = ["the cat sat on the mat and slept", "a dog barked at the moon all night long", "it rains"]
    for count in range(1, 4):
        scores = text_scores(texts[:count], texts[:count], "en")
        assert set(scores.values()) == {1.0}
