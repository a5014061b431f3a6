"""Raw records: what a reader hands on, before any annotation.

A reader turns a block of a file into Arrow tables with `RAW_SCHEMA`, at most about
`batch_bytes` of text each. What cannot become a record becomes a `Reject`: never a wrong row,
never silence.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import pyarrow as pa

EXCERPT_CHARS = 200
"""Longest excerpt of bad input that a reject repeats, in characters."""

RAW_SCHEMA = pa.schema(
    [
        # Unique in the corpus: the record's own id field, or `<path>@<byte>` of its first byte, or
        # `<path>` where a file is one document. Never a line number: it would change with block size.
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("text_pair", pa.string()),  # second text of a pair task
        pa.field("language", pa.string()),  # only where the record itself says it
        # `<path>@<byte>`: the path as the config wrote it (relative to the config file), and the
        # offset of the record's first byte in the decompressed file: of a question that stands inside a
        # JSON file, the first byte of its own object (or string, where RACE lists its questions).
        pa.field("source", pa.string(), nullable=False),
        pa.field("label", pa.string()),  # classification label, as written
        pa.field("label_score", pa.float32()),  # regression target
        pa.field("title", pa.string()),  # of a Wikipedia page
        pa.field("categories", pa.list_(pa.string())),  # of a Wikipedia page, as written
        # Sequence labelling: one entry per source token (character or word of the labelled file),
        # offsets in characters into `text`.
        pa.field("tag_starts", pa.list_(pa.int32())),
        pa.field("tag_stops", pa.list_(pa.int32())),
        pa.field("tag_labels", pa.list_(pa.string())),
        # A question on `text_pair`: gold answers and their offsets in it, -1 where unknown.
        pa.field("answers", pa.list_(pa.string())),
        pa.field("answer_starts", pa.list_(pa.int32())),
        pa.field("is_impossible", pa.bool_()),
        # Multiple choice: where each choice stands in `text_pair`, which is all of them, a line each.
        pa.field("choice_starts", pa.list_(pa.int32())),
        pa.field("choice_stops", pa.list_(pa.int32())),
        # Annotations that the corpus itself brings, under the names and with the meaning that
        # `corpora.schema` gives them in annotated documents. Words come with sentences, parses with words.
        # Null where there are none; a head is -1 where its sentence carries no parse.
        *(
            pa.field(name + suffix, pa.list_(kind))
            for suffix in ("", "_pair")
            for name, kind in (
                ("sentence_starts", pa.int32()),
                ("sentence_stops", pa.int32()),
                ("word_starts", pa.int32()),
                ("word_stops", pa.int32()),
                ("word_heads", pa.int32()),
                ("word_deprels", pa.string()),
                ("word_pos", pa.string()),
            )
        ),
    ]
)


@dataclass(frozen=True)
class Reject:
    """A record that could not be used.

    `reason` is a short snake_case word that manifests count by (`bad_json`, `unequal_counts`);
    `detail` says what was expected and what was found; `line` is 1-based and None where the
    position is only known in bytes.
    """

    path: str
    byte: int
    line: int | None
    reason: str
    detail: str
    excerpt: str = ""

    def to_json(self) -> str:
        """One JSON line with a bounded excerpt; lone surrogates cannot occur in decoded text."""
        return json.dumps(
            {
                "path": self.path,
                "byte": self.byte,
                "line": self.line,
                "reason": self.reason,
                "detail": self.detail[:1000],
                "excerpt": self.excerpt[:EXCERPT_CHARS],
            },
            ensure_ascii=False,
        )
