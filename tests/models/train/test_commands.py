"""The room of commands: what it says where something is missing, and that it costs the command line nothing."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from models import commands


def test_the_command_line_finds_the_room():
    assert {entry.value for entry in entry_points(group="treegraft.commands")} == {"models.commands:app"}


def test_torch_is_loaded_by_none_of_it():
    """`treegraft preprocess` is to begin at once, and to run where there is no torch."""
    code = "import sys, pipelines.cli; print('torch' in sys.modules, 'transformers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


def test_without_torch_the_line_is_named_that_installs_it(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(commands.MissingError, match=r"pip install 'treegraft\[train\]'"):
        commands.pretrain(tmp_path / "recipe.yaml")


def test_tasks_belong_to_commands(tmp_path):
    from models.train.reading import RecipeError
    from tests.models.train.recipes import write

    path = write(tmp_path, task="tag", data={"folder": "x"}, optim={"steps": 1})
    with pytest.raises(
        RecipeError, match="task 'tag' is not for `treegraft pretrain`: run `treegraft finetune`"
    ):
        commands.pretrain(path)
