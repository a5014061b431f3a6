"""A lexicon of phrases: neighbouring words that are one unit, such as "new york".

A line is a phrase, its words parted by a space; what a TAB parts from it (counts, probabilities) is not read. Words
are compared as a tokenizer compares text (lower-cased, without accents, for BERT uncased). Of lines that compare equal
the first counts; a line of one word says nothing, as every word is a unit by itself.

The words of all phrases are numbers, and the numbers the letters of an automaton (`kg.match.automaton`): a prefix of
a phrase is a state, found by hash. A million phrases of two to five words take about 100 MB.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corpora import files
from kg.errors import GraphError
from kg.match.automaton import Automaton, build
from pipelines.config import ConfigError

MOST_WORDS = 32
"""Of a phrase: what is longer was not meant as one."""
_MOST_DISTINCT = 1 << 20
"""Words that the automaton's letters can number."""
NO_WORD = np.uint64(0x1FFFFF)
"""A letter that no phrase has."""
_CACHE_WORDS = 1_000_000


class PhraseLexicon:
    """Phrases of two words and more. `pipelines.phrases.segment` cuts by it."""

    def __init__(self, phrases: Iterable[Sequence[str]], normalize: Callable[[str], str]) -> None:
        """`phrases`: their words. `normalize`: a word as it is compared. Raises ConfigError, without a field's name."""
        kept: dict[tuple[str, ...], int] = {}
        for phrase in phrases:
            words = tuple(normalize(word) for word in phrase)
            if len(words) > 1 and all(word and " " not in word for word in words):
                kept.setdefault(words, len(kept))
        self._normalize = normalize
        self._entries = [" ".join(words) for words in kept]
        names = sorted({word for words in kept for word in words})
        if len(names) > _MOST_DISTINCT:
            raise ConfigError(
                f"{len(names):,} different words in its phrases, at most {_MOST_DISTINCT:,} are possible; "
                "leave out rare phrases"
            )
        self._codes = {name: number for number, name in enumerate(names)}
        ordered = sorted(kept)
        self._ranks: NDArray[np.int32] = np.array([kept[words] for words in ordered], np.int32)
        lengths = np.fromiter(map(len, ordered), np.int64, len(ordered))
        letters = np.fromiter((self._codes[w] for words in ordered for w in words), np.uint32, lengths.sum())
        try:
            self.automaton = Automaton(build(letters, lengths))
        except GraphError as error:
            raise ConfigError(f"too many phrases, or phrases made to collide: {error}") from None
        self.longest = int(lengths.max(initial=0))
        """Words of the longest phrase"""
        self._identity = {"name": "", "sha256": ""}
        self._seen: dict[str, int] = {}

    @classmethod
    def load(
        cls, path: str, normalize: Callable[[str], str], field: str = "encode.coarse.phrases"
    ) -> PhraseLexicon:
        """Read a lexicon: UTF-8, with or without a byte order mark, LF or CRLF, lines that start with nothing skipped.

        Raises ConfigError that names `field` where there is no such file, or it is not UTF-8, holds no phrase, or one
        of more than `MOST_WORDS` words.
        """
        try:
            content = files.read_bytes(path)
        except (FileNotFoundError, IsADirectoryError):
            raise ConfigError(
                f"{field}: file {path} does not exist; `treegraft phrases CONFIG` makes it from the corpus"
            ) from None
        phrases = []
        for number, raw in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
            try:
                line = raw.decode()
            except UnicodeDecodeError as error:
                raise ConfigError(
                    f"{field}: {path}, line {number}: expected UTF-8, found the byte 0x{raw[error.start]:02x}"
                ) from None
            words = [word for word in line.removesuffix("\r").split("\t", 1)[0].split(" ") if word]
            if len(words) > MOST_WORDS:
                raise ConfigError(
                    f"{field}: {path}, line {number}: expected a phrase, found {len(words):,} words; a lexicon has a "
                    f"phrase of at most {MOST_WORDS} words a line"
                )
            phrases.append(words)
        try:
            made = cls(phrases, normalize)
        except ConfigError as error:
            raise ConfigError(f"{field}: {path} has {error}") from None
        if not len(made):
            raise ConfigError(
                f"{field}: {path} holds no phrase of two words or more; a line is a phrase, words parted by spaces. "
                f"Leave {field} out to do without phrases"
            )
        made._identity = {"name": Path(path).name, "sha256": hashlib.sha256(content).hexdigest()}
        return made

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self) -> list[str]:
        """Phrases as they are compared, in the order of the file."""
        return list(self._entries)

    def identity(self) -> dict[str, str]:
        """Name and SHA-256 of the file."""
        return dict(self._identity)

    def ranks(self, states: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Index among `entries` of the phrases that states of the automaton are, int32[n]; all must be some."""
        return self._ranks.take(self.automaton.key(states))

    def letters(self, words: Sequence[str] | pa.Array) -> NDArray[np.uint64]:
        """The automaton's letter of each word, uint64[n]; words seen before cost a dictionary look-up."""
        if isinstance(words, pa.Array | pa.ChunkedArray):
            encoded = words.dictionary_encode()
            encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
            distinct = self.letters(encoded.dictionary.to_pylist())
            return distinct.take(encoded.indices.to_numpy())
        seen = self._seen
        for word in dict.fromkeys(words):
            if word not in seen:
                known = None if " " in word else self._codes.get(self._normalize(word))
                seen[word] = int(NO_WORD) if known is None else known
        found = np.fromiter(map(seen.__getitem__, words), np.uint64, len(words))
        if len(seen) > _CACHE_WORDS:
            seen.clear()  # a corpus of unique strings must not fill memory
        return found
