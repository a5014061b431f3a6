"""A batch of annotated documents as stage 2 computes on it: distinct texts and their words, and who uses them.

Questions share their passage, and premises their sentences: texts of a batch that are equal, annotations
included, are one text, tokenized and looked up once. Every document names its texts by number.

Shapes: m documents, n texts, P pairs (rows to be, before they are cut or windowed), N choices of all documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from corpora.schema import Task
from pipelines.encode.assemble import NONE
from pipelines.encode.source import Texts, Words, cut_words, flat_list, read_texts, read_words
from pipelines.ragged import Ints, bounds, ranges

_EACH_ITS_OWN = ("pretrain", "tag")
"""Tasks whose documents are used by position: text i is that of document i."""


@dataclass(frozen=True)
class Batch:
    """Documents with their distinct texts."""

    table: pa.Table
    split: str
    texts: Texts
    pairs: Ints
    """[P, 2], text of segment A and of segment B; -1 without a second text"""
    owners: Ints
    """[P], document of each pair, rising; a document of `choice` has a pair a choice"""
    words: Words | None
    """Of the n texts; None where nobody asks for words"""


def read_batch(
    table: pa.Table,
    split: str,
    task: Task,
    sides: Sequence[str],
    *,
    words: bool,
    deprels: Sequence[str] | None,
) -> Batch:
    """The texts of `table` (annotated documents).

    Args:
        sides: `""` and, with pairs, `"_pair"`.
        words: whether words are wanted; `deprels` (the dataset's relations): whether their trees are.

    Raises ValueError for a relation that `deprels` lacks.
    """
    texts, count = read_texts(table, sides), len(table)
    found = read_words(table, sides, texts.chars, deprels) if words else None
    owners = np.arange(count)
    pairs = np.full((count, 2), NONE, np.int64)
    pairs[:, 0] = owners
    if task == "choice":
        starts, offsets = flat_list(table["choice_starts"])
        stops, _ = flat_list(table["choice_stops"])
        owners = np.repeat(owners, np.diff(offsets))
        texts, found = _with_choices(texts, found, owners, starts, stops, count)
        pairs = np.stack((owners, count + np.arange(len(owners))), axis=1)
    elif len(sides) == 2:
        present = table["text_pair"].is_valid().to_numpy()
        pairs[present, 1] = count + np.flatnonzero(present)
    if task not in _EACH_ITS_OWN:
        texts, found, which = distinct(texts, found)
        pairs = np.append(which, NONE)[pairs]
    return Batch(table, split, texts, pairs, owners, found)


def _with_choices(
    texts: Texts, words: Words | None, owners: Ints, starts: Ints, stops: Ints, count: int
) -> tuple[Texts, Words | None]:
    """The first texts of m documents, followed by every choice as a text of its own.

    Args:
        owners: [N], document of each choice; starts, stops: [N], characters in its second text.
    """
    spans = zip(owners.tolist(), starts.tolist(), stops.tolist(), strict=True)
    strings = texts.strings[:count] + [texts.strings[count + i][a:b] for i, a, b in spans]
    lengths = np.concatenate((np.diff(texts.chars)[:count], stops - starts))
    if words is not None:
        slots = np.concatenate((np.arange(count), count + owners))
        begins = np.concatenate((np.zeros(count, np.int64), starts))
        words = cut_words(words, texts.chars, slots, begins, begins + lengths)
    return Texts(strings, bounds(lengths)), words


def distinct(texts: Texts, words: Words | None) -> tuple[Texts, Words | None, Ints]:
    """Each different text once, in order of its first place; and the number that each of n texts has there.

    Texts are equal if their characters are, and their sentences, words and trees. One that is annotated otherwise
    than the first of its characters stays by itself.
    """
    first: dict[str, int] = {}
    like = np.fromiter(
        (first.setdefault(s, i) for i, s in enumerate(texts.strings)), np.int64, len(texts.strings)
    )
    count = len(like)
    again = np.flatnonzero(like != np.arange(count))
    if words is not None and len(again):
        differ = again[~_same_words(words, again, like[again])]
        like[differ] = differ
    kept = np.flatnonzero(like == np.arange(count))
    if len(kept) == count:
        return texts, words, like
    lengths = np.diff(texts.chars)
    if words is not None:
        words = cut_words(words, texts.chars, kept, np.zeros(len(kept), np.int64), lengths[kept])
    which = np.zeros(count, np.int64)
    which[kept] = np.arange(len(kept))
    fewer = Texts([texts.strings[i] for i in kept.tolist()], bounds(lengths[kept]))
    return fewer, words, which[like]


def _same_words(words: Words, a: Ints, b: Ints) -> np.ndarray:
    """bool[k]: whether texts a[k] and b[k] have the same annotations; their characters are equal."""
    lengths = np.diff(words.offsets)
    same = lengths[a] == lengths[b]
    at = np.flatnonzero(same)
    sizes = lengths[a[at]]
    base_a, base_b = words.offsets[a[at]], words.offsets[b[at]]
    left, right = ranges(base_a, sizes), ranges(base_b, sizes)
    shift = np.repeat(base_a - base_b, sizes)
    differs = (words.starts[left] != words.starts[right]) | (words.stops[left] != words.stops[right])
    # Sentences are numbered over all texts: what counts is where a new one begins.
    begins = np.diff(words.sentences, prepend=-1) != 0
    begins[words.offsets[:-1][lengths > 0]] = True
    differs |= begins[left] != begins[right]
    if words.heads is not None:
        differs |= words.heads[left] - shift != words.heads[right]
    if words.deprels is not None:
        differs |= words.deprels[left] != words.deprels[right]
    same[at] = np.bincount(np.repeat(np.arange(len(at)), sizes), differs, len(at)) == 0
    return same
