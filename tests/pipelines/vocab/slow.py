"""Vocabularies the plain way: a string at a time, and every number of words tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

Pieces = Callable[[str], Sequence[str]]


def bert_words(texts: Iterable[str], *, lowercase: bool) -> Counter[str]:
    """What `tokenizers` cuts whole texts into."""
    normalizer, pre_tokenizer = BertNormalizer(lowercase=lowercase), BertPreTokenizer()
    found: Counter[str] = Counter()
    for text in texts:
        found.update(word for word, _ in pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(text)))
    return found


def units_of(sentence: Sequence[str], phrases: Iterable[str]) -> list[str]:
    """Leftmost longest phrases, and the words in none."""
    known, found, at = set(phrases), [], 0
    while at < len(sentence):
        size = max(
            n for n in range(1, len(sentence) - at + 1) if n == 1 or " ".join(sentence[at : at + n]) in known
        )
        found.append(" ".join(sentence[at : at + size]))
        at += size
    return found


def chosen(
    words: Mapping[str, int],
    phrases: Mapping[str, int],
    pieces: Pieces,
    size: int,
    min_count: int,
    share: float,
) -> tuple[list[str], list[str]]:
    """Pieces and units: of all numbers of units the largest that fits beside the pieces of all others."""
    fallen: set[str] = set()
    while True:
        counts = Counter(words)
        for phrase in fallen:
            for word in phrase.split(" "):
                counts[word] += phrases[phrase]
        open_ = {p: n for p, n in phrases.items() if p not in fallen}
        candidates = {u: n for u, n in [*counts.items(), *open_.items()] if n >= min_count}
        order = sorted(candidates, key=lambda u: (-candidates[u], u))
        most, best = min(int(share * size), size - 5), -1
        for taken in range(len(order) + 1):
            if taken + min(most, len(_needed(order[:taken], words, phrases, pieces))) <= size - 5:
                best = taken
        further = set(phrases) - set(order[:best])
        if further == fallen:
            needed = _needed(order[:best], words, phrases, pieces)
            return sorted(needed, key=lambda p: (-needed[p], p))[:most], order[:best]
        fallen = further


def _needed(
    taken: Sequence[str], words: Mapping[str, int], phrases: Mapping[str, int], pieces: Pieces
) -> Counter[str]:
    """Pieces of all words that are not taken, and how often they stand for these."""
    found: Counter[str] = Counter()
    for unit, count in [*words.items(), *phrases.items()]:
        for word in unit.split(" "):
            for piece in pieces(word) if word not in taken else []:
                found[piece] += 0 if unit in taken else count
    return Counter({piece: n for piece, n in found.items() if piece not in taken})
