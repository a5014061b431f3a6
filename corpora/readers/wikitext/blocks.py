"""From text without links and templates to blocks: paragraphs, list items, headings; and what is left tidied."""

from __future__ import annotations

import html
import itertools
import re

from corpora.readers.wikitext.marks import BLOCK, BREAK, GONE, LESS, RAW_CLOSE, RAW_OPEN

_HEADING = re.compile(r"(={1,6})(.+?)\1")
_RULER = re.compile(r"-{4,}")
_MAGIC = re.compile(r"__(?:[A-Z]+|[\u4e00-\u9fff]+)__")
_RAW = re.compile(f"{RAW_OPEN}([0-9]+){RAW_CLOSE}")
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_LIKE_SPACE = {"&nbsp;": " ", "&#160;": " ", "&#xa0;": " ", "&shy;": "", "&#173;": ""}
_HAN = re.compile("[\u2e80-\u30ff\u3400-\u9fff\uf900-\ufaff\uff01-\uff65\U00020000-\U0003ffff]")

_SEPARATORS = ",;，；、"
_HOLE = re.compile(f"(?<![ {_SEPARATORS}{GONE}])[ {_SEPARATORS}{GONE}]*{GONE}[ {_SEPARATORS}{GONE}]*")
_HOLLOW = re.compile(f"[(（][^()（）{GONE}]*{GONE}[^()（）]*[)）]")
_BEFORE_MARK = re.compile(
    f"(?<![ {GONE}]) *{GONE}[ {GONE}]*(?=[,.;:!?)\\]，。；：、！？）】」』”]|{BREAK}|$)"
)
_LEADING = re.compile(f" *{GONE}[ {GONE}{_SEPARATORS}:：]*")
_TWICE = re.compile(f"[{_SEPARATORS}](?: *{GONE})+ *(?=[{_SEPARATORS}.。])")
_SPACED = re.compile(f" {GONE}[ {GONE}]*|{GONE}[ {GONE}]*")
_SPACES = re.compile(r"[ \t\xa0]{2,}|[\t\xa0]")
_AROUND_BREAK = re.compile(f" *(?:{BREAK} *)+")
_EMPTY = re.compile(r"[\s,;:，；：、.·/|\-–—&]*")


def to_blocks(text: str, raw: list[str], *, headings: bool) -> list[str]:
    """Blocks in order, none of them empty; a heading only if text follows before the next of its level."""
    blocks: list[str] = []
    pending: list[tuple[int, str]] = []
    paragraph: list[str] = []

    def add(lines: list[str]) -> None:
        if lines and (block := _tidied(_joined(lines), raw)):
            blocks.extend(title for _, title in pending)
            pending.clear()
            blocks.append(block)
        lines.clear()

    for line in _MAGIC.sub("", text).replace(BLOCK, "\n\n").split("\n"):
        line = line.strip()
        if not line.strip(GONE + BREAK + " "):
            add(paragraph)
        elif line[0] in "*#:;":
            add(paragraph)
            add([line.lstrip("*#:; ")])
        elif line[0] == "|" or line.startswith("{|"):  # a table or template that nothing closes
            add(paragraph)
        elif line[0] == "=" and (found := _HEADING.fullmatch(line.strip(GONE + " "))):
            add(paragraph)
            if headings and (title := _tidied(found[2], raw)):
                level = len(found[1])
                pending[:] = [p for p in pending if p[0] < level]
                pending.append((level, title))
        elif found := _RULER.match(line):
            add(paragraph)
            paragraph.append(line[found.end() :])
        else:
            paragraph.append(line)
    add(paragraph)
    return blocks


def _joined(lines: list[str]) -> str:
    """Lines of one paragraph: a space between them, none between Chinese characters."""
    out = lines[:1]
    for before, line in itertools.pairwise(lines):
        if not (_HAN.match(before[-1:]) and _HAN.match(line[:1])):
            out.append(" ")
        out.append(line)
    return "".join(out)


def _tidied(block: str, raw: list[str]) -> str:
    if GONE in block:
        for _ in range(3):  # parentheses in parentheses
            block, count = _HOLLOW.subn(_closed, block)
            if not count:
                break
        if leading := _LEADING.match(block):
            block = block[leading.end() :]
        block = _TWICE.sub("", block)
        block = _BEFORE_MARK.sub("", block)
        block = _SPACED.sub(_between, block)
    block = _RAW.sub(lambda found: raw[int(found[1])], block.replace(LESS, "<"))
    if "&" in block:
        block = _ENTITY.sub(_character, block)
    block = _SPACES.sub(" ", block)
    if BREAK in block:
        block = _AROUND_BREAK.sub("\n", block)
    block = block.strip()
    return "" if _EMPTY.fullmatch(block) else block


def _between(found: re.Match[str]) -> str:
    """What stays of a hole: a space where there was one, or where two words would grow together."""
    before, after = (
        found.string[max(found.start() - 1, 0) : found.start()],
        found.string[found.end() : found.end() + 1],
    )
    grown = before.isalnum() and after.isalnum() and not (_HAN.match(before) or _HAN.match(after))
    return " " if grown or " " in found[0] else ""


def _closed(found: re.Match[str]) -> str:
    """A parenthesis in which something vanished, without the separators that it leaves; GONE if it is empty."""
    inner = found[0][1:-1]
    last = len(inner)

    def close(hole: re.Match[str]) -> str:
        if hole.start() == 0 or hole.end() == last:
            return ""
        mark = next((c for c in hole[0] if c in _SEPARATORS), "")
        return mark + " " if mark in ("", ",", ";") and " " in hole[0] else mark

    inner = _HOLE.sub(close, inner).strip()
    return GONE if _EMPTY.fullmatch(inner) else found[0][0] + inner + found[0][-1]


def _character(found: re.Match[str]) -> str:
    alike = _LIKE_SPACE.get(found[0].lower())
    return html.unescape(found[0]) if alike is None else alike
