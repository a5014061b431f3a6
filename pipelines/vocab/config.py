"""The `vocab` section of a config: sizes of the vocabularies."""

from __future__ import annotations

from pipelines.section import Count, Section


class FineVocabConfig(Section):
    """WordPiece, as BERT cuts text."""

    size: Count | None = None
    """Entries, special tokens included; default: 21,128 for Chinese, else 30,522 (AMBERT, BERT)."""
    min_count: Count = 2
    """A pair of pieces is merged if it occurs so often."""


class CoarseVocabConfig(Section):
    """Words, phrases, and the pieces that others are made of."""

    size: Count | None = None
    """Entries, special tokens included; default: 72,635 for Chinese, else 77,645 (AMBERT)."""
    min_count: Count = 2
    """A word or phrase that occurs less often is made of its pieces."""


class VocabConfig(Section):
    """Vocabularies that `treegraft vocab` makes."""

    fine: FineVocabConfig = FineVocabConfig()
    coarse: CoarseVocabConfig = CoarseVocabConfig()
