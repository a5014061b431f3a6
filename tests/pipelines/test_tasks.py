"""What a reject says: the text it is about, and advice that has not been taken yet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.annotated import Encoded, config_of, document, encode
from tests.pipelines.test_span import question

BLANK = "\u200b\u200d"
"""Text for a reader of files, none for BERT's tokenizer."""


def rejects(run: Encoded) -> list[dict[str, Any]]:
    (path,) = (run.folder / "rejects").glob("*.jsonl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("task", ["classify", "seq2seq", "span"])
def test_an_excerpt_is_of_the_text_without_tokens(tmp_path: Path, task: str) -> None:
    fields: dict[str, Any] = {"pair": True, "label": "a"} if task == "classify" else {"pair": True}
    documents = [
        document("a", "很好", text_pair=BLANK, **fields),
        document("b", "很好", text_pair="不好", **fields),
        document("c", BLANK, text_pair="不好", **fields),
    ]
    source = {"text_pair": "b"} if task == "classify" else {}
    if task == "span":
        source = {"files": {"train": "x.json", "other": "y.json"}, "train_splits": ["other"]}
    stage = {"labels": ["a"]} if task == "classify" else {}
    run = encode(tmp_path, config_of(task, input=source), documents, **stage)
    assert [(r["reason"], r["excerpt"]) for r in rejects(run)] == [("no_tokens", BLANK)] * 2
    assert [row["id"] for row in run.rows] == ["b#0"]


def test_an_excerpt_is_of_the_choice_without_tokens(tmp_path: Path) -> None:
    lines = f"好{BLANK}坏"
    fields: dict[str, Any] = {"pair": True, "text_pair": lines, "choice_stops": [1, 3, 4], "label": "0"}
    documents = [
        document("a", "天气", choice_starts=[0, 1, 3], **fields),
        document("b", BLANK, choice_starts=[0, 1, 3], **fields),
        document("c", "天气", choice_starts=[0, 2, 3], **fields | {"choice_stops": [1, 3, 4], "label": "7"}),
    ]
    run = encode(tmp_path, config_of("choice"), documents)
    assert [(r["reason"], r["excerpt"]) for r in rejects(run)] == [("no_tokens", BLANK)] * 2 + [
        ("no_tokens", "\u200d")
    ]


@pytest.mark.parametrize("misaligned", ["drop", "widen"])
def test_widening_is_advised_where_it_helps(tmp_path: Path, misaligned: str) -> None:
    """`2010` is one token, its `10` is none; an answer of invisible characters has no token at all."""
    documents = [
        question("none", "谁", f"很好{BLANK}人", (BLANK, 2)),
        question("half", "谁", "很2010好", ("10", 3)),
    ]
    made = config_of("span", encode={"span": {"misaligned": misaligned}})
    run = encode(tmp_path, made, documents)
    told = {r["detail"].rpartition("; ")[2] for r in rejects(run)}
    none = "no token touches it, the tokenizer removes its characters (controls, spaces)"
    widen = "`encode.span.misaligned: widen` takes all tokens that touch it"
    assert told == ({none, widen} if misaligned == "drop" else {none})
