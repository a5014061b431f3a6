"""What only rows of one task have, in words: the window of a question, the choices of one, a target's end.

Nothing here trusts the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

SEGMENTS = {"span": ("question", "text"), "choice": ("text", "choices"), "seq2seq": ("source", "target")}
"""What the two texts of a row, or of a document, are called, where they are not `text A` and `text B`."""
_SIZES = {
    "choice_lengths": ("input_ids", "token_type_ids", "char_starts", "char_stops", "word_index", "coarse_index"),
    "choice_words": ("word_heads", "word_deprels", "word_dfs_in", "word_dfs_out", "sentence_index"),
    "choice_coarse": ("coarse_ids", "coarse_token_type_ids"),
    "choice_tree": (
        "tree_ids", "tree_token_type_ids", "tree_soft_positions", "tree_branch", "tree_mention", "tree_trunk_index",
    ),
    "choice_branches": ("branch_triples", "branch_parents"),
}  # fmt: skip


@dataclass(frozen=True)
class Window:
    """A window of a question."""

    span: range
    """The answer's tokens; none without an answer here"""
    characters: tuple[int, int] | None
    """Of the second text, that the answer's tokens stand for."""
    facts: list[tuple[str, str]]
    most_context: frozenset[int]
    """Tokens that have it here"""


def window_of(row: dict[str, Any]) -> Window:
    """A row of task `span`."""
    name, _, number = str(row["id"]).rpartition("#")
    start, stop = row["answer_start"], row["answer_stop"]
    best = list(row.get("is_max_context") or ())
    span, characters, text = range(0), None, row.get("text_pair") or ""
    if (start, stop) != (0, 1):
        own = range(max(start, 0), min(stop, len(row["input_ids"])))
        span = range(start, stop)
        if len(own):
            characters = (row["char_starts"][own[0]], row["char_stops"][own[-1]])
    golds = row.get("answers") or []
    if row.get("is_impossible"):
        said = "none: the question has none in the whole text; [CLS] stands for it (null span)"
    elif (start, stop) == (0, 1):
        said = "none in this window: [CLS] stands for it (null span)"
    else:
        shown = text[slice(*characters)] if characters else "?"
        said = f"tokens {start} to {stop - 1}: {shown}"
    of_text = sum(
        1
        for t, a, b in zip(row["token_type_ids"], row["char_starts"], row["char_stops"], strict=False)
        if t and b > a
    )
    facts = [
        ("question", name or str(row["id"])),
        ("window", number),
        ("answer", said),
        ("gold answers", " | ".join(golds) if golds else "none given"),
        ("most context", f"{sum(best):,} of the {of_text:,} tokens of the text have it in this window"),
    ]
    return Window(span, characters, facts, frozenset(i for i, there in enumerate(best) if there))


def target_facts(row: dict[str, Any]) -> list[tuple[str, str]]:
    """Of a row of task `seq2seq`, whether its target is whole; of others nothing."""
    if "target_cut" not in row:
        return []
    return [("target", "cut to its budget: no [SEP] ends it" if row["target_cut"] else "whole")]


def parts_of(row: dict[str, Any]) -> list[dict[str, Any]]:
    """The choices of a row of task `choice`, each as a row of its own; lists that are too short end early."""
    made: list[dict[str, Any]] = []
    used = dict.fromkeys(_SIZES, 0)
    for index in range(len(row["choice_lengths"])):
        part = {name: row[name] for name in ("id", "text", "text_pair")}
        for sizes, names in _SIZES.items():
            if sizes not in row:
                continue
            at = used[sizes]
            used[sizes] = end = at + max(row[sizes][index] if index < len(row[sizes]) else 0, 0)
            part |= {name: row[name][at:end] for name in names if name in row}
        made.append(part)
    return made


def lines_of(row: dict[str, Any]) -> list[str]:
    """Text of each choice, of a row or a document."""
    text = row.get("text_pair") or ""
    spans = zip(row.get("choice_starts") or (), row.get("choice_stops") or (), strict=False)
    return [text[max(a, 0) : max(b, 0)] for a, b in spans]


def right_choice(label: Any, lines: Sequence[str]) -> tuple[int | None, str]:
    """Index of the right choice and what to say of it; `label` is an index, its decimal digits, or null."""
    if label is None:
        return None, "not given"
    index = int(label) if str(label).isascii() and str(label).isdecimal() and len(str(label)) < 10 else -1
    if 0 <= index < len(lines):
        return index, f"{index}: {lines[index]}"
    return None, f"{label}: there is no such choice"


def answer_facts(row: dict[str, Any]) -> list[tuple[str, str]]:
    """Of an annotated document with a question: its gold answers and where they stand."""
    if row.get("answers") is None:
        return []
    if row.get("is_impossible"):
        return [("answer", "none: the question has none in the text")]
    starts = row.get("answer_starts") or []
    placed = [
        f"{text} (at {start})" if start >= 0 else f"{text} (place unknown)"
        for text, start in zip(row["answers"], starts, strict=False)
    ]
    return [("gold answers", " | ".join(placed) or "none given")]
