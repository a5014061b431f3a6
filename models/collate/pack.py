"""Packing: several short rows as one sequence of the batch, so that less of it is padding.

Masks keep them apart (`sequence_id`, 1 and on), positions begin anew in each. Rows are packed after all steps, so what
is done to a row does not depend on the company it is in. Longest first, each into the first sequence where it fits
(first-fit decreasing: of one granularity, at most 11/9 of the fewest sequences there could be and one more; Dósa 2007).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from corpora.ragged import Ints, bounds, ranges
from models.collate.sequences import Lists, Sequences
from models.stream.order import check_whole

TASKS = ("none", "mlm", "tag")
"""Tasks that read tokens, not one sequence a row."""
_KIND = "lm_kind"
"""The one number of a row that packed rows may have: they share it."""


@dataclass(frozen=True)
class Packing:
    """Packs the sequences of a batch.

    Rows of weight 0 are left out (of a batch of nothing else one is kept). A row longer than `length` is a sequence of
    its own. Rows of different kinds of language model (`lm_kind`) are not packed together.

    Attributes:
        length: tokens of a sequence: of the flattened tree, in its view.
        coarse_length: coarse tokens of a sequence; None: as many as `length`.

    Raises:
        ValueError: a length is below 1.
    """

    length: int
    coarse_length: int | None = None

    def __post_init__(self) -> None:
        for name in ("length", "coarse_length"):
            value = getattr(self, name)
            if value is not None:
                check_whole(f"{name} of packed sequences", value, 1)

    def check(self, task: str) -> None:
        """Raise ValueError where a model's task reads one sequence a row, so that rows cannot be packed."""
        if task not in TASKS:
            raise ValueError(
                f"task {task!r} reads one sequence a row: do not pack its rows (tasks that can be packed: "
                f"{', '.join(TASKS)}); batches of like lengths (models.collate.buckets) save padding as well"
            )

    def __call__(self, sequences: Sequences) -> Sequences:
        """The same tokens in fewer sequences; `row` of each is the first of its rows.

        Both granularities have `sequence_id` and `position_ids`; `coarse_index` counts the coarse tokens of the
        packed sequence.

        Raises ValueError where rows have a number of their own that is not of their tokens, such as a label.
        """
        if single := next((name for name in sequences.scalars if name != _KIND), None):
            raise ValueError(f"{single!r} is of a whole row: rows that have it cannot be packed")
        kept = np.flatnonzero(sequences.weight > 0)
        kept = kept if len(kept) else np.zeros(min(1, len(sequences)), np.int64)
        kind = sequences.scalars.get(_KIND, np.zeros(len(sequences), np.int64))
        sizes = [sequences.fine.lengths[kept], np.zeros(len(kept), np.int64)]
        if sequences.coarse is not None:
            sizes[1] = sequences.coarse.lengths[kept]
        rooms = self.length, self.coarse_length or self.length
        order = np.argsort(-sizes[0], kind="stable")
        into = first_fit(sizes[0][order], sizes[1][order], kind[kept[order]], rooms)
        there = np.argsort(into, kind="stable")
        kept, counts = kept[order[there]], np.bincount(into)
        firsts = bounds(counts)
        fine, _ = _joined(sequences.fine, kept, firsts)
        coarse = None
        if sequences.coarse is not None:
            coarse, starts = _joined(sequences.coarse, kept, firsts)
            if "coarse_index" in fine.columns:
                own = np.repeat(starts, sequences.fine.lengths[kept])
                fine = fine.having(coarse_index=fine.columns["coarse_index"] + own)
        first = kept[firsts[:-1]]
        scalars = {name: values[first] for name, values in sequences.scalars.items()}
        return replace(sequences, row=sequences.row[first], fine=fine, coarse=coarse, scalars=scalars)


def first_fit(sizes: Ints, others: Ints, kinds: Ints, rooms: tuple[int, int]) -> NDArray[np.int64]:
    """Into which sequence (0, 1, ...) each of n rows goes, int64[n]: the first of its kind with room for both sizes.

    A loop over rows, because each depends on those before; a batch has some dozens.
    """
    opened: dict[int, list[list[int]]] = {}
    into, count = [], 0
    for size, other, kind in zip(sizes.tolist(), others.tolist(), kinds.tolist(), strict=True):
        mine = opened.setdefault(kind, [])
        for place in mine:
            if place[0] >= size and place[1] >= other:
                break
        else:
            place = [*rooms, count]
            mine.append(place)
            count += 1
        place[0] -= size
        place[1] -= other
        into.append(place[2])
    return np.array(into, np.int64)


def _joined(lists: Lists, order: Ints, firsts: Ints) -> tuple[Lists, Ints]:
    """Lists of these sequences in this order, those from firsts[i] to firsts[i+1]-1 as one; and where in it each
    begins, int64[len(order)]."""
    lengths = lists.lengths[order]
    tokens = ranges(lists.offsets[order], lengths)
    places = {"position_ids": lists.places} | lists.columns
    ends = bounds(lengths)
    joined = Lists(ends[firsts], {name: values[tokens] for name, values in places.items()})
    counts = np.diff(firsts)
    number = np.arange(len(order)) - np.repeat(firsts[:-1], counts) + 1
    starts = ends[:-1] - np.repeat(ends[firsts[:-1]], counts)
    return joined.having(sequence_id=np.repeat(number, lengths)), starts
