"""The Chinese sentence rules read literally: one text, one regular expression, run after run, pairs by a stack.

What `pipelines.annotate.chinese_sentences` does with a table for all texts at once is held to this.
"""

from __future__ import annotations

import re

from pipelines.annotate.english_sentences import LOOK_BACK as _LOOK_BACK
from pipelines.annotate.english_sentences import ends_english

BRACKET_REACH = 200
_QUOTES = {"“": "”", "‘": "’", "「": "」", "『": "』", "﹁": "﹂", "〝": "〞〟", '"': '"', "＂": "＂"}
_BRACKETS = {"（": "）", "(": ")", "[": "]", "［": "］", "【": "】", "〔": "〕", "{": "}", "｛": "｝"}
_TITLES = {"《": "》", "〈": "〉"}
_PAIRS = {**_QUOTES, **_BRACKETS, **_TITLES}
_OPENER_OF = {closer: opener for opener, closers in _PAIRS.items() for closer in closers}
_SAME = frozenset('"＂')  # one character opens and closes

_CLOSERS = '”’」』﹂〞〟）)\\]］】〕}｝》〉"＂'
_LINE_END = "\n\r\u2028\u2029\x0b\x0c\x85"
_PAIR_MARK = re.compile("[" + "".join(re.escape(c) for c in {**_PAIRS, **_OPENER_OF}) + _LINE_END + "]")
_ZH_MARKS = "。！？｡!?…⁇⁈⁉‼"
# A line end; or a run of marks or of dots (up to the empty group), what goes with it, and closers. The set in front is
# what `re` looks for fast.
_ZH_END = re.compile(
    f"[{_ZH_MARKS}.{_LINE_END}]"
    f"(?:(?<=[{_LINE_END}])|(?:(?<=\\.)\\.*|[{_ZH_MARKS}]*)()[{_ZH_MARKS}.]*[{_CLOSERS}]*)"
)
_ZH_CONTINUES = frozenset("，、；：,;:—–-─~～/／") | frozenset("”’」』）)】》〉]")
_ADDRESS = re.compile(r"[A-Za-z0-9/=&%_\-]")
_ITEM = re.compile(r"\s*(?:[0-9０-９]{1,2}|[一二三四五六七八九十]{1,2})\Z")
_HAN = re.compile("[\u2e80-\u30ff\u3400-\u9fff\uf900-\ufaff\uff01-\uff65\U00020000-\U0003ffff]")


def literal_cuts(text: str) -> list[int]:
    """Where sentences of a Chinese text end; its own end is left out."""
    spans = _outermost_pairs(text)
    spans.append((len(text), len(text)))
    cuts: list[int] = []
    begin, number = 0, 0  # of the sentence so far; of the pair that is next or around us
    for match in _ZH_END.finditer(text):
        at, stop = match.span()
        while spans[number][1] < at:
            number += 1
        opener, closer = spans[number]
        run_stop = match.start(1)
        if run_stop < 0:  # a line end; pairs never reach across one
            cuts.append(stop)
            begin = stop
            continue
        if opener < stop and text[opener] in _SAME and at < opener:
            stop = opener  # `。"` where the quote opens the next sentence
        elif opener < at <= closer and (stop <= closer or not _pair_ends(text, opener, begin)):
            continue  # inside a pair only its own end may end a sentence
        if text[at] == "." and not _dots_end(text, at, run_stop, stop, begin):
            continue
        if stop - at == 1 and text[at] in "。." and at - begin < _LOOK_BACK and _ITEM.match(text, begin, at):
            continue
        if stop < len(text) and _goes_on(text, at, run_stop, stop):
            continue
        cuts.append(stop)
        begin = stop
    return cuts


def _outermost_pairs(text: str) -> list[tuple[int, int]]:
    """Positions of matched opening and closing marks that lie in no other pair, in order."""
    stack: list[tuple[str, int]] = []
    pairs: list[tuple[int, int]] = []
    for match in _PAIR_MARK.finditer(text):
        mark, at = match.group(), match.start()
        opener = _OPENER_OF.get(mark)
        if opener is not None:
            for depth in range(len(stack) - 1, -1, -1):
                kind, start = stack[depth]
                if at - start > BRACKET_REACH:
                    break
                if kind == opener:
                    del stack[depth:]
                    while pairs and pairs[-1][0] > start:
                        pairs.pop()
                    pairs.append((start, at))
                    break
            if mark in _SAME and (not pairs or pairs[-1][1] != at):
                stack.append((mark, at))
        elif mark in _PAIRS:
            stack.append((mark, at))
        else:
            stack.clear()
    return pairs


def _pair_ends(text: str, opener: int, begin: int) -> bool:
    kind = text[opener]
    return kind in _QUOTES or (kind in _BRACKETS and not text[begin:opener].strip())


def _goes_on(text: str, at: int, run_stop: int, stop: int) -> bool:
    """What follows the run and its closers continues the sentence."""
    after = text[stop]
    if after in _ZH_CONTINUES:
        return True
    # `?` and `!` of an address, an operator or a name, glued to Latin text on both sides
    ascii_mark = stop == run_stop and text[stop - 1] in "!?"
    return ascii_mark and bool(_ADDRESS.match(after)) and at > 0 and bool(_ADDRESS.match(text[at - 1]))


def _dots_end(text: str, at: int, dots_stop: int, stop: int, begin: int) -> bool:
    """`.` or `...` at the position ends a sentence of Chinese text."""
    before, after = text[at - 1 : at], text[stop : stop + 1]
    glued = bool(after) and after.isascii() and after.isalnum()
    if dots_stop - at > 2:
        return not (glued and before.isascii() and before.isalnum())
    if before.isdecimal():  # full-width digits are among `_HAN`
        return False
    if _HAN.match(before) or before in _OPENER_OF:
        return not glued
    if before.isascii() and before.isalpha() and (not after or after.isspace()):
        return ends_english(text, at, stop, begin, len(text))
    return False
