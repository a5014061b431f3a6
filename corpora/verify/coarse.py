"""Rules of the coarse columns: T fine tokens, C coarse tokens of a row."""

from __future__ import annotations

import numpy as np

from corpora.verify.coarse_text import CoarseText, check_coarse_text
from corpora.verify.facts import RowFacts
from corpora.verify.tokens import check_ids, check_special, check_types, cut_targets, segments
from corpora.verify.view import View


def check_coarse(view: View, facts: RowFacts, coarse_text: CoarseText | None = None) -> None:
    """Coarse ids, control tokens, types, the coarse token of every fine token, and what coarse tokens say."""
    special = facts.coarse_special_ids
    assert special is not None and facts.coarse_vocab_size is not None  # RowFacts.read saw to it
    view = check_ids(view, "coarse_ids", "coarse_ids", facts.coarse_vocab_size)
    check_special(view, "coarse_ids", "coarse_special_tokens", special, cut_targets(view))
    view = view.good()
    check_types(
        view,
        "coarse_token_types",
        "coarse_ids",
        "coarse_token_type_ids",
        segments(view, "coarse_ids", special),
    )
    view = view.good()
    tokens, index = view.shape("coarse_index"), view.flat("coarse_index").astype(np.int64)
    coarse, coarse_ids = view.shape("coarse_ids"), view.flat("coarse_ids")
    step = np.zeros(len(index), np.int64)
    step[1:] = index[1:] - index[:-1]
    last = np.zeros(len(index), bool)
    last[tokens.offsets[1:] - 1] = True  # rows have at least [CLS] and [SEP]
    count = coarse.lengths[tokens.row]
    wrong = np.where(tokens.first, index != 0, (step < 0) | (step > 1)) | (last & (index != count - 1))
    view.fail(
        "coarse_index",
        tokens,
        wrong,
        lambda i: (
            f"token {tokens.position[i]} has coarse token {index[i]} of {count[i]}, "
            "which does not follow on the one before it"
        ),
    )
    view = view.good()
    tokens, index = view.shape("coarse_index"), view.flat("coarse_index").astype(np.int64)
    coarse, coarse_ids, ids = view.shape("coarse_ids"), view.flat("coarse_ids"), view.flat("input_ids")
    covering = coarse_ids[index + coarse.offsets[tokens.row]]
    fine = facts.special_ids
    wrong = ((ids == fine.cls) != (covering == special.cls)) | (
        (ids == fine.sep) != (covering == special.sep)
    )
    view.fail(
        "coarse_index",
        tokens,
        wrong,
        lambda i: (
            f"token {tokens.position[i]} (id {ids[i]}) has coarse token {index[i]} (id {covering[i]}): "
            "special tokens go with special tokens"
        ),
    )
    if coarse_text is not None:
        check_coarse_text(view.good(), facts, coarse_text)
