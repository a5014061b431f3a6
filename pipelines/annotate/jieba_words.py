"""Chinese words by jieba, sentence by sentence: its dictionary, and its model for unknown words."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from importlib.metadata import version
from typing import Any

import numpy as np

from pipelines.annotate.user_dict import read_user_dict, user_dict_bytes
from pipelines.annotate.words import Spans, Words, side_by_side


class JiebaWords:
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
        return side_by_side(forms, np.asarray(counts, dtype=np.int64), sentences)

    def zone(self) -> AbstractContextManager[Any]:
        return contextlib.nullcontext()


def _whole_word(word: str) -> str:
    """Pattern of a word that is not matched inside a longer run of letters or digits."""
    left = "(?<![A-Za-z0-9])" if re.match("[A-Za-z0-9]", word) else ""
    right = "(?![A-Za-z0-9])" if re.search("[A-Za-z0-9]$", word) else ""
    return left + re.escape(word) + right


def jieba_identity(user_dict: str | None) -> dict[str, Any]:
    """Name, version and hash of the dictionaries, found without loading them."""
    import jieba

    with jieba.Tokenizer().get_dict_file() as dictionary:
        digest = hashlib.sha256(dictionary.read())
    if user_dict is not None:
        digest.update(user_dict_bytes(user_dict))
    return {"name": "jieba", "version": version("jieba"), "sha256": digest.hexdigest()}
