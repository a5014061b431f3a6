"""A whole file that is one JSON array of objects: `[{...}, {...}]`, as many corpora are handed out.

The array is read as a stream, an object at a time; what is held is a chunk, or the object that is being read, 64
MiB of it at most. Such a file is one block; a large one is better turned into lines, which are cut. The json module
decodes each object from where it starts in the text held; where that text ends too early, twice as much is read.
Libraries that stream JSON give neither the byte an object starts at, which ids are made of, nor keys that stand twice.

An object that is JSON but no good record is a reject like any other. Where the JSON itself is broken nobody can say
where the next object starts, so that ends the run: the rest of the file would be lost in silence.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from corpora import files
from corpora.readers.lines import BOM, CHUNK, MAX_RECORD_BYTES, check_start
from corpora.readers.sink import FieldError
from corpora.readers.strictjson import duplicate_key, what_is_wrong

_SPACE = re.compile(r"[ \t\r\n]*")


class ArrayError(ValueError):
    """The array is no JSON; nothing behind the place can be read."""


def is_array(path: str) -> bool:
    """Whether a JSON file is one array of objects: its first signs are `[{`, or `[]`."""
    with files.open_decompressed(path) as file:
        found = b""
        for _ in range(64):  # as much white space as anyone puts there
            data = file.read(1024)
            found += data.removeprefix(BOM) if not found else data
            signs = found.translate(None, b" \t\r\n")
            if len(signs) >= 2 or not data:
                return signs[:2] in (b"[{", b"[]")
    return False


class Item(NamedTuple):
    """An item of the array, or a line: its value, or what is wrong with it, and its text.

    `byte` is the one it starts at, after `lines` line ends.
    """

    byte: int
    lines: int
    text: str
    value: Any
    wrong: FieldError | None


def array_items(file: BinaryIO, name: str, encoding: str) -> Iterator[Item]:
    """The array's items. Raises ArrayError."""
    return iter(_Objects(file, name, encoding))


class _Objects:
    """Iterates over the items of one array."""

    def __init__(self, file: BinaryIO, name: str, encoding: str) -> None:
        self._file, self._name, self._encoding = file, name, encoding
        # A byte that the encoding does not have spoils its own item alone.
        self._decode_bytes = codecs.getincrementaldecoder(encoding)("surrogateescape").decode
        self._wrong: FieldError | None = None
        """What the item being decoded has that no record may: noted, for decoding must go on to find its end."""
        self._decode = json.JSONDecoder(
            object_pairs_hook=self._object,
            parse_constant=self._constant,
            parse_int=self._integer,
            strict=False,
        ).raw_decode
        self._text, self._at = "", 0
        """Text that is held, and how much of it is done with."""
        self._byte = self._lines = 0
        """Of the place in the file."""
        self._ended = False

    def __iter__(self) -> Iterator[Item]:
        data = self._more(CHUNK)
        check_start(self._name, data[:16], self._encoding)
        if self._encoding == "utf-8" and self._text.startswith("\ufeff"):
            self._take(1)
        self._next_sign("an array")
        self._take(1)  # the `[` that `is_array` saw
        if self._next_sign("an object") == "]":
            self._take(1)
        else:
            while True:
                self._next_sign("an object")
                yield self._item()
                sign = self._next_sign("`,` or `]`")
                if sign not in (",", "]"):
                    raise self._error(f"expected `,` or `]`, found {sign!r}")
                self._take(1)
                if sign == "]":
                    break
        self._skip_space()
        if self._at < len(self._text):
            raise self._error("there is more behind the array's end; a file of lines has one object on each")

    def _item(self) -> Item:
        while True:
            self._wrong = None
            try:
                value, stop = self._decode(self._text, self._at)
                # A number at the end of what is held may go on.
                if stop < len(self._text) or self._ended:
                    break
            except RecursionError:
                raise self._error("nested too deep") from None
            except json.JSONDecodeError as error:
                if self._ended:
                    place = f"character {error.pos - self._at + 1:,} of the item"
                    raise self._error(f"{what_is_wrong(error)} at {place}") from None
            if (held := len(self._text) - self._at) > MAX_RECORD_BYTES:
                raise self._error(f"an item is broken, or longer than {MAX_RECORD_BYTES:,} characters")
            self._more(max(CHUNK, held))
        byte, lines = self._byte, self._lines
        text, wrong = self._take(stop - self._at), self._wrong
        return Item(byte, lines, text, value, wrong)

    def _next_sign(self, expected: str) -> str:
        """The next sign that is no white space."""
        self._skip_space()
        if self._at == len(self._text):
            raise self._error(f"the file ends where {expected} should be")
        return self._text[self._at]

    def _skip_space(self) -> None:
        while True:
            space = _SPACE.match(self._text, self._at)
            self._take(space.end() - self._at if space else 0)
            if self._at < len(self._text) or self._ended:
                return
            self._more(CHUNK)

    def _take(self, count: int) -> str:
        """The next characters, which are done with."""
        taken = self._text[self._at : self._at + count]
        self._at += count
        try:
            raw = taken.encode(self._encoding)
        except UnicodeEncodeError as error:
            before = len(taken[: error.start].encode(self._encoding, "surrogateescape"))
            raw = taken.encode(self._encoding, "surrogateescape")
            what = f"byte 0x{raw[before]:02x} at offset {self._byte + before} of the file"
            self._wrong = FieldError("bad_encoding", f"{what} is not valid {self._encoding}")
        self._byte += len(raw)
        self._lines += raw.count(b"\n")
        return taken

    def _more(self, size: int) -> bytes:
        data = self._file.read(size)
        self._ended = not data
        self._text = self._text[self._at :] + self._decode_bytes(data, not data)
        self._at = 0
        return data

    def _error(self, what: str) -> ArrayError:
        return ArrayError(
            f"{self._name} is no JSON array from byte {self._byte:,} (line {self._lines + 1:,}) on: {what}. "
            "Nothing behind it can be read; mend the file, or write an object a line: `jq -c '.[]'`"
        )

    # --- what a record may not have ---------------------------------------------------------

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        record = dict(pairs)
        if len(record) != len(pairs):
            seen: set[str] = set()
            twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            self._note(duplicate_key(twice))
        return record

    def _constant(self, name: str) -> None:
        self._note(FieldError("bad_json", f"{name} is not JSON"))

    def _integer(self, digits: str) -> int:
        try:
            return int(digits)
        except ValueError as error:  # thousands of digits
            self._note(FieldError("bad_json", str(error)))
            return 0

    def _note(self, wrong: FieldError) -> None:
        self._wrong = self._wrong or wrong
