"""Evaluation as the official scripts of SQuAD 2.0 and CMRC 2018 tell it, in slow plain loops.

Nothing here is shared with the product.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Sequence
from typing import Any

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


# --- the scripts, on what they read of files ---------------------------------------------------


def squad_script(
    dataset: list[dict[str, Any]],
    predictions: dict[str, str],
    na_probs: dict[str, float],
    na_prob_thresh: float = 1.0,
) -> dict[str, float]:
    """`evaluate-v2.0.py DATASET PREDICTIONS --na-prob-file NA_PROBS --na-prob-thresh T`, of 0 to 100."""
    qid_to_has_ans: dict[str, bool] = {}
    raw: dict[str, dict[str, float]] = {"exact": {}, "f1": {}}
    for article in dataset:
        for paragraph in article["paragraphs"]:
            for qa in paragraph["qas"]:
                qid_to_has_ans[qa["id"]] = bool(qa["answers"])
                gold_answers = [a["text"] for a in qa["answers"] if normalized(a["text"])] or [""]
                a_pred = predictions[qa["id"]]
                raw["exact"][qa["id"]] = max(float(normalized(a) == normalized(a_pred)) for a in gold_answers)
                raw["f1"][qa["id"]] = max(squad_f1(a, a_pred) for a in gold_answers)
    out: dict[str, float] = {}
    for name, scores in raw.items():
        kept = {}
        for qid, s in scores.items():
            kept[qid] = float(not qid_to_has_ans[qid]) if na_probs[qid] > na_prob_thresh else s
        out[name] = 100.0 * sum(kept.values()) / len(kept)
        for label, has in (("HasAns", True), ("NoAns", False)):
            of = [kept[qid] for qid in kept if qid_to_has_ans[qid] == has]
            if of:
                out[f"{label}_{name}"] = 100.0 * sum(of) / len(of)
        best_score = cur_score = float(sum(1 for k in qid_to_has_ans if not qid_to_has_ans[k]))
        best_thresh = 0.0
        for qid in sorted(na_probs, key=lambda k: na_probs[k]):
            if qid not in scores:
                continue
            diff = scores[qid] if qid_to_has_ans[qid] else -1 if predictions[qid] else 0
            cur_score += diff
            if cur_score > best_score:
                best_score, best_thresh = cur_score, na_probs[qid]
        out[f"best_{name}"], out[f"best_{name}_thresh"] = 100.0 * best_score / len(scores), best_thresh
    return out


def cmrc_script(dataset: list[dict[str, Any]], predictions: dict[str, str]) -> dict[str, float]:
    """`cmrc2018_evaluate.py DATASET PREDICTIONS`, of 0 to 100; a question without a prediction has no point."""
    f1 = em = 0.0
    total = skip = 0
    for instance in dataset:
        for para in instance["paragraphs"]:
            for qas in para["qas"]:
                total += 1
                query_id = qas["id"].strip()
                if query_id not in predictions:
                    skip += 1
                    continue
                exact, overlap = cmrc([x["text"] for x in qas["answers"]], str(predictions[query_id]))
                em, f1 = em + exact, f1 + overlap
    return {"F1": 100.0 * f1 / total, "EM": 100.0 * em / total, "TOTAL": total, "SKIP": skip}
