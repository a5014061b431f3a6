"""Stage `sign`: each block says of its documents what they are to be compared by.

A block's shard has a row a document, in order (`SIGNED`); beside the shards lie its sorted runs of
(key, number): a key for the folded text itself, and one for each band of the signature. A document whose text
stood in the same window of the block before has no keys of its own: it goes where the first one goes,
so a text that is repeated a million times costs a million hashes and no more.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from corpora import files
from corpora.blocks import Block
from corpora.layout import InputConfig
from corpora.readers import read_block
from corpora.records import Reject
from corpora.schema import Task
from pipelines.dedup.config import DedupConfig
from pipelines.dedup.hashing import Hashes
from pipelines.dedup.minhash import Banding
from pipelines.dedup.numbering import Numbers, numbers
from pipelines.dedup.runs import write_run
from pipelines.dedup.shingles import Sets
from pipelines.dedup.signer import Signed, Signer
from pipelines.engine import BlockWriter, Stage
from pipelines.language import UNSPACED, primary_language
from pipelines.ragged import bounds
from pipelines.settings import facts_hash

CODE_VERSION = 1
"""Raised whenever the same documents would get other hashes, keys or shingles."""

RUNS = "runs"
SIGNED = pa.schema(
    [
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("excerpt", pa.string(), nullable=False),
        pa.field("label", pa.string()),  # of a labelled text
        # 128 bits of the folded text; both 0 for a blank one, which is never a duplicate.
        pa.field("digest_high", pa.uint64(), nullable=False),
        pa.field("digest_low", pa.uint64(), nullable=False),
        # Record of the block that has the same text and stands in for this one; most stand for themselves.
        pa.field("first", pa.int64(), nullable=False),
        pa.field("sketch", pa.list_(pa.field("item", pa.uint32(), nullable=False)), nullable=False),
        # Whether the document has more shingles than the sketch.
        pa.field("cut", pa.bool_(), nullable=False),
    ]
)
_TABLE_BYTES, _TABLE_ROWS = 2**20, 2**15
"""Text and documents signed at a time; a signature takes 280 bytes, however short the text."""
_EXCERPT_CHARS = 80
_WINDOW_ROWS, _WINDOW_TEXTS = 2**21, 2**18
"""Rows of a run (32 MiB), and different texts in it, which are held until it is sorted."""
_PAIR = " \U0010ffff "
"""Between the two texts of a pair: no character that a text holds."""


class Source:
    """How one of the corpora is read, and the number of its first block. Small: it crosses the runner."""

    def __init__(self, layout: InputConfig, task: Task, first_blocks: Mapping[str, int]) -> None:
        self.layout, self.task, self.first_blocks = layout, task, dict(first_blocks)


class Sign(Stage):
    """The stage; `sources` are this corpus and, before it, the other one if there is one."""

    name = "dedup-sign"

    def __init__(self, dedup: DedupConfig, language: str, sources: Sequence[Source], out: str) -> None:
        self._dedup, self._language, self._sources, self._out = dedup, language, list(sources), out
        self._signers: dict[str, Signer] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_signers": {}}

    @property
    def fingerprint(self) -> str:
        facts = {
            "code": CODE_VERSION,
            "versions": {"treegraft": version("treegraft"), "unicode": unicodedata.unidata_version},
            "language": self._language,
            "dedup": self._dedup.model_dump(mode="json", exclude={"threshold", "within", "against"}),
            "banding": self._banding,
            "sources": [[s.layout.model_dump(mode="json", exclude={"files"}), s.task] for s in self._sources],
        }
        return facts_hash(facts)

    def identities(self) -> dict[str, Any]:
        return {}

    def setup(self) -> None:
        self._signer(self._language)

    def schema(self) -> pa.Schema:
        return SIGNED

    @property
    def _banding(self) -> Banding | None:
        return Banding.of(self._dedup.threshold) if self._dedup.near else None

    def _signer(self, language: str) -> Signer:
        if language not in self._signers:
            unit = self._dedup.shingle
            characters = unit == "characters" or (unit == "auto" and language in UNSPACED)
            n = self._dedup.ngram or (5 if characters else 3)
            self._signers[language] = Signer(language, self._banding, characters=characters, n=n)
        return self._signers[language]

    def process(self, block: Block, out: BlockWriter) -> None:
        source = next(s for s in self._sources if block.split in s.first_blocks)
        window = _Window(block, source.first_blocks[block.split] + block.index, files.join(self._out, RUNS))
        others = source is not self._sources[-1]

        def reject(item: Reject) -> None:
            # Own bad records are the business of the stage that makes rows of the good ones.
            if others:
                out.reject(item)
            out.count(records=1)

        tables = read_block(
            block, source.layout, source.task, self._language, reject, batch_bytes=_TABLE_BYTES
        )
        for table in _slices(tables):
            signed = self._sign(table)
            first = window.add(signed)
            out.write(_rows(table, signed, first, window.records - table.num_rows))
            out.count(records=table.num_rows, documents=table.num_rows)
        window.flush()

    def _sign(self, table: pa.Table) -> Signed:
        """Sign the documents of a table, each by the rule of its language."""
        texts = table["text"].to_pylist()
        if "text_pair" in table.column_names and table["text_pair"].null_count < len(texts):
            pairs = table["text_pair"].to_pylist()
            texts = [a if b is None else a + _PAIR + b for a, b in zip(texts, pairs, strict=True)]
        rows_of: dict[str, list[int]] = {}
        for row, tag in enumerate(table["language"].to_pylist()):
            rows_of.setdefault(primary_language(tag) if tag else self._language, []).append(row)
        parts = [self._signer(lang).sign([texts[r] for r in rows]) for lang, rows in rows_of.items()]
        if len(parts) == 1:
            return parts[0]
        return _in_order(parts, np.argsort(np.concatenate(list(rows_of.values())), kind="stable"))


def _slices(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    for table in tables:
        for start in range(0, table.num_rows, _TABLE_ROWS):
            yield table.slice(start, _TABLE_ROWS)


class _Window:
    """The rows of a block's next run, and what texts they come from."""

    def __init__(self, block: Block, ordinal: int, folder: str) -> None:
        self._folder, self._ordinal = folder, ordinal
        self._prefix = f"{ordinal:08d}-{block.shard_name.removesuffix('.arrow')}"
        self._runs = self.records = self._rows = 0
        self._seen: dict[bytes, int] = {}
        self._parts: list[tuple[Hashes, Numbers]] = []

    def add(self, signed: Signed) -> npt.NDArray[np.int64]:
        """Take documents in; int64[D], the record of the block that each goes with."""
        count = len(signed.digests)
        records = range(self.records, self.records + count)
        seen = self._seen
        first = [seen.setdefault(d, r) if d else r for d, r in zip(signed.digests, records, strict=True)]
        result = np.array(first, np.int64)
        own = numbers(self._ordinal, np.arange(count) + self.records)
        fresh = (result == np.array(records)) & np.array([bool(d) for d in signed.digests])
        shingled = fresh & (signed.sets.sizes > 0)
        self._add(_halves(signed.digests)[0][fresh], own[fresh])
        for band in signed.keys:
            self._add(band[shingled], own[shingled])
        self.records += count
        if self._rows >= _WINDOW_ROWS or len(self._seen) >= _WINDOW_TEXTS:
            self.flush()
        return result

    def _add(self, keys: Hashes, documents: Numbers) -> None:
        self._parts.append((keys, documents))
        self._rows += len(keys)

    def flush(self) -> None:
        """Write the run, if there is anything to write."""
        if self._rows:
            keys, documents = (np.concatenate(column) for column in zip(*self._parts, strict=True))
            write_run(files.join(self._folder, f"{self._prefix}-{self._runs:05d}.run"), keys, documents)
            self._runs += 1
        self._parts, self._rows = [], 0
        self._seen.clear()


def _rows(table: pa.Table, signed: Signed, first: npt.NDArray[np.int64], start: int) -> pa.RecordBatch:
    """Rows of SIGNED. A document that another one stands in for is never compared: it has no sketch."""
    high, low = _halves(signed.digests)
    alone = first == np.arange(start, start + len(first))
    sizes = np.where(alone, signed.sets.sizes, 0)
    sketch = pa.ListArray.from_arrays(
        pa.array(bounds(sizes), pa.int32()),
        pa.array(signed.sets.values[np.repeat(alone, signed.sets.sizes)]),
        type=SIGNED.field("sketch").type,
    )
    columns = [
        table["doc_id"].combine_chunks(),
        pc.utf8_slice_codeunits(table["text"], 0, _EXCERPT_CHARS).combine_chunks(),
        table["label"].combine_chunks(),
        pa.array(high),
        pa.array(low),
        pa.array(first),
        sketch,
        pa.array(signed.cut & alone),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SIGNED)


def _halves(digests: Sequence[bytes]) -> tuple[Hashes, Hashes]:
    """Upper and lower half of each digest, uint64; zeros for b""."""
    whole = np.frombuffer(b"".join(d or bytes(16) for d in digests), ">u8").reshape(-1, 2)
    return whole[:, 0].astype(np.uint64), whole[:, 1].astype(np.uint64)


def _in_order(parts: Sequence[Signed], order: npt.NDArray[np.int64]) -> Signed:
    """Signed texts of several languages, put into the order of their rows."""
    digests = [digest for part in parts for digest in part.digests]
    values = np.concatenate([part.sets.values for part in parts])
    sets = Sets(values, bounds(np.concatenate([part.sets.sizes for part in parts])))
    return Signed(
        [digests[place] for place in order.tolist()],
        np.concatenate([part.keys for part in parts], axis=1)[:, order],
        sets.take(order),
        np.concatenate([part.cut for part in parts])[order],
    )
