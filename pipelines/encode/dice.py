"""Random choices that are a function of their key and nothing else.

BLAKE2b in counter mode: the same draws on every machine, Python and numpy version, whatever ran
before and in which process.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from itertools import chain, count

Bits = Callable[[], int]
"""Gives 64 random bits."""

CERTAIN = 2.0**64
"""Greater than any draw: `bits() < share * CERTAIN` with probability `share`."""
_EIGHT = struct.Struct("<8Q")
_FIRST = bytes(8)


def streams(key: Iterable[str | int], names: Iterable[str]) -> Iterator[Bits]:
    """Draws of (*key, name), for instance (seed, duplicate number, document id), for each name."""
    common = blake2b("".join(f"{part}\x1f" for part in key).encode("utf-8", "surrogatepass"), digest_size=32)
    for name in names:
        hashed = common.copy()
        hashed.update(name.encode("utf-8", "surrogatepass"))
        secret = hashed.digest()
        # The first eight are there at once: most names need no more.
        first = _EIGHT.unpack(blake2b(_FIRST, key=secret).digest())
        yield chain(first, _later(secret)).__next__


def _later(secret: bytes) -> Iterator[int]:
    for block in count(1):
        yield from _EIGHT.unpack(blake2b(block.to_bytes(8, "little"), key=secret).digest())


def below(bits: Bits, count: int) -> int:
    """A number in [0, count), each as likely (to within count / 2**64)."""
    return (bits() * count) >> 64


def coins(bits: Bits, count: int) -> int:
    """How many of `count` coins show heads."""
    whole, rest = divmod(count, 64)
    heads = sum(bits().bit_count() for _ in range(whole))
    return heads + (bits() >> (64 - rest)).bit_count() if rest else heads
