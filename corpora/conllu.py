r"""CoNLL-U treebanks, one sentence at a time, with every word located in the raw text.

The format is the one of https://universaldependencies.org/format.html: ten TAB-separated columns a word, `#`
comments before a sentence, a blank line after it. What the format leaves loose is settled here:

* only LF and CRLF end a line; U+2028, U+0085 and form feeds are data;
* a range (`1-2`) is the surface token of the words it covers. Its words are located inside it when they
  spell it (`Don't` = `Do` + `n't`); where they do not (`du` = `de` + `le`) each of them gets the whole span,
  counted;
* `5-5` covers one word: the word line that follows or, where none follows, the range line itself, which
  then is the word. A warning says so;
* empty nodes (`3.1`) belong to the enhanced graph only: skipped and counted;
* HEAD `_` means "not parsed": the word is kept with head -1, and `has_parse` is false;
* a missing `# text` is rebuilt from FORM and SpaceAfter; one that does not spell the words is an error.

A malformed sentence never yields a record: it raises `ConlluError`, or goes to `on_error` while reading
goes on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from corpora.files import open_decompressed

_COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
_WORD_ID = re.compile(r"[1-9][0-9]{0,8}\Z")  # nine digits: Python refuses to read thousands of them
_RANGE_ID = re.compile(r"([1-9][0-9]{0,8})-([1-9][0-9]{0,8})\Z")
_HEAD = re.compile(r"[0-9]{1,9}\Z")
_EMPTY_ID = re.compile(r"[0-9]+\.[1-9][0-9]*\Z")
_MARK = re.compile(r"#\s*(newdoc|newpar)(?:\s+id)?\s*(?:=(.*))?\Z", re.DOTALL)
_EXCERPT = 80


class ConlluError(ValueError):
    """A sentence that is not CoNLL-U.

    `line` counts from 1, `source` is the path or "" for lines in memory, `reason` the message without both.
    """

    def __init__(self, message: str, line: int, source: str = "") -> None:
        super().__init__(f"{source or 'CoNLL-U'}, line {line}: {message}")
        self.reason = message
        self.line = line
        self.source = source


@dataclass(frozen=True, slots=True)
class ConlluSentence:
    """One sentence of W words (ranges and empty nodes are not words). All tuples have W entries.

    `text[starts[i]:stops[i]]` is where word i stands in the raw text, in characters (code points).
    `heads[i]` is the index of the head word, 0-based; a root is its own head; -1 where HEAD was `_`.
    Columns that were `_` are "" (but FORM `_` is the word "_").
    """

    line: int  # of the sentence's first line, from 1
    sent_id: str  # "" when the file gives none
    doc_id: str  # of the last `# newdoc id = ...`, "" before any
    starts_document: bool  # a `# newdoc` comment stands before this sentence
    starts_paragraph: bool  # a `# newpar` or `# newdoc` comment does
    text: str
    forms: tuple[str, ...]
    lemmas: tuple[str, ...]
    upos: tuple[str, ...]
    xpos: tuple[str, ...]
    feats: tuple[str, ...]
    heads: tuple[int, ...]
    deprels: tuple[str, ...]
    starts: tuple[int, ...]
    stops: tuple[int, ...]
    multiword_tokens: int  # ranges over two words or more
    unsplit_multiwords: int  # of these, the ones whose words all got the range's whole span
    empty_nodes: int  # skipped
    space_after: (
        bool  # white space, or a new paragraph, follows the sentence: no SpaceAfter=No on its last word
    )
    warnings: tuple[str, ...]  # one for each range of a single word

    @property
    def has_parse(self) -> bool:
        """True when every word has a head."""
        return -1 not in self.heads

    @property
    def spaces(self) -> tuple[bool, ...]:
        """Whether white space follows word i inside `text`."""
        return tuple(self.text[stop : stop + 1].isspace() for stop in self.stops)


def read_conllu(
    path: str | Path, *, on_error: Callable[[ConlluError], None] | None = None
) -> Iterator[ConlluSentence]:
    """Stream the sentences of a CoNLL-U file (UTF-8, a byte order mark is ignored), also of a compressed one
    (.gz, .bz2, .zst).

    Raises `ConlluError` at the first malformed sentence, unless `on_error` is given: then it is called with
    the error, that sentence is left out and reading goes on. `OSError` when the file cannot be read,
    `CorruptFileError` when it is compressed and damaged.
    """
    with open_decompressed(
        str(path)
    ) as lines:  # bytes: only LF ends a line, and a bad byte can be given its line
        yield from parse_conllu(lines, source=str(path), on_error=on_error)


def parse_conllu(
    lines: Iterable[bytes | str], *, source: str = "", on_error: Callable[[ConlluError], None] | None = None
) -> Iterator[ConlluSentence]:
    """As `read_conllu`, from lines in memory; each may end in LF or CRLF. A last blank line is not needed."""
    parse = SentenceParser(source)
    for block in _blocks(lines):
        try:
            sentence = parse([line for _, line in block], block[0][0])
        except ConlluError as error:
            if on_error is None:
                raise error from None
            on_error(error)
            continue
        if sentence is not None:
            yield sentence


class SentenceParser:
    """Parses the sentences of one file in order; keeps the marks of documents and paragraphs meanwhile.

    A mark holds for the next sentence that can be read: it may stand before a blank line, or on a sentence
    that is malformed.
    """

    def __init__(self, source: str = "") -> None:
        self._source = source
        self._doc_id, self._document, self._paragraph = "", False, False

    def __call__(self, lines: Sequence[bytes | str], number: int = 1) -> ConlluSentence | None:
        """The sentence of some lines without line ends, none of them blank; None if they are comments alone.

        `number` is the first line's, from 1. Raises `ConlluError`.
        """
        for line in lines:
            if line[:1] not in ("#", b"#"):
                continue
            mark = _MARK.match(line if isinstance(line, str) else line.decode("utf-8", "replace"))
            if mark and mark[1] == "newdoc":
                self._doc_id, self._document = (mark[2] or "").strip(" \t"), True
            self._paragraph |= mark is not None
        try:
            comments, rows = _split_block(lines, number)
            if not rows:
                return None
            sentence = _sentence(comments, rows, number, self._doc_id, self._document, self._paragraph)
        except _BadLineError as error:
            raise ConlluError(error.message, error.line, self._source) from None
        self._document = self._paragraph = False
        return sentence


class _BadLineError(Exception):
    def __init__(self, message: str, line: int) -> None:
        self.message, self.line = message, line


@dataclass(slots=True)
class _Row:
    line: int
    columns: list[str]

    @property
    def space_after(self) -> bool:
        return "SpaceAfter=No" not in self.columns[9].split("|")


@dataclass(slots=True)
class _Token:
    """A surface token: the row that names its form, and how many words it covers."""

    row: _Row
    words: int


def _blocks(lines: Iterable[bytes | str]) -> Iterator[list[tuple[int, bytes | str]]]:
    """Runs of non-blank lines, numbered, without line ends. Any number of blank lines is one boundary."""
    block: list[tuple[int, bytes | str]] = []
    for number, line in enumerate(lines, 1):
        if isinstance(line, bytes):
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            line = line.removesuffix(b"\n").removesuffix(b"\r")
        else:
            if number == 1:
                line = line.removeprefix("\ufeff")
            line = line.removesuffix("\n").removesuffix("\r")
        # A line of blanks is blank; one of TABs is a row whose columns are all empty, hence an error.
        if line.strip(b" " if isinstance(line, bytes) else " "):  # type: ignore[arg-type]
            block.append((number, line))
        elif block:
            yield block
            block = []
    if block:
        yield block


def _split_block(lines: Sequence[bytes | str], number: int) -> tuple[list[tuple[str, str]], list[_Row]]:
    comments: list[tuple[str, str]] = []
    rows: list[_Row] = []
    for at, raw in enumerate(lines, number):
        if isinstance(raw, bytes):
            try:
                line = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                where = f"byte 0x{raw[error.start]:02x} at byte {error.start} of the line"
                raise _BadLineError(f"not UTF-8 ({where}); convert the file", at) from None
        else:
            line = raw
        if line.startswith("#"):
            key, _, value = line[1:].partition("=")
            comments.append((key.strip(), value.strip(" \t")))
            continue
        columns = line.split("\t")
        if len(columns) != len(_COLUMNS):
            raise _BadLineError(
                f"expected 10 columns separated by TAB, found {len(columns)}: {line[:_EXCERPT]!r}", at
            )
        if "" in columns:
            raise _BadLineError(
                f"column {_COLUMNS[columns.index('')]} is empty; CoNLL-U writes `_` for no value", at
            )
        rows.append(_Row(at, columns))
    return comments, rows


def _sentence(
    comments: list[tuple[str, str]],
    rows: list[_Row],
    line: int,
    doc_id: str,
    starts_document: bool,
    starts_paragraph: bool,
) -> ConlluSentence:
    words, tokens, empty_nodes, warnings = _tokens_and_words(rows)
    named = dict(reversed(comments))  # of a comment given twice, the first holds
    text = named.get("text")
    if text is None:
        text, spans = _rebuilt_text(tokens)
    else:
        spans = _located(tokens, text)
    columns = list(zip(*[word.columns for word in words], strict=True))
    starts: list[int] = []
    stops: list[int] = []
    unsplit = 0
    for token, (start, stop) in zip(tokens, spans, strict=True):
        if token.words == 1:
            starts.append(start)
            stops.append(stop)
            continue
        forms = [word.columns[1] for word in words[len(starts) : len(starts) + token.words]]
        parts = _inside(forms, text[start:stop])
        unsplit += parts is None
        for low, high in parts or [(0, stop - start)] * len(forms):
            starts.append(start + low)
            stops.append(start + high)
    return ConlluSentence(
        line=line,
        sent_id=named.get("sent_id", ""),
        doc_id=doc_id,
        starts_document=starts_document,
        starts_paragraph=starts_paragraph,
        text=text,
        forms=columns[1],
        lemmas=_values(columns[2]),
        upos=_values(columns[3]),
        xpos=_values(columns[4]),
        feats=_values(columns[5]),
        heads=_heads(words),
        deprels=_values(columns[7]),
        starts=tuple(starts),
        stops=tuple(stops),
        multiword_tokens=sum(token.words > 1 for token in tokens),
        unsplit_multiwords=unsplit,
        empty_nodes=empty_nodes,
        space_after=tokens[-1].row.space_after,
        warnings=tuple(warnings),
    )


def _values(column: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(["" if value == "_" else value for value in column]) if "_" in column else column


def _tokens_and_words(rows: list[_Row]) -> tuple[list[_Row], list[_Token], int, list[str]]:
    words: list[_Row] = []
    tokens: list[_Token] = []
    empty_nodes, covered, warnings = 0, 0, []
    for position, row in enumerate(rows):
        name, expected = row.columns[0], len(words) + 1
        if _WORD_ID.match(name):
            if int(name) != expected:
                raise _BadLineError(f"expected word ID {expected}, found {name}", row.line)
            words.append(row)
            if expected > covered:
                tokens.append(_Token(row, 1))
        elif match := _RANGE_ID.match(name):
            first, last = int(match[1]), int(match[2])
            if first != expected or last < first or first <= covered:
                raise _BadLineError(
                    f"range {name} must start at the next word ({expected}), not end before its start, "
                    "and not overlap another range",
                    row.line,
                )
            if first == last:
                follows = any(later.columns[0] == str(first) for later in rows[position + 1 :])
                warnings.append(f"line {row.line}: range {name} covers a single word; read as one")
                if not follows:
                    words.append(row)
            tokens.append(_Token(row, last - first + 1))
            covered = last
        elif _EMPTY_ID.match(name):
            empty_nodes += 1
        else:
            raise _BadLineError(
                f"ID {name[:_EXCERPT]!r} is not a word (3), a range (3-4) or an empty node (3.1)", row.line
            )
    if covered > len(words):
        raise _BadLineError(f"a range covers words up to {covered}, found {len(words)}", rows[-1].line)
    if not words:
        raise _BadLineError("the sentence has empty nodes only, expected a word", rows[0].line)
    return words, tokens, empty_nodes, warnings


def _heads(words: list[_Row]) -> tuple[int, ...]:
    heads: list[int] = []
    for index, word in enumerate(words):
        value = word.columns[6]
        if value == "_":
            heads.append(-1)
            continue
        if not _HEAD.match(value) or int(value) > len(words) or int(value) == index + 1:
            raise _BadLineError(
                f"HEAD {value[:_EXCERPT]!r} of word {index + 1} is not 0 (root), another word of the sentence "
                f"(1 to {len(words)}) or `_` (not parsed)",
                word.line,
            )
        heads.append(index if value == "0" else int(value) - 1)
    # Each word is walked up to a root, a word without a head or one known to end well: linear in all.
    ends_well = [head in (-1, index) for index, head in enumerate(heads)]
    for index, word in enumerate(words):
        path, at = [], index
        while not ends_well[at]:
            path.append(at)
            at = heads[at]
            if len(path) > len(words):
                raise _BadLineError(
                    f"the heads above word {index + 1} form a cycle, expected a tree", word.line
                )
        for seen in path:
            ends_well[seen] = True
    return tuple(heads)


def _rebuilt_text(tokens: list[_Token]) -> tuple[str, list[tuple[int, int]]]:
    pieces: list[str] = []
    spans: list[tuple[int, int]] = []
    at = 0
    for number, token in enumerate(tokens):
        form = token.row.columns[1]
        spans.append((at, at + len(form)))
        space = " " if token.row.space_after and number + 1 < len(tokens) else ""
        pieces += (form, space)
        at += len(form) + len(space)
    return "".join(pieces), spans


def _located(tokens: list[_Token], text: str) -> list[tuple[int, int]]:
    """Spans of the surface tokens in `text`; only white space may stand between them."""
    spans: list[tuple[int, int]] = []
    at = 0
    for token in tokens:
        form = token.row.columns[1]
        while not text.startswith(form, at) and text[at : at + 1].isspace():
            at += 1
        if not text.startswith(form, at):
            raise _BadLineError(
                f"`# text` does not spell the sentence's words: expected {form!r} at character {at}, "
                f"found {text[at : at + len(form)]!r}; correct `# text`, or remove it to have it rebuilt",
                token.row.line,
            )
        spans.append((at, at + len(form)))
        at += len(form)
    if text[at:].strip():
        raise _BadLineError(
            f"`# text` goes on after the sentence's last word: {text[at:][:_EXCERPT]!r}",
            tokens[-1].row.line,
        )
    return spans


def _inside(forms: list[str], surface: str) -> list[tuple[int, int]] | None:
    """Spans of two words or more within their token when they spell it, whatever the case; else None."""
    spans: list[tuple[int, int]] = []
    at = 0
    for form in forms:
        piece = surface[at : at + len(form)]
        if piece.casefold() != form.casefold():
            return None
        spans.append((at, at + len(form)))
        at += len(form)
    return spans if at == len(surface) else None
