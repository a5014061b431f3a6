"""Words that a segmenter cannot look up, such as "Edu Trust认证": they are taken out of a text before it is cut.

From left to right, at each place the longest. Where a text may have one is found by the first two characters, so a
hundred thousand words cost no more than ten.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_LETTER = re.compile("[A-Za-z0-9]")


class WholeWords:
    """Some words, none empty. One that begins or ends with a Latin letter or a digit is not found in a run of these."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = frozenset(words)
        lengths: dict[str, set[int]] = {}
        for word in self._words:
            lengths.setdefault(word[:2], set()).add(len(word))
        self._lengths = {begin: sorted(sizes, reverse=True) for begin, sizes in lengths.items()}
        firsts = sorted({begin[0] for begin in lengths})
        self._first = re.compile(f"[{re.escape(''.join(firsts))}]") if firsts else None

    def split(self, text: str) -> list[str]:
        """Pieces of `text`: what is none of these words (may be empty), a word, what is none, ..., what is none."""
        pieces, begin, at = [], 0, 0
        while self._first is not None and (match := self._first.search(text, at)):
            at = match.start()
            word = self._longest(text, at)
            if word:
                pieces += [text[begin:at], word]
                begin = at + len(word)
            at += len(word) or 1
        return [*pieces, text[begin:]]

    def _longest(self, text: str, at: int) -> str:
        """The longest word at a place; empty if none is there."""
        for begin in (text[at : at + 2], text[at]):
            for length in self._lengths.get(begin, ()):
                word = text[at : at + length]
                if word in self._words and not (_joined(text, at) or _joined(text, at + length)):
                    return word
        return ""


def _joined(text: str, at: int) -> bool:
    """Whether Latin letters or digits stand on both sides of a place."""
    return bool(0 < at < len(text) and _LETTER.match(text, at) and _LETTER.match(text, at - 1))
