"""Where readers put what they find: rows gathered into Arrow tables, rejects passed on.

Rows are kept as one Python list a column and become a table of `RAW_SCHEMA` when their text
reaches `batch_bytes`; source tokens of labelled sequences stay flat, and their offsets and
labels are computed for a whole table at once.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from corpora.readers.lines import HEAD, MAX_RECORD_BYTES, LineNumbers, TooLong
from corpora.records import EXCERPT_CHARS, RAW_SCHEMA, Reject

_BEGIN_OR_INSIDE = re.compile(r"(?P<prefix>[BI])(?:[-_](?P<type>.*))?", re.DOTALL)


class FieldError(Exception):
    """A record that cannot be used: `reason` as manifests count it, `detail` for people.

    Not a ValueError, so that no handler of a parser's own errors takes it for one.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason, self.detail = reason, detail


class Sink:
    """Gathers rows and rejects of the parts of one block, in order."""

    def __init__(
        self,
        *,
        batch_bytes: int,
        encoding: str,
        orphan_inside: str,
        on_reject: Callable[[Reject], None],
        on_count: Callable[[str, int], None] | None,
    ) -> None:
        self.encoding = encoding
        self._batch_bytes = batch_bytes
        self._orphan_inside = orphan_inside
        self._on_reject = on_reject
        self._on_count = on_count
        self.ready: list[pa.Table] = []
        self._clear()
        self._name = ""
        self._numbers: LineNumbers | None = None

    def begin(self, name: str, numbers: LineNumbers | None) -> None:
        """Everything that follows comes from the file of this name; `numbers` None: it has no lines."""
        self._name, self._numbers = name, numbers

    def count(self, name: str, number: int) -> None:
        """Add to a counter that is neither rows nor rejects."""
        if self._on_count:
            self._on_count(name, number)

    # --- rejects --------------------------------------------------------------------------

    def without_rejects(self) -> Sink:
        """One for the same file, to be told of what another split's reading of it rejects."""
        deaf = copy.copy(self)
        deaf._on_reject = lambda _: None
        return deaf

    def reject(self, byte: int, first: int, reason: str, detail: str, raw: bytes | str) -> None:
        """A record at `byte`, which `first` lines of its range come before, cannot be used."""
        if isinstance(raw, bytes):
            raw = raw[: 4 * EXCERPT_CHARS].decode(self.encoding, "replace")
        line = self._numbers.number(first) if self._numbers else None
        # A lone surrogate, from an escape in JSON, cannot be written as UTF-8.
        excerpt = raw[:EXCERPT_CHARS].encode("utf-8", "replace").decode()
        detail = detail.encode("utf-8", "backslashreplace").decode()
        self._on_reject(Reject(self._name, byte, line, reason, detail, excerpt))

    def too_long(self, found: TooLong, limit: int = MAX_RECORD_BYTES) -> None:
        """A record longer than `limit` bytes."""
        detail = f"the record is longer than {limit:,} bytes"
        self.reject(found.start, found.first, "record_too_long", detail, found.head[:HEAD])

    def decode(self, raw: bytes, byte: int) -> str:
        """The text of a record's bytes; FieldError `bad_encoding` names the byte that is wrong."""
        try:
            return raw.decode(self.encoding)
        except UnicodeDecodeError as error:
            raise bad_encoding(error, raw, byte, self.encoding) from None

    # --- rows -----------------------------------------------------------------------------

    def row(
        self,
        byte: int,
        text: str,
        *,
        whole_file: bool = False,
        doc_id: str | None = None,
        text_pair: str | None = None,
        language: str | None = None,
        label: str | None = None,
        label_score: float | None = None,
        title: str | None = None,
        categories: list[str] | None = None,
        **more: Any,
    ) -> None:
        """One record; `doc_id` by default its source, or the file's name for a `whole_file`.

        `more` are further columns of RAW_SCHEMA by name. A character counts as the 4 bytes it may take in
        UTF-8, and an entry of a list as 4: what matters is the bound.
        """
        size = 4 * len(text) if text_pair is None else 4 * (len(text) + len(text_pair))
        size += 4 * sum(len(value) for value in more.values() if isinstance(value, list))
        if text.isascii() and text_pair is None:
            size //= 4
        if self._bytes + size > self._batch_bytes:
            self.flush()
        self._bytes += size
        source = f"{self._name}@{byte}"
        if doc_id is None:
            doc_id = self._name if whole_file else source
        for name, value in more.items():
            column = self._more.setdefault(name, [])
            column.extend([None] * (len(self._rows) - len(column)))
            column.append(value)
        self._rows.append((doc_id, text, text_pair, language, source, label, label_score, title, categories))

    def tagged(
        self,
        byte: int,
        tokens: Sequence[str],
        labels: Sequence[str] | None,
        joiner: str,
        *,
        doc_id: str | None = None,
        language: str | None = None,
    ) -> None:
        """One labelled sequence of at least one token; its text is the tokens with `joiner` between them.

        `labels` None: a sequence of a test set, whose labels are not known. A sink takes either such sequences or
        other rows, not both.
        """
        self.row(byte, joiner.join(tokens), doc_id=doc_id, language=language)
        self._counts.append(len(tokens))
        self._joiners.append(len(joiner))
        self._lengths.extend(map(len, tokens))
        self._labelled.append(labels is not None)
        self._labels.extend(labels or ())

    def flush(self) -> None:
        """Make a table of the rows gathered so far, if any."""
        if self._rows:
            self.ready.append(self._table())
            self._clear()

    def take(self) -> list[pa.Table]:
        """The tables that are full, which the caller now owns."""
        ready, self.ready = self.ready, []
        return ready

    def _clear(self) -> None:
        self._bytes = 0
        self._rows: list[tuple[Any, ...]] = []  # the columns of RAW_SCHEMA that most corpora have
        self._more: dict[str, list[Any]] = {}  # others, up to the last row that has a value
        self._counts: list[int] = []  # source tokens of each labelled row
        self._joiners: list[int] = []  # length of the joiner of each labelled row
        self._lengths: list[int] = []  # characters of each source token, all rows
        self._labelled: list[bool] = []  # whether each labelled row has labels
        self._labels: list[str] = []

    def _table(self) -> pa.Table:
        columns = dict(zip(RAW_SCHEMA.names, zip(*self._rows, strict=True), strict=False))
        for name, values in self._more.items():
            columns[name] = (*values, *[None] * (len(self._rows) - len(values)))
        arrays = self._tags()
        for field in RAW_SCHEMA:
            if field.name in columns:
                arrays[field.name] = pa.array(columns[field.name], field.type)
            elif field.name not in arrays:
                arrays[field.name] = pa.nulls(len(self._rows), field.type)
        return pa.Table.from_arrays([arrays[name] for name in RAW_SCHEMA.names], schema=RAW_SCHEMA)

    def _tags(self) -> dict[str, pa.Array]:
        if not self._counts:
            return {}
        fields = [RAW_SCHEMA.field(name) for name in ("tag_starts", "tag_stops", "tag_labels")]
        counts = np.array(self._counts, np.int64)
        offsets = np.concatenate(([0], np.cumsum(counts)))
        lengths = np.array(self._lengths, np.int64)
        steps = lengths + np.repeat(self._joiners, counts)
        starts = np.cumsum(steps) - steps
        starts -= np.repeat(starts[offsets[:-1]], counts)
        labelled = np.array(self._labelled)
        own = np.concatenate(([0], np.cumsum(np.where(labelled, counts, 0))))  # offsets of labels
        labels = self._repair_orphans(pa.array(self._labels, pa.string()), own[:-1][labelled])
        values = [pa.array(starts, pa.int32()), pa.array(starts + lengths, pa.int32()), labels]
        whole = [pa.array(offsets, pa.int32())] * 2
        whole.append(pa.array(own, pa.int32(), mask=np.append(~labelled, False)))  # null: no list
        return {
            field.name: pa.ListArray.from_arrays(at, v, type=field.type)
            for at, v, field in zip(whole, values, fields, strict=True)
        }

    def _repair_orphans(self, labels: pa.Array, row_starts: np.ndarray) -> pa.Array:
        """Count I- labels that no B- or I- of their type comes before, and turn them into B- if asked."""
        coded = labels.dictionary_encode()
        names: list[str] = coded.dictionary.to_pylist()
        codes = coded.indices.to_numpy()
        matches = [_BEGIN_OR_INSIDE.fullmatch(name) for name in names]
        types = {t: i for i, t in enumerate(dict.fromkeys(m["type"] for m in matches if m))}
        kind = np.array([types[m["type"]] if m else -1 for m in matches], np.int32)[codes]
        inside = np.array([m is not None and m["prefix"] == "I" for m in matches], bool)[codes]
        before = np.concatenate(([-1], kind[:-1]))
        before[row_starts] = -1
        orphans = inside & (before != kind)
        count = int(orphans.sum())
        if not count:
            return labels
        self.count("orphan_inside", count)
        if self._orphan_inside == "keep":
            return labels
        begun = pa.array(names + ["B" + name[1:] for name in names], pa.string())
        return begun.take(pa.array(np.where(orphans, codes + len(names), codes)))


def bad_encoding(error: UnicodeDecodeError, raw: bytes, byte: int, encoding: str) -> FieldError:
    """What is wrong with the bytes of a record that starts at `byte`."""
    at = error.start
    return FieldError(
        "bad_encoding",
        f"byte 0x{raw[at]:02x} at offset {byte + at} of the file ({at} of the record) is not valid {encoding}",
    )
