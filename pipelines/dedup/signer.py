"""From texts to what is compared: a hash of the folded text, keys of its bands, and its shingles.

A batch of texts is computed as one; a very long text goes slice by slice, so that it takes little more
memory than itself. Both give the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.dedup.folding import Codes, Folded, code_points, fold
from pipelines.dedup.hashing import Hashes
from pipelines.dedup.minhash import Banding, band_keys, signatures
from pipelines.dedup.shingles import Sets, shingle_sets, words
from pipelines.dedup.sketch import MOST
from pipelines.ragged import bounds

SLICE = 1 << 20
"""Characters of a long text that are gone through at a time; a word ends there at the latest."""

_NO_CODES: Codes = np.zeros(0, np.uint32)
_NO_HASHES: Hashes = np.zeros(0, np.uint64)


class Signed(NamedTuple):
    """What D texts are compared by."""

    digests: list[bytes]
    """16 bytes of BLAKE2b of each folded text; of the text as it is where folding leaves nothing of it; b"" where
    it is blank. Texts of different languages differ."""
    keys: Hashes
    """uint64[bands, D]; of no meaning where a set is empty."""
    sets: Sets
    """Shingles of each text, the smallest `MOST` of them."""
    cut: NDArray[np.bool_]
    """Whether a text has more."""


class Signer:
    """The rule for the texts of one language.

    Args:
        language: such as `zh`.
        banding: None where only equal texts are looked for: there are no keys then, and all sets are empty.
        characters: shingles of characters rather than of words.
        n: characters or words in a shingle.
    """

    def __init__(self, language: str, banding: Banding | None, *, characters: bool, n: int) -> None:
        self._person = hashlib.blake2b(language.encode(), digest_size=16).digest()
        self._salt = int.from_bytes(self._person[:8], "little")
        self._banding, self._characters, self._n = banding, characters, n

    def sign(self, texts: Sequence[str], slice_size: int = SLICE) -> Signed:
        """Sign texts; one longer than `slice_size` characters must come alone."""
        if len(texts) == 1 and len(texts[0]) > slice_size:
            return self._long(texts[0], slice_size)
        return self._batch(texts)

    def _batch(self, texts: Sequence[str]) -> Signed:
        folded = fold(code_points("".join(texts)), bounds([len(text) for text in texts]))
        data, edges = folded.codes.data.cast("B"), (4 * folded.offsets).tolist()
        digests = [
            self._hash(data[start:stop]).digest() if start < stop else self._of_unfolded(text)
            for text, start, stop in zip(texts, edges[:-1], edges[1:], strict=True)
        ]
        if self._banding is None:
            return self._signed(digests, None, Sets(_NO_CODES, np.zeros_like(folded.offsets)), _NO_HASHES)
        units, offsets = (folded.codes, folded.offsets) if self._characters else words(folded)
        sets, lone = shingle_sets(units, offsets, self._n)
        return self._signed(digests, signatures(sets, self._banding.permutations), sets, lone)

    def _long(self, text: str, size: int) -> Signed:
        digest, empty = self._hash(), self._hash().digest()

        def slices() -> Iterator[Folded]:
            for at in range(0, len(text), size):
                codes = code_points(text[at : at + size])
                folded = fold(codes, np.array([0, len(codes)]))
                digest.update(folded.codes)
                yield folded

        smallest, values, lone = None, _NO_CODES, np.zeros(1, np.uint64)
        for units in _overlapping(
            slices() if self._characters else _whole_words(slices(), size), self._units, self._n
        ):
            if self._banding is not None:
                sets, lone = shingle_sets(units, np.array([0, len(units)]), self._n)
                found = signatures(sets, self._banding.permutations)
                smallest = found if smallest is None else np.minimum(smallest, found)
                # One more than is kept, to know whether there are more.
                values = np.union1d(values, sets.values[: MOST + 1])[: MOST + 1]
        digests = [self._of_unfolded(text) if digest.digest() == empty else digest.digest()]
        if smallest is None and self._banding is not None:
            smallest = np.zeros((self._banding.permutations, 1), np.uint32)
        lone = lone if len(values) == 1 else np.zeros_like(lone)
        return self._signed(digests, smallest, Sets(values, np.array([0, len(values)])), lone)

    def _units(self, folded: Folded) -> Any:
        return folded.codes if self._characters else words(folded)[0]

    def _signed(
        self, digests: list[bytes], found: NDArray[np.uint32] | None, sets: Sets, lone: Hashes
    ) -> Signed:
        if self._banding is None or found is None:
            keys: Hashes = np.zeros((0, len(digests)), np.uint64)
        else:
            keys = band_keys(found, self._banding, lone, self._salt)
        return Signed(digests, keys, sets.head(MOST), sets.sizes > MOST)

    def _hash(self, data: Any = b"") -> Any:
        return hashlib.blake2b(data, digest_size=16, person=self._person)

    def _of_unfolded(self, text: str) -> bytes:
        """Of a text that is nothing but punctuation: as it is, so that `...` and `!!!` are not the same."""
        if not text or text.isspace():
            return b""
        return self._hash(b"\0" + text.encode("utf-8", "surrogatepass")).digest()


def _whole_words(slices: Iterator[Folded], most: int) -> Iterator[Folded]:
    """Slices that end where a word does: a word cut by a slice's end goes to the next one."""
    tail = _NO_CODES
    for folded in slices:
        codes = np.concatenate([tail, folded.codes])
        breaks = folded.breaks + len(tail)
        last = int(breaks[-1]) if len(breaks) else 0
        if last == 0 and len(codes) > most:
            last = len(codes)
        yield Folded(codes[:last], np.array([0, last]), breaks[breaks < last])
        tail = codes[last:]
    yield Folded(tail, np.array([0, len(tail)]), np.zeros(0, np.int64))


def _overlapping(slices: Iterator[Folded], units: Callable[[Folded], Any], n: int) -> Iterator[Any]:
    """Units of successive slices, each with the last n - 1 of those before it in front: shingles go across."""
    held: Any = None
    any_yet = False
    for folded in slices:
        new = units(folded)
        held = new if held is None else np.concatenate([held, new])
        if len(held) >= n:
            any_yet = True
            yield held
            held = held[len(held) - (n - 1) :]
    if not any_yet and held is not None and len(held):
        yield held
