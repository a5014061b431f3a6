"""A way through a JSON text that knows where its values stand.

Containers are walked here, and the values in them decoded by the C decoder, which has no places to tell, as
strictly as `strictjson` says. What is walked costs two to three times what is decoded, a few microseconds a key,
so only what leads to a place that is wanted is walked.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from corpora.readers.sink import Sink
from corpora.readers.strictjson import duplicate_key, strict_decoder
from corpora.records import EXCERPT_CHARS

Marks = Mapping[Any, Any]
"""Which values' places are wanted: keys of objects, indices of lists or None for all of them, down to MARK."""
MARK: Marks = {}
SPACE = " \t\n\r"
"""What JSON has as white space."""

_scan: Any = strict_decoder().scan_once  # type: ignore[attr-defined]
_skip: Any = re.compile(f"[{SPACE}]*").match
_colon = re.compile(f"[{SPACE}]*:[{SPACE}]*").match
_next = re.compile(rf"[{SPACE}]*([,}}\]])[{SPACE}]*").match
_surrogate = re.compile(r"\\u[dD][89A-Fa-f]").search


class Text:
    """Decoded text of a file or a line: where its characters stand in the file."""

    def __init__(self, text: str, byte: int, first: int) -> None:
        self.text = text
        self.surrogates = "\\u" in text and _surrogate(text) is not None
        """Whether strings may hold what UTF-8 cannot: escapes of surrogates, which may be lone ones."""
        self._ascii = text.isascii()
        self._byte, self._first = byte, first
        self._at = 0
        self._line_at = 0

    def byte(self, at: int) -> int:
        """Offset in the file of the character `at`; cheap when asked for in order."""
        step = at - self._at
        if not self._ascii and step:
            span = self.text[min(at, self._at) : max(at, self._at)]
            step = len(span.encode()) if step > 0 else -len(span.encode())
        self._byte += step
        self._at = at
        return self._byte

    def first(self, at: int) -> int:
        """Lines of the file before the character `at`."""
        if at < self._line_at:
            self._first -= self.text.count("\n", at, self._line_at)
        else:
            self._first += self.text.count("\n", self._line_at, at)
        self._line_at = at
        return self._first

    def reject(self, sink: Sink, at: int, reason: str, detail: str) -> None:
        """What begins at the character `at` cannot be used."""
        sink.reject(self.byte(at), self.first(at), reason, detail, self.text[at : at + EXCERPT_CHARS])


class Cursor:
    """Goes through a JSON text; `at` is the character that comes next, white space only behind a value."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = _skip(text, 0).end()

    def peek(self) -> str:
        """The character that comes next, "" at the end."""
        return self.text[self.at : self.at + 1]

    def value(self, marks: Marks | None = None, places: list[int] | None = None) -> Any:
        """The value here, decoded; the places of what is marked in it go to `places`."""
        if marks is not None and places is not None:
            if not marks:
                places.append(self.at)
            elif self.peek() == "{":
                return {key: self.value(marks.get(key), places) for key in self.members()}
            elif self.peek() == "[":
                each = marks.get(None)
                return [self.value(marks.get(i, each), places) for i in self.elements()]
        try:
            value, self.at = _scan(self.text, self.at)
        except StopIteration as stop:
            raise self._error("Expecting value", stop.value) from None
        return value

    def members(self) -> Iterator[str]:
        """The keys of the object here; before the next is asked for, the value must have been read."""
        text = self.text
        if self._opened("}"):
            return
        seen: set[str] = set()
        while True:
            if not text.startswith('"', self.at):
                raise self._error("Expecting property name enclosed in double quotes", self.at)
            key, at = _scan(text, self.at)
            if key in seen:
                raise duplicate_key(key)
            seen.add(key)
            if not (colon := _colon(text, at)):
                raise self._error("Expecting ':' delimiter", _skip(text, at).end())
            self.at = colon.end()
            yield key
            if self._closed("}"):
                return

    def elements(self) -> Iterator[int]:
        """The indices of the list here; before the next is asked for, the value must have been read."""
        if self._opened("]"):
            return
        for i in itertools.count():
            yield i
            if self._closed("]"):
                return

    def _opened(self, closing: str) -> bool:
        """Go into a container; True if it is empty, and behind us."""
        self.at = _skip(self.text, self.at + 1).end()
        if not self.text.startswith(closing, self.at):
            return False
        self.at += 1
        return True

    def _closed(self, closing: str) -> bool:
        """Go on behind an item: to the next, or out of the container, which is then closed."""
        found = _next(self.text, self.at)
        if not found or found[1] not in (",", closing):
            raise self._error("Expecting ',' delimiter", _skip(self.text, self.at).end())
        self.at = found.end()
        return found[1] == closing

    def end(self) -> None:
        """Nothing but white space follows."""
        if (at := _skip(self.text, self.at).end()) < len(self.text):
            raise self._error("Extra data", at)

    def _error(self, message: str, at: int) -> json.JSONDecodeError:
        return json.JSONDecodeError(message, self.text, at)
