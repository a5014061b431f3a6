"""What annotating asks of a parser and of a segmenter, whatever toolkit they come from.

Everything in and out is a flat array over all words of many texts. A second toolkit plugs in as
`pipelines.annotate.parsers` says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pipelines.annotate.words import Ints, Spans, Words

UPOS = (
    *("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM"),
    *("PART", "PRON", "PROPN", "PUNCT", "SCONJ", "SYM", "VERB", "X"),
)
"""Universal parts of speech; a word without one, or with another, gets `X`."""

ROOT, EXTRA = "root", "dep"
"""Relation of a root, whatever the parser calls it; and of a word without one, or that the repair attached."""


OnWords = Callable[[int], None]
"""Told, batch after batch, how many more words are done: parsing a table takes long enough to be watched."""


def untold(words: int) -> None:
    """Nobody watches."""


@dataclass(frozen=True)
class Parse:
    """Trees over D words. Indices count over all texts; codes index the parser's `deprels`, and `UPOS`."""

    words: Words  # with the sentences that were parsed: cut ones, or those the parser found
    heads: Ints  # a root is its own
    deprels: NDArray[np.int16]
    pos: NDArray[np.int16]
    repaired: NDArray[np.bool_]  # words whose head had to change for one tree a sentence
    cuts: Ints  # words before which the length limit added a boundary


class Parser(Protocol):
    """Gives given words their heads, relations and parts of speech."""

    name: str
    deprels: tuple[str, ...]
    """Relations that its codes index, `ROOT` and `EXTRA` among them."""

    def zone(self) -> AbstractContextManager[Any]:
        """Within it, memory for new words may be taken; leaving it gives that back (C12)."""
        ...

    def parse(
        self,
        words: Words,
        *,
        max_sentence_words: int,
        find_sentences: bool = False,
        on_words: OnWords = untold,
    ) -> Parse:
        """Parse every text: the words as they are, one tree a sentence, sentences of at most
        `max_sentence_words`. With `find_sentences` boundaries are where the parser sees them."""
        ...


class Segmenter(Protocol):
    """Splits texts into words."""

    def segment(self, texts: Sequence[str], sentences: Spans) -> Words:
        """Words of each text; none crosses the end of a sentence."""
        ...

    def zone(self) -> AbstractContextManager[Any]:
        """As a parser's."""
        ...


def relation(label: str) -> str:
    """A toolkit's name of a relation as we write it."""
    return ROOT if label.lower() == ROOT else label or EXTRA
