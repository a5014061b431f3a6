"""Tables that never cut a number: labels fold, the least wanted columns are left out, wide tables are split.

A table as wide as the terminal is drawn as it is. In a narrower one, `fitted` folds labels and then
leaves out ranked columns; `side_by_side` sets as many value columns as fit into each of several tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from pipelines.view.legible import legible

GAP = 2
LABEL = 14
"""Cells that a label may be folded to."""
_HEADER = 8
"""Cells that a header may be folded to, where what stands below is narrower."""


@dataclass(frozen=True)
class Column:
    """A column: `number` ones are set right and never folded. The highest `rank` is left out first, 0 never."""

    name: str
    number: bool = True
    rank: int = 0
    least: int = LABEL
    """Cells that a label column may be folded to."""


def fitted(columns: Sequence[Column], rows: Sequence[Sequence[Text]], width: int) -> tuple[Table, list[str]]:
    """A table of at most `width` cells, and the names of the columns that had to be left out."""
    natural = [_natural(column, [row[i] for row in rows]) for i, column in enumerate(columns)]
    kept = list(range(len(columns)))
    while _total([_least(columns[i], natural[i]) for i in kept]) > width:
        ranked = [i for i in kept if columns[i].rank]
        if not ranked:
            break
        kept.remove(max(ranked, key=lambda i: columns[i].rank))
    sizes = _fold([columns[i] for i in kept], [natural[i] for i in kept], width)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, GAP - 1, 0, 0))
    for i, size in zip(kept, sizes, strict=True):
        column = columns[i]
        side: Literal["right", "left"] = "right" if column.number else "left"
        table.add_column(Text(column.name), justify=side, width=size, overflow="fold")
    for row in rows:
        table.add_row(*[row[i] for i in kept])
    return table, [column.name for i, column in enumerate(columns) if i not in kept]


def side_by_side(names: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]], width: int) -> list[Table]:
    """A label and a value per name in every row: one table, or several with some of the names each."""
    sizes = [_natural(Column(name), [Text(values[i]) for _, values in rows]) for i, name in enumerate(names)]
    # Rather one more table than a label in pieces: it is folded where not even one column has room beside it.
    label = min(
        max((cell_len(name) for name, _ in rows), default=0), max(LABEL, width - GAP - max(sizes, default=0))
    )
    groups: list[list[int]] = []
    for i, size in enumerate(sizes):
        if not groups or _total([label, *(sizes[k] for k in groups[-1]), size]) > width:
            groups.append([])
        groups[-1].append(i)
    return [
        fitted(
            [Column("", number=False, least=label), *(Column(names[i]) for i in group)],
            [[Text(name), *(Text(values[i]) for i in group)] for name, values in rows],
            width,
        )[0]
        for group in groups
    ]


def title(name: str, note: str = "") -> Text:
    """A heading with a note behind it."""
    return Text.assemble("\n", (name, "bold underline"), (f"  {note}" if note else "", "dim"))


def facts_table(facts: Sequence[tuple[str, str]]) -> Table:
    """A name and a value a line, values made legible; notes stand out."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(Text(name, "bold"), Text(legible(value), "yellow" if name == "note" else ""))
    return table


def _natural(column: Column, cells: Sequence[Text]) -> int:
    """Cells of a column that nothing is folded in, but for the header over numbers."""
    header = cell_len(column.name)
    return max([min(header, _HEADER) if column.number else header, *(c.cell_len for c in cells)])


def _least(column: Column, natural: int) -> int:
    return natural if column.number else min(natural, column.least)


def _total(sizes: Sequence[int]) -> int:
    return sum(sizes) + GAP * (len(sizes) - 1)


def _fold(columns: Sequence[Column], natural: Sequence[int], width: int) -> list[int]:
    """Widths of the columns: the widest label gives way first."""
    sizes = list(natural)
    for _ in range(_total(sizes) - width):
        wide = [i for i, column in enumerate(columns) if sizes[i] > _least(column, natural[i])]
        if not wide:
            break
        sizes[max(wide, key=lambda i: sizes[i])] -= 1
    return sizes
