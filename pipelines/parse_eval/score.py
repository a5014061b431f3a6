"""How right a parse is: counts of words with the right part of speech, head and relation, over flat arrays.

UAS: words with the right head. LAS: and the right relation. UPOS: with the right part of speech. CLAS: LAS over
content words, those whose relation is none of the functional ones, as an F1 (a word may be one by the treebank and
not by the parser), always with main relations, as the CoNLL 2018 shared task counts it
(https://universaldependencies.org/conll18/evaluation.html).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from pipelines.ragged import Ints

FUNCTIONAL = ("aux", "case", "cc", "clf", "cop", "det", "mark", "punct")
"""Relations of words that are no content words."""

Strings = NDArray[np.object_]


@dataclass(frozen=True)
class Trees:
    """Trees of D words. `heads` int64[D] are indices into the same arrays, a root its own, -1 not parsed;
    relations and parts of speech are strings, "" for none."""

    heads: Ints
    deprels: Strings
    pos: Strings


@dataclass(frozen=True)
class Counts:
    """Numbers of words. Add counts of several treebanks with `+`."""

    words: int = 0  # scored
    upos: int = 0  # of them right, and so on
    tagged: int = 0  # of them with a part of speech in the treebank
    heads: int = 0
    labelled: int = 0
    content_gold: int = 0
    content_guess: int = 0
    content_right: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(**{name: value + getattr(other, name) for name, value in asdict(self).items()})

    def percents(self) -> dict[str, float | None]:
        """UPOS, UAS, LAS and CLAS, 0 to 100; None where there was no word to score."""
        content = self.content_gold + self.content_guess
        shares = {
            "upos": (self.upos, self.tagged),
            "uas": (self.heads, self.words),
            "las": (self.labelled, self.words),
            "clas": (2 * self.content_right, content),
        }
        return {name: 100 * right / of if of else None for name, (right, of) in shares.items()}


def count(
    gold: Trees,
    guess: Trees,
    same: Ints | None = None,
    *,
    scored: NDArray[np.bool_] | None = None,
    main_relations: bool = False,
) -> Counts:
    """Compare two trees over the same text, word by word.

    Args:
        gold, guess: D and E words.
        same: int64[D], for each word of `gold` the word of `guess` that is the same, -1 for none; without it
            the words are the same. A word without one is not scored; a head without one makes the head wrong.
        scored: bool[D], words that count (`not_punctuation`, say); all of them by default.
        main_relations: `nmod:tmod` is as good as `nmod`.
    """
    counted = np.ones(len(gold.heads), bool) if scored is None else scored.copy()
    place = np.arange(len(gold.heads)) if same is None else np.asarray(same)
    counted &= (place >= 0) & (gold.heads >= 0)
    words = np.flatnonzero(counted)
    other = place[words]
    head = place[gold.heads[words]]
    heads = (head >= 0) & (guess.heads[other] == head)
    gold_main, guess_main = main(gold.deprels[words]), main(guess.deprels[other])
    alike = gold_main == guess_main if main_relations else gold.deprels[words] == guess.deprels[other]
    content = np.array([~np.isin(labels.astype(str), FUNCTIONAL) for labels in (gold_main, guess_main)])
    tags = gold.pos[words]
    tagged = (tags != "").astype(bool)
    return Counts(
        words=len(words),
        upos=int((tagged & (tags == guess.pos[other])).sum()),
        tagged=int(tagged.sum()),
        heads=int(heads.sum()),
        labelled=int((heads & alike).sum()),
        content_gold=int(content[0].sum()),
        content_guess=int(content[1].sum()),
        content_right=int((content[0] & heads & (gold_main == guess_main)).sum()),
    )


def main(deprels: Strings) -> Strings:
    """Relations without their subtypes."""
    return strings([label.partition(":")[0] for label in deprels])


def strings(values: Sequence[str]) -> Strings:
    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made


def not_punctuation(forms: Sequence[str]) -> NDArray[np.bool_]:
    """Words with a character other than punctuation: what the CoNLL 2007 shared task scores."""
    return np.array(
        [not all(unicodedata.category(char).startswith("P") for char in form) for form in forms], dtype=bool
    )
