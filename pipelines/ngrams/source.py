"""Where sentences come from: text of which each line is one, already cut into words by spaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa

from corpora import files
from corpora.blocks import Block, Part

_STEP = 1 << 22
"""Bytes read at a time."""


class Source(Protocol):
    """Small: it crosses the runner."""

    @property
    def fingerprint(self) -> str:
        """What shapes the sentences beside the blocks."""
        ...

    def sentences(self, block: Block) -> Iterator[pa.Array]:
        """Sentences of a block as strings, some at a time, in order; words parted by spaces."""
        ...


class Lines:
    """UTF-8 text by lines, those without words included; a last line needs no end."""

    fingerprint = "lines-1"

    def sentences(self, block: Block) -> Iterator[pa.Array]:
        """Raises ValueError for what is not UTF-8, naming file and byte."""
        for part in block.parts:
            for at, data in _whole_lines(part):
                ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1
                if data and data[-1:] != b"\n":
                    ends = np.append(ends, len(data))
                try:
                    data.decode()
                except UnicodeDecodeError as error:
                    raise ValueError(
                        f"{part.name}: expected UTF-8, found other bytes at byte {at + error.start:,}; convert the file"
                    ) from None
                offsets = np.append(0, ends).astype(np.int32)
                yield pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(data))


def _whole_lines(part: Part) -> Iterator[tuple[int, bytes]]:
    """The lines whose first byte is in [start, stop), some at a time, and where these begin."""
    compressed = files.is_compressed(part.path)
    with files.open_decompressed(part.path) if compressed else files.open_read(part.path) as file:
        at = 0 if compressed else part.start
        if at:
            file.seek(at - 1)
            at += len(file.readline()) - 1
        while part.stop is None or compressed or at < part.stop:
            size = _STEP if part.stop is None or compressed else min(_STEP, part.stop - at)
            data = file.read(size)
            if not data:
                return
            if data[-1:] != b"\n":
                data += file.readline()
            yield at, data
            at += len(data)
