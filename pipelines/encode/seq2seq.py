"""Source and target in one row, [CLS] source [SEP] target [SEP], for a model that writes the target (UniLM).

Dong et al. 2019, section 2.3: the source is seen whole, the target from left to right. A [SEP] behind the target
tells the model to stop there, so a target that was cut has none (and the row is one token shorter).
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from pipelines.config import ConfigError
from pipelines.encode.assemble import Cutter, Rows
from pipelines.encode.tokenizer import Tokens
from pipelines.encode_config import EncodeConfig, Seq2SeqConfig
from pipelines.ragged import Ints

_SPECIAL = 3


def check_seq2seq(encode: EncodeConfig) -> None:
    """Raise ConfigError unless a target of full length leaves room for a source."""
    target, room = encode.seq2seq.max_target, encode.max_length - _SPECIAL
    if target is not None and target >= room:
        raise ConfigError(
            f"encode.seq2seq.max_target is {target}, which leaves no token for the source (encode.max_length = "
            f"{encode.max_length} less {_SPECIAL} special tokens). Lower encode.seq2seq.max_target or raise "
            "encode.max_length."
        )


def seq2seq_rows(
    tokens: Tokens, pairs: Ints, documents: Ints, config: Seq2SeqConfig, max_length: int, cutter: Cutter
) -> Rows:
    """One row a pair: the target up to its budget, then as much of the source as is left, both cut at their ends.

    Args:
        pairs: [R, 2], texts of source and target; each has tokens.
        documents: [R], document of each.

    Counters: `truncated_rows`; `targets_cut`, those of them whose target was cut.
    """
    room = max_length - _SPECIAL
    starts, ends = tokens.offsets[pairs], tokens.offsets[pairs + 1]
    stops = ends.copy()
    stops[:, 1] = np.minimum(ends[:, 1], starts[:, 1] + (config.max_target or room // 2))
    _clean(stops, starts, ends, pairs, 1, cutter)
    left = room - (stops[:, 1] - starts[:, 1])
    if config.max_source is not None:
        left = np.minimum(left, config.max_source)
    stops[:, 0] = np.minimum(ends[:, 0], starts[:, 0] + left)
    _clean(stops, starts, ends, pairs, 0, cutter)
    cut = stops < ends
    counters = Counter(truncated_rows=int(cut.any(axis=1).sum()), targets_cut=int(cut[:, 1].sum()))
    return Rows(documents, pairs, starts, stops, None, counters, unended=cut[:, 1])


def _clean(stops: Ints, starts: Ints, ends: Ints, pairs: Ints, side: int, cutter: Cutter) -> None:
    """Move cuts of one segment back to where they part no grapheme cluster."""
    for row in np.flatnonzero(stops[:, side] < ends[:, side]).tolist():
        stops[row, side] = cutter.stop(int(pairs[row, side]), int(starts[row, side]), int(stops[row, side]))
