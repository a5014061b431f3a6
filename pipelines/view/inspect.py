"""One row of a dataset, legible in a terminal: `treegraft inspect DIR`.

Shown are the texts, the sentence tree with soft positions, the tokens, the parse, the coarse
tokens and the mask that follows from them. Everything from data is escaped (`pipelines.view.legible`).
An annotated folder shows the document with its sentences, words and parse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rich import box
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from pipelines.view.docview import DocumentView, document_view
from pipelines.view.folder import FolderError, open_folder
from pipelines.view.legible import clip, legible, legible_token, plural
from pipelines.view.maskview import grid_text, make_grid
from pipelines.view.rowview import RowView, Word, row_view
from pipelines.view.tables import Column, fitted
from pipelines.view.treeview import layout_parse, layout_tree, parse_note, sentences, tree_note

GRIDS = ("visible", "syntax", "none")
MAX_GRID = 64
MENTION_STYLES = ("cyan", "magenta", "green", "yellow", "blue")
_STYLES = {"position": "dim", "triple": "dim italic", "anchor": "bold", "branch": "", "token": ""}


def show(
    folder: str | Path,
    console: Console,
    *,
    row: int | None = None,
    id: str | None = None,
    split: str | None = None,
    grid: str = "visible",
    html: str | Path | None = None,
    max_grid: int = MAX_GRID,
) -> None:
    """Print a row (the first one by default), or write it to `html` as a page.

    Raises FolderError as `render_row` does, also where the folder of `html` does not exist.
    """
    if row is not None and id is not None:
        raise FolderError("give a row number or an id, not both")
    which = id if id is not None else row or 0
    if html is None:
        for part in render_row(folder, which, split, width=console.width, max_grid=max_grid, grid=grid):
            console.print(part)
        return
    from pipelines.view.inspect_html import document_page, row_page
    from pipelines.view.page import write_page

    view = load(folder, which, split)
    _check_grid(grid, view)
    page = row_page(view, grid, max_grid) if isinstance(view, RowView) else document_page(view)
    write_page(html, page)
    console.print(f"wrote {html}", highlight=False, markup=False)


def render_row(
    folder: str | Path,
    row: int | str = 0,
    split: str | None = None,
    tokenizer: Sequence[str] | None = None,
    *,
    width: int = 100,
    max_grid: int = MAX_GRID,
    grid: str = "visible",
) -> list[RenderableType]:
    """A row, by number within its split or by id, as parts to print with rich at `width` cells.

    `tokenizer` gives token strings by id; default: `tokens.txt` of the folder. `grid` is `visible`
    (the visible matrix; without a tree, the syntax mask), `syntax` or `none`; at most `max_grid`
    tokens of it are drawn: of the visible matrix around the first mention, of the syntax mask from
    the start. Without `split` an id is looked for in every
    split, and a number counts in `train` or else the first split.

    Raises:
        FolderError: not a dataset folder, no such split, row or id, or no columns for `grid`.
    """
    view = load(folder, row, split, tokenizer)
    _check_grid(grid, view)
    return (
        row_parts(view, width, grid, max_grid) if isinstance(view, RowView) else document_parts(view, width)
    )


def load(
    folder: str | Path, row: int | str, split: str | None = None, tokens: Sequence[str] | None = None
) -> RowView | DocumentView:
    """Open a folder and make one of its rows or documents legible. Raises FolderError."""
    opened = open_folder(folder)
    place, values = opened.row_of(row, split) if isinstance(row, str) else opened.row(row, split)
    if opened.stage == "annotate":
        return document_view(opened, place, values)
    return row_view(opened, place, values, tokens)


def _check_grid(grid: str, view: RowView | DocumentView) -> None:
    if grid not in GRIDS:
        raise FolderError(f"grid must be one of {', '.join(GRIDS)}; found {grid!r}")
    if grid == "syntax" and isinstance(view, RowView) and view.words is None:
        raise FolderError("no syntax mask: the dataset was made without 'syntax' in encode.columns")


# --- rows -------------------------------------------------------------------------------------


def row_parts(view: RowView, width: int, grid: str, max_grid: int) -> list[RenderableType]:
    """All parts of a shard row."""
    parts: list[RenderableType] = [_header(view)]
    for segment, text in zip("AB", view.texts, strict=False):
        name = f"text {segment}" if len(view.texts) > 1 else "text"
        parts += [_title(name, plural(len(text), "character")), Text(legible(text))]
    if view.tree is not None:
        parts += [_title("sentence tree", tree_note(view)), tree_text(view, width)]
    parts += token_parts(view, width)
    if view.words is not None:
        parts += parse_parts(view.words, width)
    if view.coarse is not None:
        parts += [_title("coarse tokens", f"{len(view.coarse):,}"), coarse_table(view)]
    if grid != "none":
        parts += _grid_parts(view, grid, width, max_grid)
    return parts


def _header(view: RowView) -> Table:
    table = _grid_table()
    facts = [
        ("id", view.id),
        ("split", f"{view.place.split}, row {view.place.row:,}"),
        ("shard", f"{view.place.shard}, row {view.place.shard_row:,}"),
        ("task", view.task),
    ]
    if view.label is not None:
        facts.append(("label", view.label))
    if view.score is not None:
        facts.append(("score", f"{view.score:g}"))
    facts += [("note", note) for note in view.notes]
    for name, value in facts:
        table.add_row(Text(name, "bold"), Text(legible(value), "yellow" if name == "note" else ""))
    return table


def tree_text(view: RowView, width: int) -> Text:
    """The sentence tree, branches under their anchors."""
    layout = layout_tree(view.tree or [], view.branches, width)
    lines: list[list[tuple[int, str, str]]] = [[] for _ in range(layout.height + 1)]
    for cell in layout.cells:
        style = _STYLES[cell.kind]
        if cell.mention >= 0 and cell.kind in ("anchor", "branch"):
            style = f"{style} {_mention_style(cell.mention)}".strip()
        lines[cell.y].append((cell.x, cell.text, style))
    for link in layout.links:
        for y in range(link.top, link.stops[-1] + 1):
            turn = "│" if y not in link.stops else "└─" if y == link.stops[-1] else "├─"
            lines[y].append((link.x, turn, _mention_style(link.mention)))
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


def token_parts(view: RowView, width: int) -> list[RenderableType]:
    """Every token with the piece of text it stands for and its indices; in a narrow terminal not all indices."""
    columns: list[tuple[Column, Callable[[int], Text]]] = [
        (Column("#"), lambda i: Text(str(i), "dim")),
        (Column("token", number=False, least=8), lambda i: _token_text(view, i)),
        (Column("id", rank=3), lambda i: Text(str(view.tokens[i].id))),
        (Column("text", number=False, least=8), lambda i: Text(legible_token(view.tokens[i].piece or ""))),
        (Column("chars", rank=2), lambda i: Text(_span(view, i), "dim")),
    ]
    if len(view.texts) > 1:
        columns.append((Column("seg", number=False), lambda i: Text("AB"[view.tokens[i].segment & 1])))
    if view.words is not None:
        columns.append((Column("word", rank=4), lambda i: Text(_index(view.tokens[i].word))))
    if view.coarse is not None:
        columns.append((Column("coarse", rank=5), lambda i: Text(_index(view.tokens[i].coarse))))
    if view.tree is not None:
        columns.append((Column("soft"), lambda i: Text(_index(view.tokens[i].soft))))
        columns.append((Column("mention", rank=1), lambda i: Text(_index(view.tokens[i].mention))))
    if view.task == "tag":
        columns.append(
            (Column("label", number=False), lambda i: Text(legible(view.tokens[i].label or ""), "bold"))
        )
    rows = [[cell(token.index) for _, cell in columns] for token in view.tokens]
    table, left_out = fitted([column for column, _ in columns], rows, width)
    note = f"; left out at {width} columns: {', '.join(left_out)}" if left_out else ""
    return [_title("tokens", f"{len(view.tokens):,}{note}"), table]


def coarse_table(view: RowView) -> Table:
    """Every coarse token beside the fine tokens and the words that it covers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in ("#", "coarse token", "id", "fine tokens", "words"):
        table.add_column(name, justify="right" if name in ("#", "id") else "left")
    for i, coarse in enumerate(view.coarse or ()):
        fine = [f"{legible_token(view.tokens[t].string)}·{t}" for t in coarse.fine]
        words = [f"{_word(view.words, w)}·{w}" for w in coarse.words]
        string = Text(clip(legible_token(coarse.string), 32), "bold")
        table.add_row(
            Text(str(i), "dim"), string, Text(str(coarse.id)), Text("  ".join(fine)), Text("  ".join(words))
        )
    return table


def parse_parts(words: Sequence[Word], width: int) -> list[RenderableType]:
    """The dependency parse, an indented tree a sentence."""
    groups = sentences(words)
    parts: list[RenderableType] = [_title("dependency parse", parse_note(words))]
    for number, members in enumerate(groups):
        lines = layout_parse(words, members, width)
        left = max(cell_len(b.guide) + cell_len(_word_label(words, b.word)) for b in lines) + 2
        text = Text(no_wrap=True, overflow="ignore")
        for bough in lines:
            label = _word_label(words, bough.word)
            text.append("\n" + bough.guide, "dim")
            text.append(label, "bold" if not bough.depth else "")
            text.append(" " * (left - cell_len(bough.guide) - cell_len(label)))
            word = words[bough.word]
            text.append(f"{legible(word.deprel)}", "cyan")
            text.append(f"  {legible(word.pos)}  " if word.pos else "  ", "green")
            text.append(f"{bough.word}", "dim")
            if bough.depth:
                text.append(f" ← {word.head}", "dim")
        parts.append(Group(Text(f"sentence {number}", "dim"), Text.assemble(text[1:])))
    return parts


def _grid_parts(view: RowView, grid: str, width: int, max_grid: int) -> list[RenderableType]:
    made = make_grid(view, grid, max_grid, width)
    if made is None:
        return []
    title, note, labels, seen = made
    return [_title(title, note), grid_text(labels, seen)]


# --- documents --------------------------------------------------------------------------------


def document_parts(view: DocumentView, width: int) -> list[RenderableType]:
    """An annotated document: header, then each text's sentences and words or parse."""
    table = _grid_table()
    place = f"{view.place.split}, document {view.place.row:,} ({view.place.shard})"
    for name, value in [*view.facts.items(), ("split", place), *(("note", n) for n in view.notes)]:
        table.add_row(Text(name, "bold"), Text(legible(value)))
    parts: list[RenderableType] = [table]
    for name, side in zip(("text", "second text"), view.sides, strict=False):
        parts += [_title(name, plural(len(side.text), "character")), Text(legible(side.text))]
        listed = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for column in ("#", "chars", "sentence"):
            listed.add_column(column)
        for i, (start, stop) in enumerate(side.sentences):
            listed.add_row(
                Text(str(i), "dim"), Text(f"{start}–{stop}", "dim"), Text(legible(side.text[start:stop]))
            )
        parts += [_title("sentences", f"{len(side.sentences):,}"), listed]
        if side.parsed:
            parts += parse_parts(side.words, width)
        else:
            words = Text("  ").join(Text(legible_token(w.text)) for w in side.words)
            parts += [_title("words", f"{len(side.words):,}, no parse"), words]
    if view.tags:
        tags = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        tags.add_column("source token")
        tags.add_column("label")
        for token, label in view.tags:
            tags.add_row(Text(legible_token(token)), Text(legible(label), "bold"))
        parts += [_title("labels", f"{len(view.tags):,}"), tags]
    return parts


# --- small things -----------------------------------------------------------------------------


def _title(name: str, note: str = "") -> Text:
    return Text.assemble("\n", (name, "bold underline"), (f"  {note}" if note else "", "dim"))


def _grid_table() -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _mention_style(mention: int) -> str:
    return MENTION_STYLES[mention % len(MENTION_STYLES)]


def _token_text(view: RowView, i: int) -> Text:
    token = view.tokens[i]
    style = "dim" if token.piece is None else "bold"
    if token.mention is not None:
        style = f"bold {_mention_style(token.mention)}"
    return Text(clip(legible_token(token.string), 32), style)


def _span(view: RowView, i: int) -> str:
    token = view.tokens[i]
    return "" if token.piece is None else f"{token.start}–{token.stop}"


def _index(value: int | None) -> str:
    return "" if value is None or value < 0 else str(value)


def _word(words: Sequence[Word] | None, i: int) -> str:
    return legible_token(words[i].text) if words is not None and i < len(words) else ""


def _word_label(words: Sequence[Word], i: int) -> str:
    return clip(legible_token(words[i].text) or "∅", 32)
