"""The `vocab` section of a config: sizes of the vocabularies."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pipelines.section import Count, Fraction, Section

Size = Annotated[int, Field(ge=6, le=10_000_000)]
"""More than the special tokens, and no more than can be held while it is learnt."""


class FineVocabConfig(Section):
    """WordPiece, as BERT cuts text."""

    size: Size | None = None
    """Most entries, special tokens included; default: 21,128 for Chinese, else 30,522 (AMBERT, BERT)."""
    min_count: Count = 2
    """A word or character that occurs less often is not learnt from, a pair of pieces not merged."""
    alphabet: Count | None = None
    """Most characters with entries, the most frequent ones; a word with another is [UNK]. Default: 10,000 for Chinese,
    else 1,000. Printable ASCII is always among them."""


class CoarseVocabConfig(Section):
    """Words, phrases, and the pieces that others are made of."""

    size: Size | None = None
    """Most entries, special tokens included; default: 72,635 for Chinese, else 77,645 (AMBERT)."""
    min_count: Count = 2
    """A word or phrase that occurs less often is made of its pieces."""
    pieces: Fraction = 0.5
    """Largest share of the entries that are pieces; a word whose pieces are not all there is [UNK]."""


class VocabConfig(Section):
    """Vocabularies that `treegraft vocab` makes."""

    splits: list[str] | None = None
    """Splits that are counted; default: those that train (`input.train_splits`, or names that begin with `train`);
    all where none does."""
    fine: FineVocabConfig = FineVocabConfig()
    coarse: CoarseVocabConfig = CoarseVocabConfig()
