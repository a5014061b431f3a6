"""Splits that are cut out of others: a share of the texts, each with all its questions (`input.holdout`).

A text's side is a function of its characters alone: any order of files, any blocks and any number of workers give
the same splits, a text that stands twice is on one side both times, and no question on a text that is learned from
is asked in the held-out split. A text that differs by a blank is another text: near ones are `dedup`'s to find. The
price is that such files are read once for every split they feed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

_BYTES = 8


def side(shares: Mapping[str, float], text: str) -> str | None:
    """The split of `shares` that holds the text; None: the one whose files it stands in.

    Args:
        shares: name of each split to the share of texts that it takes, less than 1 in all.
    """
    # Lone surrogates are refused later, as a reject on one side.
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_BYTES).digest()
    place, edge = int.from_bytes(digest, "big") / 2 ** (8 * _BYTES), 0.0
    for split, share in sorted(shares.items()):  # in whatever order the config names them
        edge += share
        if place < edge:
            return split
    return None
