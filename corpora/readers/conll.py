"""Columns of tokens: a token and its label a line, blank lines between sentences.

The token is the first column, the label the last one; what lies between is not read. Columns
stand between TABs if the line has any, else between runs of spaces. `-DOCSTART-` lines of
CoNLL-2003 are no tokens and are skipped. With `label_optional` a sentence of a split that does not train may
have labels on none of its lines; labels on some of them are an error in any split.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

from corpora.readers.fields import joiner_of, where_labels_lack
from corpora.readers.lines import LineNumbers, TooLong, read_paragraphs
from corpora.readers.sink import FieldError, Sink

if TYPE_CHECKING:
    from corpora.blocks import Part
    from corpora.layout import InputConfig

MAX_SENTENCE_BYTES = 1 << 20
"""A longer sentence is rejected: a file that lacks its blank lines, not a sentence."""


def read_conll(
    file: BinaryIO,
    part: Part,
    layout: InputConfig,
    task: str,
    language: str,
    split: str,
    sink: Sink,
    numbers: LineNumbers,
) -> Iterator[pa.Table]:
    """Tables of the part's sentences as they fill; without labels unless the task is `tag`."""
    joiner, may_lack = joiner_of(layout, language), layout.may_lack_label(split)
    paragraphs = read_paragraphs(file, part, layout.encoding, numbers=numbers, limit=MAX_SENTENCE_BYTES)
    for found in paragraphs:
        if isinstance(found, TooLong):
            sink.too_long(found, MAX_SENTENCE_BYTES)
            continue
        try:
            tokens, labels, bare = _columns(sink.decode(found.raw, found.start))
            if bare and task == "tag" and not (may_lack and len(bare) == len(tokens)):
                others = ", and others have one" if len(bare) < len(tokens) else ""
                hint = "" if others else where_labels_lack(layout)
                number, line = next(iter(bare.items()))
                raise FieldError(
                    "missing_label",
                    f"line {number} of the sentence has no label{others}: {line[:100]!r}{hint}",
                )
        except FieldError as error:
            sink.reject(found.start, found.first, error.reason, error.detail, found.raw)
            continue
        if not tokens:  # nothing but -DOCSTART-
            continue
        if task == "tag":
            sink.tagged(found.start, tokens, None if bare else labels, joiner)
        else:
            sink.row(found.start, joiner.join(tokens))
        if sink.ready:
            yield from sink.take()


def _columns(text: str) -> tuple[list[str], list[str], dict[int, str]]:
    """Tokens, last columns, and the lines that have no label, by number."""
    tokens, labels, bare = [], [], {}
    for i, line in enumerate(text.split("\n"), 1):
        line = line.removesuffix("\r")
        cells = line.split("\t") if "\t" in line else [c for c in line.split(" ") if c]
        if cells[0] == "-DOCSTART-":
            continue
        if not cells[0]:
            raise FieldError("empty_token", f"line {i} of the sentence has no token: {line[:100]!r}")
        if len(cells) < 2 or not cells[-1].strip():
            bare[i] = line
        tokens.append(cells[0])
        labels.append(cells[-1])
    if tokens and all(t.isspace() for t in tokens):
        raise FieldError("empty_text", "the sentence has no token but white space")
    return tokens, labels, bare
