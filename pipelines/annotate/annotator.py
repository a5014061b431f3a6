"""Annotates texts of one language: sentences, words and parses, or what of them the corpus does not bring.

Texts go through in chunks of about 200,000 characters, so that neither flat arrays nor a
vocabulary grow with the corpus.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pipelines import forest
from pipelines.annotate.annotations import Annotations, Relations, joined
from pipelines.annotate.given import Given
from pipelines.annotate.parse import one_tree_a_sentence
from pipelines.annotate.tools import EXTRA, ROOT, UPOS, OnWords, Parse, Parser, Segmenter, untold
from pipelines.annotate.words import Ints, Spans, Words, forms_of, sentences_of
from pipelines.ragged import bounds, ranges

_CHUNK_CHARS = 200_000


@dataclass(frozen=True)
class Annotator:
    """What annotates texts of one language."""

    language: str
    make_segmenter: Callable[[], Segmenter | None] | None
    """Called when a text without given words comes, and gives None where nothing segments the language; is None where
    such texts get sentences and no words."""
    parser: Parser | None
    parsed: bool
    """Texts get trees: from the parser, or from the corpus."""
    max_sentence_words: int
    find_sentences: bool
    """Sentences are where the parser sees them."""
    lines: bool = False
    """Sentences are lines."""
    on_words: OnWords = untold
    """Told of words as they are done."""

    @cached_property
    def segmenter(self) -> Segmenter | None:
        return None if self.make_segmenter is None else self.make_segmenter()

    def lacks(self, text: str, given: Given | None) -> str | None:
        """What a text needs that nothing gives it: `words`, `trees`; None where it can be annotated."""
        if not text or text.isspace():
            return None
        if self.parsed and self.parser is None and (given is None or not given.whole):
            return "trees"
        segmented = given is None and self.make_segmenter is not None
        return "words" if segmented and self.segmenter is None else None

    def annotate(
        self, texts: Sequence[str], given: Sequence[Given | None], relations: Relations
    ) -> Annotations:
        """Annotations of each text, none of which lacks anything."""
        plain = [i for i, known in enumerate(given) if known is None]
        brought = [(i, known) for i, known in enumerate(given) if known is not None]
        parts: list[Annotations] = []
        for begin, end in _chunks([texts[i] for i in plain]) if plain or not brought else ():
            parts.append(self._annotate([texts[i] for i in plain[begin:end]], relations))
        if brought:
            for begin, end in _chunks([texts[i] for i, _ in brought]):
                some = brought[begin:end]
                parts.append(self._complete([texts[i] for i, _ in some], [g for _, g in some], relations))
        found = joined(parts)
        if not brought:
            return found
        order = np.argsort(plain + [i for i, _ in brought])
        return found.placed(order, np.zeros(len(order), np.int64), np.arange(len(order) + 1))

    # --- texts alone ------------------------------------------------------------------------------

    def _annotate(self, texts: Sequence[str], relations: Relations) -> Annotations:
        if self.make_segmenter is None:
            words = _no_words(len(texts))
            sentences = sentences_of(texts, self.language, lines=self.lines)
            return replace(_annotations(words, relations, parsed=self.parsed), sentences=sentences)
        with contextlib.ExitStack() as zones:
            if self.parser is not None:
                zones.enter_context(self.parser.zone())
            if any(texts) and self.segmenter is not None:
                zones.enter_context(self.segmenter.zone())
                words = self.segmenter.segment(texts, sentences_of(texts, self.language, lines=self.lines))
            else:  # no texts, or nothing but white space where nothing segments
                words = _no_words(len(texts))
            if self.parser is None:
                self.on_words(len(words.starts))
                return _annotations(words, relations, parsed=self.parsed)
            parse = self.parser.parse(
                words,
                max_sentence_words=self.max_sentence_words,
                find_sentences=self.find_sentences,
                on_words=self.on_words,
            )
        return _annotations(parse.words, relations, parsed=True, parse=parse, deprels=self.parser.deprels)

    # --- texts whose corpus brings words ----------------------------------------------------------

    def _complete(self, texts: Sequence[str], given: Sequence[Given], relations: Relations) -> Annotations:
        """Words and trees as they are given; sentences without a tree are parsed on their given words."""
        offsets = bounds([len(g.starts) for g in given])
        sizes = np.concatenate([np.diff(g.of_sentence) for g in given])
        words = Words(
            np.concatenate([g.starts for g in given]),
            np.concatenate([g.stops for g in given]),
            offsets,
            [],
            bounds(sizes),
        )
        if not self.parsed:
            return _annotations(words, relations, parsed=False)
        parsed = np.concatenate([g.parsed for g in given])
        heads = forest.absolute(np.concatenate([g.heads for g in given]), offsets)
        deprels = np.concatenate([g.deprels for g in given])
        pos = np.concatenate([g.pos for g in given])
        repaired = np.zeros(len(heads), bool)
        cuts = np.zeros(0, np.int64)
        kept, own = _of_sentences(words.of_sentence, parsed)
        if len(kept):
            root, extra = relations.codes([ROOT, EXTRA]).tolist()
            place = np.full(len(heads) + 1, -1, np.int64)  # of kept words; any other head is none
            place[kept] = np.arange(len(kept))
            above = heads[kept]
            inner = place[np.where((above >= 0) & (above < len(heads)), above, -1)]
            tree, labels, changed = one_tree_a_sentence(inner, deprels[kept], own, root, extra)
            heads[kept], deprels[kept], repaired[kept] = kept[tree], labels, changed
        if not parsed.all():
            assert self.parser is not None  # such texts lack trees
            rest, own = _of_sentences(words.of_sentence, ~parsed)
            inner_words = _some_words(texts, words, rest, own)
            with self.parser.zone():
                parse = self.parser.parse(
                    inner_words, max_sentence_words=self.max_sentence_words, on_words=self.on_words
                )
            codes = relations.codes(self.parser.deprels)
            heads[rest], deprels[rest] = rest[parse.heads], codes[parse.deprels]
            pos[rest] = np.where(pos[rest] < 0, parse.pos, pos[rest])  # a given tag stays
            repaired[rest] = parse.repaired
            cuts = rest[parse.cuts]
        return Annotations(
            sentences=_cut(words, cuts).sentences,
            words=Spans(words.starts, words.stops, offsets),
            heads=forest.relative(heads, offsets),
            deprels=deprels,
            pos=np.where(pos < 0, UPOS.index("X"), pos).astype(np.int16),
            repaired=np.diff(bounds(repaired)[offsets]),
            cuts=np.diff(np.searchsorted(cuts, offsets)),
        )


def _of_sentences(of_sentence: Ints, chosen: np.ndarray) -> tuple[Ints, Ints]:
    """The words of the chosen sentences, and the bounds of these sentences among them."""
    sizes = np.diff(of_sentence)[chosen]
    return ranges(of_sentence[:-1][chosen], sizes), bounds(sizes)


def _some_words(texts: Sequence[str], words: Words, which: Ints, of_sentence: Ints) -> Words:
    offsets = np.searchsorted(which, words.offsets)
    starts, stops = words.starts[which], words.stops[which]
    return Words(starts, stops, offsets, forms_of(texts, starts, stops, offsets), of_sentence)


def _cut(words: Words, cuts: Ints) -> Words:
    of_sentence = np.union1d(words.of_sentence, cuts)
    return Words(words.starts, words.stops, words.offsets, words.forms, of_sentence)


def _no_words(texts: int) -> Words:
    none = np.zeros(0, np.int64)
    return Words(none, none, np.zeros(texts + 1, np.int64), [], np.zeros(1, np.int64))


def _annotations(
    words: Words,
    relations: Relations,
    *,
    parsed: bool,
    parse: Parse | None = None,
    deprels: Sequence[str] = (),
) -> Annotations:
    """Of words and, where there is one, their parse; `parsed` without one: there are no words to parse."""
    none = np.zeros(len(words.offsets) - 1, np.int64)
    spans = Spans(words.starts, words.stops, words.offsets)
    if parse is None:
        empty = np.zeros(0, np.int64) if parsed else None
        pos = np.zeros(0, np.int16) if parsed else None
        return Annotations(words.sentences, spans, empty, empty, pos, none, none)
    return Annotations(
        sentences=words.sentences,
        words=spans,
        heads=forest.relative(parse.heads, words.offsets),
        deprels=relations.codes(deprels)[parse.deprels],
        pos=parse.pos,
        repaired=np.diff(bounds(parse.repaired)[words.offsets]),
        cuts=np.diff(np.searchsorted(parse.cuts, words.offsets)),
    )


def _chunks(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Ranges of texts of about 200,000 characters; a longer text comes alone, no texts are one range."""
    begin, size = 0, 0
    for number, text in enumerate(texts):
        if size and size + len(text) > _CHUNK_CHARS:
            yield begin, number
            begin, size = number, 0
        size += len(text)
    yield begin, len(texts)
