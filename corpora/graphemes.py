"""Where a text may be cut: never inside what a reader sees as one character.

The rules of extended grapheme clusters (Unicode Standard Annex #29, GB3-GB13) that matter to
truncation: combining marks, variation selectors, skin tones, joiner sequences, flags, Hangul jamo.
Two simplifications, both towards fewer cuts: whatever follows a zero-width joiner stays with
it, and spacing marks (category Mc) always stay with their base. Needed only at the few positions where a
row is cut, so plain Python; `joins` says for many at once which need it at all.
"""

from __future__ import annotations

import unicodedata

import numpy as np
from numpy.typing import NDArray

from corpora.ragged import Ints

ZWJ = "\u200d"
_FREE = ((0x3400, 0x9FFF), (0x20, 0x7E), (0x3000, 0x3029), (0xFF01, 0xFF9D))
_EXTEND_FORMAT = frozenset("\u200c\u200d")


def inside_cluster(text: str, position: int) -> bool:
    """Whether `position` (in characters) lies inside a grapheme cluster of `text`."""
    if position <= 0 or position >= len(text):
        return False
    before, after = text[position - 1], text[position]
    if ("\u3400" <= after < "\ua000" or " " <= after < "\x7f") and before != ZWJ:
        return False  # Chinese characters and ASCII join nothing
    if before == "\r" and after == "\n":
        return True
    if _is_break(before):
        return False
    if _extends(after) or before == ZWJ:
        return True
    if _is_flag_letter(before) and _is_flag_letter(after):
        run = position
        while run > 0 and _is_flag_letter(text[run - 1]):
            run -= 1
        return (position - run) % 2 == 1
    return _joins_hangul(before, after)


def joins(points: NDArray[np.uint32], positions: Ints) -> NDArray[np.bool_]:
    """Positions in texts laid end to end, as code points, that may lie inside a cluster; false only where none can."""
    if not len(points):
        return np.zeros(len(positions), dtype=bool)
    after = points[np.minimum(positions, len(points) - 1)]
    before = points[np.maximum(positions, 1) - 1]
    # Chinese characters, ASCII, CJK and full-width punctuation join nothing.
    free = np.zeros(len(positions), dtype=bool)
    for first, last in _FREE:
        free |= (after >= first) & (after <= last)
    return ~free | (before == ord(ZWJ))


def cluster_stop(text: str, position: int) -> int:
    """The first position at or after `position` that is not inside a cluster."""
    while inside_cluster(text, position):
        position += 1
    return position


def _is_break(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Zl", "Zp")


def _extends(char: str) -> bool:
    if char < "\u0300":
        return False
    return (
        unicodedata.category(char) in ("Mn", "Mc", "Me")
        or char in _EXTEND_FORMAT
        or "\U0001f3fb" <= char <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= char <= "\U000e007f"  # tags, as in the flags of England and Wales
    )


def _is_flag_letter(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _joins_hangul(before: str, after: str) -> bool:
    left, right = _hangul(before), _hangul(after)
    return (
        (left == "L" and right in ("L", "V", "LV", "LVT"))
        or (left in ("LV", "V") and right in ("V", "T"))
        or (left in ("LVT", "T") and right == "T")
    )


def _hangul(char: str) -> str:
    code = ord(char)
    if 0x1100 <= code <= 0x115F or 0xA960 <= code <= 0xA97C:
        return "L"
    if 0x1160 <= code <= 0x11A7 or 0xD7B0 <= code <= 0xD7C6:
        return "V"
    if 0x11A8 <= code <= 0x11FF or 0xD7CB <= code <= 0xD7FB:
        return "T"
    if 0xAC00 <= code <= 0xD7A3:
        return "LV" if (code - 0xAC00) % 28 == 0 else "LVT"
    return ""
