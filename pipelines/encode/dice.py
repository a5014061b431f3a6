"""Random choices that are a function of their key and nothing else.

BLAKE2b in counter mode: the same draws on every machine, Python and numpy version, whatever ran
before and in which process.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import count

CERTAIN = 2.0**64
"""Greater than any draw: `bits() < share * CERTAIN` with probability `share`."""
_EIGHT = struct.Struct("<8Q")


def _draws(key: bytes) -> Iterator[int]:
    """Numbers of 64 random bits, without end."""
    for block in count():
        yield from _EIGHT.unpack(blake2b(block.to_bytes(8, "little"), key=key).digest())


class Dice:
    """A stream of draws named by `key`, for instance (seed, duplicate number, document id)."""

    def __init__(self, *key: str | int) -> None:
        text = "\x1f".join(map(str, key))
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32).digest()
        self.bits: Callable[[], int] = _draws(digest).__next__
        """64 random bits."""

    def below(self, count: int) -> int:
        """A number in [0, count), each as likely (to within count / 2**64)."""
        return (self.bits() * count) >> 64

    def chance(self, share: float) -> bool:
        """True with probability `share`."""
        return self.bits() < share * CERTAIN

    def coins(self, count: int) -> int:
        """How many of `count` coins show heads."""
        whole, rest = divmod(count, 64)
        heads = sum(self.bits().bit_count() for _ in range(whole))
        return heads + (self.bits() >> (64 - rest)).bit_count() if rest else heads
