"""Fields between TABs as columns: array operations over whole blocks, no Python per line that is good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kg.read.lines import WHITE_SPACE, Block

_TAB, _LF = 9, 10

# Category Cc without the white space in it: TAB, LF, VT, FF, CR and NEL are white space inside a field.
_CONTROL = np.isin(np.arange(256), [*range(9), *range(14, 32), 127])
_C1, _NEL = 0xC2, 0x85
CONTROL_CHARACTERS = frozenset(map(chr, (*range(9), *range(14, 32), *range(127, 133), *range(134, 160))))


@dataclass(frozen=True)
class Fields:
    """Picked columns of the N lines of a block that have as many fields as they should."""

    index: np.ndarray  # int64[N], lines of the block
    columns: list[pa.LargeStringArray]  # each [N], trimmed
    control: np.ndarray  # bool[N], a picked field holds a control character


def split(block: Block, count: int, picks: Sequence[int]) -> Fields:
    """The columns `picks` (0-based) of the kept lines; those without exactly `count` fields are rejected."""
    tabs = np.searchsorted(np.flatnonzero(block.raw == _TAB), np.concatenate(([0], block.stops)))
    tabs = np.diff(tabs)
    expected = f"expected {count} fields separated by TAB"
    for i in np.flatnonzero(block.kept & (tabs != count - 1)).tolist():
        n = int(tabs[i]) + 1
        block.reject(i, "wrong_field_count", f"{expected}, found {n} field{'s' if n > 1 else ''}")

    raw = block.raw
    if not block.kept.all():
        raw = raw[np.repeat(block.kept, block.stops - block.starts)]
    index = np.flatnonzero(block.kept)
    if not len(index):
        empty = pa.array([], pa.large_string())
        return Fields(index, [empty] * len(picks), np.zeros(0, np.bool_))
    # The block's bytes serve as the strings' buffer: a field is everything up to and with the separator
    # that ends it, and trimming takes the separator off.
    separator = (raw == _TAB) | (raw == _LF)
    stops = np.flatnonzero(separator)
    offsets = np.concatenate(([0], stops + 1)).astype(np.int64, copy=False)
    fields = pa.LargeStringArray.from_buffers(len(stops), pa.py_buffer(offsets), pa.py_buffer(raw))
    columns = [
        pc.utf8_trim(fields.take(pa.array(np.arange(pick, len(stops), count))), characters=WHITE_SPACE)
        for pick in picks
    ]
    return Fields(index, columns, _control(raw, separator, stops, count, picks))


def _control(
    raw: np.ndarray, separator: np.ndarray, stops: np.ndarray, count: int, picks: Sequence[int]
) -> np.ndarray:
    """bool[N]: the lines with a control character in a picked field."""
    odd = raw < 32
    odd &= ~separator
    odd |= raw == 127
    found = np.flatnonzero(odd)
    found = found[_CONTROL[raw[found]]]
    lead = np.flatnonzero(raw[:-1] == _C1)
    after = raw[lead + 1]
    lead = lead[(after < 0xA0) & (after != _NEL)]
    lines = np.zeros(len(stops) // count, np.bool_)
    for at in (found, lead):
        field = np.searchsorted(stops, at)
        lines[field[np.isin(field % count, picks)] // count] = True
    return lines
