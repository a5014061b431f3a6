"""From verdicts to the files a user reads: every dropped document, counts, and the largest clusters."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.dedup.numbering import Numbers, Order, block_of, record_of
from pipelines.dedup.resolve import Verdicts
from pipelines.dedup.result import EXACT, NEAR, SCHEMA, dropped_writer
from pipelines.dedup.signed import SignedDocuments
from pipelines.ragged import Ints

_CHUNK = 1 << 16
_CLUSTERS, _SHOWN = 20, 5
"""Clusters in the report, and dropped documents shown of each."""


class Writer:
    """Writes `dropped.arrow` and gathers what the report says."""

    def __init__(self, documents: SignedDocuments, order: Order) -> None:
        self._documents, self._order = documents, order
        blocks = [order.block(place) for place in range(sum(count for _, count in order.splits))]
        self._splits = pa.array([split for split, _, _ in blocks], pa.string())
        self._indices = np.array([index for _, index, _ in blocks], np.int32)
        self.counts: dict[str, Counter[str]] = {split: Counter() for split, _ in order.splits}

    def write(self, folder: str, verdicts: Verdicts) -> Any:
        """Write all verdicts; returns the ShardInfo of `dropped.arrow`."""
        with dropped_writer(folder) as sink:
            for at in range(0, len(verdicts.dropped), _CHUNK):
                sink.write(self.rows(Verdicts(*(column[at : at + _CHUNK] for column in verdicts))))
        return sink.result

    def rows(self, verdicts: Verdicts) -> pa.RecordBatch:
        """Rows of `dropped.arrow`; counts them by split and kind."""
        dropped, kept, signed = verdicts
        places = block_of(dropped)
        same, similarity = self._documents.compare(kept, signed)
        originals, which = np.unique(kept, return_inverse=True)
        label = self._documents.strings(dropped, "label")
        kept_label = self._documents.strings(originals, "label").take(pa.array(which))
        contradicts = pc.fill_null(pc.not_equal(label, kept_label), False).to_numpy(zero_copy_only=False)
        for place in np.unique(places).tolist():
            here = places == place
            self.counts[self._order.block(place)[0]].update(
                duplicates_exact=int(same[here].sum()),
                duplicates_near=int((~same[here]).sum()),
                contradictory_labels=int(contradicts[here].sum()),
            )
        kept_splits = self._splits.take(pa.array(block_of(kept)))
        columns = [
            self._splits.take(pa.array(places)),
            self._documents.strings(dropped, "doc_id"),
            pa.array(self._indices[places]),
            pa.array(record_of(dropped)),
            pa.array(kept_splits.to_pylist(), pa.string(), mask=block_of(kept) < self._order.others),
            self._documents.strings(originals, "doc_id").take(pa.array(which)),
            pa.array([NEAR, EXACT]).take(pa.array(same.astype(np.int8))),
            pa.array(similarity, pa.float32()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)

    def clusters(self, verdicts: Verdicts) -> list[dict[str, Any]]:
        """The largest clusters: what is kept, how many go for it, and some of those."""
        if not len(verdicts.dropped):
            return []
        originals, which, sizes = np.unique(verdicts.kept, return_inverse=True, return_counts=True)
        largest = np.lexsort((originals, -sizes))[:_CLUSTERS]
        found = []
        for cluster in largest.tolist():
            chosen = np.flatnonzero(which == cluster)[:_SHOWN]
            shown = Verdicts(*(column[chosen] for column in verdicts))
            kept = originals[cluster : cluster + 1]
            (original,) = self._shown(kept)
            same, similarity = self._documents.compare(shown.kept, shown.signed)
            examples = [
                {**who, "kind": EXACT if equal else NEAR, "similarity": round(float(share), 4)}
                for who, equal, share in zip(self._shown(shown.dropped), same, similarity, strict=True)
            ]
            found.append({"dropped": int(sizes[cluster]), "kept": original, "examples": examples})
        return found

    def _shown(self, numbers: Numbers) -> list[dict[str, Any]]:
        ids = self._documents.strings(numbers, "doc_id").to_pylist()
        texts = self._documents.strings(numbers, "excerpt").to_pylist()
        places = block_of(numbers).tolist()
        return [
            {
                "split": None if place < self._order.others else self._order.block(place)[0],
                "doc_id": doc_id,
                "excerpt": " ".join(text.split()),
            }
            for place, doc_id, text in zip(places, ids, texts, strict=True)
        ]


def losses(verdicts: Verdicts, order: Order) -> dict[str, list[int]]:
    """Of each own split how many documents each block loses."""
    total = sum(count for _, count in order.splits)
    lost: Ints = np.bincount(block_of(verdicts.dropped), minlength=total)
    found, at = {}, 0
    for split, count in order.splits:
        if at >= order.others:
            found[split] = lost[at : at + count].tolist()
        at += count
    return found


def size_histogram(verdicts: Verdicts) -> dict[str, int]:
    """How many clusters have how many members, the kept one included: `2`, `3-4`, `5-8`, ..."""
    _, sizes = np.unique(verdicts.kept, return_counts=True)
    steps = np.ceil(np.log2(sizes + 1)).astype(np.int64)
    counts = np.bincount(steps)
    names = {step: "2" if step == 1 else f"{2 ** (step - 1) + 1}-{2**step}" for step in range(1, len(counts))}
    return {names[step]: int(counts[step]) for step in names if counts[step]}


def to_json(report: dict[str, Any]) -> bytes:
    """The bytes of `report.json`."""
    return json.dumps(report, indent=1, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
