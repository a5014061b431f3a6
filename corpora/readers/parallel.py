"""Source and target files, a sequence a line: line n of the one and line n of the other are one record.

Where one side is empty there is no pair, and both lines go: taking the next line instead would shift all that
follow. Where both are empty there is no record. Lines end at LF and CRLF alone, so U+2028 in one file cannot
shift it against the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import pyarrow as pa

from corpora import files
from corpora.parallel import PairError, unequal
from corpora.readers.lines import MAX_RECORD_BYTES, LineNumbers, TooLong, part_lines
from corpora.readers.sink import FieldError, Sink

if TYPE_CHECKING:
    from corpora.blocks import Part


class _Line(NamedTuple):
    byte: int
    first: int
    raw: bytes
    too_long: bool


def read_parallel(
    file: BinaryIO, part: Part, encoding: str, sink: Sink, numbers: LineNumbers
) -> Iterator[pa.Table]:
    """Tables of the part's pairs as they fill; the last rows stay in the sink.

    Raises PairError where one side has more lines.
    """
    if part.pair is None:
        raise ValueError(f"{part.name} has no target: the plan was not made for format 'parallel'")
    adder = _Adder(part.name, part.pair.name, sink, numbers)
    count = 0
    with files.open_decompressed(part.pair.path) as other:
        sources, targets = _each(file, part, encoding, numbers), _each(other, part.pair, encoding)
        for source, target in zip_longest(sources, targets):
            if source is None or target is None:
                more = 1 + sum(1 for _ in (targets if source is None else sources))
                raise _parted(part, count, more, source_ended=source is None)
            count += 1
            adder.add(source, target)
            if sink.ready:
                yield from sink.take()


def _parted(part: Part, count: int, more: int, *, source_ended: bool) -> PairError:
    lines = (count, count + more) if source_ended else (count + more, count)
    if part.start == 0 and part.stop is None and part.pair is not None:
        return unequal(part.name, lines[0], part.pair.name, lines[1])
    return PairError(
        f"{part.name} or its target was changed since the run was planned: bytes {part.start:,} to {part.stop:,} have "
        f"{lines[0]:,} lines, and their part of the target {lines[1]:,}. Run again with --overwrite"
    )


def _each(file: BinaryIO, part: Part, encoding: str, numbers: LineNumbers | None = None) -> Iterator[_Line]:
    for found in part_lines(file, part, encoding, numbers=numbers):
        if isinstance(found, TooLong):
            yield _Line(found.start, found.first, found.head, True)
            continue
        for i, (byte, line) in enumerate(zip(found.starts, found.stripped(), strict=True), found.first):
            yield _Line(byte, i, line, False)


class _Adder:
    """Turns two lines into a row; a reject names the line, which has the same number in both files."""

    def __init__(self, name: str, target_name: str, sink: Sink, numbers: LineNumbers) -> None:
        self._names, self._sink, self._numbers = (name, target_name), sink, numbers

    def add(self, source: _Line, target: _Line) -> None:
        try:
            texts = [self._text(line, name) for line, name in zip((source, target), self._names, strict=True)]
            empty = [not text or text.isspace() for text in texts]
            if all(empty):
                return
            if any(empty):
                raise FieldError("empty_text", self._one_side(source.first, empty.index(True)))
            self._sink.row(source.byte, texts[0], text_pair=texts[1])
        except FieldError as error:
            self._sink.reject(source.byte, source.first, error.reason, error.detail, source.raw)

    def _text(self, line: _Line, name: str) -> str:
        if line.too_long:
            raise FieldError(
                "record_too_long", f"the line of {name} is longer than {MAX_RECORD_BYTES:,} bytes"
            )
        try:
            return self._sink.decode(line.raw, line.byte)
        except FieldError as error:
            raise FieldError(error.reason, f"{name}: {error.detail}") from None

    def _one_side(self, first: int, side: int) -> str:
        number = self._numbers.number(first)
        line = "the line" if number is None else f"line {number:,}"
        return f"{line} of {self._names[side]} is empty, {line} of {self._names[1 - side]} is not"
