"""Strings from data, made safe and even for a terminal: escaped controls, widths in cells.

Text of a corpus may hold anything: an ESC that would run a terminal command, a right-to-left
override that would reorder a line, a line end that would break a table. What does not print as
itself is shown as its escape. Widths count terminal cells: a Chinese character takes two.
"""

from __future__ import annotations

import re

from rich.cells import cell_len, chop_cells

_PLAIN_SPACES = " \u3000"
_VARIATION = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Variation selectors print, but change the width of what stands before them from font to font."""


def legible(text: str) -> str:
    """`text` with each character that would not print as itself as its escape (`\\n`, `\\x1b`, `\\u202e`).

    Escaped are controls, format characters (also bidirectional overrides and zero-width ones), line
    and paragraph separators, every space but U+0020 and U+3000, private and unassigned characters.
    """
    if text.isprintable() and not _VARIATION.search(text):
        return text
    return "".join(c if _prints(c) else c.encode("unicode_escape").decode("ascii") for c in text)


def legible_lines(message: str) -> str:
    """`legible` line by line: paths, ids and labels in a message may hold anything."""
    return "\n".join(map(legible, message.split("\n")))


def legible_token(text: str) -> str:
    """`legible`, and never of zero width: a lone combining mark stands on a dotted circle."""
    shown = legible(text)
    return "\u25cc" + shown if shown and not cell_len(shown) else shown


def pad(text: str, cells: int) -> str:
    """`text` and as many spaces as fill `cells`."""
    return text + " " * (cells - cell_len(text))


def clip(text: str, cells: int) -> str:
    """`text` in at most `cells` (>= 1) cells, with an ellipsis where it was cut."""
    if cell_len(text) <= cells:
        return text
    return (chop_cells(text, cells - 1)[0] if cells > 2 else "") + "\u2026"


def beginning(text: str, most: int = 2_000) -> str:
    """`legible`, of a longer text its first characters, and how many there are more."""
    more = len(text) - most
    return legible(text) if more <= 0 else f"{legible(text[:most])}\u2026 [{plural(more, 'character')} more]"


def wrap(text: str, cells: int) -> list[str]:
    """`text` in lines of at most `cells` cells, cut between characters."""
    return chop_cells(text, max(cells, 2)) if text else [""]


def plural(count: int, noun: str) -> str:
    """`1 branch`, `2 branches`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "es" if noun.endswith(("s", "ch")) else "s")


def _prints(char: str) -> bool:
    return char in _PLAIN_SPACES or (char.isprintable() and not _VARIATION.match(char))
