"""Chinese in two scripts and several places: `-{zh-hans:计算机; zh-hant:電腦}-` becomes one of them.

The wiki's converter would also turn all other text into the reader's script by its tables; that is left to
a declared step of the user, for raw text is never altered silently. Here only the marks are resolved:

    -{text}-                        text
    -{zh-hans:A; zh-hant:B}-        the first of PREFERENCE that is there; else the first that is written
    -{A=>zh-hant:B}-                a one-way rule for the page: nothing
    -{A|...}-                       a rule for the page that is also shown
    -{T|...}-, -{H|...}-, -{-|...}-  title of the page, hidden rule, rule taken back: nothing
    -{D|...}-, -{N|...}-            description of a rule, name of a variant: nothing
    -{R|text}-                      text
    -{zh-hans;zh-hant|text}-        text

Rules: https://www.mediawiki.org/wiki/Writing_systems/Syntax
"""

from __future__ import annotations

import re

PREFERENCE = {
    "zh": ("zh-hans", "zh-cn", "zh-my", "zh-sg", "zh", "zh-hant", "zh-tw", "zh-hk", "zh-mo"),
    "zh-hant": ("zh-hant", "zh-tw", "zh-hk", "zh-mo", "zh", "zh-hans", "zh-cn", "zh-my", "zh-sg"),
}
"""Variants by language, best first: simplified for `zh`."""
MAX_DEPTH = 10
"""Deeper marks are text, as in MediaWiki."""

_MARK = re.compile(r"-\{(?!\{(?!\{))|(?:(?<!\})|(?<=\}\}))\}-")  # `-{{a}}-` is a template between dashes
_CODES = "|".join(sorted(PREFERENCE["zh"], key=len, reverse=True))
_RULE = re.compile(rf"\s*(?:[^;=]*=>)?\s*({_CODES})\s*:", re.IGNORECASE)
_NEXT = re.compile(rf";\s*(?=(?:[^;=]*=>)?\s*(?:{_CODES})\s*:)", re.IGNORECASE)
_FLAGS = re.compile(rf"\s*((?:[A-Z+-]|{_CODES})(?:\s*;\s*(?:[A-Z+-]|{_CODES}))*)?\s*\|", re.IGNORECASE)
_HIDDEN = frozenset("THDN-")


def preference(language: str) -> tuple[str, ...]:
    """Variants for a corpus' language, best first; none for a language that has no such marks."""
    language = language.lower().replace("_", "-")
    if language in ("zh-hant", "zh-tw", "zh-hk", "zh-mo"):
        return PREFERENCE["zh-hant"]
    return PREFERENCE["zh"] if language.split("-")[0] == "zh" else ()


def resolve(text: str, wanted: tuple[str, ...]) -> str:
    """`text` with every mark of language conversion resolved, the innermost first; linear."""
    if "-{" not in text:
        return text
    stack: list[list[str]] = [[]]
    at = 0
    for found in _MARK.finditer(text):
        stack[-1].append(text[at : found.start()])
        at = found.end()
        if found[0] == "}-":
            if len(stack) > 1:
                inner = "".join(stack.pop())
                stack[-1].append(_chosen(inner, wanted))
            else:
                stack[-1].append(found[0])
        elif len(stack) <= MAX_DEPTH:
            stack.append([])
    while len(stack) > 1:  # one that never closes is text
        inner = "".join(stack.pop())
        stack[-1].append(inner)
    return "".join([*stack[0], text[at:]])


def _chosen(inner: str, wanted: tuple[str, ...]) -> str:
    flags: set[str] = set()
    if head := _FLAGS.match(inner):
        flags = {flag.strip().upper() for flag in (head[1] or "").split(";")}
        inner = inner[head.end() :]
    if flags & _HIDDEN:
        return ""
    if "R" in flags or not _RULE.match(inner):
        return inner
    one_way = True
    by_variant: dict[str, str] = {}
    for rule in _NEXT.split(inner):
        if code := _RULE.match(rule):
            one_way = one_way and "=>" in code[0]
            by_variant.setdefault(code[1].lower(), rule[code.end() :].strip(" ;\n\t"))
    if one_way:
        return ""
    found = next((by_variant[code] for code in wanted if by_variant.get(code)), None)
    return found if found is not None else next((text for text in by_variant.values() if text), "")
