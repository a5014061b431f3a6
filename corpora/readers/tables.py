"""Records of Parquet and Arrow tables, by the rules of JSON lines: fields by name, null is missing.

Texts, labels, ids and scores pass from column to column as Arrow arrays. A row that is not plainly good (a null or
blank text, an unknown label) goes through `fields.Mapper` alone, which says what is wrong with it. So do all rows
of labelled sequences, of texts of several fields and of whatever else is no plain column: one set of rules. Questions
on texts, as SQuAD's tables have them, follow those of `questions`.

A record's `source`, and its id where the corpus has none, is `<path>@<row>`, the row counted from 0 in its file: like a
byte it does not change with the size of blocks. Nothing in a file is run, unpickled or trusted: extension
types are what they are stored as, offsets and UTF-8 are validated before they are used.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpora.readers.fields import Mapper, Values
from corpora.readers.lines import MAX_RECORD_BYTES, TooLong
from corpora.readers.questions import Questions
from corpora.readers.sink import FieldError, Sink
from corpora.readers.tablearrays import checked, decoded, each, is_blank, lengths, scores, strings, truth
from corpora.readers.tablecolumns import TableColumn, TableColumns, find_table_columns, is_text
from corpora.readers.tablefiles import MAX_BATCH_ROWS, TableFile
from corpora.records import EXCERPT_CHARS, RAW_SCHEMA

if TYPE_CHECKING:
    from corpora.blocks import Block, Part
    from corpora.layout import InputConfig

_OF_QUESTIONS = ("title", "is_impossible")
"""Columns that questions may have beside those that the config names."""
MAX_PYTHON_ROWS = 1024
"""Rows that are Python objects at a time."""
_BLANKS = pa.array([""])


def read_tables(
    block: Block, layout: InputConfig, task: str, mapper: Mapper, sink: Sink, batch_bytes: int
) -> Iterator[pa.Table]:
    """Tables of a block's records as they fill; the last rows stay in the sink.

    Raises:
        CorruptTableError: a file ends early or is damaged.
        ColumnError: it lacks a column, or has one of another type.
        ValueError: it is another kind of file.
    """
    reader = _Reader(layout, task, block.split, mapper, sink, batch_bytes)
    for part in block.parts:
        sink.begin(part.name, None)
        yield from reader.part(part)
    reader.flush()


class _Reader:
    def __init__(
        self, layout: InputConfig, task: str, split: str, mapper: Mapper, sink: Sink, batch_bytes: int
    ) -> None:
        self._layout, self._mapper, self._sink, self._batch_bytes = layout, mapper, sink, batch_bytes
        self._tag, self._labelled = task == "tag", task in ("classify", "tag", "span")
        self._questions = Questions(layout, split, sink) if task == "span" else None
        self._score = layout.score
        self._skipped = pa.array(layout.skip_labels, pa.string())
        self._tables: list[pa.Table] = []  # rows that no table of the sink has yet
        self._bytes = 0

    def part(self, part: Part) -> Iterator[pa.Table]:
        """Tables of the part's records as they fill."""
        parquet = self._layout.format == "parquet"
        with TableFile(part.path, part.name, parquet=parquet, stop=part.stop) as file:
            with file.damage(0):
                columns = find_table_columns(
                    file.schema,
                    part.name,
                    self._layout,
                    may_lack_label=self._mapper.may_lack_label,
                    more=_OF_QUESTIONS if self._questions else (),
                )
            if not self._labelled:
                columns = TableColumns(columns.roles._replace(label=None))
            wanted = sorted({c.path if parquet else c.top for c in columns})
            for row, batch in file.read(file.within(part.start, part.stop), wanted):
                for at in range(0, batch.num_rows, MAX_BATCH_ROWS):
                    with file.damage(row + at):
                        self._rows(part.name, row + at, batch.slice(at, MAX_BATCH_ROWS), columns)
                    yield from self._sink.take()

    def _rows(self, name: str, row: int, batch: pa.RecordBatch, columns: TableColumns) -> None:
        rows = _Batch(name, row, batch, columns)
        if not self._tag and not self._questions and self._plain(rows):
            self._by_column(rows)
        else:
            self._by_row(rows)

    # --- columns ----------------------------------------------------------------------------

    def _plain(self, rows: _Batch) -> bool:
        """Whether every role is one column of a kind that `_by_column` knows; makes texts of bytes."""
        roles, arrays = rows.columns.roles, rows.arrays
        for role in ("text", "text_pair", "id", "language", "label"):
            column, array = getattr(roles, role), getattr(arrays, role)
            if column is None:
                continue
            if isinstance(column, list):
                return False
            if is_text(array.type):
                if role == "label" and self._score:
                    return False
                try:
                    arrays = arrays._replace(**{role: strings(array)})
                except pa.ArrowInvalid:  # somewhere in it is what is no UTF-8
                    return False
            elif role in ("text", "text_pair", "language"):
                return False
            elif not pa.types.is_integer(array.type):
                also = pa.types.is_floating if self._score else pa.types.is_boolean
                if role != "label" or not also(array.type):
                    return False
        rows.arrays = arrays
        return True

    def _by_column(self, rows: _Batch) -> None:
        roles, arrays = rows.columns.roles, rows.arrays
        texts = [a for a in (arrays.text, arrays.text_pair) if a is not None]
        sizes = np.add.reduce([lengths(a) for a in texts])
        good = sizes <= MAX_RECORD_BYTES
        for array in texts:
            good &= ~truth(each(array, is_blank), null=True)
        columns = {"text": arrays.text, "text_pair": arrays.text_pair}
        if arrays.id is not None:
            columns["doc_id"] = arrays.id if is_text(arrays.id.type) else arrays.id.cast(pa.string())
            good &= lengths(columns["doc_id"]) > 0
        if arrays.label is not None and self._score:
            columns["label_score"], fine = scores(arrays.label)
            good &= fine
        elif arrays.label is not None:
            columns["label"], fine = self._labels(arrays.label, roles.label)
            good &= fine
        if arrays.language is not None:
            language = decoded(arrays.language)
            columns["language"] = pc.if_else(pc.equal(language, ""), pa.scalar(None, pa.string()), language)
        columns = {name: array for name, array in columns.items() if array is not None}
        self._sink.flush()
        before = len(self._sink.ready)
        for i in np.flatnonzero(~good).tolist():
            if sizes[i] > MAX_RECORD_BYTES:
                self._sink.too_long(TooLong(rows.row + i, 0, b""))
                continue
            self._one(rows, i, [None if a is None else a[i].as_py() for a in arrays])
            self._sink.flush()
            assert len(self._sink.ready) == before, "the rules of fields took what the columns' refused"
        self._put(rows, np.flatnonzero(good), sizes, columns)

    def _put(self, rows: _Batch, kept: np.ndarray, sizes: np.ndarray, columns: dict[str, pa.Array]) -> None:
        """Add the rows `kept` (numbers in the batch, rising), in tables of at most `batch_bytes` of text."""
        total = np.concatenate(([0], np.cumsum(sizes[kept])))
        begin = 0
        while begin < len(kept):
            room = self._batch_bytes - self._bytes
            end = int(np.searchsorted(total, total[begin] + room, side="right")) - 1
            if end <= begin and self._tables:
                self.flush()
                continue
            end = max(end, begin + 1)
            at = kept[begin:end]
            found = {name: _pick(array, at) for name, array in columns.items()}
            found = {name: decoded(a) if is_text(a.type) else a for name, a in found.items()}
            numbers = pa.array(at + rows.row).cast(pa.string())
            found["source"] = pc.binary_join_element_wise(pa.scalar(f"{rows.name}@"), numbers, "")
            found.setdefault("doc_id", found["source"])
            arrays = [found[f.name] if f.name in found else pa.nulls(len(at), f.type) for f in RAW_SCHEMA]
            self._tables.append(pa.Table.from_arrays(arrays, schema=RAW_SCHEMA))
            self._bytes += int(total[end] - total[begin])
            begin = end

    def flush(self) -> None:
        """Pass on what the columns gave so far, as one table."""
        if self._tables:
            self._sink.ready.append(pa.concat_tables(self._tables).combine_chunks())
        self._tables, self._bytes = [], 0

    def _labels(self, array: pa.Array, column: TableColumn) -> tuple[pa.Array, np.ndarray]:
        """Label names, and where they can be taken as they are: known, not empty and not to be skipped."""
        if column.names is not None and pa.types.is_integer(array.type):
            codes = array.cast(pa.int64(), safe=False)
            missing = pc.equal(codes, -1)
            known = pc.and_(pc.greater_equal(codes, 0), pc.less(codes, len(column.names)))
            names = pa.array(column.names, pa.string())
            label = names.take(pc.if_else(known, codes, pa.scalar(None, pa.int64())))
            good = truth(pc.or_(known, missing), null=True)
            if len(self._skipped):  # -1 may be among them
                good &= ~truth(missing, null=False)
        else:
            label = array if is_text(array.type) else array.cast(pa.string())
            good = np.ones(len(array), bool)
        label = decoded(label)
        good &= ~truth(pc.is_in(label, pa.concat_arrays([_BLANKS, self._skipped])), null=False)
        return label, good

    # --- rows -------------------------------------------------------------------------------

    def _by_row(self, rows: _Batch) -> None:
        self.flush()
        arrays = [(a if isinstance(a, list) else [a]) for a in rows.arrays if a is not None]
        sizes = sum((lengths(a) for several in arrays for a in several), np.zeros(rows.count, np.int64))
        total = np.cumsum(sizes)
        too_long = np.append(np.flatnonzero(sizes > MAX_RECORD_BYTES), rows.count)
        begin = 0
        while begin < rows.count:
            next_too_long = int(too_long[np.searchsorted(too_long, begin)])
            if next_too_long == begin:
                self._sink.too_long(TooLong(rows.row + begin, 0, b""))
                begin += 1
                continue
            room = self._batch_bytes + (total[begin - 1] if begin else 0)
            end = min(int(np.searchsorted(total, room, side="right")), begin + MAX_PYTHON_ROWS)
            end = min(max(end, begin + 1), next_too_long)
            values = [_values(a, begin, end) for a in (*rows.arrays, *rows.more)]
            for i, record in enumerate(zip(*values, strict=True), begin):
                self._one(rows, i, list(record))
            begin = end

    def _one(self, rows: _Batch, i: int, record: list[Any]) -> None:
        """Row i of the batch, by the rules of `fields`."""
        try:
            record = [_as_text(value) for value in record]
            column = rows.columns.roles.label
            if column is not None and column.names is not None and not self._score:
                if record[2] == -1:  # no label
                    record[2] = "-1" if "-1" in self._layout.skip_labels else None
                record[2] = _named(record[2], column)
            if self._questions:
                question, context, answers, id_, _, *more = record
                found = {"id": id_, "question": question, "context": context, "answers": answers}
                found.update(zip(rows.columns.more, more, strict=True))
                self._questions.flat(rows.row + i, found)
            else:
                self._mapper.add(rows.row + i, *record)
        except FieldError as error:
            self._sink.reject(rows.row + i, 0, error.reason, str(error), _excerpt(rows.columns, record))


class _Batch:
    """Rows of a file: `row` is the number of the first; `arrays` are Values of arrays, safe to use."""

    def __init__(self, name: str, row: int, batch: pa.RecordBatch, columns: TableColumns) -> None:
        self.name, self.row, self.count, self.columns = name, row, batch.num_rows, columns

        def arrays(role: Any) -> Any:
            return [arrays(one) for one in role] if isinstance(role, list) else role and checked(role, batch)

        self.arrays = Values(*map(arrays, columns.roles))
        self.more = [checked(column, batch) for column in columns.more.values()]


def _pick(array: pa.Array, at: np.ndarray) -> pa.Array:
    """The values at the places `at`, which rise; a slice where they follow on one another."""
    whole = at[-1] - at[0] == len(at) - 1
    return array.slice(int(at[0]), len(at)) if whole else array.take(pa.array(at))


def _values(array: Any, begin: int, end: int) -> list[Any]:
    """Values of each row; a list of them where a role has several columns."""
    if array is None:
        return [None] * (end - begin)
    if isinstance(array, list):
        return [list(v) for v in zip(*(_values(a, begin, end) for a in array), strict=True)]
    values: list[Any] = array.slice(begin, end - begin).to_pylist()
    return values


def _as_text(value: Any) -> Any:
    """Bytes as the text that they are."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            detail = f"byte 0x{value[error.start]:02x} at offset {error.start} of a string is not valid utf-8"
            raise FieldError("bad_encoding", detail) from None
    if isinstance(value, list) and any(isinstance(v, bytes) for v in value):
        return [_as_text(v) for v in value]
    return value


def _named(value: Any, column: TableColumn) -> Any:
    """Label names of label numbers."""
    if isinstance(value, list):
        return [_named(v, column) for v in value]
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    names = column.names or ()
    if 0 <= value < len(names):
        return names[value]
    raise FieldError(
        "bad_label", f"{column.name!r} has the number {value}, but the file names {len(names)} labels"
    )


def _excerpt(columns: TableColumns, record: list[Any]) -> str:
    """The record as JSON, each value cut short."""
    shown = {}
    for role, value in zip(columns.roles, record, strict=False):
        several = role if isinstance(role, list) else [] if role is None else [role]
        for column, one in zip(several, value if isinstance(role, list) else [value], strict=False):
            shown[column.name] = one[:EXCERPT_CHARS] if isinstance(one, (str, bytes, list)) else one
    return json.dumps(shown, ensure_ascii=False, default=lambda v: str(v)[:EXCERPT_CHARS])[:EXCERPT_CHARS]
