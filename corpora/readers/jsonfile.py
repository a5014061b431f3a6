"""Whole JSON files, record by record, each with the byte where it stands.

A file is one list of records, one object that holds such a list (`data` of SQuAD), one record, or JSON
lines, a record each, which is found out from its first line. The containers are walked here, and the
values in them decoded by the C decoder as strictly as `strictjson` says: a file's objects need not be in
memory at once, and every question's place is known, as a byte for `source` and as
`data[3].paragraphs[2].qas[1]` for people.

What a broken file costs. Past the place where JSON breaks nothing can be read, and how many questions are
lost cannot be counted: that is an error, which names line and byte. Where a whole file is one record
(RACE) or a line is, it is one reject.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

from corpora.readers.fields import shown_names
from corpora.readers.jsonl import json_lines
from corpora.readers.jsonwalk import SPACE, Cursor, Marks, Text
from corpora.readers.lines import BOM, CHUNK, MAX_RECORD_BYTES, LineNumbers, check_start
from corpora.readers.sink import FieldError, Sink, bad_encoding
from corpora.readers.strictjson import not_json, strict_decoder, what_is_wrong

if TYPE_CHECKING:
    from corpora.blocks import Part

MAX_FILE_BYTES = 512 * 2**20
"""A larger file that is not JSON lines is an error: it is read whole, and takes 1 to 4 times its bytes."""

_LINES = (".jsonl", ".jsonlines", ".ndjson")


class Found(NamedTuple):
    """A record: `at` is its first character in `text`, `marks` those of the values marked, in order.

    `place` is its path in the file (`data[3]`), "" where it is the whole file or line.
    """

    value: Any
    place: str
    at: int
    marks: list[int]
    text: Text


def unknown_layout(found: Found, name: str, layouts: Sequence[str], sink: Sink, *, first: bool) -> None:
    """A record in none of the layouts: an error if it is the first, of a file of another kind; else a reject."""
    wanted = "; ".join(layouts)
    if not first:
        found.text.reject(sink, found.at, "unknown_layout", f"expected {wanted}; found {_shape(found.value)}")
        return
    at = f" at {found.place}" if found.place else ""
    raise ValueError(
        f"{name} is in no layout that input.format knows: expected {wanted}; found{at} {_shape(found.value)}. "
        "Name the format that it has, or bring it into one of these layouts"
    )


def told_of(id_: Any, place: str, error: FieldError) -> str:
    """The detail of a reject: which question it is and where it stands, as far as they are known, and what is wrong."""
    parts = ([] if id_ is None else [f"question {id_!r}"]) + ([f"at {place}"] if place else [])
    return f"{' '.join(parts)}: {error}" if parts else str(error)


def _shape(value: Any) -> str:
    """What a value looks like from above."""
    if isinstance(value, dict):
        return f"an object with the keys {shown_names(value, 8)}" if value else "an empty object"
    if isinstance(value, list):
        kinds = ", ".join(dict.fromkeys(_shape_of_item(item) for item in value[:8]))
        return f"a list of {len(value)} ({kinds})" if value else "an empty list"
    return _shape_of_item(value)


def _shape_of_item(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def read_json(
    file: BinaryIO,
    part: Part,
    sink: Sink,
    numbers: LineNumbers,
    *,
    marks: Marks,
    inside: str | None = None,
    lone: bool = False,
) -> Iterator[Found]:
    """The records of a file, in order.

    Args:
        file: at its first byte.
        marks: which values within a record have their places told.
        inside: the key of a top-level object whose list holds the records.
        lone: an object alone is a record: if it is broken, that is a reject.

    Raises:
        ValueError: the file is no JSON in UTF-8, or larger than MAX_FILE_BYTES and not JSON lines.
    """
    head = _head(file)
    check_start(part.name, head[:16], "utf-8")
    if _is_lines(part.name, head):
        yield from _lines(cast(BinaryIO, _Again(head, file)), part, sink, numbers, marks)
        return
    while len(head) <= MAX_FILE_BYTES and (data := file.read(MAX_FILE_BYTES + 1 - len(head))):
        head += data  # all that is left, but for streams that give less than they are asked for
    if len(head) > MAX_FILE_BYTES:
        raise ValueError(
            f"{part.name} is larger than {MAX_FILE_BYTES:,} bytes, too large to be read as one JSON file; split it, "
            "or write a record a line (JSON lines), which may be of any size"
        )
    start = len(BOM) if head.startswith(BOM) else 0
    lone = lone and head[start : start + CHUNK].lstrip(SPACE.encode()).startswith(b"{")
    try:
        text = head[start:].decode()
    except UnicodeDecodeError as error:
        wrong = bad_encoding(error, head[start:], start, "utf-8")
        if not lone:
            raise ValueError(f"{part.name}: {wrong.args[0]}; convert it to UTF-8") from None
        sink.reject(start, 0, wrong.reason, wrong.args[0], head[start:])
        return
    if not text.strip(SPACE):
        return
    del head
    whole = Text(text, start, 0)
    try:
        yield from _walk(whole, part.name, marks, inside)
    except _BrokenError as error:
        if not lone:
            raise ValueError(str(error)) from None
        whole.reject(sink, 0, error.reason, error.detail)


# --- JSON lines -------------------------------------------------------------------------------


def _head(file: BinaryIO) -> bytes:
    """The first bytes of a file: its first line and something of what follows, or all there is."""
    pieces: list[bytes] = []
    lines = False
    while len(pieces) * CHUNK <= MAX_RECORD_BYTES and (data := file.read(CHUNK)):
        pieces.append(data)
        lines = lines or b"\n" in data
        if lines and _after_first(b"".join(pieces)):
            break
    return b"".join(pieces)


def _after_first(head: bytes) -> bytes:
    return head.lstrip(BOM + SPACE.encode()).partition(b"\n")[2].strip(SPACE.encode())


def _is_lines(name: str, head: bytes) -> bool:
    """Whether a file is JSON lines: it is called so, or its first line is whole and another follows."""
    if any(suffix in _LINES for suffix in map(str.lower, PurePosixPath(name).suffixes[-2:])):
        return True
    if not _after_first(head):
        return False
    line = head.lstrip(BOM + SPACE.encode()).partition(b"\n")[0]
    try:
        strict_decoder().decode(line.decode())
    except (FieldError, ValueError, RecursionError):
        return False
    return True


class _Again:
    """A forward stream whose first bytes were read already."""

    def __init__(self, head: bytes, file: BinaryIO) -> None:
        self._head, self._file = head, file

    def read(self, size: int) -> bytes:
        if not self._head:
            return self._file.read(size)
        data, self._head = self._head[:size], self._head[size:]
        return data


def _lines(file: BinaryIO, part: Part, sink: Sink, numbers: LineNumbers, marks: Marks) -> Iterator[Found]:
    for byte, first, line in json_lines(file, part, "utf-8", sink, numbers):
        text, cursor = Text(line, byte, first), Cursor(line)
        at = cursor.at
        places: list[int] = []
        try:
            try:
                value = cursor.value()
                cursor.end()
                if not isinstance(value, dict) or not marks.keys().isdisjoint(value):
                    cursor.at = at  # again, for the places within; most records have none
                    value = cursor.value(marks, places)
            except (ValueError, RecursionError) as error:
                raise not_json(error) from None
        except FieldError as error:
            sink.reject(byte, first, error.reason, error.detail, line)
            continue
        yield Found(value, "", at, places, text)


# --- one JSON value ---------------------------------------------------------------------------


class _BrokenError(Exception):
    def __init__(self, name: str, place: str, text: Text, at: int, wrong: FieldError) -> None:
        where = f"line {text.first(at) + 1}, byte {text.byte(at)}"
        self.reason, self.detail = wrong.reason, f"{wrong.args[0]} ({where})"
        super().__init__(
            f"{name} is not valid JSON{place and f' in {place}'}: {wrong.args[0]}, at {where}. "
            "What follows there cannot be read, so the file is not used; mend it"
        )


def _walk(text: Text, name: str, marks: Marks, inside: str | None) -> Iterator[Found]:
    cursor = Cursor(text.text)
    place = ""
    places: list[int]
    try:
        if cursor.peek() == "[":
            for i in cursor.elements():
                place, at, places = f"[{i}]", cursor.at, []
                yield Found(cursor.value(marks, places), place, at, places, text)
            place = ""
            cursor.end()
        elif cursor.peek() == "{":
            at, places, rest = cursor.at, [], {}
            listed = False
            for key in cursor.members():
                place = key
                if key == inside and cursor.peek() == "[":
                    listed = True
                    for i in cursor.elements():
                        place, start, places = f"{key}[{i}]", cursor.at, []
                        yield Found(cursor.value(marks, places), place, start, places, text)
                else:
                    rest[key] = cursor.value(marks.get(key), places)
            place = ""
            cursor.end()
            if not listed:
                yield Found(rest, "", at, places, text)
        else:
            at = cursor.at
            value = cursor.value()
            cursor.end()
            yield Found(value, "", at, [], text)
        return
    except FieldError as error:
        at, wrong = cursor.at, error
    except json.JSONDecodeError as error:
        at = error.pos
        ended = at >= len(text.text.rstrip(SPACE))
        wrong = FieldError("bad_json", "the file ends inside a value" if ended else what_is_wrong(error))
    except (ValueError, RecursionError) as error:
        at, wrong = cursor.at, not_json(error)
    raise _BrokenError(name, place, text, at, wrong)
