"""Words of many texts as flat arrays: their offsets, and which sentence each belongs to.

Whitespace is never a word, and every other character belongs to exactly one word; so a zero-width
character that stands alone is a word (what has no pieces later is another stage's matter, C08). A word
holds whitespace only if a user dictionary, or the corpus itself, says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np

from pipelines.annotate.sentences import split_texts
from pipelines.ragged import Ints, bounds


@dataclass(frozen=True)
class Spans:
    """Stretches of R texts: text r has those from `offsets[r]` to `offsets[r + 1]`.

    `starts`, `stops` int64[N], in characters of the span's own text; `offsets` int64[R+1].
    """

    starts: Ints
    stops: Ints
    offsets: Ints


@dataclass(frozen=True)
class Words(Spans):
    """Words of R texts: their spans, their forms, and which belong to which sentence.

    Sentence s, counted over all texts, has the words from `of_sentence[s]` to `of_sentence[s + 1]`;
    int64[S+1].
    """

    forms: list[str]
    of_sentence: Ints

    @property
    def sentences(self) -> Spans:
        """Sentences begin with their first word and end with their last."""
        first, last = self.of_sentence[:-1], self.of_sentence[1:] - 1
        offsets = np.searchsorted(self.of_sentence, self.offsets)
        return Spans(self.starts[first], self.stops[last], offsets.astype(np.int64))


def sentences_of(texts: Sequence[str], language: str, *, lines: bool = False) -> Spans:
    """Sentences of each text by the rules of `pipelines.annotate.sentences`, or its lines."""
    return Spans(*split_texts(texts, language, lines=lines))


def side_by_side(forms: list[str], counts: Ints, sentences: Spans) -> Words:
    """Words that spell their sentences, `counts` int64[S] of them each; whitespace among them goes."""
    lengths = np.fromiter(map(len, forms), dtype=np.int64, count=len(forms))
    ends, stops = bounds(counts), np.cumsum(lengths)
    shift = sentences.starts - bounds(lengths)[ends[:-1]]
    stops = stops + np.repeat(shift, counts)
    starts = stops - lengths
    space = np.fromiter(map(str.isspace, forms), dtype=bool, count=len(forms))
    if space.any():
        keep = ~space
        forms, starts, stops = list(compress(forms, keep.tolist())), starts[keep], stops[keep]
        ends = bounds(keep)[ends]
    return Words(starts, stops, ends[sentences.offsets], forms, ends)


def forms_of(texts: Sequence[str], starts: Ints, stops: Ints, offsets: Ints) -> list[str]:
    """Words of R texts as strings; `starts`, `stops` int64[D], `offsets` int64[R+1] as in `Spans`."""
    forms: list[str] = []
    of_text, a, b = offsets.tolist(), starts.tolist(), stops.tolist()
    for number, text in enumerate(texts):
        own = slice(of_text[number], of_text[number + 1])
        forms.extend([text[i:j] for i, j in zip(a[own], b[own], strict=True)])
    return forms
