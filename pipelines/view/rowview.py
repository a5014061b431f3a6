"""One row, or one annotated document, with its indices turned into strings; rendering comes after.

Nothing here trusts the row: an index that points nowhere shows as a question mark, so that a
wrong row can be looked at too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from corpora.schema import IGNORED_LABEL
from pipelines.view.branchview import Branch, TreeToken, branches_of, parents_of
from pipelines.view.folder import COARSE_TOKENS, TOKENS, Folder, Place
from pipelines.view.taskview import SEGMENTS, lines_of, parts_of, right_choice, target_facts, window_of

NSP = {0: "B follows A", 1: "B is random", None: "single segment, no next-sentence label"}
UNKNOWN = "?"


@dataclass(frozen=True)
class Token:
    """A token of `input_ids`: `piece` is the text it stands for, None for a special token."""

    index: int
    id: int
    string: str
    piece: str | None
    segment: int
    start: int
    stop: int
    word: int | None = None
    coarse: int | None = None
    label: str | None = None
    soft: int | None = None
    mention: int | None = None
    answer: bool | None = None
    """`span`: whether it is of the answer."""
    best: bool | None = None
    """`span`: whether it has most context in this window."""


@dataclass(frozen=True)
class Word:
    """A word with the index of its head (its own for a root) in the row or document."""

    text: str
    head: int
    deprel: str
    sentence: int
    pos: str = ""


@dataclass(frozen=True)
class CoarseToken:
    """A coarse token, the fine tokens it covers, and their words."""

    string: str
    id: int
    segment: int
    fine: list[int]
    words: list[int]


@dataclass(frozen=True)
class RowView:
    """A shard row made legible. `None` where the dataset lacks the column group."""

    place: Place
    id: str
    task: str
    label: str | None
    score: float | None
    texts: list[str]
    tokens: list[Token]
    words: list[Word] | None
    dfs: tuple[np.ndarray, np.ndarray] | None
    coarse: list[CoarseToken] | None
    tree: list[TreeToken] | None
    branches: list[Branch]
    notes: list[str]
    facts: list[tuple[str, str]] = field(default_factory=list)
    """What only this task has, by name."""
    answer: tuple[int, int] | None = None
    """`span`: characters of the second text that the answer's tokens stand for."""
    choices: list[Choice] = field(default_factory=list)
    """`choice`: all sequences are here, and none in the fields above."""

    @property
    def parsed(self) -> bool:
        """Whether words are known."""
        return self.words is not None or any(choice.view.words is not None for choice in self.choices)

    @property
    def named_texts(self) -> list[tuple[str, str, tuple[int, int] | None]]:
        """Name of each text, the text, and the characters of it that are the answer."""
        plain = ("text A", "text B") if len(self.texts) > 1 else ("text",)
        return list(zip(SEGMENTS.get(self.task, plain), self.texts, (None, self.answer), strict=False))

    @property
    def mentions(self) -> int:
        return len({t.mention for t in self.tree or () if t.mention >= 0})


@dataclass(frozen=True)
class Choice:
    """A choice of a question, as a row of its own; `right` is None where that is not known."""

    text: str
    right: bool | None
    view: RowView

    @property
    def note(self) -> str:
        """What a heading says of it."""
        return {True: "the right one", False: "", None: "not known whether right"}[self.right]


def row_view(
    folder: Folder, place: Place, row: dict[str, Any], tokens: Sequence[str] | None = None
) -> RowView:
    """`row` of `folder` with strings for ids.

    `tokens` gives token strings by id; by default `tokens.txt` beside the shards. Where there is
    neither, the token's piece of text stands for it.
    """
    meta = folder.metadata
    notes = list(folder.notes)
    vocab = tokens if tokens is not None else folder.strings(TOKENS)
    if vocab is None:
        notes.append(f"{TOKENS} is missing: pieces of text and ids stand for token strings")
    if "choice_lengths" in row:
        return _question(folder, place, row, vocab, notes)
    special = {int(i): f"[{name.upper()}]" for name, i in (meta.get("special_ids") or {}).items()}
    window = window_of(row) if "answer_start" in row else None
    texts = [row["text"]] + ([row["text_pair"]] if row.get("text_pair") is not None else [])
    coarse, words = _coarse(folder, row, notes), _row_words(meta, row, texts)
    tree = None
    if "tree_ids" in row:
        keys = ("ids", "soft_positions", "branch", "mention", "trunk_index")
        columns = zip(*(row[f"tree_{key}"] for key in keys), strict=True)
        pieces = {i: _piece(row, texts, i) for i in range(len(row["input_ids"]))}
        parents = dict(enumerate(parents_of(row)))
        tree = [
            TreeToken(
                _string(vocab, special, id_, pieces.get(trunk)),
                soft,
                branch,
                mention,
                trunk,
                parents.get(branch, 0),
            )
            for id_, soft, branch, mention, trunk in columns
        ]
    on_trunk = {t.trunk: t for t in tree or () if t.branch == 0}
    names = meta.get("labels") or []
    view_tokens = []
    for index, id_ in enumerate(row["input_ids"]):
        piece, here = _piece(row, texts, index), on_trunk.get(index)
        view_tokens.append(
            Token(
                index=index,
                id=id_,
                string=_string(vocab, special, id_, piece),
                piece=piece,
                segment=row["token_type_ids"][index],
                start=row["char_starts"][index],
                stop=row["char_stops"][index],
                word=row["word_index"][index] if "word_index" in row else None,
                coarse=row["coarse_index"][index] if "coarse_index" in row else None,
                label=_token_label(names, row["token_labels"][index]) if "token_labels" in row else None,
                soft=here.soft if here else None,
                mention=here.mention if here and here.mention >= 0 else None,
                answer=None if window is None else index in window.span,
                best=None if window is None else index in window.most_context,
            )
        )
    label = None
    if meta["task"] == "pretrain":
        label = NSP.get(row.get("label"), UNKNOWN)
    elif row.get("label") is not None:
        name = _name(names, row["label"])
        label = name if name == str(row["label"]) else f"{name} ({row['label']})"
    has_branches = any(t.branch > 0 for t in tree or ())
    branches = branches_of(row, tree or [], folder.graph() if has_branches else None)
    return RowView(
        place=place,
        id=row["id"],
        task=meta["task"],
        label=label,
        score=row.get("label_score"),
        texts=texts,
        tokens=view_tokens,
        words=words,
        dfs=(np.array(row["word_dfs_in"], int), np.array(row["word_dfs_out"], int))
        if words is not None
        else None,
        coarse=coarse,
        tree=tree,
        branches=branches,
        notes=list(dict.fromkeys(notes + folder.notes)),
        facts=window.facts if window is not None else target_facts(row),
        answer=None if window is None else window.characters,
    )


def _question(
    folder: Folder, place: Place, row: dict[str, Any], vocab: Sequence[str] | None, notes: list[str]
) -> RowView:
    """A row of multiple choice: a view for each choice."""
    lines = lines_of(row)
    right, said = right_choice(row.get("label"), lines)
    views = [row_view(folder, place, part, vocab) for part in parts_of(row)]
    choices = [
        Choice(lines[i] if i < len(lines) else UNKNOWN, None if right is None else i == right, view)
        for i, view in enumerate(views)
    ]
    notes += [note for view in views for note in view.notes]
    counted = f"{len(choices)} in sequences of {', '.join(str(len(c.view.tokens)) for c in choices)} tokens"
    blank = RowView(
        place,
        row["id"],
        folder.metadata["task"],
        None,
        None,
        [row["text"]],
        [],
        None,
        None,
        None,
        None,
        [],
        [],
    )
    facts = [("choices", counted), ("right choice", said)]
    return replace(blank, notes=list(dict.fromkeys(notes)), facts=facts, choices=choices)


def _row_words(meta: dict[str, Any], row: dict[str, Any], texts: list[str]) -> list[Word] | None:
    if "word_heads" not in row:
        return None
    spans: dict[int, tuple[int, int, int]] = {}
    for token, word in enumerate(row["word_index"]):
        if word >= 0:
            segment, start, stop = (
                row["token_type_ids"][token],
                row["char_starts"][token],
                row["char_stops"][token],
            )
            _, low, high = spans.get(word, (segment, start, stop))
            spans[word] = (segment, min(low, start), max(high, stop))
    deprels = meta.get("deprels") or []
    words = []
    for i, head in enumerate(row["word_heads"]):
        segment, start, stop = spans.get(i, (0, 0, 0))
        text = texts[segment][start:stop] if segment < len(texts) else UNKNOWN
        words.append(Word(text, head, _name(deprels, row["word_deprels"][i]), row["sentence_index"][i]))
    return words


def _coarse(folder: Folder, row: dict[str, Any], notes: list[str]) -> list[CoarseToken] | None:
    if "coarse_ids" not in row:
        return None
    vocab = folder.strings(COARSE_TOKENS)
    if vocab is None:
        notes.append(f"{COARSE_TOKENS} is missing: ids stand for coarse token strings")
    ids = folder.metadata.get("coarse_special_ids") or {}
    special = {int(i): f"[{name.upper()}]" for name, i in ids.items()}
    fine: dict[int, list[int]] = {}
    for token, coarse in enumerate(row["coarse_index"]):
        fine.setdefault(coarse, []).append(token)
    word_index = row.get("word_index")
    result = []
    for i, id_ in enumerate(row["coarse_ids"]):
        covered = fine.get(i, [])
        words = sorted({word_index[t] for t in covered if word_index[t] >= 0}) if word_index else []
        string = _string(vocab, special, id_, None)
        result.append(CoarseToken(string, id_, row["coarse_token_type_ids"][i], covered, words))
    return result


def _piece(row: dict[str, Any], texts: list[str], index: int) -> str | None:
    start, stop = row["char_starts"][index], row["char_stops"][index]
    segment = row["token_type_ids"][index]
    return texts[segment][start:stop] if start < stop and segment < len(texts) else None


def _string(vocab: Sequence[str] | None, special: dict[int, str], id_: int, piece: str | None) -> str:
    if vocab is not None:
        return vocab[id_] if 0 <= id_ < len(vocab) else f"#{id_}"
    if piece is None and id_ in special:
        return special[id_]
    return piece if piece else f"#{id_}"


def _name(names: Sequence[str], index: int) -> str:
    return names[index] if 0 <= index < len(names) else UNKNOWN


def _token_label(names: Sequence[str], label: int) -> str:
    return "" if label == IGNORED_LABEL else _name(names, label)
