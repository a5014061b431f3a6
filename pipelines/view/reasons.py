"""What counters and reasons mean, in words: one table for `kg build`, `kg lookup`, `stats` and README."""

from __future__ import annotations

from types import MappingProxyType

from kg.reasons import LEFT_OUT, REJECTED

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

_ALL = {**MENTIONS, **BRANCHES, **OUTCOMES, **OCCURRENCES, **LEFT_OUT, **REJECTED}


def in_words(reason: str) -> str:
    """A reason or counter in words; one that has none is told by its name."""
    return (
        _ALL.get(reason) or _ALL.get(f"dropped_{reason}") or reason.removeprefix("dropped_").replace("_", " ")
    )
