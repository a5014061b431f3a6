"""Which brackets belong together: one stack, linear, whatever is left open.

A closing bracket belongs to the last open one of its kind; others that were opened in between have no
partner. Unlike in MediaWiki, one bracket that is left open thus does not undo all that follow.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from corpora.readers.wikitext.marks import FILL

SCHEMES = r"(?:(?:https?|ftps?|irc|ircs|gopher|telnet|nntp|git|svn|mms|redis|worldwind):)?//|(?:mailto|news|tel|urn):"
_TOKEN = re.compile(rf"\{{\{{+|\}}\}}+|\[\[+|\]+|\[(?={SCHEMES})", re.IGNORECASE)


MAX_OPEN = 1000
"""Brackets that can be open at once; a further one has no partner."""
_LONE = FILL * 2
_PAIRED = ("{{", "[[", "}}", "]]")


class Span(NamedTuple):
    """A bracket and its partner: [start, stop), and how deep the nesting is, 1 for no bracket inside."""

    start: int
    stop: int
    height: int


class Pairs:
    """Brackets of several kinds, opened and closed in the order of a text."""

    def __init__(self) -> None:
        self._open: list[tuple[str, int]] = []
        self._heights: list[int] = [0]
        self._count: dict[str, int] = {}
        self._spans: list[Span] = []
        self.alone: list[int] = []
        """Where brackets opened that have no partner."""

    def open(self, kind: str, at: int) -> None:
        if len(self._open) == MAX_OPEN:
            self.alone.append(at)
            return
        self._open.append((kind, at))
        self._heights.append(0)
        self._count[kind] = self._count.get(kind, 0) + 1

    def can_close(self, kind: str) -> bool:
        return self._count.get(kind, 0) > 0

    @property
    def last(self) -> tuple[str, int] | None:
        """Kind and place of the innermost open bracket."""
        return self._open[-1] if self._open else None

    def close(self, kind: str, stop: int) -> bool:
        """Close the last open bracket of `kind`, if there is one."""
        if not self.can_close(kind):
            return False
        while self._open[-1][0] != kind:
            self.give_up()
        start, height = self._open[-1][1], self._heights[-1] + 1
        self._spans.append(Span(start, stop, height))
        self._pop(height)
        return True

    def give_up(self) -> None:
        """The innermost open bracket has no partner."""
        self.alone.append(self._open[-1][1])
        self._pop(self._heights[-1])

    def _pop(self, height: int) -> None:
        kind, _ = self._open.pop()
        self._count[kind] -= 1
        self._heights.pop()
        self._heights[-1] = max(self._heights[-1], height)

    def outermost(self) -> list[Span]:
        """Spans that are in no other, in order; brackets that are still open have no partner."""
        while self._open:
            self.give_up()
        found: list[Span] = []
        for span in sorted(self._spans):
            if not found or span.start >= found[-1].stop:
                found.append(span)
        return found


def find_constructs(text: str) -> tuple[str, list[Span]]:
    """Outermost `{{}}`, `[[]]` and `[http://...]` of `text`, and `text` with FILL for lone brackets."""
    pairs = Pairs()
    alone = pairs.alone  # openers, and what closes nothing; all of two characters, or text
    for found in _TOKEN.finditer(text):
        at, stop = found.span()
        mark = text[at]
        if mark == "{" or (mark == "[" and stop - at > 1):
            kind = mark * 2
            for i in range(at + (stop - at) % 2, stop, 2):  # of an odd number, the first is text
                pairs.open(kind, i)
        elif mark == "[":
            if pairs.last and pairs.last[0] == "[":  # links to addresses do not nest
                pairs.give_up()
            pairs.open("[", at)
        elif mark == "}":
            at += (stop - at) % 2
            while at < stop:
                if not pairs.close("{{", at + 2):
                    alone.append(at)
                at += 2
        else:
            while at < stop:
                last = pairs.last
                if last and last[0] == "[":
                    if text.find("\n", last[1], at) < 0:
                        pairs.close("[", at + 1)
                        at += 1
                    else:
                        pairs.give_up()
                elif stop - at > 1:
                    if not pairs.close("[[", at + 2):
                        alone.append(at)
                    at += 2
                else:
                    at += 1
    spans = pairs.outermost()
    if not alone:
        return text, spans
    out, done = [], 0
    for at in sorted(alone):
        if text.startswith(_PAIRED, at):
            out += [text[done:at], _LONE]
            done = at + 2
    out.append(text[done:])
    return "".join(out), spans
