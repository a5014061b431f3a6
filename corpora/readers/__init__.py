"""Readers: from byte ranges of raw files to Arrow tables of `corpora.records.RAW_SCHEMA`.

`read_block` reads one block of a plan as a stream of tables. Every record becomes exactly
one row or one Reject; blank lines are no records. What rows come out, with which ids and in which
order, does not depend on how the files were cut into blocks.

Reasons of rejects:

    bad_encoding     bytes that the declared encoding does not have
    bad_json         not one JSON object on the line, or NaN
    duplicate_key    a JSON object with the same key twice
    bad_unicode      a lone surrogate (`"\\ud800"`)
    bad_conllu       a sentence of a treebank that is not CoNLL-U, or whose tree is none
    bad_csv          a quote where none can be, or one that never closes
    bad_type         a field of another type than text (or a number, where one will do)
    bad_label        a label number that the file has no name for
    bad_score        a score that is no finite number
    bad_mention      a mention that does not stand in the text where the record says
    unequal_fields   another number of fields than there are columns
    unequal_counts   another number of labels than of source tokens
    missing_text, missing_label, missing_id, empty_text, empty_label, empty_token
    contradiction    a question that is impossible and has an answer, or is not and has none
    answer_not_in_context, ambiguous_answer  of splits that train: no answer can be found in the text, or
                     one at several places and its offset does not say at which
    missing_answers, empty_answer, bad_answer  no answers where the split trains; blank ones; none of the options
    too_few_options  fewer than two
    unknown_layout   a record in none of its format's layouts
    record_too_long  more than 64 MiB
    bad_xml, bad_markup, not_wikitext  a page of a Wikipedia dump that cannot be read, see `wikipedia`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from corpora import files
from corpora.layout import InputConfig
from corpora.readers.c3 import read_c3
from corpora.readers.columns import ColumnError, find_columns
from corpora.readers.conll import read_conll
from corpora.readers.conllu import read_conllu
from corpora.readers.fields import Mapper
from corpora.readers.jsonl import read_jsonl
from corpora.readers.lines import LineNumbers
from corpora.readers.parallel import read_parallel
from corpora.readers.quoted import read_csv
from corpora.readers.race import read_race
from corpora.readers.sink import Sink
from corpora.readers.squad import read_squad
from corpora.readers.tables import read_tables
from corpora.readers.text import read_text
from corpora.readers.tsv import read_tsv
from corpora.readers.wikipedia import read_wikipedia
from corpora.records import Reject

if TYPE_CHECKING:
    from corpora.blocks import Block

__all__ = ["BATCH_BYTES", "ColumnError", "find_columns", "read_block"]

BATCH_BYTES = 8 * 2**20
"""Text in one table, in bytes of UTF-8."""


def read_block(
    block: Block,
    layout: InputConfig,
    task: str,
    language: str,
    on_reject: Callable[[Reject], None],
    batch_bytes: int = BATCH_BYTES,
    on_count: Callable[[str, int], None] | None = None,
) -> Iterator[pa.Table]:
    """The block's records as tables of RAW_SCHEMA, in file order.

    Args:
        task: `pretrain`, `classify` or `tag`: which fields of a record are read.
        language: of the corpus; decides the joiner of source tokens where a record says none.
        on_reject: called for each record that cannot be used.
        batch_bytes: at most this much text a table, in bytes of UTF-8; a longer record comes alone.
        on_count: called with a counter's name and what to add: `orphan_inside`, I- labels without
            the B- they need; `labels_skipped`, records of `skip_labels`; `overlapping_mentions`, which have
            no label; `pages`, `redirects` and `other_namespace` of a Wikipedia dump.

    Raises:
        CorruptFileError: a compressed file or a table ends early or is damaged.
        ColumnError: a TSV or CSV file or a table lacks a column, or has one of another type.
        ValueError: a file is no text, or the format cannot serve the task.
        OSError: a file cannot be read.
    """
    if layout.format == "conll" and task == "classify":
        raise ValueError(
            "input.format 'conll' holds labels of tokens; task 'classify' needs jsonl, tsv or csv"
        )
    if layout.format == "conllu" and task not in ("pretrain", "tag"):
        raise ValueError(f"input.format 'conllu' is for task 'pretrain' or 'tag', not {task!r}")
    if layout.format == "wikipedia" and task != "pretrain":
        raise ValueError(f"input.format 'wikipedia' holds no labels; task {task!r} needs another format")
    sink = Sink(
        batch_bytes=batch_bytes,
        encoding=layout.encoding,
        orphan_inside=layout.orphan_inside,
        on_reject=on_reject,
        on_count=on_count,
    )
    mapper = Mapper(layout, task, language, sink, block.split)
    tables = layout.format in ("parquet", "arrow", "dataset")
    if tables:
        yield from read_tables(block, layout, task, mapper, sink, batch_bytes)
    for part in () if tables else block.parts:
        numbers = LineNumbers(part)
        sink.begin(part.name, numbers)
        with files.open_decompressed(part.path) as file:
            if layout.format == "text":
                yield from read_text(file, part, layout, sink, numbers)
            elif layout.format == "conll":
                yield from read_conll(file, part, layout, task, language, block.split, sink, numbers)
            elif layout.format == "conllu":
                yield from read_conllu(file, part, layout, task, language, sink, numbers)
            elif layout.format == "parallel":
                yield from read_parallel(file, part, layout.encoding, sink, numbers)
            elif layout.format == "wikipedia":
                yield from read_wikipedia(file, part, layout, language, sink, numbers)
            elif layout.format == "squad":
                yield from read_squad(file, part, layout, task, block.split, sink, numbers)
            elif layout.format == "race":
                yield from read_race(file, part, layout, language, block.split, sink, numbers)
            elif layout.format == "c3":
                yield from read_c3(file, part, layout, language, block.split, sink, numbers)
            elif layout.format == "jsonl":
                yield from read_jsonl(file, part, layout, mapper, sink, numbers)
            elif layout.format == "tsv":
                yield from read_tsv(file, part, layout, mapper, sink, numbers)
            else:
                yield from read_csv(file, part, layout, mapper, sink, numbers)
    sink.flush()
    yield from sink.take()
