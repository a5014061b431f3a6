"""A sentence tree in a terminal: drawn with box characters, and its branches as a table of triples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from pipelines.view.branchview import Branch, TreeToken
from pipelines.view.legible import clip, legible, legible_token, plural
from pipelines.view.tables import Column, fitted, title
from pipelines.view.treeview import layout_tree

MENTION_STYLES = ("cyan", "magenta", "green", "yellow", "blue")
_STYLES = {"position": "dim", "triple": "dim italic", "anchor": "bold", "branch": "", "token": ""}
_MAX_ANCHOR = 24


def mention_style(mention: int) -> str:
    """The colour of a mention, its anchor and its branches."""
    return MENTION_STYLES[mention % len(MENTION_STYLES)]


def tree_text(tree: Sequence[TreeToken], branches: Sequence[Branch], width: int) -> Text:
    """The sentence tree in lines of `width` cells, branches under what they hang from."""
    layout = layout_tree(tree, branches, width)
    lines: list[list[tuple[int, str, str]]] = [[] for _ in range(layout.height + 1)]
    for cell in layout.cells:
        style = _STYLES[cell.kind]
        if cell.mention >= 0 and cell.kind in ("anchor", "branch"):
            style = f"{style} {mention_style(cell.mention)}".strip()
        lines[cell.y].append((cell.x, cell.text, style))
    for link in layout.links:
        for y in range(link.top, link.stops[-1] + 1):
            turn = "│" if y not in link.stops else "└─" if y == link.stops[-1] else "├─"
            lines[y].append((link.x, turn, mention_style(link.mention)))
    text = Text(no_wrap=True, overflow="ignore")
    for number, line in enumerate(lines):
        at = 0
        for x, piece, style in sorted(line):
            text.append(" " * (x - at))
            text.append(piece, style)
            at = x + cell_len(piece)
        if number < len(lines) - 1:
            text.append("\n")
    text.rstrip()
    return text


def branch_parts(branches: Sequence[Branch], names: Mapping[int, str], width: int) -> list[RenderableType]:
    """A heading and a table: what each branch hangs from, its triple, and where that stands.

    `names` are the anchors' texts by mention, as `anchors` gives them. Nothing without branches.
    """
    if not branches:
        return []
    columns = [
        Column("#"),
        Column("hangs from", number=False, least=8),
        Column("subject", number=False, least=7),
        Column("predicate", number=False, least=9),
        Column("object", number=False, least=8),
        Column("file:line", number=False, least=9),
    ]
    rows = []
    for branch in branches:
        triple = branch.triple
        cells = (hangs_from(branch, names), triple.subject, triple.predicate, triple.object or triple.note)
        style = mention_style(branch.mention)
        rows.append([Text(str(branch.number), style), *(Text(legible(c)) for c in (*cells, triple.source))])
    return [title("branches", plural(len(branches), "triple")), fitted(columns, rows, width)[0]]


def anchors(tree: Sequence[TreeToken]) -> dict[int, str]:
    """Text of each mention's anchor: its trunk tokens."""
    found: dict[int, list[str]] = {}
    for token in tree:
        if token.branch == 0 and token.mention >= 0:
            found.setdefault(token.mention, []).append(token.string)
    return {mention: _joined(tokens) for mention, tokens in found.items()}


def hangs_from(branch: Branch, names: Mapping[int, str]) -> str:
    """What a branch hangs from: `branch 3`, or its anchor."""
    if branch.parent:
        return f"branch {branch.parent}"
    return names.get(branch.mention, f"mention {branch.mention}")


def _joined(tokens: Sequence[str]) -> str:
    """WordPiece tokens as text: `##` continues, words of ASCII letters have spaces between them."""
    text = ""
    for token in tokens:
        piece = legible_token(token.removeprefix("##"))
        spaced = text and text[-1].isascii() and piece[:1].isascii() and not token.startswith("##")
        text += (" " if spaced else "") + piece
    return clip(text, _MAX_ANCHOR)
