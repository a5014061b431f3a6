"""Words by Stanza's own tokenizer, with exact places in the raw text.

The tokenizer looks at paragraphs, each for itself: it is given our sentences as such, so no word crosses one, or,
where it shall find the sentences, the stretches between blank lines. A token of several words gives those words
where they spell it (`don't` = `do` + `n't`), and one word that remembers them where they do not (`du` = `de` + `le`).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from pipelines.annotate.stanza_models import StanzaModels
from pipelines.annotate.stanza_pipeline import load_pipeline, steady
from pipelines.annotate.words import Spans, Words
from pipelines.config import ConfigError
from pipelines.ragged import bounds

_CALL_CHARS = 20_000
"""Text given to Stanza at a time: its objects take some kilobytes a word. A longer paragraph comes alone."""

_BLANK_LINE = re.compile(r"\n\s*\n")
_INK = re.compile(r"\S+")
_BETWEEN = "\n\n"


class Several(str):
    """The surface of a token whose words do not spell it, such as `du`; `words`: those words."""

    __slots__ = ("words",)
    words: tuple[str, ...]

    def __new__(cls, surface: str, words: Sequence[str]) -> Several:
        made = super().__new__(cls, surface)
        made.words = tuple(words)
        return made


class StanzaWords:
    """A `Segmenter`. With `find_sentences` it finds them too, and those it is given do not matter.

    Raises ConfigError where the folder has no tokenizer of the language.
    """

    def __init__(self, models: StanzaModels, *, gpu: bool = False, find_sentences: bool = False) -> None:
        if not models.tokenizes:
            raise ConfigError(
                f"annotate.segmenter: {models.folder} has no Stanza tokenizer of {models.code!r}; "
                "choose another segmenter"
            )
        self.find_sentences = find_sentences
        self._nlp = load_pipeline(models, ("tokenize", "mwt"), gpu)

    def zone(self) -> AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def segment(self, texts: Sequence[str], sentences: Spans) -> Words:
        """See `Segmenter`. Every character that is not whitespace is in a word: what Stanza takes for a blank and is
        none (controls of C1) is a word of its own."""
        pieces = list(_paragraphs(texts) if self.find_sentences else _given(sentences))
        found = _Words()
        for begin, end in _calls(pieces):
            self._segment(texts, pieces[begin:end], found)
        counts = np.bincount(np.array(found.text, np.int64), minlength=len(texts))
        begins = np.flatnonzero(np.array(found.begins, bool))
        return Words(
            np.array(found.starts, np.int64),
            np.array(found.stops, np.int64),
            bounds(counts),
            found.forms,
            np.append(begins, len(found.forms)),
        )

    def _segment(self, texts: Sequence[str], pieces: list[tuple[int, int, int]], found: _Words) -> None:
        """Words of the pieces (text, start, stop), which are paragraphs of one call."""
        joined = _BETWEEN.join([texts[text][start:stop] for text, start, stop in pieces])
        with steady():
            document = self._nlp(joined)
        tokens = [
            (token, number == 0)
            for sentence in document.sentences
            for number, token in enumerate(sentence.tokens)
        ]
        at, place = 0, 0  # character of `joined`, token
        for text, start, stop in pieces:
            end = at + stop - start
            found.open(text, start - at)
            while place < len(tokens) and tokens[place][0].start_char < end:
                token, begins = tokens[place]
                found.ink(joined, at, token.start_char)
                found.token(joined, token, begins and self.find_sentences)
                at, place = token.end_char, place + 1
            found.ink(joined, at, end)
            at = end + len(_BETWEEN)


class _Words:
    """Words so far, in flat lists."""

    def __init__(self) -> None:
        self.forms: list[str] = []
        self.starts: list[int] = []
        self.stops: list[int] = []
        self.text: list[int] = []  # number of each word's text
        self.begins: list[bool] = []  # the word is the first of a sentence
        self._text, self._shift, self._new, self._fresh = 0, 0, True, True

    def open(self, text: int, shift: int) -> None:
        """What follows belongs to a new piece, `shift` characters further on in its text."""
        self._text, self._shift, self._new, self._fresh = text, shift, True, True

    def ink(self, joined: str, begin: int, end: int) -> None:
        """What is left between two tokens."""
        if end > begin and not joined[begin:end].isspace():
            for match in _INK.finditer(joined, begin, end):
                self._add(match.group(), match.start(), match.end())

    def token(self, joined: str, token: Any, begins: bool) -> None:
        self._new |= begins and not self._fresh  # ink before the first token belongs to its sentence
        self._fresh = False
        begin, end = token.start_char, token.end_char
        forms = [word.text for word in token.words]
        if len(forms) == 1:
            self._add(forms[0], begin, end)
        elif (stops := spelled(forms, joined[begin:end])) is not None:
            for form, start, stop in zip(forms, (0, *stops), stops, strict=False):
                self._add(form, begin + start, begin + stop)
        else:
            self._add(Several(token.text, forms), begin, end)

    def _add(self, form: str, begin: int, end: int) -> None:
        self.forms.append(form)
        self.starts.append(begin + self._shift)
        self.stops.append(end + self._shift)
        self.text.append(self._text)
        self.begins.append(self._new)
        self._new = False


def spelled(forms: Sequence[str], surface: str) -> tuple[int, ...] | None:
    """Where each word ends in the surface, if the words spell it, whatever the case; else None."""
    stops: list[int] = []
    at = 0
    for form in forms:
        piece = surface[at : at + len(form)]
        if not form or piece.casefold() != form.casefold():
            return None
        at += len(form)
        stops.append(at)
    return tuple(stops) if at == len(surface) else None


def _given(sentences: Spans) -> Iterator[tuple[int, int, int]]:
    text_of = np.repeat(np.arange(len(sentences.offsets) - 1), np.diff(sentences.offsets))
    yield from zip(text_of.tolist(), sentences.starts.tolist(), sentences.stops.tolist(), strict=True)


def _paragraphs(texts: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """Stretches between blank lines, without those of whitespace alone."""
    for number, text in enumerate(texts):
        at = 0
        for start, stop in [*(match.span() for match in _BLANK_LINE.finditer(text)), (len(text),) * 2]:
            piece = text[at:start]
            if ink := len(piece.lstrip()):
                yield number, start - ink, at + len(piece.rstrip())
            at = stop


def _calls(pieces: Sequence[tuple[int, int, int]]) -> Iterator[tuple[int, int]]:
    """Ranges of pieces of about 20,000 characters."""
    begin, size = 0, 0
    for number, (_, start, stop) in enumerate(pieces):
        if number > begin and size + stop - start > _CALL_CHARS:
            yield begin, number
            begin, size = number, 0
        size += stop - start
    if begin < len(pieces):
        yield begin, len(pieces)
