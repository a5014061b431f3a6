"""What a model depends on beside the text, and where its files lie. Small: it crosses the runner."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from corpora import files
from corpora.blocks import Block, Part
from pipelines.ngrams.keys import Packing
from pipelines.sorted_runs import END, Run, Stretch, list_runs, whole, within

CODE_VERSION = 2
"""Raised whenever the same text would get other numbers."""

RANGE_ROWS = 4 << 20
"""Rows of the highest order in a range, before equal ones are added: 64 MiB, and a few times that in work."""
_KEYS = "keys"


@dataclass(frozen=True)
class Work:
    """The folder of a run under way, and what all its steps know."""

    folder: str
    order: int
    thresholds: tuple[int, ...]
    range_rows: int = RANGE_ROWS
    text: str = ""
    """Hash of what was read, once it is."""
    bits: int = 0
    """Of an id; known once the vocabulary is."""
    longest: int = 0
    """Words in the longest of the frequent n-grams that are handed out beside the model; 0 for none."""
    min_count: int = 1
    """A frequent n-gram stands in the corpus at least so often."""

    def __post_init__(self) -> None:
        if not 2 <= self.order <= 5:
            raise ValueError(f"order: expected 2, 3, 4 or 5, found {self.order}")
        if self.longest > self.order:
            raise ValueError(
                f"longest: expected at most the order, {self.order}, found {self.longest}; raise the order: what is "
                "longer is not counted"
            )

    @property
    def packing(self) -> Packing:
        return Packing(self.bits)

    def path(self, *names: str) -> str:
        result = self.folder
        for name in names:
            result = files.join(result, name)
        return result

    def file(self, kind: str, block: Block, suffix: str) -> str:
        """A block's file of some kind."""
        return self.path(kind, block.shard_name.removesuffix(".arrow") + suffix)

    def window(self, kind: str, block: Block, window: int, suffix: str) -> str:
        """The file of a part of a block."""
        return self.file(kind, block, f"-{window:05d}{suffix}")

    def runs(self, kind: str, columns: int | None = None) -> list[Run]:
        return list_runs(self.path(kind), self.columns if columns is None else columns)

    @property
    def columns(self) -> int:
        """Of a key of the highest order."""
        return self.packing.columns(self.order)

    def of_range(self, kind: str, order: int, block: Block) -> list[Stretch]:
        """What the runs of a kind, of keys of an order, hold of a range."""
        return within(whole(self.runs(kind, self.packing.columns(order))), *range_of(block))

    def fingerprint(self, step: str, *more: Any) -> str:
        facts = [
            CODE_VERSION,
            step,
            self.order,
            self.thresholds,
            self.range_rows,
            self.text,
            self.bits,
            self.longest,
            self.min_count,
            *more,
        ]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def range_of(block: Block) -> tuple[int, int]:
    """Bounds of the keys of a range, which is a block of its own."""
    (part,) = block.parts
    assert part.stop is not None
    return part.start, part.stop


def range_blocks(bounds: Sequence[int], size: int) -> list[Block]:
    """Ranges between bounds as blocks, that cover all keys; `size` is the number of bytes in all."""
    edges = [0, *bounds, END]
    count = len(edges) - 1
    return [
        Block(_KEYS, i, count, (Part("", _KEYS, edges[i], edges[i + 1]),), size // count)
        for i in range(count)
    ]
