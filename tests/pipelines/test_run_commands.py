"""The last lines of a run: what was made, and how to go on with it here."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.ipc
import pytest
import yaml
from typer.testing import CliRunner

from pipelines import run_commands
from pipelines.cli import app
from pipelines.config import ConfigError

SAMPLES = Path(__file__).parents[2] / "corpora" / "samples"


def write_config(folder: Path, name: str) -> None:
    (folder / f"{name}.txt").write_text("好\n", encoding="utf-8")
    body = {
        "task": "pretrain",
        "language": "zh",
        "input": {"format": "text", "files": f"{name}.txt"},
        "annotate": {"parser": "none"},
        "encode": {
            "tokenizer": str(SAMPLES / "vocab.txt"),
            "columns": [],
            "pretrain": {"segments": "single"},
        },
    }
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(body), encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["phrases", "--dry-run"], "unknown option --dry-run; annotate and preprocess alone take it"),
        (["preprocess", "--coarse"], "unknown option --coarse; vocab alone takes it"),
        (["vocab", "--corse"], "unknown option --corse; did you mean --coarse?"),
        (["phrases", "--dry-rum"], "unknown option --dry-rum; Beam options need --runner"),
        (["preprocess", "--dry-rum"], "unknown option --dry-rum; did you mean --dry-run?"),
        (["dedup", "--hlp"], "unknown option --hlp; did you mean --help?"),
    ],
)
def test_an_unknown_option_is_compared_with_those_of_its_command(
    tmp_path: Path, words: list[str], said: str
) -> None:
    write_config(tmp_path, "a")
    command, option = words
    error = CliRunner().invoke(app, [command, str(tmp_path / "a.yaml"), option]).exception
    assert isinstance(error, ConfigError)
    assert str(error) == said


@pytest.mark.parametrize("installed", [True, False])
def test_the_last_line_is_about_the_dataset_that_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    samples = tmp_path / "corpora" / "samples"
    samples.mkdir(parents=True)
    for name in ("a", "zh-reviews", "zz"):
        write_config(samples, name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_commands.resources, "files", lambda name: tmp_path / name)
    monkeypatch.setattr(run_commands, "find_spec", lambda name: installed or None)
    done = CliRunner().invoke(app, ["preprocess"])
    assert done.exit_code == 0, done.output
    assert "treegraft inspect out/zh-reviews --row 0 --split train" in done.stdout
    last = done.stderr.splitlines()[-1]
    assert last.startswith("wrote out/zh-reviews. Next: treegraft inspect out/zh-reviews · treegraft stats")
    assert " · train: treegraft pretrain --help · " in last
    if installed:
        assert last.endswith('datasets.load_dataset("arrow", data_files="out/zh-reviews/train-*.arrow")')
        return
    (path,) = re.findall(r'pyarrow\.ipc\.open_file\("(.*)"\)\.read_all\(\)$', last)
    assert pyarrow.ipc.open_file(path).read_all().num_rows == 1


@pytest.mark.parametrize(("groups", "told"), [([], "base"), (["coarse"], "base, coarse")])
def test_a_dry_run_lists_the_groups_of_columns(tmp_path: Path, groups: list[str], told: str) -> None:
    write_config(tmp_path, "a")
    path = tmp_path / "a.yaml"
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    config["encode"]["columns"] = groups
    if groups:
        config["encode"]["coarse"] = {"vocab": str(SAMPLES / "coarse_vocab.txt")}
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    done = CliRunner().invoke(app, ["preprocess", str(path), "--dry-run", "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert f"\ncolumns:             {told}\n" in done.stdout


def test_the_folder_of_rejects_goes_with_the_last_of_them(tmp_path: Path) -> None:
    write_config(tmp_path, "a")
    path, source, rejects = tmp_path / "a.yaml", tmp_path / "a.txt", tmp_path / "out/annotated/rejects"
    path.write_text(path.read_text(encoding="utf-8") + "run: {max_reject_fraction: 1}\n", encoding="utf-8")
    words = ["preprocess", str(path), "--out", str(tmp_path / "out"), "--overwrite"]
    for bad in (True, False):
        source.write_bytes("好\n\n".encode() + b"\xff\n\n" * bad)
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
        assert rejects.exists() == bad
