"""Files of another encoding as UTF-8, line by line: a line that does not decode is rejected alone."""

from __future__ import annotations

import codecs
import io
from typing import Any, BinaryIO, cast

from kg.read import lines
from kg.read.lines import read_fully

UTF8 = "utf-8"
_NOT_UTF8 = b"\xff"


def encoding_name(encoding: str) -> str:
    """The codec's own name, `utf-8` also for `utf-8-sig`.

    Raises ValueError that says what to do, where there is no such encoding, or its files cannot be cut at LF
    before they are decoded.
    """
    try:
        name = codecs.lookup(encoding).name
    except (LookupError, ValueError, TypeError):
        raise ValueError("an encoding such as utf-8, gb18030 or big5") from None
    plain = bytes([*range(0x5C), *range(0x5D, 0x7E)])
    try:
        fits = plain.decode(name) == plain.decode("ascii")
    except (LookupError, ValueError):
        fits = False
    if not fits or name.startswith(("iso2022", "hz", "unicode", "raw", "puny")):
        raise ValueError(
            "an encoding that holds ASCII as itself, such as gb18030; convert other files: "
            f"iconv -f {encoding} -t UTF-8"
        )
    return UTF8 if name == "utf-8-sig" else name


def recoded(stream: BinaryIO, encoding: str, path: str) -> BinaryIO:
    """`stream` in UTF-8. Where a line does not decode it has bytes that are no UTF-8."""
    return cast(BinaryIO, io.BufferedReader(_Recoded(stream, encoding, path), lines.BLOCK_BYTES))


class _Recoded(io.RawIOBase):
    def __init__(self, stream: BinaryIO, encoding: str, path: str) -> None:
        self._stream, self._encoding, self._path = stream, encoding, path
        self._held = b""
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            chunk = read_fully(self._stream, self._path, lines.BLOCK_BYTES)
            held = self._held + chunk
            end = held.rfind(b"\n") + 1 if chunk else len(held)
            if not end and len(held) > lines.MAX_LINE_BYTES:
                end = len(held)  # too long for a line, whatever its encoding is
            self._ready, self._held = self._decode(held[:end]), held[end:]
            if not chunk:
                break
        size = min(len(buffer), len(self._ready))
        buffer[:size], self._ready = self._ready[:size], self._ready[size:]
        return size

    def _decode(self, raw: bytes) -> bytes:
        try:
            return raw.decode(self._encoding).encode()
        except UnicodeError:
            return b"".join(self._decode_line(line) for line in io.BytesIO(raw))

    def _decode_line(self, line: bytes) -> bytes:
        try:
            return line.decode(self._encoding).encode()
        except UnicodeError:
            return _NOT_UTF8 + line
