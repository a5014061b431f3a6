"""Sentences for the n-gram model: those of annotated documents, or lines of text; and which of them are counted."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora import files
from corpora.blocks import Block, Part
from corpora.layout import InputConfig
from corpora.manifest import Manifest
from corpora.shards import open_shard, read_batches
from pipelines.config import Config
from pipelines.encode.source import Texts, Words, read_texts, read_words
from pipelines.ngrams.source import Source
from pipelines.section import ConfigError
from pipelines.slices import slices

_BREAK = r"[\x00\t\n\r ]"
"""What a word of an ARPA file cannot hold."""
_NO_WORD = "<unk>"
"""Stands for a word that an ARPA file cannot hold: counted among the special ones."""
STAND_IN = "\ufffc"
"""What special words become: an entry of the model like any other, so that it parts its neighbours, and never a word
of a phrase."""
_COUNTED = "text"
"""Split of the blocks that are counted, whatever split they come from."""


def refuse_without_words(config: Config, what: str) -> None:
    """Raise ConfigError where `what` is to be made of words and documents are annotated without any."""
    brought = config.input.format == "conllu" or config.annotate.parser == "given"
    if config.annotate.segmenter == "none" and not brought:
        raise ConfigError(
            f"annotate.segmenter is 'none' but {what} needs words: set annotate.segmenter to 'default'"
        )


class AnnotatedSentences:
    """The sentences of annotated documents, words joined by spaces; first all first texts of a batch, then the second
    ones. A sentence without words is none."""

    fingerprint = "annotated-1"

    def sentences(self, block: Block) -> Iterator[pa.Array]:
        """Raises ShardError for a damaged shard."""
        for part in block.parts:
            for batch in read_batches(open_shard(part.path)):
                table = pa.Table.from_batches([batch])
                sides = ["", "_pair"] if "word_starts_pair" in table.column_names else [""]
                texts = read_texts(table, sides)
                yield _joined(texts, read_words(table, sides, texts.chars, None))


@dataclass(frozen=True)
class Lowered:
    """The same sentences in lower case, letter by letter."""

    source: Source

    @property
    def fingerprint(self) -> str:
        return f"lower-{self.source.fingerprint}"

    def sentences(self, block: Block) -> Iterator[pa.Array]:
        """As those of the source."""
        return (pc.utf8_lower(some) for some in self.source.sentences(block))


def word_strings(texts: Texts, words: Words) -> pa.StringArray:
    """The words as they are written, string[D]."""
    spelt = slices(texts.strings, words.offsets, words.starts, words.stops)
    return spelt.cast(pa.string()).combine_chunks()


def _joined(texts: Texts, words: Words) -> pa.Array:
    spelt = word_strings(texts, words)
    spelt = pc.if_else(pc.match_substring_regex(spelt, _BREAK), _NO_WORD, spelt)
    fresh = np.flatnonzero(np.diff(words.sentences, prepend=-2))
    starts = pa.array(np.append(fresh, len(spelt)), pa.int32())
    return pc.binary_join(pa.ListArray.from_arrays(starts, spelt), " ")


# --- which texts --------------------------------------------------------------------------------


def counted_splits(
    layout: InputConfig, wanted: Sequence[str] | None, field: str = "phrases.splits"
) -> list[str]:
    """Splits in the config's order. Raises ConfigError, which names `field`, for one that there is not."""
    for name in wanted or ():
        if name not in layout.sources:
            near = difflib.get_close_matches(name, layout.sources, n=1)
            hint = (
                f"did you mean {near[0]!r}?" if near else f"there are {', '.join(map(repr, layout.sources))}"
            )
            raise ConfigError(f"{field}: there is no split {name!r} in input.files; {hint}")
    chosen = [name for name in layout.sources if (layout.trains(name) if wanted is None else name in wanted)]
    return chosen or list(layout.sources)


def annotated_blocks(folder: str, annotated: Manifest, splits: Iterable[str]) -> list[Block]:
    """A block per shard of the splits."""
    return _renumbered(
        Block(
            name,
            index,
            len(annotated.splits[name].shards),
            (Part(files.join(folder, shard.name), shard.name, 0, None, shard.sha256),),
            shard.bytes,
        )
        for name in splits
        if name in annotated.splits
        for index, shard in enumerate(annotated.splits[name].shards)
    )


def line_blocks(blocks: Iterable[Block], splits: Sequence[str]) -> list[Block]:
    """Blocks of the raw files, of those splits."""
    return _renumbered(block for block in blocks if block.split in splits)


def _renumbered(blocks: Iterable[Block]) -> list[Block]:
    """As blocks of one split: a model counts them through."""
    chosen = list(blocks)
    return [replace(b, split=_COUNTED, index=i, count=len(chosen)) for i, b in enumerate(chosen)]
