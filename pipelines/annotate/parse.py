"""What all parsers have in common: what they are given at a time, and one tree a sentence after it.

Sentences longer than the limit are cut and long texts are parsed in units of whole sentences, so that
memory stays bounded whatever a document holds; batches are bounded in words. What a toolkit answers is
made one tree per sentence (`forest.repair_heads`), with `root` for roots and for nothing else.
"""

from __future__ import annotations

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pipelines import forest
from pipelines.annotate.tools import EXTRA, ROOT, OnWords, Parse, untold
from pipelines.annotate.words import Ints, Words

Codes = TypeVar("Codes", bound=NDArray[Any])

_UNIT_WORDS = 2_000
_BATCH_UNITS = 128


@dataclass(frozen=True)
class Answer:
    """What a toolkit says of D words, before any repair. Indices count over all words given."""

    heads: Ints  # anything may stand here: what is no tree is repaired
    deprels: NDArray[np.int16]  # codes of the parser's `deprels`
    pos: NDArray[np.int16]  # codes of `UPOS`
    begins: NDArray[np.bool_] | None = None  # first words of sentences, where the toolkit finds them


class TreeParser(ABC):
    """A `Parser` whose toolkit only has to say heads, relations and parts of speech of words.

    A subclass sets `name` and `deprels`, and answers.
    """

    name: str
    deprels: tuple[str, ...]
    batch_words: int

    @abstractmethod
    def zone(self) -> AbstractContextManager[Any]:
        """See `Parser`."""

    @abstractmethod
    def answer(self, words: Words, units: Ints, *, find_sentences: bool, on_words: OnWords) -> Answer:
        """Parse the units: unit u has the words from `units[u]` to `units[u + 1]`, int64[U+1].

        A unit is a text or several whole sentences of one. Unless `find_sentences`, its sentences are those
        of `words.of_sentence`; else `begins` says where they are. `on_words` is told of each batch.
        """

    def parse(
        self,
        words: Words,
        *,
        max_sentence_words: int,
        find_sentences: bool = False,
        on_words: OnWords = untold,
    ) -> Parse:
        """See `Parser`."""
        cuts = np.zeros(0, np.int64)
        if not len(words.starts):
            none = np.zeros(0, np.int16)
            return Parse(words, cuts, none, none, np.zeros(0, bool), cuts)
        if not find_sentences:
            words, cuts = cut_long_sentences(words, max_sentence_words)
        units = parse_units(words, min(_UNIT_WORDS, self.batch_words))
        answer = self.answer(words, units, find_sentences=find_sentences, on_words=on_words)
        if find_sentences:
            begins = np.zeros(len(words.starts), bool) if answer.begins is None else answer.begins.copy()
            begins[units[:-1]] = True
            words = replace(words, of_sentence=np.append(np.flatnonzero(begins), len(begins)))
            words, cuts = cut_long_sentences(words, max_sentence_words)
        heads, deprels, repaired = one_tree_a_sentence(
            answer.heads,
            answer.deprels,
            words.of_sentence,
            self.deprels.index(ROOT),
            self.deprels.index(EXTRA),
        )
        return Parse(words, heads, deprels, answer.pos, repaired, cuts)


def one_tree_a_sentence(
    heads: Ints, deprels: Codes, of_sentence: Ints, root: int, extra: int
) -> tuple[Ints, Codes, NDArray[np.bool_]]:
    """Heads and relations [D] repaired, and which words have another head than before, bool[D].

    A root gets the code `root`; a word that was attached anew, or that had the root's relation without
    being one, gets `extra`.
    """
    own = np.arange(len(heads), dtype=np.int64)
    heads, changed = forest.repair_heads(heads, of_sentence)
    deprels = deprels.copy()
    deprels[(heads != own) & (changed | (deprels == root))] = extra
    deprels[heads == own] = root
    return heads, deprels, changed


def batches(
    units: Ints, batch_words: int, batch_units: int = _BATCH_UNITS
) -> Iterator[list[tuple[int, int]]]:
    """The units (first word, one past the last) in batches of at most so many words and units.

    A unit of more than `batch_words` comes alone.
    """
    batch: list[tuple[int, int]] = []
    size = 0
    for begin, end in pairwise(units.tolist()):
        if batch and (size + end - begin > batch_words or len(batch) == batch_units):
            yield batch
            batch, size = [], 0
        batch.append((begin, end))
        size += end - begin
    if batch:
        yield batch


def cut_long_sentences(words: Words, limit: int) -> tuple[Words, Ints]:
    """Cut sentences of more than `limit` words; also the words before which a cut lies, int64, rising.

    A cut lies after the last punctuation word that leaves at most `limit` words before it (an
    opening bracket or quote does not count); where there is none, after exactly `limit` words.
    """
    bounds = words.of_sentence
    cuts: list[int] = []
    for s in np.flatnonzero(np.diff(bounds) > limit).tolist():
        begin, end = int(bounds[s]), int(bounds[s + 1])
        while end - begin > limit:
            marks = (i for i in range(begin + limit, begin, -1) if _closes(words.forms[i - 1]))
            begin = next(marks, begin + limit)
            cuts.append(begin)
    if not cuts:
        return words, np.zeros(0, np.int64)
    return replace(words, of_sentence=np.sort(np.append(bounds, cuts))), np.array(cuts, np.int64)


def _closes(form: str) -> bool:
    categories = {unicodedata.category(char) for char in form}
    return categories <= {"Pc", "Pd", "Pe", "Pf", "Po"}


def parse_units(words: Words, limit: int) -> Ints:
    """Bounds of what is parsed as one: whole texts, or whole sentences of at most `limit` words.

    A sentence longer than `limit` is a unit of its own.
    """
    bounds = np.unique(words.offsets)
    cuts: list[int] = []
    for text in np.flatnonzero(np.diff(bounds) > limit).tolist():
        begin, end = int(bounds[text]), int(bounds[text + 1])
        while end - begin > limit:
            s = int(np.searchsorted(words.of_sentence, begin + limit, side="right")) - 1
            if words.of_sentence[s] <= begin:
                s += 1
            begin = int(words.of_sentence[s])
            cuts.append(begin)
    return np.unique(np.append(bounds, cuts)).astype(np.int64)
