"""One annotated document, legible: sentences, words and heads as strings and numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pipelines.view.folder import Folder, Place
from pipelines.view.legible import beginning, legible, legible_token, plural
from pipelines.view.parseview import parse_parts
from pipelines.view.rowview import Word
from pipelines.view.tables import facts_table, title
from pipelines.view.taskview import SEGMENTS, answer_facts, lines_of, right_choice


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
    names: tuple[str, str] = ("text", "second text")
    """What the texts are called."""
    choices: list[tuple[str, bool | None]] = field(default_factory=list)
    """Choices of a question with whether each is right, None where that is not known."""


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
    if row.get("title") is not None:
        facts["title"] = row["title"]
    if row.get("categories"):
        facts["categories"] = ", ".join(row["categories"])
    lines = lines_of(row)
    right, said = right_choice(row.get("label"), lines)
    if lines:
        facts["right choice"] = said
    elif row.get("label") is not None:
        facts["label"] = row["label"]
    facts |= answer_facts(row)
    if row.get("label_score") is not None:
        facts["score"] = f"{row['label_score']:g}"
    spans = zip(
        row.get("tag_starts") or (), row.get("tag_stops") or (), row.get("tag_labels") or (), strict=False
    )
    tags = [(row["text"][start:stop], label or "") for start, stop, label in spans]
    return DocumentView(
        place,
        facts,
        sides,
        tags,
        list(folder.notes),
        SEGMENTS.get(str(folder.metadata.get("task")), ("text", "second text")),
        [(line, None if right is None else i == right) for i, line in enumerate(lines)],
    )


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


# --- terminal ---------------------------------------------------------------------------------


def document_parts(view: DocumentView, width: int) -> list[RenderableType]:
    """An annotated document: header, then each text's sentences and words or parse."""
    place = f"{view.place.split}, document {view.place.row:,} ({view.place.shard})"
    facts = [*view.facts.items(), ("split", place), *(("note", n) for n in view.notes)]
    parts: list[RenderableType] = [facts_table(facts)]
    for name, side in zip(view.names, view.sides, strict=False):
        parts += [title(name, plural(len(side.text), "character")), Text(beginning(side.text))]
        listed = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for column in ("#", "chars", "sentence"):
            listed.add_column(column)
        for i, (start, stop) in enumerate(side.sentences):
            listed.add_row(
                Text(str(i), "dim"), Text(f"{start}–{stop}", "dim"), Text(legible(side.text[start:stop]))
            )
        parts += [title("sentences", f"{len(side.sentences):,}"), listed]
        if side.parsed:
            parts += parse_parts(side.words, width)
        else:
            words = Text("  ").join(Text(legible_token(w.text)) for w in side.words)
            parts += [title("words", f"{len(side.words):,}, no parse"), words]
    if view.choices:
        listed = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for column in ("#", "choice", "right"):
            listed.add_column(column)
        for i, (line, right) in enumerate(view.choices):
            listed.add_row(
                Text(str(i), "dim"), Text(legible(line), "bold" if right else ""), "●" if right else ""
            )
        parts += [title("choices", f"{len(view.choices):,}"), listed]
    if view.tags:
        tags = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        tags.add_column("source token")
        tags.add_column("label")
        for token, label in view.tags:
            tags.add_row(Text(legible_token(token)), Text(legible(label), "bold"))
        parts += [title("labels", f"{len(view.tags):,}"), tags]
    return parts
