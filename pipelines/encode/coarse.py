"""Coarse tokens: words and phrases as a vocabulary of their own knows them (AMBERT, Zhang and Li 2020).

Words, phrases and pieces are compared as the fine tokenizer compares text (lower-cased, without accents, for BERT
uncased and Chinese). What a batch's words are is found once, for its distinct words; how rows back off to smaller
units is `pipelines.encode.backoff`'s matter.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corpora import files
from pipelines.config import ConfigError, resolve
from pipelines.encode.source import Texts, Words
from pipelines.encode.tokenizer import SPECIAL_TOKENS, Tokenizer, parse_vocab, vocabulary_lines
from pipelines.phrases.lexicon import PhraseLexicon
from pipelines.phrases.segment import find_phrases, openings
from pipelines.ragged import Ints
from pipelines.slices import slices

LACKING = -1
"""Coarse id of what the vocabulary lacks."""
_CACHE_WORDS = 1_000_000


class CoarseVocabulary:
    """Strings to coarse ids. Words seen before cost a dictionary look-up."""

    def __init__(self, spec: str, config_path: str, tokenizer: Tokenizer) -> None:
        """Read `spec` (a coarse token a line, special tokens included). Raises ConfigError."""
        path = resolve(config_path, spec) if config_path else spec
        try:
            content = files.read_bytes(path)
        except (FileNotFoundError, IsADirectoryError):
            raise ConfigError(
                f"encode.coarse.vocab: file {path} does not exist; `treegraft vocab {config_path or 'CONFIG'}` makes "
                "it from the corpus"
            ) from None
        vocab = parse_vocab(content, path, "encode.coarse.vocab")
        self.vocab_size: int = 1 + max(vocab.values())
        self.special_ids = {role: vocab[names[0]] for role, names in SPECIAL_TOKENS.items()}
        self._identity = {"name": Path(spec).name, "sha256": hashlib.sha256(content).hexdigest()}
        self._tokenizer = tokenizer
        self._tokens = vocab
        # Text never yields a special token. The first of two entries that compare equal wins.
        ids: dict[str, int] = {}
        for token, index in vocab.items():
            if index not in self.special_ids.values():
                ids.setdefault(tokenizer.normalize(token), index)
        self.pieces = self._of_fine_tokens(ids)
        """Coarse id of every fine token by its string, int32[fine vocabulary]; `LACKING` for what has none"""
        # "##ing" is a piece and no word, whatever a text says.
        prefix = json.loads(tokenizer.serialized())["model"].get("continuing_subword_prefix")
        self._ids = {t: i for t, i in ids.items() if not _is_piece(t, prefix)}
        self._seen: dict[str, int] = {}

    def _of_fine_tokens(self, ids: dict[str, int]) -> NDArray[np.int32]:
        tokenizer = self._tokenizer
        found = np.full(tokenizer.vocab_size, LACKING, np.int32)
        for number in range(tokenizer.vocab_size):
            surface = tokenizer.surface(number)
            if surface is not None and number not in tokenizer.special_ids.values():
                found[number] = ids.get(tokenizer.normalize(surface), LACKING)
        return found

    def identity(self) -> dict[str, str]:
        """Name and SHA-256 of the file."""
        return dict(self._identity)

    def lines(self) -> bytes:
        """Every coarse token, a line an id, UTF-8."""
        names = [""] * self.vocab_size
        for token, index in self._tokens.items():
            names[index] = token
        return vocabulary_lines(names)

    def look_up(self, words: Sequence[str]) -> NDArray[np.int32]:
        """Coarse id of every word, int32[len(words)], or `LACKING`."""
        seen = self._seen
        for word in dict.fromkeys(words):
            if word not in seen:
                seen[word] = self._ids.get(self._tokenizer.normalize(word), LACKING)
        found = np.fromiter(map(seen.__getitem__, words), np.int32, len(words))
        if len(seen) > _CACHE_WORDS:
            seen.clear()  # a corpus of unique strings must not fill memory
        return found

    def look_up_phrases(self, lexicon: PhraseLexicon) -> NDArray[np.int32]:
        """Coarse id of every phrase of the lexicon, in its order, int32[len(lexicon)], or `LACKING`."""
        entries = lexicon.entries()
        return np.fromiter((self._ids.get(entry, LACKING) for entry in entries), np.int32, len(entries))


def _is_piece(token: str, prefix: str | None) -> bool:
    return bool(prefix) and token.startswith(prefix or "") and token != prefix and " " not in token


@dataclass(frozen=True)
class Units:
    """What D words are in coarse tokens, wherever a row cuts them; U units, phrases and words in none."""

    words: NDArray[np.int32]
    """[D], coarse id of the word, or `LACKING`"""
    unit: Ints
    """[D], number of the unit that the word is in, rising"""
    sizes: Ints
    """[U], words of the unit"""
    ids: NDArray[np.int32]
    """[U], coarse id of a phrase, `LACKING` for a unit of one word or a phrase that the vocabulary lacks"""


class CoarseUnits:
    """Finds the units of words by a vocabulary and, with phrases, a lexicon."""

    def __init__(self, vocabulary: CoarseVocabulary, lexicon: PhraseLexicon | None = None) -> None:
        """Raises ConfigError if the vocabulary has none of the lexicon's phrases."""
        self.vocabulary, self.lexicon = vocabulary, lexicon
        if lexicon is not None:
            self._phrases = vocabulary.look_up_phrases(lexicon)
            if (self._phrases == LACKING).all():
                phrases, vocab = lexicon.identity()["name"], vocabulary.identity()["name"]
                raise ConfigError(
                    f"encode.coarse.phrases: none of the {len(lexicon):,} phrases of {phrases} is in {vocab}; make the "
                    "vocabulary of this lexicon (treegraft vocab; where it warns that it took no phrase, raise "
                    "vocab.coarse.size or lower vocab.coarse.min_count), or leave out encode.coarse.phrases"
                )

    def find(self, texts: Texts, words: Words) -> Units:
        """Units of the words of `texts`; a phrase is of one text and one sentence."""
        encoded = slices(texts.strings, words.offsets, words.starts, words.stops).dictionary_encode()
        encoded = pa.chunked_array(encoded.chunks, encoded.type).combine_chunks()
        distinct = encoded.dictionary.to_pylist()
        index = encoded.indices.to_numpy(zero_copy_only=False)
        ids = self.vocabulary.look_up(distinct).take(index)
        count = len(ids)
        if self.lexicon is None:
            ones = np.ones(count, np.int64)
            return Units(ids, np.arange(count), ones, np.full(count, LACKING, np.int32))
        begins = np.diff(words.sentences, prepend=-1) != 0
        begins[words.offsets[:-1][np.diff(words.offsets) > 0]] = True  # choices of one sentence are two texts
        letters = self.lexicon.letters(distinct).take(index)
        phrases = find_phrases(self.lexicon, letters, np.cumsum(begins))
        opens = openings(phrases, count)
        unit = np.cumsum(opens) - 1
        of = np.full(int(opens.sum()), LACKING, np.int32)
        of[unit[phrases.starts]] = self._phrases.take(phrases.ranks)
        return Units(ids, unit, np.diff(np.append(np.flatnonzero(opens), count)), of)
