"""The room of commands: what it says where something is missing, and that it costs the command line nothing."""

from __future__ import annotations

import importlib.util
import logging
import subprocess
import sys
from importlib.metadata import entry_points

import pytest
import torch

from models import commands
from models.with_torch import MissingError, quiet, torch_said


def test_the_command_line_finds_the_room():
    assert {entry.value for entry in entry_points(group="treegraft.commands")} == {"models.commands:app"}


def test_torch_is_loaded_by_none_of_it():
    """`treegraft preprocess` is to begin at once, and to run where there is no torch."""
    code = "import sys, pipelines.cli; print('torch' in sys.modules, 'transformers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


def test_without_torch_the_line_is_named_that_installs_it(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingError, match=r"pip install 'treegraft\[train\]'"):
        commands.pretrain(tmp_path / "recipe.yaml")


def test_tasks_belong_to_commands(tmp_path):
    from models.train.reading import RecipeError
    from tests.models.train.recipes import write

    path = write(tmp_path, task="tag", data={"folder": "x"}, optim={"steps": 1})
    with pytest.raises(
        RecipeError, match="task 'tag' is not for `treegraft pretrain`: run `treegraft finetune`"
    ):
        commands.pretrain(path)


@pytest.mark.parametrize("command", [commands.finetune, commands.evaluate_, commands.generate_])
def test_an_empty_out_is_not_the_recipes_own(datasets, tmp_path, command):
    """A variable that the shell does not have: `--out "$OUT" --overwrite` deletes nothing."""
    from models.train.reading import RecipeError
    from tests.models.train.recipes import write

    path = write(tmp_path, task="tag", data={"folder": "x"}, optim={"steps": 1})
    with pytest.raises(RecipeError, match="out: found ''"):
        command(path, out="")


@pytest.mark.parametrize("command", [commands.evaluate_, commands.generate_])
@pytest.mark.parametrize("option", ["split", "model", "to"])
def test_an_empty_option_is_not_none(tmp_path, command, option):
    from models.train.reading import RecipeError
    from tests.models.train.recipes import write

    path = write(tmp_path, task="tag", data={"folder": "x", "dev": "dev"}, optim={"steps": 1})
    with pytest.raises(RecipeError, match=f"--{option}: found ''"):
        command(
            path, **{"beam_size": 1, "n_best": 1} if command is commands.generate_ else {}, **{option: ""}
        )


@pytest.mark.parametrize(
    "model, task, able", [("ambert", "pretrain", "bert and unilm have"), ("unilm", "nsp", "bert has")]
)
def test_a_task_that_a_model_lacks_is_named_with_those_that_have_it(tmp_path, model, task, able):
    from models.train.parts import check_model
    from models.train.reading import RecipeError
    from tests.models.train.recipes import recipe

    with pytest.raises(
        RecipeError, match=f"model '{model}' has no task '{task}', which {able}; its tasks: mlm"
    ):
        check_model(recipe(tmp_path, model=model, task=task, data={"folder": "x"}, optim={"steps": 1}))


def test_the_recipe_of_the_help_is_one_for_each_model_that_it_names(tmp_path):
    import yaml

    from models.train.parts import check_model
    from models.train.recipe import Recipe

    told = (commands.pretrain.__doc__ or "").split("\n\n")[2]
    written = yaml.safe_load(told)
    assert "# or unilm;" in told and "mlm: the\n" in told and "# first, all that ambert has\n" in told
    for change in ({}, {"model": "unilm"}, {"model": "ambert", "task": "mlm"}):
        check_model(Recipe.model_validate(written | change))


def test_what_is_wrong_names_the_recipe_and_leaves_no_folder(datasets, tmp_path):
    from models.train.reading import RecipeError
    from tests.models.train.recipes import write

    keys = {"task": "classify", "data": {"folder": str(datasets["classify"])}, "optim": {"steps": 1}}
    path = write(tmp_path, **keys | {"out": "runs/deep/out", "masking": {"rate": 0.1}})
    with pytest.raises(RecipeError, match=rf"recipe {path}: masking: .* drop masking"):
        commands.finetune(path)
    path = write(tmp_path, **keys | {"out": "runs/deep/out", "batch": {"rows": 8, "pack": 9}})
    with pytest.raises(RecipeError, match=rf"recipe {path}: batch\.pack: "):
        commands.finetune(path)
    assert not (tmp_path / "runs").exists()


def test_what_is_quickly_seen_is_said_before_torch_is_loaded(tmp_path):
    from tests.models.train.recipes import write

    path = write(tmp_path, task="tag", data={"folder": "nowhere"}, optim={"steps": 1})
    code = (
        "import sys; from models import commands\n"
        "try: commands.finetune(__import__('pathlib').Path(sys.argv[1]))\n"
        "except ValueError as error: print(error, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert "data.folder: there is no folder" in done.stdout and done.stdout.endswith("writes one False\n")


PAIR = (
    "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:40441"
)


@pytest.mark.parametrize(
    "error, means, said",
    [
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\nMore"),
            MemoryError,
            "batch.rows",
        ),
        (
            RuntimeError(
                "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried "
                "to allocate 512000000000000 bytes. Error code 12 (Cannot allocate memory)"
            ),
            MemoryError,
            r"--beam-size",
        ),
        (
            RuntimeError("DataLoader worker (pid 77) is killed by signal: Killed. "),
            OSError,
            "pid 77.*`workers`",
        ),
        (
            RuntimeError(
                "Caught RuntimeError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n"
                "RuntimeError: unable to allocate shared memory(shm) for file </torch_9>: No space left on device (28)\n"
            ),
            OSError,
            "No space left on device.*/dev/shm.*`workers`",
        ),
        (
            RuntimeError("unable to resize file </torch_9> to the right size: File too large (27)"),
            OSError,
            "File too large.*/dev/shm.*`workers`",
        ),
        (RuntimeError(PAIR), OSError, "another process of the run ended"),
        (torch.distributed.DistBackendError(PAIR), OSError, "another process of the run ended"),
    ],
)
@pytest.mark.parametrize("command", ["finetune", "evaluate"])
def test_errors_of_torch_that_are_no_faults_are_told(
    datasets, tmp_path, monkeypatch, command, error, means, said
):
    from models.train import evaluating, loop
    from tests.models.train.recipes import write

    def failing(*given, **named):
        raise error

    monkeypatch.setattr(loop, "train", failing)
    monkeypatch.setattr(evaluating, "run", failing)
    path = write(tmp_path, task="tag", data={"folder": str(datasets["tag"])}, optim={"steps": 1})
    with pytest.raises(means, match=said) as raised:
        getattr(commands, f"{command}_" if command == "evaluate" else command)(path)
    assert "\n" not in str(raised.value)


def test_other_errors_of_torch_keep_their_traceback():
    with pytest.raises(RuntimeError, match="shapes"), torch_said():
        raise RuntimeError("shapes do not fit")


def test_the_hub_asks_again_without_a_word():
    hub = logging.getLogger("huggingface_hub")
    before = hub.level
    quiet()
    assert not hub.isEnabledFor(logging.WARNING)
    hub.setLevel(before)
