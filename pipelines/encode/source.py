"""Annotated documents as flat arrays: what stage 2 computes on.

The texts of a table are its documents' texts, followed, where the corpus has pairs, by their second texts:
n texts for m documents, n = m or 2m (`pipelines.encode.batch` makes distinct texts of them, and of choices texts
of their own). All words of all texts lie in one array, all tokens in another.

Shapes: n texts, N tokens, D words, S sentences. Offsets count characters of their own text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines import forest
from pipelines.encode.tokenizer import Tokens
from pipelines.ragged import Ints, bounds, ranges


@dataclass(frozen=True)
class Texts:
    """The n texts and where each begins if all were laid end to end."""

    strings: list[str]
    chars: Ints
    """[n+1], characters"""

    @cached_property
    def points(self) -> NDArray[np.uint32]:
        """Code points of all texts."""
        return np.frombuffer("".join(self.strings).encode("utf-32-le", "surrogatepass"), "<u4")


@dataclass(frozen=True)
class Words:
    """Words of n texts: text i has words `offsets[i]:offsets[i + 1]`."""

    offsets: Ints
    """[n+1]"""
    starts: Ints
    """[D], first character in its text"""
    stops: Ints
    """[D], one past the last"""
    sentences: Ints
    """[D], number of its sentence, counted over all texts"""
    heads: Ints | None
    """[D], index of the head in this array, a root its own; None where nothing was parsed"""
    deprels: NDArray[np.int16] | None
    """[D], relation to the head, an index into the dataset's relations"""


def read_texts(table: pa.Table, sides: Sequence[str]) -> Texts:
    """The texts of `table` (annotated documents); `sides` are `""` and, with pairs, `"_pair"`.

    A missing second text counts as empty: `table` still says which are missing.
    """
    columns = [pc.fill_null(table[f"text{side}"], "") for side in sides]
    lengths = [pc.utf8_length(c).to_numpy() for c in columns]
    strings = [text for column in columns for text in column.to_pylist()]
    return Texts(strings, bounds(np.concatenate(lengths)))


def read_words(table: pa.Table, sides: Sequence[str], chars: Ints, deprels: Sequence[str] | None) -> Words:
    """The words of all texts of `table`, with their trees if `deprels` (the dataset's relations) is given.

    Raises ValueError for a relation that `deprels` lacks.
    """
    starts, offsets = _all_sides(table, "word_starts", sides)
    stops, _ = _all_sides(table, "word_stops", sides)
    sentences, per_text = _all_sides(table, "sentence_starts", sides)
    base = chars[:-1]
    sentence = np.searchsorted(
        np.repeat(base, np.diff(per_text)) + sentences, np.repeat(base, np.diff(offsets)) + starts, "right"
    )
    heads = relations = None
    if deprels is not None:
        relative, _ = _all_sides(table, "word_heads", sides)
        heads = forest.absolute(relative, offsets)
        relations = np.concatenate([_relations(table[f"word_deprels{side}"], deprels) for side in sides])
    return Words(offsets, starts, stops, sentence.astype(np.int64), heads, relations)


def cut_words(words: Words, chars: Ints, texts: Ints, starts: Ints, stops: Ints) -> Words:
    """Words of k slices of texts, each slice a text of its own; slices may overlap and lie in any order.

    A word belongs to a slice that holds its first character, and ends with it at the latest; a head outside
    the slice makes its word a root.

    Args:
        chars: [n+1], as `Texts` has them.
        texts, starts, stops: [k], the text that each slice is of, and its characters.
    """
    keys = np.repeat(chars[:-1], np.diff(words.offsets)) + words.starts
    low = np.searchsorted(keys, chars[texts] + starts, "left")
    high = np.maximum(np.searchsorted(keys, chars[texts] + stops, "left"), low)
    sizes = high - low
    chosen = ranges(low, sizes)
    base, end = np.repeat(starts, sizes), np.repeat(stops - starts, sizes)
    return Words(
        offsets=bounds(sizes),
        starts=words.starts[chosen] - base,
        stops=np.minimum(words.stops[chosen] - base, end),
        sentences=words.sentences[chosen],
        heads=None if words.heads is None else forest.cut(words.heads, low, high)[0],
        deprels=None if words.deprels is None else words.deprels[chosen],
    )


def attach(tokens: Tokens, chars: Ints, words: Words) -> tuple[Words, Ints, int]:
    """Tie tokens to words: a token belongs to the word that holds its first character.

    Words without a token go; a word whose head went is attached to the nearest ancestor that
    stayed (`forest.drop_words`). A token whose first character is in no word goes to the next word of its
    text, or the one before.

    Returns:
        The words that stay, each with at least one token, all of them side by side; the word of
        each token, int64[N], rising within a text, -1 only in texts without words; the number of
        words that went.
    """
    word_keys = np.repeat(chars[:-1], np.diff(words.offsets)) + words.starts
    token_keys = np.repeat(chars[:-1], np.diff(tokens.offsets)) + tokens.starts
    word = np.searchsorted(word_keys, token_keys, "right") - 1
    if len(words.starts):
        word_ends = word_keys + (words.stops - words.starts)
        word[(word >= 0) & (word_ends[word] <= token_keys)] = -1
    keep = np.zeros(len(words.starts), dtype=bool)
    keep[word[word >= 0]] = True
    dropped = int(len(keep) - keep.sum())
    if dropped:
        position = np.append(np.cumsum(keep) - 1, -1)  # the last for tokens of no word
        word = position[word]
        words = Words(
            offsets=bounds(keep)[words.offsets],
            starts=words.starts[keep],
            stops=words.stops[keep],
            sentences=words.sentences[keep],
            heads=None if words.heads is None else forest.drop_words(words.heads, keep),
            deprels=None if words.deprels is None else words.deprels[keep],
        )
    return words, _adopt(tokens, words, word), dropped


def _adopt(tokens: Tokens, words: Words, word: Ints) -> Ints:
    """Give tokens of no word (whitespace that some tokenizers keep) to the next word, else the one before."""
    loose = np.flatnonzero(word < 0)
    if not len(loose):
        return word
    text = np.searchsorted(tokens.offsets, loose, "right") - 1
    tied = np.flatnonzero(word >= 0)
    at = np.searchsorted(tied, loose)
    known = np.append(word[tied], -1)  # -1 also where there is no word before or after
    after, before = known[np.minimum(at, len(tied))], known[at - 1]
    low, high = words.offsets[text], words.offsets[text + 1]
    adopted = word.copy()
    adopted[loose] = np.where((after >= low) & (after < high), after, np.where(before >= low, before, -1))
    return adopted


def flat_list(column: pa.ChunkedArray) -> tuple[Ints, Ints]:
    """A list column as values int64[N] and offsets int64[rows+1]; a null list is empty."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    chunks = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in column.chunks]
    values = np.concatenate([np.zeros(0, np.int64), *chunks]).astype(np.int64)
    return values, bounds(lengths)


def _all_sides(table: pa.Table, name: str, sides: Sequence[str]) -> tuple[Ints, Ints]:
    parts = [flat_list(table[f"{name}{side}"]) for side in sides]
    lengths = np.concatenate([np.diff(offsets) for _, offsets in parts])
    return np.concatenate([values for values, _ in parts]), bounds(lengths)


def _relations(column: pa.ChunkedArray, deprels: Sequence[str]) -> NDArray[np.int16]:
    """Dictionary codes of every chunk (each may have a dictionary of its own) as indices into `deprels`."""
    known = pa.array(deprels, pa.string())
    codes = [np.zeros(0, np.int16)]
    for chunk in column.chunks:
        flat = chunk.flatten()
        ours = pc.fill_null(pc.index_in(flat.dictionary, value_set=known), -1).to_numpy()
        mine = ours[flat.indices.to_numpy(zero_copy_only=False)] if len(flat) else ours[:0]
        if (mine < 0).any():
            name = flat[int(np.argmax(mine < 0))].as_py()
            raise ValueError(
                f"dependency relation {name!r} is not among those of the annotated documents' manifest: "
                f"{', '.join(deprels)}. Annotate the corpus again."
            )
        codes.append(mine.astype(np.int16))
    return np.concatenate(codes)
