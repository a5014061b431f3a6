"""Characters at the edges of an answer that no token need hold."""

from __future__ import annotations

import unicodedata

_UNHELD = frozenset(("Cc", "Cf", "Cn", "Co", "Cs", "Mn", "Zl", "Zp", "Zs"))
"""Categories that BERT's normalizer takes out or takes for space: controls, zero-width characters, marks."""


def is_held(char: str) -> bool:
    """Whether a tokenizer has a token for the character, whatever its neighbours are."""
    return char != "\ufffd" and unicodedata.category(char) not in _UNHELD


def trimmed(text: str) -> str:
    """`text` from its first to its last character that a token holds; `""` where there is none."""
    start, stop = 0, len(text)
    while start < stop and not is_held(text[start]):
        start += 1
    while stop > start and not is_held(text[stop - 1]):
        stop -= 1
    return text[start:stop]
