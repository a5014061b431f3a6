"""Answers to questions against gold ones: exact match and F1, by SQuAD's rules and by CMRC 2018's.

Both are the rules of the official evaluation scripts. SQuAD (Rajpurkar et al. 2016, 2018): answers are compared
without case, ASCII punctuation and English articles; F1 is of words. CMRC 2018 (Cui et al. 2019): exact match is
without case and some punctuation; F1 is of the longest run of tokens that both have in common, where a token is a
Chinese character, or a word between them.

CMRC's script has NLTK split what is no Chinese into words, first into sentences by a model that must be downloaded.
Here NLTK's words are taken without: a full stop inside such a stretch stays with its word.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.evaluate.options import Script

# --- SQuAD ------------------------------------------------------------------------------------

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def plain_words(text: str) -> list[str]:
    """Words of an answer as SQuAD compares them."""
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def squad_scores(gold: Sequence[str], answer: str) -> tuple[float, float]:
    """(exact match, F1) of an answer, the best over the gold ones; an answer "" is none, right where none is gold.

    A gold answer of nothing but what is not compared is no answer.
    """
    found = plain_words(answer)
    wanted = [words for words in map(plain_words, gold) if words] or [[]]
    return float(found in wanted), max(_overlap(words, found) for words in wanted)


def _overlap(wanted: list[str], found: list[str]) -> float:
    if not wanted or not found:
        return float(wanted == found)
    return _f1((Counter(wanted) & Counter(found)).total(), len(wanted), len(found))


def _f1(common: int, wanted: int, found: int) -> float:
    return 2 * common / (wanted + found)


# --- CMRC 2018 --------------------------------------------------------------------------------

_MARKS = frozenset("-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
_HAN = re.compile("[\u4e00-\u9fa5]")


def mixed_tokens(text: str) -> list[str]:
    """Chinese characters, and the words between them, of a text in lower case; without CMRC's punctuation marks."""
    tokens, between = [], ""
    for char in _without_marks(text):
        if _HAN.match(char):
            tokens += [*_english(between), char]
            between = ""
        else:
            between += char
    return tokens + _english(between)


def cmrc_scores(gold: Sequence[str], answer: str) -> tuple[float, float]:
    """(exact match, F1) of an answer, the best over the gold ones; without any, an answer of "" is right."""
    if not gold:
        return float(not answer), float(not answer)
    found = mixed_tokens(answer)
    exact = _without_marks(answer) in map(_without_marks, gold)
    return float(exact), max(_run_overlap(mixed_tokens(text), found) for text in gold)


def _run_overlap(wanted: list[str], found: list[str]) -> float:
    matcher = SequenceMatcher(None, wanted, found, autojunk=False)
    run = matcher.find_longest_match(0, len(wanted), 0, len(found)).size
    return _f1(run, len(wanted), len(found)) if run else 0.0


def _without_marks(text: str) -> str:
    return "".join(char for char in text.lower().strip() if char not in _MARKS)


def _english(text: str) -> list[str]:
    return _tokenizer().tokenize(text) if text else []


@cache
def _tokenizer() -> Any:
    from nltk.tokenize.destructive import NLTKWordTokenizer

    return NLTKWordTokenizer()


COMPARED = {"squad": squad_scores, "cmrc": cmrc_scores}
"""(gold answers, answer) -> (exact match, F1), by `Script`."""


def script_of(texts: Sequence[str]) -> Script:
    """Whose rules fit these texts: CMRC's where Chinese characters outnumber ASCII letters, else SQuAD's."""
    han = sum(len(_HAN.findall(text)) for text in texts)
    letters = sum(char.isascii() and char.isalpha() for text in texts for char in text)
    return "cmrc" if han > letters else "squad"


# --- no answer (SQuAD 2.0) --------------------------------------------------------------------


def with_threshold(
    scores: ArrayLike, none_scores: ArrayLike, answerable: ArrayLike, threshold: float
) -> NDArray[np.float64]:
    """Scores float64[Q] where no answer is given to questions whose `none_scores` lie above the threshold.

    Args:
        scores: float[Q], of the best answer of each question.
        none_scores: float[Q], by how much "none" scores higher than that answer.
        answerable: bool[Q], whether the question has a gold answer.
    """
    silent = np.asarray(none_scores, np.float64) > threshold
    return np.where(silent, ~np.asarray(answerable, np.bool_), np.asarray(scores, np.float64))


def best_threshold(
    scores: ArrayLike, none_scores: ArrayLike, answerable: ArrayLike, answered: ArrayLike
) -> tuple[float, float]:
    """(mean score, threshold) of the threshold that suits these questions best, as SQuAD 2.0's script finds it.

    From no answers at all (threshold 0 in the script), questions are answered one by one, from the lowest of
    `none_scores` up; the first of equally good places counts. Arguments as of `with_threshold`; `answered` bool[Q]:
    whether the best answer is other than "".
    """
    order = np.argsort(np.asarray(none_scores, np.float64), kind="stable")
    has = np.asarray(answerable, np.bool_)[order]
    gain = np.where(has, np.asarray(scores, np.float64)[order], -np.asarray(answered, np.float64)[order])
    totals = np.cumsum([(~has).sum(), *gain])
    at = int(totals.argmax())
    threshold = np.asarray(none_scores, np.float64)[order[at - 1]] if at else 0.0
    return float(totals[at]) / len(order), float(threshold)
