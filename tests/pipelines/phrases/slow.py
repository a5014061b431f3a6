"""Greedy phrases as one says them: from left to right, the longest that begins here and stays in its sentence."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def slow_units(
    phrases: Collection[tuple[str, ...]], words: Sequence[str], sentences: Sequence[int]
) -> list[int]:
    """First word of every unit."""
    longest = max(map(len, phrases), default=1)
    begins, at = [], 0
    while at < len(words):
        begins.append(at)
        sizes = [
            size
            for size in range(2, min(longest, len(words) - at) + 1)
            if tuple(words[at : at + size]) in phrases and sentences[at] == sentences[at + size - 1]
        ]
        at += max(sizes, default=1)
    return begins
