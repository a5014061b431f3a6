"""K-BERT's sentence tree, written down literally: slow loops over lists and strings, no arrays.

Liu et al., "K-BERT: Enabling Language Representation with Knowledge Graph" (AAAI 2020):

- 3.2 Knowledge layer: K_Query finds the entities of the sentence and their triples, K_Inject hangs
  each triple's branch on its entity. A tree has many branches but its depth is fixed to 1.
- 3.3 Embedding layer: the tree is flattened, the tokens of a branch right after their node, those
  that follow moved back; soft positions number the trunk as if no branch were there, and a branch
  from its node on.
- 3.4 Seeing layer: M_ij = 0 where w_i and w_j are in the same branch, else -infinity. An entity is
  in the trunk and in each of its own branches: a branch is a path of the tree.

Depth 2 is the same tree grown further: an entity of a branch has branches, and a path goes through
both. Where the released code does otherwise than the paper is shown in `test_kbert_released`.
"""

from __future__ import annotations

import functools
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import opencc

from kg import GraftPolicy

NO_SPACES = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC", "HALFWIDTH", "THAI")


# --- the graph ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Triple:
    subject: str  # folded
    predicate: str
    object: str


@dataclass
class Knowledge:
    """Triples by folded subject, in file order, and how many triples have each object."""

    fold: tuple[str, ...] = ()
    triples: dict[str, list[Triple]] = field(default_factory=dict)
    having: Counter[str] = field(default_factory=Counter)

    def folded(self, text: str) -> str:
        return "".join(folded_character(char, self.fold) for char in text)


def read_knowledge(lines: Iterable[str], fold: tuple[str, ...] = ()) -> Knowledge:
    """Triples of `.spo` lines: what is said before and what a subject says of itself is left out."""
    knowledge = Knowledge(fold)
    for line in lines:
        if line.strip(" \r\n") == "" or line.startswith("#"):
            continue
        fields = [part.strip() for part in line.split("\t")]
        if len(fields) != 3 or not fields[0] or not fields[2]:
            continue
        subject, predicate, object_ = fields
        triple = Triple(knowledge.folded(subject), predicate, object_)
        known = knowledge.triples.get(triple.subject, [])
        if triple in known or knowledge.folded(object_) == triple.subject:
            continue
        knowledge.triples.setdefault(triple.subject, []).append(triple)
        knowledge.having[object_] += 1
    return knowledge


@functools.cache
def folded_character(char: str, fold: tuple[str, ...]) -> str:
    """One character folded until nothing changes."""
    text = char
    while True:
        before = text
        if "nfkc" in fold:
            text = "".join(unicodedata.normalize("NFKD", c) for c in text)
        if "case" in fold:
            text = text.casefold()
        if "simplified" in fold:
            text = "".join(_simplify(c) for c in text)
        if text == before:
            return text


_simplify = opencc.OpenCC("t2s").convert


def choose(
    knowledge: Knowledge, subject: str, path: list[str], policy: GraftPolicy
) -> tuple[list[Triple], Counter[str]]:
    """The triples that an entity gets, and how many were passed over for each reason; `path` are the
    entities from the trunk to this one, folded."""
    triples = list(knowledge.triples[subject])
    if policy.rank == "shortest":
        triples.sort(key=lambda t: (len(t.object), t.object, t.predicate))
    elif policy.rank == "most_frequent":
        triples.sort(key=lambda t: (-knowledge.having[t.object], t.object, t.predicate))
    elif policy.rank == "least_frequent":
        triples.sort(key=lambda t: (knowledge.having[t.object], t.object, t.predicate))
    chosen: list[Triple] = []
    passed: Counter[str] = Counter()
    seen = set()
    for triple in triples:
        if len(chosen) == policy.branches_per_mention:
            break
        included = policy.include_predicates is None or triple.predicate in policy.include_predicates
        if not included or triple.predicate in policy.exclude_predicates:
            passed["predicate"] += 1
            continue
        if len(triple.object) > policy.max_object_length:
            passed["object_too_long"] += 1
            continue
        if triple.object in seen and not policy.predicate:
            passed["object_repeated"] += 1
            continue
        seen.add(triple.object)
        if knowledge.folded(triple.object) in path:
            passed["loop"] += 1
            continue
        chosen.append(triple)
    return chosen, passed


# --- the tree -----------------------------------------------------------------------------------


@dataclass
class Branch:
    tokens: list[str]
    triple: Triple
    branches: list[Branch] = field(default_factory=list)


@dataclass
class Entity:
    """An entity in the trunk: its first and last token, and what hangs from it."""

    first: int
    last: int
    branches: list[Branch] = field(default_factory=list)
    subject: str = ""


@dataclass
class Flat:
    """The flattened tree and what 3.3 and 3.4 say of it."""

    tokens: list[str] = field(default_factory=list)
    soft_positions: list[int] = field(default_factory=list)
    visible: list[list[bool]] = field(default_factory=list)
    triples: list[Triple] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)  # of each branch, counted from 1; 0: the trunk


def flatten(trunk: list[str], entities: list[Entity]) -> Flat:
    """Flatten a sentence tree; entities in order, not overlapping."""
    flat = Flat()
    place: list[int] = []  # where each trunk token went
    paths: list[list[int]] = []  # tokens of each path, its entity's included

    def hang(branch: Branch, path: list[int], position: int, parent: int) -> None:
        flat.triples.append(branch.triple)
        flat.parents.append(parent)
        number = len(flat.triples)
        path = list(path)
        for piece in branch.tokens:
            position += 1
            path.append(len(flat.tokens))
            flat.tokens.append(piece)
            flat.soft_positions.append(position)
        paths.append(path)
        for child in branch.branches:
            hang(child, path, position, number)

    for position, token in enumerate(trunk):
        place.append(len(flat.tokens))
        flat.tokens.append(token)
        flat.soft_positions.append(position)
        for entity in entities:
            if entity.last == position:
                for branch in entity.branches:
                    hang(branch, [place[p] for p in range(entity.first, entity.last + 1)], position, 0)
    paths.append(place)
    flat.visible = [[False] * len(flat.tokens) for _ in flat.tokens]
    for path in paths:
        for i in path:
            for j in path:
                flat.visible[i][j] = True
    return flat


# --- entities of a text -------------------------------------------------------------------------


def longest_mentions(text: str, knowledge: Knowledge, policy: GraftPolicy) -> list[tuple[int, int]]:
    """Leftmost-longest subjects of a text that begin and end at word boundaries."""
    found = []
    longest = max(map(len, knowledge.triples), default=0)
    start = 0
    while start < len(text):
        for end in range(min(len(text), start + longest), start, -1):
            if (
                is_mention(text[start:end], knowledge, policy)
                and _boundary(text, start)
                and _boundary(text, end)
            ):
                found.append((start, end))
                start = end
                break
        else:
            start += 1
    return found


def word_mentions(
    text: str, words: list[tuple[int, int]], knowledge: Knowledge, policy: GraftPolicy
) -> list[tuple[int, int]]:
    """The words of a segmentation that are subjects."""
    return [word for word in words if is_mention(text[slice(*word)], knowledge, policy)]


def is_mention(text: str, knowledge: Knowledge, policy: GraftPolicy) -> bool:
    """Whether a subject is written so, and may match."""
    longest = policy.max_mention_length or len(text)
    if not policy.min_mention_length <= len(text) <= longest:
        return False
    key = knowledge.folded(text)
    return key in knowledge.triples and key not in {knowledge.folded(stop) for stop in policy.stop}


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


# --- injection, with budgets --------------------------------------------------------------------


def find_entity(spans: list[tuple[int, int] | None], mention: tuple[int, int]) -> Entity | str:
    """The tokens that a mention covers exactly, or why there are none. `spans`: characters of each trunk
    token, None for special tokens and tokens of another segment."""
    start, end = mention
    covered = [i for i, span in enumerate(spans) if span and start <= span[0] and span[1] <= end]
    own = [span for span in spans if span]
    if not own or start < own[0][0] or own[-1][1] < end:
        return "anchor_cut"
    if not covered or covered != list(range(covered[0], covered[-1] + 1)):
        return "unaligned"
    first, last = spans[covered[0]], spans[covered[-1]]
    if not first or not last or first[0] != start or last[1] != end:
        return "unaligned"
    return Entity(covered[0], covered[-1])


def inject(
    trunk: list[str], entities: list[Entity], knowledge: Knowledge, policy: GraftPolicy
) -> Counter[str]:
    """K_Inject: hang branches on the entities of a row. Returns what was kept and dropped, and why.

    A token of the reference is a character, so a branch is the characters of its text without white space.
    """
    counts: Counter[str] = Counter()
    used, kept = len(trunk), 0

    def grow(subject: str, path: list[str], position: int) -> list[Branch]:
        nonlocal used, kept
        chosen, passed = choose(knowledge, subject, path, policy)
        counts.update({f"dropped_{reason}": n for reason, n in passed.items()})
        branches = []
        for triple in chosen:
            text = triple.object
            if policy.predicate and triple.predicate:
                text = triple.predicate + " " + triple.object
            tokens = [char for char in text if not char.isspace()]
            if not tokens:
                counts["dropped_empty"] += 1
            elif position + len(tokens) >= policy.max_positions:
                counts["dropped_position"] += 1
            elif policy.branches_per_row is not None and kept >= policy.branches_per_row:
                counts["dropped_row_limit"] += 1
            elif used + len(tokens) > policy.max_length:
                counts["dropped_budget"] += 1
            else:
                used += len(tokens)
                kept += 1
                counts["branches"] += 1
                branches.append(Branch(tokens, triple))
        return branches

    for entity in entities:
        entity.branches = grow(entity.subject, [entity.subject], entity.last)
        counts["mentions_grafted" if entity.branches else "mentions_without_branch"] += 1
    if policy.depth == 2:
        for entity in entities:
            for branch in entity.branches:
                if is_mention(branch.triple.object, knowledge, policy):
                    counts["mentions_depth_2"] += 1
                    subject = knowledge.folded(branch.triple.object)
                    position = entity.last + len(branch.tokens)
                    branch.branches = grow(subject, [entity.subject, subject], position)
                    counts["branches_depth_2"] += len(branch.branches)
    return counts
