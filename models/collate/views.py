"""Views: rows as a model reads them: fine tokens, the flattened tree, tokens with their parse or with coarse ones.

Columns of words, branches and trunk tokens are spread over the tokens that the encoder reads, by index arrays
over the whole batch. Every choice of a row of `choice` is a sequence of its own.
"""

from __future__ import annotations

import numpy as np

from corpora import trunk
from corpora.ragged import Ints, bounds
from corpora.schema import GROUPS, IGNORED_LABEL, ROW_COLUMNS
from models.bert_batch import COARSE, FINE, SYNTAX, TREE, BatchError, need_columns
from models.collate.sequences import Lists, Sequences
from models.stream.rows import Array, Rows

OF_TRUNK = {"word_index": -1, "coarse_index": -1, "token_labels": IGNORED_LABEL}
"""Columns of trunk tokens that are passed on where rows bring them, and what a token of a branch has instead."""
OF_ROWS = ("label", "label_score", "answer_start", "answer_stop", "is_impossible")

_UNSIGNED = {kind.itemsize: kind for kind in map(np.dtype, (np.uint8, np.uint16, np.uint32, np.uint64))}
_CHOICES = {"T": "lengths", "W": "words", "C": "coarse", "F": "tree", "B": "branches"}


def view(rows: Rows, group: str | None = None) -> Sequences:
    """Rows as sequences of a view.

    Args:
        rows: with the columns of the view (`models.bert_batch`), and of `OF_TRUNK`, `OF_ROWS` those that are wanted.
        group: None or `base` (fine tokens), `tree`, `syntax`, `coarse`.

    Returns:
        Sequences whose `scalars` hold what rows have of `OF_ROWS`, a number a row; of choices also `choices`
        int64[n], the row of each.

    Raises:
        BatchError: rows lack a column, or their lists do not fit each other: the dataset is damaged.
        ValueError: there is no such view.
    """
    check_group(group)
    source = _Source(rows)
    scalars = {name: rows.scalars[name] for name in OF_ROWS if name in rows.scalars}
    if source.choices:
        scalars["choices"] = source.row
    fine = _tree(source) if group == "tree" else _fine(source)
    if group == "syntax":
        fine = _with_syntax(fine, source)
    coarse = _coarse(fine, source) if group == "coarse" else None
    return Sequences(rows, source.row, fine, coarse, scalars)


def check_group(group: str | None) -> None:
    """Raise ValueError where there is no such view."""
    if group not in (None, *GROUPS):
        raise ValueError(f"group is {group!r}, expected one of {', '.join(GROUPS)}, or None")


class _Source:
    """Lists of rows, split into those of their choices where they have some; each is checked as it is read."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._known: dict[str, tuple[str, Ints, Ints]] = {}
        self.row: Ints = np.arange(len(rows))
        self.choices = "choice_lengths" in rows.lists
        if self.choices:
            counts = np.diff(rows.lists["choice_lengths"][1])
            if not counts.all():
                raise self.damaged(int(counts.argmin()), "choice_lengths names no choice")
            self.row = np.repeat(self.row, counts)

    def has(self, name: str) -> bool:
        return name in self._rows.lists

    def list(self, name: str) -> tuple[Array, Ints]:
        """Values of a list column, and where the lists of each sequence begin, and the last ends."""
        if not self.has(name):
            need_columns([name], (), "this view")
        values, offsets = self._rows.lists[name]
        shape = ROW_COLUMNS[name].shape
        if shape not in self._known:
            split = self._split(name, f"choice_{_CHOICES[shape]}") if self.choices else offsets
            self._known[shape] = name, offsets, split
        other, of_other, split = self._known[shape]
        if offsets is not of_other:
            self._same(np.diff(offsets), np.diff(of_other), f"items of {name}", f"of {other}")
        return values, split

    def lists(self, names: dict[str, str]) -> Lists:
        """Columns of one shape, under the names of a batch."""
        read = {theirs: self.list(ours) for ours, theirs in names.items()}
        _, offsets = next(iter(read.values()))
        return Lists(offsets, {name: values for name, (values, _) in read.items()})

    def check_index(self, name: str, index: Array, offsets: Ints, of: str, least: int, last: int) -> None:
        """Raise BatchError where index[offsets[i]:offsets[i+1]], of column `name`, goes below `least`, or
        beyond the items of `of` in sequence i, the last of which is `last` more than their number."""
        if not len(index):
            return
        bound = self.list(of)[1]
        starts, lengths, most = offsets[:-1], offsets[1:] - offsets[:-1], bound[1:] - bound[:-1] + last
        some = slice(None) if lengths.all() else np.flatnonzero(lengths)
        # Numbers below the least are, without a sign, greater than all others: one pass finds both.
        above = (index - least if least else index).view(_UNSIGNED[index.itemsize])
        wrong = np.maximum.reduceat(above, starts[some]) > (most - least)[some]
        if wrong.any():
            at = int(np.arange(len(lengths))[some][wrong][0])
            own = index[offsets[at] : offsets[at + 1]].tolist()
            found = next(x for x in own if not least <= x <= most[at])
            raise self.damaged(
                int(self.row[at]),
                f"{name} holds {found}, expected {least} to {most[at]}, by its {most[at] - last} {of}",
            )

    def damaged(self, row: int, what: str) -> BatchError:
        return BatchError(
            f"row {self._rows.number[row]}: {what}: the dataset is damaged; `treegraft verify` says where"
        )

    def _split(self, name: str, by: str) -> Ints:
        """Where the lists of each choice begin, and the last ends."""
        if not self.has(by):
            need_columns([by], (), "this view")
        lengths, choices = self._rows.lists[by]
        known = self._rows.lists["choice_lengths"][1]
        if choices is not known:
            self._same(np.diff(choices), np.diff(known), f"items of {by}", "of choice_lengths")
        split = bounds(lengths)
        below = np.minimum.reduceat(lengths, known[:-1]) < 0
        if below.any():
            raise self.damaged(int(below.argmax()), f"{by} holds a length below 0")
        self._same(np.diff(self._rows.lists[name][1]), np.diff(split[known]), f"items of {name}", f"by {by}")
        return split

    def _same(self, found: Ints, wanted: Ints, what: str, of: str) -> None:
        if not np.array_equal(found, wanted):
            row = int((found != wanted).argmax())
            raise self.damaged(row, f"it has {found[row]} {what}, and {wanted[row]} {of}")


def _fine(source: _Source) -> Lists:
    return source.lists(FINE | {name: name for name in OF_TRUNK if source.has(name)})


def _tree(source: _Source) -> Lists:
    fine = source.lists(TREE)
    made = {"parent": _of_branches(fine, source)}
    spread = {name: fill for name, fill in OF_TRUNK.items() if source.has(name)}
    if spread or source.has("tree_trunk_index"):
        made["trunk_index"], _ = source.list("tree_trunk_index")
        index = trunk.Ragged(made["trunk_index"], fine.offsets)
        try:
            for name, fill in spread.items():
                made[name] = trunk.rows_to_tree(index, trunk.Ragged(*source.list(name)), fill)
        except trunk.TrunkError as error:
            row = int(source.row[error.row])
            raise source.damaged(row, f"tree_trunk_index: {error.why}") from None
    return fine.having(**made)


def _of_branches(fine: Lists, source: _Source) -> Array:
    """What the branch of each token hangs from; 0 on the trunk."""
    branch, (parents, offsets) = fine.columns["branch"], source.list("branch_parents")
    source.check_index("tree_branch", branch, fine.offsets, "branch_parents", least=0, last=0)
    if not parents.any():  # the paper's trees: all branches hang from the trunk
        return np.zeros(len(branch), parents.dtype)
    source.check_index("branch_parents", parents, offsets, "branch_parents", least=0, last=0)
    return _looked_up(parents, _places(branch - 1, fine, offsets), 0)


def _with_syntax(fine: Lists, source: _Source) -> Lists:
    word, _ = source.list("word_index")
    source.check_index("word_index", word, fine.offsets, "word_dfs_in", least=-1, last=-1)
    places = _places(word, fine, source.list("word_dfs_in")[1])
    return fine.having(
        **{
            theirs: _looked_up(source.list(ours)[0], places, -1 if theirs == "sentence" else 0)
            for ours, theirs in {**SYNTAX, "sentence_index": "sentence"}.items()
            if ours != "sentence_index" or source.has(ours)
        }
    )


def _coarse(fine: Lists, source: _Source) -> Lists:
    if "coarse_index" in fine.columns:
        index = fine.columns["coarse_index"]
        source.check_index("coarse_index", index, fine.offsets, "coarse_ids", least=0, last=-1)
    return source.lists(COARSE)


def _places(index: Array, fine: Lists, offsets: Ints) -> Ints:
    """Where what each token's index counts in its sequence stands among those of all; -1 where it is below 0."""
    return np.where(index < 0, -1, fine.spread(offsets[:-1]) + index)


def _looked_up(values: Array, places: Ints, none: int) -> Array:
    """The values there, and `none` where the place is -1."""
    return np.append(values, values.dtype.type(none))[places]
