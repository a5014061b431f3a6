"""Parses as indented trees: heads above their dependents, in word order, in character cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.text import Text

from pipelines.view.legible import clip, legible, legible_token, plural
from pipelines.view.rowview import Word
from pipelines.view.tables import title


def sentences(words: Sequence[Word]) -> list[list[int]]:
    """Word indices of each sentence, in order."""
    groups: list[list[int]] = []
    for i, word in enumerate(words):
        if not i or word.sentence != words[i - 1].sentence:
            groups.append([])
        groups[-1].append(i)
    return groups


def parse_note(words: Sequence[Word]) -> str:
    """What a heading says about a parse."""
    return f"{plural(len(words), 'word')}, {plural(len(sentences(words)), 'sentence')}"


@dataclass(frozen=True)
class Bough:
    """A line of an indented parse: the guide in front of the word, the word, its depth."""

    guide: str
    word: int
    depth: int


def layout_parse(words: Sequence[Word], members: Sequence[int], width: int) -> list[Bough]:
    """The words of a sentence as an indented tree, heads above dependents, in word order.

    A word whose head lies outside `members` counts as a root. Words that no root reaches (a cycle
    in a wrong row) come last, with a guide of `?`. Guides take at most half of `width`.
    """
    inside = set(members)
    children: dict[int, list[int]] = {}
    roots = []
    for i in members:
        if words[i].head == i or words[i].head not in inside:
            roots.append(i)
        else:
            children.setdefault(words[i].head, []).append(i)
    lines: list[Bough] = []
    seen = set()
    stack: list[tuple[int, tuple[bool, ...]]] = [(root, ()) for root in reversed(roots)]
    while stack:
        i, ends = stack.pop()
        seen.add(i)
        lines.append(Bough(_guide(ends, width // 2), i, len(ends)))
        own = children.get(i, [])
        stack += [(child, (*ends, k == 0)) for k, child in enumerate(reversed(own))]
    lines += [Bough("? ", i, 0) for i in members if i not in seen]
    return lines


def _guide(ends: tuple[bool, ...], cells: int) -> str:
    if not ends:
        return ""
    if 3 * len(ends) > cells:
        return f"{'·' * max(cells - 9, 1)} {len(ends)} deep "
    return "".join("   " if end else "│  " for end in ends[:-1]) + ("└─ " if ends[-1] else "├─ ")


def parse_parts(words: Sequence[Word], width: int) -> list[RenderableType]:
    """The dependency parse, an indented tree a sentence."""
    groups = sentences(words)
    parts: list[RenderableType] = [title("dependency parse", parse_note(words))]
    for number, members in enumerate(groups):
        lines = layout_parse(words, members, width)
        left = max(cell_len(b.guide) + cell_len(_word_label(words, b.word)) for b in lines) + 2
        text = Text(no_wrap=True, overflow="ignore")
        for bough in lines:
            label = _word_label(words, bough.word)
            text.append("\n" + bough.guide, "dim")
            text.append(label, "bold" if not bough.depth else "")
            text.append(" " * (left - cell_len(bough.guide) - cell_len(label)))
            word = words[bough.word]
            text.append(f"{legible(word.deprel)}", "cyan")
            text.append(f"  {legible(word.pos)}  " if word.pos else "  ", "green")
            text.append(f"{bough.word}", "dim")
            if bough.depth:
                text.append(f" ← {word.head}", "dim")
        parts.append(Group(Text(f"sentence {number}", "dim"), Text.assemble(text[1:])))
    return parts


def _word_label(words: Sequence[Word], i: int) -> str:
    return clip(legible_token(words[i].text) or "∅", 32)
