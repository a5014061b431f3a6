"""What a finished run leaves: `dropped.arrow`, `report.json`, and `manifest.json`, written last.

`dropped.arrow` has a row a dropped document, in the order of the corpus, so what a block loses is one stretch of it.
A worker reads that stretch of the memory-mapped file and no more, and checks the ids it finds there against
those of its records.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from corpora import files
from corpora.blocks import Block
from corpora.shards import MAX_BATCH_ROWS, ShardInfo, ShardWriter, open_shard
from pipelines.engine import RunError
from pipelines.folders import read_manifest_of

DROPPED, REPORT = "dropped.arrow", "report.json"
EXACT, NEAR = "exact", "near"
SCHEMA = pa.schema(
    [
        pa.field("split", pa.string(), nullable=False),
        pa.field("doc_id", pa.string(), nullable=False),
        # Where it stands: block of its split, and record within, both from 0.
        pa.field("block", pa.int32(), nullable=False),
        pa.field("record", pa.int64(), nullable=False),
        # The document that is kept for it; a null split is the other corpus.
        pa.field("kept_split", pa.string()),
        pa.field("kept_id", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        # Jaccard similarity of the shingles of the two; below the threshold where others stand between them.
        pa.field("similarity", pa.float32(), nullable=False),
    ]
)


def dropped_writer(folder: str) -> ShardWriter:
    """Writer of `dropped.arrow`, whose record batches all have `MAX_BATCH_ROWS` rows, but for the last one."""
    return ShardWriter(files.join(folder, DROPPED), SCHEMA, MAX_BATCH_ROWS, max_batch_bytes=1 << 40)


@dataclass(frozen=True)
class Result:
    """The manifest. Small: it goes to every worker."""

    fingerprint: str
    """Hash of the config, the plan and the code that led here."""
    blocks: dict[str, list[int]]
    """Of each split how many documents each block loses."""
    splits: dict[str, dict[str, int]]
    """Of each split, and of the other corpus: `documents`, `kept`, `duplicates_exact`, `duplicates_near`, and how
    many of these two have another label than what is kept: `contradictory_labels`."""
    dropped: ShardInfo
    inputs: list[dict[str, Any]]

    def to_json(self) -> bytes:
        body = {"stage": "dedup", **asdict(self)}
        return json.dumps(body, indent=1, ensure_ascii=False).encode() + b"\n"


def read_result(folder: str) -> Result | None:
    """The manifest of a folder; None where there is none, or one that is damaged."""
    return read_manifest_of(
        folder, "dedup", lambda body: Result(**{**body, "dropped": ShardInfo(**body["dropped"])})
    )


@dataclass(frozen=True)
class Drops:
    """What workers ask which records of a block go."""

    folder: str
    result: Result

    def of(self, block: Block) -> BlockDrops:
        """Raises RunError where the plan has no such block."""
        counts = self.result.blocks.get(block.split, [])
        if len(counts) != block.count:
            raise RunError(
                f"{self.folder} is of another plan of the corpus; run the same command again with --overwrite"
            )
        names = list(self.result.blocks)
        before = [c for name in names[: names.index(block.split)] for c in self.result.blocks[name]]
        start, count = sum(before) + sum(counts[: block.index]), counts[block.index]
        path = files.join(self.folder, DROPPED)
        return BlockDrops(path, _read(path, start, count) if count else None)


def _read(path: str, start: int, count: int) -> pa.Table:
    """Rows of `dropped.arrow`, from the record batches that they lie in."""
    reader, first = open_shard(path), start // MAX_BATCH_ROWS
    last = (start + count - 1) // MAX_BATCH_ROWS
    table = pa.Table.from_batches([reader.get_batch(i) for i in range(first, last + 1)])
    return table.slice(start - first * MAX_BATCH_ROWS, count)


class BlockDrops:
    """Which records of one block go; asked for one table after another, in order."""

    def __init__(self, path: str, rows: pa.Table | None) -> None:
        self._path, self._rows = path, rows
        self._records = np.zeros(0, np.int64) if rows is None else rows["record"].to_numpy()
        self._at = 0

    def keep(self, doc_ids: pa.ChunkedArray) -> tuple[npt.NDArray[np.bool_], Counter[str]]:
        """bool[R] of the next R records, whether each stays, and how many go as what.

        Raises RunError where a record has another id than the one that was to go.
        """
        keep = np.ones(len(doc_ids), bool)
        low, high = np.searchsorted(self._records, [self._at, self._at + len(doc_ids)])
        counts: Counter[str] = Counter()
        if self._rows is not None and low < high:
            places = self._records[low:high] - self._at
            rows = self._rows.slice(low, high - low)
            if not pc.all(pc.equal(doc_ids.take(pa.array(places)), rows["doc_id"])).as_py():
                raise RunError(
                    f"{self._path} is of other documents than those that are read now; run again with --overwrite"
                )
            keep[places] = False
            kinds = pc.value_counts(rows["kind"])
            counts.update({f"duplicates_{k['values']}": k["counts"] for k in kinds.to_pylist()})
        self._at += len(doc_ids)
        return keep, counts
