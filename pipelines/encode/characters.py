"""BERT's tokenizer by a table of characters: what stands alone is looked up, the rest is tokenized once.

BERT's rules look at one character at a time. A Chinese character and a punctuation mark are tokens by
themselves whatever stands beside them; so their ids come from a table of code points, a whole slice of
text at a time. What lies between (Latin words, numbers, anything else) is cut at white space, at the
slice's ends and at such characters, and each *stretch* that has not been seen goes through
`tokenizers` once.

Nothing here knows which characters those are: each code point that a text has is put to the tokenizer, alone
and between two letters, once. Ids and offsets are exactly those of `tokenizers`, for two reasons. Normalizer and
pre-tokenizer (`applies` says which) map every character by itself, but for combining marks, which are put in
order and dropped. And a combining mark, a control character and what Python's Unicode does not know yet
take their neighbours into their stretch, so that none of them is parted from what it may touch.

Shapes: M characters of all texts laid end to end, N tokens, n texts, K stretches.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tokenizers
from numpy.typing import NDArray

from pipelines.ragged import Ints, bounds, ranges

_SPACE, _REST, _LOOSE, _UNKNOWN = -1, -2, -3, -4
"""Values of the table beside ids: parts stretches; belongs to one; and its neighbours as well; not yet asked."""
_CODE_POINTS = 0x110000
_KEPT_CHARS = 1 << 20
"""Characters of all stretches that are remembered; with more than that they are forgotten and learned anew."""


class Pieces(NamedTuple):
    """Tokens of n texts, side by side."""

    ids: NDArray[np.int32]
    """[N]"""
    starts: NDArray[np.int32]
    """[N], first character in its text"""
    stops: NDArray[np.int32]
    """[N], one past the last character"""
    sizes: Ints
    """[n], tokens of each text"""


Encode = Callable[[list[str]], Pieces]


def applies(body: Mapping[str, Any]) -> bool:
    """Whether a tokenizer, given as its `tokenizer.json`, maps text by BERT's rules and nothing else."""
    kinds = {name: (body.get(name) or {}).get("type") for name in ("normalizer", "pre_tokenizer", "model")}
    rules = ("BertPreTokenizer", "WordPiece")
    return (
        (kinds["pre_tokenizer"], kinds["model"]) == rules
        and kinds["normalizer"] in (None, "BertNormalizer")
        and all(token["special"] for token in body.get("added_tokens") or [])
    )


def is_loose(char: str) -> bool:
    """Whether a character may not be parted from its neighbours: a mark, a control character, an unknown one."""
    return char not in "\t\n\r" and (
        unicodedata.category(char)[0] in "MC" or unicodedata.combining(char) != 0
    )


def parts_letters(char: str, normalizer: Any, pre_tokenizer: Any) -> bool:
    """Whether a character between two letters parts them, or is a token between them."""
    between = f"a{char}a" if normalizer is None else normalizer.normalize_str(f"a{char}a")
    pieces = [piece for piece, _ in pre_tokenizer.pre_tokenize_str(between)]
    return len(pieces) in (2, 3) and pieces[0] == pieces[-1] == "a"


class Characters:
    """The tokens of texts, equal to those of `encode`; for tokenizers that it `applies` to."""

    def __init__(self, core: tokenizers.Tokenizer, encode: Encode) -> None:
        """
        Args:
            core: the tokenizer; special tokens in text are text to it.
            encode: tokens of texts by `core`.
        """
        self._core, self._encode = core, encode
        self._table = np.full(_CODE_POINTS, _UNKNOWN, np.int32)
        self._forget()

    def encode(self, texts: Sequence[str]) -> Pieces:
        """Tokens of texts; memory is about 60 bytes a character."""
        laid = "\n".join(["", *texts, ""])  # white space on both sides of every text
        codes = np.frombuffer(laid.encode("utf-32-le"), "<u4")
        begins = bounds(np.fromiter(map(len, texts), np.int64, len(texts)) + 1) + 1
        kinds = self._kinds(codes, begins - 1)
        alone = np.flatnonzero(kinds >= 0)
        rest = kinds == _REST
        edges = np.flatnonzero(rest[1:] != rest[:-1]) + 1
        cuts, first = edges.tolist(), edges[::2]
        which = self._learned([laid[a:b] for a, b in zip(cuts[::2], cuts[1::2], strict=True)])
        own = np.diff(self._offsets)[which]
        offsets = bounds(own)
        source = ranges(self._offsets[which], own)
        slots = ranges(np.searchsorted(alone, first) + offsets[:-1], own)  # of the stretches' tokens
        single = np.ones(len(alone) + len(slots), dtype=bool)
        single[slots] = False
        ids, starts, stops = (np.empty(len(single), np.int32) for _ in range(3))
        ids[single], starts[single], stops[single] = kinds[alone], alone, alone + 1
        at = np.repeat(first, own)
        ids[slots] = self._ids[source]
        starts[slots], stops[slots] = at + self._starts[source], at + self._stops[source]
        sizes = np.diff(np.searchsorted(alone, begins) + offsets[np.searchsorted(first, begins)])
        shift = np.repeat(begins[:-1].astype(np.int32), sizes)
        return Pieces(ids, starts - shift, stops - shift, sizes)

    def _kinds(self, codes: NDArray[np.uint32], gaps: Ints) -> NDArray[np.int32]:
        """The table's values of characters, [M]; `gaps` are those that part texts."""
        kinds = self._table[codes]
        lowest = kinds.min()
        if lowest == _UNKNOWN:
            self._ask(np.unique(codes[kinds == _UNKNOWN]))
            kinds = self._table[codes]
            lowest = kinds.min()
        if lowest == _LOOSE:
            loose = np.flatnonzero(kinds == _LOOSE)
            kinds[loose - 1] = kinds[loose] = kinds[loose + 1] = _REST
            kinds[gaps] = _SPACE
        return kinds

    # --- asking the tokenizer ---------------------------------------------------------------------

    def _ask(self, codes: NDArray[np.uint32]) -> None:
        """Fill the table for code points."""
        chars = [chr(code) for code in codes.tolist()]
        kinds = np.array([self._kind(char) for char in chars], np.int32)
        parted = np.flatnonzero(kinds == _SPACE)
        found = self._encode([chars[i] for i in parted.tolist()])
        one = found.sizes == 1
        kinds[parted[one]] = found.ids[bounds(found.sizes)[:-1][one]]
        kinds[parted[found.sizes > 1]] = _REST
        self._table[codes] = kinds

    def _kind(self, char: str) -> int:
        """`_SPACE` of all that parts two letters."""
        if is_loose(char):
            return _LOOSE
        return _SPACE if parts_letters(char, self._core.normalizer, self._core.pre_tokenizer) else _REST

    # --- stretches --------------------------------------------------------------------------------

    def _forget(self) -> None:
        self._known: dict[str, int] = {}
        self._chars = 0
        self._ids = self._starts = self._stops = np.zeros(0, np.int32)
        self._offsets: Ints = np.zeros(1, np.int64)

    def _learned(self, stretches: list[str]) -> Ints:
        """Number of each stretch among those that are known, int64[K]: number i has tokens
        `self._offsets[i]:self._offsets[i + 1]`."""
        if self._chars > _KEPT_CHARS:
            self._forget()
        known = self._known
        which = list(map(known.get, stretches))
        if None in which:
            new = list(dict.fromkeys(s for s, i in zip(stretches, which, strict=True) if i is None))
            found = self._encode(new)
            known.update(zip(new, range(len(known), len(known) + len(new)), strict=True))
            self._chars += sum(map(len, new))
            self._ids = np.concatenate((self._ids, found.ids))
            self._starts = np.concatenate((self._starts, found.starts))
            self._stops = np.concatenate((self._stops, found.stops))
            self._offsets = np.concatenate((self._offsets, self._offsets[-1] + np.cumsum(found.sizes)))
            which = list(map(known.get, stretches))
        return np.array(which, np.int64)
