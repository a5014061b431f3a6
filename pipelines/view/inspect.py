"""One row of a dataset, legible in a terminal: `treegraft inspect DIR`.

Shown are the texts, the sentence tree with soft positions, the tokens, the parse, the coarse
tokens and the mask that follows from them; of a question also its answer, or each of its choices.
Everything from data is escaped (`pipelines.view.legible`). An annotated folder shows the document with its
sentences, words and parse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rich import box
from rich.cells import cell_len
from rich.columns import Columns
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from pipelines.view.docview import DocumentView, document_parts, document_view
from pipelines.view.find import row_of
from pipelines.view.folder import FolderError, open_folder
from pipelines.view.legible import beginning, clip, legible, legible_token, plural
from pipelines.view.maskview import grid_text, make_grids
from pipelines.view.parseview import parse_parts
from pipelines.view.rowview import RowView, Word, row_view
from pipelines.view.tables import Column, facts_table, fitted, title
from pipelines.view.treetext import anchors, branch_parts, mention_style, tree_text
from pipelines.view.treeview import tree_note

GRIDS = ("visible", "syntax", "unilm", "none")
PARTS = ("text", "tree", "tokens", "parse", "coarse", "mask")
"""What a row is shown as, below its header."""
MAX_GRID = 64


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
    only: Sequence[str] | None = None,
    choice: int | None = None,
) -> None:
    """Print a row (the first one by default), or write it to `html` as a page.

    Raises FolderError as `render_row` does, also where the folder of `html` does not exist.
    """
    if row is not None and id is not None:
        raise FolderError("give a row number or an id, not both")
    which = id if id is not None else row or 0
    if html is None:
        for part in render_row(
            folder, which, split, width=console.width, max_grid=max_grid, grid=grid, only=only, choice=choice
        ):
            console.print(part)
        return
    if only is not None or choice is not None:
        raise FolderError("a page shows the whole row: --only and --choice are for the terminal")
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
    only: Sequence[str] | None = None,
    choice: int | None = None,
) -> list[RenderableType]:
    """A row, by number within its split or by id, as parts to print with rich at `width` cells.

    `tokenizer` gives token strings by id; default: `tokens.txt` of the folder. `grid` is `visible`
    (the visible matrix; without a tree, the syntax mask), `syntax`, `unilm` (three small ones) or `none`; at most
    `max_grid` tokens of it are drawn: of the visible matrix around the first mention, of the syntax mask from
    the start. `only` are those of `PARTS` to show, `choice` the one choice of a question. Without `split` an id is
    looked for in every split, and a number counts in `train` or else the first split.

    Raises:
        FolderError: not a dataset folder, no such split, row, id, part or choice, or no columns for `grid`.
    """
    view = load(folder, row, split, tokenizer)
    _check_grid(grid, view)
    parts = _checked_parts(only)
    if not isinstance(view, RowView):
        return document_parts(view, width)
    if choice is not None and not 0 <= choice < len(view.choices):
        there = (
            f"it has {len(view.choices)}, numbered from 0" if view.choices else f"it is of task {view.task!r}"
        )
        raise FolderError(f"row {view.id!r} has no choice {choice}: {there}")
    _check_there(view, only or ())
    return row_parts(view, width, grid, max_grid, parts, choice)


def load(
    folder: str | Path, row: int | str, split: str | None = None, tokens: Sequence[str] | None = None
) -> RowView | DocumentView:
    """Open a folder and make one of its rows or documents legible. Raises FolderError."""
    opened = open_folder(folder)
    place, values = row_of(opened, row, split) if isinstance(row, str) else opened.row(row, split)
    if opened.stage == "annotate":
        return document_view(opened, place, values)
    return row_view(opened, place, values, tokens)


def _check_grid(grid: str, view: RowView | DocumentView) -> None:
    if grid not in GRIDS:
        raise FolderError(f"grid must be one of {', '.join(GRIDS)}; found {grid!r}")
    if grid == "syntax" and isinstance(view, RowView) and not view.parsed:
        raise FolderError("no syntax mask: the dataset was made without 'syntax' in encode.columns")


def _checked_parts(only: Sequence[str] | None) -> Sequence[str]:
    if only is None:
        return PARTS
    if wrong := [part for part in only if part not in PARTS]:
        raise FolderError(f"there is no part {legible(wrong[0])!r} to show; name some of {','.join(PARTS)}")
    return only


def _check_there(view: RowView, only: Sequence[str]) -> None:
    """A part that is asked for by name must be there. Raises FolderError."""
    views = [choice.view for choice in view.choices] or [view]
    groups = {"tree": "tree", "parse": "syntax", "coarse": "coarse"}
    there = {
        "tree": any(one.tree is not None for one in views),
        "parse": view.parsed,
        "coarse": any(one.coarse is not None for one in views),
    }
    for part in only:
        if not there.get(part, True):
            raise FolderError(
                f"there is no {part} to show: the dataset was made without {groups[part]!r} in encode.columns"
            )


# --- rows -------------------------------------------------------------------------------------


def row_parts(
    view: RowView,
    width: int,
    grid: str,
    max_grid: int,
    only: Sequence[str] = PARTS,
    choice: int | None = None,
) -> list[RenderableType]:
    """Parts of a shard row; of multiple choice, one choice after another, or `choice` alone."""
    parts: list[RenderableType] = [_header(view)]
    for name, text, marked in view.named_texts if "text" in only else ():
        parts += [title(name, plural(len(text), "character")), _marked(text, marked)]
    if not view.choices:
        return parts + _sequence_parts(view, width, grid, max_grid, only)
    for number, one in enumerate(view.choices):
        if choice in (None, number):
            style = "bold reverse" if one.right else "bold"
            parts += [title(f"choice {number}", one.note), Text(legible(one.text), style)]
            parts += _sequence_parts(one.view, width, grid, max_grid, only)
    return parts


def _marked(text: str, span: tuple[int, int] | None) -> Text:
    if span is None:
        return Text(beginning(text))
    start, stop = span
    inside = Text(beginning(text[start:stop]), "bold reverse")
    return Text.assemble(beginning(text[:start]), inside, beginning(text[stop:]))


def _sequence_parts(
    view: RowView, width: int, grid: str, max_grid: int, only: Sequence[str]
) -> list[RenderableType]:
    """Tree, tokens, parse, coarse tokens and mask of one sequence, those of them that are wanted."""
    parts: list[RenderableType] = []
    if view.tree is not None and "tree" in only:
        parts += [title("sentence tree", tree_note(view)), tree_text(view.tree, view.branches, width)]
        parts += branch_parts(view.branches, anchors(view.tree), width)
    if "tokens" in only:
        parts += token_parts(view, width)
    if view.words is not None and "parse" in only:
        parts += parse_parts(view.words, width)
    if view.coarse is not None and "coarse" in only:
        note = f"{len(view.coarse):,} over {len(view.tokens):,} tokens"
        parts += [title("coarse tokens", note), coarse_lines(view, width), coarse_table(view)]
    if grid != "none" and "mask" in only:
        parts += _grid_parts(view, grid, width, max_grid)
    return parts


def _header(view: RowView) -> Table:
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
    facts += view.facts
    facts += [("note", note) for note in view.notes]
    return facts_table(facts)


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
    if view.task == "span":
        columns.append((Column("answer", number=False), lambda i: Text(_dot(view.tokens[i].answer), "bold")))
        columns.append((Column("max context", number=False), lambda i: Text(_dot(view.tokens[i].best))))
    rows = [[cell(token.index) for _, cell in columns] for token in view.tokens]
    table, left_out = fitted([column for column, _ in columns], rows, width)
    note = f"; left out at {width} columns: {', '.join(left_out)}" if left_out else ""
    return [title("tokens", f"{len(view.tokens):,}{note}"), table]


def coarse_lines(view: RowView, width: int) -> Text:
    """Coarse tokens, and under each the fine tokens that it covers, as a text runs."""
    above, below, lines = Text(), Text(), Text()
    for coarse in view.coarse or ():
        top = clip(legible_token(coarse.string), width)
        under = clip(" ".join(legible_token(view.tokens[t].string) for t in coarse.fine), width)
        size = max(cell_len(top), cell_len(under))
        if above and cell_len(above.plain) + size > width:
            _pair(lines, above, below).append("\n\n")
            above, below = Text(), Text()
        above.append(top, "bold").append(" " * (size - cell_len(top) + 2))
        below.append(under, "dim").append(" " * (size - cell_len(under) + 2))
    return _pair(lines, above, below).append("\n")


def _pair(lines: Text, above: Text, below: Text) -> Text:
    above.rstrip()
    below.rstrip()
    return lines.append_text(above).append("\n").append_text(below)


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


def _grid_parts(view: RowView, grid: str, width: int, max_grid: int) -> list[RenderableType]:
    made = make_grids(view, grid, max_grid, width)
    if grid == "unilm":
        small = [
            Text.assemble((what, "bold"), "\n", grid_text(labels, seen)) for what, _, labels, seen in made
        ]
        return [title("UniLM's masks", made[0][1]), Columns(small, padding=(1, 3))]
    parts: list[RenderableType] = []
    for what, note, labels, seen in made:
        parts += [title(what, note), grid_text(labels, seen)]
    return parts


# --- small things -----------------------------------------------------------------------------


def _token_text(view: RowView, i: int) -> Text:
    token = view.tokens[i]
    style = "dim" if token.piece is None else "bold"
    if token.answer:
        style = "bold reverse"
    elif token.mention is not None:
        style = f"bold {mention_style(token.mention)}"
    return Text(clip(legible_token(token.string), 32), style)


def _span(view: RowView, i: int) -> str:
    token = view.tokens[i]
    return "" if token.piece is None else f"{token.start}–{token.stop}"


def _dot(flag: bool | None) -> str:
    return "●" if flag else ""


def _index(value: int | None) -> str:
    return "" if value is None or value < 0 else str(value)


def _word(words: Sequence[Word] | None, i: int) -> str:
    return legible_token(words[i].text) if words is not None and i < len(words) else ""
