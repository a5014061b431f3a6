"""RDF/XML without its traps: Expat reads the file and writes it again as plain XML in UTF-8.

The RDF parser expands entities within entities without a limit, knows UTF-8 only, tells no line
numbers, and its time grows with the square of the depth of nesting. Expat bounds what entities may grow
to; a reference to an external entity is an error here, and no file but the one named is ever opened.
"""

from __future__ import annotations

from typing import BinaryIO
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from kg.errors import GraphError
from kg.read.lines import MAX_LINE_BYTES, read_fully
from kg.read.rdftext import MAX_NAMESPACE

MAX_DEPTH = 256
_CHUNK = 1 << 14
_MAX_TAG_BYTES = 1 << 20


class PlainXml:
    """The document without declaration, document type and comments, every entity expanded.

    Reading raises GraphError naming file and line where it is not well-formed XML, refers to an external
    or unknown entity, nests deeper than MAX_DEPTH, or has a text or tag too long to be one, or a namespace
    or base of more than MAX_NAMESPACE characters.
    """

    def __init__(self, stream: BinaryIO, path: str) -> None:
        self._stream, self._path = stream, path
        self._out: list[str] = []
        self._ready = b""
        self._ended = False
        self._depth = self._text = self._quiet = 0
        self._expat = parser = expat.ParserCreate()
        parser.ordered_attributes = True
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.ExternalEntityRefHandler = self._external
        parser.SkippedEntityHandler = self._skipped

    @property
    def place(self) -> str:
        """Where about the file is read."""
        return f"at or before line {self._expat.CurrentLineNumber}"

    def read(self, size: int = -1) -> bytes:
        while not self._ready and not self._ended:
            chunk = read_fully(self._stream, self._path, _CHUNK)
            self._ended = not chunk
            try:
                self._expat.Parse(chunk, self._ended)
            except expat.ExpatError as error:
                raise GraphError(
                    f"{self._path}, line {error.lineno}: this is no well-formed XML "
                    f"({expat.ErrorString(error.code)}); RDF/XML was expected by the file's name"
                ) from None
            self._ready = "".join(self._out).encode()
            self._quiet = 0 if self._out else self._quiet + len(chunk)
            self._out.clear()
            if self._quiet > _MAX_TAG_BYTES:
                raise self._wrong(f"a tag or comment of more than {_MAX_TAG_BYTES:,} bytes")
        size = len(self._ready) if size < 0 else size
        part, self._ready = self._ready[:size], self._ready[size:]
        return part

    def _start(self, name: str, attributes: list[str]) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._wrong(f"elements nest deeper than {MAX_DEPTH}")
        pairs = list(zip(attributes[::2], attributes[1::2], strict=True))
        for key, value in pairs:
            if len(value) > MAX_NAMESPACE and (key == "xml:base" or key.startswith("xmlns")):
                raise self._wrong(f"{key} of more than {MAX_NAMESPACE:,} characters")
        self._out.append(f"<{name}{''.join(f' {key}={quoteattr(value)}' for key, value in pairs)}>")

    def _end(self, name: str) -> None:
        self._depth -= 1
        self._text = 0
        self._out.append(f"</{name}>")

    def _characters(self, text: str) -> None:
        self._text += len(text)
        if self._text > MAX_LINE_BYTES:
            raise self._wrong(f"a text of more than {MAX_LINE_BYTES:,} characters")
        self._out.append(escape(text))

    def _external(self, context: str | None, base: str | None, system: str | None, public: str | None) -> int:
        raise self._wrong(f"a reference to an external entity ({system!r}), and those are not read")

    def _skipped(self, name: str, parameter: bool) -> None:
        raise self._wrong(f"a reference to the entity {name!r}, which the file does not declare")

    def _wrong(self, what: str) -> GraphError:
        return GraphError(f"{self._path}, line {self._expat.CurrentLineNumber}: {what}")
