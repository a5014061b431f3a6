"""CoNLL-U treebanks: sentences or documents, with the words and trees that they bring.

What a line of the format means is settled in `corpora.conllu`; here sentences become rows:

* a document is a sentence (`blank_line`), all sentences up to the next `# newdoc` (`newdoc`) or a file. Within
  one, sentences that `# newpar` or `# newdoc` parts are joined by a line end, the others by nothing after
  `SpaceAfter=No`, else by the joiner of the language: a space, nothing for zh;
* a malformed sentence is rejected, with its line and what is wrong; the document goes on without it;
* words that stand on the same characters (`du` = `de` + `le`) become one (`corpora.multiword`);
* a sentence in which any word lacks a head has no parse: its heads are -1. Where no sentence of a document has one,
  the document has words alone. A word with a head but no relation gets `dep`, the name for an unspecified one;
* of several roots the first is kept, the others hang from it with `dep`: one sentence, one tree.

Ids are made of path and byte, as for every format, unless `input.id` names what to take: `sent_id`, or `newdoc` for
documents. Treebanks repeat these from file to file, and some count sentences anew in each document, so
whether they are unique is seen only when all are read; that is then checked, as for every id.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa

from corpora.conllu import ConlluError, ConlluSentence, SentenceParser
from corpora.layout import TREEBANK_LABELS, InputConfig
from corpora.multiword import merge
from corpora.readers.fields import joiner_of
from corpora.readers.lines import MAX_RECORD_BYTES, LineNumbers, Paragraph, TooLong, read_paragraphs
from corpora.readers.sink import FieldError, Sink

if TYPE_CHECKING:
    from corpora.blocks import Part

MAX_SENTENCE_BYTES = 4 << 20
"""A longer sentence is rejected: a file that lacks its blank lines, not a sentence."""
UNSPECIFIED = "dep"


def read_conllu(
    file: BinaryIO,
    part: Part,
    layout: InputConfig,
    task: str,
    language: str,
    sink: Sink,
    numbers: LineNumbers,
) -> Iterator[pa.Table]:
    """Tables of the part's documents as they fill; with labels if the task is `tag`.

    Counters: `multiwords_merged`; `empty_nodes`, skipped; `single_word_ranges` (`5-5`), read as words;
    `extra_roots`.
    """
    label = (layout.label or TREEBANK_LABELS[0]) if task == "tag" else None
    joiner = joiner_of(layout, language)
    parser = SentenceParser()
    document: _Document | None = None
    for found in read_paragraphs(file, part, "utf-8", numbers=numbers, limit=MAX_SENTENCE_BYTES):
        if isinstance(found, TooLong):
            sink.too_long(found, MAX_SENTENCE_BYTES)
            continue
        sentence = _parse(parser, found, sink)
        if sentence is None:
            continue
        try:
            words = _words(sentence, label, sink)
        except FieldError as error:
            sink.reject(found.start, found.first, error.reason, error.detail, found.raw)
            continue
        alone = layout.document == "blank_line"
        if document is not None and (alone or (layout.document == "newdoc" and sentence.starts_document)):
            document.write(sink, layout)
            document = None
        if document is None:
            own = sentence.sent_id if alone else sentence.doc_id
            document = _Document(found.start, found.first, own, joiner)
        document.add(sentence, words, found)
        if sink.ready:
            yield from sink.take()
    if document is not None:
        document.write(sink, layout)
    yield from sink.take()


def _parse(parser: SentenceParser, found: Paragraph, sink: Sink) -> ConlluSentence | None:
    """The paragraph's sentence; None for comments alone, or a malformed one, which is rejected at its bad line."""
    lines = [line[:-1] if line.endswith(b"\r") else line for line in found.raw.split(b"\n")]
    try:
        return parser(lines, 1)
    except ConlluError as error:
        reason = "bad_encoding" if error.reason.startswith("not UTF-8") else "bad_conllu"
        sink.reject(found.start, found.first + error.line - 1, reason, error.reason, found.raw)
        return None


@dataclass
class _Words:
    """Words of one sentence after merging. Heads count from its first word, a root its own, or all are -1."""

    starts: list[int]
    stops: list[int]
    heads: list[int]
    deprels: list[str]
    pos: list[str]
    labels: list[str]


def _words(sentence: ConlluSentence, label: str | None, sink: Sink) -> _Words:
    starts, stops = list(sentence.starts), list(sentence.stops)
    heads = list(sentence.heads) if sentence.has_parse else [-1] * len(starts)
    deprels, pos = list(sentence.deprels), list(sentence.upos)
    columns = {"upos": sentence.upos, "xpos": sentence.xpos, "deprel": sentence.deprels}
    labels = list(columns[label]) if label else []
    if sentence.unsplit_multiwords:
        token = np.cumsum(np.diff(starts, prepend=-1) > 0)  # no two tokens begin at the same character
        merged = merge(token, heads)
        keep, heads = merged.keep.tolist(), merged.heads.tolist()
        starts, stops, deprels, pos = ([column[i] for i in keep] for column in (starts, stops, deprels, pos))
        labels = [labels[i] for i in keep] if label else labels
        sink.count("multiwords_merged", merged.merged)
    if not sentence.has_parse:
        deprels = [""] * len(starts)
    elif "" in deprels:
        deprels = [
            name or ("root" if head == i else UNSPECIFIED)
            for i, (name, head) in enumerate(zip(deprels, heads, strict=True))
        ]
    roots = [i for i, head in enumerate(heads) if head == i]
    for extra in roots[1:]:
        heads[extra], deprels[extra] = roots[0], UNSPECIFIED
    for start, stop in zip(starts, stops, strict=True):
        if sentence.text[start:stop].isspace():
            raise FieldError("empty_token", f"the word at character {start} is white space alone")
    if "" in labels:
        raise FieldError("missing_label", f"word {labels.index('') + 1} has no {str(label).upper()}")
    for name, count in (
        ("empty_nodes", sentence.empty_nodes),
        ("single_word_ranges", len(sentence.warnings)),
        ("extra_roots", len(roots[1:])),
    ):
        if count:
            sink.count(name, count)
    return _Words(starts, stops, heads, deprels, pos, labels)


@dataclass
class _Document:
    """Sentences joined to one text; `start` and `first` are where the first of them lies."""

    start: int
    first: int
    id: str
    joiner: str
    pieces: list[str] = field(default_factory=list)
    words: _Words = field(default_factory=lambda: _Words([], [], [], [], [], []))
    starts: list[int] = field(default_factory=list)
    stops: list[int] = field(default_factory=list)
    raw_bytes: int = 0
    head: bytes = b""
    _between: str = ""

    def add(self, sentence: ConlluSentence, words: _Words, found: Paragraph) -> None:
        """Put one more sentence at the end."""
        self.raw_bytes += len(found.raw)
        if self.raw_bytes > MAX_RECORD_BYTES:
            self.pieces, self.words = [], _Words([], [], [], [], [], [])  # too long: nothing is held
            return
        self.head = self.head or found.raw
        at = 0
        if self.pieces:
            between = "\n" if sentence.starts_paragraph else self._between
            at = self.stops[-1] + len(between)
            self.pieces.append(between)
        self._between = self.joiner if sentence.space_after else ""
        self.pieces.append(sentence.text)
        self.starts.append(at)
        self.stops.append(at + len(sentence.text))
        own, base = self.words, len(self.words.starts)
        own.starts += [start + at for start in words.starts]
        own.stops += [stop + at for stop in words.stops]
        own.heads += [head + base if head >= 0 else -1 for head in words.heads]
        own.deprels += words.deprels
        own.pos += words.pos
        own.labels += words.labels

    def write(self, sink: Sink, layout: InputConfig) -> None:
        """The document's row, or its reject."""
        if self.raw_bytes > MAX_RECORD_BYTES:
            sink.too_long(TooLong(self.start, self.first, self.head))
            return
        if layout.id is not None and not self.id:
            detail = f"`# {layout.id}` is missing or empty"
            sink.reject(self.start, self.first, "missing_id", detail, self.head)
            return
        words = self.words
        more: dict[str, Any] = {
            "sentence_starts": self.starts,
            "sentence_stops": self.stops,
            "word_starts": words.starts,
            "word_stops": words.stops,
        }
        if any(head >= 0 for head in words.heads):
            more |= {"word_heads": words.heads, "word_deprels": words.deprels}
        if any(words.pos):
            more["word_pos"] = words.pos
        if words.labels:
            more |= {"tag_starts": words.starts, "tag_stops": words.stops, "tag_labels": words.labels}
        sink.row(
            self.start,
            "".join(self.pieces),
            whole_file=layout.document == "file",
            doc_id=self.id if layout.id is not None else None,
            **more,
        )
