"""Words by a spaCy tokenizer over the whole text; one that would cross a sentence boundary is cut there."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.annotate.words import Spans, Words, forms_of
from pipelines.config import ConfigError
from pipelines.ragged import bounds

_WARM_WORDS = 50_000
"""Distinct words that a spaCy vocabulary keeps for good; further ones are freed block by block."""


class SpacyWords:
    """The tokenizer of a spaCy pipeline."""

    def __init__(self, nlp: Any) -> None:
        self._nlp = nlp

    def segment(self, texts: Sequence[str], sentences: Spans) -> Words:
        from spacy.attrs import IDX, IS_SPACE, LENGTH

        tokens = [self._nlp.tokenizer(text).to_array([IDX, LENGTH, IS_SPACE]) for text in texts]
        flat = np.concatenate(tokens).astype(np.int64) if tokens else np.zeros((0, 3), np.int64)
        # Positions in all texts as if written one after another, one character apart: a word, a
        # sentence and a text then compare by number alone.
        base = bounds([len(text) + 1 for text in texts])
        text_of = np.repeat(np.arange(len(texts)), [len(t) for t in tokens])
        keep = flat[:, 2] == 0
        starts = (flat[:, 0] + base[text_of])[keep]
        stops = starts + flat[keep, 1]
        shift = np.repeat(base[:-1], np.diff(sentences.offsets))
        begins = sentences.starts + shift
        word = np.searchsorted(starts, begins, side="left") - 1  # the last one that begins before
        inside = begins[(word >= 0) & (begins < stops[np.maximum(word, 0)])] if len(starts) else begins[:0]
        if len(inside):
            starts, stops = np.sort(np.append(starts, inside)), np.sort(np.append(stops, inside))
        of_sentence = np.append(np.searchsorted(starts, begins), len(starts))
        offsets = np.searchsorted(starts, base)
        shift = np.repeat(base[:-1], np.diff(offsets))
        starts, stops = starts - shift, stops - shift
        return Words(starts, stops, offsets, forms_of(texts, starts, stops, offsets), of_sentence)

    def zone(self) -> AbstractContextManager[Any]:
        return zone(self._nlp)


def zone(nlp: Any) -> AbstractContextManager[Any]:
    """spaCy's memory zone once its vocabulary is warm.

    A vocabulary keeps every distinct word it ever met, which over a corpus fills any memory. A
    zone frees what was added within it, but words then have to be made again; so the first
    50,000, mostly the frequent ones, are kept for good.
    """
    if nlp.vocab.in_memory_zone or len(nlp.vocab) <= _WARM_WORDS:  # zones do not nest
        return contextlib.nullcontext()
    zone: AbstractContextManager[Any] = nlp.memory_zone()
    return zone


def blank(language: str) -> Any:
    """spaCy's tokenizer alone for a language; raises ConfigError naming those there are."""
    import spacy

    try:
        return spacy.blank(language)
    except ImportError as error:
        raise ConfigError(
            f"language {language!r}: spaCy has no usable tokenizer for it ({_first_line(error)}); "
            f"usable without further packages: {', '.join(_languages())}"
        ) from None


def _languages() -> list[str]:
    """Languages that spaCy brings tokenizers for."""
    import spacy

    folders = (Path(spacy.__file__).parent / "lang").iterdir()
    needing_more = {"ja", "ko", "th", "vi"}
    return sorted({f.name for f in folders if (f / "__init__.py").exists()} - needing_more)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]
