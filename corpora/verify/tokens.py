"""Rules that fine and coarse tokens share: ids, control tokens, types."""

from __future__ import annotations

import numpy as np

from corpora.verify.facts import SpecialIds
from corpora.verify.view import Bools, Ints, View


def check_ids(view: View, name: str, rule: str, vocab_size: int) -> View:
    """Ids of column `name` lie in the vocabulary; returns the rows that pass."""
    shape, ids = view.shape(name), view.flat(name)
    view.fail(
        rule,
        shape,
        (ids < 0) | (ids >= vocab_size),
        lambda i: f"{name}[{shape.position[i]}] is {ids[i]} in a vocabulary of {vocab_size}",
    )
    return view.good()


def is_control(ids: Ints, special: SpecialIds) -> Bools:
    """Whether each id is one that text never yields: [PAD], [CLS], [SEP] or [MASK]."""
    flags = np.zeros(len(ids), bool)
    for control in special.control:
        flags |= ids == control
    return flags


def check_special(view: View, name: str, rule: str, special: SpecialIds, cut: Bools | None = None) -> None:
    """[CLS] first, [SEP] last and after segment A of a pair, no control token elsewhere.

    `cut` bool[R]: rows whose segment B was cut, so that no [SEP] ends them.
    """
    shape, ids = view.shape(name), view.flat(name)
    open_ended = np.zeros(len(view), bool) if cut is None else cut
    wanted = 1 + ~view.null("text_pair") - open_ended
    view.fail_rows(
        rule, shape.lengths < 2, lambda r: f"{name} has {shape.lengths[r]} tokens, expected at least 2"
    )
    first, last = shape.first, np.zeros(len(ids), bool)
    last[shape.offsets[1:][shape.lengths > 0] - 1] = True
    is_sep = ids == special.sep
    view.fail(rule, shape, first & (ids != special.cls), lambda i: f"{name} starts with {ids[i]}, not [CLS]")
    view.fail(
        rule,
        shape,
        last & (is_sep == open_ended[shape.row]),
        lambda i: (
            f"{name} ends with "
            + ("[SEP] behind a target that was cut" if is_sep[i] else f"{ids[i]}, not [SEP]")
        ),
    )
    count = shape.per_row(is_sep)
    view.fail_rows(
        rule, count != wanted, lambda r: f"{name} has {count[r]} [SEP], expected {wanted[r]} for its segments"
    )
    stray = is_control(ids, special) & ~is_sep & ~first
    view.fail(rule, shape, stray, lambda i: f"{name}[{shape.position[i]}] is the control token {ids[i]}")


def cut_targets(view: View) -> Bools | None:
    """bool[R]: rows whose target was cut; None for a task without targets."""
    if "target_cut" not in view.batch.schema.names:
        return None
    return view.column("target_cut").to_numpy(zero_copy_only=False).astype(bool)


def segments(view: View, name: str, special: SpecialIds) -> Ints:
    """Segment of each token by the [SEP]s before it, int64[N], for rows that pass `check_special`."""
    return view.shape(name).before(view.flat(name) == special.sep)


def check_types(view: View, rule: str, name: str, types_name: str, segment: Ints) -> None:
    """Token types are the segments."""
    shape, types = view.shape(name), view.flat(types_name)
    view.fail(
        rule,
        shape,
        types != segment,
        lambda i: f"{types_name}[{shape.position[i]}] is {types[i]}, its segment is {segment[i]}",
    )
