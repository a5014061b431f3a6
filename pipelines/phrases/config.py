"""The `phrases` section of a config: the n-gram model, and which n-grams are phrases."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pipelines.section import Count, Fraction, Section


class PhrasesConfig(Section):
    """An n-gram model of the words, and the phrases it shows."""

    text: Literal["annotated", "lines"] = "annotated"
    """`annotated`: the sentences and words of the annotated documents (made if they are not there); `lines`: the lines
    of `input.files`, already cut into words by spaces, as KenLM's own tools take them."""
    lowercase: bool = True
    """Count words in lower case."""
    order: Annotated[int, Field(ge=2, le=5)] = 3
    """Words in the longest n-gram of the model."""
    prune: list[Annotated[int, Field(ge=0)]] = []
    """n-grams seen so often or less leave the model: a threshold per order, the last one for all higher ones."""
    discount_fallback: list[Annotated[float, Field(ge=0)]] | None = None
    """Three discounts for a corpus too small or too regular to have its own, such as [0.5, 1, 1.5]; default: an error."""
    longest: Annotated[int, Field(ge=2, le=5)] | None = None
    """Words in the longest phrase; default: the order."""
    min_count: Count = 5
    """A phrase occurs at least so often."""
    min_probability: Fraction = 0.1
    """Of its last word, given the words before it."""
    size: Count = 78_000
    """Most phrases in the lexicon."""
