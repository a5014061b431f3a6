"""The page that `treegraft inspect --html` writes: the row of the terminal, with tree, parse and masks as SVG."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.cells import cell_len

from pipelines.view.docview import DocumentView
from pipelines.view.legible import clip, legible_token, plural
from pipelines.view.maskview import make_grids
from pipelines.view.page import esc, facts, page, svg, table
from pipelines.view.parseview import parse_note, sentences
from pipelines.view.rowview import RowView, Word
from pipelines.view.treetext import anchors, hangs_from
from pipelines.view.treeview import Cell, layout_tree, tree_note

_CELL, _LINE = 9, 21
"""Pixels a character cell is wide, and a line of the tree is high."""
_WIDTH = 100
"""Cells that the tree is wide: 900 pixels, so that no window has to be wider than most are."""
_SQUARE = 12
_ARC, _WORDS_HEIGHT = 17, 44
"""Pixels from one level of dependency arcs to the next; pixels below the arcs."""
_MAX_LABEL = 40


def row_page(view: RowView, grid: str, max_grid: int) -> str:
    """The page of a shard row. `grid`: `none` leaves the masks out, `unilm` draws UniLM's, otherwise all that the
    columns give are drawn."""
    head: list[tuple[str, object]] = [
        ("split", f"{view.place.split}, row {view.place.row:,}"),
        ("shard", f"{view.place.shard}, row {view.place.shard_row:,}"),
        ("task", view.task),
    ]
    if view.label is not None:
        head.append(("label", view.label))
    if view.score is not None:
        head.append(("score", f"{view.score:g}"))
    parts = [facts([*head, *view.facts]), *(f'<p class="note">{esc(n)}</p>' for n in view.notes)]
    for name, text, span in view.named_texts:
        parts.append(f'<h2>{esc(name)}</h2><p class="text">{marked(text, span)}</p>')
    if not view.choices:
        parts += _sequence(view, grid, max_grid)
    for number, choice in enumerate(view.choices):
        text = f"<mark>{esc(choice.text)}</mark>" if choice.right else esc(choice.text)
        parts += [_h2(f"choice {number}", choice.note), f'<p class="text">{text}</p>']
        parts += _sequence(choice.view, grid, max_grid)
    return page(view.id, "\n".join(parts))


def marked(text: str, span: tuple[int, int] | None) -> str:
    """The text with what stands in `span` marked."""
    if span is None:
        return esc(text)
    start, stop = span
    return f"{esc(text[:start])}<mark>{esc(text[start:stop])}</mark>{esc(text[stop:])}"


def _sequence(view: RowView, grid: str, max_grid: int) -> list[str]:
    """Tree, tokens, parse, coarse tokens and masks of one sequence."""
    parts = []
    if view.tree is not None:
        parts += [_h2("sentence tree", tree_note(view)), tree_svg(view)]
        parts += _branches(view)
    parts += [_h2("tokens", f"{len(view.tokens):,}"), _tokens(view)]
    if view.words is not None:
        parts += _parse(view.words)
    if view.coarse is not None:
        note = f"{len(view.coarse):,} over {len(view.tokens):,} tokens"
        parts += [_h2("coarse tokens", note), _aligned(view), _coarse(view)]
    there = [k for k, columns in (("visible", view.tree), ("syntax", view.words)) if columns is not None]
    for kind in {"none": [], "unilm": ["unilm"]}.get(grid, there):
        for title, note, labels, seen in make_grids(view, kind, max_grid):
            parts += [_h2(title, note.replace("●", "■")), grid_svg(title, labels, seen)]
    return parts


def document_page(view: DocumentView) -> str:
    """The page of an annotated document."""
    place = f"{view.place.split}, document {view.place.row:,} ({view.place.shard})"
    parts = [facts([*view.facts.items(), ("split", place)])]
    parts += [f'<p class="note">{esc(n)}</p>' for n in view.notes]
    for name, side in zip(view.names, view.sides, strict=False):
        listed = [(i, f"{a}–{b}", side.text[a:b]) for i, (a, b) in enumerate(side.sentences)]
        parts += [_h2(name, plural(len(side.text), "character")), f'<p class="text">{esc(side.text)}</p>']
        parts += [
            _h2("sentences", f"{len(listed):,}"),
            table(("#", "chars", "sentence"), listed, numeric=(0,)),
        ]
        if side.parsed:
            parts += _parse(side.words)
        else:
            words = " · ".join(legible_token(w.text) for w in side.words)
            parts += [_h2("words", f"{len(side.words):,}, no parse"), f'<p class="text">{esc(words)}</p>']
    if view.choices:
        lines = [(i, line, "●" if right else "") for i, (line, right) in enumerate(view.choices)]
        parts += [_h2("choices", f"{len(lines):,}"), table(("#", "choice", "right"), lines, numeric=(0,))]
    if view.tags:
        parts += [_h2("labels", f"{len(view.tags):,}"), table(("source token", "label"), view.tags)]
    return page(view.facts["id"], "\n".join(parts))


def tree_svg(view: RowView) -> str:
    """The sentence tree, drawn from the terminal's layout."""
    layout = layout_tree(view.tree or [], view.branches, _WIDTH)
    parts = []
    for link in layout.links:
        x, left = (link.x + 0.5) * _CELL, (link.x + 2.5) * _CELL
        path = f"M{x:g} {link.top * _LINE:g}V{_middle(link.stops[-1]):g}"
        path += "".join(f"M{x:g} {_middle(stop):g}H{left:g}" for stop in link.stops)
        parts.append(f'<path class="m{link.mention % 5}" d="{path}"/>')
    parts += [_cell(cell) for cell in layout.cells]
    right = max((c.x + cell_len(c.text) for c in layout.cells), default=0)
    title = f"Sentence tree: {plural(len(view.branches), 'branch')} on {plural(view.mentions, 'mention')}"
    return svg((right + 1) * _CELL, max(layout.height, 1) * _LINE, title, "".join(parts))


def _cell(cell: Cell) -> str:
    names = {"position": "small", "triple": "small", "anchor": "bold"}.get(cell.kind, "")
    if cell.mention >= 0 and cell.kind in ("anchor", "branch"):
        names += f" m{cell.mention % 5}"
    x, anchor = cell.x * _CELL, ""
    if cell.kind != "triple":  # centred in its cells, so that a font of another width does not shift it
        x, anchor = x + cell_len(cell.text) * _CELL // 2, ' text-anchor="middle"'
    title = f"<title>{esc(cell.title)}</title>" if cell.title else ""
    y = cell.y * _LINE + 15
    return f'<text class="{names.strip()}" x="{x:g}" y="{y:g}"{anchor}>{esc(cell.text)}{title}</text>'


def _middle(line: int) -> float:
    return line * _LINE + 10


def arcs_svg(words: Sequence[Word], members: Sequence[int], title: str) -> str:
    """The parse of a sentence as arcs from heads to dependents, each with its relation."""
    labels = [clip(legible_token(words[i].text) or "∅", _MAX_LABEL) for i in members]
    sizes = [
        max(cell_len(label), cell_len(legible_token(words[i].deprel)), cell_len(legible_token(words[i].pos)))
        + 2
        for label, i in zip(labels, members, strict=True)
    ]
    centres, x = {}, 0
    for i, size in zip(members, sizes, strict=True):
        centres[i] = (x + size / 2) * _CELL
        x += size
    spans = [(min(i, words[i].head), max(i, words[i].head), i) for i in members if words[i].head in centres]
    levels = _levels([s for s in spans if s[0] != s[1]])
    base = (max(levels.values(), default=0) + 1) * _ARC + 14
    parts = []
    for low, high, i in spans:
        head, here = centres[words[i].head], centres[i]
        relation = esc(legible_token(words[i].deprel))
        if low == high:
            parts.append(f'<path class="line" d="M{here:g} 4V{base - 6:g}"/>')
            parts.append(f'<text class="small" x="{here + 4:g}" y="12">{relation}</text>')
        else:
            top = base - levels[i] * _ARC - 6
            # Dependents end a little beside the centre, so that arcs in and out do not touch.
            end = here + (4 if head > here else -4)
            parts.append(f'<path class="line" d="M{head:g} {base:g}V{top:g}H{end:g}V{base - 6:g}"/>')
            middle = (head + end) / 2
            parts.append(
                f'<text class="small" x="{middle:g}" y="{top - 2:g}" text-anchor="middle">{relation}</text>'
            )
            here = end
        tip = f"M{here - 3:g} {base - 6:g}h6l-3 6z"
        parts.append(f'<path class="line bar" d="{tip}"/>')
    for label, i in zip(labels, members, strict=True):
        at = f'x="{centres[i]:g}" text-anchor="middle"'
        parts.append(f'<text class="bold" {at} y="{base + 16:g}">{esc(label)}</text>')
        note = f"{legible_token(words[i].pos)} {i}".strip()
        parts.append(f'<text class="small" {at} y="{base + 31:g}">{esc(note)}</text>')
    return svg(x * _CELL, base + _WORDS_HEIGHT, title, "".join(parts))


def _levels(spans: Sequence[tuple[int, int, int]]) -> dict[int, int]:
    """Height of each arc, by dependent: above every arc that it spans, from 1."""
    levels: dict[int, int] = {}
    done: list[tuple[int, int, int]] = []
    for low, high, i in sorted(spans, key=lambda s: (s[1] - s[0], s)):
        # Shorter arcs are done first; an arc goes above those that share a stretch with it.
        levels[i] = 1 + max((level for a, b, level in done if a < high and low < b), default=0)
        done.append((low, high, levels[i]))
    return levels


def grid_svg(title: str, labels: Sequence[tuple[str, str]], seen: np.ndarray) -> str:
    """A mask as squares: a row for each query, a filled square for each token that it sees."""
    names = [f"{clip(name, 14)} {position}" for name, position in labels]
    left = 8 + max((cell_len(n) for n in names), default=0) * 8
    side = _SQUARE * len(labels)
    rows, cols = np.nonzero(seen)
    squares = "".join(
        f"M{left + c * _SQUARE + 1} {left + r * _SQUARE + 1}h{_SQUARE - 2}v{_SQUARE - 2}h-{_SQUARE - 2}z"
        for r, c in zip(rows.tolist(), cols.tolist(), strict=True)
    )
    parts = [f'<rect class="frame" x="{left}" y="{left}" width="{side}" height="{side}"/>']
    parts.append(f'<path class="seen" d="{squares}"/>')
    for i, name in enumerate(names):
        at = left + i * _SQUARE + 10
        parts.append(f'<text class="small" x="{left - 5}" y="{at}" text-anchor="end">{esc(name)}</text>')
        parts.append(
            f'<text class="small" transform="translate({at},{left - 5}) rotate(-90)">{esc(name)}</text>'
        )
    return svg(left + side + 4, left + side + 4, title, "".join(parts))


def _parse(words: Sequence[Word]) -> list[str]:
    groups = sentences(words)
    parts = [_h2("dependency parse", parse_note(words))]
    return parts + [
        arcs_svg(words, members, f"Dependency parse of sentence {n}") for n, members in enumerate(groups)
    ]


def _tokens(view: RowView) -> str:
    header = ["#", "token", "id", "text", "chars"]
    pair, tag, span = len(view.texts) > 1, view.task == "tag", view.task == "span"
    header += ["segment"] if pair else []
    header += ["word"] if view.words is not None else []
    header += ["coarse"] if view.coarse is not None else []
    header += ["soft", "mention"] if view.tree is not None else []
    numeric = [i for i, name in enumerate(header) if name in ("#", "id", "word", "coarse", "soft", "mention")]
    header += ["label"] if tag else []
    header += ["answer", "max context"] if span else []
    rows = []
    for t in view.tokens:
        row: list[object] = [t.index, legible_token(t.string), t.id, legible_token(t.piece or "")]
        row.append("" if t.piece is None else f"{t.start}–{t.stop}")
        row += ["AB"[t.segment & 1]] if pair else []
        row += [_known(t.word)] if view.words is not None else []
        row += [_known(t.coarse)] if view.coarse is not None else []
        row += [_known(t.soft), _known(t.mention)] if view.tree is not None else []
        row += [t.label or ""] if tag else []
        row += ["●" if t.answer else "", "●" if t.best else ""] if span else []
        rows.append(row)
    return table(header, rows, numeric)


def _branches(view: RowView) -> list[str]:
    if not view.branches:
        return []
    header = ("#", "hangs from", "subject", "predicate", "object", "file:line")
    names = anchors(view.tree or [])
    rows = [
        (
            b.number,
            hangs_from(b, names),
            b.triple.subject,
            b.triple.predicate,
            b.triple.object or b.triple.note,
            b.triple.source,
        )
        for b in view.branches
    ]
    return [_h2("branches", plural(len(rows), "triple")), table(header, rows, numeric=(0,))]


def _aligned(view: RowView) -> str:
    """Coarse tokens, and under each the fine tokens that it covers, as a text runs."""
    units = (
        f'<span class="unit"><b>{esc(legible_token(coarse.string))}</b>'
        f'<span class="dim">{esc(" ".join(legible_token(view.tokens[t].string) for t in coarse.fine))}</span></span>'
        for coarse in view.coarse or ()
    )
    return f"<p>{''.join(units)}</p>"


def _coarse(view: RowView) -> str:
    words = view.words or []
    rows = [
        (
            i,
            legible_token(coarse.string),
            coarse.id,
            " ".join(f"{legible_token(view.tokens[t].string)}·{t}" for t in coarse.fine),
            " ".join(f"{legible_token(words[w].text)}·{w}" for w in coarse.words if w < len(words)),
        )
        for i, coarse in enumerate(view.coarse or ())
    ]
    return table(("#", "coarse token", "id", "fine tokens", "words"), rows, numeric=(0, 2))


def _known(value: int | None) -> str:
    return "" if value is None or value < 0 else str(value)


def _h2(name: str, note: str) -> str:
    return f'<h2>{esc(name)} <small class="dim">{esc(note)}</small></h2>'
