"""The `phrases` section of a config: the n-gram model, and which n-grams are phrases."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from pipelines.ngrams.estimate import pruning
from pipelines.section import MOST, Count, Fraction, Section

Rank = Literal["gain", "probability", "dependence", "count"]
WordKind = Literal["letters", "numbers", "any"]


class PhrasesConfig(Section):
    """An n-gram model of the words, and the phrases it shows."""

    text: Literal["annotated", "lines"] = "annotated"
    """`annotated`: the sentences and words of the annotated documents (made if they are not there), of pairs both
    texts; `lines`: the lines of `input.files`, already cut into words by spaces, as KenLM's own tools take them."""
    splits: list[str] | None = None
    """Splits that are counted; default: those that train (`input.train_splits`, or names that begin with `train`),
    so that no phrase comes from what a model is tested on; all where none does."""
    lowercase: bool | None = None
    """Count words in lower case; default: as `encode.lowercase`, so that the phrases are found again."""
    order: Annotated[int, Field(ge=2, le=5)] = 3
    """Words in the longest n-gram of the model."""
    prune: list[Annotated[int, Field(ge=0, le=MOST)]] = []
    """n-grams seen so often or less leave the model: a threshold per order, the last one for all higher ones."""
    discount_fallback: list[Annotated[float, Field(ge=0)]] | None = None
    """Three discounts for a corpus too small or too regular to have its own, such as [0.5, 1, 1.5]; default: an
    error."""
    longest: Annotated[int, Field(ge=2, le=5)] | None = None
    """Words in the longest phrase, at most the order; default: the order."""
    words: WordKind = "letters"
    """What every word of a phrase must hold: a letter (Chinese characters are some), `numbers`: a letter or a digit,
    `any`: anything, so that punctuation and symbols may be words of a phrase."""
    stop: list[str] | str | None = None
    """Words that a phrase neither begins nor ends with: a list, or a file with one a line; default: the function words
    that spaCy lists for the language. `[]`: none."""
    links: list[str] | None = None
    """Those of the function words that may stand inside a phrase; default: for English prepositions, `the` and `'s`, so
    that no phrase is a coordination (`sodium and potassium`) or a clause (`eggs are laid`), elsewhere all."""
    min_count: Count = 5
    """A phrase occurs at least so often."""
    min_probability: Fraction = 0.001
    """Of its last word, given the words before it. 0.1 would already cut `new york`: much else follows `new`."""
    min_dependence: float = 1.0
    """How much more probable the words before make its last word, as a power of ten: 1 means ten times; -99: any."""
    max_inside: Fraction = 0.8
    """A phrase is a fragment, and left out, where a larger share of its occurrences lies in one longer phrase, as
    those of `york city` in `new york city`; 1: none is."""
    rank: Rank = "gain"
    """Best first, by: `gain`, count times dependence, which is what knowing the words before saves over the whole
    corpus; or one of the three numbers alone."""
    size: Count = 78_000
    """Most phrases in the lexicon; the best stay."""

    @property
    def most_words(self) -> int:
        """Words in the longest phrase."""
        return self.longest or self.order

    @model_validator(mode="after")
    def _consistent(self) -> PhrasesConfig:
        if self.most_words > self.order:
            raise ValueError(
                f"longest {self.longest} is more than order {self.order}: the model would not see such phrases whole"
            )
        fallback = self.discount_fallback
        if fallback is not None and (len(fallback) != 3 or any(d > k for k, d in enumerate(fallback, 1))):
            raise ValueError(
                f"discount_fallback: expected three numbers, of at most 1, 2 and 3, found {fallback}; "
                "KenLM takes [0.5, 1, 1.5]"
            )
        pruning(self.prune, self.order)
        if self.splits == []:
            raise ValueError(
                "splits: expected at least one split, found an empty list; leave it out for those that train"
            )
        return self
