"""Treebanks as Stanza's trainers read them: CoNLL-U, and running text with a label for every character."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from corpora.conllu import read_conllu
from corpora.files import open_decompressed
from pipelines.training.treebanks import files_of, load

_PARAGRAPH_SENTENCES = 8


@dataclass(frozen=True)
class Token:
    """A surface token and its words, each (form, UPOS, head counted from 1 or 0 for the root, relation)."""

    surface: str
    space_after: bool
    words: tuple[tuple[str, str, int, str], ...]


Trees = list[list[Token]]


def read_trees(path: Path, limit: int | None = None) -> Trees:
    """The first `limit` sentences of a CoNLL-U file that are parsed throughout. Raises ConlluError, OSError."""
    whole = (sentence.line for sentence in read_conllu(path) if sentence.has_parse)
    parsed = set(islice(whole, limit))
    with open_decompressed(str(path)) as file:
        content = file.read().decode("utf-8-sig")
    return [_tokens(rows) for line, rows in _blocks(content.split("\n")) if line in parsed]


def _blocks(lines: Iterable[str]) -> Iterator[tuple[int, list[list[str]]]]:
    """The rows of each sentence, and its first line, from 1; the file is known to be good."""
    begin = 0
    rows: list[list[str]] = []
    for number, line in enumerate(chain(lines, [""]), 1):
        line = line.removesuffix("\r")
        if not line.strip(" "):
            if rows:
                yield begin, rows
            begin, rows = 0, []
            continue
        begin = begin or number
        if not line.startswith("#"):
            rows.append(line.split("\t"))


def _tokens(rows: Sequence[Sequence[str]]) -> list[Token]:
    words = {
        int(row[0]): (row[1], row[3] if row[3] != "_" else "X", int(row[6]), row[7])
        for row in rows
        if row[0].isdigit()
    }
    tokens: list[Token] = []
    covered = 0
    for row in rows:
        first, _, last = row[0].partition("-")
        if not first.isdigit() or int(first) <= covered:  # an empty node; a word of the range before
            continue
        covered = int(last or first)
        space = "SpaceAfter=No" not in row[9].split("|")
        tokens.append(Token(row[1], space, tuple(words[i] for i in range(int(first), covered + 1))))
    return tokens


def to_conllu(trees: Trees) -> str:
    """What the taggers and parsers are trained on: lemmas are the words, other columns empty."""
    lines: list[str] = []
    for sentence in trees:
        number = 1
        for token in sentence:
            misc = "_" if token.space_after else "SpaceAfter=No"
            several = len(token.words) > 1
            if several:
                lines.append(
                    "\t".join((f"{number}-{number + len(token.words) - 1}", token.surface, *"_______", misc))
                )
            for form, upos, head, deprel in token.words:
                values = (str(number), form, form, upos, "_", "_", str(head), deprel, "_")
                lines.append("\t".join((*values, "_" if several else misc)))
                number += 1
        lines.append("")
    return "\n".join(lines) + "\n"


def to_labels(trees: Trees, joiner: str) -> tuple[str, str]:
    """Running text in paragraphs and, character by character, what the tokenizer learns of it: 0 inside a token,
    1 at its end, 2 at a sentence's end, two more where the token has several words."""
    texts: list[str] = []
    labels: list[str] = []
    for number, sentence in enumerate(trees):
        if number:
            between = "\n\n" if number % _PARAGRAPH_SENTENCES == 0 else joiner
            texts.append(between)
            labels.append(between if between == "\n\n" else "0" * len(between))
        for at, token in enumerate(sentence):
            last = at == len(sentence) - 1
            space = " " if token.space_after and not last else ""
            texts.append(token.surface + space)
            end = 1 + last + 2 * (len(token.words) > 1)
            labels.append("0" * (len(token.surface) - 1) + str(end) + "0" * len(space))
    return "".join(texts), "".join(labels)


def of_treebanks(ud: Path, language: str, limit: int | None = None) -> tuple[Trees, Trees]:
    """Trees to train on and to measure with, from the folder that `make parsers` takes: the first `limit`."""
    if language == "en":
        return _apart(read_trees(files_of(ud, "en")[0], limit))
    treebanks, _ = load(ud, language)
    trees = [
        [
            Token(form, space, ((form, upos, 0 if head == i else head + 1, deprel),))
            for i, (form, space, upos, head, deprel) in enumerate(
                zip(s.words, s.spaces, s.upos, s.heads, s.deprels, strict=True)
            )
        ]
        for s in islice(chain.from_iterable(treebanks), limit)
    ]
    return _apart(trees)


def _apart(trees: Trees) -> tuple[Trees, Trees]:
    """Every tenth of the first 5,000 sentences measures; files that others are measured on stay unseen."""
    measures = range(0, min(len(trees), 5_000), 10)
    return [tree for i, tree in enumerate(trees) if i not in measures], [trees[i] for i in measures]
