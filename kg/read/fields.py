"""Fields between TABs as columns: array operations over whole blocks, no Python per line that is good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kg.read.lines import WHITE_SPACE, Block
from kg.read.tables import control_characters

_TAB, _LF = 9, 10


@dataclass(frozen=True)
class Fields:
    """Picked columns of the N lines of a block that have as many fields as they should."""

    index: np.ndarray  # int64[N], lines of the block
    columns: list[pa.LargeStringArray]  # each [N], trimmed
    control: np.ndarray  # bool[N], a picked field holds a control character


def split(block: Block, count: int, picks: Sequence[int]) -> Fields:
    """The columns `picks` (0-based) of the kept lines; those without exactly `count` fields are rejected."""
    ends = np.searchsorted(np.flatnonzero(block.raw == _TAB), np.concatenate(([0], block.stops)))
    tabs = np.diff(ends)
    expected = f"expected {count} field{'s' if count > 1 else ''} separated by TAB"
    for i in np.flatnonzero(block.kept & (tabs != count - 1)).tolist():
        n = int(tabs[i]) + 1
        block.reject(i, "wrong_field_count", f"{expected}, found {n} field{'s' if n > 1 else ''}")

    raw = block.raw
    if not block.kept.all():
        raw = raw[np.repeat(block.kept, block.stops - block.starts)]
    # The block's bytes serve as the strings' buffer: a field is everything up to and with the separator
    # that ends it, and trimming takes the separator off.
    stops = np.flatnonzero((raw == _TAB) | (raw == _LF)) + 1
    offsets = np.concatenate(([0], stops)).astype(np.int64, copy=False)
    fields = pa.LargeStringArray.from_buffers(len(stops), pa.py_buffer(offsets), pa.py_buffer(raw))
    columns = [
        pc.utf8_trim(fields.take(pa.array(np.arange(pick, len(stops), count))), characters=WHITE_SPACE)
        for pick in picks
    ]
    control = np.zeros(len(stops) // count, np.bool_)
    field = np.searchsorted(stops, control_characters(raw), side="right")
    control[field[np.isin(field % count, picks)] // count] = True
    return Fields(np.flatnonzero(block.kept), columns, control)
