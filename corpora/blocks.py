"""A block: the unit of work, and later the shard. Small, so that it can cross any runner."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Part:
    """A byte range of a file: the records whose first byte is in [start, stop); None = to its end.

    `path` opens the file; `name` is what the config calls it and what ids and rejects say.
    """

    path: str
    name: str
    start: int
    stop: int | None
    sha256: str = ""
    """Hash (hex) that the file must have, where that is known: a shard of an earlier stage."""
    pair: Part | None = None
    """Of a source file: the range of its target file that holds the same lines."""


@dataclass(frozen=True)
class Block:
    """The `index`-th of `count` units of work of a split; `bytes` as stored."""

    split: str
    index: int
    count: int
    parts: tuple[Part, ...]
    bytes: int

    def to_json(self) -> str:
        """What crosses the runner."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, raw: str) -> Block:
        body = json.loads(raw)
        return cls(**{**body, "parts": tuple(_part(part) for part in body["parts"])})

    @property
    def shard_name(self) -> str:
        return f"{self.split}-{self.index:05d}-of-{self.count:05d}.arrow"


def _part(body: dict[str, Any]) -> Part:
    return Part(**{**body, "pair": _part(body["pair"]) if body.get("pair") else None})
