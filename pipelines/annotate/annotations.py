"""Sentences, words and trees of many texts as flat arrays; one set serves every place a text stands in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from pipelines.annotate.tools import UPOS, relation
from pipelines.annotate.words import Ints, Spans
from pipelines.ragged import bounds, ranges


class Relations:
    """Names of relations and their codes, in the order in which they are first seen.

    A parser declares its own; those of a treebank are only known while it is read. So each table that is
    annotated has one of these, and the shard's dictionary grows by what the table really holds.
    """

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    @property
    def names(self) -> list[str]:
        return list(self._codes)

    def codes(self, labels: Sequence[str]) -> Ints:
        """Code of each label as we write it, int64."""
        names = (relation(label) for label in labels)
        return np.fromiter(
            (self._codes.setdefault(n, len(self._codes)) for n in names), np.int64, len(labels)
        )


@dataclass(frozen=True)
class Annotations:
    """Of R texts, of D words in all.

    Offsets are characters of the own text; `heads` int64[D] are words of the own text, a root its own;
    `deprels` int64[D] are codes of `Relations`, `pos` int16[D] of `UPOS`. These three are None without a parser.
    `repaired`, `cuts` int64[R]: words whose head had to change, boundaries that the length limit added.
    """

    sentences: Spans
    words: Spans
    heads: Ints | None
    deprels: Ints | None
    pos: NDArray[np.int16] | None
    repaired: Ints
    cuts: Ints

    def __len__(self) -> int:
        return len(self.repaired)

    def placed(self, which: ArrayLike, shifts: ArrayLike, rows: Ints) -> Annotations:
        """Rows put together of these texts: P pieces, `rows` int64[R+1] bounding those of each row.

        Piece p is the text `which[p]`, `shifts[p]` characters into its row's text.
        """
        chosen, by = np.asarray(which, np.int64), np.asarray(shifts, np.int64)
        words, at, offsets = _placed(self.words, chosen, by, rows)
        sentences, _, _ = _placed(self.sentences, chosen, by, rows)
        found = replace(
            self,
            sentences=sentences,
            words=words,
            repaired=_sums(self.repaired[chosen], rows),
            cuts=_sums(self.cuts[chosen], rows),
        )
        if self.heads is None or self.deprels is None or self.pos is None:
            return found
        before = offsets[:-1] - np.repeat(
            offsets[rows[:-1]], np.diff(rows)
        )  # words of the row before the piece
        heads = self.heads[at] + np.repeat(before, np.diff(offsets))
        return replace(found, heads=heads, deprels=self.deprels[at], pos=self.pos[at])

    def columns(self, relations: Relations) -> dict[str, pa.ListArray]:
        """Columns of the groups sentences, words and, with trees, parse. Raises ValueError for too many relations."""
        columns = {
            "sentence_starts": _lists(pa.array(self.sentences.starts, pa.int32()), self.sentences.offsets),
            "sentence_stops": _lists(pa.array(self.sentences.stops, pa.int32()), self.sentences.offsets),
            "word_starts": _lists(pa.array(self.words.starts, pa.int32()), self.words.offsets),
            "word_stops": _lists(pa.array(self.words.stops, pa.int32()), self.words.offsets),
        }
        if self.heads is not None and self.deprels is not None and self.pos is not None:
            values = {
                "word_heads": pa.array(self.heads, pa.int32()),
                "word_deprels": _dictionary(self.deprels, relations.names),
                "word_pos": _dictionary(self.pos, UPOS),
            }
            columns |= {name: _lists(array, self.words.offsets) for name, array in values.items()}
        return columns


def joined(parts: Sequence[Annotations]) -> Annotations:
    """The texts of all parts, in order; at least one part, all with trees or all without."""
    if len(parts) == 1:
        return parts[0]

    def whole(name: str) -> NDArray[np.generic] | None:
        arrays = [getattr(part, name) for part in parts]
        return None if arrays[0] is None else np.concatenate(arrays)

    return Annotations(
        sentences=_joined_spans([part.sentences for part in parts]),
        words=_joined_spans([part.words for part in parts]),
        **{name: whole(name) for name in ("heads", "deprels", "pos", "repaired", "cuts")},  # type: ignore[arg-type]
    )


def _joined_spans(parts: Sequence[Spans]) -> Spans:
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    starts, stops = ([getattr(part, name) for part in parts] for name in ("starts", "stops"))
    return Spans(np.concatenate(starts), np.concatenate(stops), bounds(lengths))


def _placed(spans: Spans, which: Ints, shifts: Ints, rows: Ints) -> tuple[Spans, Ints, Ints]:
    """The spans of the pieces; the index of each among the old ones; offsets of pieces, int64[P+1]."""
    lengths = np.diff(spans.offsets)[which]
    at = ranges(spans.offsets[:-1][which], lengths)
    by, offsets = np.repeat(shifts, lengths), bounds(lengths)
    return Spans(spans.starts[at] + by, spans.stops[at] + by, offsets[rows]), at, offsets


def _sums(values: Ints, rows: Ints) -> Ints:
    return np.diff(bounds(values)[rows])


def _lists(values: pa.Array, offsets: Ints) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


def _dictionary(codes: NDArray[np.integer], names: Sequence[str]) -> pa.DictionaryArray:
    if len(names) > 2**15:
        raise ValueError(
            f"the corpus has more than {2**15:,} dependency relations, such as {names[-1]!r}; "
            "expected names of relations, a few dozen: is another column read as theirs?"
        )
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int16()), pa.array(names, pa.string()))
