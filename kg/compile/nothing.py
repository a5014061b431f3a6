"""What to say where files hold no triple: what their lines were instead, and what helps against it.

Options stand in backticks as a config writes them, `key: value`, for a command line to reword.
"""

from __future__ import annotations

from collections.abc import Sequence

from kg.read import ReadCounts, ReadOptions
from kg.reasons import LEFT_OUT, REJECTED

_MOST_LANGUAGES = 20
_SPO = (
    "expected triples of subject, predicate and object, in the `.spo` form a line of three fields "
    "separated by TAB in UTF-8"
)
_REMEDIES = {
    "not_a_concept": "ConceptNet's own files have five fields between TABs: URI, relation, start, end, facts",
    "self_triple": "expected triples whose subject and object differ after folding; check `columns`",
    "subject_too_short": "give a smaller `min_subject`",
    "subject_too_long": "give a larger `max_subject`, or check `columns`",
    "object_too_long": "give a larger `max_object`, or check `columns`",
    "subject_stopped": "take subjects off the `stop` list",
    "header": "the file has a header and nothing else",
    "label": "the files name nodes and say nothing else of them; add those that do",
    "wrong_field_count": f"give `columns`, or another `format` or `delimiter`; otherwise {_SPO}",
    "bad_encoding": "give the files' own `encoding`, such as `encoding: gb18030`",
    "empty_subject": "check `columns`",
    "empty_object": "check `columns`",
}
_NEVER = ("blank", "comment", "header", "label", "duplicate")
"""Reasons that are the cause only where there is no other."""


def nothing_left(paths: Sequence[str], counts: ReadCounts, options: ReadOptions) -> str:
    """The message: files, counts in words, and the remedy against the most frequent reason."""
    why = {**counts.left_out, **counts.rejected}
    order = sorted(why, key=lambda reason: (reason in _NEVER, -why[reason], reason))
    words = {**LEFT_OUT, **REJECTED}
    told = ", ".join(f"{words.get(reason, reason)} {why[reason]:,}" for reason in order)
    lines = f"{counts.read:,} line{'' if counts.read == 1 else 's'} read"
    remedy = _remedy(order[0], counts, options) if order else _SPO
    return f"no triple in {', '.join(map(str, paths))}: {lines}{f' ({told})' if told else ''}; {remedy}"


def _remedy(reason: str, counts: ReadCounts, options: ReadOptions) -> str:
    found = sorted(counts.languages)
    shown = ", ".join(found[:_MOST_LANGUAGES]) + (", ..." if len(found) > _MOST_LANGUAGES else "")
    have = f"the languages of the files are {shown}" if found else "no text of the files has a language"
    if reason == "other_language":
        another = "give another `language`"
        return f"{have}; {another}" if found else f"{another}, such as `language: en`"
    if reason == "no_label":
        other = "name the property that labels nodes in `labels`, or give `unlabelled: local_name`"
        return (
            f"{have}; give another `language`, {other}"
            if options.language is not None
            else f"{have}; {other}"
        )
    return _REMEDIES.get(reason, _SPO)
