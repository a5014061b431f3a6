"""Evaluation as the official scripts of SQuAD 2.0 and CMRC 2018 tell it, in slow plain loops.

Nothing here is shared with the product.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Sequence

import nltk

# --- SQuAD ------------------------------------------------------------------------------------


def normalized(text: str) -> str:
    text = text.lower()
    text = "".join(char for char in text if char not in set(string.punctuation))
    text = re.sub(r"\b(a|an|the)\b", " ", text)
    return " ".join(text.split())


def squad(gold: Sequence[str], answer: str) -> tuple[float, float]:
    wanted = [text for text in gold if normalized(text)] or [""]
    exact = f1 = 0.0
    for text in wanted:
        exact = max(exact, float(normalized(text) == normalized(answer)))
        f1 = max(f1, squad_f1(text, answer))
    return exact, f1


def squad_f1(text: str, answer: str) -> float:
    a, b = normalized(text).split(), normalized(answer).split()
    if not a or not b:
        return float(a == b)
    left, same = list(a), 0
    for word in b:
        if word in left:
            left.remove(word)
            same += 1
    if same == 0:
        return 0.0
    precision, recall = same / len(b), same / len(a)
    return 2 * precision * recall / (precision + recall)


def threshold(
    scores: Sequence[float],
    none_scores: Sequence[float],
    answerable: Sequence[bool],
    answered: Sequence[bool],
) -> tuple[float, float]:
    current = float(sum(not has for has in answerable))
    best, at = current, 0.0
    for i in sorted(range(len(scores)), key=lambda i: none_scores[i]):
        if answerable[i]:
            current += scores[i]
        elif answered[i]:
            current -= 1
        if current > best:
            best, at = current, none_scores[i]
    return best / len(scores), at


# --- CMRC 2018 --------------------------------------------------------------------------------

MARKS = [*"-:_*^/\\~`+=", *"，。：？！“”；’《》", "……", *"·、「」（）－～『』"]


def segmented(text: str) -> list[str]:
    """With punctuation removed; NLTK's words without its sentences, which need a download."""
    made: list[str] = []
    word = ""
    for char in text.lower().strip():
        if char in MARKS:
            continue
        if re.search("[\u4e00-\u9fa5]", char):
            if word:
                made.extend(nltk.word_tokenize(word, preserve_line=True))
                word = ""
            made.append(char)
        else:
            word += char
    if word:
        made.extend(nltk.word_tokenize(word, preserve_line=True))
    return made


def longest_run(a: Sequence[str], b: Sequence[str]) -> int:
    best = 0
    for i in range(len(a)):
        for j in range(len(b)):
            n = 0
            while i + n < len(a) and j + n < len(b) and a[i + n] == b[j + n]:
                n += 1
            best = max(best, n)
    return best


def cmrc(gold: Sequence[str], answer: str) -> tuple[float, float]:
    def bare(text: str) -> str:
        return "".join(char for char in text.lower().strip() if char not in MARKS)

    exact = f1 = 0.0
    for text in gold:
        if bare(text) == bare(answer):
            exact = 1.0
        a, b = segmented(text), segmented(answer)
        run = longest_run(a, b)
        if run:
            precision, recall = run / len(b), run / len(a)
            f1 = max(f1, 2 * precision * recall / (precision + recall))
    return exact, f1


# --- spans ------------------------------------------------------------------------------------


def spans(
    start: Sequence[float],
    stop: Sequence[float],
    allowed: Sequence[bool],
    central: Sequence[bool],
    max_length: int,
    best: int,
) -> list[tuple[float, int, int]]:
    """(score, first, end) of the best spans of one window, best first."""
    made = [
        (start[i] + stop[j], i, j + 1)
        for i in range(len(start))
        for j in range(i, len(start))
        if allowed[i] and allowed[j] and any(central[i : j + 1]) and j - i + 1 <= max_length
    ]
    made.sort(key=lambda span: (-span[0], span[1], span[2]))
    return [span for span in made[:best] if span[0] > -math.inf]
