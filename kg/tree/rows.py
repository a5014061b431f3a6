"""What goes into tree building and what comes out: policy, trunks and trees, as flat arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from kg.errors import GraphError

_INT16_MAX = 32_767


Match = Literal["longest", "words"]
Depth = Literal[1, 2]
Rank = Literal["file", "shortest", "most_frequent", "least_frequent"]


@dataclass(frozen=True)
class GraftPolicy:
    """Which mentions and branches are wanted; lengths in characters, budgets in tokens.

    Raises GraphError where a value is out of range or two contradict each other.
    """

    match: Match = "longest"
    """Leftmost-longest over characters, or words of the segmentation that equal a subject (K-BERT)."""
    branches_per_mention: int = 2
    """Candidates of a mention, and of a branch that has branches: the first of its subject's triples."""
    branches_per_row: int | None = None
    """Most branches of a row, those of depth 2 included; None: as many as fit."""
    depth: Depth = 1
    """1: branches hang from the trunk (K-BERT). 2: a branch whose object is a subject has branches too."""
    rank: Rank = "file"
    """Order of a subject's triples: as in the files; or shortest object, or object that the most or the
    fewest triples of the graph have, first, and ties by the text of the object, then of the predicate."""
    predicate: bool = False
    """A branch is predicate, space, object instead of the object."""
    include_predicates: frozenset[str] | None = None
    """Only triples with these predicates; None: with any."""
    exclude_predicates: frozenset[str] = frozenset()
    """No triples with these."""
    min_mention_length: int = 2
    max_mention_length: int | None = None
    max_object_length: int = 64
    stop: frozenset[str] = frozenset()
    """Subjects that never match."""
    max_length: int = 512
    """Longest flattened row."""
    max_positions: int = 512
    """Soft positions stay below it."""

    def __post_init__(self) -> None:
        for name, allowed in (("match", Match), ("rank", Rank), ("depth", Depth)):
            value, choices = getattr(self, name), get_args(allowed)
            if value not in choices:
                expected = ", ".join(map(repr, choices[:-1])) + f" or {choices[-1]!r}"
                raise GraphError(f"{name} must be {expected}, found {value!r}")
        for name in ("stop", "include_predicates", "exclude_predicates"):
            if isinstance(value := getattr(self, name), str):
                raise GraphError(f"{name} must be a set of strings, found one string, {value!r}")
        for name in (
            "branches_per_mention",
            "branches_per_row",
            "min_mention_length",
            "max_mention_length",
            "max_object_length",
            "max_length",
            "max_positions",
        ):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise GraphError(f"{name} must be at least 1, found {value}")
        for name in ("max_length", "max_positions", "branches_per_mention"):
            value = getattr(self, name)
            if value > _INT16_MAX:
                raise GraphError(f"{name} must be at most {_INT16_MAX} (indices are int16), found {value}")
        if self.max_mention_length is not None and self.max_mention_length < self.min_mention_length:
            raise GraphError(
                f"max_mention_length is {self.max_mention_length}, below min_mention_length "
                f"{self.min_mention_length}: no mention would ever match"
            )
        if self.include_predicates is not None:
            if not self.include_predicates:
                raise GraphError("include_predicates is empty: no triple is wanted; leave it out to want all")
            if both := self.include_predicates & self.exclude_predicates:
                raise GraphError(f"{min(both)!r} is in include_predicates and in exclude_predicates")


@dataclass(frozen=True)
class Words:
    """Words of one segment of all R rows; word offsets in characters of the segment's text."""

    starts: np.ndarray  # int32[W]
    stops: np.ndarray  # int32[W]
    offsets: np.ndarray  # int64[R + 1]


@dataclass(frozen=True)
class Trunks:
    """R rows with N tokens in all, special tokens included."""

    row_offsets: np.ndarray  # int64[R + 1]
    ids: np.ndarray  # int32[N]
    type_ids: np.ndarray  # int8[N]: 0 = segment A, 1 = segment B
    char_starts: np.ndarray  # int32[N], characters of the segment's text
    char_stops: np.ndarray  # int32[N]
    special: np.ndarray  # bool[N]
    texts: tuple[Sequence[str], Sequence[str | None]]
    """Texts of segment A and of segment B, R of each."""
    words: tuple[Words, Words | None] | None = None
    """Words of segment A and of segment B, for `match="words"`."""
    windows: bool = False
    """Rows are windows of their texts: a mention without a token here is another window's matter, and is not
    counted."""


@dataclass(frozen=True)
class Trees:
    """R flattened rows with F tokens, B branches and G grafted mentions (with a branch) in all."""

    row_offsets: np.ndarray  # int64[R + 1]
    ids: np.ndarray  # int32[F]
    type_ids: np.ndarray  # int8[F]; a branch has its anchor's
    soft_positions: np.ndarray  # int16[F]
    branch: np.ndarray  # int16[F]: 0 for the trunk, k for the row's k-th branch
    mention: np.ndarray  # int16[F]: of anchor and branch tokens, from 0 in each row; -1 elsewhere
    trunk_index: np.ndarray  # int16[F]: token of the trunk; -1 on a branch
    branch_offsets: np.ndarray  # int64[R + 1]
    branch_triples: np.ndarray  # int64[B]
    branch_parents: np.ndarray  # int16[B]: number of the branch that it hangs from; 0 = the trunk
    counters: dict[str, int] = field(default_factory=dict)
    """`mentions` = `mentions_grafted` + `mentions_without_branch` + `dropped_anchor_cut` +
    `dropped_unaligned` (mentions); `branches` and every other `dropped_` count triples. With depth 2
    `mentions_depth_2` counts the branches that are themselves mentions of a subject, and
    `branches_depth_2` the `branches` that hang from them."""
    mention_subjects: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))  # int32[G]


def check_trunks(policy: GraftPolicy, trunks: Trunks) -> None:
    """Raise GraphError where the trunks cannot be what they say, or exceed the policy's budgets."""
    rows, tokens = len(trunks.row_offsets) - 1, len(trunks.ids)
    if len(trunks.texts[0]) != rows or len(trunks.texts[1]) != rows:
        found = f"{len(trunks.texts[0])} and {len(trunks.texts[1])}"
        raise GraphError(f"expected {rows} texts of segment A and of segment B, found {found}")
    for name in ("type_ids", "char_starts", "char_stops", "special"):
        if len(getattr(trunks, name)) != tokens:
            raise GraphError(f"{name} has {len(getattr(trunks, name))} values for {tokens} tokens")
    if rows < 0 or trunks.row_offsets[0] != 0 or trunks.row_offsets[-1] != tokens:
        raise GraphError(f"row_offsets must run from 0 to the {tokens} tokens there are")
    if ((trunks.type_ids < 0) | (trunks.type_ids > 1)).any():
        raise GraphError(
            "type_ids must be 0 (segment A) or 1 (segment B): they tell which text a token is of"
        )
    lengths = np.diff(trunks.row_offsets)
    for name in ("max_length", "max_positions"):
        limit = getattr(policy, name)
        if rows and lengths.max() > limit:
            row = int(lengths.argmax())
            raise GraphError(
                f"the trunk of row {row} has {lengths[row]} tokens, {name} is {limit}: "
                "truncate trunks before trees are built, or raise it"
            )


def check_offsets(
    text: np.ndarray, char_starts: np.ndarray, starts: np.ndarray, stops: np.ndarray, ends: np.ndarray
) -> None:
    """Raise GraphError unless tokens stand inside their text and in its order."""
    outside = (char_starts < 0) | (stops < starts) | (stops > ends[text])
    if outside.any():
        row = int(text[outside.argmax()]) // 2
        raise GraphError(f"row {row}: a token's offsets are outside its segment's text")
    if len(starts) and ((np.diff(starts) < 0) | (np.diff(stops) < 0)).any():
        row = int(text[((np.diff(starts) < 0) | (np.diff(stops) < 0)).argmax() + 1]) // 2
        raise GraphError(f"row {row}: its tokens are not in the order of the text, segment A first")
