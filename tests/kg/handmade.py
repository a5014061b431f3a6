"""Rows made by hand: a tokenizer whose tokens are characters, and trunks as an encoder would make them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from unittest import mock

import numpy as np

from kg import GraftPolicy, KnowledgeGraph, Trees, Trunks, Words, build_trees, compile_graph, folders
from kg.compile import BuildOptions

CLS, SEP = 0x110001, 0x110002
NAMES = {CLS: "[CLS]", SEP: "[SEP]"}

Pieces = Callable[[str], list[tuple[int, int]]]


def characters(text: str) -> list[tuple[int, int]]:
    """Every character that is not white space is a token."""
    return [(i, i + 1) for i, char in enumerate(text) if not char.isspace()]


def tokenize(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Code points as ids."""
    tokens = [[ord(text[a]) for a, _ in characters(text)] for text in texts]
    offsets = np.cumsum([0, *map(len, tokens)])
    return np.array([t for row in tokens for t in row], np.int32), offsets.astype(np.int64)


def trunks_of(
    texts: Sequence[str],
    pairs: Sequence[str | None] | None = None,
    *,
    length: int = 512,
    pieces: Pieces = characters,
) -> Trunks:
    """[CLS] A [SEP] or [CLS] A [SEP] B [SEP]; the end of A, then of B, is cut to `length` tokens.

    The id of a token is its first code point.
    """
    second = [None] * len(texts) if pairs is None else list(pairs)
    rows = []
    for a, b in zip(texts, second, strict=True):
        row = [(CLS, 0, 0, 0, True)]
        for kind, text in ((0, a), (1, b)):
            if text is None:
                continue
            reserved = 1 if kind or b is None else 2
            room = max(0, length - reserved - len(row))
            row += [(ord(text[i]), kind, i, j, False) for i, j in pieces(text)[:room]]
            row.append((SEP, kind, 0, 0, True))
        rows.append(row)
    flat = [token for row in rows for token in row]
    dtypes = (np.int32, np.int8, np.int32, np.int32, np.bool_)
    columns: list[np.ndarray] = [
        np.array([token[k] for token in flat], dtype) for k, dtype in enumerate(dtypes)
    ]
    ids, types, starts, stops, special = columns
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    return Trunks(offsets, ids, types, starts, stops, special, (list(texts), second))


def words_of(cuts: Sequence[Sequence[tuple[int, int]]]) -> Words:
    """Words of one segment, row by row as (start, stop)."""
    flat = [word for row in cuts for word in row]
    starts, stops = (np.array([word[k] for word in flat], np.int32) for k in (0, 1))
    return Words(starts, stops, np.cumsum([0, *map(len, cuts)]).astype(np.int64))


def graph_of(folder: Path, *lines: str, name: str = "graph", fold: tuple[str, ...] = ()) -> KnowledgeGraph:
    """A graph compiled from `.spo` lines, without waiting for the disk to have them for good."""
    source = folder / f"{name}.spo"
    source.write_bytes("".join(line + "\n" for line in lines).encode())
    with mock.patch.object(folders, "sync"):
        compile_graph([str(source)], folder / f"{name}.kg", options=BuildOptions(fold=fold))
    return KnowledgeGraph.open(folder / f"{name}.kg")


def trees_of(graph: KnowledgeGraph, text: str, *, trunk_length: int = 512, **policy: object) -> Trees:
    """The tree of one text."""
    return build_trees(graph, GraftPolicy(**policy), trunks_of([text], length=trunk_length), tokenize)  # type: ignore[arg-type]


def tokens(ids: np.ndarray) -> list[str]:
    return [NAMES.get(i) or chr(i) for i in ids.tolist()]
