"""Fixtures of the reader tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from corpora.layout import InputConfig
from corpora.plan import plan_blocks
from corpora.readers import read_block
from corpora.records import RAW_SCHEMA, Reject


class Read:
    """What reading some bytes gave: rows as dicts, rejects, tables and counters."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.rejects: list[Reject] = []
        self.tables: list[pa.Table] = []
        self.counts: Counter[str] = Counter()
        self.blocks = 0

    @property
    def texts(self) -> list[str]:
        return [row["text"] for row in self.rows]

    @property
    def reasons(self) -> list[str]:
        return [reject.reason for reject in self.rejects]


def read_blocks(
    layout: InputConfig, folder: Path, task: str, language: str, block_bytes: int, batch_bytes: int
) -> Iterator[pa.Table]:
    """Every table of every block; a reject is an error."""

    def fail(reject: Reject) -> None:
        raise AssertionError(reject)

    for block in plan_blocks(layout, str(folder), block_bytes):
        yield from read_block(block, layout, task, language, fail, batch_bytes=batch_bytes)


def read_layout(
    layout: InputConfig, folder: Path, task: str, language: str, block_bytes: int, batch_bytes: int
) -> Read:
    result = Read()
    for block in plan_blocks(layout, str(folder), block_bytes):
        result.blocks += 1
        for table in read_block(
            block,
            layout,
            task,
            language,
            result.rejects.append,
            batch_bytes=batch_bytes,
            on_count=lambda name, n: result.counts.update({name: n}),
        ):
            assert table.schema.equals(RAW_SCHEMA)
            table.validate(full=True)
            result.tables.append(table)
            result.rows.extend(table.to_pylist())
    return result


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Read]:
    """`read(data, format=..., ...)`: write the bytes to a file, plan it, read every block."""

    def run(
        data: bytes,
        *,
        name: str = "a.txt",
        task: str = "pretrain",
        corpus_language: str = "zh",
        block_bytes: int = 1 << 20,
        batch_bytes: int = 1 << 20,
        **layout: Any,
    ) -> Read:
        (tmp_path / name).write_bytes(data)
        config = InputConfig(files={"train": name}, **layout)
        return read_layout(config, tmp_path, task, corpus_language, block_bytes, batch_bytes)

    return run
