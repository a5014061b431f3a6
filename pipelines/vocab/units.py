"""What coarse tokens stand for, counted: the words of annotated documents, joined where a lexicon has them as phrases.

Words are told apart as the fine tokenizer compares text; one of which it makes nothing (white space, control
characters) is no unit, and no phrase is interrupted by it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.encode.source import read_texts, read_words
from pipelines.encode.tokenizer import Tokenizer, load_tokenizer
from pipelines.phrases.lexicon import PhraseLexicon
from pipelines.phrases.segment import find_phrases
from pipelines.phrases.source import word_strings
from pipelines.ragged import ranges
from pipelines.vocab.counts import Counts, added

_KEPT = 1 << 20
"""Distinct words that are remembered."""


@dataclass(frozen=True)
class Lookup:
    """The fine tokenizer and the lexicon. A pickled copy carries the names only and loads for itself."""

    spec: str
    """As `encode.tokenizer` has it"""
    config_path: str
    lowercase: bool
    phrases: str | None
    """Path of the lexicon"""

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Raises ConfigError."""
        return load_tokenizer(self.spec, config_path=self.config_path, lowercase=self.lowercase)

    @cached_property
    def lexicon(self) -> PhraseLexicon | None:
        """Raises ConfigError."""
        return None if self.phrases is None else PhraseLexicon.load(self.phrases, self.tokenizer.normalize)

    @cached_property
    def phrase_words(self) -> frozenset[str]:
        """All words that phrases fall back on."""
        phrases = [] if self.lexicon is None else self.lexicon.entries()
        return frozenset(word for phrase in phrases for word in phrase.split(" "))

    def identities(self) -> dict[str, Any]:
        """Content hashes; names may change."""
        found: dict[str, Any] = {"tokenizer": self.tokenizer.identity()}
        if self.lexicon is not None:
            found["phrases"] = self.lexicon.identity()
        return found


class Units:
    """Counts units of annotated documents."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._lexicon = lookup.lexicon
        self._entries = pa.array([] if self._lexicon is None else self._lexicon.entries(), pa.string())
        self._names: dict[str, str] = {}

    def count(self, table: pa.Table) -> Counts:
        """Distinct units of documents and how often each occurs, in no order that means anything."""
        sides = ["", "_pair"] if "word_starts_pair" in table.column_names else [""]
        texts = read_texts(table, sides)
        words = read_words(table, sides, texts.chars, None)
        spelt = word_strings(texts, words)
        encoded = spelt.dictionary_encode()
        distinct = encoded.dictionary.to_pylist()
        names = self._compared(distinct)
        codes = encoded.indices.to_numpy()
        kept = np.array([bool(name) for name in names], np.bool_)[codes]
        codes = codes[kept]
        found = []
        if self._lexicon is not None:
            letters = self._lexicon.letters(distinct)[codes]
            phrases = find_phrases(self._lexicon, letters, words.sentences[kept])
            times = np.bincount(phrases.ranks, minlength=len(self._entries))
            seen = np.flatnonzero(times)
            found.append(
                Counts(self._entries.take(pa.array(seen)), times[seen], np.ones(len(seen), np.bool_))
            )
            codes = np.delete(codes, ranges(phrases.starts, phrases.stops - phrases.starts))
        times = np.bincount(codes, minlength=len(names))
        seen = np.flatnonzero(times)
        found.append(Counts(pa.array(names, pa.string()).take(pa.array(seen)), times[seen]))
        return added(found)

    def _compared(self, words: list[str]) -> list[str]:
        """Words as they are compared; empty where nothing is left."""
        names = self._names
        if len(names) > _KEPT:
            names.clear()  # a corpus of unique strings must not fill memory
        found = []
        for word in words:
            name = names.get(word)
            if name is None:
                name = self._lookup.tokenizer.normalize(word)
                name = names[word] = name if name.strip() else ""
            found.append(name)
        return found
