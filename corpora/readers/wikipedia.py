"""Wikipedia: the articles of a pages-articles dump as documents of plain text.

A document is a page of namespace 0 that is no redirect; its id is `<wiki>:<page id>` (`zhwiki:13`; the
file's name where the dump does not name its wiki), so that it stays the same in later dumps and however
the dump is cut into files. Of a page with several revisions, as in history dumps, the last counts. Redirects and
pages of other namespaces are counted, not read:

    pages = rows + rejects + redirects + other_namespace
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO
from xml.parsers import expat

import pyarrow as pa

from corpora.readers.lines import LineNumbers, TooLong
from corpora.readers.sink import FieldError, Sink
from corpora.readers.wikidump import Header, RawPage, read_header, read_pages
from corpora.readers.wikitext import Names, to_text

if TYPE_CHECKING:
    from corpora.blocks import Part
    from corpora.layout import InputConfig

_REDIRECT = re.compile(r"\s*#(?:redirect|重定向|重新導向)\b", re.IGNORECASE)
_WIKI = re.compile(r"[A-Za-z0-9_-]+")
_WANTED = {
    "page/title": "title",
    "page/ns": "ns",
    "page/id": "id",
    "page/revision/model": "model",
    "page/revision/text": "text",
}


def read_wikipedia(
    file: BinaryIO, part: Part, layout: InputConfig, language: str, sink: Sink, numbers: LineNumbers
) -> Iterator[pa.Table]:
    """Tables of the part's articles as they fill; the last rows stay in the sink.

    Raises:
        CorruptFileError: the dump is cut off.
        ValueError: it is no MediaWiki export, or has a DTD.
    """
    header, head = read_header(file, part.path)
    if part.start > 0:
        file.seek(part.start)
        head = b""
    numbers.origin = part.start
    names, wiki = Names.of(header.namespaces), header.dbname if _WIKI.fullmatch(header.dbname) else part.name
    for found in read_pages(file, part.path, part.start, part.stop, head=head):
        sink.count("pages", 1)
        if isinstance(found, TooLong):
            sink.too_long(found)
            continue
        try:
            page = _fields(found, sink)
            if kind := _passed_over(page, header):
                sink.count(kind, 1)
                continue
            _add(found, page, wiki, names, layout, language, sink)
        except FieldError as error:
            sink.reject(found.start, found.first, error.reason, error.detail, found.raw)
        if sink.ready:
            yield from sink.take()


def _fields(found: RawPage, sink: Sink) -> dict[str, str]:
    """Text of the wanted elements by name; `redirect` is there where the element is.

    Raises:
        FieldError: `bad_encoding`; `bad_xml` where the page is no well-formed element.
    """
    if not found.whole:
        raise FieldError("bad_xml", "the page has no </page> before the next page or the end of the export")
    sink.decode(found.raw, found.start)
    values: dict[str, str] = {}
    path: list[str] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        path.append(tag)
        place = "/".join(path)
        if place in _WANTED:
            values[_WANTED[place]] = ""
            if place == "page/revision/text":
                values["deleted"] = attributes.get("deleted", "")
        elif place == "page/redirect":
            values["redirect"] = ""

    def text(data: str) -> None:
        if name := _WANTED.get("/".join(path)):
            values[name] += data

    def end(_: str) -> None:
        path.pop()

    parser = expat.ParserCreate("utf-8")
    parser.buffer_text, parser.buffer_size = True, 1 << 16
    parser.StartElementHandler, parser.CharacterDataHandler, parser.EndElementHandler = start, text, end
    try:
        parser.Parse(found.raw, True)
    except expat.ExpatError as error:
        what = expat.errors.messages[error.code]
        at = found.start + parser.ErrorByteIndex
        raise FieldError("bad_xml", f"{what} at byte {at} of the file") from None
    return values


def _passed_over(page: dict[str, str], header: Header) -> str:
    """`redirects` or `other_namespace` for a page that is no article; "" for one that is."""
    namespace = page.get("ns", "").strip()
    if not namespace:  # exports before 2011 leave it to the title
        prefix, colon, _ = page.get("title", "").partition(":")
        named = {name.lower(): key for key, name in header.namespaces if name}
        namespace = named.get(prefix.strip().lower(), "0") if colon else "0"
    if namespace != "0":
        return "other_namespace"
    return "redirects" if "redirect" in page or _REDIRECT.match(page.get("text", "")) else ""


def _add(
    found: RawPage,
    page: dict[str, str],
    wiki: str,
    names: Names,
    layout: InputConfig,
    language: str,
    sink: Sink,
) -> None:
    number = page.get("id", "").strip()
    if not number.isdecimal():
        raise FieldError("missing_id", f"the page's <id> must be a number, found {number[:100]!r}")
    model = page.get("model", "wikitext").strip()
    if model != "wikitext":
        raise FieldError("not_wikitext", f"the page's content is {model!r}, expected 'wikitext'")
    if "text" not in page or page["deleted"]:
        raise FieldError("missing_text", f"page {number} has no text, or its text was deleted")
    try:
        plain = to_text(page["text"], language, names=names, headings=layout.headings == "keep")
    except RuntimeError as error:
        raise FieldError("bad_markup", f"page {number} cannot be parsed: {error}") from None
    if not plain.text:
        raise FieldError("empty_text", f"page {number} has no text besides templates, tables and files")
    sink.row(
        found.start,
        plain.text,
        doc_id=f"{wiki}:{number}",
        title=page.get("title"),
        categories=plain.categories,
    )
