"""A wrong config stops before any work and says how to mend it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from pipelines.config import ConfigError, load_config, resolve

GOOD = {
    "task": "classify",
    "language": "zh",
    "input": {"format": "tsv", "text": "text_a", "label": "label", "files": {"train": "train.tsv"}},
    "encode": {"tokenizer": "vocab.txt"},
}


def write(tmp_path: Path, **changes: object) -> Path:
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump({**GOOD, **changes}, allow_unicode=True), encoding="utf-8")
    return path


def test_defaults_and_shorthands(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, input={**GOOD["input"], "files": "a.tsv"}))
    assert config.input.files == {"train": ["a.tsv"]}
    assert config.encode.columns == ["syntax"]
    assert config.run.workers is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"taks": "tag"}, "taks: unknown key; did you mean 'task'?"),
        (
            {"encode": {"tokenizer": "v", "max_lenght": 12}},
            "encode.max_lenght: unknown key; did you mean 'max_length'?",
        ),
        ({"graph": {"triples": "a.spo", "brnch": 1}}, "graph.brnch: unknown key"),
        (
            {"encode": {"tokenizer": "v", "max_length": 40000}},
            "encode.max_length: Input should be less than or equal to 32767",
        ),
        ({"task": "clasify"}, "task: Input should be 'pretrain', 'classify' or 'tag'"),
        ({"encode": {"tokenizer": "v", "columns": ["tree"]}}, "add a `graph` section"),
        ({"encode": {"tokenizer": "v", "columns": ["coarse"]}}, "add `encode.coarse`"),
        ({"graph": {"triples": "a.spo"}}, "encode.columns lacks 'tree'"),
        ({"encode": {"tokenizer": "v", "coarse": {"vocab": "c"}}}, "encode.columns lacks 'coarse'"),
        ({"annotate": {"parser": "none"}}, "'syntax' but annotate.parser is 'none'"),
        ({"task": "pretrain", "input": {"format": "text", "files": []}}, "input.files"),
        ({"input": {"format": "tsv", "files": "a.tsv"}}, "needs `input.label`"),
        ({"input": {**GOOD["input"], "files": {"../x": "a"}}}, "split name '../x'"),
        ({"encode": None}, "encode: "),
    ],
)
def test_wrong_configs_name_the_field_and_the_fix(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError) as error:
        load_config(write(tmp_path, **changes))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"- a\n- b\n", "must be a mapping"),
        (b"a: [1\n", "not valid YAML"),
        (b"\xff\xfe", "cannot be read"),
        (b"!!python/object/apply:os.system ['true']", "not valid YAML"),
    ],
)
def test_unreadable_files(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        load_config(path)


def test_missing_file() -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        load_config("no-such.yaml")


def test_paths_count_from_the_config_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert resolve(tmp_path / "c.yaml", "a/b.tsv") == str(tmp_path / "a/b.tsv")
    assert resolve(tmp_path / "c.yaml", "gs://x/y") == "gs://x/y"
    assert resolve(tmp_path / "c.yaml", "/abs") == "/abs"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task: tag\ntask: classify\n", "'task' stands twice"),
        ("input:\n  files: {train: a, train: b}\n", "'train' stands twice"),
        ("[" * 20_000, "nested too deep"),
    ],
)
def test_yaml_that_means_two_things_or_never_ends_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_config(tmp_path / "c.yaml")
