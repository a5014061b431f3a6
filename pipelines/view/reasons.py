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

QUESTIONS = MappingProxyType(
    {
        "answers_repaired": "answers whose offset was wrong or missing, mended",
        "answers_located": "answers without offsets, found in the text",
        "answers_ambiguous": "answers that stand in several places",
        "answers_not_found": "answers that stand nowhere in the text",
        "answers_trimmed": "answers with white space at their edges, which was cut",
        "answers_empty": "empty answers, left out",
        "answers_not_on_tokens": "questions whose answers lie on no whole tokens",
        "answers_widened": "answers widened to whole tokens",
        "answers_in_no_window": "answers that no window holds whole",
        "questions_without_answer": "questions without an answer, left out",
        "questions_unlabelled": "questions without answers or right choice given",
        "questions_cut": "questions cut to max_question",
        "windowed_questions": "questions with more than one window",
        "options_empty": "options that are empty",
        "targets_cut": "targets cut to their budget",
    }
)
"""What was counted of questions, answers, choices and targets."""

_ALL = {**QUESTIONS, **MENTIONS, **BRANCHES, **OUTCOMES, **OCCURRENCES, **LEFT_OUT, **REJECTED}


def in_words(reason: str) -> str:
    """A reason or counter in words; one that has none is told by its name."""
    key, _, stage = reason.partition(" ")
    if key in QUESTIONS:
        return QUESTIONS[key] + (f" {stage}" if stage else "")
    return (
        _ALL.get(reason) or _ALL.get(f"dropped_{reason}") or reason.removeprefix("dropped_").replace("_", " ")
    )


def of_questions(counter: str) -> bool:
    """Whether a counter is of questions and answers."""
    return counter.partition(" ")[0] in QUESTIONS
