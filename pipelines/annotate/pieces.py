"""Texts cut into what is annotated by itself, equal ones once.

The choices of a question stand in one text, a line each, and each is a text of its own. The passages of
questions repeat: the same text of the same language, with the same given words, is annotated once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pipelines.annotate.annotations import Annotations, Relations, joined
from pipelines.annotate.given import Given
from pipelines.annotate.toolbox import Toolbox
from pipelines.ragged import bounds


class Piece(NamedTuple):
    """A text, what its corpus says of it, and where it starts in its row's text, in characters."""

    text: str
    given: Given | None
    start: int


def choices_of(table: pa.Table) -> list[list[tuple[int, int]] | None]:
    """Where the choices of each row stand in its `text_pair`; None for a row that has none."""
    both = zip(table["choice_starts"].to_pylist(), table["choice_stops"].to_pylist(), strict=True)
    return [None if a is None or b is None else list(zip(a, b, strict=True)) for a, b in both]


def cut(text: str, given: Given | None, spans: Sequence[tuple[int, int]] | None) -> list[Piece] | None:
    """The pieces of a text: itself, or its stretches; None where given words or sentences cross their edges."""
    if spans is None:
        return [Piece(text, given, 0)]
    if given is None:
        return [Piece(text[start:stop], None, start) for start, stop in spans]
    parts = [given.piece(start, stop) for start, stop in spans]
    if None in parts or sum(len(part.starts) for part in parts if part) != len(given.starts):
        return None
    return [Piece(text[a:b], part, a) for (a, b), part in zip(spans, parts, strict=True)]


class Pieces:
    """Rows of pieces, added one after another; then annotated together."""

    def __init__(self) -> None:
        self._distinct: dict[str, dict[tuple[str, bytes | None], int]] = {}  # by language: numbers, in order
        self._given: dict[str, list[Given | None]] = {}
        self._pieces: list[tuple[str, int, int]] = []  # language, number, start
        self._counts: list[int] = []

    def add(self, pieces: Sequence[Piece], language: str) -> None:
        """The next row."""
        known, givens = self._distinct.setdefault(language, {}), self._given.setdefault(language, [])
        for text, given, start in pieces:
            number = known.setdefault((text, None if given is None else given.key), len(givens))
            if number == len(givens):
                givens.append(given)
            self._pieces.append((language, number, start))
        self._counts.append(len(pieces))

    def annotate(self, tools: Toolbox, relations: Relations) -> Annotations:
        """Annotations of all rows; the language of each must be one that `tools` annotates."""
        parts: list[Annotations] = []
        first: dict[str, int] = {}
        for language in sorted(self._distinct) or [tools.language]:
            annotator = tools.annotator(language)
            assert annotator is not None  # rows of others were rejected
            first[language] = sum(map(len, parts))
            texts = [text for text, _ in self._distinct.get(language, ())]
            parts.append(annotator.annotate(texts, self._given.get(language, ()), relations))
        which = np.array([first[language] + number for language, number, _ in self._pieces], np.int64)
        starts = np.array([start for _, _, start in self._pieces], np.int64)
        return joined(parts).placed(which, starts, bounds(self._counts))
