"""Stage `match`: one worker a range of keys finds the pairs of documents that are duplicates.

Here a block is a range of keys, whose bounds stand in its one part. It gathers its stretch of every sorted run, so
that documents with an equal key come together, and compares those. Its shard has a row a pair.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corpora import files
from corpora.blocks import Block, Part
from pipelines.dedup.buckets import Search
from pipelines.dedup.numbering import Numbers, Order
from pipelines.dedup.runs import END, ROW_BYTES, Run, gather, list_runs
from pipelines.dedup.sign import RUNS
from pipelines.dedup.signed import SignedDocuments
from pipelines.engine import BlockWriter, Stage

CODE_VERSION = 1
PAIRS = pa.schema(
    [
        pa.field("left", pa.uint64(), nullable=False),
        pa.field("right", pa.uint64(), nullable=False),
    ]
)
_RANGE_ROWS = 2 << 20
"""Rows of a range (32 MiB): half of what a worker may hold."""
_KEYS = "keys"


def key_ranges(runs: list[Run]) -> list[Block]:
    """Ranges of keys that cover all, each with about as many rows; how many depends on the rows alone."""
    rows = sum(run.rows for run in runs)
    count = max(1, -(-rows // _RANGE_ROWS))
    edges = [END * i // count for i in range(count + 1)]
    return [
        Block(_KEYS, i, count, (Part("", _KEYS, edges[i], edges[i + 1]),), rows * ROW_BYTES // count)
        for i in range(count)
    ]


class Match(Stage):
    """The stage, over a folder that the stage `sign` has filled."""

    name = "dedup-match"

    def __init__(
        self, folder: str, order: Order, threshold: float | None, *, within: bool, signed: str
    ) -> None:
        """`threshold` is None where only equal texts count; `signed` is the fingerprint of what lies in the folder."""
        self._folder, self._order, self._threshold = folder, order, threshold
        self._within, self._signed = within, signed
        self._documents: SignedDocuments | None = None
        self._runs: list[Run] = []

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_documents": None, "_runs": []}

    @property
    def fingerprint(self) -> str:
        facts = [CODE_VERSION, self._signed, self._threshold, self._within, self._order.splits]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def identities(self) -> dict[str, Any]:
        return {}

    def schema(self) -> pa.Schema:
        return PAIRS

    def setup(self) -> None:
        self._documents = SignedDocuments(self._folder, self._order)
        self._runs = list_runs(files.join(self._folder, RUNS))

    def process(self, block: Block, out: BlockWriter) -> None:
        (keys,) = block.parts
        assert keys.stop is not None
        search = Search(self._alike, None if self._within else self._order.first_own)
        for rows, goes_on in gather(self._runs, keys.start, keys.stop):
            pairs = search.find(rows, goes_on)
            out.write(pa.RecordBatch.from_arrays([pa.array(pairs.left), pa.array(pairs.right)], schema=PAIRS))
            out.count(keys=len(rows.keys), pairs=len(pairs.left))
        out.count(compared=search.compared, uncompared=search.uncompared)

    def _alike(self, left: Numbers, right: Numbers) -> NDArray[np.bool_]:
        assert self._documents is not None
        same, similarity = self._documents.compare(left, right)
        return same if self._threshold is None else similarity >= self._threshold
