"""What the reasons of `kg.read` and `kg.compile` mean, in words."""

from __future__ import annotations

from types import MappingProxyType

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
