"""Label names to indices, source tokens of rows, and what becomes of documents that carry no labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from corpora.schema import IGNORED_LABEL
from pipelines.config import ConfigError
from pipelines.encode.assemble import Rows
from pipelines.ragged import Ints, bounds, ranges


class LabelError(ValueError):
    """A document has a label that the dataset does not know."""


class Labels:
    """The label names of a dataset, in index order."""

    def __init__(self, names: Sequence[str], *, per_token: bool = False) -> None:
        """Raises ConfigError for more names than `token_labels`, int16, can number."""
        self.names = list(names)
        if (
            per_token and len(self.names) > np.iinfo(np.int16).max
        ):  # `token_labels` are int16, and a number past it would wrap
            raise ConfigError(
                f"{len(self.names):,} different labels, at most {np.iinfo(np.int16).max:,} can be told apart; "
                f"the first are {', '.join(map(repr, self.names[:3]))}. Is `input.label` the right field?"
            )
        self._values = pa.array(self.names, pa.string())

    def of_documents(self, table: pa.Table, split: str) -> pa.Array:
        """Index int32 of each document's `label`, null for null. Raises LabelError."""
        return self._indices(table["label"].combine_chunks(), table, np.arange(len(table)), split)

    def of_units(self, table: pa.Table, split: str, sizes: Ints) -> NDArray[np.int16]:
        """Label index int16[U] of every source token; -100 throughout documents without labels.

        Args:
            sizes: source tokens of each document.

        Raises LabelError.
        """
        owners = np.repeat(np.arange(len(table)), sizes)
        has = table["tag_labels"].is_valid().to_numpy()[owners]
        flat = [chunk.flatten() for chunk in table["tag_labels"].chunks]
        names = pa.concat_arrays([pa.array([], pa.string()), *flat])
        if len(names) != has.sum():
            raise LabelError(
                f"split {split!r} has {int(has.sum())} source tokens but {len(names)} labels: expected one each. "
                "Annotate the corpus again."
            )
        labels = np.full(len(owners), IGNORED_LABEL, np.int16)
        found = self._indices(names, table, owners[has], split)
        labels[has] = pc.fill_null(found, IGNORED_LABEL).to_numpy(zero_copy_only=False)
        return labels

    def _indices(self, names: pa.Array, table: pa.Table, owners: Ints, split: str) -> pa.Array:
        found = pc.index_in(names, value_set=self._values)
        unknown = pc.and_(found.is_null(), names.is_valid())
        if pc.any(unknown).as_py():
            at = int(unknown.to_numpy(zero_copy_only=False).argmax())
            doc_id = table["doc_id"][int(owners[at])].as_py()
            raise LabelError(
                f"document {doc_id!r} of split {split!r} has the label {names[at].as_py()!r}, which is "
                f"none of {', '.join(map(repr, self.names))}. List every label in `encode.labels`, or correct "
                "the data."
            )
        return found


def first_pieces(units: Ints, labels: NDArray[np.int16]) -> NDArray[np.int16]:
    """Label int16[N] of every token that begins a source token, -100 for the others.

    Args:
        units: [N], source token of each token, rising.
        labels: [U], label of each source token.
    """
    first = np.diff(units, prepend=-1) != 0
    return np.where(first, labels[units], np.int16(IGNORED_LABEL)).astype(np.int16)


def source_tokens(
    rows: Rows, units: Ints, starts: Ints, stops: Ints
) -> dict[str, tuple[NDArray[np.int32], Ints]]:
    """`tag_starts` and `tag_stops` of R rows: the source tokens that a row has a token of.

    Args:
        units: [N], source token of each flat token, rising; every source token has one.
        starts, stops: [U], characters of each source token in its text.
    """
    first = units[rows.starts[:, 0]]
    counts = units[rows.stops[:, 0] - 1] + 1 - first
    chosen, offsets = ranges(first, counts), bounds(counts)
    return {
        "tag_starts": (starts[chosen].astype(np.int32), offsets),
        "tag_stops": (stops[chosen].astype(np.int32), offsets),
    }
