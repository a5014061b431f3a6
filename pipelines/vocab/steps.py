"""The steps of a run: `count` goes by block, `merge` and `measure` go by range of hashes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora.blocks import Block
from corpora.shards import check_shard, open_shard, read_batches
from pipelines.encode.tokenizer import MAX_WORD_CHARS, load_tokenizer
from pipelines.engine import BlockWriter, Stage
from pipelines.ngrams.by_block import NOTHING
from pipelines.settings import facts_hash
from pipelines.vocab import counts
from pipelines.vocab.counts import Counts, added
from pipelines.vocab.coverage import Coverage
from pipelines.vocab.pretokens import PreTokens
from pipelines.vocab.units import Lookup, Units
from pipelines.vocab.wordpiece import character_forms

CODE_VERSION = 1
"""Raised whenever the same corpus and config would give another vocabulary."""
WORD, PHRASE, PIECE = range(3)
MERGED = pa.schema(
    [
        # A word or phrase with its count; a piece, with how often it stands for what is not among these.
        pa.field("kind", pa.int8(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
    ]
)
_TOGETHER = 16
"""Batches whose counts are added at once."""


class Step(Stage):
    """What all steps share."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        """`facts`: what shapes the step's output beside its blocks."""
        self.facts = dict(facts)

    @property
    def fingerprint(self) -> str:
        body = [CODE_VERSION, self.name, version("tokenizers"), self.facts]
        return facts_hash(body)

    def identities(self) -> dict[str, Any]:
        return {}

    def settings(self) -> dict[str, Any]:
        return self.facts

    def setup(self) -> None:
        pass


# --- by block: annotated shards -------------------------------------------------------------------


class Count(Step):
    """Counted strings of a shard of annotated documents, as a sorted run. Counters: `documents`, `words`."""

    def schema(self) -> pa.Schema:
        return counts.SCHEMA

    def process(self, block: Block, out: BlockWriter) -> None:
        """Raises ShardError for a shard that was changed since it was annotated."""
        (part,) = block.parts
        check_shard(part.path, part.sha256)
        found: list[Counts] = []
        for batch in read_batches(open_shard(part.path)):
            one = self.strings(pa.Table.from_batches([batch]))
            found.append(one)
            out.count(documents=batch.num_rows, words=int(one.counts.sum()))
            if len(found) == _TOGETHER:
                found = [added(found)]
        counts.write_run(added(found), out)

    @abstractmethod
    def strings(self, table: pa.Table) -> Counts:
        """What some documents hold."""


class CountFine(Count):
    """Words as BERT cuts text."""

    name = "vocab-fine-count"

    @cached_property
    def _pre_tokens(self) -> PreTokens:
        return PreTokens(lowercase=self.facts["lowercase"])

    def __getstate__(self) -> dict[str, Any]:
        return {"facts": self.facts}

    def strings(self, table: pa.Table) -> Counts:
        sides = [table[name] for name in ("text", "text_pair") if name in table.column_names]
        texts = [pc.fill_null(chunk, "") for side in sides for chunk in side.chunks]
        return added(self._pre_tokens.count(some) for some in texts)


class CountCoarse(Count):
    """Words, and phrases of the lexicon."""

    name = "vocab-coarse-count"

    def __init__(self, facts: Mapping[str, Any], lookup: Lookup) -> None:
        super().__init__(facts)
        self._lookup = lookup

    @cached_property
    def _units(self) -> Units:
        return Units(self._lookup)

    def __getstate__(self) -> dict[str, Any]:
        return {"facts": self.facts, "_lookup": self._lookup}

    def strings(self, table: pa.Table) -> Counts:
        return self._units.count(table)


# --- by range of hashes ---------------------------------------------------------------------------


class _OfRange(Step):
    def __init__(self, facts: Mapping[str, Any], runs: Sequence[str]) -> None:
        """`runs`: the shards that were counted."""
        super().__init__(facts)
        self._runs = list(runs)

    def gathered(self, block: Block) -> Counts:
        return counts.gather(self._runs, block)


class _Merge(_OfRange):
    def schema(self) -> pa.Schema:
        return MERGED

    def write(self, out: BlockWriter, kind: int, found: Counts) -> None:
        columns = [pa.array(np.full(len(found.texts), kind, np.int8)), found.texts, pa.array(found.counts)]
        out.write(pa.RecordBatch.from_arrays(columns, schema=MERGED))


class MergeFine(_Merge):
    """Words that are frequent enough; characters of all words, `##x` where they go on with one."""

    name = "vocab-fine-merge"

    def process(self, block: Block, out: BlockWriter) -> None:
        found = self.gathered(block)
        short = pc.less_equal(pc.utf8_length(found.texts), MAX_WORD_CHARS)  # longer ones are [UNK]
        found = found.chosen(short.to_numpy(zero_copy_only=False))
        forms = character_forms(dict(zip(found.texts.to_pylist(), found.counts.tolist(), strict=True)))
        self.write(
            out, PIECE, Counts(pa.array(list(forms), pa.string()), np.array(list(forms.values()), np.int64))
        )
        self.write(out, WORD, found.chosen(found.counts >= self.facts["min_count"]))
        out.count(words=len(found.texts))


class MergeCoarse(_Merge):
    """Words that are frequent enough or words of phrases, and phrases; pieces of all other words."""

    name = "vocab-coarse-merge"

    def __init__(self, facts: Mapping[str, Any], runs: Sequence[str], lookup: Lookup) -> None:
        super().__init__(facts, runs)
        self._lookup = lookup

    def process(self, block: Block, out: BlockWriter) -> None:
        found = self.gathered(block)
        assert found.phrases is not None
        self.write(out, PHRASE, found.chosen(found.phrases))
        words = found.chosen(~found.phrases)
        names = words.texts.to_pylist()
        kept = words.counts >= self.facts["min_count"]
        kept |= np.array([name in self._lookup.phrase_words for name in names], np.bool_)
        self.write(out, WORD, words.chosen(kept))
        tokenizer = self._lookup.tokenizer
        rare = np.flatnonzero(~kept)
        ids, offsets = tokenizer.encode_ids([names[i] for i in rare.tolist()])
        weights = np.repeat(words.counts[rare], np.diff(offsets))
        times = np.zeros(tokenizer.vocab_size, np.int64)
        np.add.at(times, ids, weights)
        seen = np.flatnonzero(times)
        surfaces = [tokenizer.surface(i) or "" for i in seen.tolist()]
        self.write(out, PIECE, Counts(pa.array(surfaces, pa.string()), times[seen]))
        out.count(words=len(names), phrases=len(found.texts) - len(names))


class MeasureFine(_OfRange):
    """What a finished vocabulary makes of all words. Counters: `words`, `tokens`, `unknown_words`."""

    name = "vocab-fine-measure"

    def __init__(self, facts: Mapping[str, Any], runs: Sequence[str], vocab: str) -> None:
        super().__init__(facts, runs)
        self._vocab = vocab

    def schema(self) -> pa.Schema:
        return NOTHING

    def process(self, block: Block, out: BlockWriter) -> None:
        tokenizer = load_tokenizer(self._vocab, lowercase=self.facts["lowercase"])
        found = self.gathered(block)
        ids, offsets = tokenizer.encode_ids(found.texts.to_pylist())
        sizes = np.diff(offsets)
        unknown = np.repeat(found.counts, sizes)[ids == tokenizer.unknown_id]
        out.count(
            words=int(found.counts.sum()),
            tokens=int((sizes * found.counts).sum()),
            unknown_words=int(unknown.sum()),
        )


class MeasureCoarse(_OfRange):
    """What a finished vocabulary makes of all units. Counters: those of `Coverage`."""

    name = "vocab-coarse-measure"

    def __init__(self, facts: Mapping[str, Any], runs: Sequence[str], lookup: Lookup, vocab: str) -> None:
        super().__init__(facts, runs)
        self._lookup, self._vocab = lookup, vocab

    def schema(self) -> pa.Schema:
        return NOTHING

    def process(self, block: Block, out: BlockWriter) -> None:
        out.count(**Coverage(self._lookup.tokenizer, self._vocab).of(self.gathered(block)))
