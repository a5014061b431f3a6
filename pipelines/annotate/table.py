"""One table of raw records to one of annotated documents: same order, less the records that are rejected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from corpora.records import EXCERPT_CHARS, Reject
from corpora.schema import Column, annotated_columns, annotated_schema
from pipelines.annotate.annotations import Annotations, Relations
from pipelines.annotate.given import read_given
from pipelines.annotate.pieces import Piece, Pieces, choices_of, cut
from pipelines.annotate.toolbox import Toolbox
from pipelines.language import primary_language

OnReject = Callable[[Reject], None]
_BROUGHT = ("sentence_", "word_")


@dataclass(frozen=True)
class _Side:
    """One text column: the pieces of each row, None where what is given of them cannot be used."""

    suffix: str
    texts: list[str]
    null: np.ndarray
    pieces: list[list[Piece] | None]
    wrong: dict[int, str]


def annotate_table(
    table: pa.Table, tools: Toolbox, on_reject: OnReject, *, pair: bool
) -> tuple[pa.Table, Counter[str]]:
    """The annotated rows, with `annotated_schema`, and counts; `pair`: `text_pair` is annotated as well."""
    languages = [primary_language(x) if x else tools.language for x in table["language"].to_pylist()]
    relations = Relations()
    sides = [_side(table, suffix, relations) for suffix in (("", "_pair") if pair else ("",))]
    keep = _usable(table, sides, languages, tools, on_reject)
    table = table if keep.all() else table.filter(pa.array(keep))
    counts = Counter(documents=table.num_rows)
    columns: dict[str, pa.Array | pa.ChunkedArray] = {
        name: table[name] for name in table.column_names if not name.startswith(_BROUGHT)
    }
    rows = np.flatnonzero(keep).tolist()
    columns["language"] = pa.array([languages[row] for row in rows], pa.string())
    for side in sides:
        annotations, counted = _annotate(side, rows, languages, tools, relations)
        arrays = annotations.columns(relations)
        if (null := side.null[keep]).any():
            mask = pa.array(null)
            arrays = {n: pa.ListArray.from_arrays(a.offsets, a.values, mask=mask) for n, a in arrays.items()}
        columns |= {f"{name}{side.suffix}": array for name, array in arrays.items()}
        counts.update(counted)
    ordered = [_as_column(columns[c.name], c) for c in annotated_columns(parsed=tools.parsed, pair=pair)]
    return pa.Table.from_arrays(ordered, schema=annotated_schema(parsed=tools.parsed, pair=pair)), counts


def _side(table: pa.Table, suffix: str, relations: Relations) -> _Side:
    column = table[f"text{suffix}"]
    texts = [text or "" for text in column.to_pylist()]
    given, wrong = read_given(table, suffix, texts, relations)
    spans = choices_of(table) if suffix else [None] * len(texts)
    pieces = [cut(*parts) for parts in zip(texts, given, spans, strict=True)]
    crossing = "expected given words and sentences within the choices, found one that crosses their edges"
    wrong |= {row: crossing for row, parts in enumerate(pieces) if parts is None}
    null = column.is_null().to_numpy()
    return _Side(suffix, texts, null, pieces, wrong)


# --- rows that can be annotated -----------------------------------------------------------------


def _usable(
    table: pa.Table, sides: Sequence[_Side], languages: list[str], tools: Toolbox, on_reject: OnReject
) -> np.ndarray:
    """bool[R]: rows whose texts can be annotated; the others are rejected."""
    keep = np.ones(table.num_rows, dtype=bool)
    for row, language in enumerate(languages):
        found = _fault(row, language, sides, tools)
        if found is None:
            continue
        keep[row] = False
        path, _, byte = table["source"][row].as_py().rpartition("@")
        excerpt = sides[0].texts[row][:EXCERPT_CHARS]
        on_reject(Reject(path, int(byte) if byte.isdigit() else 0, None, *found, excerpt))
    return keep


def _fault(row: int, language: str, sides: Sequence[_Side], tools: Toolbox) -> tuple[str, str] | None:
    """Reason and detail of a row that cannot be annotated."""
    annotator = tools.annotator(language)
    if annotator is None:
        return _unknown(language, tools)
    text = sides[0].texts[row]
    blank = not text or text.isspace()
    for side in sides:
        if row in side.wrong:
            return "bad_annotations", side.wrong[row]
        for piece in side.pieces[row] or ():
            lacking = annotator.lacks(piece.text, piece.given)
            if lacking == "trees" and tools.gives:
                return "no_parse", _no_parse(piece)
            if lacking is not None:
                return _unknown(language, tools)
    return ("empty_text", "expected text, found whitespace alone") if blank else None


def _unknown(language: str, tools: Toolbox) -> tuple[str, str]:
    return "unknown_language", f"expected one of {', '.join(tools.known)}, found {language!r}"


def _no_parse(piece: Piece) -> str:
    text, given, _ = piece
    if given is None:
        found = "found none"
    else:
        s = int(np.argmin(given.parsed))
        first, last = given.of_sentence[s], given.of_sentence[s + 1] - 1
        sentence = text[given.starts[first] : given.stops[last]]
        found = f"sentence {s + 1} has none: {sentence[:EXCERPT_CHARS]!r}"
    return f"expected trees that the corpus brings, {found}; name a parser as annotate.parser, or 'none' to go without"


# --- annotating ---------------------------------------------------------------------------------


def _annotate(
    side: _Side, rows: Sequence[int], languages: Sequence[str], tools: Toolbox, relations: Relations
) -> tuple[Annotations, Counter[str]]:
    """Annotations of the rows' texts, and counts; a null text has none."""
    pieces = Pieces()
    counts: Counter[str] = Counter()
    for row in rows:
        own = side.pieces[row] or []
        pieces.add(own, languages[row])
        for piece in own:
            if piece.given is not None:
                counts.update(words_given=len(piece.given.starts))
                if tools.parsed:
                    counts.update(trees_given=int(piece.given.parsed.sum()))
    found = pieces.annotate(tools, relations)
    counts.update(
        sentences=len(found.sentences.starts),
        words=len(found.words.starts),
        characters=sum(len(side.texts[row]) for row in rows),
    )
    if tools.parsed:
        counts.update(words_repaired=int(found.repaired.sum()), sentences_cut=int(found.cuts.sum()))
    return found, counts


def _as_column(array: pa.Array | pa.ChunkedArray, column: Column) -> pa.Array:
    """`array` with exactly the column's type: lists whose items cannot be null."""
    whole = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    return whole if whole.type == column.type else whole.cast(column.type)
