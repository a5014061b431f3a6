"""How a coarse vocabulary covers counted units: whole, by back-off to words and pieces, or not at all."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.encode.coarse import LACKING, CoarseVocabulary
from pipelines.encode.tokenizer import Tokenizer
from pipelines.ragged import Ints
from pipelines.vocab.counts import Counts, added


class Coverage:
    """A vocabulary and the tokenizer that it is made for."""

    def __init__(self, tokenizer: Tokenizer, path: str) -> None:
        self._tokenizer = tokenizer
        self._vocabulary = CoarseVocabulary(path, "", tokenizer)

    def of(self, units: Counts) -> dict[str, int]:
        """What units that are counted become.

        `units`, and `phrases` among them, of which `phrases_whole` are one coarse token. All others are `words`, of
        which `words_whole` are one coarse token, `words_in_pieces` several, `words_unknown` [UNK]. `tokens`: coarse
        ones; `characters` (without white space), of which `characters_whole` are in phrases and words that are one.
        """
        assert units.phrases is not None
        is_phrase = units.phrases
        whole = is_phrase & self._known(units.texts)
        fell = units.chosen(is_phrase & ~whole)
        parts = pc.split_pattern(fell.texts, " ")
        more = Counts(parts.flatten(), np.repeat(fell.counts, pc.list_value_length(parts).to_numpy()))
        words = added([units.chosen(~is_phrase)._replace(phrases=None), more])
        known = self._known(words.texts)
        left = words.chosen(~known)
        ids, offsets = self._tokenizer.encode_ids(left.texts.to_pylist())
        lacking = np.append(0, np.cumsum(self._vocabulary.pieces[ids] == LACKING))
        in_pieces = lacking[offsets[1:]] == lacking[offsets[:-1]]
        sizes = np.where(in_pieces, np.diff(offsets), 1)
        phrases, one = units.chosen(whole), words.chosen(known)
        found = {
            "units": units.counts.sum(),
            "phrases": units.counts[is_phrase].sum(),
            "phrases_whole": phrases.counts.sum(),
            "words": words.counts.sum(),
            "words_whole": one.counts.sum(),
            "words_in_pieces": left.counts[in_pieces].sum(),
            "words_unknown": left.counts[~in_pieces].sum(),
            "tokens": phrases.counts.sum() + one.counts.sum() + (left.counts * sizes).sum(),
            "characters": (_sizes(units.texts) * units.counts).sum(),
            "characters_whole": sum((_sizes(some.texts) * some.counts).sum() for some in (phrases, one)),
        }
        return {name: int(value) for name, value in found.items()}

    def _known(self, texts: pa.StringArray) -> np.ndarray:
        return self._vocabulary.look_up(texts.to_pylist()) != LACKING


def _sizes(texts: pa.StringArray) -> Ints:
    """Characters that are no spaces."""
    spaces = pc.count_substring(texts, " ").to_numpy()
    return np.asarray(pc.utf8_length(texts).to_numpy() - spaces, np.int64)
