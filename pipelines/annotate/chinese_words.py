"""Chinese words, sentence by sentence, by any function that cuts a string into words."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from itertools import accumulate
from typing import Any

import numpy as np

from pipelines.annotate.whole_words import WholeWords
from pipelines.annotate.words import Spans, Words, side_by_side

_RUN = re.compile(r"\s+|\S+")


class ChineseWords:
    """A `Segmenter`. `cut`: the words of a string; `whole`: words taken out of a sentence before it is cut."""

    def __init__(self, cut: Callable[[str], Iterable[str]], whole: Sequence[str] = ()) -> None:
        self._cut = cut
        self._whole = WholeWords(whole) if whole else None

    def segment(self, texts: Sequence[str], sentences: Spans) -> Words:
        """See `Segmenter`."""
        forms: list[str] = []
        counts: list[int] = []
        starts, stops, of_text = (
            sentences.starts.tolist(),
            sentences.stops.tolist(),
            sentences.offsets.tolist(),
        )
        whole = self._whole
        for number, text in enumerate(texts):
            for s in range(of_text[number], of_text[number + 1]):
                before = len(forms)
                sentence = text[starts[s] : stops[s]]
                if whole is None:
                    forms.extend(self._words(sentence))
                else:
                    for turn, piece in enumerate(whole.split(sentence)):
                        forms.extend((piece,) if turn % 2 else self._words(piece))
                counts.append(len(forms) - before)
        return side_by_side(forms, np.asarray(counts, dtype=np.int64), sentences)

    def _words(self, text: str) -> list[str]:
        forms = list(self._cut(text))
        return forms if "".join(forms) == text and "" not in forms else spelled(text, forms)

    def zone(self) -> AbstractContextManager[Any]:
        """These keep no words."""
        return contextlib.nullcontext()


def spelled(text: str, forms: Sequence[str]) -> list[str]:
    """`text` cut where `forms` end, though they may lack its white space, or change some of its characters.

    Put together the pieces are the text exactly; white space comes apart from words. Between the first and the
    last character that the forms changed they tell no places: that stretch is one word.
    """
    ink, said = "".join(text.split()), "".join("".join(forms).split())
    before = _common(ink, said)
    after = min(_common(ink[::-1], said[::-1]), min(len(ink), len(said)) - before)
    ends = list(accumulate(len("".join(form.split())) for form in forms))
    cuts = {end for end in ends if end <= before}
    cuts |= {len(ink) - (len(said) - end) for end in ends if len(said) - end <= after}
    pieces: list[str] = []
    at = 0  # characters of the ink so far
    for match in _RUN.finditer(text):
        run = match.group()
        if run.isspace():
            pieces.append(run)
            continue
        begin = 0
        for end in range(1, len(run) + 1):
            if end == len(run) or at + end in cuts:
                pieces.append(run[begin:end])
                begin = end
        at += len(run)
    return pieces


def _common(a: str, b: str) -> int:
    """Length of the longest beginning that both have."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((i for i, (x, y) in pairs if x != y), min(len(a), len(b)))
