"""One page: its links and templates, through the passes before and the blocks after."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from corpora.readers.wikitext import preprocess, templates, variants
from corpora.readers.wikitext.blocks import to_blocks
from corpora.readers.wikitext.brackets import SCHEMES, Span, find_constructs
from corpora.readers.wikitext.marks import FILL, GONE, OTHERS
from corpora.readers.wikitext.measures import Values

if TYPE_CHECKING:
    from mwparserfromhell.wikicode import Wikicode

MAX_HEIGHT = 20
"""A template or link with more brackets inside each other than this vanishes; MediaWiki stops at 100."""
MAX_PARTS = 20_000
"""`|`, `[[` and `{{` of a page that the parser is given, who takes up to 0.1 ms for each; what has more vanishes."""

_FILES = frozenset({"file", "image", "文件", "档案", "檔案", "图像", "圖像", "圖片", "图片"})
_CATEGORIES = frozenset({"category", "分类", "分類"})
_LANGUAGE = re.compile(r"(?!doi|rfc)(?:[a-z]{2,3}|simple|(?:be|map|nds|roa|zh)-[a-z-]+)")
"""Prefixes of links to the same page in another language; `doi:` and `rfc:` lead elsewhere."""
_SIMPLE_LINK = re.compile(r"\[\[([^\[\]{}|]*)(?:\|([^\[\]{}|]*))?\]\]")
_SIMPLE_ADDRESS = re.compile(r"\[([^\s\[\]{}|]+)[ \t]*([^\[\]{}]*)\]")
_TARGET = re.compile(r"\[\[\s*([^\[\]{}|\n]*)")
_ADDRESS = re.compile(SCHEMES, re.IGNORECASE)
_NAME = re.compile(r"\{\{([^{}|\[\]]*)")
_SIMPLE_TEMPLATE = re.compile(r"\{\{([^{}|\[\]]*)(?:\|([^{}\[\]]*))?\}\}")
_PARTS = re.compile(r"\||\[\[|\{\{")
_DISAMBIGUATION = re.compile(r"\s*[(（,][^()（）]*[)）]?$")
_BRACKETS = re.compile(r"\[\[|\]\]|\{\{|\}\}")


class Names(NamedTuple):
    """Names of the wiki's File and Category namespaces, in lower case."""

    files: frozenset[str] = _FILES
    categories: frozenset[str] = _CATEGORIES

    @classmethod
    def of(cls, namespaces: Iterable[tuple[str, str]]) -> Names:
        """From key and name of each namespace: 6 is File, 14 Category; English and Chinese names always hold."""
        files, categories = set(_FILES), set(_CATEGORIES)
        for key, name in namespaces:
            if name and key in ("6", "14"):
                (files if key == "6" else categories).add(name.lower())
        return cls(frozenset(files), frozenset(categories))


class Plain(NamedTuple):
    """Text of a page, blocks apart by blank lines; names of its categories as written, in order."""

    text: str
    categories: list[str]


def to_text(
    wikitext: str, language: str = "en", *, names: Names | None = None, headings: bool = False
) -> Plain:
    """Plain text of a page; see the package for what becomes of what.

    Args:
        wikitext: as in the dump, XML's own entities decoded.
        language: of the wiki; decides the variant of `-{}-` marks.
        names: namespaces of files and categories, where they are neither English nor Chinese.
        headings: keep headings (of sections that have text) as blocks of their own.

    Raises:
        ImportError: mwparserfromhell is not installed.
        RuntimeError: the parser gave up on a construct.
    """
    raw: list[str] = []
    text = OTHERS.sub("", wikitext.replace("\r\n", "\n"))
    text = preprocess.drop_extensions(text, raw)
    if wanted := variants.preference(language):
        text = variants.resolve(text, wanted)
    text = preprocess.drop_html(preprocess.drop_quotes(preprocess.drop_tables(text)))
    text, spans = find_constructs(text)
    page = _Constructs(names or Names())
    out, at = [], 0
    for span in spans:
        out += [text[at : span.start], page.show(text, span)]
        at = span.stop
    out.append(text[at:])
    shown = _BRACKETS.sub("", "".join(out).replace(FILL, ""))
    return Plain("\n\n".join(to_blocks(shown, raw, headings=headings)), list(page.categories))


class _Constructs:
    """Shows templates and links; gathers categories."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._parts = 0
        self.categories: dict[str, None] = {}

    def show(self, text: str, span: Span) -> str:
        """What is seen of one outermost construct."""
        piece = text[span.start : span.stop]
        if piece.startswith("{{"):
            name = _NAME.match(piece)
            if not name or templates.known(name[1]) is None:
                return GONE
            if simple := _SIMPLE_TEMPLATE.fullmatch(piece):
                return self._template(simple[1], _values(simple[2]))
        elif piece.startswith("[["):
            if simple := _SIMPLE_LINK.fullmatch(piece):
                return self._link(simple[1], simple[2])
            target = _TARGET.match(piece)
            if target and self._vanishes(target[1]):
                return GONE
        elif simple := _SIMPLE_ADDRESS.fullmatch(piece):
            return simple[2].strip() or GONE
        self._parts += sum(1 for _ in _PARTS.finditer(piece))
        if span.height > MAX_HEIGHT or self._parts > MAX_PARTS:
            return GONE
        return self._nodes(_parse(piece))

    def _vanishes(self, target: str) -> bool:
        """Whether a link leads to a file, a category or another language, and is not seen in the text."""
        prefix, colon, rest = target.partition(":")
        prefix = prefix.strip()
        if not colon or not prefix:
            return False
        if prefix.lower() in self._names.categories:
            if name := " ".join(rest.replace("_", " ").split()):
                self.categories[name] = None
            return True
        return prefix.lower() in self._names.files or _LANGUAGE.fullmatch(prefix) is not None

    def _link(self, target: str, label: str | None) -> str:
        if _ADDRESS.match(target):  # an address in two brackets
            return " ".join(target.split()[1:]) or GONE
        if self._vanishes(target):
            return GONE
        if label:
            return label
        target = target.strip().removeprefix(":").strip()
        if label is None:
            return target
        return _DISAMBIGUATION.sub("", target.partition(":")[2] or target)  # `[[a (b)|]]` shows `a`

    def _nodes(self, code: Wikicode | None) -> str:
        from mwparserfromhell import nodes

        if code is None:
            return ""
        out = []
        for node in code.nodes:
            if isinstance(node, nodes.Text):
                out.append(node.value)
            elif isinstance(node, nodes.Wikilink):
                label = None if node.text is None else self._nodes(node.text)
                out.append(self._link(str(node.title), label))
            elif isinstance(node, nodes.Template):
                values = {str(p.name).strip(): self._nodes(p.value) for p in node.params}
                out.append(self._template(str(node.name), values))
            elif isinstance(node, nodes.ExternalLink):
                shown = self._nodes(node.title) if node.brackets else str(node.url)
                out.append(shown.strip() or GONE)
            elif isinstance(node, nodes.Argument):
                out.append(self._nodes(node.default))
            else:  # entities, and marks of lists, which blocks look at
                out.append(str(node))
        return "".join(out)

    def _template(self, name: str, values: dict[str, str]) -> str:
        rule = templates.known(name)
        if rule is None:
            return GONE
        values["0"] = name.partition(":")[2]
        return rule(Values(values)) or GONE


def _values(written: str | None) -> dict[str, str]:
    """Values of a template with no brackets in it, by name or number."""
    values: dict[str, str] = {}
    number = 0
    for part in [] if written is None else written.split("|"):
        name, named, value = part.partition("=")
        if named:
            values[name.strip()] = value
        else:
            number += 1
            values[str(number)] = part
    return values


def _parse(piece: str) -> Any:
    try:
        import mwparserfromhell
        from mwparserfromhell.parser import ParserError
    except ImportError:
        raise ImportError(
            "input.format 'wikipedia' needs mwparserfromhell: pip install 'treegraft[pipelines]'"
        ) from None
    try:
        return mwparserfromhell.parse(piece, skip_style_tags=True)
    except (ParserError, RecursionError, SystemError) as error:
        raise RuntimeError(f"{type(error).__name__}: {error}") from error
