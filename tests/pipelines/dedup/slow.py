"""The rules of deduplication as plain loops, to hold the arrays against."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import combinations


def folded(char: str) -> str:
    """What one character becomes, before anything vanishes."""
    while True:
        before, char = char, "".join(unicodedata.normalize("NFKD", c) for c in char).casefold()
        if char == before:
            return char


def vanishes(char: str) -> bool:
    kind = unicodedata.category(char)
    return char.isspace() or kind[0] in "ZP" or kind in ("Cc", "Cf")


def fold(text: str) -> str:
    return "".join(c for char in text for c in folded(char) if not vanishes(c))


def words(text: str) -> list[str]:
    """Folded words; a character that is nothing but white space ends one."""
    spaced = "".join(" " if folded(c).isspace() and len(folded(c)) == 1 else c for c in text)
    return [word for word in map(fold, spaced.split(" ")) if word]


def shingles(units: Sequence[str], n: int) -> set[tuple[str, ...]]:
    if len(units) < n:
        return {tuple(units)} if units else set()
    return {tuple(units[i : i + n]) for i in range(len(units) - n + 1)}


def of_text(text: str, *, characters: bool = True, n: int = 5) -> set[tuple[str, ...]]:
    return shingles(list(fold(text)) if characters else words(text), n)


def jaccard(a: set, b: set) -> float:
    return len(a & b) / len(a | b) if a | b else 0.0


def clusters(count: int, pairs: Sequence[tuple[int, int]]) -> list[int]:
    """Of each member the smallest member of its cluster."""
    label = list(range(count))
    for _ in range(count):
        for a, b in pairs:
            label[a] = label[b] = min(label[a], label[b])
    return label


def similar_pairs(sets: Sequence[set], threshold: float) -> list[tuple[int, int]]:
    """All pairs of sets that are alike."""
    return [(a, b) for a, b in combinations(range(len(sets)), 2) if jaccard(sets[a], sets[b]) >= threshold]
