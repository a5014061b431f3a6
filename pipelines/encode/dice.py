"""Random choices that are a function of their key and nothing else.

BLAKE2b in counter mode: the same draws on every machine, Python and numpy version, whatever ran
before and in which process.
"""

from __future__ import annotations

import hashlib
import struct


class Dice:
    """A stream of draws named by `key`, for instance (seed, duplicate number, document id)."""

    def __init__(self, *key: str | int) -> None:
        text = "\x1f".join(str(part) for part in key)
        self._key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32).digest()
        self._count = 0
        self._pool: tuple[int, ...] = ()

    def bits(self) -> int:
        """64 random bits."""
        at = self._count % 8
        if at == 0:
            block = (self._count // 8).to_bytes(8, "little")
            self._pool = struct.unpack("<8Q", hashlib.blake2b(block, key=self._key).digest())
        self._count += 1
        return self._pool[at]

    def below(self, count: int) -> int:
        """A number in [0, count), each as likely (to within count / 2**64)."""
        return (self.bits() * count) >> 64

    def chance(self, share: float) -> bool:
        """True with probability `share`."""
        return self.bits() < share * 2.0**64

    def coins(self, count: int) -> int:
        """How many of `count` coins show heads."""
        whole, rest = divmod(count, 64)
        heads = sum(self.bits().bit_count() for _ in range(whole))
        return heads + (self.bits() >> (64 - rest)).bit_count() if rest else heads
