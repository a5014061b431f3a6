"""Between a row's tokens and its flattened tree, and from predicted tags back to the source.

Token labels exist for the trunk, while a model that reads the tree predicts for every token of it. `to_tree`
lays values of trunk tokens out on the tree, with a filler on branches; `to_trunk` takes the branches
out again, and is its exact inverse. `decode_tags` goes the rest of the way, to the source tokens that were
labelled. With ends of rows given, `rows_to_tree` and `rows_to_trunk` do the same for any number of rows
at once.

Shapes: R rows, T trunk tokens, F tokens of the flattened tree, U source tokens; of one row or of all.
`...` stands for whatever an element is: nothing for labels, a dimension for scores of every label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from corpora.schema import IGNORED_LABEL


class TrunkError(ValueError):
    """Lists that do not fit each other: `row` is the first that does not, from 0, and `why` says how."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(f"row {row}: {why}")
        self.row, self.why = row, why


class Ragged(NamedTuple):
    """A list column of R rows: row r has `values[offsets[r]:offsets[r + 1]]`."""

    values: NDArray[Any]
    offsets: NDArray[np.int64]
    """[R+1]"""

    @classmethod
    def of(cls, column: pa.Array | pa.ChunkedArray) -> Ragged:
        """A list column as Arrow has it; a null list is empty."""
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        flat = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in chunks]
        values = flat[0] if len(flat) == 1 else np.concatenate(flat or [np.zeros(0, np.int64)])
        return cls(values, np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))))


class Tagged(NamedTuple):
    """A source token and its label."""

    start: int
    """First character in the row's `text`."""
    stop: int
    """One past its last character."""
    text: str
    label: Any
    """As predicted: an index or a name."""


def to_tree(trunk_index: ArrayLike, values: ArrayLike, fill: Any = IGNORED_LABEL) -> NDArray[Any]:
    """Values of a row's tokens, [T, ...], on its flattened tree, [F, ...]; branch tokens get `fill`.

    Args:
        trunk_index: the row's `tree_trunk_index`, [F].

    Raises ValueError where `trunk_index` does not count the T tokens, or `fill` is no such value.
    """
    index, of_tokens = np.asarray(trunk_index), np.asarray(values)
    return rows_to_tree(_single(index), _single(of_tokens), fill)


def to_trunk(trunk_index: ArrayLike, values: ArrayLike) -> NDArray[Any]:
    """Values of a row's flattened tree, [F, ...], on its tokens, [T, ...]: branches are taken out.

    Args:
        trunk_index: the row's `tree_trunk_index`, [F].

    Raises ValueError where `trunk_index` does not count tokens from 0, or has another length.
    """
    index, of_tree = np.asarray(trunk_index), np.asarray(values)
    return rows_to_trunk(_single(index), _single(of_tree)).values


def rows_to_tree(trunk_index: Ragged, values: Ragged, fill: Any = IGNORED_LABEL) -> NDArray[Any]:
    """`to_tree` of R rows; the result lies in rows as `trunk_index` does."""
    on_trunk, offsets = _trunk(trunk_index)
    _check_lengths(np.diff(values.offsets), np.diff(offsets), "values", "tokens on the trunk")
    flat = values.values
    dtype: np.dtype = flat.dtype
    if dtype.kind != "O":
        if (dtype.kind == "U") != isinstance(fill, str):
            raise ValueError(f"fill is {fill!r}, expected a value such as those of the tokens ({dtype})")
        dtype = _wide_enough(dtype, fill)
    tree = np.empty((len(on_trunk), *flat.shape[1:]), dtype)
    try:
        tree[~on_trunk] = fill
    except (OverflowError, TypeError, ValueError):
        raise ValueError(f"fill is {fill!r}, which {flat.dtype} cannot hold") from None
    tree[on_trunk] = flat
    return tree


def rows_to_trunk(trunk_index: Ragged, values: Ragged) -> Ragged:
    """`to_trunk` of R rows."""
    on_trunk, offsets = _trunk(trunk_index)
    lengths = np.diff(trunk_index.offsets)
    _check_lengths(np.diff(values.offsets), lengths, "values", "tokens in the tree")
    return Ragged(values.values[on_trunk], offsets)


def decode_tags(row: Mapping[str, Any], predictions: ArrayLike | Sequence[str]) -> list[Tagged]:
    """The source tokens of a tagged row with the labels predicted for them.

    One for every source token that the row has: truncation may have cut some off at the end. A
    source token has the label of its first piece. What was predicted for branches, for special tokens and
    for further pieces is left out.

    Args:
        row: a row of task `tag` as a mapping from column names (`table.to_pylist()[0]`).
        predictions: a label (index or name) for every token of the row, [T], or of its flattened
            tree, [F]; without padding.

    Raises ValueError for a row of another task, predictions of another length, or a text that is shorter
    than the offsets say.
    """
    needed = ("text", "char_starts", "char_stops", "tag_starts", "tag_stops")
    if missing := [name for name in needed if row.get(name) is None]:
        raise ValueError(f"expected a row of task 'tag', found none of its column {missing[0]!r}")
    char_starts, char_stops, starts, stops = (np.asarray(row[name], np.int64) for name in needed[1:])
    labels = np.asarray(predictions)
    if labels.ndim != 1:
        raise ValueError(
            f"expected a label per token, found predictions of shape {labels.shape}: take the best label first"
        )
    trunk_index = row.get("tree_trunk_index")
    if len(labels) != len(char_starts):
        if trunk_index is None or len(labels) != len(trunk_index):
            tree = "" if trunk_index is None else f" or {len(trunk_index)}, one per token of its tree"
            raise ValueError(
                f"expected {len(char_starts)} predictions, one per token of the row{tree}; "
                f"found {len(labels)} (leave padding out)"
            )
        labels = to_trunk(trunk_index, labels)
    if len(char_stops) != len(char_starts) or len(stops) != len(starts):
        raise ValueError("the row has starts without stops: `treegraft verify` tells what is wrong")
    token = np.flatnonzero(char_stops > char_starts)  # special tokens stand for nothing
    of = np.searchsorted(starts, char_starts[token], "right") - 1
    first = np.searchsorted(of, np.arange(len(starts)))  # tokens are in the order of the text
    if len(starts) and not np.array_equal(np.append(of, -1)[first], np.arange(len(starts))):
        raise ValueError("the row has a source token without a token: `treegraft verify` tells what is wrong")
    if len(starts) and not 0 <= starts.min() <= stops.max() <= len(row["text"]):
        raise ValueError(
            f"the row's source tokens reach from {starts.min()} to {stops.max()}, its text has "
            f"{len(row['text'])} characters: `text` was changed or is of another row"
        )
    text, chosen = row["text"], labels[token[first]].tolist()
    spans = zip(starts.tolist(), stops.tolist(), chosen, strict=True)
    return [Tagged(start, stop, text[start:stop], label) for start, stop, label in spans]


def _wide_enough(dtype: np.dtype, fill: Any) -> np.dtype:
    """The dtype of values and `fill` together. Raises ValueError where `fill` is no single value of their kind,
    as None is none for numbers; a float beside integers makes floats of them."""
    one = np.asarray(fill)
    if one.ndim or one.dtype.kind in "OmMV":
        raise ValueError(f"fill is {fill!r}, expected a value such as those of the tokens ({dtype})")
    try:
        return np.result_type(dtype, one.dtype if isinstance(fill, str) else fill)
    except (OverflowError, TypeError):
        raise ValueError(f"fill is {fill!r}, which {dtype} cannot hold") from None


def _single(values: NDArray[Any]) -> Ragged:
    return Ragged(values, np.array([0, len(values)], np.int64))


def _trunk(trunk_index: Ragged) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which tree tokens are on the trunk, bool[F], and where their rows end, int64[R+1]."""
    index = trunk_index.values
    if index.ndim != 1 or (index.dtype.kind not in "iu" and len(index)):
        raise ValueError(
            f"expected the integers of `tree_trunk_index`, found {index.dtype} of shape {index.shape}"
        )
    on_trunk: NDArray[np.bool_] = index >= 0
    before = np.concatenate(([0], np.cumsum(on_trunk, dtype=np.int64)))
    offsets = before[trunk_index.offsets]
    counted = np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))
    wrong = index[on_trunk] != counted
    if wrong.any():
        at = int(wrong.argmax())
        row = int(np.searchsorted(offsets, at, "right")) - 1
        raise TrunkError(
            row,
            f"trunk index {index[on_trunk][at]} where {counted[at]} follows; expected `tree_trunk_index` of "
            "whole rows",
        )
    return on_trunk, offsets


def _check_lengths(found: NDArray[np.int64], wanted: NDArray[np.int64], what: str, of: str) -> None:
    if len(found) != len(wanted):
        raise ValueError(f"{len(found)} rows of {what}, but trees of {len(wanted)} rows")
    if (wrong := found != wanted).any():
        row = int(wrong.argmax())
        raise TrunkError(row, f"{found[row]} {what} for {wanted[row]} {of}")
