"""Which candidates are phrases, and in which order.

*Gain*, the default rank, is count * (log10 p(last | before) - log10 p(last)): how many digits of the last words'
improbability the words before save over the whole corpus. It is the main term of Dunning's likelihood ratio (1993),
so neither a rare pair that always stands together nor a frequent one of independent words comes out on top.
`probability`, AMBERT's own measure, alone favours rare phrases: those seen five times, and always together.

*A multiword unit*, which a phrase should be, is a name, term, compound, idiom or fixed expression whose words form one
unit that a dictionary, an encyclopedia or a list of terms could list: `world war ii`, `amino acids`, `take place`.
A free combination (`france and spain`, `best known`) is none, and neither is a piece of a unit (`york city`).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.phrases.candidates import Candidates, flags, spell
from pipelines.phrases.config import PhrasesConfig, Rank

_SHOWN = 20
"""Phrases kept on each side of a limit, for the report."""
Score = Callable[[Candidates], NDArray[np.float64]]
Row = tuple[str, int, float, float]
"""A phrase, its count, probability and dependence."""
_SCORES: dict[Rank, Score] = {
    "gain": lambda c: c.counts * c.dependence,
    "probability": lambda c: c.probability,
    "dependence": lambda c: c.dependence,
    "count": lambda c: c.counts.astype(np.float64),
}


class Phrases(NamedTuple):
    """n phrases."""

    texts: pa.Array
    """string[n], words parted by a space"""
    counts: NDArray[np.uint64]
    probability: NDArray[np.float64]
    dependence: NDArray[np.float64]

    @classmethod
    def of(cls, some: Candidates, vocabulary: pa.Array) -> Phrases:
        return cls(pc.binary_join_element_wise(*spell(some.ids, vocabulary), " "), *some[1:])

    def rows(self, start: int = 0, stop: int | None = None) -> list[Row]:
        """Those from `start` to before `stop`."""
        part = slice(start, stop)
        return list(zip(self.texts[part].to_pylist(), *(c[part].tolist() for c in self[1:]), strict=True))


class Selection(NamedTuple):
    """What came of all candidates."""

    phrases: Phrases
    """In rank order."""
    borders: dict[str, list[Row]]
    """Under the name of each limit some phrases that just passed it, under `below <name>` some that just failed."""


def select(
    scored: Iterable[Candidates], phrases: PhrasesConfig, vocabulary: pa.Array, fell: Counter[str]
) -> Selection:
    """The phrases of a corpus; holds those candidates that are above the thresholds.

    Args:
        fell: counts the others by what they failed: `min_probability`, `min_dependence`, `max_inside`, `size`.
    """
    kept: dict[int, list[Candidates]] = {}
    borders = _Borders(vocabulary)
    for some in scored:
        for name, score, least in (
            ("min_probability", _SCORES["probability"], phrases.min_probability),
            ("min_dependence", _SCORES["dependence"], phrases.min_dependence),
        ):
            passed = score(some) >= least
            borders.see(f"below {name}", some.where(~passed), score, largest=True)
            fell[name] += int((~passed).sum())
            some = some.where(passed)
        kept.setdefault(some.ids.shape[1], []).append(some)
    held = {
        n: Candidates(*map(np.concatenate, zip(*parts, strict=True))) for n, parts in sorted(kept.items())
    }
    for length, whole in whole_phrases(held, phrases.max_inside).items():
        borders.see("below max_inside", held[length].where(~whole), _SCORES["gain"], largest=True)
        fell["max_inside"] += int((~whole).sum())
        held[length] = held[length].where(whole)
        for name, by in (
            ("min_count", "count"),
            ("min_probability", "probability"),
            ("min_dependence", "dependence"),
        ):
            borders.see(name, held[length], _SCORES[by], largest=False)  # type: ignore[index]
    ranked, size = _ranked(held.values(), _SCORES[phrases.rank], vocabulary), phrases.size
    fell["size"] += max(0, len(ranked.counts) - size)
    shown = borders.rows()
    if len(ranked.counts) > size:
        shown |= {
            "size": ranked.rows(max(0, size - _SHOWN), size),
            "below size": ranked.rows(size, size + _SHOWN),
        }
    return Selection(Phrases._make(column[:size] for column in ranked), shown)


def whole_phrases(held: dict[int, Candidates], most: float) -> dict[int, NDArray[np.bool_]]:
    """Of candidates by length, whether at most such a share of each one's occurrences lies in one longer candidate."""
    largest = {length: np.zeros(len(some.counts), np.uint64) for length, some in held.items()}
    for length, some in held.items():
        for short in (n for n in held if n < length):
            known = _values(held[short].ids)
            for at in range(length - short + 1):
                found = pc.index_in(_values(some.ids[:, at : at + short]), value_set=known)
                inside = some.counts[flags(found.is_valid())]
                np.maximum.at(largest[short], found.drop_null().to_numpy(), inside)
    return {length: largest[length] <= most * some.counts for length, some in held.items()}


def _values(ids: NDArray[np.uint32]) -> pa.Array:
    """Rows of ids as values that can be looked up."""
    rows = np.ascontiguousarray(ids)
    return pa.Array.from_buffers(pa.binary(4 * ids.shape[1]), len(rows), [None, pa.py_buffer(rows)])


def _ranked(parts: Iterable[Candidates], score: Score, vocabulary: pa.Array) -> Phrases:
    """All of them, the highest score first; of equal ones as their text sorts."""
    every = [(score(some), *Phrases.of(some, vocabulary)) for some in parts]
    if not every:
        return Phrases(pa.array([], pa.string()), np.zeros(0, np.uint64), np.zeros(0), np.zeros(0))
    scores, texts, *numbers = zip(*every, strict=True)
    table = pa.table({"score": np.concatenate(scores), "text": pa.concat_arrays(texts)})
    order = pc.sort_indices(table, sort_keys=[("score", "descending"), ("text", "ascending")])
    rows = order.to_numpy()
    sorted_numbers = (np.concatenate(some)[rows] for some in numbers)
    return Phrases._make([table["text"].combine_chunks().take(order), *sorted_numbers])


class _Borders:
    """The few candidates nearest to each limit."""

    def __init__(self, vocabulary: pa.Array) -> None:
        self._vocabulary = vocabulary
        self._nearest: dict[str, list[tuple[float, Row]]] = {}

    def see(self, name: str, some: Candidates, score: Score, *, largest: bool) -> None:
        """Those of the largest or least scores stay, of equal ones as their text sorts."""
        distances = -score(some) if largest else score(some)
        if len(distances) > _SHOWN:
            near = distances <= np.partition(distances, _SHOWN - 1)[_SHOWN - 1]
            some, distances = some.where(near), distances[near]
        if len(distances):
            rows = zip(distances.tolist(), Phrases.of(some, self._vocabulary).rows(), strict=True)
            self._nearest[name] = heapq.nsmallest(_SHOWN, [*self._nearest.get(name, []), *rows])

    def rows(self) -> dict[str, list[Row]]:
        return {name: [row for _, row in found] for name, found in self._nearest.items()}
