"""The `encode` section of a config: tokens, column groups and what makes a row."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from corpora.schema import MAX_LENGTH_LIMIT
from pipelines.section import Count, Fraction, Section


class CoarseConfig(Section):
    """Coarse tokens: words and phrases, looked up in a vocabulary of their own."""

    vocab: str
    """One coarse token a line, special tokens included, as in `vocab.txt`: words, phrases, pieces such as `##ing`."""
    phrases: str | None = None
    """Phrases, one a line, words parted by spaces; what a TAB parts from one is not read. Neighbouring words of a
    sentence that make one are taken together, the longest from the left."""


class PretrainConfig(Section):
    """How documents become training sequences."""

    segments: Literal["pair", "single"] = "pair"
    """A and B with a next-sentence label (BERT), or one contiguous segment."""
    random_next: Fraction = 0.5
    """Share of pairs whose B comes from another document."""
    short_sequences: Fraction = 0.1
    """Share of sequences with a random shorter target length."""
    duplicates: Count = 1
    """Times the corpus is gone through with other random choices (BERT's `dupe_factor`)."""


class SpanConfig(Section):
    """Questions on a text: windows of [CLS] question [SEP] text [SEP]."""

    max_question: Count = 64
    """Longest question in tokens; a longer one is cut at its end."""
    doc_stride: Count = 128
    """Tokens of the text from one window's start to the next one's."""
    misaligned: Literal["drop", "widen"] = "drop"
    """An answer that begins or ends inside a token: the question is left out of training splits, or the tokens
    that touch the answer are taken."""


class Seq2SeqConfig(Section):
    """Source and target: [CLS] source [SEP] target [SEP]."""

    max_source: Count | None = None
    """Longest source in tokens; default: all that the target leaves."""
    max_target: Count | None = None
    """Longest target in tokens; default: half of what `max_length` leaves beside special tokens."""


class EncodeConfig(Section):
    """Tokens, column groups and sequence assembly."""

    tokenizer: str
    """`vocab.txt`, `tokenizer.json` or a hub id."""
    lowercase: bool = True
    """`vocab.txt` only: lower-case and strip accents before looking up (BERT uncased, and Chinese)."""
    max_length: Annotated[int, Field(ge=8, le=MAX_LENGTH_LIMIT)] = 512
    """Longest row in tokens, special tokens included; 32,767 at most."""
    columns: list[Literal["syntax", "coarse", "tree"]] = ["syntax"]
    """Column groups beside `base`."""
    coarse: CoarseConfig | None = None
    labels: list[str] | None = None
    """Label names in order; default: those of the first split, sorted."""
    pretrain: PretrainConfig = PretrainConfig()
    span: SpanConfig = SpanConfig()
    seq2seq: Seq2SeqConfig = Seq2SeqConfig()
