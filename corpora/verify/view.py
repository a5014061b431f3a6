"""Rows of a record batch as flat numpy arrays with row offsets, and the rules common to all rows.

Shapes: R rows, N elements of all rows' lists of one column. Checks flag elements or rows; flagged
rows are left out of the checks that rely on the broken rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from corpora.schema import Column
from corpora.verify.report import SHOWN_PER_RULE, Findings

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.integer]


class Shape:
    """How the elements of one list column lie in rows."""

    def __init__(self, lengths: Ints) -> None:
        self.lengths = lengths
        """int64[R]"""
        self.offsets = np.zeros(len(lengths) + 1, np.int64)
        """int64[R+1]: row r holds elements offsets[r] to offsets[r+1]"""
        np.cumsum(lengths, out=self.offsets[1:])

    @cached_property
    def row(self) -> Ints:
        """int64[N]: row of each element."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @cached_property
    def position(self) -> Ints:
        """int64[N]: index of each element in its row."""
        return np.arange(self.offsets[-1]) - np.repeat(self.offsets[:-1], self.lengths)

    @cached_property
    def first(self) -> Bools:
        """bool[N]: whether the element is its row's first."""
        first = np.zeros(int(self.offsets[-1]), bool)
        first[self.offsets[:-1][self.lengths > 0]] = True
        return first

    def per_row(self, flags: Bools) -> Ints:
        """int64[R]: number of elements flagged in each row."""
        total = np.zeros(len(flags) + 1, np.int64)
        np.cumsum(flags, out=total[1:])
        return total[self.offsets[1:]] - total[self.offsets[:-1]]

    def before(self, flags: Bools) -> Ints:
        """int64[N]: number of flagged elements before each element in its row."""
        total: Ints = np.cumsum(flags) - flags
        return total - np.repeat(total[self.offsets[:-1][self.lengths > 0]], self.lengths[self.lengths > 0])


class View:
    """Some rows of a shard. `rows` are their numbers in the shard, int64[R]."""

    def __init__(self, batch: pa.RecordBatch, rows: Ints, shard: str, findings: Findings) -> None:
        self.batch, self.rows, self.shard, self.findings = batch, rows, shard, findings
        self.bad = np.zeros(batch.num_rows, bool)
        self._shapes: dict[str, Shape] = {}
        self._flat: dict[str, npt.NDArray] = {}

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def good(self) -> View:
        """The rows that nothing was found in so far."""
        if not self.bad.any():
            return self
        keep = ~self.bad
        return View(self.batch.filter(pa.array(keep)), self.rows[keep], self.shard, self.findings)

    def fresh(self) -> View:
        """The same rows with nothing found in them."""
        view = View(self.batch, self.rows, self.shard, self.findings)
        view._shapes, view._flat = self._shapes, self._flat
        return view

    def is_broken(self, rule: str) -> bool:
        """Whether anything in the folder was found to break `rule` so far."""
        return self.findings.counts[rule] > 0

    def fail_folder(self, rule: str, detail: str) -> None:
        """A problem that is none of these rows'."""
        self.findings.add(rule, detail)

    def column(self, name: str) -> pa.Array:
        return self.batch.column(self.batch.schema.get_field_index(name))

    def shape(self, name: str) -> Shape:
        """Where the lists of column `name` begin and end; a null list is empty."""
        if name not in self._shapes:
            self._shapes[name] = Shape(numbers(pc.list_value_length(self.column(name))))
        return self._shapes[name]

    def flat(self, name: str) -> npt.NDArray:
        """All elements of list column `name`, without copying where Arrow allows."""
        if name not in self._flat:
            self._flat[name] = self.column(name).flatten().to_numpy(zero_copy_only=False)
        return self._flat[name]

    def null(self, name: str) -> Bools:
        """bool[R]: whether the row has no value."""
        return self.column(name).is_null().to_numpy(zero_copy_only=False)

    def texts(self, name: str) -> list[str]:
        """Text of each row; empty for null."""
        return [text or "" for text in self.column(name).to_pylist()]

    def text_lengths(self, name: str) -> Ints:
        """int64[R]: characters of each text; 0 for null."""
        return numbers(pc.utf8_length(self.column(name)))

    def fail(self, rule: str, shape: Shape, flags: Bools, detail: Callable[[int], str]) -> None:
        """Rows that hold a flagged element break `rule`; `detail` is told an element's flat index."""
        if flags.any():
            self.fail_at(rule, shape, np.flatnonzero(flags), detail)

    def fail_at(self, rule: str, shape: Shape, at: Ints, detail: Callable[[int], str]) -> None:
        """As `fail`, with the flat indices of the elements instead of flags; they rise."""
        if len(at):
            rows, first = np.unique(shape.row[at], return_index=True)
            self._fail(rule, rows, lambda index: detail(int(at[first[index]])))

    def fail_rows(self, rule: str, flags: Bools, detail: Callable[[int], str]) -> None:
        """Flagged rows break `rule`; `detail` is told a row's index in this view."""
        if flags.any():
            rows = np.flatnonzero(flags)
            self._fail(rule, rows, lambda index: detail(int(rows[index])))

    def fail_named(self, rule: str, row: int, identity: str, detail: str) -> None:
        """A row of the shard breaks `rule`; it may lie in another view."""
        self.findings.add_rows(rule, self.shard, [(row, identity)], lambda _: detail)

    def _fail(self, rule: str, rows: Ints, detail: Callable[[int], str]) -> None:
        """As `fail_rows`, with the indices of the rows; `detail` is told an index into `rows`."""
        self.bad[rows] = True
        ids = self.batch.column(0)
        named = [(int(self.rows[r]), ids[int(r)].as_py()) for r in rows[:SHOWN_PER_RULE]]
        self.findings.add_rows(rule, self.shard, named, detail, len(rows))


def numbers(array: pa.Array) -> Ints:
    """Integers of an Arrow array as int64, nulls as 0."""
    return pc.fill_null(array, 0).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)


def check_nulls(view: View, columns: Sequence[Column]) -> View:
    """No null in a column that has none, nor in any list; returns the rows that pass."""
    for column in columns:
        array = view.column(column.name)
        if array.null_count and not column.nullable:
            view.fail_rows("nulls", view.null(column.name), lambda _, c=column: f"column {c.name} is null")  # type: ignore[misc]
        if pa.types.is_list(column.type):
            items = array.flatten()
            if pa.types.is_dictionary(items.type) and items.dictionary.null_count:
                items = items.dictionary_decode()
            if items.null_count:
                shape, flags = view.shape(column.name), items.is_null().to_numpy(zero_copy_only=False)
                view.fail(
                    "nulls",
                    shape,
                    flags,
                    lambda i, c=column, s=shape: f"{c.name}[{s.position[i]}] is null",  # type: ignore[misc]
                )
    return view.good()


def check_lengths(view: View, groups: Sequence[Sequence[Column]]) -> View:
    """Columns of one shape agree, in length and in being null; returns the rows that pass."""
    for columns in groups:
        first = columns[0].name
        for column in columns[1:]:
            have, want = view.shape(column.name).lengths, view.shape(first).lengths
            view.fail_rows(
                "lengths",
                (have != want) | (view.null(column.name) != view.null(first)),
                lambda r, c=column, h=have, w=want, f=first: (  # type: ignore[misc]
                    f"{c.name} has {h[r]} entries, {f} has {w[r]}"
                    if h[r] != w[r]
                    else f"only one of {c.name} and {f} is null"
                ),
            )
    return view.good()


def check_spans(
    view: View, rule: str, starts_name: str, stops_name: str, text_lengths: Ints, what: str
) -> None:
    """Spans are non-empty, within the text, in order, and do not overlap."""
    shape, starts, stops = view.shape(starts_name), view.flat(starts_name), view.flat(stops_name)
    view.fail(
        rule,
        shape,
        (starts < 0) | (stops <= starts) | (stops > text_lengths[shape.row]),
        lambda i: (
            f"{what} {shape.position[i]} is [{starts[i]}, {stops[i]}) "
            f"in a text of {text_lengths[shape.row[i]]} characters"
        ),
    )
    overlap = np.zeros(len(starts), bool)
    overlap[1:] = (starts[1:] < stops[:-1]) & ~shape.first[1:]
    view.fail(
        rule,
        shape,
        overlap,
        lambda i: (
            f"{what} {shape.position[i]} starts at {starts[i]}, before {stops[i - 1]}, the end of the last"
        ),
    )


def endless(heads: Ints) -> Bools:
    """bool[N]: whether following `heads` (flat indices, a root is its own) never ends at a root.

    Pointer doubling: after k rounds an entry names its 2^k-th ancestor.
    """
    ancestor = heads
    for _ in range(max(len(heads), 2).bit_length()):
        further = ancestor[ancestor]
        if np.array_equal(further, ancestor):
            break
        ancestor = further
    return heads[ancestor] != ancestor
