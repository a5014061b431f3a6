"""Pages of a MediaWiki export, found by their tags and without holding more than one of them.

MediaWiki writes `<page>` and `</page>` and escapes every `<` of a page's content, so these bytes
are nothing but the tags (of files that others wrote with CDATA sections or comments this would not hold).
A page belongs to the range that holds the first byte of its `<page>`; it goes to the first
`</page>`, or, if that is missing, to the next `<page>`, and is then broken. Each page is parsed for itself, so
one that is no XML costs itself alone, and no declaration of entities can reach it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple
from xml.parsers import expat

from corpora.files import CorruptFileError
from corpora.readers.lines import CHUNK, HEAD, LOOKAHEAD, MAX_RECORD_BYTES, TooLong

_TAG = re.compile(rb"</?page>")
_LONGEST = len(b"</page>")
_END = b"</mediawiki>"
_HEADER_BYTES = 1 << 20
"""The first page or the end of <siteinfo> comes within this many bytes."""


class RawPage(NamedTuple):
    """Bytes from `<page>` to `</page>`: at `start` in the file, after `first` lines of the range.

    `whole` is false where the closing tag is missing.
    """

    start: int
    first: int
    raw: bytes
    whole: bool = True


class Header(NamedTuple):
    """What <siteinfo> says: the wiki's short name (`enwiki`; "" in old exports), key and name of its namespaces."""

    dbname: str
    namespaces: list[tuple[str, str]]


class _RefusedError(Exception):
    """What expat's handlers raise, for a file that is not read at all."""


def read_header(file: BinaryIO, name: str) -> tuple[Header, bytes]:
    """The header of an export at its first byte, and the bytes that were read for it.

    Raises:
        ValueError: no XML, another root element, a DTD (which could declare entities), an encoding
            other than UTF-8.
        CorruptFileError: the file ends in the header.
    """
    head = b""
    while len(head) < _HEADER_BYTES and b"<page>" not in head and b"</siteinfo>" not in head:
        data = file.read(LOOKAHEAD)
        if not data:
            break
        head += data
    parser = expat.ParserCreate(namespace_separator=" ")
    namespaces: list[tuple[str, str]] = []
    values = {"namespace": "", "dbname": ""}
    depth, place, key = 0, "", ""

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth, place, key
        depth += 1
        place = tag.rpartition(" ")[2]
        if depth == 1 and place != "mediawiki":
            raise _RefusedError(f"its root element is <{place}>, not <mediawiki>")
        if place == "namespace":
            key, values["namespace"] = attributes.get("key", ""), ""

    def text(data: str) -> None:
        if place in values:
            values[place] += data

    def end(tag: str) -> None:
        nonlocal depth, place
        depth -= 1
        if place == "namespace":
            namespaces.append((key, values["namespace"]))
        place = ""

    def doctype(*_: object) -> None:
        raise _RefusedError(
            "it has a DTD, which an export never has, and whose entities could grow without bound"
        )

    def declaration(_version: str, encoding: str | None, _alone: int) -> None:
        if encoding and encoding.lower() not in ("utf-8", "utf8", "us-ascii"):
            raise _RefusedError(f"it is declared to be in {encoding}, and exports are in UTF-8")

    parser.StartElementHandler, parser.CharacterDataHandler, parser.EndElementHandler = start, text, end
    parser.StartDoctypeDeclHandler, parser.XmlDeclHandler = doctype, declaration
    until = min((at for tag in (b"<page>", b"</siteinfo>") if (at := head.find(tag)) >= 0), default=None)
    try:
        parser.Parse(head[:until])
    except _RefusedError as error:
        raise ValueError(f"{name} is not a MediaWiki export: {error}") from None
    except expat.ExpatError as error:
        raise ValueError(
            f"{name} is not a MediaWiki export: {expat.errors.messages[error.code]} at line {error.lineno}"
        ) from None
    if until is None and _END not in head:
        if len(head) >= _HEADER_BYTES:
            raise ValueError(
                f"{name} is not a MediaWiki export: no <siteinfo> and no <page> in its first {len(head):,} bytes"
            )
        raise CorruptFileError(name, len(head), f"the file ends without {_END.decode()}")
    return Header(values["dbname"].strip(), namespaces), head


def read_pages(
    file: BinaryIO,
    name: str,
    start: int,
    stop: int | None,
    *,
    head: bytes = b"",
    limit: int = MAX_RECORD_BYTES,
) -> Iterator[RawPage | TooLong]:
    """Pages whose first byte is in [start, stop), in order.

    Args:
        file: at byte `start` plus the length of `head`, which are the bytes from `start` on.
        limit: a longer page comes as TooLong.

    Raises:
        CorruptFileError: the file ends inside a page or before `</mediawiki>`.
    """
    buffer, origin, at = head, start, 0  # `at`: everything before it in the buffer was looked through
    counted, lines = 0, 0  # line ends of the buffer up to `counted`
    begin: int | None = None  # where in the buffer the open page starts
    first = 0
    while True:
        for tag in _TAG.finditer(buffer, at):
            if tag[0][1:2] != b"/":
                if begin is not None:
                    yield RawPage(origin + begin, first, buffer[begin : tag.start()], whole=False)
                    begin = None
                if stop is not None and origin + tag.start() >= stop:
                    return
                begin = tag.start()
                lines += buffer.count(b"\n", counted, begin)
                counted, first = begin, lines
            elif begin is not None:
                if tag.end() - begin > limit:
                    yield TooLong(origin + begin, first, buffer[begin : begin + HEAD])
                else:
                    yield RawPage(origin + begin, first, buffer[begin : tag.end()])
                begin = None
            at = tag.end()
        at = max(at, len(buffer) - _LONGEST + 1)
        if begin is not None and len(buffer) - begin > limit:
            yield TooLong(origin + begin, first, buffer[begin : begin + HEAD])
            begin = None
        reached = origin + len(buffer)
        past = stop is not None and reached >= stop
        if begin is None and stop is not None and reached >= stop + _LONGEST:
            return
        # What is behind goes, but for the last bytes, in which a tag may have begun, or the export's end is.
        drop = min(begin if begin is not None else at, max(len(buffer) - HEAD, 0))
        lines += buffer.count(b"\n", counted, drop) if drop > counted else 0
        counted = max(counted, drop)
        data = file.read(LOOKAHEAD if past else CHUNK)
        if not data:
            break
        buffer = buffer[drop:] + data
        origin, at, counted = origin + drop, at - drop, counted - drop
        if begin is not None:
            begin -= drop
    if begin is not None and not buffer.rstrip().endswith(_END):
        raise CorruptFileError(
            name, origin + len(buffer), f"the file ends in the page that starts at byte {origin + begin}"
        )
    if begin is not None:
        yield RawPage(origin + begin, first, buffer[begin:], whole=False)
    tail = buffer
    if start > 0 and len(tail) < len(_END) + 64:  # the range is shorter than the end of the export
        file.seek(max(origin + len(buffer) - HEAD, 0))
        tail = file.read(HEAD)
    if not tail.rstrip().endswith(_END):
        raise CorruptFileError(name, origin + len(buffer), f"the file ends without {_END.decode()}")
