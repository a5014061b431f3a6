"""Where sentences come from: text of which each line is one, already cut into words by spaces."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator
from typing import BinaryIO, Protocol

import numpy as np
import pyarrow as pa

from corpora import files
from corpora.blocks import Block, Part

_STEP = 1 << 22
"""Bytes read at a time."""
LONGEST = 1 << 26
"""Bytes of a line: more is no sentence, but a file without line ends."""


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
    """UTF-8 text by lines, those without words included; a last line needs no end, a byte order mark is left out."""

    fingerprint = "lines-2"

    def sentences(self, block: Block) -> Iterator[pa.Array]:
        """Raises ValueError for what is not UTF-8 and for lines of more than 64 MiB, naming file and byte."""
        for part in block.parts:
            for at, data in _whole_lines(part):
                if at == 0 and data.startswith(BOM_UTF8):
                    at, data = len(BOM_UTF8), data[len(BOM_UTF8) :]
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
            at += len(_rest_of_line(file, part.name, at)) - 1
        while part.stop is None or compressed or at < part.stop:
            size = _STEP if part.stop is None or compressed else min(_STEP, part.stop - at)
            data = file.read(size)
            if not data:
                return
            if data[-1:] != b"\n":
                data += _rest_of_line(file, part.name, at)
            yield at, data
            at += len(data)


def _rest_of_line(file: BinaryIO, name: str, at: int) -> bytes:
    rest = file.readline(LONGEST)
    if len(rest) == LONGEST and rest[-1:] != b"\n":
        raise ValueError(
            f"{name}: expected sentences of at most {LONGEST:,} bytes, a line each, found a longer one after byte "
            f"{at:,}; split the text into sentences"
        )
    return rest
