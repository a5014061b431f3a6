"""Where the parts of a sentence tree and of a parse stand, in character cells.

One layout serves the terminal, which draws it with box characters, and the HTML page, which draws
it as SVG with a fixed size per cell. The tree follows Figure 2 of the K-BERT paper: the trunk in
lines, each token over its soft position, branches hanging from the last token of their anchor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len

from pipelines.view.legible import clip, legible, legible_token, plural, wrap
from pipelines.view.rowview import Branch, RowView, TreeToken, Word

GAP = 1
INDENT = 3
"""Cells from the column of a connector to its branch."""
ROOM = 34
"""Cells kept free to the right of an anchor for its branches."""
MAX_TOKEN = 24


@dataclass(frozen=True)
class Cell:
    """A string at column `x`, line `y`. `kind`: token, special, anchor, branch, position, triple."""

    x: int
    y: int
    text: str
    kind: str
    mention: int = -1
    title: str = ""


@dataclass(frozen=True)
class Link:
    """A connector: down column `x` from line `top` to the last of `stops`, a turn right at each."""

    x: int
    top: int
    stops: tuple[int, ...]
    mention: int


@dataclass
class TreeLayout:
    """All parts of a drawn tree; `height` is the number of lines."""

    cells: list[Cell] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    height: int = 0


def layout_tree(tree: Sequence[TreeToken], branches: Sequence[Branch], width: int) -> TreeLayout:
    """Lay the tree out in lines of at most `width` cells (at least 40)."""
    width = max(width, 40)
    trunk = [t for t in tree if t.branch == 0]
    last = {t.mention: i for i, t in enumerate(trunk) if t.mention >= 0}
    hanging: dict[int, list[Branch]] = {}
    loose = []
    for branch in branches:
        if branch.mention in last:
            hanging.setdefault(last[branch.mention], []).append(branch)
        else:
            loose.append(branch)
    out = TreeLayout()
    for line in _break(trunk, hanging, width):
        _draw_line(out, trunk, line, hanging, width)
    for branch in loose:  # a wrong row: show what hangs nowhere
        out.cells.append(Cell(0, out.height, f"branch {branch.number} hangs on no anchor:", "triple"))
        out.height = _draw_branch(out, branch, INDENT, out.height + 1, width) + 1
    return out


def tree_note(view: RowView) -> str:
    """What a heading says about a tree."""
    mentions, branches = plural(view.mentions, "mention"), plural(len(view.branches), "branch")
    return f"{mentions}, {branches}; soft positions below the tokens"


def _break(
    trunk: Sequence[TreeToken], hanging: dict[int, list[Branch]], width: int
) -> list[list[tuple[int, int, int]]]:
    """Lines of (token, column, width). A mention with branches starts a new line where it would leave
    its branches less than `ROOM` cells."""
    sizes = [_box(t) for t in trunk]
    starts = {}  # last anchor token -> first
    for end in hanging:
        first = end
        while first and trunk[first - 1].mention == trunk[end].mention:
            first -= 1
        starts[first] = end
    lines: list[list[tuple[int, int, int]]] = [[]]
    x = 0
    for i, size in enumerate(sizes):
        reach = x + size
        if i in starts:
            end = starts[i]
            reach = max(reach, x + sum(sizes[i : end + 1]) + GAP * (end - i) + ROOM)
        if lines[-1] and reach > width:
            lines.append([])
            x = 0
        lines[-1].append((i, x, size))
        x += size + GAP
    return [line for line in lines if line]


def _draw_line(
    out: TreeLayout,
    trunk: Sequence[TreeToken],
    line: list[tuple[int, int, int]],
    hanging: dict[int, list[Branch]],
    width: int,
) -> None:
    y = out.height
    for i, x, size in line:
        token = trunk[i]
        kind = "anchor" if token.mention >= 0 else "token"
        _draw_token(out, token, x, y, size, kind)
    y += 2
    for i, x, size in reversed(line):  # from the right, so that connectors further left pass below
        if i not in hanging:
            continue
        column, stops, top = x + (size - 1) // 2, [], out.height + 2
        for branch in hanging[i]:
            stops.append(y)
            y = _draw_branch(out, branch, column + INDENT, y, width)
        out.links.append(Link(column, top, tuple(stops), trunk[i].mention))
    out.height = y + 1


def _draw_branch(out: TreeLayout, branch: Branch, left: int, y: int, width: int) -> int:
    """Draw one branch from column `left`, line `y`; returns the first line below."""
    x = left
    for token in branch.tokens:
        size = _box(token)
        if x > left and x + size > width:
            x, y = left, y + 2
        _draw_token(out, token, x, y, size, "branch")
        x += size + GAP
    triple = f"({legible(branch.triple)})"
    if x + 2 + cell_len(triple) <= width:
        out.cells.append(Cell(x + 2, y, triple, "triple", branch.mention))
        return y + 2
    y += 2
    for piece in wrap(triple, width - left):
        out.cells.append(Cell(left, y, piece, "triple", branch.mention))
        y += 1
    return y


def _draw_token(out: TreeLayout, token: TreeToken, x: int, y: int, size: int, kind: str) -> None:
    text, soft = _label(token), str(token.soft)
    title = f"{legible(token.string)} · soft position {soft}"
    if token.branch == 0:
        title += f" · token {token.trunk}"
    out.cells.append(Cell(x + (size - cell_len(text)) // 2, y, text, kind, token.mention, title))
    out.cells.append(Cell(x + (size - len(soft)) // 2, y + 1, soft, "position", token.mention))


def _label(token: TreeToken) -> str:
    return clip(legible_token(token.string), MAX_TOKEN)


def _box(token: TreeToken) -> int:
    return max(cell_len(_label(token)), len(str(token.soft)))


# --- parses -----------------------------------------------------------------------------------


def sentences(words: Sequence[Word]) -> list[list[int]]:
    """Word indices of each sentence, in order."""
    groups: list[list[int]] = []
    for i, word in enumerate(words):
        if not i or word.sentence != words[i - 1].sentence:
            groups.append([])
        groups[-1].append(i)
    return groups


def parse_note(words: Sequence[Word]) -> str:
    """What a heading says about a parse."""
    return f"{plural(len(words), 'word')}, {plural(len(sentences(words)), 'sentence')}"


@dataclass(frozen=True)
class Bough:
    """A line of an indented parse: the guide in front of the word, the word, its depth."""

    guide: str
    word: int
    depth: int


def layout_parse(words: Sequence[Word], members: Sequence[int], width: int) -> list[Bough]:
    """The words of a sentence as an indented tree, heads above dependents, in word order.

    A word whose head lies outside `members` counts as a root. Words that no root reaches (a cycle
    in a wrong row) come last, with a guide of `?`. Guides take at most half of `width`.
    """
    inside = set(members)
    children: dict[int, list[int]] = {}
    roots = []
    for i in members:
        if words[i].head == i or words[i].head not in inside:
            roots.append(i)
        else:
            children.setdefault(words[i].head, []).append(i)
    lines: list[Bough] = []
    seen = set()
    stack: list[tuple[int, tuple[bool, ...]]] = [(root, ()) for root in reversed(roots)]
    while stack:
        i, ends = stack.pop()
        seen.add(i)
        lines.append(Bough(_guide(ends, width // 2), i, len(ends)))
        own = children.get(i, [])
        stack += [(child, (*ends, k == 0)) for k, child in enumerate(reversed(own))]
    lines += [Bough("? ", i, 0) for i in members if i not in seen]
    return lines


def _guide(ends: tuple[bool, ...], cells: int) -> str:
    if not ends:
        return ""
    if 3 * len(ends) > cells:
        return f"{'·' * max(cells - 9, 1)} {len(ends)} deep "
    return "".join("   " if end else "│  " for end in ends[:-1]) + ("└─ " if ends[-1] else "├─ ")


# --- mask windows -----------------------------------------------------------------------------


def window(count: int, first_mention: int | None, size: int) -> tuple[int, int]:
    """Range of at most `size` of `count` tokens, around the first mention where there is one."""
    if count <= size:
        return 0, count
    start = 0 if first_mention is None else max(0, min(first_mention - size // 4, count - size))
    return start, start + size


def upright(labels: Sequence[str], height: int) -> list[list[str]]:
    """Column headers written downwards: `height` lines of a character per label, aligned at the foot."""
    columns = []
    for label in labels:
        chars = list(label)
        if len(chars) > height:
            chars = [*chars[: height - 1], "…"]
        columns.append([""] * (height - len(chars)) + chars)
    return [[column[line] for column in columns] for line in range(height)]
