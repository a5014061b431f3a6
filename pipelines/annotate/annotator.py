"""Annotates texts of one language: sentences, words and parses, as Arrow lists, one per text.

Texts go through in chunks of about 200,000 characters, so that neither flat arrays nor a
vocabulary grow with the corpus. Models are loaded once per process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from pipelines import forest
from pipelines.annotate.parsers import Found, load_parser
from pipelines.annotate.segmenters import CHINESE, load_segmenter, segmenter_identity
from pipelines.annotate.tools import UPOS, Parser, Segmenter
from pipelines.annotate.words import Ints, sentences_of

T = TypeVar("T")
_CHUNK_CHARS = 200_000


@dataclass(frozen=True)
class Annotator:
    """What annotates texts of one language."""

    language: str
    segmenter: Segmenter
    parser: Parser | None
    max_sentence_words: int
    find_sentences: bool
    """Sentences are where the parser sees them."""
    lines: bool = False
    """Sentences are lines."""

    def annotate(self, texts: Sequence[str]) -> tuple[dict[str, pa.Array], Counter[str]]:
        """Columns of the groups sentences, words and parse, one list per text, and counts."""
        parts: list[dict[str, pa.Array]] = []
        counts: Counter[str] = Counter()
        for begin, end in _chunks(texts):
            part, counted = self._annotate(texts[begin:end])
            parts.append(part)
            counts.update(counted)
        return {name: pa.concat_arrays([p[name] for p in parts]) for name in parts[0]}, counts

    def _annotate(self, texts: Sequence[str]) -> tuple[dict[str, pa.Array], Counter[str]]:
        sentences = sentences_of(texts, self.language, lines=self.lines)
        parsed = None
        with (self.parser or self.segmenter).zone():
            words = self.segmenter.segment(texts, sentences)
            if self.parser is not None:
                parsed = self.parser.parse(
                    words, max_sentence_words=self.max_sentence_words, find_sentences=self.find_sentences
                )
                words = parsed.words
        counts = Counter(
            sentences=len(words.of_sentence) - 1,
            words=len(words.starts),
            characters=sum(map(len, texts)),
        )
        spans = words.sentences
        columns = {
            "sentence_starts": _lists(pa.array(spans.starts, pa.int32()), spans.offsets),
            "sentence_stops": _lists(pa.array(spans.stops, pa.int32()), spans.offsets),
            "word_starts": _lists(pa.array(words.starts, pa.int32()), words.offsets),
            "word_stops": _lists(pa.array(words.stops, pa.int32()), words.offsets),
        }
        if parsed is not None and self.parser is not None:
            counts.update(words_repaired=int(parsed.repaired.sum()), sentences_cut=len(parsed.cuts))
            heads = forest.relative(parsed.heads, words.offsets)
            values = {
                "word_heads": pa.array(heads, pa.int32()),
                "word_deprels": _dictionary(parsed.deprels, self.parser.deprels),
                "word_pos": _dictionary(parsed.pos, UPOS),
            }
            columns.update({name: _lists(array, words.offsets) for name, array in values.items()})
        return columns, counts


_LOADED: dict[tuple[Any, ...], Any] = {}


def _once(key: tuple[Any, ...], make: Callable[[], T]) -> T:
    """A model of this process: made once, whatever the number of stages and blocks that use it."""
    if key not in _LOADED:
        _LOADED[key] = make()
    loaded: T = _LOADED[key]
    return loaded


def load_models(
    language: str, found: Found | None, user_dict: str | None, *, batch_words: int, gpu: bool
) -> tuple[Parser | None, Segmenter]:
    """The parser that was found, if any, and the segmenter of the language. Raises ConfigError."""
    parser = None
    if found is not None:
        key = ("parser", found, batch_words, gpu)
        parser = _once(key, lambda: load_parser(found, batch_words=batch_words, gpu=gpu))
    if language == CHINESE:
        digest = segmenter_identity(language, user_dict)["sha256"]
        return parser, _once(("jieba", digest), lambda: load_segmenter(language, user_dict))
    return parser, _once(("spacy", language, found), lambda: load_segmenter(language, None, parser))


def _chunks(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Ranges of texts of about 200,000 characters; a longer text comes alone, no texts are one range."""
    begin, size = 0, 0
    for number, text in enumerate(texts):
        if size and size + len(text) > _CHUNK_CHARS:
            yield begin, number
            begin, size = number, 0
        size += len(text)
    yield begin, len(texts)


def _lists(values: pa.Array, offsets: Ints) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


def _dictionary(codes: np.ndarray, names: Sequence[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int16()), pa.array(names, pa.string()))
