"""Chinese sentence rules (`zh`, also `yue` and `ja`, which punctuate alike), for many texts at once.

- A run of 。！？!?… , of dots after a Chinese character, or of three dots, ends a sentence, and so
  does every line end. Closing quotes and brackets right after the run still belong to it. `；`, `：`
  and `——` end nothing.
- A run does not end a sentence if ，、；：— or another mark that continues it comes next.
- Inside an open quote or bracket nothing ends. Where a *quote* closes right after a run, the
  sentence ends: “你好。” | 他说。 A *bracket* (…。) ends one only if it also began one. A *title* 《…？》
  never does.
- A bracket that does not close on its line and within 200 characters counts as plain text.
- `.` inside numbers, addresses and names of files ends nothing, nor does the mark after the number
  of an item (`4。早餐好`); after a Latin word the English rules decide.

Most runs are plain: what stands right before and behind one and whether a pair is open decide, and a table of
code points says so for all runs of all texts. The others (closers or a mark that continues behind them, dots behind
Latin letters, the number of an item) are looked at one by one.

Shapes: M characters of all texts laid end to end, P pairs, U runs.
"""

from __future__ import annotations

import re
from functools import cache

import numpy as np
from numpy.typing import NDArray

from pipelines.annotate.english_sentences import LINE_ENDS, LOOK_BACK, ends_english
from pipelines.ragged import Ints

BRACKET_REACH = 200
"""Longest bracketed or quoted stretch, in characters, that is kept in one sentence."""

_QUOTES = {"“": "”", "‘": "’", "「": "」", "『": "』", "﹁": "﹂", "〝": "〞〟", '"': '"', "＂": "＂"}
_BRACKETS = {"（": "）", "(": ")", "[": "]", "［": "］", "【": "】", "〔": "〕", "{": "}", "｛": "｝"}
_TITLES = {"《": "》", "〈": "〉"}
_PAIRS = {**_QUOTES, **_BRACKETS, **_TITLES}
_OPENER_OF = {closer: opener for opener, closers in _PAIRS.items() for closer in closers}
_SAME = frozenset('"＂')  # one character opens and closes

_CLOSERS = '”’」』﹂〞〟）)\\]］】〕}｝》〉"＂'
_MARKS = "。！？｡!?…⁇⁈⁉‼"
# A line end; or a run of marks or of dots (up to the empty group), what goes with it, and closers. The set in front is
# what `re` looks for fast.
_END = re.compile(
    f"[{_MARKS}.{LINE_ENDS}](?:(?<=[{LINE_ENDS}])|(?:(?<=\\.)\\.*|[{_MARKS}]*)()[{_MARKS}.]*[{_CLOSERS}]*)"
)
_CONTINUES = frozenset("，、；：,;:—–-─~～/／") | frozenset("”’」』）)】》〉]")
_ADDRESS = re.compile(r"[A-Za-z0-9/=&%_\-]")
_ITEM = re.compile(r"\s*(?:[0-9０-９]{1,2}|[一二三四五六七八九十]{1,2})\Z")
_HAN_RANGES = (
    ("\u2e80", "\u30ff"),
    ("\u3400", "\u9fff"),
    ("\uf900", "\ufaff"),
    ("\uff01", "\uff65"),
    ("\U00020000", "\U0003ffff"),
)
_HAN = re.compile("[" + "".join(f"{first}-{last}" for first, last in _HAN_RANGES) + "]")
# Bits of the table of code points: what a character is to the rules.
_LINE, _RUN, _PAIR, _JOINS, _GLUES, _LETTER, _NUMERAL = (1 << bit for bit in range(7))


@cache
def _kinds() -> NDArray[np.uint8]:
    """Bits of every code point."""
    table = np.zeros(0x110000, np.uint8)
    marks = {
        _LINE: LINE_ENDS,
        _RUN: _MARKS + ".",
        _PAIR: "".join({**_PAIRS, **_OPENER_OF}),
        _JOINS: "".join(_CONTINUES) + _CLOSERS.replace("\\", ""),
        _GLUES: "".join(chr(code) for code in range(128) if _ADDRESS.match(chr(code))),
        _NUMERAL: "0123456789０１２３４５６７８９一二三四五六七八九十",
    }
    for bit, chars in marks.items():
        table[list(map(ord, chars))] |= bit
    for first, last in _HAN_RANGES:
        table[ord(first) : ord(last) + 1] |= _LETTER
    table[ord("０") : ord("９") + 1] &= ~np.uint8(_LETTER)  # a dot behind them is one of a number
    return table


def chinese_cuts(laid: str, codes: NDArray[np.uint32], edges: Ints) -> Ints:
    """Where sentences end, rising, in characters of all texts laid end to end.

    Args:
        laid: the texts, a line end behind each of them, where there is a cut as behind any other.
        codes: [M], code points of `laid`.
        edges: [n+1], where texts begin, and the end.
    """
    kinds = _kinds()[codes]
    found = np.flatnonzero(kinds & (_LINE | _RUN | _PAIR))
    of_found = kinds[found]
    line_ends = found[of_found & _LINE != 0]
    openers, closers = _outermost_pairs(laid, found[of_found & _PAIR != 0], line_ends)
    in_runs = found[of_found & _RUN != 0]
    first = np.flatnonzero(np.diff(in_runs, prepend=-2) != 1)
    sizes = np.diff(first, append=len(in_runs))
    at = in_runs[first]
    stop = at + sizes
    number = np.searchsorted(closers, at)  # the pair that is next or around
    plain, ends = _plain(codes, kinds, at, sizes, in_runs, first)
    inside = np.append(openers, len(laid))[number] < at
    sure = np.sort(np.concatenate((line_ends + 1, stop[plain & ends & ~inside])))
    hard = np.flatnonzero(~plain)
    before = np.append(0, sure)[np.searchsorted(sure, at[hard], "right")]
    limits = edges[1:] - 1
    starts, stops = [*openers.tolist(), len(laid)], [*closers.tolist(), len(laid)]
    cuts: list[int] = []
    begin = 0  # of the sentence so far
    for run, pair, cut in zip(at[hard].tolist(), number[hard].tolist(), before.tolist(), strict=True):
        begin = max(begin, cut)
        end = _end_of_run(laid, run, begin, starts[pair], stops[pair], limits)
        if end is not None:
            cuts.append(end)
            begin = end
    return np.sort(np.concatenate((sure, np.array(cuts, np.int64))))


def _plain(
    codes: NDArray[np.uint32],
    kinds: NDArray[np.uint8],
    at: Ints,
    sizes: Ints,
    in_runs: Ints,
    first: Ints,
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which runs the table decides, bool[U], and which of these end a sentence outside pairs, bool[U]."""
    none = np.zeros(0, bool)
    if not len(at):
        return none, none
    before, after = kinds[at - 1], kinds[at + sizes]  # the last character is a line end
    dots = np.add.reduceat(codes[in_runs] == ord("."), first, dtype=np.int64)
    last = codes[at + sizes - 1]
    item = (sizes == 1) & (before & _NUMERAL != 0)
    goes_on = after & _JOINS != 0
    glued = after & _GLUES != 0
    marks_end = (
        (dots == 0) & ~(glued & ((last == ord("!")) | (last == ord("?")))) & ~(item & (last == ord("。")))
    )
    dots_end = (dots == sizes) & ~glued & ((sizes > 2) | ((before & _LETTER != 0) & ~item))
    digit = codes[at - 1] - ord("0") < 10  # unsigned: what is less than 0 is large
    in_number = (dots == sizes) & (sizes < 3) & digit
    ends = (marks_end | dots_end) & ~goes_on
    return ends | in_number, ends


def _end_of_run(text: str, at: int, begin: int, opener: int, closer: int, limits: Ints) -> int | None:
    """Where the sentence from `begin` ends if the run at `at` ends it; the pair is the next one or around it."""
    match = _END.match(text, at)
    assert match is not None
    stop, run_stop = match.end(), match.start(1)
    if opener < stop and text[opener] in _SAME and at < opener:
        stop = opener  # `。"` where the quote opens the next sentence
    elif opener < at <= closer and (stop <= closer or not _pair_ends(text, opener, begin)):
        return None  # inside a pair only its own end may end a sentence
    if text[at] == "." and not _dots_end(text, at, run_stop, stop, begin, limits):
        return None
    if stop - at == 1 and text[at] in "。." and at - begin < LOOK_BACK and _ITEM.match(text, begin, at):
        return None
    return None if _goes_on(text, at, run_stop, stop) else stop


def _outermost_pairs(text: str, marks: Ints, line_ends: Ints) -> tuple[Ints, Ints]:
    """Positions [P], [P] of matched opening and closing marks that lie in no other pair, in order.

    `marks` are the positions of all such marks; pairs never reach across a line end.
    """
    stack: list[tuple[str, int]] = []
    pairs: list[tuple[int, int]] = []
    here = 0
    for at, line in zip(marks.tolist(), np.searchsorted(line_ends, marks).tolist(), strict=True):
        if line != here:
            stack.clear()
            here = line
        mark = text[at]
        opener = _OPENER_OF.get(mark)
        if opener is None:
            stack.append((mark, at))
            continue
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
    flat = np.array(pairs, np.int64).reshape(-1, 2)
    return flat[:, 0], flat[:, 1]


def _pair_ends(text: str, opener: int, begin: int) -> bool:
    kind = text[opener]
    return kind in _QUOTES or (kind in _BRACKETS and not text[begin:opener].strip())


def _goes_on(text: str, at: int, run_stop: int, stop: int) -> bool:
    """What follows the run and its closers continues the sentence."""
    after = text[stop]
    if after in _CONTINUES:
        return True
    # `?` and `!` of an address, an operator or a name, glued to Latin text on both sides
    ascii_mark = stop == run_stop and text[stop - 1] in "!?"
    return ascii_mark and bool(_ADDRESS.match(after)) and at > 0 and bool(_ADDRESS.match(text[at - 1]))


def _dots_end(text: str, at: int, dots_stop: int, stop: int, begin: int, limits: Ints) -> bool:
    """`.` or `...` at the position ends a sentence of Chinese text; `limits` are the ends of all texts."""
    before, after = text[at - 1 : at], text[stop : stop + 1]
    glued = bool(after) and after.isascii() and after.isalnum()
    if dots_stop - at > 2:
        return not (glued and before.isascii() and before.isalnum())
    if before.isdecimal():  # full-width digits are among `_HAN`
        return False
    if _HAN.match(before) or before in _OPENER_OF:
        return not glued
    if before.isascii() and before.isalpha() and (not after or after.isspace()):
        return ends_english(text, at, stop, begin, int(limits[np.searchsorted(limits, at)]))
    return False
