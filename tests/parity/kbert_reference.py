"""K-BERT's sentence tree, written down literally: slow loops over lists, no arrays.

Liu et al., "K-BERT: Enabling Language Representation with Knowledge Graph" (AAAI 2020):

- 3.2 Knowledge layer: K_Query finds the entities of the sentence and their triples, K_Inject hangs
  each triple's branch on its entity. A tree has many branches but its depth is fixed to 1.
- 3.3 Embedding layer: the tree is flattened, the tokens of a branch right after their node, those
  that follow moved back; soft positions number the trunk as if no branch were there, and a branch
  from its node on.
- 3.4 Seeing layer: M_ij = 0 where w_i and w_j are in the same branch, else -infinity. An entity is
  in the trunk and in each of its own branches.

It differs from the released code (`brain/knowgraph.py`) on purpose, as the code does:

- The code keeps the objects of a subject in a set and takes the first `max_entities` of whatever
  order the hash seed gives; here it is the order of the files.
- The code cuts the flattened row at `max_length` blindly, through trunk, branches and the last
  [SEP]; here the trunk has the budget first and branches are kept whole or not at all.
- The code pads positions with `max_length - 1` and rows of the matrix with zeros (such rows see
  nothing); padding is no part of a row here.
- The code finds entities among the words of a segmentation with the graph as user dictionary; here
  both that ("words") and the longest subject from left to right.
- The code numbers the second segment by the number of [SEP] seen before; here a branch has its
  entity's token type.
- On a malformed line the code goes on with the fields of the line before; here it is rejected.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field

NO_SPACES = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC", "HALFWIDTH", "THAI")


@dataclass
class Entity:
    """An entity in the trunk: its first and last token, and the tokens and triple of each branch."""

    first: int
    last: int
    branches: list[tuple[list[str], int]] = field(default_factory=list)


@dataclass
class Flat:
    """The flattened tree and what 3.3 and 3.4 say of it."""

    tokens: list[str]
    soft_positions: list[int]
    visible: list[list[bool]]
    triples: list[int]


def flatten(trunk: list[str], entities: list[Entity]) -> Flat:
    """Flatten a sentence tree; entities in order, not overlapping."""
    tokens: list[str] = []
    soft: list[int] = []
    triples: list[int] = []
    place = {}  # where a trunk token went
    groups: list[list[int]] = []  # tokens of each branch, its entity's included
    for position, token in enumerate(trunk):
        place[position] = len(tokens)
        tokens.append(token)
        soft.append(position)
        for entity in entities:
            if entity.last != position:
                continue
            for branch, triple in entity.branches:
                group = [place[p] for p in range(entity.first, entity.last + 1)]
                for step, piece in enumerate(branch, start=1):
                    group.append(len(tokens))
                    tokens.append(piece)
                    soft.append(position + step)
                groups.append(group)
                triples.append(triple)
    groups.append([place[p] for p in range(len(trunk))])
    visible = [[False] * len(tokens) for _ in tokens]
    for group in groups:
        for i in group:
            for j in group:
                visible[i][j] = True
    return Flat(tokens, soft, visible, triples)


def longest_mentions(
    text: str,
    subjects: dict[str, list[tuple[str, int]]],
    min_length: int = 1,
    stop: frozenset[str] = frozenset(),
) -> list[tuple[int, int]]:
    """Leftmost-longest subjects of a text that begin and end at word boundaries."""
    found = []
    longest = max(map(len, subjects), default=0)
    start = 0
    while start < len(text):
        for end in range(min(len(text), start + longest), start, -1):
            subject = text[start:end]
            if (
                subject in subjects
                and len(subject) >= min_length
                and subject not in stop
                and _boundary(text, start)
                and _boundary(text, end)
            ):
                found.append((start, end))
                start = end
                break
        else:
            start += 1
    return found


def _boundary(text: str, at: int) -> bool:
    """No word goes on from the character before `at` to the one after it."""
    if at in (0, len(text)):
        return True
    before, after = text[at - 1], text[at]
    if "." in (before, after) or "," in (before, after):
        left, right = (at - 1, at + 1) if after in ".," else (at - 2, at)
        if left >= 0 and right < len(text):
            return not (text[left].isdecimal() and text[right].isdecimal())
    return not (_spaced(before) and _spaced(after))


def _spaced(char: str) -> bool:
    if char.isdecimal():
        return True
    name = unicodedata.name(char, "")
    return char.isalnum() and (not name.startswith(NO_SPACES) or name.startswith("HALFWIDTH LATIN"))


def inject(
    trunk: list[str],
    spans: list[tuple[int, int] | None],
    text: str,
    mentions: list[tuple[int, int]],
    subjects: dict[str, list[tuple[str, int]]],
    *,
    branches_per_mention: int,
    max_object_length: int,
    max_length: int,
    max_positions: int,
) -> list[Entity]:
    """K_Inject with budgets. `spans`: characters of each trunk token, None for special tokens; a token
    of the reference is a character, so a branch is the characters of its object without white space."""
    entities = []
    used = len(trunk)
    for start, end in mentions:
        covered = [i for i, span in enumerate(spans) if span and start <= span[0] and span[1] <= end]
        if not covered or spans[covered[0]][0] != start or spans[covered[-1]][1] != end:  # type: ignore[index]
            continue
        entity = Entity(covered[0], covered[-1])
        usable, seen = [], set()
        for object_, triple in subjects[text[start:end]]:
            if len(object_) <= max_object_length and object_ not in seen:
                seen.add(object_)
                usable.append((object_, triple))
        for object_, triple in usable[:branches_per_mention]:
            branch = [char for char in object_ if not char.isspace()]
            if not branch or entity.last + len(branch) >= max_positions or used + len(branch) > max_length:
                continue
            used += len(branch)
            entity.branches.append((branch, triple))
        entities.append(entity)
    return entities
