"""What goes before templates and links are looked at: comments, extension tags, tables, quotes, HTML.

Comments and extension tags (`<ref>`, `<math>`, `<nowiki>`) are found as MediaWiki's preprocessor finds
them: an extension tag runs to the first closing tag of its name whatever stands between; where there
is none, it is looked for once. Every pass is linear.
"""

from __future__ import annotations

import re

from corpora.readers.wikitext.brackets import Pairs
from corpora.readers.wikitext.marks import BLOCK, BREAK, GONE, LESS, RAW_CLOSE, RAW_OPEN


def _words(text: str) -> list[str]:
    return text.split()


# https://www.mediawiki.org/wiki/Parser_extension_tags; `rt` and `rp` are the small print of <ruby>.
_VANISH = _words(
    "categorytree ce charinsert chem gallery graph hiero imagemap includeonly indicator inputbox "
    "languages mapframe maplink phonos pre quiz ref references rss score section source style syntaxhighlight "
    "templatedata templatestyles timeline"
)
_SILENT = ("rp", "rt")
_EXTENSIONS = (*_VANISH, *_SILENT, "math", "nowiki", "poem")
_EXTENSION = re.compile(r"<!--|<(/?)([A-Za-z]+)(?=[\s/>])([^<>]*)>")
_CLOSER = {name: re.compile(rf"</{name}\s*>", re.IGNORECASE) for name in _EXTENSIONS}
_REST_OF_LINE = re.compile(r"[ \t]*\n")
_PLAIN_FORMULA = re.compile(r"[A-Za-z0-9 +\-=<>()\[\],.*/|'!]{1,40}")
_INLINE_CODE = re.compile(r"\binline\b|\benclose\s*=\s*[\"']?none\b", re.IGNORECASE)

_BLOCKS = _words(
    "blockquote caption center dd div dl dt h1 h2 h3 h4 h5 h6 hr li noinclude ol onlyinclude p table tbody td th "
    "thead tr ul"
)
_INLINE = _words(
    "abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd mark nobr q rb rtc ruby s samp "
    "small span strike strong sub sup time tt u var wbr"
)
_NAMES = frozenset({*_BLOCKS, *_INLINE, *_EXTENSIONS, "br"})
_HTML = re.compile(r"</?([A-Za-z]+[1-6]?)(?=[\s/>\\])[^<>]*>")
_HALF = re.compile(r"</?([A-Za-z]+[1-6]?)(?=[\s/])/?")
"""A tag that never closes: its name goes, what follows may be prose."""
_AS = dict.fromkeys(_BLOCKS, BLOCK) | {"br": BREAK, "q": '"'}

_TABLE = re.compile(
    r"^[ \t:]*(?P<open>\{\|)|^[ \t]*(?P<close>\|\}+)|<table(?=[\s>])[^<>]*>|(?P<end></table\s*>)",
    re.MULTILINE | re.IGNORECASE,
)
_QUOTES = re.compile("('{2,})")


def drop_extensions(text: str, raw: list[str]) -> str:
    """`text` without comments and extension tags; what is text as it stands goes to `raw`."""
    out: list[str] = []
    missing: set[str] = set()
    at = 0
    while found := _EXTENSION.search(text, at):
        before = text[at : found.start()]
        at = found.end()
        if found[2] is None:
            out.append(before)
            stop = text.find("-->", at)
            if stop < 0:
                return "".join(out)
            at = stop + 3
            rest = _REST_OF_LINE.match(text, at)
            if rest and before.rstrip(" \t").endswith("\n"):  # a comment takes a line of its own with it
                at = rest.end()
            continue
        name = found[2].lower()
        if name not in _CLOSER:
            out += [before, found[0]]
            continue
        out.append(before)
        if found[1] or found[3].endswith("/"):
            if name == "ref":
                out.append(GONE)
            continue
        closer = None if name in missing else _CLOSER[name].search(text, at)
        if closer is None:
            missing.add(name)
            continue
        out.append(_extension(name, found[3], text[at : closer.start()], raw))
        at = closer.end()
    out.append(text[at:])
    return "".join(out)


def _extension(name: str, attributes: str, inner: str, raw: list[str]) -> str:
    literal = (
        name == "nowiki"
        or (name == "math" and _PLAIN_FORMULA.fullmatch(inner.strip()))
        or (name in ("source", "syntaxhighlight") and _INLINE_CODE.search(attributes))
    )
    if literal:
        raw.append(" ".join(inner.split("\n")))
        return f"{RAW_OPEN}{len(raw) - 1}{RAW_CLOSE}"
    if name == "poem":
        lines = drop_extensions(inner, raw).strip().replace("\n", BREAK)
        return f"{BLOCK}{lines}{BLOCK}"
    return "" if name in _SILENT else GONE


def drop_tables(text: str) -> str:
    """`text` without `{| |}` and `<table>`, nested or not; one that never closes stays as lines."""
    pairs = Pairs()
    for found in _TABLE.finditer(text):
        if found["open"]:
            pairs.open("{|", found.start("open"))
        elif found["close"]:
            # `|}}` ends a template whose last value is empty; `|}}}` a table, then a template.
            if len(found["close"]) != 3:
                pairs.close("{|", found.start("close") + 2)
        elif found["end"]:
            pairs.close("<table>", found.end())
        else:
            pairs.open("<table>", found.start())
    out, at = [], 0
    for span in pairs.outermost():
        out += [text[at : span.start], GONE]
        at = span.stop
    out.append(text[at:])
    return "".join(out)


def drop_quotes(text: str) -> str:
    """`text` without the marks of bold and italic, by MediaWiki's rules: `l'''amour''` is l'amour."""
    if "''" not in text:
        return text
    return "\n".join([_unquoted(line) if "''" in line else line for line in text.split("\n")])


def _unquoted(line: str) -> str:
    parts = _QUOTES.split(line)
    runs = [len(run) for run in parts[1::2]]
    for i, run in enumerate(runs):
        # Of four, one is an apostrophe, and of more than five all but five.
        keep = 1 if run == 4 else max(run - 5, 0)
        parts[2 * i + 1], runs[i] = "'" * keep, run - keep
    bold, italic = (sum(run in (n, 5) for run in runs) for n in (3, 2))
    if bold % 2 and italic % 2:
        # One bold mark is an apostrophe and an italic mark.
        by_class: dict[int, int] = {}
        for i, run in enumerate(runs):
            if run == 3:
                before = parts[2 * i]
                by_class.setdefault(2 if before[-1:] == " " else 0 if before[-2:-1] == " " else 1, i)
        if by_class:
            parts[2 * by_class[min(by_class)] + 1] += "'"
    return "".join(parts)


def drop_html(text: str) -> str:
    """`text` without HTML tags: their content stays, and other `<` become LESS."""
    if "<" not in text:
        return text
    text = _HALF.sub(_tag, _HTML.sub(_tag, text))
    return text.replace("<", LESS)


def _tag(found: re.Match[str]) -> str:
    name = found[1].lower()
    return _AS.get(name, "") if name in _NAMES else found[0]
