"""Raw tables and configs to annotate, and what must hold of every annotated document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from corpora.records import RAW_SCHEMA
from pipelines.config import Config


def raw(texts: Sequence[str], **columns: Sequence[Any]) -> pa.Table:
    """A table of RAW_SCHEMA with these texts; other columns are null unless given."""
    count = len(texts)
    rows: dict[str, Sequence[Any]] = {f.name: [None] * count for f in RAW_SCHEMA}
    rows |= {"doc_id": [f"d{i}" for i in range(count)], "source": [f"f.txt@{i}" for i in range(count)]}
    return pa.table({**rows, "text": texts, **columns}, schema=RAW_SCHEMA)


def config(
    language: str = "en", *, annotate: dict[str, Any] | None = None, mixed: bool = False, **input_: Any
) -> Config:
    """A pretraining config, or one of a labelled task if the input names a label; `mixed`: records say
    their language."""
    task = "classify" if "label" in input_ else "pretrain"
    body = {
        "task": task,
        "language": language,
        "input": {
            "format": "jsonl",
            "files": "f.jsonl",
            "language": "language" if mixed else None,
            **input_,
        },
        "annotate": annotate or {},
        "encode": {"tokenizer": "vocab.txt", "columns": []},
    }
    return Config.model_validate(body)


def check_spans(text: str, starts: Sequence[int], stops: Sequence[int]) -> None:
    """In order, not empty, never whitespace at either end, and everything else is covered."""
    at = 0
    for start, stop in zip(starts, stops, strict=True):
        assert at <= start < stop <= len(text)
        assert not text[at:start].strip(), text[at:start]
        assert not text[start].isspace() and not text[stop - 1].isspace()
        at = stop
    assert not text[at:].strip(), text[at:]


def check_document(row: dict[str, Any], suffix: str = "") -> None:
    """Every promise of an annotated document, by loops."""
    text = row[f"text{suffix}"]
    sentences = list(zip(row[f"sentence_starts{suffix}"], row[f"sentence_stops{suffix}"], strict=True))
    starts, stops = row[f"word_starts{suffix}"], row[f"word_stops{suffix}"]
    check_spans(text, *zip(*sentences, strict=True))
    check_spans(text, starts, stops)
    heads = row.get(f"word_heads{suffix}")
    if heads is None:
        return
    deprels, pos = row[f"word_deprels{suffix}"], row[f"word_pos{suffix}"]
    assert len(heads) == len(deprels) == len(pos) == len(starts)
    for first, last in sentences:
        words = [i for i, start in enumerate(starts) if first <= start < last]
        assert all(stops[i] <= last for i in words), "a word crosses a sentence end"
        assert [i for i in words if heads[i] == i] == [i for i in words if deprels[i] == "root"]
        assert sum(heads[i] == i for i in words) == 1
        for i in words:
            path = {i}
            while heads[i] != i:
                i = heads[i]
                assert i in words and i not in path, "a head in another sentence, or a cycle"
                path.add(i)
