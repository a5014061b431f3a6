"""Rows of a dataset as flat arrays: what a stream hands to a collator.

A batch of rows is a handful of numpy arrays, never an object per row. A list column is its items end to
end and offsets into them; list columns whose lists have equal lengths in these rows (all columns of shape T,
say) share one offsets array, the very same object, so whoever pads them works out the places once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corpora.ragged import Ints, bounds, ranges

Array = NDArray[Any]


@dataclass
class Rows:
    """n rows of the columns asked for.

    Attributes:
        number: int64[n], the number of each row in its dataset (over several joined splits, in all of them).
        epoch: int64[n], how often each row was drawn before: the epoch, counted from 0; in a mixture the epoch
            of its split. With number and a seed all that randomness about a row should depend on.
        weight: float32[n], 1 for a row, 0 for one that only fills a batch at the end of an epoch and
            repeats another row. Losses and scores weigh by it.
        lists: of every list column `(values[m], offsets int64[n+1])`, offsets[0] = 0 and offsets[n] = m;
            row i's list is `values[offsets[i]:offsets[i+1]]`. Values have the column's own type (lists of
            booleans: bool) and may lie in a file: read-only.
        scalars: of every other column array[n]. Nulls are -100 in whole numbers (`corpora.schema.IGNORED_LABEL`)
            and NaN in floats.
        texts: of every column of strings, or of lists of strings, an Arrow array[n]; `.to_pylist()` gives strings.
    """

    number: Ints
    epoch: Ints
    weight: NDArray[np.float32]
    lists: dict[str, tuple[Array, Ints]] = field(default_factory=dict)
    scalars: dict[str, Array] = field(default_factory=dict)
    texts: dict[str, pa.Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.number)

    def slice(self, start: int, stop: int) -> Rows:
        """Rows start..stop-1 without copying a value."""
        shared: dict[int, tuple[int, int, Ints]] = {}
        lists = {}
        for name, (values, offsets) in self.lists.items():
            cut = shared.get(id(offsets))
            if cut is None:
                first = int(offsets[start])
                cut = shared[id(offsets)] = first, int(offsets[stop]), offsets[start : stop + 1] - first
            lists[name] = values[cut[0] : cut[1]], cut[2]
        return Rows(
            self.number[start:stop],
            self.epoch[start:stop],
            self.weight[start:stop],
            lists,
            {name: values[start:stop] for name, values in self.scalars.items()},
            {name: values.slice(start, stop - start) for name, values in self.texts.items()},
        )

    def take(self, indices: Ints) -> Rows:
        """The rows of these indices (int64[k], each in 0..n-1), in their order; copies."""
        shared: dict[int, tuple[Ints, Ints]] = {}
        lists = {}
        for name, (values, offsets) in self.lists.items():
            if id(offsets) not in shared:
                starts = offsets[indices]
                lengths = offsets[indices + 1] - starts
                shared[id(offsets)] = ranges(starts, lengths), bounds(lengths)
            places, cut = shared[id(offsets)]
            lists[name] = values[places], cut
        return Rows(
            self.number[indices],
            self.epoch[indices],
            self.weight[indices],
            lists,
            {name: values[indices] for name, values in self.scalars.items()},
            {name: values.take(pa.array(indices)) for name, values in self.texts.items()},
        )

    @staticmethod
    def concatenate(parts: Sequence[Rows]) -> Rows:
        """Rows of the same columns one after the other, at least one part; one part is given back as it is."""
        if len(parts) == 1:
            return parts[0]
        first = parts[0]
        shared: dict[tuple[int, ...], Ints] = {}
        lists = {}
        for name in first.lists:
            key = tuple(id(part.lists[name][1]) for part in parts)
            if key not in shared:
                shared[key] = bounds(np.concatenate([np.diff(part.lists[name][1]) for part in parts]))
            lists[name] = np.concatenate([part.lists[name][0] for part in parts]), shared[key]
        return Rows(
            np.concatenate([part.number for part in parts]),
            np.concatenate([part.epoch for part in parts]),
            np.concatenate([part.weight for part in parts]),
            lists,
            {name: np.concatenate([part.scalars[name] for part in parts]) for name in first.scalars},
            {name: pa.concat_arrays([part.texts[name] for part in parts]) for name in first.texts},
        )
