"""Where the parts of a sentence tree stand, in character cells.

One layout serves the terminal, which draws it with box characters, and the HTML page, which draws
it as SVG with a fixed size per cell. The tree follows Figure 2 of the K-BERT paper: the trunk in
lines, each token over its soft position, branches hanging from the last token of their anchor, or
of the branch that they go on from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len

from pipelines.view.branchview import Branch, TreeToken
from pipelines.view.legible import clip, legible, legible_token, plural, wrap
from pipelines.view.rowview import RowView

GAP = 1
INDENT = 3
"""Cells from the column of a connector to its branch."""
ROOM = 34
"""Cells kept free to the right of an anchor for its branches."""
MAX_TOKEN = 24
_DEEPEST = 8
"""Branches on branches that are drawn in place; deeper ones (of a wrong row) stand by themselves."""


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
    below: dict[int, list[Branch]] = {}
    loose, depth = [], {0: 0}
    for branch in branches:  # a parent comes before its children
        depth[branch.number] = depth.get(branch.parent, _DEEPEST) + 1
        if branch.parent and depth[branch.number] <= _DEEPEST:
            below.setdefault(branch.parent, []).append(branch)
        elif not branch.parent and branch.mention in last:
            hanging.setdefault(last[branch.mention], []).append(branch)
        else:
            loose.append(branch)
    out = TreeLayout()
    for line in _break(trunk, hanging, below, width):
        _draw_line(out, trunk, line, hanging, below, width)
    for branch in loose:  # a wrong row: show what hangs nowhere
        where = f"branch {branch.parent}" if branch.parent else "no anchor"
        out.cells.append(Cell(0, out.height, f"branch {branch.number} hangs on {where}:", "triple"))
        out.height = _draw_branch(out, branch, below, INDENT, out.height + 1, width) + 1
    return out


def tree_note(view: RowView) -> str:
    """What a heading says about a tree."""
    mentions, branches = plural(view.mentions, "mention"), plural(len(view.branches), "branch")
    deep = sum(branch.parent > 0 for branch in view.branches)
    return f"{mentions}, {branches}{f' ({deep} of depth 2)' if deep else ''}; soft positions below the tokens"


def _break(
    trunk: Sequence[TreeToken], hanging: dict[int, list[Branch]], below: dict[int, list[Branch]], width: int
) -> list[list[tuple[int, int, int]]]:
    """Lines of (token, column, width). A mention with branches starts a new line where it would leave
    its branches less than `_room` cells."""
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
            anchor = sum(sizes[i : end + 1]) + GAP * (end - i)
            reach = max(reach, x + anchor + _room(hanging[end], below))
        if lines[-1] and reach > width:
            lines.append([])
            x = 0
        lines[-1].append((i, x, size))
        x += size + GAP
    return [line for line in lines if line]


def _room(branches: Sequence[Branch], below: dict[int, list[Branch]]) -> int:
    """Cells that branches want to the right of what they hang from: others hang from the last token of some."""
    room = ROOM
    for branch in branches:
        if branch.number in below:
            tokens = sum(_box(t) + GAP for t in branch.tokens)
            triple = 2 + cell_len(f"({legible(branch.triple.text)})")
            room = max(room, INDENT + tokens + max(triple, _room(below[branch.number], below)))
    return room


def _draw_line(
    out: TreeLayout,
    trunk: Sequence[TreeToken],
    line: list[tuple[int, int, int]],
    hanging: dict[int, list[Branch]],
    below: dict[int, list[Branch]],
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
        y = _hang(out, hanging[i], below, x + (size - 1) // 2, out.height + 2, y, width)
    out.height = y + 1


def _hang(
    out: TreeLayout,
    branches: Sequence[Branch],
    below: dict[int, list[Branch]],
    column: int,
    top: int,
    y: int,
    width: int,
) -> int:
    """Draw branches on a connector down `column` from line `top`, the first at line `y`; returns the
    first line below."""
    stops = []
    for branch in branches:
        stops.append(y)
        y = _draw_branch(out, branch, below, column + INDENT, y, width)
    out.links.append(Link(column, top, tuple(stops), branches[0].mention))
    return y


def _draw_branch(
    out: TreeLayout, branch: Branch, below: dict[int, list[Branch]], left: int, y: int, width: int
) -> int:
    """Draw one branch from column `left`, line `y`, and what hangs from it; returns the first line below."""
    x = column = left
    for token in branch.tokens:
        size = _box(token)
        if x > left and x + size > width:
            x, y = left, y + 2
        _draw_token(out, token, x, y, size, "branch")
        column = x + (size - 1) // 2
        x += size + GAP
    triple = f"({legible(branch.triple.text)})"
    y += 2
    if x + 2 + cell_len(triple) <= width:
        out.cells.append(Cell(x + 2, y - 2, triple, "triple", branch.mention))
    else:
        column = left  # a connector from the last token would cross the triple
        for piece in wrap(triple, width - left):
            out.cells.append(Cell(left, y, piece, "triple", branch.mention))
            y += 1
    own = below.get(branch.number)
    if not own:
        return y
    return _hang(out, own, below, column if column + ROOM <= width else left, y, y, width)


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
