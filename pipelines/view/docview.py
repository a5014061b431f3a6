"""One annotated document, legible: sentences, words and heads as strings and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pipelines.view.folder import Folder, Place
from pipelines.view.rowview import Word


@dataclass(frozen=True)
class DocumentView:
    """An annotated document made legible; `sides` holds the text, and the second text of a pair."""

    place: Place
    facts: dict[str, str]
    """Header fields: id, language, source, label, score."""
    sides: list[DocumentSide]
    tags: list[tuple[str, str]]
    """Source tokens with their labels, of a tagging corpus."""
    notes: list[str]


@dataclass(frozen=True)
class DocumentSide:
    """A text with its sentences (character ranges) and words; `parsed` says whether heads are known."""

    text: str
    sentences: list[tuple[int, int]]
    words: list[Word]
    parsed: bool


def document_view(folder: Folder, place: Place, row: dict[str, Any]) -> DocumentView:
    """An annotated document of `folder`."""
    sides = [s for suffix in ("", "_pair") if (s := _side(row, suffix)) is not None]
    facts = {"id": row["doc_id"], "language": row["language"], "source": row["source"]}
    if row.get("label") is not None:
        facts["label"] = row["label"]
    if row.get("label_score") is not None:
        facts["score"] = f"{row['label_score']:g}"
    spans = zip(
        row.get("tag_starts") or (), row.get("tag_stops") or (), row.get("tag_labels") or (), strict=False
    )
    tags = [(row["text"][start:stop], label or "") for start, stop, label in spans]
    return DocumentView(place, facts, sides, tags, list(folder.notes))


def _side(row: dict[str, Any], suffix: str) -> DocumentSide | None:
    text, starts = row.get(f"text{suffix}"), row.get(f"word_starts{suffix}")
    if text is None or starts is None:
        return None
    sentences = list(zip(row[f"sentence_starts{suffix}"], row[f"sentence_stops{suffix}"], strict=False))
    heads, deprels = row.get(f"word_heads{suffix}"), row.get(f"word_deprels{suffix}")
    pos = row.get(f"word_pos{suffix}")
    firsts = np.array([s for s, _ in sentences], int)
    sentence_of = np.searchsorted(firsts, np.array(starts, int), side="right") - 1
    words = [
        Word(
            text=text[start:stop],
            head=heads[i] if heads else i,
            deprel=(deprels[i] or "") if deprels else "",
            sentence=int(sentence_of[i]),
            pos=(pos[i] or "") if pos else "",
        )
        for i, (start, stop) in enumerate(zip(starts, row[f"word_stops{suffix}"], strict=False))
    ]
    return DocumentSide(text, sentences, words, heads is not None)
