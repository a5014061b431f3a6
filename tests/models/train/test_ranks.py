"""Two processes: the same samples, the same gradients, and none waits for the other for ever."""

from __future__ import annotations

import shutil

import pytest
from safetensors.torch import load_file

from models.ranks import Ranks
from tests.models.train.gradients import record
from tests.models.train.processes import both, torchrun
from tests.models.train.recipes import TINY, metrics, run, weights, write

CASES = {
    # 10 rows over 2 ranks, the last step of an epoch filled up; predictions differ in number from rank to rank.
    "pretrain": {"task": "pretrain", "batch": {"rows": 10}},
    "mlm": {"task": "mlm", "model": "ambert", "batch": {"tokens": 500, "accumulate": 2}},
    "choice": {"task": "choice", "batch": {"rows": 6, "accumulate": 3}},
}


def test_gradients_of_two_ranks_are_those_of_one(datasets, tmp_path):
    """The same rows at each step, as many steps, and gradients within 1e-6: the bar."""
    paths = []
    for name, keys in CASES.items():
        data = {"folder": str(datasets["choice" if name == "choice" else "pretrain"])}
        new = TINY | {"dropout": 0.0}
        paths.append(
            write(
                tmp_path / name,
                data=data,
                optim={"lr": 1e-3, "epochs": 2, "clip": None},
                **keys | {"new": new},
            )
        )
        record(paths[-1], tmp_path / "one" / name, Ranks())
    done = both("tests.models.train.gradients", str(tmp_path / "two"), *map(str, paths))
    assert done.returncode == 0, done.stderr
    for name in CASES:
        steps = sorted(path.name for path in (tmp_path / "one" / name).iterdir())
        assert len(steps) > 3 and steps == sorted(path.name for path in (tmp_path / "two" / name).iterdir())
        for step in steps:
            mine, theirs = (load_file(tmp_path / ranks / name / step) for ranks in ("one", "two"))
            assert mine.keys() == theirs.keys() and len(mine) > 20
            assert mine.pop("rows").tolist() == theirs.pop("rows").tolist()
            apart = max(float((mine[weight] - theirs[weight]).abs().max()) for weight in mine)
            assert apart < 1e-6 and apart < 1e-2 * max(float(x.abs().max()) for x in mine.values())


def test_a_run_of_two_processes_ends_as_one_of_one_and_goes_on_as_one(datasets, tmp_path):
    """The command itself, rows that do not divide, a dev split; then one process goes on from what two wrote."""
    keys = {
        "task": "classify",
        "data": {"folder": str(datasets["classify"]), "dev": "dev"},
        "new": TINY | {"dropout": 0.0},
        "batch": {"rows": 10},
        "optim": {"lr": 1e-3, "steps": 7},
        "save_every": 4,
    }
    alone, _ = run(tmp_path / "alone", **keys)
    path = write(tmp_path / "both", **keys)
    done = torchrun("tests.models.train.command", "finetune", str(path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("trained model:") == 1
    out = tmp_path / "both/out"
    for one, other in zip(metrics(alone), metrics(out), strict=True):
        assert one == pytest.approx(other, rel=1e-3, abs=1e-4)
    for name, tensor in weights(alone).items():
        assert float((tensor - weights(out)[name]).abs().max()) < 1e-4
    shutil.rmtree(out / "checkpoints/step-00000007")
    before = weights(alone)
    resumed, said = run(tmp_path / "both", **keys)
    assert "going on after step 4 of 7" in said
    assert max(float((before[name] - weights(resumed)[name]).abs().max()) for name in before) < 1e-4


def test_what_is_wrong_stops_both(datasets, tmp_path):
    path = write(
        tmp_path,
        task="classify",
        data={"folder": str(datasets["classify"])},
        batch={"rows": 9},
        optim={"lr": 1e-3, "steps": 2},
    )
    done = both(None, "finetune", str(path), seconds=60)
    assert done.returncode == 2, done.stderr  # one that hung would be killed
    assert "batch.rows is 9, over all processes, and there are 2" in done.stderr


def test_one_that_lacks_a_file_stops_both(datasets, tmp_path):
    """Machines need not hold the same: the others must not wait for it to share the model with them."""
    data = {"folder": str(datasets["classify"])}
    path = write(tmp_path, task="classify", data=data, optim={"lr": 1e-3, "steps": 2})
    done = both("tests.models.train.unlike", "finetune", str(path), seconds=60)
    assert done.returncode == 1, done.stderr
    assert "process 1 stopped: this machine has no such file" in done.stderr
    assert "Traceback" not in done.stderr and not (tmp_path / "out").exists()


@pytest.mark.parametrize("words", [[], ["fails"]])
def test_processes_end_though_the_last_exchange_is_not_over(words):
    """It is freed by a thread, which needs Python's lock for that: who waits for the thread must not hold it."""
    done = both("tests.models.train.leaving", *words, seconds=30)
    assert done.returncode == len(words), done.stderr
    assert done.stderr.count("ValueError: the second fails") == len(words)
