"""What counters and reasons mean, in words: one table for `kg build`, `kg lookup`, `stats` and README."""

from __future__ import annotations

from types import MappingProxyType

MENTIONS = MappingProxyType(
    {
        "dropped_anchor_cut": "cut by truncation",
        "dropped_unaligned": "begins or ends inside a token",
    }
)
"""Why mentions of subjects have no anchor."""

BRANCHES = MappingProxyType(
    {
        "dropped_predicate": "predicate not wanted",
        "dropped_object_too_long": "object longer than max_object_length",
        "dropped_object_repeated": "object that the mention has already",
        "dropped_loop": "object that leads back to where it hangs",
        "dropped_empty": "no tokens",
        "dropped_position": "would pass max_positions",
        "dropped_budget": "no room left in max_length",
        "dropped_row_limit": "row has branches_per_row already",
    }
)
"""Why triples of mentioned subjects are no branches."""

OUTCOMES = MappingProxyType({"kept": "kept", "beyond_branches_per_mention": "more than branches_per_mention"})
"""Of triples that nothing dropped."""

OCCURRENCES = MappingProxyType(
    {
        "": "mention",
        "inside_word": "inside a word",
        "too_short": "shorter than min_mention_length",
        "too_long": "longer than max_mention_length",
        "stopped": "on the stop list",
        "overlapped": "overlapped by a longer or earlier mention",
        "not_a_word": "no word of the segmentation",
    }
)
"""Why a subject that stands in a text is no mention."""

LEFT_OUT = MappingProxyType(
    {
        "blank": "blank lines",
        "comment": "comments",
        "header": "header lines",
        "label": "triples that name a node",
        "other_language": "in another language",
        "no_label": "nodes without a label",
        "not_a_concept": "not about two concepts",
        "self_triple": "a thing with itself",
        "duplicate": "repeated triples",
        "subject_too_short": "subject shorter than min_subject",
        "subject_too_long": "subject longer than max_subject",
        "subject_stopped": "subject on the stop list",
        "object_too_long": "object longer than max_object",
    }
)
"""What of the files of a graph is well-formed, and no triple of it."""

REJECTED = MappingProxyType(
    {
        "bad_encoding": "not UTF-8",
        "wrong_field_count": "wrong number of fields",
        "empty_subject": "empty subject",
        "empty_object": "empty object",
        "line_too_long": "line too long",
        "control_character": "control character",
        "bad_syntax": "wrong syntax",
    }
)
"""What is malformed in the files of a graph."""

_ALL = {**MENTIONS, **BRANCHES, **OUTCOMES, **OCCURRENCES, **LEFT_OUT, **REJECTED}


def in_words(reason: str) -> str:
    """A reason or counter in words; one that has none is told by its name."""
    return (
        _ALL.get(reason) or _ALL.get(f"dropped_{reason}") or reason.removeprefix("dropped_").replace("_", " ")
    )
