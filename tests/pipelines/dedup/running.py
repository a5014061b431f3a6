"""Runs of the whole road over small corpora."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from rich.console import Console

from pipelines import engine, runners
from pipelines.config import Config
from pipelines.dedup.config import DedupConfig
from pipelines.dedup.flow import Deduplication
from pipelines.dedup.result import DROPPED, Drops
from pipelines.options import Options


def corpus(folder: Path, texts: Sequence[str], name: str = "a.txt") -> Path:
    """A file with a document a line."""
    path = folder / name
    path.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    return path


def config(main: str = "zh", *, block_bytes: int = 1 << 20, task: str = "pretrain", **input_: Any) -> Config:
    layout = input_ or {"format": "text", "document": "line", "files": "a.txt"}
    body = {
        "task": task,
        "language": main,
        "input": layout,
        "encode": {"tokenizer": "vocab.txt", "columns": []},
        "run": {"block_bytes": block_bytes},
    }
    return Config.model_validate(body)


def options(out: Path, **changes: Any) -> Options:
    quiet = Options(
        out=str(out), annotated=str(out / "annotated"), brief=True, console=Console(file=io.StringIO())
    )
    return replace(quiet, **changes)


@contextmanager
def plainly() -> Iterator[None]:
    """Blocks one after the other in this process, without Beam: for tests that are not about runners."""

    def execute(run: engine.Run, **_: Any) -> list[engine.BlockRecord]:
        run.stage.setup()
        for block in run.pending():
            engine.run_block(run.stage, block, run.out, lambda totals: None)
        return run.collect()

    with patch.object(runners, "execute", execute):
        yield


def dedup(
    folder: Path, out: Path | str, settings: Config | None = None, how: Options | None = None, **keys: Any
) -> Drops:
    """Deduplicate the corpus that lies in `folder`."""
    found = Deduplication(settings or config(), str(folder / "c.yaml"), str(out), DedupConfig(**keys))
    return found.run(how or options(Path(out)))


def dropped(out: Path) -> pa.Table:
    with pa.memory_map(str(out / "dedup" / DROPPED)) as source:
        return pa.ipc.open_file(source).read_all()


def gone(out: Path, texts: Sequence[str]) -> dict[int, dict[str, Any]]:
    """Rows of `dropped.arrow` by the numbers of the documents in the corpus' one file."""
    starts, at = {}, 0
    for number, text in enumerate(texts):
        starts[f"a.txt@{at}"] = number
        at += len(text.encode()) + 1
    return {
        starts[row["doc_id"]]: {**row, "kept": starts.get(row["kept_id"])} for row in dropped(out).to_pylist()
    }
