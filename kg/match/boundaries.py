"""Where a mention may start and stop: word boundaries for scripts that are written with spaces.

`Apple` is no mention in `Pineapple`, and `甲型1` none in `甲型12`. Chinese, Japanese and other
scripts without spaces between words give no such hint, so every position in them is a boundary.
A position is *inside* a word, and no boundary, when

- the characters on both sides are letters or digits of a spaced script (Latin, Cyrillic, Greek,
  Arabic, Devanagari, ... and the decimal digits of any script): Unicode's alphanumerics outside
  the blocks of `_FREE`;
- the next character continues the one before it: a combining mark, a variation selector, an emoji
  modifier, a joiner, or anything after a joiner (grapheme clusters are never cut);
- it is next to a point (`.`, U+FF0E or U+FE52) or `,` between two decimal digits (UAX #29, WB11 and
  WB12): `9` is no mention in `9.5`, nor `９` in `９．５`. The Chinese commas U+FF0C and U+FE50, which
  UAX #29 counts too, stand in lists as well (`1，2型`): they join full-width digits only.

Free are Han, kana, bopomofo, Yi, Thai, Lao, Khmer, Myanmar, Tibetan and relatives. Hangul is free
too, although Korean has spaces: particles are glued to nouns (서울에서), and whole words would hide
nearly every mention. A mark takes the kind of its base character. Apostrophes and hyphens are
boundaries: `Apple` is a mention in `Apple's`.
"""

from __future__ import annotations

import functools
import unicodedata

import numpy as np

_RUN, _EXTEND, _JOINER, _DIGIT, _POINT, _WIDE = 1, 2, 4, 8, 16, 32

_FREE = (
    (0x0E00, 0x0FFF),  # Thai, Lao, Tibetan
    (0x1000, 0x109F),  # Myanmar
    (0x1100, 0x11FF),  # Hangul jamo
    (0x1780, 0x17FF),  # Khmer
    (0x1950, 0x19FF),  # Tai Le, New Tai Lue, Khmer symbols
    (0x1A20, 0x1AAF),  # Tai Tham
    (0x2E80, 0x2FDF),  # CJK radicals
    (0x3000, 0xA4CF),  # CJK punctuation, kana, bopomofo, Hangul jamo, Han, Yi
    (0xA960, 0xA97F),  # Hangul jamo
    (0xA9E0, 0xA9FF),  # Myanmar
    (0xAA60, 0xAADF),  # Myanmar, Tai Viet
    (0xAC00, 0xD7FF),  # Hangul
    (0xF900, 0xFAFF),  # Han
    (0xFF66, 0xFFDC),  # half-width kana and Hangul
    (0x16FE0, 0x18DFF),  # Tangut, Khitan
    (0x1AFF0, 0x1B2FF),  # kana, Nushu
    (0x1F200, 0x1F2FF),  # enclosed Han
    (0x20000, 0x3FFFF),  # Han
)
_DATED = ((0, 0x1FFFF), (0xE0000, 0xE01FF))
"""Where code points other than Han are assigned; the rest of the code space needs no look-up."""


@functools.cache
def _kinds() -> np.ndarray:
    """uint8[0x110000] of the flags above. Built once a process, in less than 0.1 s."""
    kinds = np.zeros(0x110000, np.uint8)
    for first, last in _DATED:
        for point in range(first, last + 1):
            char = chr(point)
            category = unicodedata.category(char)
            if category[0] == "M":
                kinds[point] = _EXTEND
            elif category == "Nd":
                kinds[point] = _RUN | _DIGIT
            elif char.isalnum():
                kinds[point] = _RUN
    for first, last in _FREE:
        part = kinds[first : last + 1]
        part[(part & (_RUN | _DIGIT)) == _RUN] = 0
    kinds[0x1F3FB:0x1F400] = _EXTEND  # skin tones
    kinds[[0x200C, 0x200D]] = _EXTEND | _JOINER
    kinds[0xFF10:0xFF1A] |= _WIDE  # full-width digits
    kinds[[ord(char) for char in ".,\uff0e\ufe52"]] = _POINT
    kinds[[0xFF0C, 0xFE50]] = _POINT | _WIDE
    kinds.flags.writeable = False
    return kinds


def inside_words(codes: np.ndarray, text_starts: np.ndarray) -> np.ndarray:
    """Positions that are no boundary, for many texts at once.

    `codes` are the code points of the texts one after another, uint32[N]; `text_starts` the index
    of each text's first character. Returns bool[N + 1]: True where the position before character i
    is inside a word. The ends of texts are always boundaries.
    """
    kinds = _kinds()[codes]
    extend = (kinds & _EXTEND) != 0
    count = len(codes)
    inside = np.zeros(count + 1, np.bool_)
    if count < 2:
        return inside
    run = (kinds & _RUN) != 0
    starts = np.zeros(count + 1, np.bool_)
    starts[text_starts] = True
    if extend.any():
        extend[starts[:-1]] = False  # nothing before it to continue
        base = np.maximum.accumulate(np.where(extend, 0, np.arange(count)))
        run = run[base]
        joiner = (kinds & _JOINER) != 0
        inside[1:count] = extend[1:] | joiner[:-1]
    inside[1:count] |= run[:-1] & run[1:]
    point = np.flatnonzero(kinds[1:-1] & _POINT) + 1
    if len(point):
        both = kinds[point - 1] & kinds[point + 1]
        in_number = ((both & _DIGIT) != 0) & (both & _WIDE >= kinds[point] & _WIDE)
        in_number &= ~(starts[point] | starts[point + 1])
        point = point[in_number]
        inside[point] = True
        inside[point + 1] = True
    inside[starts] = False
    return inside
