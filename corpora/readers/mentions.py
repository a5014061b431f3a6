"""Parts of a text that a record points to by their characters: mentions to label, and mentions to mark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from corpora.readers.sink import FieldError
from corpora.readers.strictjson import no_surrogates


def mention_labels(text: str, mentions: dict[str, Any], field: str) -> tuple[list[str], int]:
    """`B-`, `I-` or `O` of every character, and how many mentions were left out because they overlap others.

    Args:
        mentions: `{type: {mention: [[first, last], ...]}}`, characters from 0, the last one included.

    Of mentions that overlap, the one that begins first is kept, then the longest, then the first in the record.

    Raises:
        FieldError: `bad_type`; `bad_mention`, where the text says something else at that place; `bad_unicode`.
    """
    no_surrogates(list(mentions))
    spans: list[tuple[int, int, int, str]] = []
    for kind, by_text in mentions.items():
        if not kind or not isinstance(by_text, dict):
            raise _not_mentions(field)
        for mention, places in by_text.items():
            for place in places if isinstance(places, list) else [None]:
                if not (isinstance(place, list) and len(place) == 2 and all(type(n) is int for n in place)):
                    raise _not_mentions(field)
                first, last = place
                check_place(text, mention, first, field)
                if last != first + len(mention) - 1:
                    raise FieldError(
                        "bad_mention", f"{field!r}: {mention[:100]!r} is said to go from {first} to {last}"
                    )
                spans.append((first, -len(mention), len(spans), kind))
    labels = ["O"] * len(text)
    end = overlaps = 0
    for first, size, _, kind in sorted(spans):
        if first < end:
            overlaps += 1
            continue
        end = first - size
        labels[first:end] = [f"B-{kind}"] + [f"I-{kind}"] * (-size - 1)
    return labels, overlaps


def insert_marks(text: str, places: Sequence[tuple[int, int, str, str]]) -> str:
    """The text with signs around parts of it.

    Args:
        places: first character and one past the last of each, what to put before and behind it. What ends at a
            place is closed before what begins there is opened.
    """
    signs = [(stop, 0, -start, right) for start, stop, _, right in places]
    signs += [(start, 1, -stop, left) for start, stop, left, _ in places]
    pieces, at = [], 0
    for place, _, _, sign in sorted(signs):
        pieces += [text[at:place], sign]
        at = place
    return "".join([*pieces, text[at:]])


def check_place(text: str, mention: Any, start: Any, field: str) -> None:
    """Raise FieldError `bad_mention` unless `mention` stands in the text at `start`."""
    if not isinstance(mention, str) or type(start) is not int:
        raise FieldError("bad_mention", f"{field!r} needs a text and the number of its first character")
    found = text[start : start + len(mention)] if start >= 0 else ""
    if not mention or found != mention:
        raise FieldError(
            "bad_mention",
            f"{field!r}: expected {mention[:100]!r} at character {start}, found {found[:100]!r}",
        )


def _not_mentions(field: str) -> FieldError:
    return FieldError(
        "bad_type",
        f"{field!r} must be an object such as {{'name': {{'Ann': [[0, 2]]}}}}: type, mention, places",
    )
