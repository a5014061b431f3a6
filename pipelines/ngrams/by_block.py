"""The steps that go by block: `read` makes numbers of words, `count` counts what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora.blocks import Block
from corpora.shards import open_shard, read_batches
from pipelines.engine import BlockWriter, Stage
from pipelines.ngrams.columns import numpy_of, read_columns, write_columns
from pipelines.ngrams.count import LEFT_OUT, count, ngrams
from pipelines.ngrams.keys import Ids
from pipelines.ngrams.runs import Rows, write_run
from pipelines.ngrams.settings import Work
from pipelines.ngrams.source import Source
from pipelines.ngrams.tokens import leave_out, words_of
from pipelines.ngrams.vocabulary import hashes, ids_of, positions
from pipelines.ragged import bounds

READ = "read"
WORDS, HASHES, COUNTED = "words", "hashes", "counted"
IDS = "ids.arrow"
_SENTENCE = pa.schema(
    [pa.field("words", pa.list_(pa.field("item", pa.uint32(), nullable=False)), nullable=False)]
)
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
    """Words to numbers in the block's own vocabulary, whose words and hashes stand beside the shard."""

    name = "ngrams-read"

    def __init__(self, work: Work, source: Source) -> None:
        super().__init__(work)
        self._source = source

    @property
    def fingerprint(self) -> str:
        return self.work.fingerprint(self.name, self._source.fingerprint)

    def schema(self) -> pa.Schema:
        return _SENTENCE

    def process(self, block: Block, out: BlockWriter) -> None:
        texts, lengths = [], []
        for lines in self._source.sentences(block):
            words = words_of(lines)
            special = pc.is_in(words.words, value_set=pa.array(LEFT_OUT))
            skipped = pc.sum(special).as_py() or 0
            if skipped:
                kept = pc.invert(special)
                lengths.append(leave_out(words, kept.to_numpy(zero_copy_only=False)))
                texts.append(words.words.filter(kept))
            else:
                lengths.append(words.lengths)
                texts.append(words.words)
            out.count(sentences=len(words.lengths), words=len(texts[-1]), special_words=skipped)
        encoded = pa.chunked_array(texts, pa.string()).dictionary_encode().unify_dictionaries()
        own = encoded.chunk(0).dictionary if encoded.num_chunks else pa.array([], pa.string())
        numbers = np.concatenate([np.zeros(0, np.uint32), *(c.indices.to_numpy() for c in encoded.chunks)])
        start = 0
        for sizes in lengths:  # encoding leaves out what is empty, so its pieces are others
            edges = bounds(sizes)
            some = numbers[start : start + edges[-1]].astype(np.uint32)
            start += len(some)
            rows = pa.ListArray.from_arrays(
                pa.array(edges, pa.int32()), pa.array(some), type=_SENTENCE.field("words").type
            )
            out.write(pa.RecordBatch.from_arrays([rows], schema=_SENTENCE))
        hashed = hashes(own)
        write_columns(self.work.file(WORDS, block, ".arrow"), word=own, hash=hashed)
        order = np.argsort(hashed)
        rows_of = Rows((hashed[order],), positions(block.index, len(own))[order])
        write_run(self.work.file(HASHES, block, ".run"), rows_of)


class Count(Step):
    """Counted n-grams of the highest order of each block, a run in suffix order."""

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
        known, ids = (numpy_of(self._vocabulary[name]) for name in ("hash", "id"))
        own: Ids = ids_of(numpy_of(read_columns(self.work.file(WORDS, block, ".arrow"))["hash"]), known, ids)
        texts, lengths = [np.zeros(0, np.uint32)], [np.zeros(0, np.int64)]
        for batch in read_batches(open_shard(self.work.path(READ, block.shard_name))):
            lists = batch["words"]
            texts.append(own[lists.flatten().to_numpy()])
            lengths.append(np.diff(lists.offsets.to_numpy()).astype(np.int64))
        keys, counts = count(
            ngrams(np.concatenate(texts), np.concatenate(lengths), self.work.order, self.work.packing)
        )
        write_run(self.work.file(COUNTED, block, ".run"), Rows(keys, counts))
        out.count(ngrams=len(counts))
