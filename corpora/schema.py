"""The two Arrow contracts as code: the annotated document and the shard row.

Every column stands in a list of `Column`s with its shape and meaning, so that README's tables,
the writers and the verifier cannot drift apart. Nothing here is model specific: columns
*describe* structure with a few integers per token, and every attention mask is a predicate
over those integers (`models.masks`).

Shapes: T trunk tokens including special tokens, W words, C coarse tokens, F tokens of the
flattened tree, B branches, S sentences, D words of the document, U source tokens of a labelled
sequence, N choices of a question. Offsets count characters (Unicode code points) of the text they point into.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

SCHEMA_VERSION = 3
MAX_LENGTH_LIMIT = 32_767
"""Indices and positions are int16, hence the longest row."""
IGNORED_LABEL = -100
"""Token label of special tokens and of pieces after the first (PyTorch's `ignore_index`)."""
METADATA_KEY = b"treegraft"
"""Key of the schema metadata that holds this project's JSON."""

Task = Literal["pretrain", "classify", "tag", "span", "choice", "seq2seq"]
TASKS: tuple[Task, ...] = ("pretrain", "classify", "tag", "span", "choice", "seq2seq")
Group = Literal["base", "syntax", "coarse", "tree"]
GROUPS: tuple[Group, ...] = ("base", "syntax", "coarse", "tree")

_text = pa.string()
_ids = pa.list_(pa.field("item", pa.int32(), nullable=False))
_index = pa.list_(pa.field("item", pa.int16(), nullable=False))
_type = pa.list_(pa.field("item", pa.int8(), nullable=False))
_triples = pa.list_(pa.field("item", pa.int64(), nullable=False))
_offsets = _ids
_strings = pa.list_(pa.string())
_flags = pa.list_(pa.field("item", pa.bool_(), nullable=False))


@dataclass(frozen=True)
class Column:
    """One column of a contract: its name, Arrow type, the group and shape it belongs to, its meaning."""

    name: str
    type: pa.DataType
    group: str
    shape: str
    meaning: str
    nullable: bool = False

    @property
    def field(self) -> pa.Field:
        return pa.field(self.name, self.type, nullable=self.nullable)


# --- stage 1: annotated documents -------------------------------------------------------------

_DOC_COLUMNS = (
    Column("doc_id", _text, "document", "", "unique in the corpus"),
    Column("text", _text, "document", "", "the document, never altered"),
    Column("text_pair", _text, "document", "", "second text of a pair task", nullable=True),
    Column("language", _text, "document", "", "`zh`, `en`, ..."),
    Column("source", _text, "document", "", "`<path>@<byte>` of the record"),
    Column("title", _text, "document", "", "of a Wikipedia page; null elsewhere", nullable=True),
    Column(
        "categories",
        _strings,
        "document",
        "",
        "of a Wikipedia page, as written; null elsewhere",
        nullable=True,
    ),
    Column("label", _text, "label", "", "classification label as written", nullable=True),
    Column("label_score", pa.float32(), "label", "", "regression target", nullable=True),
    Column("tag_starts", _offsets, "label", "U", "source token's first character", nullable=True),
    Column("tag_stops", _offsets, "label", "U", "one past its last character", nullable=True),
    Column("tag_labels", _strings, "label", "U", "label of each source token", nullable=True),
    Column("answers", _strings, "label", "G", "gold answers of a question on `text_pair`", nullable=True),
    Column(
        "answer_starts",
        _offsets,
        "label",
        "G",
        "first character in `text_pair`; -1 where unknown",
        nullable=True,
    ),
    Column("is_impossible", pa.bool_(), "label", "", "the question has no answer", nullable=True),
    Column(
        "choice_starts",
        _offsets,
        "label",
        "N",
        "first character of each choice in `text_pair`",
        nullable=True,
    ),
    Column("choice_stops", _offsets, "label", "N", "one past its last character", nullable=True),
)


def _annotation_columns(suffix: str) -> tuple[Column, ...]:
    of = "text_pair" if suffix else "text"
    deprels = pa.list_(pa.dictionary(pa.int16(), pa.string()))
    null = bool(suffix)  # a record of a pair corpus may lack its second text
    return (
        Column(f"sentence_starts{suffix}", _offsets, "sentences", "S", f"first character in `{of}`", null),
        Column(f"sentence_stops{suffix}", _offsets, "sentences", "S", "one past the last character", null),
        Column(f"word_starts{suffix}", _offsets, "words", "D", f"first character in `{of}`", null),
        Column(f"word_stops{suffix}", _offsets, "words", "D", "one past the last character", null),
        Column(
            f"word_heads{suffix}", _ids, "parse", "D", "document index of the head; a root is its own", null
        ),
        Column(f"word_deprels{suffix}", deprels, "parse", "D", "dependency relation to the head", null),
        Column(f"word_pos{suffix}", deprels, "parse", "D", "universal part of speech", null),
    )


def annotated_columns(*, parsed: bool, pair: bool) -> tuple[Column, ...]:
    """Columns of an annotated document, in order.

    `pair` adds every annotation of `text_pair` under the same names with `_pair` appended;
    `parsed` adds heads, relations and parts of speech.
    """
    columns = _DOC_COLUMNS + _annotation_columns("") + (_annotation_columns("_pair") if pair else ())
    return tuple(c for c in columns if parsed or c.group != "parse")


def annotated_schema(*, parsed: bool, pair: bool, metadata: Mapping[str, Any] | None = None) -> pa.Schema:
    """Arrow schema of stage 1."""
    return _schema(annotated_columns(parsed=parsed, pair=pair), metadata)


# --- stage 2: shard rows ----------------------------------------------------------------------

_ROW_COLUMNS = (
    Column("id", _text, "base", "", "unique in the split: `<doc_id>#<n>`"),
    Column("text", _text, "base", "", "text of segment A, which offsets point into"),
    Column("text_pair", _text, "base", "", "text of segment B", nullable=True),
    Column("input_ids", _ids, "base", "T", "fine tokens (WordPiece), with [CLS] and [SEP]"),
    Column("token_type_ids", _type, "base", "T", "0 = segment A, 1 = segment B"),
    Column(
        "char_starts", _offsets, "base", "T", "first character in the segment's text; 0 for special tokens"
    ),
    Column("char_stops", _offsets, "base", "T", "one past the last character; 0 for special tokens"),
    Column("word_index", _index, "syntax", "T", "word of each token; -1 for special tokens"),
    Column("word_heads", _index, "syntax", "W", "index of the head word in this row; a root is its own head"),
    Column("word_deprels", _index, "syntax", "W", "index into `deprels` of the schema metadata"),
    Column("word_dfs_in", _index, "syntax", "W", "depth-first entry number over the whole row"),
    Column(
        "word_dfs_out",
        _index,
        "syntax",
        "W",
        "exit number: a is an ancestor of (or is) b iff in[a] <= in[b] < out[a]",
    ),
    Column("sentence_index", _index, "syntax", "W", "sentence of each word"),
    Column("coarse_ids", _ids, "coarse", "C", "coarse tokens (words or phrases), with [CLS] and [SEP]"),
    Column("coarse_token_type_ids", _type, "coarse", "C", "0 = segment A, 1 = segment B"),
    Column("coarse_index", _index, "coarse", "T", "coarse token that covers each fine token"),
    Column("tree_ids", _ids, "tree", "F", "trunk tokens with branches inserted after their anchor"),
    Column(
        "tree_token_type_ids", _type, "tree", "F", "0 = segment A, 1 = segment B; a branch has its anchor's"
    ),
    Column(
        "tree_soft_positions",
        _index,
        "tree",
        "F",
        "trunk counts on as if no branch were there; a branch counts on from the last token of what it hangs from",
    ),
    Column("tree_branch", _index, "tree", "F", "0 for the trunk, k for the k-th branch"),
    Column("tree_mention", _index, "tree", "F", "mention of an anchor or branch token; -1 elsewhere"),
    Column(
        "tree_trunk_index", _index, "tree", "F", "index of the trunk token in `input_ids`; -1 on a branch"
    ),
    Column("branch_triples", _triples, "tree", "B", "id of each branch's triple in the graph"),
    Column("branch_parents", _index, "tree", "B", "branch that each branch hangs from; 0 = the trunk"),
)

_LABEL_COLUMNS: dict[str, tuple[Column, ...]] = {
    "pretrain": (
        Column(
            "label", pa.int32(), "label", "", "0 = B follows A, 1 = B is random; null without pairs", True
        ),
    ),
    "classify": (
        Column(
            "label",
            pa.int32(),
            "label",
            "",
            "index into `labels` of the schema metadata; null where the record has none",
            True,
        ),
        Column(
            "label_score",
            pa.float32(),
            "label",
            "",
            "regression target; null where the record has none",
            True,
        ),
    ),
    "tag": (
        Column(
            "token_labels", _index, "label", "T", "index into `labels`; -100 on special and non-first pieces"
        ),
        Column("tag_starts", _offsets, "label", "U", "first character of each source token that the row has"),
        Column("tag_stops", _offsets, "label", "U", "one past its last character"),
    ),
    "span": (
        Column(
            "answer_start", pa.int16(), "label", "", "first token of the answer; 0 ([CLS]) without one here"
        ),
        Column("answer_stop", pa.int16(), "label", "", "one past its last token; 1 without an answer here"),
        Column("is_impossible", pa.bool_(), "label", "", "the question has no answer in its whole text"),
        Column("answers", _strings, "label", "G", "gold answers, as written"),
        Column(
            "is_max_context",
            _flags,
            "label",
            "T",
            "of all windows with this token of `text_pair`, here it has most context; false elsewhere",
        ),
    ),
    "choice": (
        Column("label", pa.int32(), "label", "", "index of the right choice; null where none is given", True),
        Column(
            "choice_lengths", _index, "label", "N", "tokens of each choice; its sequence is T's next so many"
        ),
        Column("choice_starts", _offsets, "label", "N", "first character of each choice in `text_pair`"),
        Column("choice_stops", _offsets, "label", "N", "one past its last character"),
        Column(
            "choice_words", _index, "syntax", "N", "words of each choice; indices of words begin anew in each"
        ),
        Column(
            "choice_coarse", _index, "coarse", "N", "coarse tokens of each choice; `coarse_index` begins anew"
        ),
        Column(
            "choice_tree", _index, "tree", "N", "tokens of each choice's tree; indices begin anew in each"
        ),
        Column("choice_branches", _index, "tree", "N", "branches of each choice; their numbers begin anew"),
    ),
    "seq2seq": (
        Column(
            "target_cut",
            pa.bool_(),
            "label",
            "",
            "segment B is not the whole target: it was cut to its budget, and no [SEP] ends it",
        ),
    ),
}


def row_columns(task: str, groups: Iterable[str]) -> tuple[Column, ...]:
    """Columns of a shard row for `task` with the column groups asked for (`base` always)."""
    wanted = {"base", *groups}
    if unknown := wanted - set(GROUPS):
        raise ValueError(f"unknown column group {sorted(unknown)[0]!r}; known: {', '.join(GROUPS)}")
    if task not in _LABEL_COLUMNS:
        raise ValueError(f"unknown task {task!r}; known: {', '.join(_LABEL_COLUMNS)}")
    return tuple(c for c in _ROW_COLUMNS + _LABEL_COLUMNS[task] if c.group in {*wanted, "label"})


_ANNOTATED_WITH = {"syntax": "annotate.parser", "coarse": "annotate.segmenter"}


def annotated_first(group: str) -> str:
    """What to tell, in brackets, whoever adds a column group to `encode.columns` and encodes again."""
    setting = _ANNOTATED_WITH.get(group)
    if setting is None:
        return ""
    return f" (if {setting} is 'none': name one, and annotate again, too: `treegraft preprocess --overwrite`)"


ROW_COLUMNS = {c.name: c for task in TASKS for c in row_columns(task, GROUPS)}
"""By name the columns that rows of any task have."""


def row_schema(task: str, groups: Iterable[str], metadata: Mapping[str, Any] | None = None) -> pa.Schema:
    """Arrow schema of stage 2."""
    return _schema(row_columns(task, groups), metadata)


# --- metadata ---------------------------------------------------------------------------------


def _schema(columns: Sequence[Column], metadata: Mapping[str, Any] | None) -> pa.Schema:
    schema = pa.schema([c.field for c in columns])
    if metadata is None:
        return schema
    body = {"schema_version": SCHEMA_VERSION, **metadata}
    return schema.with_metadata({METADATA_KEY: json.dumps(body, ensure_ascii=False, sort_keys=True).encode()})


def read_metadata(schema: pa.Schema) -> dict[str, Any]:
    """This project's metadata of a shard's schema; raises ValueError for a foreign file."""
    raw = (schema.metadata or {}).get(METADATA_KEY)
    if raw is None:
        raise ValueError("not a treegraft shard: its Arrow schema has no 'treegraft' metadata")
    try:
        meta = json.loads(raw)
    except (ValueError, RecursionError) as error:  # bytes that are no UTF-8, too
        raise ValueError(
            f"the 'treegraft' metadata of its Arrow schema is damaged, no JSON: {error}"
        ) from None
    if not isinstance(meta, dict):
        raise ValueError("not a treegraft shard: its 'treegraft' metadata is not a JSON mapping")
    if meta.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(
            f"shard has schema version {meta.get('schema_version')!r}, this release reads {SCHEMA_VERSION}; "
            "preprocess the corpus again or install the matching release"
        )
    return meta
