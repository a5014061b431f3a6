"""Words of texts whose sentences are known: offsets, in reading order, many texts at once.

Chinese is segmented sentence by sentence with jieba (dictionary and HMM); other languages by a
spaCy tokenizer over the whole text, and a word that would cross a sentence boundary is cut
there. Whitespace is never a word, and every other character belongs to exactly one word; so a
zero-width character that stands alone is a word (what has no pieces later is another stage's
matter, C08). A word holds whitespace only if the user dictionary says so.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain, compress
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from corpora import files
from pipelines.annotate.sentences import split_sentences
from pipelines.config import ConfigError
from pipelines.ragged import Ints, bounds

CHINESE = "zh"
_WARM_WORDS = 50_000
"""Distinct words that a spaCy vocabulary keeps for good; further ones are freed block by block."""


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
    split = [split_sentences(text, language, lines=lines) for text in texts]
    starts = np.fromiter(chain.from_iterable(s[0] for s in split), dtype=np.int64)
    stops = np.fromiter(chain.from_iterable(s[1] for s in split), dtype=np.int64)
    return Spans(starts, stops, bounds([len(s[0]) for s in split]))


class Segmenter(Protocol):
    """Splits texts into words."""

    def segment(self, texts: Sequence[str], sentences: Spans) -> Words: ...

    def zone(self) -> AbstractContextManager[Any]:
        """Within it, memory for new words may be taken; leaving it gives that back."""
        ...


def load_segmenter(language: str, user_dict: str | None = None) -> Segmenter:
    """jieba for `zh`; for others spaCy's tokenizer of that language. Raises ConfigError for none."""
    return ChineseWords(user_dict) if language == CHINESE else SpacedWords(blank(language))


# --- Chinese ----------------------------------------------------------------------------------


class ChineseWords:
    """jieba with a dictionary of its own: nothing is shared with, or cached for, other users of jieba.

    `user_dict`: path of extra words, see `read_user_dict`.
    """

    def __init__(self, user_dict: str | None = None) -> None:
        import jieba

        self._jieba = jieba.Tokenizer()
        # What `initialize` does, without its cache: a file in a shared temporary folder that
        # another user may have written, and that is read with `marshal`.
        with self._jieba.get_dict_file() as dictionary:
            self._jieba.FREQ, self._jieba.total = self._jieba.gen_pfdict(dictionary)
        self._jieba.initialized = True
        self._whole: re.Pattern[str] | None = None
        if user_dict is not None:
            self._add(read_user_dict(user_dict))

    def _add(self, entries: Sequence[tuple[str, int | None]]) -> None:
        import jieba

        for word, count in entries:
            self._jieba.add_word(word, count)
        # jieba looks words up only within runs of Chinese, letters, digits and a few marks. Others
        # (with a space, say) are taken out of the sentence first, longest first.
        odd = [word for word, _ in entries if not jieba.re_han_default.fullmatch(word)]
        if odd:
            longest = sorted(set(odd), key=lambda word: (-len(word), word))
            self._whole = re.compile("(" + "|".join(_whole_word(word) for word in longest) + ")")

    def segment(self, texts: Sequence[str], sentences: Spans) -> Words:
        forms: list[str] = []
        counts: list[int] = []
        starts, stops, of_text = (
            sentences.starts.tolist(),
            sentences.stops.tolist(),
            sentences.offsets.tolist(),
        )
        cut, whole = self._jieba.cut, self._whole
        for number, text in enumerate(texts):
            for s in range(of_text[number], of_text[number + 1]):
                before = len(forms)
                sentence = text[starts[s] : stops[s]]
                if whole is None:
                    forms.extend(cut(sentence))
                else:
                    for turn, piece in enumerate(whole.split(sentence)):
                        forms.extend((piece,) if turn % 2 else cut(piece))
                counts.append(len(forms) - before)
        return _tile(forms, np.asarray(counts, dtype=np.int64), sentences)

    def zone(self) -> AbstractContextManager[Any]:
        return contextlib.nullcontext()


def _tile(forms: list[str], counts: Ints, sentences: Spans) -> Words:
    """Offsets of words that lie side by side in their sentences; then whitespace goes."""
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


def _whole_word(word: str) -> str:
    """Pattern of a word that is not matched inside a longer run of letters or digits."""
    left = "(?<![A-Za-z0-9])" if re.match("[A-Za-z0-9]", word) else ""
    right = "(?![A-Za-z0-9])" if re.search("[A-Za-z0-9]$", word) else ""
    return left + re.escape(word) + right


# jieba's own part-of-speech tags: the only letters taken for a tag where no count stands before them.
_TAG = re.compile(
    "a[dgn]?|b|c|d[fg]?|e|eng|f|g|h|i|j|k|l|m[gq]?|n[grstz]?|nrfg|nrt|o|p|q|r[grz]?|s|tg?|u[dgjlvz]?|v[dginq]?|[xyz]|zg"
)
_COUNTED = re.compile(r"(?P<word>.*\S)[ \t]+(?P<count>[0-9]+)(?:[ \t]+[A-Za-z]+)?")
_TAGGED = re.compile(r"(?P<word>.*\S)[ \t]+(?P<tag>[a-z]+)")


def read_user_dict(path: str) -> list[tuple[str, int | None]]:
    """Words of a jieba user dictionary with their counts (None: not given).

    A line is `word`, `word count`, `word tag` or `word count tag`, separated by spaces or TABs; the
    word itself may hold spaces. UTF-8 with or without a byte order mark, LF or CRLF, blank lines
    skipped. Raises ConfigError that names the line for another encoding or a count of 0.
    """
    entries: list[tuple[str, int | None]] = []
    for number, raw in enumerate(_user_dict_bytes(path).split(b"\n"), 1):
        where = f"annotate.user_dict {path}, line {number}"
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError as error:
            raise ConfigError(
                f"{where}: expected UTF-8, found the byte 0x{raw[error.start]:02x}; "
                "convert the file (iconv -f GBK -t UTF-8)"
            ) from None
        if not line:
            continue
        if match := _COUNTED.fullmatch(line):
            count = int(match["count"])
            if count == 0:
                raise ConfigError(f"{where}: expected a count of 1 or more, found 0; leave the word out")
            entries.append((match["word"], count))
        elif (match := _TAGGED.fullmatch(line)) and _TAG.fullmatch(match["tag"]):
            entries.append((match["word"], None))
        else:
            entries.append((line, None))
    return entries


def _user_dict_bytes(path: str) -> bytes:
    try:
        return files.read_bytes(path)
    except OSError as error:
        raise ConfigError(f"annotate.user_dict: {path} cannot be read: {error}") from None


# --- spaced languages -------------------------------------------------------------------------


class SpacedWords:
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
        forms: list[str] = []
        of_text, a, b = offsets.tolist(), starts.tolist(), stops.tolist()
        for number, text in enumerate(texts):
            own = slice(of_text[number], of_text[number + 1])
            forms.extend([text[i:j] for i, j in zip(a[own], b[own], strict=True)])
        return Words(starts, stops, offsets, forms, of_sentence)

    def zone(self) -> AbstractContextManager[Any]:
        return zone(self._nlp)


def zone(nlp: Any) -> AbstractContextManager[Any]:
    """spaCy's memory zone once its vocabulary is warm.

    A vocabulary keeps every distinct word it ever met, which over a corpus fills any memory. A
    zone frees what was added within it, but words then have to be made again; so the first
    50,000, mostly the frequent ones, are kept for good.
    """
    return nlp.memory_zone() if len(nlp.vocab) > _WARM_WORDS else contextlib.nullcontext()


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


def segmenter_identity(language: str, user_dict: str | None = None) -> dict[str, Any]:
    """What a segmentation depends on: part of the fingerprint, found without loading dictionaries."""
    if language != CHINESE:
        return {"name": "spacy", "version": version("spacy")}
    import jieba

    with jieba.Tokenizer().get_dict_file() as dictionary:
        digest = hashlib.sha256(dictionary.read())
    if user_dict is not None:
        digest.update(_user_dict_bytes(user_dict))
    return {"name": "jieba", "version": version("jieba"), "sha256": digest.hexdigest()}
