"""Where the record batches of an Arrow IPC file or stream lie, found without reading them.

Both are one message after another: a length, metadata (a flatbuffer) and a body. Arrow's own reader tells neither
where a batch begins nor how many rows it has before it is read; a range of a file needs both. So the
messages are walked here, a few hundred bytes each, and Arrow reads what is in them. Everything the metadata says is
held against the file's size before Arrow sees it.

Format: https://arrow.apache.org/docs/format/Columnar.html, "Serialization and Interprocess Communication".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple

MAGIC = b"ARROW1"
_CONTINUED = 0xFFFFFFFF
_BYTE, _SHORT, _INT, _UINT, _LONG = map(struct.Struct, ("<B", "<H", "<i", "<I", "<q"))
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
MAX_METADATA_BYTES = 64 << 20
MAX_BATCH_BYTES = 2 << 30
"""A compressed record batch may not say that it grows beyond this: it is decompressed as one."""


class IpcError(ValueError):
    """What is wrong with the messages; `rows` lie whole before it."""

    def __init__(self, cause: str, rows: int = 0) -> None:
        super().__init__(cause)
        self.cause, self.rows = cause, rows


class Batch(NamedTuple):
    """A record batch: the offset of its message's first byte, its first row in the file, how many it has."""

    start: int
    row: int
    rows: int


@dataclass
class Messages:
    """What a file holds. `is_file`: it is of the file format, with a footer, and not a stream."""

    is_file: bool
    batches: list[Batch] = field(default_factory=list)


def scan(file: BinaryIO, size: int, stop: int | None = None) -> Messages:
    """Walk the messages of a seekable file of `size` bytes, those that begin before byte `stop`.

    Raises:
        IpcError: it is neither an Arrow file nor a stream, ends early, or a message says what cannot be.
    """
    head = file.read(8)
    is_file = head.startswith(MAGIC)
    found = Messages(is_file)
    if is_file:
        file.seek(max(size - len(MAGIC), 0))
        if size < 2 * len(head) or file.read(len(MAGIC)) != MAGIC:
            raise IpcError("the file lacks its footer, so its end is missing")
    at, row, messages = 8 if is_file else 0, 0, 0
    while at < size and (stop is None or at < stop or not messages):
        file.seek(at)
        prefix = file.read(8)
        if len(prefix) < 4:
            raise IpcError(f"it ends inside the length of the message at byte {at:,}", row)
        (length,) = struct.unpack_from("<I", prefix)
        skip = 4
        if length == _CONTINUED:
            if len(prefix) < 8:
                raise IpcError(f"it ends inside the length of the message at byte {at:,}", row)
            (length,) = struct.unpack_from("<I", prefix, 4)
            skip = 8
        if length == 0:  # the end of the stream; of a file, the footer follows
            if not is_file and at + skip < size:
                raise IpcError(f"it goes on behind its end at byte {at:,}", row)
            break
        if not messages and not is_file and length > min(size, MAX_METADATA_BYTES):
            raise IpcError("it is neither an Arrow file nor an Arrow stream")
        if length > MAX_METADATA_BYTES or at + skip + length > size:
            raise IpcError(f"it ends inside the message at byte {at:,}", row)
        file.seek(at + skip)
        kind, rows, body = _message(file, file.read(length), at + skip + length, size, row)
        if (kind == _SCHEMA) != (messages == 0):
            raise IpcError(f"the message at byte {at:,} is not in its place: one schema comes first", row)
        if kind == _BATCH:
            found.batches.append(Batch(at, row, rows))
            row += rows
        messages += 1
        at += skip + length + body
    if not messages:
        raise IpcError("it has no schema")
    return found


def _message(file: BinaryIO, raw: bytes, body_at: int, size: int, row: int) -> tuple[int, int, int]:
    """Kind, rows (of a record batch) and body length of the message with the metadata `raw`."""
    try:
        message = _Table.root(raw)
        kind, body = message.number(1, _BYTE), message.number(3, _LONG)
        if not 0 <= body <= size - body_at:
            raise IpcError(f"it ends inside the message body at byte {body_at:,}", row)
        if kind != _BATCH and kind != _DICTIONARY:
            return kind, 0, body
        batch = message.table(2)
        if kind == _DICTIONARY:
            batch = batch.table(1)
        rows = batch.number(0, _LONG)
        if rows < 0:
            raise IpcError(f"the record batch before byte {body_at:,} has {rows} rows", row)
        if batch.has(3):
            _check_growth(file, batch, body_at, body, row)
        return kind, rows, body
    except struct.error:
        raise IpcError(f"the message before byte {body_at:,} cannot be read", row) from None


def _check_growth(file: BinaryIO, batch: _Table, body_at: int, body: int, row: int) -> None:
    """Each compressed buffer begins with the length that it says to have when decompressed."""
    total = 0
    for offset, length in batch.pairs(2):
        if length < 8:
            continue
        if not 0 <= offset <= body - length:
            raise IpcError(f"a buffer reaches out of the message body at byte {body_at:,}", row)
        file.seek(body_at + offset)
        total += max(struct.unpack("<q", file.read(8))[0], 0)
    if total > MAX_BATCH_BYTES:
        raise IpcError(
            f"the record batch before byte {body_at:,} says that it grows to {total:,} bytes; "
            f"write the file again in batches of less than {MAX_BATCH_BYTES:,}",
            row,
        )


class _Table:
    """A table of a flatbuffer: fields by number, each at an offset that a vtable tells.

    Raises struct.error for what lies outside the buffer.
    """

    def __init__(self, raw: bytes, at: int) -> None:
        self._raw, self._at = raw, at
        self._vtable = at - self._read(_INT, at)
        self._size = self._read(_SHORT, self._vtable)

    @classmethod
    def root(cls, raw: bytes) -> _Table:
        if len(raw) < 4:
            raise struct.error
        return cls(raw, int(struct.unpack_from("<I", raw)[0]))

    def _read(self, form: struct.Struct, at: int) -> int:
        if at < 0:  # Python would count from the end
            raise struct.error
        return form.unpack_from(self._raw, at)[0]

    def _place(self, index: int) -> int:
        """Where the field lies, 0 if it is left out."""
        slot = 4 + 2 * index
        offset = self._read(_SHORT, self._vtable + slot) if slot + 2 <= self._size else 0
        return self._at + offset if offset else 0

    def has(self, index: int) -> bool:
        return self._place(index) != 0

    def number(self, index: int, form: struct.Struct) -> int:
        """A scalar, 0 if it is left out."""
        at = self._place(index)
        return self._read(form, at) if at else 0

    def table(self, index: int) -> _Table:
        at = self._place(index)
        if not at:
            raise struct.error
        return _Table(self._raw, at + self._read(_UINT, at))

    def pairs(self, index: int) -> list[tuple[int, int]]:
        """A vector of structs of two int64."""
        at = self._place(index)
        if not at:
            return []
        at += self._read(_UINT, at)
        count = self._read(_UINT, at)
        if count > len(self._raw) // 16:
            raise struct.error
        flat = struct.unpack_from(f"<{2 * count}q", self._raw, at + 4)
        return list(zip(flat[::2], flat[1::2], strict=True))
