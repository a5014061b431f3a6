"""The steps that go by range of keys: `adjust`, `weigh` and `interpolate`."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from corpora import files
from corpora.blocks import Block
from corpora.shards import open_shard
from pipelines.engine import BlockWriter
from pipelines.ngrams import arpa
from pipelines.ngrams.adjust import Grams, adjust
from pipelines.ngrams.by_block import COUNTED, Step
from pipelines.ngrams.columns import numpy_of, read_columns
from pipelines.ngrams.count import SPECIALS
from pipelines.ngrams.discounts import Amounts, counts_of_counts
from pipelines.ngrams.estimate import last_chain
from pipelines.ngrams.interpolate import backoffs, interpolate
from pipelines.ngrams.keys import Keys, argsort, find, take
from pipelines.ngrams.runs import Rows, add_up, cut, gather, write_run
from pipelines.ngrams.settings import Work, range_of
from pipelines.ngrams.weights import PRUNED, Floats, marked, plain, share, weigh_contexts
from pipelines.sorted_runs import within

BIGRAMS, CONTEXTS, SHARES, BACKOFFS, LINES = "bigrams", "contexts", "shares", "backoffs", "lines"
FREQUENT = "frequent"
WORD_SUMS = "words.arrow"
VOCABULARY = "vocabulary.arrow"
UNIGRAMS = pa.schema([pa.field(name, pa.uint64(), nullable=False) for name in ("word", "adjusted", "seen")])
FREQUENT_NGRAMS = pa.schema(
    [
        pa.field("words", pa.list_(pa.field("item", pa.uint32(), nullable=False)), nullable=False),
        pa.field("count", pa.uint64(), nullable=False),
        pa.field("probability", pa.float32()),
    ]
)
"""n-grams in reading order; how often each stands in the corpus; the model's probability of the last word after the
others, null where the n-gram was pruned from the model."""


class Adjust(Step):
    """Counts of the corpus, adjusted: bigrams as they come, longer n-grams in context order, unigrams as rows."""

    name = "ngrams-adjust"

    def schema(self) -> pa.Schema:
        return UNIGRAMS

    def process(self, block: Block, out: BlockWriter) -> None:
        work, packing = self.work, self.work.packing
        summed = add_up(work.of_range(COUNTED, work.order, block), work.columns, work.range_rows)
        found = adjust(*summed, work.order, packing)
        words = pa.array(packing.field(found[0].keys, 0).astype(np.uint64))
        columns = [words, pa.array(found[0].adjusted), pa.array(found[0].seen)]
        out.write(pa.RecordBatch.from_arrays(columns, schema=UNIGRAMS))
        for k, (grams, threshold) in enumerate(zip(found[1:], work.thresholds[1:], strict=True), 2):
            counts = marked(grams.adjusted, grams.seen, threshold)
            rows = Rows(grams.keys, counts)
            if k > 2:
                keys = packing.to_context_order(grams.keys, k)
                order = argsort(keys)
                rows = Rows(take(keys, order), counts[order])
            write_run(work.file(BIGRAMS if k == 2 else f"{CONTEXTS}-{k}", block, ".run"), rows)
            if k <= work.longest:
                write_run(work.file(f"{FREQUENT}-{k}", block, ".run"), _frequent(grams, k, work))
            table = counts_of_counts(grams.adjusted).tolist()
            out.count(**{f"{k}-grams": len(counts)}, **{f"{k}-grams of {c}": n for c, n in enumerate(table)})
        # For what `lmplz` does to the very last n-grams; of use where no later range has any.
        for k, last in enumerate(last_chain(found, packing), 1):
            out.count(**{f"last {k}-gram": int(last.adjusted[-1]), f"last {k}-gram seen": int(last.seen[-1])})


class Weigh(Step):
    """Back-offs of contexts, and each n-gram's share and weight, in suffix order again; from trigrams on."""

    name = "ngrams-weigh"

    def __init__(self, work: Work, amounts: list[Amounts]) -> None:
        super().__init__(work)
        self._amounts = amounts

    @property
    def fingerprint(self) -> str:
        return self.work.fingerprint(self.name, [a.tolist() for a in self._amounts])

    def process(self, block: Block, out: BlockWriter) -> None:
        work, packing = self.work, self.work.packing
        for k in range(3, work.order + 1):
            amounts = self._amounts[k - 1]
            parts = work.of_range(f"{CONTEXTS}-{k}", k, block)
            start, stop = range_of(block)
            edges = [start, *cut(parts, work.range_rows, packing.pair_mask), stop]
            for piece, (low, high) in enumerate(pairwise(edges)):
                keys, counts = gather(within(parts, low, high), packing.columns(k))
                said = weigh_contexts(keys, counts, k, amounts, packing)
                weights = _bits(said.weights)
                name = f"-{piece:05d}.run"
                write_run(work.file(f"{BACKOFFS}-{k - 1}", block, name), Rows(said.contexts, weights))
                kept = ~plain(counts)[1]
                both = (_bits(said.shares) | weights[said.group] << np.uint64(32))[kept]
                back = packing.to_suffix_order(take(keys, kept), k)
                order = argsort(back)
                write_run(work.file(f"{SHARES}-{k}", block, name), Rows(take(back, order), both[order]))
                out.count(contexts=len(weights))


class Interpolate(Step):
    """From low to high order, and the lines of the ARPA file; frequent n-grams with their probabilities."""

    name = "ngrams-interpolate"

    def __init__(self, work: Work, amounts: list[Amounts]) -> None:
        super().__init__(work)
        self._amounts = amounts
        self._sums: pa.RecordBatch | None = None
        self._words: pa.Array | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_sums": None, "_words": None}

    @property
    def fingerprint(self) -> str:
        return self.work.fingerprint(self.name, [a.tolist() for a in self._amounts])

    def schema(self) -> pa.Schema:
        return FREQUENT_NGRAMS

    def setup(self) -> None:
        self._sums = read_columns(self.work.path(WORD_SUMS))
        self._words = read_vocabulary(self.work)

    def process(self, block: Block, out: BlockWriter) -> None:
        work, packing = self.work, self.work.packing
        runs = {
            k: work.of_range(BIGRAMS if k == 2 else f"{SHARES}-{k}", k, block)
            for k in range(2, work.order + 1)
        }
        weights = {k: work.of_range(f"{BACKOFFS}-{k}", k, block) for k in range(2, work.order)}
        frequent = {k: work.of_range(f"{FREQUENT}-{k}", k, block) for k in range(2, work.longest + 1)}
        start, stop = range_of(block)
        every = [part for parts in runs.values() for part in parts]
        edges = [start, *cut(every, work.range_rows, packing.pair_mask), stop]
        with ExitStack() as stack:
            sinks = {
                k: stack.enter_context(files.write_atomic(work.file(f"{LINES}-{k}", block, ".txt")))
                for k in runs
            }
            for low, high in pairwise(edges):
                lower: Floats = self._column("probability")
                lower_keys: Keys | None = None
                for k in runs:
                    keys, numbers = gather(within(runs[k], low, high), packing.columns(k))
                    keys, shares, own = self._shares(k, keys, numbers)
                    lower = interpolate(keys, shares, own, k, lower, lower_keys, packing)
                    lower_keys = keys
                    if k <= work.longest:
                        found = Rows(*gather(within(frequent[k], low, high), packing.columns(k)))
                        out.write(self._with_probabilities(found, k, keys, lower))
                    back = None
                    if k < work.order:
                        contexts, bits = gather(within(weights[k], low, high), packing.columns(k))
                        back = backoffs(keys, contexts, _floats(bits))
                    for text in arpa.lines(keys, k, lower, back, self._words, packing):
                        sinks[k].write(text)
                    out.count(**{f"{k}-grams": len(lower)})

    def _with_probabilities(
        self, found: Rows, order: int, keys: Keys, probabilities: Floats
    ) -> pa.RecordBatch:
        fields = [self.work.packing.field(found.keys, field) for field in range(order - 1, -1, -1)]
        ids = pa.array(np.stack(fields, axis=1).reshape(-1).astype(np.uint32))
        edges = pa.array(np.arange(len(found.numbers) + 1) * order, pa.int32())
        words = pa.ListArray.from_arrays(edges, ids, type=FREQUENT_NGRAMS.field("words").type)
        rows = find(keys, found.keys)
        own = pa.array(probabilities).take(pa.array(rows, mask=rows < 0))
        return pa.RecordBatch.from_arrays([words, pa.array(found.numbers), own], schema=FREQUENT_NGRAMS)

    def _column(self, name: str) -> Any:
        assert self._sums is not None
        return numpy_of(self._sums[name])

    def _shares(self, k: int, keys: Keys, numbers: Any) -> tuple[Keys, Floats, Floats]:
        if k > 2:
            return keys, _floats(numbers & np.uint64(0xFFFFFFFF)), _floats(numbers >> np.uint64(32))
        kept = numbers < PRUNED
        keys, counts = take(keys, kept), numbers[kept]
        context = self.work.packing.field(keys, 1)
        return (
            keys,
            share(counts, self._column("total")[context], self._amounts[1]),
            self._column("weight")[context],
        )


def _frequent(grams: Grams, order: int, work: Work) -> Rows:
    """Those that are seen often enough and hold no sentence end; keys, and how often."""
    kept = grams.seen >= np.uint64(work.min_count)
    for field in range(order):
        kept &= work.packing.field(grams.keys, field) >= len(SPECIALS)
    return Rows(take(grams.keys, kept), grams.seen[kept])


def read_vocabulary(work: Work) -> pa.Array:
    """All words in the order of ids; local ones memory-mapped."""
    table = open_shard(work.path(VOCABULARY)).read_all()
    return table["word"].combine_chunks()


def _bits(values: Floats) -> Any:
    """float32 as the lower half of uint64."""
    return values.view(np.uint32).astype(np.uint64)


def _floats(bits: Any) -> Floats:
    result: Floats = bits.astype(np.uint32).view(np.float32)
    return result
