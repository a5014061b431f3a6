from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from corpora.layout import InputConfig
from pipelines.dedup.config import AGAINST, DedupConfig, against_layout
from pipelines.section import ConfigError

INPUT = InputConfig.model_validate(
    {"format": "tsv", "text": "text_a", "label": "label", "encoding": "gb18030", "files": "a.tsv"}
)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"threshold": 0.5}, "greater than 0.5"),
        ({"within": False}, "`within: false` leaves nothing to do without `against`"),
        ({"near": False, "threshold": 0.9}, "threshold, shingle and ngram are for near duplicates"),
        ({"ngram": 0}, "greater than or equal to 1"),
        ({"ngram": 65}, "at most 64"),
        ({"shingle": "bytes"}, "'auto', 'characters' or 'words'"),
        ({"against": []}, "at least one file"),
        ({"against": {"format": "text"}}, "Field required"),
        ({"exakt": True}, "Extra inputs"),
    ],
)
def test_wrong_sections_are_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        DedupConfig.model_validate(keys)


def layout(against: Any, task: Any = "classify", own: InputConfig = INPUT) -> tuple[InputConfig, str]:
    found = against_layout(DedupConfig.model_validate({"against": against}), own, task)
    assert found is not None
    return found


def test_no_other_corpus() -> None:
    assert against_layout(DedupConfig(), INPUT, "classify") is None


@pytest.mark.parametrize(
    "against", ["b.tsv", ["b.tsv"], {"files": "b.tsv"}, {"files": ["b.tsv"], "format": "tsv"}]
)
def test_files_alone_are_read_as_the_corpus_is(against: Any) -> None:
    found, task = layout(against)
    assert found.files == {AGAINST: ["b.tsv"]}
    assert (found.format, found.text, found.encoding, found.label, task) == (
        "tsv",
        "text_a",
        "gb18030",
        None,
        "pretrain",
    )


def test_another_format_starts_from_nothing() -> None:
    found, _ = layout({"files": "b.txt", "format": "text", "document": "line"})
    assert (found.format, found.document, found.encoding) == ("text", "line", "utf-8")


def test_labelled_sequences_are_read_as_such() -> None:
    found, task = layout("b.tsv", "tag")
    assert (task, found.label) == ("tag", "label")


def test_questions_to_be_asked_are_read_as_such_and_whole() -> None:
    own = InputConfig(format="squad", files={"train": ["a.json"]}, context=99, holdout={"dev": 0.1})
    found, task = layout("b.json", "seq2seq", own)
    assert (task, found.context, found.sources) == ("seq2seq", 99, {AGAINST: ["b.json"]})


@pytest.mark.parametrize("task", ["span", "seq2seq"])
def test_the_other_corpus_does_not_train(task: str) -> None:
    """Whatever own splits are said to; it has none of them."""
    own = InputConfig(format="squad", files={"a": ["a.json"]}, train_splits=["a"], holdout={"dev": 0.1})
    found, _ = layout("b.json", task, own)
    assert not found.trains(AGAINST)


@pytest.mark.parametrize(
    ("against", "message"),
    [
        ({"files": "b.x", "format": "xml"}, "dedup.against: format: Input should be 'text'"),
        (
            {"files": "b.jsonl", "format": "jsonl", "document": "line"},
            "dedup.against: .*'document' is for format text",
        ),
        ({"files": "b.txt", "encoding": "utf-99"}, "dedup.against: encoding: unknown encoding"),
    ],
)
def test_what_cannot_be_read_is_refused(against: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        layout(against)
