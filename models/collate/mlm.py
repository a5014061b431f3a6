"""Masked tokens: which are to be predicted, and what stands in their place.

BERT (Devlin et al. 2019, section 3.1, task 1, and `create_masked_lm_predictions` of the published code) chooses 15 %
of a row's tokens; of these 80 % become [MASK], 10 % a random token, 10 % stay. Here this is drawn when a batch is
made, anew in each epoch (RoBERTa: Liu et al. 2019, section 4.1), as `draws.py` says. Options choose whole words, whole
coarse tokens in one or both granularities (AMBERT), n-grams or a target alone (UniLM: Dong et al. 2019).

Special tokens, [UNK] among them, are never chosen and never drawn as random tokens; BERT's code passes over [CLS] and
[SEP] alone, and draws its random tokens from the whole vocabulary. As there a random token may happen to be the one it
replaces.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

import numpy as np

from corpora.ragged import Ints
from models.bert_batch import BatchError, need_columns
from models.collate.corrupt import Vocabulary, corrupted
from models.collate.draws import keys, of_coarse, to_choose, to_corrupt
from models.collate.sequences import Lists, Sequences
from models.collate.units import Flags, Tokens, by_chance, exactly, ngrams, quickly, runs
from models.stream.hashing import Bits, Halves
from models.stream.order import check_whole
from models.stream.rows import Array

Unit = Literal["token", "word", "coarse", "ngram"]
Budget = Literal["exact", "independent"]
Part = Literal["all", "target"]
Corrupted = Literal["token", "unit"]

_INDEX = {"word": "word_index", "coarse": "coarse_index"}
"""Column that says which tokens are a unit."""


@dataclass(frozen=True)
class Masking:
    """The step that masks: new `input_ids`, and `mlm_labels` (-100 where nothing is to be predicted).

    Attributes:
        vocabulary: of the fine tokens.
        seed: 0 to 2^63-1.
        rate: share of the tokens that is chosen, above 0, at most 1.
        budget: `exact`: of a sequence with n tokens max(1, round(rate * n)), where n counts [CLS] and [SEP] too and
            halves round to even, as in BERT's code; `independent`: each unit with probability `rate`, so
            sometimes none of a sequence.
        max_predictions: most tokens chosen of a sequence; with `exact` alone.
        units: `token`; `word`: all pieces of a word; `coarse`: all fine tokens of a coarse token; `ngram`: UniLM's,
            80 % of them one token, 20 % two or three, with `exact` alone. With `exact` a word or coarse token longer
            than what is left of the budget is passed over, as in BERT's code, so fewer may be chosen, or none.
            Tokens of a unit that may not be chosen (an [UNK]) stay as they are.
        part: `target`: of segment B alone (n is its length), with the [SEP] that ends it, the one special
            token that is ever chosen: predicting it, a model learns to stop (UniLM, section 2.5; at a rate of 0.7,
            section 3.1). A target that was cut ends without one. UniLM's published code does not count that [SEP] in n.
        branches: whether tokens of branches of a sentence tree may be chosen, too, and count; as words
            each is alone.
        shares: of the chosen tokens that become [MASK], become a random token, stay.
        corrupted_by: `token`: what becomes of it is drawn for each token, as in BERT; `unit`: for each unit, in both
            granularities at once; random tokens are always drawn for each.
        coarse: mask coarse tokens: those are the units that are chosen and counted, and each is masked together with
            its fine tokens (AMBERT, Zhang and Li 2020: 15 % of the coarse tokens). A coarse [UNK] may be chosen for its
            fine tokens' sake; itself it stays, and is not predicted.
        coarse_vocabulary: of the coarse tokens, where they are masked.

    Raises:
        ValueError: a setting is wrong; the message names it.
    """

    vocabulary: Vocabulary
    seed: int = 0
    rate: float = 0.15
    budget: Budget = "exact"
    max_predictions: int | None = None
    units: Unit = "token"
    part: Part = "all"
    branches: bool = False
    shares: Sequence[float] = (0.8, 0.1, 0.1)
    corrupted_by: Corrupted = "token"
    coarse: bool = False
    coarse_vocabulary: Vocabulary | None = None

    @classmethod
    def of(cls, metadata: Mapping[str, Any], **options: Any) -> Masking:
        """With the vocabularies of a dataset (`Split.metadata`); with `coarse` units are coarse, unless said.

        Raises ValueError if the dataset does not say what its special tokens are.
        """
        if options.get("coarse"):
            options = {"units": "coarse", "coarse_vocabulary": Vocabulary.of(metadata, "coarse_"), **options}
        return cls(Vocabulary.of(metadata), **options)

    def __post_init__(self) -> None:
        check_whole("seed of masking", self.seed, 0, 2**63 - 1)
        _share("rate", self.rate)
        if self.rate == 0:
            raise ValueError("rate of masking must be above 0, found 0: nothing would be masked")
        for name, kind in (("budget", Budget), ("units", Unit), ("part", Part), ("corrupted_by", Corrupted)):
            if getattr(self, name) not in get_args(kind):
                known = ", ".join(get_args(kind))
                raise ValueError(f"{name} of masking is {getattr(self, name)!r}; known are {known}")
        for name in ("branches", "coarse"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} of masking must be true or false, found {getattr(self, name)!r}")
        if isinstance(self.shares, str) or not isinstance(self.shares, Sequence) or len(self.shares) != 3:
            raise ValueError(f"shares of masking must be three: mask, random, keep; found {self.shares!r}")
        for share in self.shares:
            _share("shares", share)
        if abs(sum(self.shares) - 1) > 1e-6:
            raise ValueError(f"shares of masking must add up to 1, found {sum(self.shares)}")
        if self.max_predictions is not None:
            check_whole("max_predictions of masking", self.max_predictions, 1)
        if self.budget == "independent" and (self.max_predictions is not None or self.units == "ngram"):
            what = "units 'ngram'" if self.units == "ngram" else "max_predictions"
            raise ValueError(
                f"budget 'independent' of masking counts nothing: with {what} it must be 'exact'"
            )
        if self.coarse and (self.units != "coarse" or self.part != "all" or self.coarse_vocabulary is None):
            raise ValueError(
                "coarse masking chooses coarse tokens of the whole row: it needs units 'coarse', part 'all' and a "
                f"coarse_vocabulary; found units {self.units!r}, part {self.part!r} and coarse_vocabulary "
                f"{self.coarse_vocabulary!r}"
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """See `Step.columns`."""
        return (_INDEX[self.units],) if self.units in _INDEX else ()

    def __call__(self, sequences: Sequences) -> Sequences:
        """See the class.

        Raises BatchError if the sequences lack what is to be masked, a row its target, or what units are made of.
        """
        key = keys(sequences, self.seed)
        if self.coarse:
            return self._both(sequences, key)
        fine = sequences.fine
        counted = self._counted(fine)
        n = fine.lengths if counted is None else fine.counts(counted)
        if self.part == "target" and not n.all():
            number = sequences.rows.number[sequences.row[int(n.argmin())]]
            raise BatchError(
                f"row {number} has no second segment, and masking with part 'target' masks that alone: take part "
                "'all', or rows that have a target (task seq2seq)"
            )
        tokens, taken = self._taken(fine, self._may(fine, counted), n, to_choose(fine, key))
        of = np.flatnonzero(taken)
        chosen, where = tokens.index[of], tokens.sequence[of]
        draws = fates = to_corrupt(fine, chosen, where, key)
        if tokens.unit is not None and self.corrupted_by == "unit":
            fates = to_corrupt(fine, tokens.index[tokens.unit[of]], where, key)
        return replace(sequences, fine=corrupted(fine, self.vocabulary, chosen, draws, fates, self.shares))

    def _both(self, sequences: Sequences, key: Bits) -> Sequences:
        """Coarse tokens are chosen, and with each its fine tokens."""
        fine, coarse, vocabulary = sequences.fine, sequences.coarse, self.coarse_vocabulary
        if coarse is None or vocabulary is None:
            raise BatchError(
                "masking of coarse tokens needs a model that reads them: its view must be 'coarse'"
            )
        index, sequence = self._index(fine), fine.spread(np.arange(len(sequences)))
        maskable = np.flatnonzero((index >= 0) & ~self.vocabulary.special(fine.columns["input_ids"]))
        above = coarse.offsets[sequence[maskable]] + index[maskable]
        named = ~vocabulary.special(coarse.columns["input_ids"])
        may = named.copy()
        may[above] = True
        tokens, taken = self._taken(coarse, may, coarse.lengths, to_choose(coarse, key))
        chosen = np.zeros(len(may), dtype=bool)
        chosen[tokens.index[taken]] = True
        own = np.flatnonzero(chosen & named)
        everywhere = coarse.spread(np.arange(len(sequences)))
        fates = to_corrupt(coarse, np.arange(len(may)), everywhere, of_coarse(key))
        below, above = maskable[chosen[above]], above[chosen[above]]
        draws = to_corrupt(fine, below, sequence[below], key)
        theirs = fates[above] if self.corrupted_by == "unit" else draws
        return replace(
            sequences,
            fine=corrupted(fine, self.vocabulary, below, draws, theirs, self.shares),
            coarse=corrupted(coarse, vocabulary, own, fates[own], fates[own], self.shares),
        )

    def _counted(self, fine: Lists) -> Flags | None:
        """bool[m], tokens of which the rate is a share; None: of all."""
        counted = None
        if self.part == "target":
            counted = fine.columns["token_type_ids"] == 1
        if "branch" in fine.columns and not self.branches:
            trunk = fine.columns["branch"] == 0
            counted = trunk if counted is None else counted & trunk
        return counted

    def _may(self, fine: Lists, counted: Flags | None) -> Flags:
        """bool[m], tokens that may be chosen."""
        ids = fine.columns["input_ids"]
        may = ~self.vocabulary.special(ids)
        if self.part == "target":
            last = fine.offsets[1:][fine.lengths > 0] - 1
            may[last] |= ids[last] == self.vocabulary.special_ids["sep"]
        return may if counted is None else may & counted

    def _taken(self, lists: Lists, may: Flags, n: Ints, draws: Halves) -> tuple[Tokens, Flags]:
        """Tokens that may be chosen, and which are, bool[c]; of each sequence n tokens count, int64[sequences]."""
        alone = self.coarse or self.units not in _INDEX
        quota = np.maximum(1, np.rint(n * self.rate).astype(np.int64))
        if self.max_predictions is not None:
            quota = np.minimum(quota, self.max_predictions)
        if self.budget == "exact" and alone and self.units != "ngram":
            return quickly(lists, may, draws, quota)
        tokens = Tokens.of(lists, may)
        draws = draws[tokens.index]
        if self.units == "ngram":
            taken, unit = ngrams(tokens, self._follows(lists, tokens), draws, quota)
            return replace(tokens, unit=unit), taken
        if not alone:
            tokens = replace(tokens, unit=runs(tokens, self._index(lists)[tokens.index]))
        if self.budget == "independent":
            return tokens, by_chance(tokens, draws, self.rate)
        return tokens, exactly(tokens, draws, quota)

    def _follows(self, fine: Lists, tokens: Tokens) -> Flags:
        """Whether the next token that may be chosen is the next of the text: branches between do not part it."""
        index, sequence, branch = tokens.index, tokens.sequence, fine.columns.get("branch")
        number = index
        follows = np.zeros(len(tokens), dtype=bool)
        if branch is not None:
            here = branch[index]
            number = np.where(here == 0, np.cumsum(branch == 0)[index], index)
            follows[:-1] = here[1:] == here[:-1]
        else:
            follows[:-1] = True
        follows[:-1] &= (np.diff(number) == 1) & (sequence[1:] == sequence[:-1])
        return follows

    def _index(self, fine: Lists) -> Array:
        """The unit of each token, a number in its sequence; -1 where it has none."""
        name = _INDEX[self.units]
        need_columns([name], fine.columns, f"masking with units {self.units!r}")
        return fine.columns[name]


def _share(name: str, value: object) -> None:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not (math.isfinite(value) and 0 <= value <= 1)
    ):
        raise ValueError(f"{name} of masking must be a number from 0 to 1, found {value!r}")


OPTIONS = tuple(field.name for field in fields(Masking) if not field.name.endswith("vocabulary"))
"""What a recipe may say of masking: all but the vocabularies, which are the dataset's."""
