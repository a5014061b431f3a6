"""From a batch of documents to the rows of each task: what becomes a row, what is rejected, which labels rows carry.

The columns that every task has are `pipelines.encode.columns`'s matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from corpora.records import EXCERPT_CHARS, Reject
from corpora.schema import IGNORED_LABEL, row_schema
from pipelines.config import Config
from pipelines.encode.assemble import NONE, Cutter, Rows, classify_rows, tag_rows
from pipelines.encode.batch import Batch
from pipelines.encode.choice import choice_labels
from pipelines.encode.columns import Frame
from pipelines.encode.labels import Labels, first_pieces, source_tokens
from pipelines.encode.lists import List, list_array
from pipelines.encode.marks import cover_marks
from pipelines.encode.pretrain import pretrain_rows, sentence_bounds
from pipelines.encode.seq2seq import seq2seq_rows
from pipelines.encode.source import flat_list
from pipelines.encode.span import Answers, find_targets, span_rows
from pipelines.encode.tokenizer import Tokenizer, Tokens
from pipelines.engine import BlockWriter
from pipelines.ragged import Ints, bounds, ranges

_DETAILS = {
    "no_tokens": "expected text, found only characters that the tokenizer removes (controls, spaces)",
    "no_labels": "expected labelled source tokens, found none",
    "no_choices": "expected choices, found none",
    "bad_label": "expected the index of the right choice, found {label!r} for {choices} choices",
    "no_answers": "expected a gold answer in a split that trains, found none and no `is_impossible`",
    "answer_not_in_context": "expected a gold answer whose place in the text is known, found none",
    "answer_not_on_tokens": "expected a gold answer that begins and ends with a token, found {answers}; {advice}",
}
_WIDEN = "`encode.span.misaligned: widen` takes all tokens that touch it"
_UNTOUCHED = "no token touches it, the tokenizer removes its characters (controls, spaces)"


@dataclass(frozen=True)
class Made:
    """Rows of a batch and the columns that only their task has."""

    rows: Rows
    tokens: Tokens
    columns: dict[str, pa.Array]
    """A value a row; of `choice` a value a question"""
    groups: Ints | None = None
    """`choice`: [Q+1], question q has rows `groups[q]:groups[q + 1]`"""
    starts: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """`choice`: [R], where each row's choice begins in its document's second text"""

    @property
    def documents(self) -> Ints:
        """[rows, or questions], document of each"""
        return self.rows.documents if self.groups is None else self.rows.documents[self.groups[:-1]]


class Tasks:
    """Makes rows for one config."""

    def __init__(self, config: Config, labels: Labels, tokenizer: Tokenizer) -> None:
        self._config, self._encode = config, config.encode
        self._labels, self._tokenizer = labels, tokenizer
        self._types = {field.name: field.type for field in row_schema(config.task, ())}

    def make(self, batch: Batch, out: BlockWriter) -> Made:
        """Rows of a batch. Raises LabelError for a label that the dataset does not know."""
        if self._config.task == "tag":
            return self._tag(batch, out)
        tokens = cover_marks(self._tokenizer.encode_texts(batch.texts.strings), batch.texts)
        cutter = Cutter(batch.texts.strings, tokens)
        make = {
            "pretrain": self._pretrain,
            "classify": self._classify,
            "span": self._span,
            "choice": self._choice,
            "seq2seq": self._seq2seq,
        }
        return make[self._config.task](batch, tokens, cutter, out)

    # --- the tasks ----------------------------------------------------------------------------

    def _pretrain(self, batch: Batch, tokens: Tokens, cutter: Cutter, out: BlockWriter) -> Made:
        starts, offsets = flat_list(batch.table["sentence_starts"])
        sentences = sentence_bounds(tokens, batch.texts.chars, starts, offsets)
        ids = batch.table["doc_id"].to_pylist()
        encode = self._encode
        rows = pretrain_rows(encode.pretrain, encode.max_length, self._config.seed, ids, sentences, cutter)
        labels = pa.nulls(len(rows), pa.int32()) if rows.labels is None else pa.array(rows.labels)
        return Made(rows, tokens, {"label": labels})

    def _classify(self, batch: Batch, tokens: Tokens, cutter: Cutter, out: BlockWriter) -> Made:
        keep = self._with_tokens(batch, tokens, out)
        rows = classify_rows(tokens, batch.pairs[keep], self._encode.max_length, cutter, batch.owners[keep])
        table, chosen = batch.table, pa.array(rows.documents)
        scores = table["label_score"].combine_chunks().take(chosen)
        if self._config.input.score:
            labels = pa.nulls(len(rows), pa.int32())
        else:
            labels = self._labels.of_documents(table, batch.split).take(chosen)
        return Made(rows, tokens, {"label": labels, "label_score": scores})

    def _tag(self, batch: Batch, out: BlockWriter) -> Made:
        table, strings = batch.table, batch.texts.strings
        starts, offsets = flat_list(table["tag_starts"])
        stops, _ = flat_list(table["tag_stops"])
        tokens, units, empty = self._tokenizer.encode_units(strings, starts, stops, offsets)
        tokens = cover_marks(tokens, batch.texts)
        out.count(units_without_pieces=empty)
        labels = self._labels.of_units(table, batch.split, np.diff(offsets))
        unlabelled = table["tag_starts"].is_null().to_numpy()
        bare = (np.diff(tokens.offsets) == 0) & ~unlabelled
        _reject(table, np.flatnonzero(unlabelled), "no_labels", out)
        _reject(table, np.flatnonzero(bare), "no_tokens", out)
        keep = np.flatnonzero(~(unlabelled | bare))
        rows = tag_rows(tokens, units, keep, self._encode.max_length, Cutter(strings, tokens))
        lists = source_tokens(rows, units, starts, stops)
        lists["token_labels"] = _on_tokens(rows, first_pieces(units, labels), IGNORED_LABEL)
        found = {name: list_array(*made, self._types[name]) for name, made in lists.items()}
        return Made(rows, tokens, found)

    def _span(self, batch: Batch, tokens: Tokens, cutter: Cutter, out: BlockWriter) -> Made:
        table = batch.table
        keep = self._with_tokens(batch, tokens, out)
        impossible = pc.fill_null(table["is_impossible"], False).to_numpy().astype(bool)
        answers = _answers(table, keep, impossible)
        config = self._encode.span
        targets = find_targets(batch.texts, tokens, batch.pairs[keep, 1], answers, config.misaligned)
        lacking = ~impossible[keep] & (targets.starts < 0)
        given = np.diff(answers.offsets) > 0
        off_tokens = lacking & targets.located
        if self._config.input.trains(batch.split):
            _reject(table, keep[lacking & ~given], "no_answers", out)
            _reject(table, keep[lacking & given & ~off_tokens], "answer_not_in_context", out)
            for touched, advice in ((True, _WIDEN), (False, _UNTOUCHED)):
                off = keep[off_tokens & (targets.touched == touched)]
                _reject(table, off, "answer_not_on_tokens", out, advice=advice)
            keep, targets = keep[~lacking], targets.only(~lacking)
        else:
            out.count(answers_not_on_tokens=int(off_tokens.sum()))
        windows = span_rows(tokens, batch.pairs[keep], keep, targets, config, self._encode.max_length, cutter)
        rows = windows.rows
        found = {
            "answer_start": pa.array(windows.answer_starts),
            "answer_stop": pa.array(windows.answer_stops),
            "is_impossible": pa.array(impossible[rows.documents]),
            "answers": self._lists(table, "answers", rows.documents),
            "is_max_context": list_array(
                windows.max_context, bounds(rows.lengths()), self._types["is_max_context"]
            ),
        }
        return Made(rows, tokens, found)

    def _choice(self, batch: Batch, tokens: Tokens, cutter: Cutter, out: BlockWriter) -> Made:
        table, owners = batch.table, batch.owners
        sizes = np.bincount(owners, minlength=len(table))
        without = _without_tokens(batch, np.diff(tokens.offsets))
        bare = np.isin(np.arange(len(table)), list(without))
        labels, bad = choice_labels(table["label"], sizes)
        bad &= ~bare & (sizes > 0)
        _reject(table, np.flatnonzero(sizes == 0), "no_choices", out)
        _reject(table, list(without), "no_tokens", out, excerpts=without)
        _reject(table, np.flatnonzero(bad), "bad_label", out, choices=sizes)
        good = ~(bare | bad | (sizes == 0))
        keep, mine = np.flatnonzero(good), np.flatnonzero(good[owners])
        rows = classify_rows(tokens, batch.pairs[mine], self._encode.max_length, cutter, owners[mine])
        groups = bounds(sizes[keep])
        cut = (rows.stops < tokens.offsets[rows.texts + 1]).any(axis=1)
        rows.counters["truncated_choices"] = rows.counters["truncated_rows"]
        rows.counters["truncated_rows"] = len(np.unique(rows.documents[cut]))
        chosen = pa.array(keep)
        starts, _ = flat_list(table["choice_starts"])
        found = {name: table[name].combine_chunks().take(chosen) for name in ("text", "text_pair")}
        found |= {name: self._lists(table, name, keep) for name in ("choice_starts", "choice_stops")}
        return Made(rows, tokens, found | {"label": labels.take(chosen)}, groups, starts[mine])

    def _seq2seq(self, batch: Batch, tokens: Tokens, cutter: Cutter, out: BlockWriter) -> Made:
        keep = self._with_tokens(batch, tokens, out)
        encode = self._encode
        rows = seq2seq_rows(tokens, batch.pairs[keep], keep, encode.seq2seq, encode.max_length, cutter)
        return Made(rows, tokens, {"target_cut": pa.array(rows.unended, pa.bool_())})

    def _lists(self, table: pa.Table, name: str, documents: Ints) -> pa.ListArray:
        """A list column of documents as one of rows; a null list becomes an empty one."""
        column, kind = table[name], self._types[name]
        sizes = pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64)
        flat = pa.concat_arrays(
            [pa.array([], kind.value_type), *(chunk.flatten() for chunk in column.chunks)]
        )
        chosen = ranges(bounds(sizes)[documents], sizes[documents])
        return list_array(flat.take(pa.array(chosen)), bounds(sizes[documents]), kind)

    # --- rejects ------------------------------------------------------------------------------

    def _with_tokens(self, batch: Batch, tokens: Tokens, out: BlockWriter) -> Ints:
        """Documents (each has one pair) whose texts all have tokens; the others are rejected."""
        sizes = np.append(
            np.diff(tokens.offsets), int(self._config.task == "classify")
        )  # the last of no text
        without = _without_tokens(batch, sizes)
        _reject(batch.table, list(without), "no_tokens", out, excerpts=without)
        return np.delete(np.arange(len(batch.owners)), list(without))


def _without_tokens(batch: Batch, sizes: Ints) -> dict[int, str]:
    """Documents with a text that has none of `sizes` tokens, rising, and the first such text of each."""
    empty = sizes[batch.pairs] == 0
    at = np.flatnonzero(empty.any(axis=1))
    documents, first = np.unique(batch.owners[at], return_index=True)
    texts = batch.pairs[at[first], empty[at[first]].argmax(axis=1)].tolist()
    shown = ["" if text == NONE else batch.texts.strings[text] for text in texts]
    return dict(zip(documents.tolist(), shown, strict=True))


def _reject(
    table: pa.Table,
    which: Sequence[int] | Ints,
    reason: str,
    out: BlockWriter,
    *,
    choices: Ints | None = None,
    advice: str = "",
    excerpts: Mapping[int, str] | None = None,
) -> None:
    """Reject documents `which`; `excerpts` are what to show of each, where it isn't the (first) text."""
    for index in np.asarray(which).tolist():
        path, _, byte = table["source"][index].as_py().rpartition("@")
        facts: dict[str, Any] = {}
        if reason == "bad_label" and choices is not None:
            facts = {"label": table["label"][index].as_py(), "choices": int(choices[index])}
        elif reason == "answer_not_on_tokens":
            answers = ", ".join(map(repr, table["answers"][index].as_py()))[:EXCERPT_CHARS]
            facts = {"answers": answers, "advice": advice}
        shown = table["text"][index].as_py() if excerpts is None else excerpts[index]
        details = _DETAILS[reason].format(**facts)
        out.reject(Reject(path, int(byte), None, reason, details, shown[:EXCERPT_CHARS]))


# --- label columns ----------------------------------------------------------------------------


def _answers(table: pa.Table, keep: Ints, impossible: NDArray[np.bool_]) -> Answers:
    """Gold answers of the documents `keep`; those of an impossible question are nowhere."""
    starts, offsets = flat_list(table["answer_starts"])
    starts = np.where(np.repeat(impossible, np.diff(offsets)), -1, starts)
    flat = pa.chunked_array([chunk.flatten() for chunk in table["answers"].chunks], pa.string())
    lengths = pc.utf8_length(flat).to_numpy().astype(np.int64)
    sizes = np.diff(offsets)[keep]
    chosen = ranges(offsets[keep], sizes)
    return Answers(starts[chosen], starts[chosen] + lengths[chosen], bounds(sizes))


def _on_tokens(rows: Rows, values_n: NDArray[Any], special: int) -> List:
    """A number of every flat token as a column of rows; `special` on special tokens."""
    lengths = rows.stops - rows.starts
    frame = Frame.of(lengths, rows.texts[:, 1] != NONE, rows.unended)
    column = np.full(int(frame.offsets_r[-1]), special, values_n.dtype)
    column[frame.inner] = values_n[ranges(rows.starts.ravel(), lengths.ravel())]
    return column, frame.offsets_r
