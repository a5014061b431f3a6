"""Presets in a config: the task must fit, and what is wrong is said before any work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from corpora.presets import PRESETS
from pipelines.cli import app
from pipelines.config import ConfigError, load_config, reference


def _write(folder: Path, task: str | None, language: str | None = "en", **layout: Any) -> Path:
    config: dict[str, Any] = {"encode": {"tokenizer": "vocab.txt"}}
    config |= {"task": task} if task else {}
    config |= {"language": language} if language else {}
    path = folder / "c.yaml"
    path.write_text(yaml.safe_dump({**config, "input": {"files": "a", **layout}}), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", PRESETS)
def test_each_preset_is_a_config_of_its_task(tmp_path: Path, name: str) -> None:
    config = load_config(_write(tmp_path, PRESETS[name].task, preset=name))
    assert config.input.preset == name and config.input.format == PRESETS[name].keys["format"]
    assert load_config(_write(tmp_path, None, preset=name)) == config
    alone = load_config(_write(tmp_path, None, None, preset=name))
    assert alone == config.model_copy(update={"language": "en" if name.startswith("glue/") else "zh"})
    other = "tag" if PRESETS[name].task != "tag" else "classify"
    with pytest.raises(ConfigError, match=f"{name!r} is for task {PRESETS[name].task!r}.*, found {other!r}"):
        load_config(_write(tmp_path, other, preset=name))


@pytest.mark.parametrize(
    ("task", "layout", "message"),
    [
        ("classify", {"preset": "glue/sst"}, "input: unknown preset 'glue/sst'; did you mean 'glue/sst2'"),
        ("classify", {"preset": "glue/sst2", "txet": "a"}, "input.txet: unknown key; did you mean 'text'?"),
        ("classify", {"preset": 7}, "input.preset: Input should be a valid string, found 7"),
        ("classify", {"format": "jsonl", "label": "y", "text": []}, "input.text: name at least one field"),
        ("classify", {"format": "jsonl", "label": "y", "text": ["a", "a"]}, "each once"),
        ("tag", {"format": "jsonl", "label": "y", "text": ["a", "b"]}, "takes the text of one field"),
        ("pretrain", {"format": "jsonl", "separator": ""}, "input.separator is for task 'tag'"),
        ("tag", {"format": "jsonl", "label": "y", "skip_labels": ["-"]}, "input.skip_labels is for task"),
        (
            "classify",
            {
                "format": "jsonl",
                "label": "y",
                "marks": [{"text": "a", "start": "b", "left": "_", "rihgt": "_"}],
            },
            "input.marks.0.rihgt: unknown key; did you mean 'right'?",
        ),
        ("seq2seq", {"format": "parallel", "suffixes": [".a", ".a"]}, "two different endings"),
        ("seq2seq", {"format": "parallel", "suffixes": ["", ".a"]}, "two different endings"),
    ],
)
def test_wrong_layouts_name_the_key(tmp_path: Path, task: str, layout: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(_write(tmp_path, task, **layout))
    assert message in str(caught.value)


@pytest.mark.parametrize("layout", [{"format": "jsonl"}, {"preset": "glue/sst"}, {"preset": ["glue/sst2"]}])
def test_a_task_is_needed_where_no_preset_says_it(tmp_path: Path, layout: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="task: this key must be written: one of pretrain"):
        load_config(_write(tmp_path, None, **layout))


def test_the_command_lists_every_preset() -> None:
    shown = CliRunner().invoke(app, ["presets"])
    assert shown.exit_code == 0
    assert all(name in shown.stdout for name in PRESETS)


def test_a_list_of_sections_is_one_row_of_the_reference() -> None:
    keys = [key for key, _, _ in reference()]
    assert "input.marks" in keys and "input.marks.left" not in keys and keys.count("input.preset") == 1
