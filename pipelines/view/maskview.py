"""Who sees whom in one row, from the same integers that the models' masks are made of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.cells import cell_len
from rich.text import Text

from pipelines.view.legible import clip, legible_token, pad, plural
from pipelines.view.rowview import RowView

_LABEL_CELLS = 12
_HEADER_LINES = 6
_SMALL = 10
"""Tokens of a small grid: three stand side by side in a hundred columns."""


def visible(branch: np.ndarray, mention: np.ndarray, parent: np.ndarray) -> np.ndarray:
    """The visible matrix (K-BERT, Seeing layer, equation 3) of the tokens given, bool[n, n].

    Two tokens see each other if they are of the same branch (the trunk is branch 0), if exactly one
    of them is on the trunk and both belong to the same mention, or if the branch of one hangs from
    the branch of the other (a branch of the paper is a path from the trunk). Shapes int[n] each;
    `parent` is the branch that each token's branch hangs from, 0 = the trunk.
    """
    same = branch[:, None] == branch[None, :]
    one_on_trunk = (branch[:, None] == 0) != (branch[None, :] == 0)
    mentions = (mention[:, None] == mention[None, :]) & (mention[:, None] >= 0)
    hangs = (parent[:, None] == branch[None, :]) & (parent[:, None] > 0)
    return same | (one_on_trunk & mentions) | hangs | hangs.T


def ancestors(word: np.ndarray, dfs_in: np.ndarray, dfs_out: np.ndarray) -> np.ndarray:
    """The syntax mask (SG-Net, section 3.2) of the tokens given, bool[n, n]; rows are queries.

    A token sees every token of its own word and of the word's ancestors; a special token (word -1)
    sees itself alone. `word` is int[n], `dfs_in` and `dfs_out` int[W].
    """
    inside = (word >= 0) & (word < len(dfs_in))
    at = np.where(inside, word, 0)
    start, stop = (x[at] if len(x) else np.zeros(len(word), np.int64) for x in (dfs_in, dfs_out))
    seen = (start[None, :] <= start[:, None]) & (start[:, None] < stop[None, :])
    both = inside[:, None] & inside[None, :]
    return (seen & both) | np.eye(len(word), dtype=bool)


def unilm(segment: np.ndarray) -> dict[str, np.ndarray]:
    """The three masks of UniLM (Dong et al. 2019, figure 1) of the tokens given, each bool[n, n]; rows are queries.

    `segment` is int[n], 0 for the source. Left to right a token sees itself and what stands before; of sequence to
    sequence all see the source, and the target itself and what stands before it.
    """
    before = np.tri(len(segment), dtype=bool)
    seen = (segment[None, :] == 0) | ((segment[:, None] == 1) & before)
    return {
        "bidirectional": np.ones_like(before),
        "left to right": before,
        "sequence to sequence": seen,
    }


Grid = tuple[str, str, list[tuple[str, str]], np.ndarray]
"""Title, note, (label, position) of each token shown, and bool[n, n] of who sees whom."""


def make_grids(view: RowView, grid: str, max_grid: int, width: int | None = None) -> list[Grid]:
    """The masks that `grid` asks for: `unilm` is three, of which only a few tokens around the second text's first."""
    if grid != "unilm":
        made = make_grid(view, grid, max_grid, width)
        return [] if made is None else [made]
    segments = np.array([t.segment for t in view.tokens], int)
    border = int(segments.argmax()) if segments.any() else None
    start, stop = window(len(segments), border, max(1, min(max_grid, _SMALL)))
    labels = [(legible_token(t.string), str(t.index)) for t in view.tokens[start:stop]]
    note = f"tokens {start} to {stop - 1} of {len(segments):,}; ● = row sees column"
    return [(name, note, labels, seen) for name, seen in unilm(segments[start:stop]).items()]


def make_grid(view: RowView, grid: str, max_grid: int, width: int | None = None) -> Grid | None:
    """The visible matrix (`visible`, where there is a tree), else the syntax mask.

    None where the row has neither tree nor parse. Only the window's part of the mask is computed.
    """
    if grid == "visible" and view.tree is not None:
        strings = [(legible_token(t.string), str(t.soft)) for t in view.tree]
        mention = next((i for i, t in enumerate(view.tree) if t.mention >= 0), None)
        what, unit, numbers = "visible matrix", "tree token", "numbers are soft positions"
    elif view.words is not None:
        strings = [(legible_token(t.string), str(t.index)) for t in view.tokens]
        mention = None  # the parse has nothing to do with mentions: shown from the start
        what, unit, numbers = "syntax mask (ancestors)", "token", "numbers are token indices"
    else:
        return None
    size = max(max_grid, 1)
    if width is not None:
        size = max(1, min(size, (width - _LABEL_CELLS - 8) // 2))
    start, stop = window(len(strings), mention, size)
    if what == "visible matrix":
        shown = (view.tree or [])[start:stop]
        seen = visible(
            np.array([t.branch for t in shown], int),
            np.array([t.mention for t in shown], int),
            np.array([t.parent for t in shown], int),
        )
    else:
        dfs = view.dfs or (np.zeros(0, int), np.zeros(0, int))
        words = [-1 if t.word is None else t.word for t in view.tokens[start:stop]]
        seen = ancestors(np.array(words, int), *dfs)
    note = plural(len(strings), unit)
    if stop - start < len(strings):
        where = "around the first mention" if mention is not None else "from the start"
        note = f"{unit}s {start} to {stop - 1} of {len(strings):,}, {where}"
    return what, f"{note}; ● = row sees column; {numbers}", strings[start:stop], seen


def grid_text(labels: Sequence[tuple[str, str]], seen: np.ndarray) -> Text:
    """A mask as characters, two cells a column: ● visible, · hidden."""
    names = [clip(name, _LABEL_CELLS) for name, _ in labels]
    left = max((cell_len(n) for n in names), default=0)
    right = max((len(p) for _, p in labels), default=0)
    height = min(_HEADER_LINES, max((len(n) for n, _ in labels), default=0))
    text = Text(no_wrap=True, overflow="ignore")
    for line in upright([name for name, _ in labels], height):
        text.append(" " * (left + right + 2))
        text.append("".join(pad(char, 2) for char in line).rstrip() + "\n", "dim")
    for name, (_, position), row in zip(names, labels, seen.tolist(), strict=True):
        text.append(" " * (left - cell_len(name)) + name)
        text.append(f" {position:>{right}} ", "dim")
        for mark in row:
            text.append("● " if mark else "· ", "" if mark else "dim")
        text.append("\n")
    text.rstrip()
    return text


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
