"""Helpers of the tests of questions and choices: values written as files, read as a split."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from corpora.layout import InputConfig
from tests.corpora.conftest import Read, read_layout


def read_files(
    folder: Path,
    files: dict[str, Any],
    *,
    split: str = "train",
    task: str = "span",
    language: str = "zh",
    block_bytes: int = 1 << 20,
    batch_bytes: int = 1 << 20,
    **layout: Any,
) -> Read:
    """Write each value (bytes as they are, others as JSON) to a file of its name, and read them in that order."""
    folder.mkdir(exist_ok=True, parents=True)
    for name, value in files.items():
        raw = value if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False).encode()
        (folder / name).write_bytes(raw)
    config = InputConfig(files={split: list(files)}, **layout)
    return read_layout(config, folder, task, language, block_bytes, batch_bytes)


def squad(*qas: Any, context: Any = "甲公司成立于2010年。", title: Any = "甲") -> dict[str, Any]:
    """SQuAD's file of one paragraph."""
    return {
        "version": "v2.0",
        "data": [{"title": title, "paragraphs": [{"context": context, "qas": list(qas)}]}],
    }


def qa(answers: Any, id_: Any = "q1", question: Any = "何时？", **more: Any) -> dict[str, Any]:
    """A question; answers are (text, start) or as they are."""
    if isinstance(answers, list):
        answers = [{"text": a[0], "answer_start": a[1]} if isinstance(a, tuple) else a for a in answers]
    return {"id": id_, "question": question, "answers": answers, **more}
