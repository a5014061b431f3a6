"""Views: rows as a model reads them: fine tokens, the flattened tree, tokens with their parse or with coarse ones.

Columns of words, branches and trunk tokens are spread over the tokens that the encoder reads, by index arrays
over the whole batch. Every choice of a row of `choice` is a sequence of its own.
"""

from __future__ import annotations

import numpy as np

from corpora import trunk
from corpora.ragged import Ints, bounds
from corpora.schema import GROUPS, IGNORED_LABEL, TASKS, row_columns
from models.bert_batch import BatchError, need_columns
from models.collate.sequences import Lists, Sequences
from models.stream.rows import Array, Rows

FINE = {"input_ids": "input_ids", "token_type_ids": "token_type_ids"}
TREE = {
    "tree_ids": "input_ids",
    "tree_token_type_ids": "token_type_ids",
    "tree_soft_positions": "position_ids",
    "tree_branch": "branch",
    "tree_mention": "mention",
}
COARSE = {"coarse_ids": "input_ids", "coarse_token_type_ids": "token_type_ids"}
SYNTAX = {"word_dfs_in": "dfs_in", "word_dfs_out": "dfs_out", "sentence_index": "sentence"}
"""Columns of the dataset, and what a batch calls them."""

OF_TRUNK = {"word_index": -1, "coarse_index": -1, "token_labels": IGNORED_LABEL}
"""Columns of trunk tokens that are passed on where rows bring them, and what a token of a branch has instead."""
OF_ROWS = ("label", "label_score", "answer_start", "answer_stop", "is_impossible")

_SHAPES = {c.name: c.shape for task in TASKS for c in row_columns(task, GROUPS)}
_CHOICES = {"T": "lengths", "W": "words", "C": "coarse", "F": "tree", "B": "branches"}


def view(rows: Rows, group: str | None = None, task: str = "none") -> Sequences:
    """Rows as sequences of a view.

    Args:
        rows: with the columns of the view (`models.bert_batch`), and of `OF_TRUNK`, `OF_ROWS` those that are wanted.
        group: None or `base` (fine tokens), `tree`, `syntax`, `coarse`.
        task: of `seq2seq` each sequence has its `target_start`: the first place of segment 1, its length without one.

    Returns:
        Sequences whose `scalars` hold what rows have of `OF_ROWS`, a number a row; of choices also `choices`
        int64[n], the row of each.

    Raises:
        BatchError: rows lack a column, or their lists do not fit each other.
        ValueError: there is no such view.
    """
    if group not in (None, *GROUPS):
        raise ValueError(f"group is {group!r}, expected one of {', '.join(GROUPS)}, or None")
    source = _Source(rows)
    row: Ints = np.arange(len(rows))
    scalars = {name: rows.scalars[name] for name in OF_ROWS if name in rows.scalars}
    if source.choices:
        row = np.repeat(row, np.diff(rows.lists["choice_lengths"][1]))
        scalars["choices"] = row
    fine = _tree(source) if group == "tree" else _fine(source)
    if group == "syntax":
        fine = _with_syntax(fine, source)
    coarse = source.lists(COARSE) if group == "coarse" else None
    if task == "seq2seq":
        second = np.concatenate([[0], np.cumsum(fine.columns["token_type_ids"] == 1)])
        scalars["target_start"] = fine.lengths - np.diff(second[fine.offsets])
    return Sequences(rows, row, fine, coarse, scalars)


class _Source:
    """Lists of rows, split into those of their choices where they have some."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._known: dict[str, Ints] = {}
        self.choices = "choice_lengths" in rows.lists

    def has(self, name: str) -> bool:
        return name in self._rows.lists

    def values(self, name: str) -> Array:
        if not self.has(name):
            need_columns([name], (), "this view")
        return self._rows.lists[name][0]

    def offsets(self, name: str) -> Ints:
        """Of a list column: where the lists of each sequence begin, and the last ends."""
        values = self.values(name)
        if not self.choices:
            return self._rows.lists[name][1]
        shape = _SHAPES[name]
        if shape not in self._known:
            self._known[shape] = bounds(self.values(f"choice_{_CHOICES[shape]}"))
        if self._known[shape][-1] != len(values):
            raise BatchError(
                f"choices have {self._known[shape][-1]:,} items of {name!r} by choice_{_CHOICES[shape]}, which holds "
                f"{len(values):,}: the dataset is damaged (`treegraft verify` says where)"
            )
        return self._known[shape]

    def lists(self, names: dict[str, str]) -> Lists:
        """Columns of one shape, under the names of a batch."""
        offsets = self.offsets(next(iter(names)))
        columns = {theirs: self.values(ours) for ours, theirs in names.items()}
        if wrong := [name for name, values in columns.items() if len(values) != offsets[-1]]:
            raise BatchError(
                f"rows hold {len(columns[wrong[0]]):,} {wrong[0]} for {offsets[-1]:,} tokens: the dataset is damaged "
                "(`treegraft verify` says where)"
            )
        return Lists(offsets, columns)


def _fine(source: _Source) -> Lists:
    return source.lists(FINE | {name: name for name in OF_TRUNK if source.has(name)})


def _tree(source: _Source) -> Lists:
    fine = source.lists(TREE)
    made = {"parent": _of_branches(fine, source)}
    spread = {name: fill for name, fill in OF_TRUNK.items() if source.has(name)}
    if spread or source.has("tree_trunk_index"):
        index = made["trunk_index"] = source.values("tree_trunk_index")
        for name, fill in spread.items():
            values = trunk.Lists(source.values(name), source.offsets(name))
            made[name] = trunk.rows_to_tree(trunk.Lists(index, fine.offsets), values, fill)
    return fine.having(**made)


def _of_branches(fine: Lists, source: _Source) -> Array:
    """What the branch of each token hangs from; 0 on the trunk."""
    parents, branch = source.values("branch_parents"), fine.columns["branch"]
    if not parents.any():  # the paper's trees: all branches hang from the trunk
        return np.zeros(len(branch), parents.dtype)
    return _looked_up(
        parents, branch.astype(np.int64) - 1, fine.spread(source.offsets("branch_parents")[:-1]), 0
    )


def _with_syntax(fine: Lists, source: _Source) -> Lists:
    word = source.values("word_index").astype(np.int64)
    starts = fine.spread(source.offsets("word_dfs_in")[:-1])
    return fine.having(
        **{
            theirs: _looked_up(source.values(ours), word, starts, -1 if theirs == "sentence" else 0)
            for ours, theirs in SYNTAX.items()
            if ours != "sentence_index" or source.has(ours)
        }
    )


def _looked_up(values: Array, index: Ints, starts: Ints, none: int) -> Array:
    """values[starts + index] of each token, and `none` where the index is below 0."""
    filled = np.append(values, values.dtype.type(none))
    return filled[np.where(index < 0, -1, starts + index)]
