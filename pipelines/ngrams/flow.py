"""The road of a model: five stages and what the driver adds up between them.

Stages resume, run on every Beam runner, and give the same bytes whatever the number of workers.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from corpora import files
from corpora.blocks import Block
from corpora.shards import ShardWriter, open_shard, read_batches
from pipelines import engine
from pipelines.ngrams import arpa
from pipelines.ngrams.adjust import Grams
from pipelines.ngrams.by_block import COUNTED, HASHES, IDS, READ, SENTENCES, WORDS, Count, Read, windows_of
from pipelines.ngrams.by_range import (
    BACKOFFS,
    BIGRAMS,
    CONTEXTS,
    FREQUENT,
    LINES,
    SHARES,
    VOCABULARY,
    WORD_SUMS,
    Adjust,
    Interpolate,
    Weigh,
    read_vocabulary,
)
from pipelines.ngrams.columns import numpy_of, read_columns, write_columns
from pipelines.ngrams.count import SPECIALS
from pipelines.ngrams.discounts import FALLBACK, Discounts, correct_last, counts_of_counts, discounts
from pipelines.ngrams.estimate import pruning
from pipelines.ngrams.interpolate import unigrams
from pipelines.ngrams.keys import Packing
from pipelines.ngrams.runs import cut, gather
from pipelines.ngrams.settings import RANGE_ROWS, Work, range_blocks
from pipelines.ngrams.source import Source
from pipelines.ngrams.vocabulary import merge_vocabularies
from pipelines.ngrams.weights import Sums, marked, plain, weight
from pipelines.sorted_runs import END, whole, within


@dataclass(frozen=True)
class Outcome:
    """What a model is, for manifests and reports; lists have a number per order, from 1 on."""

    sentences: int
    words: int
    special_words: int
    """Left out, or replaced: what the text holds of `<s>`, `</s>`, `<unk>` and `<UNK>`."""
    vocabulary: int
    """Different words, and three special ones."""
    counted: list[int]
    """Different n-grams, before pruning."""
    ngrams: list[int]
    """Of the model."""
    discounts: list[list[float]]
    """Taken from counts of 1, 2, and 3 or more."""
    fell_back: list[int]
    """Orders whose discounts are the fallback's, the corpus having none."""


Execute = Callable[[str, engine.Run], list[engine.BlockRecord]]
"""Runs a prepared stage under a title, as `watched.execute` does."""


@dataclass
class Estimation:
    """One model of one corpus.

    Args:
        order: 2 to 5.
        prune, fallback: as in `estimate.estimate`.
        longest, min_count: what `frequent` gives: n-grams of 2 to `longest` words, seen at least so often.
        stand_in: the word that special ones of the text become, a word like any other; None: they are left out, as
            `lmplz` does, and words that did not stand side by side become neighbours.
    """

    source: Source
    blocks: Sequence[Block]
    folder: str
    """Where the work lies; it may be removed when the model stands."""
    order: int
    prune: Sequence[int] = ()
    fallback: Sequence[float] | None = None
    inputs: Sequence[dict[str, Any]] = ()
    longest: int = 0
    min_count: int = 1
    range_rows: int = RANGE_ROWS
    stand_in: str | None = None
    counters: Counter[str] = field(default_factory=Counter)
    """What the steps counted: sentences, words, special_words."""
    _finished: tuple[Work, engine.Run] | None = None

    def run(self, target: str, execute: Execute) -> Outcome:
        """Write the ARPA file.

        Raises:
            DiscountError: the corpus has no discounts, and no fallback is given. One without words needs none.
            ValueError: order, thresholds or `longest` cannot be.
        """
        thresholds = tuple(pruning(self.prune, self.order))
        work = Work(
            self.folder,
            self.order,
            thresholds,
            self.range_rows,
            longest=self.longest,
            min_count=self.min_count,
        )
        self._make_folders(work)
        read = engine.Run(Read(work, self.source, self.stand_in), self.blocks, work.path(READ), self.inputs)
        for record in self._stage("read", read, execute):
            self.counters.update(record.counters)
        made_of = json.dumps(read.key, sort_keys=True).encode()
        work = self._number(replace(work, text=hashlib.sha256(made_of).hexdigest()))
        self._stage("count", engine.Run(Count(work), self.blocks, work.path("count")), execute)
        counted = within(whole(work.runs(COUNTED)), 0, END)
        rows = sum(part.rows for part in counted)
        bounds = cut(counted, work.range_rows, work.packing.pair_mask)
        ranges = range_blocks(bounds, rows * 8 * (work.columns + 1))
        run = engine.Run(Adjust(work), ranges, work.path("adjust"))
        adjusted = self._stage("adjust", run, execute)
        words = self._words(work, run)
        found = self._discounts(work, words, adjusted)
        counts = marked(words.adjusted, words.seen, work.thresholds[0])
        counts[: len(SPECIALS)] = words.adjusted[: len(SPECIALS)]  # never go
        self._word_sums(work, counts, found)
        self._stage("weigh", engine.Run(Weigh(work, found.amounts), ranges, work.path("weigh")), execute)
        last = engine.Run(Interpolate(work, found.amounts), ranges, work.path("interpolate"))
        records = self._stage("interpolate", last, execute)
        sizes = [int((~plain(counts)[1]).sum()), *self._totals(work, records)]
        with files.write_atomic(target) as sink:
            self._write(work, sink, ranges, counts, sizes)
        self._finished = work, last
        return Outcome(
            sentences=self.counters["sentences"],
            words=self.counters["words"],
            special_words=self.counters["special_words"],
            vocabulary=len(counts),
            counted=[len(counts), *self._totals(work, adjusted)],
            ngrams=sizes,
            discounts=[amounts[1:].tolist() for amounts in found.amounts],
            fell_back=found.fell_back,
        )

    def vocabulary(self) -> pa.Array:
        """All words in the order of ids, special ones included; once the model stands, until `clear`."""
        return read_vocabulary(self._done[0])

    def frequent(self) -> Iterator[pa.RecordBatch]:
        """Frequent n-grams, as `FREQUENT_NGRAMS` says, some thousands at a time: of some pairs of last words after
        others, the shorter before the longer, each in suffix order; none holds a special word. Until `clear`."""
        _, run = self._done
        for block in run.blocks:
            yield from read_batches(open_shard(files.join(run.out, block.shard_name)))

    def clear(self) -> None:
        """Remove the work; a run after this one starts anew."""
        files.remove(self.folder)
        self._finished = None

    @property
    def _done(self) -> tuple[Work, engine.Run]:
        if self._finished is None:
            raise RuntimeError("the model has not been made yet, or its work is removed")
        return self._finished

    def _make_folders(self, work: Work) -> None:
        longer = range(3, self.order + 1)
        kinds = [SENTENCES, WORDS, HASHES, COUNTED, BIGRAMS, *(f"{CONTEXTS}-{k}" for k in longer)]
        kinds += [f"{SHARES}-{k}" for k in longer] + [f"{BACKOFFS}-{k - 1}" for k in longer]
        kinds += [f"{LINES}-{k}" for k in range(2, self.order + 1)]
        kinds += [f"{FREQUENT}-{k}" for k in range(2, self.longest + 1)]
        for kind in kinds:
            files.make_dirs(work.path(kind))
            files.remove_temporaries(work.path(kind))

    def _stage(self, title: str, run: engine.Run, execute: Execute) -> list[engine.BlockRecord]:
        run.prepare()
        return execute(title, run)

    def _number(self, work: Work) -> Work:
        """Give ids, and write the vocabulary in their order."""
        vocabulary = merge_vocabularies(work.runs(HASHES, 1))
        write_columns(work.path(IDS), hash=vocabulary.hashes, id=vocabulary.ids)
        schema = pa.schema([pa.field("word", pa.string(), nullable=False)])
        with ShardWriter(work.path(VOCABULARY), schema) as shard:
            shard.write(pa.RecordBatch.from_arrays([pa.array(SPECIALS)], schema=schema))
            for block in self.blocks:
                numbers, before = vocabulary.of_block(block.index), 0
                for window in range(windows_of(work, block)):
                    own = read_columns(work.window(WORDS, block, window, ".arrow"))["word"]
                    low, high = np.searchsorted(numbers, [before, before + len(own)])
                    fresh = own.take(pa.array(numbers[low:high] - before))
                    shard.write(pa.RecordBatch.from_arrays([fresh], schema=schema))
                    before += len(own)
        return replace(work, bits=Packing.of(len(vocabulary)).bits)

    def _words(self, work: Work, run: engine.Run) -> Grams:
        """Unigrams of the whole vocabulary; a word's n-grams may lie in several ranges."""
        size = open_shard(work.path(VOCABULARY)).read_all().num_rows
        adjusted, seen = np.zeros(size, np.uint64), np.zeros(size, np.uint64)
        for block in run.blocks:
            for batch in read_batches(open_shard(files.join(run.out, block.shard_name))):
                word = numpy_of(batch["word"]).astype(np.int64)
                np.add.at(adjusted, word, numpy_of(batch["adjusted"]))
                np.add.at(seen, word, numpy_of(batch["seen"]))
        return Grams(work.packing.pack([np.arange(size)]), adjusted, seen)

    def _discounts(self, work: Work, words: Grams, records: Sequence[engine.BlockRecord]) -> Discounts:
        total = sum((Counter(record.counters) for record in records), Counter())
        counted = [counts_of_counts(words.adjusted)]
        for k in range(2, work.order + 1):
            table = [total[f"{k}-grams of {c}"] for c in range(5)]
            counted.append(np.array(table, np.int64))
        ends = [record.counters for record in records if "last 1-gram" in record.counters]
        last: list[Grams] = []
        if ends:
            last.append(Grams(words.keys, words.adjusted, words.seen))
            for k in range(2, work.order + 1):
                if f"last {k}-gram" not in ends[-1]:
                    break
                numbers = (ends[-1][f"last {k}-gram{what}"] for what in ("", " seen"))
                last.append(Grams((), *(np.array([n], np.uint64) for n in numbers)))
        correct_last(counted, last)
        return discounts(counted, self.fallback if self.counters["words"] else FALLBACK)

    def _totals(self, work: Work, records: Sequence[engine.BlockRecord]) -> list[int]:
        """n-grams of orders from 2 on."""
        return [sum(r.counters.get(f"{k}-grams", 0) for r in records) for k in range(2, work.order + 1)]

    def _word_sums(self, work: Work, counts: Any, found: Discounts) -> None:
        """What words say as contexts, and their own probabilities: what bigrams are made with."""
        held = [np.zeros(len(counts), np.uint64) for _ in Sums._fields]
        for run in work.runs(BIGRAMS, work.packing.columns(2)):
            keys, numbers = gather(within(whole([run]), 0, END), run.columns)
            context = work.packing.field(keys, 1)
            value, gone = plain(numbers)
            kept = np.where(gone, np.uint64(0), value)
            terms = (value, value - kept, kept == 1, kept == 2, kept > 2)
            for array, term in zip(held, terms, strict=True):
                np.add.at(array, context, term.astype(np.uint64))
        sums = Sums(*held)
        write_columns(
            work.path(WORD_SUMS),
            total=sums.total,
            weight=weight(sums, found.amounts[1]),
            probability=unigrams(counts, found.amounts[0]),
        )

    def _write(
        self,
        work: Work,
        sink: BinaryIO,
        ranges: Sequence[Block],
        counts: Any,
        sizes: Sequence[int],
    ) -> None:
        kept = ~plain(counts)[1]
        sink.write(arpa.header(sizes))
        sink.write(arpa.section(1))
        for text in self._unigram_lines(work, kept):
            sink.write(text)
        for k in range(2, work.order + 1):
            sink.write(arpa.section(k))
            for block in ranges:
                with files.open_read(work.file(f"{LINES}-{k}", block, ".txt")) as part:
                    shutil.copyfileobj(part, sink, 1 << 20)
        sink.write(arpa.FOOTER)

    def _unigram_lines(self, work: Work, kept: Any) -> Iterator[bytes]:
        sums = read_columns(work.path(WORD_SUMS))
        (ids,) = np.nonzero(kept)
        probability, weights = (numpy_of(sums[name])[ids] for name in ("probability", "weight"))
        yield from arpa.lines(
            work.packing.pack([ids]), 1, probability, weights, read_vocabulary(work), work.packing
        )
