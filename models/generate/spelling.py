"""Text of tokens: pieces of words joined, Chinese without spaces; and a reference as those tokens would spell it.

BERT's tokenizer cuts text at blanks and punctuation and may lower it and take off accents, none of which can be seen
in tokens any more. So a text that is written by tokens and the one that was wanted are alike only if both are spelled
by the same rules; else BLEU would count a capital letter or a hyphen that no token could have told.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import tokenizers
from tokenizers import decoders

_WIDE = "[\u2e80-\u303f\u31c0-\u9fff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003ffff·]"
"""Chinese characters and their punctuation: beside them there is no blank (kana and Hangul are no part of them)."""
_BLANK = re.compile(
    "|".join(
        (
            f"(?<! ) +(?={_WIDE})|(?<={_WIDE}) +",
            f" (?=[“‘] {_WIDE})|(?<={_WIDE} [”’]) ",  # quotes, dashes and dots are English, too: what is beside tells
            " (?=— —|… …)|(?<=—) (?=—)|(?<=…) (?=…)|(?<=— —) |(?<=… …) ",
            "(?<=[“‘([]) | (?=[”’)\\]…%:;])",
            r"(?<=\w ’) (?=(?:s|t|d|m|re|ve|ll)\b)",
            r"(?<=\w) (?=['/-] \w)|(?<=\w ['/-]) (?=\w)",
            r"(?<=\d\.) (?=\d)|(?<=\d :) (?=\d)|(?<=\$) (?=\d)",
        )
    )
)
"""Blanks that the decoder of `tokenizers` leaves and that no text has: beside Chinese, within brackets and quotes,
before marks, around an apostrophe, hyphen or stroke between words, in decimals, times and prices."""
_THOUSANDS = re.compile(r"(?<!\d)(\d{1,3}), (?=\d{3}(?!\d))")
_QUOTED = re.compile(r'" ([^"]*) "')


class Speller:
    """Text of a tokenizer's tokens."""

    def __init__(self, serialized: bytes) -> None:
        """`serialized`: `tokenizer.json`. Raises ValueError where it is none."""
        try:
            body: dict[str, Any] = json.loads(serialized)
            self._tokenizer = tokenizers.Tokenizer.from_str(serialized.decode())
        except Exception as error:  # tokenizers raises Exception itself
            raise ValueError(f"tokenizer.json cannot be read: {error}") from None
        self._words = body["model"].get("type") == "WordPiece"
        if self._words and self._tokenizer.decoder is None:
            prefix = body["model"].get("continuing_subword_prefix", "##")
            self._tokenizer.decoder = decoders.WordPiece(prefix=prefix, cleanup=True)

    def text(self, ids: Sequence[int]) -> str:
        """Text of these tokens, special ones but [UNK] not among them; ids that the tokenizer lacks say nothing."""
        return self._tidy(self._tokenizer.decode(list(ids), skip_special_tokens=False))

    def spelled(self, text: str) -> str:
        """A text as tokens would spell it if every one of its words were a token; other tokenizers lose nothing."""
        tokenizer = self._tokenizer
        if not self._words or tokenizer.pre_tokenizer is None:
            return text
        plain = tokenizer.normalizer.normalize_str(text) if tokenizer.normalizer is not None else text
        words = [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(plain)]
        return self._tidy(tokenizer.decoder.decode(words))

    def _tidy(self, text: str) -> str:
        if self._words:
            text = _QUOTED.sub(r'"\1"', _THOUSANDS.sub(r"\1,", _BLANK.sub("", text)))
        return text.strip()
