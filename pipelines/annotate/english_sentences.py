"""English sentence rules, which hold for every language that is not punctuated as Chinese is.

- A run of . ! ? … with closing quotes and brackets ends a sentence if whitespace follows and the
  next word begins with a capital, a digit or a letter without case, behind opening quotes or none.
- A dot after an abbreviation (`Dr.`, `No. 5`, `e.g.`), an initial (`J. K. Rowling`) or the number of
  an enumeration (`1. Open`) does not; after `U.S.`, `Inc.` and the like it does where the next word
  is one that often begins sentences (`The`, `He`).
- A blank line always ends a sentence, a single line end only after such a run: text may be wrapped.
"""

from __future__ import annotations

import re

LINE_ENDS = "\n\r\u2028\u2029\x0b\x0c\x85"
_EN_END = re.compile(
    "(?:[.!?…⁇⁈⁉‼]+[\"'”’)\\]}»›]*(?=\\s|\\Z))"  # the usual end, before whitespace
    "|(?:[。！？｡]+[\"'”’」』）)\\]】》]*)"  # full-width marks need none after them
    "|(?:\n[^\\S\n]*\n)|[\u2029\x0c]"  # blank line, paragraph, page
)
_SPACES = re.compile(r"\s+")
_LINES = frozenset(LINE_ENDS)
_OPENING = re.compile("[\"'“‘«‹(\\[{¿¡*#–—•·\\-]*")
_LAST_TOKEN = re.compile(r"[^\s\"'“‘«‹(\[{—–/]+$")
_NEXT_WORD = re.compile(r"[^\W\d_]+")
_ENUMERATION = re.compile(r"[\"'“‘(\[\s*•\-]*(?:\d{1,3}|[A-Za-z]|[ivxlcIVXLC]{1,6})(?:\.\d{1,3})*$")
LOOK_BACK = 40
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


def english_cuts(text: str) -> list[int]:
    """Where the sentences of `text` end, in characters; its own end is left out."""
    cuts: list[int] = []
    begin = 0
    for match in _EN_END.finditer(text):
        at, stop = match.span()
        if text[at] in ".!?…⁇⁈⁉‼" and not ends_english(text, at, stop, begin, len(text)):
            continue
        cuts.append(stop)
        begin = stop
    return cuts


def ends_english(text: str, at: int, stop: int, begin: int, limit: int) -> bool:
    """Whether the run `text[at:stop]`, before whitespace or the end, ends the sentence that began at `begin`;
    what there is to look at ends at `limit`, or at white space there."""
    spaces = _SPACES.match(text, stop, limit)
    if spaces is None or spaces.end() == limit:
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
    head = text[max(begin, at - LOOK_BACK) : at]
    token = _LAST_TOKEN.search(head)
    if token is None:
        return None
    word = token.group()
    if at - begin <= LOOK_BACK and _ENUMERATION.match(head.lstrip()):
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
