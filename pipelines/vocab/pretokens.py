"""What BERT's rules cut a text into before WordPiece does, counted.

Normalizer and pre-tokenizer of `tokenizers` look at one character at a time, but are slow to ask for every text. So
texts are cut at the characters at which those rules cut whatever stands beside them: white space, punctuation,
Chinese characters. What lies between is counted as it is written, and only distinct *stretches* go through
`tokenizers`: a stretch holds whole words, so counting its words as often as it stands there is exact.

Which characters those are is asked of `tokenizers` itself, once for each that occurs (`pipelines.encode.characters`
says why that is exact).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from pipelines.encode.characters import is_loose, parts_letters
from pipelines.ragged import Ints
from pipelines.vocab.counts import Counts, added

_INSIDE, _PARTS, _LOOSE, _UNKNOWN = range(4)
"""Of a character: goes on with a word; parts words, or is one; belongs to its neighbours; not yet asked."""
_SLICE_BYTES = 1 << 22
"""Text that is cut at a time, where no single text is longer; arrays take some 20 bytes for each."""
_KEPT = 1 << 20
"""Distinct stretches that are remembered."""


class PreTokens:
    """Counts words of texts as BERT's models have them."""

    def __init__(self, *, lowercase: bool) -> None:
        """`lowercase`: letters in lower case and without accents."""
        self._normalizer = BertNormalizer(lowercase=lowercase)
        self._pre_tokenizer = BertPreTokenizer()
        self._lower = lowercase
        self._kinds = np.full(0x110000, _UNKNOWN, np.uint8)
        self._words: dict[str, list[str]] = {}

    def count(self, texts: pa.StringArray) -> Counts:
        """Distinct words and how often each occurs, in no order that means anything."""
        return added(self._words_of(added(_distinct(self._cut(some)) for some in _slices(texts))))

    def _words_of(self, stretches: Counts) -> Iterator[Counts]:
        plain = pc.and_(pc.string_is_ascii(stretches.texts), pc.ascii_is_alnum(stretches.texts))
        simple = stretches.texts.filter(plain)
        numbers = pa.array(stretches.counts)
        yield Counts(pc.ascii_lower(simple) if self._lower else simple, numbers.filter(plain).to_numpy())
        others = pc.invert(plain)
        words: list[str] = []
        counts: list[int] = []
        if len(self._words) > _KEPT:
            self._words.clear()  # a corpus of unique strings must not fill memory
        for text, count in zip(
            stretches.texts.filter(others).to_pylist(), numbers.filter(others).to_pylist(), strict=True
        ):
            found = self._words.get(text)
            if found is None:
                found = self._words[text] = self._ask(text)
            words += found
            counts += [count] * len(found)
        yield Counts(pa.array(words, pa.string()), np.array(counts, np.int64))

    def _ask(self, text: str) -> list[str]:
        pieces = self._pre_tokenizer.pre_tokenize_str(self._normalizer.normalize_str(text))
        return [piece for piece, _ in pieces]

    def _cut(self, texts: pa.StringArray) -> pa.StringArray:
        """The stretches of texts, on the same bytes; white space is some, too."""
        edges = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
        low = int(edges[0])
        data = texts.buffers()[2]
        data = pa.py_buffer(b"") if data is None else data.slice(low, int(edges[-1]) - low)
        if not data.size:
            return pa.array([], pa.string())
        codes = np.frombuffer(data.to_pybytes().decode().encode("utf-32-le"), "<u4")
        kinds = self._kinds[codes]
        if (kinds == _UNKNOWN).any():
            here = np.zeros(len(self._kinds), np.bool_)
            here[codes] = True
            fresh = np.flatnonzero(here & (self._kinds == _UNKNOWN))
            self._kinds[fresh] = [self._kind(chr(code)) for code in fresh.tolist()]
            kinds = self._kinds[codes]
        parts, loose = kinds == _PARTS, kinds == _LOOSE
        cut = (parts[1:] | parts[:-1]) & ~(loose[1:] | loose[:-1])
        begins = np.zeros(data.size + 1, np.bool_)
        begins[edges - low] = True
        begins[_byte_starts(data)[1:][cut]] = True
        begins = np.flatnonzero(begins).astype(np.int32)
        return pa.StringArray.from_buffers(len(begins) - 1, pa.py_buffer(begins), data)

    def _kind(self, char: str) -> int:
        if is_loose(char):
            return _LOOSE
        return _PARTS if parts_letters(char, self._normalizer, self._pre_tokenizer) else _INSIDE


def _byte_starts(data: pa.Buffer) -> Ints:
    """First byte of every character of UTF-8."""
    bytes_: NDArray[np.uint8] = np.frombuffer(data, np.uint8)
    return np.flatnonzero((bytes_ & 0xC0) != 0x80)


def _distinct(texts: pa.StringArray) -> Counts:
    found = pc.value_counts(texts)
    return Counts(found.field("values"), found.field("counts").to_numpy())


def _slices(texts: pa.StringArray) -> Iterator[pa.StringArray]:
    """Some texts at a time, of about `_SLICE_BYTES`."""
    edges = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    start = 0
    while start < len(texts):
        stop = int(np.searchsorted(edges, edges[start] + _SLICE_BYTES, "right")) - 1
        stop = min(max(stop, start + 1), len(texts))
        yield texts.slice(start, stop - start)
        start = stop
