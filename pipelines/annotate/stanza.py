"""Dependency parses by Stanza: of given words, or of the words that its own tokenizer finds.

Stanza gets our words and sentences as they are (`tokenize_pretokenized`), shortest sentences first and so many
words at a time, so that little is padded; which sentences come together is a function of the table alone. What it
answers becomes flat arrays, and words that stand for several (`du` = `de` + `le`) one word again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any

import numpy as np

from corpora.multiword import merge
from pipelines.annotate.parse import Answer, TreeParser
from pipelines.annotate.stanza_models import StanzaModels, find_stanza, stanza_identity
from pipelines.annotate.stanza_pipeline import load_pipeline, steady
from pipelines.annotate.stanza_words import Several, StanzaWords
from pipelines.annotate.tools import EXTRA, ROOT, UPOS, OnWords, Parse, relation, untold
from pipelines.annotate.words import Ints, Words
from pipelines.config import ConfigError
from pipelines.ragged import bounds, ranges

__all__ = ["StanzaModels", "StanzaParser", "StanzaWords", "find_stanza", "stanza_identity"]

_FORM_CHARS = 100
"""Of a longer word Stanza sees so many characters: it lays out as many for every word as the longest has."""


class StanzaParser(TreeParser):
    """Stanza's tagger and parser. Raises ConfigError where the models cannot be loaded."""

    def __init__(self, models: StanzaModels, *, batch_words: int = 4_000, gpu: bool = False) -> None:
        self.models, self.name, self.batch_words = models, models.name, batch_words
        self._nlp = load_pipeline(
            models,
            ("tokenize", "pos", "lemma", "depparse"),
            gpu,
            tokenize_pretokenized=True,
            pos_batch_maximum_tokens=batch_words,
            depparse_batch_size=batch_words,
        )
        labels = self._nlp.processors["depparse"].get_known_relations()
        self.deprels = tuple(sorted({ROOT, EXTRA, *map(relation, labels)}))
        self._dep_codes = {label: self.deprels.index(relation(label)) for label in labels}
        self._pos_codes = {tag: code for code, tag in enumerate(UPOS)}

    def zone(self) -> AbstractContextManager[Any]:
        return contextlib.nullcontext()  # its vocabularies do not grow

    def parse(
        self,
        words: Words,
        *,
        max_sentence_words: int,
        find_sentences: bool = False,
        on_words: OnWords = untold,
    ) -> Parse:
        """See `Parser`. Sentences are the tokenizer's business here: they come with its words."""
        return super().parse(words, max_sentence_words=max_sentence_words, on_words=on_words)

    def answer(
        self, words: Words, units: Ints, *, find_sentences: bool = False, on_words: OnWords = untold
    ) -> Answer:
        """See `TreeParser`."""
        parts = [form.words if isinstance(form, Several) else (form[:_FORM_CHARS],) for form in words.forms]
        sizes = np.fromiter(map(len, parts), np.int64, len(parts))
        forms = list(chain.from_iterable(parts))
        sentences = bounds(sizes)[words.of_sentence]
        heads = np.zeros(len(forms), np.int64)
        codes = np.zeros((2, len(forms)), np.int16)
        for batch in _batches(np.diff(sentences), self.batch_words):
            given = [forms[sentences[s] : sentences[s + 1]] for s in batch.tolist()]
            at = ranges(sentences[batch], np.diff(sentences)[batch])
            heads[at], codes[:, at] = self._parse(given, at)
            on_words(len(at))
        if len(forms) == len(parts):
            return Answer(heads, codes[0], codes[1])
        merged = merge(np.repeat(np.arange(len(parts)), sizes), heads)
        return Answer(merged.heads, codes[0, merged.keep], codes[1, merged.keep])

    def _parse(self, sentences: list[list[str]], at: Ints) -> tuple[Ints, np.ndarray]:
        """Heads int64[D] among all words, `at` being these words' places; deprels and pos int16[2, D]."""
        with steady():
            document = self._nlp(sentences)
        words = [sentence.words for sentence in document.sentences]
        if [len(found) for found in words] != [len(given) for given in sentences]:
            raise ConfigError(
                f"annotate.parser: {self.name} merges or splits words ({sum(map(len, sentences))} given in "
                f"{len(sentences)} sentences, {sum(map(len, words))} in {len(words)} returned)"
            )
        flat = list(chain.from_iterable(words))
        heads = np.fromiter((word.head for word in flat), np.int64, len(flat))
        deprels = [self._dep_codes.get(word.deprel, self.deprels.index(EXTRA)) for word in flat]
        other = self._pos_codes["X"]
        pos = [self._pos_codes.get(word.upos, other) for word in flat]
        lengths = np.array([len(found) for found in words], np.int64)
        first = np.repeat(at[bounds(lengths)[:-1]], lengths)
        return np.where(heads == 0, at, first + heads - 1), np.array([deprels, pos], np.int16)


def _batches(lengths: Ints, batch_words: int) -> Iterator[Ints]:
    """Numbers of the sentences of each batch, shortest first; a sentence over the limit comes alone."""
    order = np.argsort(lengths, kind="stable")
    begin, size = 0, 0
    for place, length in enumerate(lengths[order].tolist()):
        if place > begin and size + length > batch_words:
            yield order[begin:place]
            begin, size = place, 0
        size += length
    if begin < len(order):
        yield order[begin:]
