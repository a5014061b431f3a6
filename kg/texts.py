"""Texts by number, in two mapped columns: their UTF-8 one after another, and where each begins."""

from __future__ import annotations

import numpy as np

from kg.errors import GraphError

_DAMAGED = "the texts of the graph are damaged; open it with `check=True` to see, compile the triples again"


class Texts:
    """`Texts[i]` is the text of number i: IndexError where there is no such number, GraphError where the
    columns are damaged. `lengths`, in characters, tell a damaged place before it is read."""

    def __init__(self, data: np.ndarray, offsets: np.ndarray, lengths: np.ndarray | None = None) -> None:
        self.data, self.offsets, self._lengths = data, offsets, lengths

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> str:
        raw = self.utf8(number)
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            raise GraphError(_DAMAGED) from None
        if self._lengths is not None and self._lengths[number] != len(text):
            raise GraphError(_DAMAGED)
        return text

    def utf8(self, number: int) -> bytes:
        if not 0 <= number < len(self):
            raise IndexError(f"number {number} is outside 0..{len(self) - 1}")
        start, stop = int(self.offsets[number]), int(self.offsets[number + 1])
        longest = len(self.data) if self._lengths is None else 4 * int(self._lengths[number])
        if not 0 <= start <= stop <= len(self.data) or stop - start > longest:
            raise GraphError(_DAMAGED)
        return self.data[start:stop].tobytes()

    def find(self, text: str) -> int:
        """Number of a text, -1 where it is none. The texts ascend by code point."""
        try:
            wanted = text.encode()
        except UnicodeEncodeError:  # a lone surrogate cannot be in a UTF-8 file
            return -1
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self.utf8(middle) < wanted:
                low = middle + 1
            else:
                high = middle
        return low if low < len(self) and self.utf8(low) == wanted else -1
