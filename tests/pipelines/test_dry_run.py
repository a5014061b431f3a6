"""A dry run reads the first records of each split, and says what of the config they do not bear out."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from corpora import preview
from pipelines.config import ConfigError, load_config
from pipelines.dry_run import describe_plan
from pipelines.engine import RunError
from pipelines.options import Options
from tests.pipelines.annotated import SAMPLES


def dry_run(folder: Path, task: str, **source: Any) -> str:
    """What the dry run prints beside the plan."""
    config = {
        "task": task,
        "language": "en",
        "input": source,
        "annotate": {"parser": "none"},
        "encode": {"tokenizer": str(SAMPLES / "vocab.txt"), "columns": []},
    }
    path = folder / "c.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    said = io.StringIO()
    options = Options(
        out=str(folder / "out"), annotated=str(folder / "a"), console=Console(file=said, width=500)
    )
    before = sorted(folder.iterdir())
    describe_plan(load_config(path), str(path), options)
    assert sorted(folder.iterdir()) == before
    return said.getvalue()


def lines(path: Path, *records: Any) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


@pytest.mark.parametrize("array", [False, True])
@pytest.mark.parametrize(
    ("task", "keys", "message"),
    [
        (
            "pretrain",
            {},
            "input.text: none of the first records (100 at most) of split 'train' has the field 'text'; they have "
            "'content', 'grade', 'more', 'more.txt'",
        ),
        (
            "pretrain",
            {"text": "contnt"},
            "has the field 'contnt'; they have 'content', 'grade', 'more', 'more.txt'; did",
        ),
        (
            "pretrain",
            {"text": ["content", "titel"]},
            "input.text: none of the first records (100 at most) of split",
        ),
        ("pretrain", {"text": "more.text"}, "did you mean 'more.txt'?"),
        ("pretrain", {"text": "content", "id": "key"}, "input.id: none"),
        ("pretrain", {"text": "content", "language": "lang"}, "input.language: none"),
        ("classify", {"text": "content", "label": "label"}, "input.label: none"),
        ("seq2seq", {"text": "content", "text_pair": "summary"}, "input.text_pair: none"),
    ],
)
def test_a_field_that_no_record_has_is_an_error(
    tmp_path: Path, task: str, keys: dict[str, Any], message: str, array: bool
) -> None:
    records = [{"content": "a", "grade": 1}, {"content": "b", "more": {"txt": "c"}}]
    lines(tmp_path / "a.jsonl", *([records] if array else records))
    with pytest.raises(ConfigError) as error:
        dry_run(tmp_path, task, format="jsonl", files="a.jsonl", **keys)
    assert message in str(error.value)


def test_records_that_are_as_the_config_says_are_not_spoken_of(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", {"text": "a", "label": "x"}, {"text": "b"})
    lines(tmp_path / "test.jsonl", {"text": "a"})
    files = {"train": "a.jsonl", "test": "test.jsonl"}
    assert not dry_run(tmp_path, "classify", format="jsonl", files=files, label="label", label_optional=True)
    (tmp_path / "empty.jsonl").write_text("\n")
    assert not dry_run(tmp_path, "pretrain", format="jsonl", files="empty.jsonl")


def test_rejects_among_the_first_records_are_told(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", {"text": "a"}, {"text": " "}, {"title": "b"}, {"text": 7})
    said = dry_run(tmp_path, "pretrain", format="jsonl", files="a.jsonl")
    assert (
        "split 'train': of its first records 3 would be rejected (bad_type 1, empty_text 1, missing_text 1)"
        in said
    )
    assert "a.jsonl, line 2: the text field 'text' holds only white space" in said


def test_a_split_of_which_nothing_can_be_used_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("text\tlabel\n" + "a\tb\tc\n" * 3)
    with pytest.raises(RunError) as error:
        dry_run(tmp_path, "classify", format="tsv", label="label", files="a.tsv")
    assert "3 would be rejected and no other could be used (unequal_fields 3)" in str(error.value)
    assert "3 fields in a file of 2 columns" in str(error.value)


def test_hardly_one_record_is_as_bad_as_none(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", {"text": ""}, {"text": "a"}, *[{"text": ""}] * 200)
    with pytest.raises(RunError, match="first records 100 would be rejected"):
        dry_run(tmp_path, "pretrain", format="jsonl", files="a.jsonl")


def test_a_record_behind_the_first_ones_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preview, "LOOKED_AT", 10)
    lines(tmp_path / "a.jsonl", *[{"text": ""}] * 12, *[{"text": "a"}] * 3)
    with pytest.raises(RunError, match="first records 10 would be rejected and no other could be used"):
        dry_run(tmp_path, "pretrain", format="jsonl", files="a.jsonl")


def test_only_the_first_records_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preview, "LOOKED_AT", 10)
    lines(tmp_path / "good.jsonl", *[{"text": "a"}] * 11, *[{}] * 10)
    assert not dry_run(tmp_path, "pretrain", format="jsonl", files="good.jsonl")
    lines(tmp_path / "bad.jsonl", {"text": "a"}, *[{"text": ""}] * 30)
    assert "10 would be rejected (" in dry_run(tmp_path, "pretrain", format="jsonl", files="bad.jsonl")
