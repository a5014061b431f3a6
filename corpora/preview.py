"""The first records of each split, read as the run would read them: what a dry run can say of a corpus.

Bounded: some records of the first file of a split, and, of formats that are read whole, that file.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from corpora import files
from corpora.blocks import Block
from corpora.layout import InputConfig
from corpora.readers import read_block
from corpora.readers.fields import field_names, names_within
from corpora.readers.jsonl import json_items
from corpora.readers.lines import LineNumbers
from corpora.readers.sink import Sink
from corpora.records import Reject

LOOKED_AT = 100
"""Records of a split that are looked at."""
_LONGER = 10
"""Where all of these are rejected, so many times as many are looked at for one that can be used."""
_LABELLED = ("classify", "tag")


@dataclass(frozen=True)
class FirstRecords:
    """What the first records of a split are like."""

    split: str
    rows: int
    """Records that can be used, as far as was looked."""
    rejects: list[Reject]
    absent: list[tuple[str, str]]
    """Role (`text`, `label`) and name of each field that the config names and no record has; JSON alone, for of other
    formats the plan knows the columns."""
    fields: list[str]
    """Names of the fields of JSON records."""


def first_records(
    blocks: Iterable[Block], layout: InputConfig, task: str, language: str
) -> Iterator[FirstRecords]:
    """Look at each split's first block. Raises what `read_block` raises."""
    for block in blocks:
        if block.index == 0 and block.parts:
            fields = _fields(block, layout) if layout.format == "jsonl" else []
            rows, rejects = _read(block, layout, task, language)
            yield FirstRecords(
                block.split, rows, rejects, list(_absent(fields, layout, task, block.split)), fields
            )


class _EnoughError(Exception):
    pass


def _read(block: Block, layout: InputConfig, task: str, language: str) -> tuple[int, list[Reject]]:
    rows = seen = 0
    rejects: list[Reject] = []

    def keep(reject: Reject) -> None:
        nonlocal seen
        seen += 1
        if rows + len(rejects) < LOOKED_AT:
            rejects.append(reject)
        # A row comes with the next one or at the end: whether one was before these rejects takes a longer look.
        if rows + seen >= LOOKED_AT * (1 if rows else _LONGER):
            raise _EnoughError

    try:
        for table in read_block(block, layout, task, language, keep, batch_bytes=1):  # a row a table
            if len(rejects) == LOOKED_AT and _is_behind(table["source"][0].as_py(), rejects[-1]):
                break
            rows += len(table)
            if rows >= LOOKED_AT:
                break
    except _EnoughError:
        pass
    return rows, rejects


def _is_behind(source: str, reject: Reject) -> bool:
    """Whether a record stands behind a rejected one of its file."""
    path, _, place = source.rpartition("@")
    return path == reject.path and place.isdigit() and int(place) > reject.byte


def _fields(block: Block, layout: InputConfig) -> list[str]:
    part = block.parts[0]
    sink = Sink(
        batch_bytes=1,
        encoding=layout.encoding,
        orphan_inside="keep",
        on_reject=lambda reject: None,  # told by the reading itself
        on_count=None,
    )
    numbers = LineNumbers(part)
    sink.begin(part.name, numbers)
    found: dict[str, None] = {}
    with files.open_decompressed(part.path) as file:
        for item in itertools.islice(json_items(file, part, layout.encoding, sink, numbers), LOOKED_AT):
            if isinstance(item.value, dict):
                found.update(dict.fromkeys(names_within(item.value)))
    return list(found)


def _absent(fields: list[str], layout: InputConfig, task: str, split: str) -> Iterator[tuple[str, str]]:
    if not fields:  # no record, or none that is an object: that is told otherwise
        return
    for role, named in field_names(layout)._asdict().items():
        if role == "label" and (task not in _LABELLED or layout.may_lack_label(split)):
            continue
        names = named if isinstance(named, list) else [] if named is None else [named]
        yield from ((role, name) for name in names if name not in fields)
