"""Coarse tokens: whole words as a vocabulary of words knows them (AMBERT, Zhang and Li 2021).

A word is looked up as the fine tokenizer compares text (lower-cased, without accents, for BERT
uncased and Chinese); a word that the vocabulary lacks is the coarse [UNK].
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpora import files
from pipelines.config import ConfigError, resolve
from pipelines.encode.source import Texts, Words
from pipelines.encode.tokenizer import SPECIAL_TOKENS, Tokenizer, parse_vocab, vocabulary_lines

_CACHE_WORDS = 1_000_000


class CoarseVocabulary:
    """Word strings to coarse ids. Words seen before cost a dictionary look-up."""

    def __init__(self, spec: str, config_path: str, tokenizer: Tokenizer) -> None:
        """Read `spec` (a coarse token a line, special tokens included). Raises ConfigError."""
        path = resolve(config_path, spec) if config_path else spec
        try:
            content = files.read_bytes(path)
        except (FileNotFoundError, IsADirectoryError):
            raise ConfigError(f"encode.coarse.vocab: file {path} does not exist") from None
        vocab = parse_vocab(content, path, "encode.coarse.vocab")
        self.vocab_size: int = 1 + max(vocab.values())
        self.special_ids = {role: vocab[names[0]] for role, names in SPECIAL_TOKENS.items()}
        self._identity = {"name": Path(spec).name, "sha256": hashlib.sha256(content).hexdigest()}
        self._tokenizer = tokenizer
        self._tokens = vocab
        # Text never yields a special token. The first of two entries that compare equal wins.
        self._ids: dict[str, int] = {}
        for token, index in vocab.items():
            if index not in self.special_ids.values():
                self._ids.setdefault(tokenizer.normalize(token), index)
        self._seen: dict[str, int] = {}

    def identity(self) -> dict[str, str]:
        """Name and SHA-256 of the file."""
        return dict(self._identity)

    def lines(self) -> bytes:
        """Every coarse token, a line an id, UTF-8."""
        names = [""] * self.vocab_size
        for token, index in self._tokens.items():
            names[index] = token
        return vocabulary_lines(names)

    def look_up(self, texts: Texts, words: Words) -> NDArray[np.int32]:
        """Coarse id of every word, int32[D]."""
        ids = np.empty(len(words.starts), np.int32)
        offsets, starts, stops = words.offsets.tolist(), words.starts.tolist(), words.stops.tolist()
        for i, text in enumerate(texts.strings):
            a, b = offsets[i], offsets[i + 1]
            if a < b:
                ids[a:b] = self._text(text, starts[a:b], stops[a:b])
        return ids

    def _text(self, text: str, starts: Sequence[int], stops: Sequence[int]) -> list[int]:
        seen = self._seen
        names = [text[a:b] for a, b in zip(starts, stops, strict=True)]
        found = [seen.get(name) for name in names]
        ids = [self._new(n) if i is None else i for n, i in zip(names, found, strict=True)]
        if len(seen) > _CACHE_WORDS:
            seen.clear()  # a corpus of unique strings must not fill memory
        return ids

    def _new(self, word: str) -> int:
        index = self._ids.get(self._tokenizer.normalize(word), self.special_ids["unk"])
        self._seen[word] = index
        return index
