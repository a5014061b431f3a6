"""Whether coarse tokens are those of the text that they cover.

How the coarse vocabulary writes its tokens, and how text is compared with them, is known to whoever has the
vocabulary and the tokenizer, so `verify` is given a function for it.

Shapes: C coarse tokens of text, special tokens apart, of all rows of the view; 2 R texts, A and B of each row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from corpora.verify.facts import RowFacts
from corpora.verify.tokens import is_control, segments
from corpora.verify.view import Bools, Ints, Shape, View


@dataclass(frozen=True)
class Covered:
    """Coarse tokens with the text that each stands on."""

    texts: list[str]
    """[2 R], empty where a row has no segment B"""
    offsets: Ints
    """[2 R + 1], text i has coarse tokens `offsets[i]:offsets[i + 1]`"""
    ids: Ints
    """[C]"""
    starts: Ints
    """[C], where the first fine token begins, in characters of the text"""
    lasts: Ints
    """[C], where the last fine token begins"""
    stops: Ints
    """[C], where it ends"""
    from_: Ints
    """[C], where the coarse token before begins, 0 for a text's first one: words of which a part belongs to a
    token of their neighbour begin there at the earliest"""
    to: Ints
    """[C], where the coarse token behind ends, the text's end for its last one"""
    fine: Ints
    """[C], id of the fine token, -1 where there are several"""
    edge: Bools
    """[C], the first or last of its text: a row may hold a part of its word only"""


CoarseText = Callable[[Covered], Bools]
"""Which coarse tokens are what their text says, bool[C]."""


def check_coarse_text(view: View, facts: RowFacts, coarse_text: CoarseText) -> None:
    """Every coarse token but [UNK] says what the text says that it covers.

    Rows of `view` have sound coarse columns. Where `coarse_text` cannot look up anything (ValueError or OSError:
    vocabulary or tokenizer are damaged) that is one problem, and it is not asked again.
    """
    special = facts.coarse_special_ids
    view = _with_offsets(view)
    if special is None or not len(view) or view.is_broken("coarse_text"):
        return
    tokens, coarse = view.shape("coarse_index"), view.shape("coarse_ids")
    of = view.flat("coarse_index").astype(np.int64) + coarse.offsets[tokens.row]  # never falls
    first = np.searchsorted(of, np.arange(len(coarse.row)), "left")
    last = np.searchsorted(of, np.arange(len(coarse.row)), "right") - 1
    ids = view.flat("coarse_ids").astype(np.int64)
    text = 2 * coarse.row + segments(view, "coarse_ids", special)
    kept = np.flatnonzero(~is_control(ids, special))
    text, first, last = text[kept], first[kept], last[kept]
    texts = [side for row in zip(view.texts("text"), view.texts("text_pair"), strict=True) for side in row]
    starts = view.flat("char_starts").astype(np.int64)[first]
    stops = view.flat("char_stops").astype(np.int64)[last]
    opens, closes = np.ones(len(kept), bool), np.ones(len(kept), bool)
    opens[1:] = closes[:-1] = text[1:] != text[:-1]
    ends = np.array([len(t) for t in texts], np.int64)[text]
    covered = Covered(
        texts,
        Shape(np.bincount(text, minlength=len(texts))).offsets,
        ids[kept],
        starts,
        view.flat("char_starts").astype(np.int64)[last],
        stops,
        np.where(opens, 0, np.roll(starts, 1)),
        np.where(closes, ends, np.roll(stops, -1)),
        np.where(first == last, view.flat("input_ids")[first], -1),
        opens | closes,
    )
    try:
        wrong = ~coarse_text(covered)
    except (ValueError, OSError) as error:
        view.fail_folder("coarse_text", f"coarse tokens cannot be compared with their text: {error}")
        return

    def detail(i: int) -> str:
        at = int(np.searchsorted(kept, i))
        said = texts[text[at]][starts[at] : stops[at]]
        return f"coarse token {coarse.position[i]} (id {ids[i]}) covers {said!r}, which it does not say"

    view.fail_at("coarse_text", coarse, kept[wrong], detail)


def _with_offsets(view: View) -> View:
    """Rows whose fine tokens stand in their texts."""
    tokens, segment = view.shape("input_ids"), view.flat("token_type_ids")
    starts, stops = view.flat("char_starts"), view.flat("char_stops")
    limits = np.stack([view.text_lengths("text"), view.text_lengths("text_pair")])
    off = (starts < 0) | (stops < starts) | (stops > limits[segment, tokens.row])
    view.bad[tokens.row[off]] = True
    return view.good()
