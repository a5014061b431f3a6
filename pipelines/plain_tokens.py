"""Tokens for looking at a graph without a tokenizer: characters of Chinese and the like, words of other scripts.

Text is cut at every boundary of `kg.match.boundaries`, so no mention ever begins or ends inside a token.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kg.match.boundaries import inside_words
from pipelines.encode.tokenizer import Tokens
from pipelines.ragged import Ints, bounds


class PlainTokens:
    """Has what `look_up` asks of a tokenizer. Ids are given in the order in which tokens are met."""

    def __init__(self) -> None:
        self.special_ids = {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
        self._strings = [f"[{name.upper()}]" for name in self.special_ids]
        self._ids: dict[str, int] = {}

    def surface(self, token_id: int) -> str | None:
        """The token of an id."""
        return self._strings[token_id] if 0 <= token_id < len(self._strings) else None

    def encode_texts(self, texts: Sequence[str]) -> Tokens:
        """Tokens of every text, without white space."""
        ids: list[int] = []
        spans: list[tuple[int, int]] = []
        counts = []
        for text in texts:
            found = _pieces(text)
            ids += [self._id(text[start:stop]) for start, stop in found]
            spans += found
            counts.append(len(found))
        flat = np.array(spans, np.int32).reshape(-1, 2)
        return Tokens(np.array(ids, np.int32), flat[:, 0].copy(), flat[:, 1].copy(), bounds(counts))

    def encode_ids(self, texts: Sequence[str]) -> tuple[NDArray[np.int32], Ints]:
        """Ids and offsets alone."""
        tokens = self.encode_texts(texts)
        return tokens.ids, tokens.offsets

    def _id(self, string: str) -> int:
        if string not in self._ids:
            self._ids[string] = len(self._strings)
            self._strings.append(string)
        return self._ids[string]


def _pieces(text: str) -> list[tuple[int, int]]:
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    cuts = np.flatnonzero(~inside_words(codes, np.zeros(1, np.int64))).tolist()
    return [(a, b) for a, b in pairwise(cuts) if not text[a:b].isspace()]
