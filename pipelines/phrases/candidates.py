"""Frequent n-grams that may be phrases: what their words must be, and how well the last one follows from the others."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.language import primary_language
from pipelines.phrases.config import PhrasesConfig, WordKind
from pipelines.phrases.model import Model
from pipelines.phrases.source import STAND_IN
from pipelines.stop_list import stop_list

Flags = NDArray[np.bool_]
_KINDS: dict[WordKind, str] = {"letters": r"\p{L}", "numbers": r"[\p{L}\p{N}]", "any": ""}
"""What must be found in a word."""
_LINKS = {"en": ["'s", "at", "by", "for", "from", "in", "of", "on", "the", "to", "’s"]}
"""Terms have no other function words inside than prepositions (Justeson and Katz 1995); names also these articles."""


class Candidates(NamedTuple):
    """n-grams of one length; n of them."""

    ids: NDArray[np.uint32]
    """[n, words], words in reading order, ids of the corpus's vocabulary"""
    counts: NDArray[np.uint64]
    """[n], how often each stands in the corpus"""
    probability: NDArray[np.float64]
    """[n], of the last word, given the words before it"""
    dependence: NDArray[np.float64]
    """[n], log10 of how many times more probable that is than the last word alone"""

    def where(self, rows: NDArray[np.bool_] | NDArray[np.integer]) -> Candidates:
        """Some of them."""
        return Candidates._make(column[rows] for column in self)


class WordRules:
    """Which words of a vocabulary a phrase may hold, at its ends and inside."""

    def __init__(
        self, vocabulary: pa.Array, kind: WordKind, stop: Iterable[str], links: Iterable[str] | None
    ) -> None:
        """`stop` words are no ends, and inside only those of `links`, or all without it; compared in lower case."""
        lowered = pc.utf8_lower(vocabulary)
        self._holds = flags(pc.match_substring_regex(vocabulary, _KINDS[kind])) & ~_among(
            vocabulary, [STAND_IN]
        )
        self._ends = ~_among(lowered, stop)
        self._inside = np.ones_like(self._ends) if links is None else self._ends | _among(lowered, links)

    def check(self, ids: NDArray[np.uint32]) -> tuple[Flags, Flags]:
        """Of n-grams [n, words], bool[n]: whether all words are of the kind, and whether all stand where they may."""
        inside = np.all(self._inside[ids[:, 1:-1]], axis=1)
        return np.all(self._holds[ids], axis=1), self._ends[ids[:, 0]] & self._ends[ids[:, -1]] & inside


def _among(words: pa.Array, some: Iterable[str]) -> Flags:
    return flags(pc.is_in(words, value_set=pa.array(sorted({word.lower() for word in some}), pa.string())))


def links(phrases: PhrasesConfig, language: str) -> list[str] | None:
    """Function words that may stand inside a phrase; None for all."""
    return _LINKS.get(primary_language(language)) if phrases.links is None else phrases.links


def stop_words(phrases: PhrasesConfig, language: str, config_path: str) -> frozenset[str]:
    """Words that a phrase neither begins nor ends with. Raises ConfigError for a file that cannot be read."""
    if phrases.stop is not None:
        return stop_list(phrases.stop, config_path, "phrases.stop", "word")
    try:
        return frozenset(
            importlib.import_module(f"spacy.lang.{primary_language(language)}.stop_words").STOP_WORDS
        )
    except ModuleNotFoundError:
        return frozenset()


def candidates(
    frequent: Iterable[pa.RecordBatch],
    vocabulary: pa.Array,
    rules: WordRules,
    model: Model,
    fell: Counter[str],
) -> Iterator[Candidates]:
    """Of frequent n-grams (`Estimation.frequent`) those that the rules allow, scored; some of one length at a time.

    `fell` counts all of them as `frequent`, and the others by what they failed: `characters`, `function_words`, and
    `unknown` for those whose last word the model does not know.
    """
    for batch in frequent:
        if not batch.num_rows:
            continue
        lists = batch["words"]
        words = np.diff(lists.offsets.to_numpy())
        flat, counts = lists.flatten().to_numpy(), batch["count"].to_numpy()
        starts = lists.offsets.to_numpy()[:-1] - lists.offsets[0].as_py()
        for length in np.unique(words).tolist():
            rows = np.flatnonzero(words == length)
            ids = flat[starts[rows][:, None] + np.arange(length)]
            of_kind, wanted = rules.check(ids)
            keep = of_kind & wanted
            ids = ids[keep]
            logs, alone = model.score([words.to_pylist() for words in spell(ids, vocabulary)])
            known = ~np.isnan(logs)
            fell.update(
                frequent=len(rows),
                characters=int((~of_kind).sum()),
                function_words=int((of_kind & ~wanted).sum()),
                unknown=int((~known).sum()),
            )
            found = Candidates(ids, counts[rows][keep], 10.0**logs, logs - alone)
            if known.any():
                yield found.where(known)


def spell(ids: NDArray[np.uint32], vocabulary: pa.Array) -> list[pa.Array]:
    """The words of n-grams [n, words]: all first words, all second words, ..."""
    return [vocabulary.take(pa.array(ids[:, place])) for place in range(ids.shape[1])]


def flags(values: pa.Array) -> Flags:
    """Arrow's truth values as numpy's."""
    return np.asarray(values.to_numpy(zero_copy_only=False), np.bool_)
