"""Which language model each row trains: UniLM's bidirectional, left to right, right to left, sequence to sequence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from corpora.ragged import Ints
from models.collate.draws import keys, of_kind
from models.collate.sequences import Sequences
from models.masks import LM_KINDS
from models.stream.order import check_whole
from models.stream.rows import Array

_SEQ2SEQ = LM_KINDS.index("seq2seq")


def _published() -> dict[str, float]:
    """Dong et al. 2019, section 2.4."""
    return {"bidirectional": 1 / 3, "seq2seq": 1 / 3, "left_to_right": 1 / 6, "right_to_left": 1 / 6}


@dataclass(frozen=True)
class Kinds:
    """The step that draws `lm_kind` int64[n], an index into `masks.LM_KINDS`, of each row anew in each epoch.

    Dong et al. 2019 (UniLM), section 2.4, share out the time "within one training batch"; here each row draws by
    itself (`draws.py`), so over a batch the shares hold on average. A row without a second segment cannot be sequence
    to sequence: it draws among the others, by their shares, so of such rows none is left out.

    Attributes:
        shares: of each kind, 0 or more, of any sum; a kind not named has none.
        seed: 0 to 2^63-1.
        columns: see `Step.columns`.

    Raises:
        ValueError: a setting is wrong; the message names it.
    """

    shares: Mapping[str, float] = field(default_factory=_published)
    seed: int = 0
    columns: tuple[str, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        check_whole("seed of kinds", self.seed, 0, 2**63 - 1)
        for kind, share in self.shares.items():
            if kind not in LM_KINDS:
                raise ValueError(f"shares of kinds name {kind!r}; known are {', '.join(LM_KINDS)}")
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < math.inf:
                raise ValueError(f"share of {kind!r} must be a number from 0 on, found {share!r}")
        if not 0 < sum(self.shares.values()) < math.inf:
            raise ValueError(f"shares of kinds must have a sum above 0, found {dict(self.shares)}")

    def __call__(self, sequences: Sequences) -> Sequences:
        """See the class. Raises ValueError at a row without a second segment where only `seq2seq` has a share."""
        fine = sequences.fine
        draws = (of_kind(keys(sequences, self.seed)) >> np.uint64(11)) * 2.0**-53
        second = fine.counts(fine.columns["token_type_ids"] == 1) > 0
        shares = np.array([self.shares.get(kind, 0.0) for kind in LM_KINDS])
        kinds = _drawn(draws, shares)
        if shares[_SEQ2SEQ] and not second.all():
            shares[_SEQ2SEQ] = 0
            if not shares.any():
                number = sequences.rows.number[sequences.row[~second][0]]
                raise ValueError(
                    f"row {number} has no second segment, which 'seq2seq', the only kind with a share, needs: give "
                    "another kind a share, or encode with pairs (encode.pretrain.segments: pair)"
                )
            kinds = np.where(second, kinds, _drawn(draws, shares))
        return replace(sequences, scalars={**sequences.scalars, "lm_kind": kinds})


def _drawn(draws: Array, shares: Array) -> Ints:
    """The kind int64[n] of each draw, float64[n] from 0 to below 1."""
    ends = np.cumsum(shares)
    return np.searchsorted(ends / ends[-1], draws, side="right")
