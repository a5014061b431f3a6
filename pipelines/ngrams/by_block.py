"""The steps that go by block: `read` makes numbers of words, `count` counts what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from corpora.blocks import Block
from corpora.shards import open_shard
from pipelines.engine import BlockWriter, Stage
from pipelines.ngrams.columns import numpy_of, read_columns, write_columns
from pipelines.ngrams.count import count, ngrams
from pipelines.ngrams.keys import Ids
from pipelines.ngrams.runs import Rows, write_run
from pipelines.ngrams.settings import Work
from pipelines.ngrams.source import Source
from pipelines.ngrams.tokens import Words, number, words_of
from pipelines.ngrams.vocabulary import hashes, ids_of, positions
from pipelines.ragged import bounds

READ = "read"
SENTENCES, WORDS, HASHES, COUNTED = "sentences", "words", "hashes", "counted"
IDS = "ids.arrow"
WINDOW_WORDS = 4 << 20
"""A block is read and counted in windows of so many words and, at most, those that the source gives at a time: 32 MiB
of keys, and a few times that in work. A large compressed file is one block."""
WINDOWS = pa.schema([pa.field("words", pa.uint64(), nullable=False)])
"""A row a window: the different words that it has."""
NOTHING = pa.schema([pa.field("rows", pa.uint64(), nullable=False)])


class Step(Stage):
    """What all steps share."""

    def __init__(self, work: Work) -> None:
        self.work = work

    @property
    def fingerprint(self) -> str:
        return self.work.fingerprint(self.name)

    def identities(self) -> dict[str, Any]:
        return {}

    def setup(self) -> None:
        pass

    def schema(self) -> pa.Schema:
        return NOTHING


class Read(Step):
    """Words to numbers in a window's own vocabulary, whose words and hashes stand beside them."""

    name = "ngrams-read"

    def __init__(self, work: Work, source: Source, stand_in: str | None = None) -> None:
        super().__init__(work)
        self._source, self._stand_in = source, stand_in

    @property
    def fingerprint(self) -> str:
        return self.work.fingerprint(self.name, self._source.fingerprint, self._stand_in)

    def schema(self) -> pa.Schema:
        return WINDOWS

    def process(self, block: Block, out: BlockWriter) -> None:
        held: list[Words] = []
        size, windows, before = 0, 0, 0
        for lines in self._source.sentences(block):
            held.append(words_of(lines))
            size += len(held[-1].words)
            if size >= WINDOW_WORDS:
                before += self._write(block, windows, before, held, out)
                size, windows, held = 0, windows + 1, []
        if held:
            self._write(block, windows, before, held, out)

    def _write(self, block: Block, window: int, before: int, held: list[Words], out: BlockWriter) -> int:
        """Write a window, before which the block's others have so many words in their vocabularies."""
        found = number(held, self._stand_in)
        count = len(found.vocabulary)
        lists = pa.ListArray.from_arrays(pa.array(bounds(found.lengths), pa.int32()), pa.array(found.numbers))
        write_columns(self.work.window(SENTENCES, block, window, ".arrow"), words=lists)
        hashed = hashes(found.vocabulary)
        write_columns(self.work.window(WORDS, block, window, ".arrow"), word=found.vocabulary, hash=hashed)
        order = np.argsort(hashed)
        rows = Rows((hashed[order],), positions(block.index, before, count)[order])
        write_run(self.work.window(HASHES, block, window, ".run"), rows)
        out.write(pa.RecordBatch.from_arrays([pa.array([count], pa.uint64())], schema=WINDOWS))
        out.count(sentences=len(lists), words=len(found.numbers), special_words=found.special)
        return count


class Count(Step):
    """Counted n-grams of the highest order of each window, a run in suffix order."""

    name = "ngrams-count"

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self._vocabulary: pa.RecordBatch | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_vocabulary": None}

    def setup(self) -> None:
        self._vocabulary = read_columns(self.work.path(IDS))

    def process(self, block: Block, out: BlockWriter) -> None:
        assert self._vocabulary is not None
        work = self.work
        known, ids = (numpy_of(self._vocabulary[name]) for name in ("hash", "id"))
        for window in range(windows_of(work, block)):
            hashed = numpy_of(read_columns(work.window(WORDS, block, window, ".arrow"))["hash"])
            own: Ids = ids_of(hashed, known, ids)
            lists = read_columns(work.window(SENTENCES, block, window, ".arrow"))["words"]
            lengths = np.diff(lists.offsets.to_numpy()).astype(np.int64)
            found = count(ngrams(own[numpy_of(lists.flatten())], lengths, work.order, work.packing))
            write_run(work.window(COUNTED, block, window, ".run"), Rows(*found))
            out.count(ngrams=len(found[1]))


def windows_of(work: Work, block: Block) -> int:
    """How many windows a block was read in."""
    return open_shard(work.path(READ, block.shard_name)).read_all().num_rows
