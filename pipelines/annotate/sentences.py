"""Sentence boundaries by punctuation rules: offsets into the text, which is never altered.

Sentences cover every character that is not whitespace, neither begin nor end with whitespace and
never overlap. Two sets of rules:

**Chinese** (`zh`, also `yue` and `ja`, which punctuate alike)
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

**English** (every other language)
- A run of . ! ? … with closing quotes and brackets ends a sentence if whitespace follows and the
  next word begins with a capital, a digit or a letter without case, behind opening quotes or none.
- A dot after an abbreviation (`Dr.`, `No. 5`, `e.g.`), an initial (`J. K. Rowling`) or the number of
  an enumeration (`1. Open`) does not; after `U.S.`, `Inc.` and the like it does where the next word
  is one that often begins sentences (`The`, `He`).
- A blank line always ends a sentence, a single line end only after such a run: text may be wrapped.
"""

from __future__ import annotations

import re

CHINESE_RULES = frozenset({"zh", "yue", "ja"})
BRACKET_REACH = 200
"""Longest bracketed or quoted stretch, in characters, that is kept in one sentence."""

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

_EN_END = re.compile(
    "(?:[.!?…⁇⁈⁉‼]+[\"'”’)\\]}»›]*(?=\\s|\\Z))"  # the usual end, before whitespace
    "|(?:[。！？｡]+[\"'”’」』）)\\]】》]*)"  # full-width marks need none after them
    "|(?:\n[^\\S\n]*\n)|[\u2029\x0c]"  # blank line, paragraph, page
)
_SPACES = re.compile(r"\s+")
_LINES = frozenset(_LINE_END)
_OPENING = re.compile("[\"'“‘«‹(\\[{¿¡*#–—•·\\-]*")
_LAST_TOKEN = re.compile(r"[^\s\"'“‘«‹(\[{—–/]+$")
_NEXT_WORD = re.compile(r"[^\W\d_]+")
_ENUMERATION = re.compile(r"[\"'“‘(\[\s*•\-]*(?:\d{1,3}|[A-Za-z]|[ivxlcIVXLC]{1,6})(?:\.\d{1,3})*$")
_LOOK_BACK = 40
"""Longest token before a dot that is looked at, in characters."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A dot after these belongs to the word, whatever follows ...
_NEVER = _words(
    "mr mrs ms mx dr prof rev fr hon gen col maj capt cpt lt sgt cpl cmdr adm gov sen rep pres supt det insp "
    "messrs mme mlle mgr st mt ft sr.dr vs v cf viz e.g i.e eg ie approx ca c.f resp esp incl"
)
# ... before a number, a numeral or a single letter only ...
_BEFORE_NUMBER = _words(
    "no nos fig figs eq eqs sec sect ch chap vol vols p pp pt art arts op ref refs par para tab"
)
_NUMBER = re.compile(r"\d|[ivxlcIVXLC]{2,}\b|[B-HJ-Zb-hj-z]\b")  # a lone `I` or `A` is a word
# ... and after these it ends the sentence only where the next word often begins one.
_MAYBE = _words(
    "jr sr inc ltd co corp bros dept univ est al ed eds trans jan feb mar apr jun jul aug sep sept oct nov dec "
    "mon tue tues wed thu thur thurs fri sat sun ave blvd rd hwy calif conn mass penn wash ph.d m.d b.a m.a d.c "
    "u.s u.k u.n e.u u.s.a u.s.s.r b.c a.d"
)
_STARTERS = _words(
    "The A An This That These Those He She It We They You I In On At By For From With As If When While After "
    "Before Since Although Though However But And Or So Yet Then There Here What Who Why How Where Which His Her "
    "Its Our Their My Your Not No Yes Now Today All Some Many Most Both Each Several Other Another One Two Such "
    "Also Thus Hence Therefore Meanwhile Moreover Nevertheless Instead According Because Once Until Unless Under "
    "Is Are Was Were Do Does Did Can Could Will Would Should May Let"
)


def split_sentences(text: str, language: str, *, lines: bool = False) -> tuple[list[int], list[int]]:
    """Sentence starts and stops, in characters, of a text in `language` (`zh`, `en`, ...).

    With `lines` a sentence is a line, as in BERT's pretraining files; only LF and CRLF end one.
    """
    if lines:
        cuts = [match.end() for match in re.finditer("\n", text)]
    else:
        cuts = _chinese(text) if language in CHINESE_RULES else _english(text)
    cuts.append(len(text))
    starts, stops, at = [], [], 0
    for cut in cuts:
        if at == cut:
            continue
        if text[at].isspace() or text[cut - 1].isspace():
            piece = text[at:cut]
            if left := len(piece.lstrip()):
                starts.append(cut - left)
                stops.append(at + len(piece.rstrip()))
        else:
            starts.append(at)
            stops.append(cut)
        at = cut
    return starts, stops


# --- Chinese ----------------------------------------------------------------------------------


def _chinese(text: str) -> list[int]:
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
        return _english_ends(text, at, stop, begin)
    return False


# --- English ----------------------------------------------------------------------------------


def _english(text: str) -> list[int]:
    cuts: list[int] = []
    begin = 0
    for match in _EN_END.finditer(text):
        at, stop = match.span()
        if text[at] in ".!?…⁇⁈⁉‼" and not _english_ends(text, at, stop, begin):
            continue
        cuts.append(stop)
        begin = stop
    return cuts


def _english_ends(text: str, at: int, stop: int, begin: int) -> bool:
    """The run `text[at:stop]`, before whitespace or the end, ends the sentence that began at `begin`."""
    spaces = _SPACES.match(text, stop)
    if spaces is None or spaces.end() == len(text):
        return True
    opening = _OPENING.match(text, spaces.end())
    start = opening.end() if opening else spaces.end()
    following = text[start : start + 1]
    new_line = not _LINES.isdisjoint(spaces.group())
    if text[at] == "." and text[at + 1 : at + 2] not in (".", "!", "?"):
        verdict = _dot_of_word(text, at, start, begin)
        if verdict is not None:
            return verdict
    return new_line or not following.islower()


def _dot_of_word(text: str, at: int, start: int, begin: int) -> bool | None:
    """Whether a dot right after an abbreviation, an initial or a number ends the sentence; None: it is no such."""
    head = text[max(begin, at - _LOOK_BACK) : at]
    token = _LAST_TOKEN.search(head)
    if token is None:
        return None
    word = token.group()
    if at - begin <= _LOOK_BACK and _ENUMERATION.match(head.lstrip()):
        return word in ("I", "a") if word.isalpha() else False
    lower = word.lower()
    if lower in _NEVER:
        return False
    if lower in _BEFORE_NUMBER:
        return False if _NUMBER.match(text, start) else None
    if lower in _MAYBE or (len(word) == 1 and word.isupper()) or _is_acronym(word):
        following = _NEXT_WORD.match(text, start)
        return following is not None and following.group() in _STARTERS
    return None


def _is_acronym(word: str) -> bool:
    """`U.S`, `J.K`, `N.Y`: capitals between dots."""
    return len(word) > 2 and word[1::2].strip(".") == "" and word[::2].isupper()
