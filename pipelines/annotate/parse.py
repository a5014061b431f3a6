"""Dependency parses of given words and sentences, from any spaCy pipeline, as flat arrays.

The pipeline gets `Doc`s made of our own words, so it never sees a whitespace token, and with our
sentence boundaries, which it must keep. What it answers is read with `Doc.to_array`, then made one
tree per sentence (`forest.repair_heads`).

Long texts are parsed in units of whole sentences, at most 2,000 words each, and longer sentences
are cut, so that memory stays bounded whatever a document holds. Batches are bounded in words.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines import forest
from pipelines.annotate.parsers import EXTRA, ROOT, load_pipeline, relation
from pipelines.annotate.words import Ints, Words, zone
from pipelines.config import ConfigError

UPOS = (
    *("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM"),
    *("PART", "PRON", "PROPN", "PUNCT", "SCONJ", "SYM", "VERB", "X"),
)
"""Universal parts of speech; a word without one gets `X`."""

_UNIT_WORDS = 2_000
_BATCH_WORDS = 4_000
_BATCH_DOCS = 128


@dataclass(frozen=True)
class Parse:
    """Trees over D words. Indices count over all texts; codes index `deprels` and `UPOS`."""

    words: Words  # with the sentences that were parsed: cut ones, or those the parser found
    heads: Ints
    deprels: NDArray[np.int16]
    pos: NDArray[np.int16]
    repaired: int  # words whose head had to change for one tree a sentence
    sentences_cut: int  # boundaries that the length limit added


class Parser:
    """A loaded pipeline. `deprels`: the relations that codes index, in order.

    Raises ConfigError where the pipeline lacks a parser or a tagger.
    """

    def __init__(self, folder: Path, deprels: Sequence[str]) -> None:
        self.nlp, self.name = load_pipeline(folder)
        self.deprels = tuple(deprels)
        strings = self.nlp.vocab.strings
        codes = {name: code for code, name in enumerate(deprels)}
        known = {strings[""]: codes[EXTRA], strings["ROOT"]: codes[ROOT], strings[ROOT]: codes[ROOT]}
        for labels in self.nlp.pipe_labels.values():
            known.update({strings[x]: codes[relation(x)] for x in labels if relation(x) in codes})
        self._dep_ids = np.array(sorted(known), dtype=np.uint64)
        self._dep_codes = np.array([known[i] for i in sorted(known)], dtype=np.int16)
        self._root, self._extra = codes[ROOT], codes[EXTRA]
        self._pos_codes = _pos_table()

    def zone(self) -> AbstractContextManager[Any]:
        """Within it the vocabulary may grow; leaving it frees what was added (C12)."""
        return zone(self.nlp)

    def parse(self, words: Words, *, max_sentence_words: int, find_sentences: bool = False) -> Parse:
        """Parse every text. With `find_sentences` boundaries are where the parser sees them."""
        if not find_sentences:
            words, cut = cut_long_sentences(words, max_sentence_words)
        units = parse_units(words, _UNIT_WORDS)
        answer = self._run(words, units, preset=not find_sentences)
        offsets = answer[:, 0].astype(np.int64)  # uint64 to int64: negative offsets come back
        if find_sentences:
            begins = answer[:, 3] == 1
            begins[units[:-1]] = True
            words = replace(words, of_sentence=np.append(np.flatnonzero(begins), len(begins)))
            words, cut = cut_long_sentences(words, max_sentence_words)
        own = np.arange(len(offsets), dtype=np.int64)
        heads, changed = forest.repair_heads(own + offsets, words.of_sentence)
        deprels = self._codes_of(answer[:, 1])
        deprels[(heads != own) & (changed | (deprels == self._root))] = self._extra
        deprels[heads == own] = self._root
        pos = self._pos_codes[np.minimum(answer[:, 2], len(self._pos_codes) - 1)]
        return Parse(words, heads, deprels, pos, int(changed.sum()), cut)

    def _run(self, words: Words, units: Ints, preset: bool) -> NDArray[np.uint64]:
        """HEAD (as offset), DEP, POS, SENT_START of every word, uint64[D, 4]."""
        from spacy.attrs import DEP, HEAD, POS, SENT_START

        rows = [np.zeros((0, 4), dtype=np.uint64)]
        for batch in self._batches(words, units.tolist(), preset):
            for doc in self.nlp.pipe(batch, batch_size=len(batch)):
                rows.append(doc.to_array([HEAD, DEP, POS, SENT_START]))  # noqa: PERF401 - docs are freed at once
        answer = np.concatenate(rows)
        if len(answer) != len(words.starts):
            raise ConfigError(
                f"annotate.parser: {self.name} merges or splits words ({len(words.starts)} given, {len(answer)} "
                "returned); use a pipeline without such a component"
            )
        return answer

    def _batches(self, words: Words, units: list[int], preset: bool) -> Iterator[list[Any]]:
        from spacy.attrs import SENT_START
        from spacy.tokens import Doc

        if not words.forms:
            return
        spaced = np.zeros(len(words.starts), dtype=bool)
        spaced[:-1] = words.starts[1:] > words.stops[:-1]
        spaced[words.offsets[1:] - 1] = False  # a text's last word; where a text is empty, the one before
        sent_start = np.full((len(words.starts), 1), -1, dtype=np.int64).astype(np.uint64)
        sent_start[words.of_sentence[:-1]] = 1
        batch: list[Any] = []
        size = 0
        for begin, end in pairwise(units):
            if batch and (size + end - begin > _BATCH_WORDS or len(batch) == _BATCH_DOCS):
                yield batch
                batch, size = [], 0
            doc = Doc(self.nlp.vocab, words=words.forms[begin:end], spaces=spaced[begin:end].tolist())
            if preset:
                doc.from_array([SENT_START], sent_start[begin:end])
            batch.append(doc)
            size += end - begin
        if batch:
            yield batch

    def _codes_of(self, dep_ids: NDArray[np.uint64]) -> NDArray[np.int16]:
        at = np.minimum(np.searchsorted(self._dep_ids, dep_ids), len(self._dep_ids) - 1)
        unknown = self._dep_ids[at] != dep_ids
        if unknown.any():
            label = self.nlp.vocab.strings[int(dep_ids[unknown][0])]
            raise ConfigError(
                f"annotate.parser: {self.name} gave the relation {label!r}, which its meta.json does not list"
            )
        return self._dep_codes[at]


def cut_long_sentences(words: Words, limit: int) -> tuple[Words, int]:
    """Cut sentences of more than `limit` words, and count the cuts.

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
        return words, 0
    return replace(words, of_sentence=np.sort(np.append(bounds, cuts))), len(cuts)


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


def _pos_table() -> NDArray[np.int16]:
    from spacy.parts_of_speech import IDS

    table = np.full(max(IDS.values()) + 2, UPOS.index("X"), dtype=np.int16)
    for code, name in enumerate(UPOS):
        table[IDS[name]] = code
    return table
