"""What goes into tree building and what comes out: policy, trunks and trees, as flat arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from kg.errors import GraphError

_INT16_MAX = 32_767


@dataclass(frozen=True)
class GraftPolicy:
    """Which mentions and branches are wanted; lengths in characters, budgets in tokens.

    Raises GraphError where a value is out of range.
    """

    match: Literal["longest", "words"] = "longest"
    """Leftmost-longest over characters, or words of the segmentation that equal a subject (K-BERT)."""
    branches_per_mention: int = 2
    predicate: bool = False
    """A branch is predicate, space, object instead of the object."""
    min_mention_length: int = 2
    max_object_length: int = 64
    stop: frozenset[str] = frozenset()
    """Subjects that never match."""
    max_length: int = 512
    """Longest flattened row."""
    max_positions: int = 512
    """Soft positions stay below it."""

    def __post_init__(self) -> None:
        if self.match not in ("longest", "words"):
            raise GraphError(f"match must be 'longest' or 'words', found {self.match!r}")
        for name in (
            "branches_per_mention",
            "min_mention_length",
            "max_object_length",
            "max_length",
            "max_positions",
        ):
            value = getattr(self, name)
            if value < 1:
                raise GraphError(f"{name} must be at least 1, found {value}")
        for name in ("max_length", "max_positions"):
            value = getattr(self, name)
            if value > _INT16_MAX:
                raise GraphError(f"{name} must be at most {_INT16_MAX} (indices are int16), found {value}")


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
    counters: dict[str, int] = field(default_factory=dict)
    """`mentions` = `mentions_grafted` + `mentions_without_branch` + `dropped_anchor_cut` +
    `dropped_unaligned` (mentions); `branches` and every other `dropped_` count triples."""
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
