"""Columns of TSV and CSV files: found by name in the header line, or named by the config.

Test sets often lack the label, and sometimes have a header line where the training set has none: what a file has
is looked up in that file.
"""

from __future__ import annotations

import csv
import difflib
from dataclasses import dataclass

from corpora import files
from corpora.layout import InputConfig
from corpora.readers.fields import Values, field_names, where_labels_lack
from corpora.readers.lines import BOM, check_start, is_blank

MAX_HEADER_BYTES = 1 << 20


_OTHER = {"csv": ("\t", "TABs", "tsv"), "tsv": (",", "commas", "csv")}
"""Of each format: what in a header of one column tells the other."""


class ColumnError(ValueError):
    """A file lacks a column that the config names, or has it twice."""


@dataclass(frozen=True)
class Columns:
    """`index` has the column of each role (None = not used); `count` columns there are.

    A text of several columns has a list of them. `header` is the byte offset of the header line, None where the
    config names the columns; it starts at 3 behind a byte order mark. A file without any line has no columns at all.
    """

    index: Values
    count: int
    header: int | None


def find_columns(
    path: str, name: str, layout: InputConfig, *, may_lack_label: bool = False
) -> Columns | None:
    """Columns of the file at `path`; None for a file of nothing but blank lines.

    Args:
        may_lack_label: a file without the column of the label has no labels, and is no error.

    Raises:
        ColumnError: names the file, the column, near matches and the columns there are.
    """
    if layout.header is not None and not _has_header(path, name, layout):
        index = _locate(layout.header, layout, "input.header", may_lack_label)
        return Columns(index, len(layout.header), None)
    found = _header_line(path, name, layout.encoding)
    if found is None:
        return None
    byte, line = found
    names = _cells(name, line, layout)
    return Columns(_locate(names, layout, f"{name}: the header", may_lack_label), len(names), byte)


def _cells(name: str, line: bytes, layout: InputConfig) -> list[str]:
    try:
        text = line.decode(layout.encoding)
    except UnicodeDecodeError as error:
        raise ColumnError(f"{name}: the header line is not valid {layout.encoding}: {error}") from None
    if layout.format != "csv":
        return text.split("\t")
    try:
        return next(csv.reader([text], strict=True))
    except csv.Error as error:
        raise ColumnError(f"{name}: the header line is not CSV: {error}") from None


def _has_header(path: str, name: str, layout: InputConfig) -> bool:
    """Whether the first line of a file that should have no header names the fields of the text."""
    try:
        found = _header_line(path, name, layout.encoding)
        cells = [] if found is None else _cells(name, found[1], layout)
    except ColumnError:  # a record, which may be anything
        return False
    names = field_names(layout)
    needed = {name for role in names[:2] for name in ([role] if isinstance(role, str) else role or [])}
    if len(cells) == len(layout.header or ()) and names.label is not None:
        needed.add(names.label)  # a record of as many fields may hold the word itself
    return needed <= set(cells)


def _header_line(path: str, name: str, encoding: str) -> tuple[int, bytes] | None:
    byte = 0
    with files.open_decompressed(path) as file:
        while line := file.readline(MAX_HEADER_BYTES):
            start = byte
            if byte == 0:
                check_start(name, line[:16], encoding)
                if encoding == "utf-8" and line.startswith(BOM):
                    line, start = line[len(BOM) :], len(BOM)
                    byte = start
            byte += len(line)
            if not line.endswith(b"\n") and len(line) >= MAX_HEADER_BYTES - len(BOM):
                raise ColumnError(f"{name}: the header line is longer than {MAX_HEADER_BYTES:,} bytes")
            if not is_blank(line.rstrip(b"\n")):
                return start, line[:-2] if line.endswith(b"\r\n") else line.removesuffix(b"\n")
    return None


def _locate(names: list[str], layout: InputConfig, where: str, may_lack_label: bool) -> Values:
    indices: list[int | list[int] | None] = []
    for role, name in zip(Values._fields, field_names(layout), strict=True):
        if name is None or (role == "label" and may_lack_label and name not in names):
            indices.append(None)
        elif isinstance(name, list):
            indices.append([_index(one, role, names, layout, where) for one in name])
        else:
            indices.append(_index(name, role, names, layout, where))
    return Values(*indices)


def _index(name: str, role: str, names: list[str], layout: InputConfig, where: str) -> int:
    if names.count(name) == 1:
        return names.index(name)
    shown = ", ".join(repr(n) for n in names[:30]) + (", ..." if len(names) > 30 else "")
    if name in names:
        raise ColumnError(
            f"{where} has the column {name!r} (input.{role}) {names.count(name)} times; columns: {shown}"
        )
    if len(names) == 1 and layout.format in _OTHER and (mark := _OTHER[layout.format])[0] in names[0]:
        raise ColumnError(
            f"{where} has no column {name!r} (input.{role}), but one column of {mark[1]}: {names[0][:80]!r}; "
            f"is it a file of `format: {mark[2]}`?"
        )
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(repr(n) for n in near)}?" if near else ""
    if role == "label":
        hint += where_labels_lack(layout)
    raise ColumnError(f"{where} has no column {name!r} (input.{role}); columns: {shown}{hint}")
