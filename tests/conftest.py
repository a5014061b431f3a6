"""Fixtures that tests of every package share."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings

from tests.models.datasets import Datasets

REAL_DATA = Path(__file__).parents[2] / "shared/data"

# CI repeats the same examples, so that a failure there is the change's own; elsewhere every run looks further.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of the public data sets, beside the checkout; tests that need it skip where it is absent."""
    if not REAL_DATA.is_dir():
        pytest.skip(f"no real data at {REAL_DATA}")
    return REAL_DATA


@pytest.fixture(scope="session")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Datasets:
    """Folders of real datasets by task, made of the embedded samples when they are asked for."""
    own = tmp_path_factory.getbasetemp()
    return Datasets((own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "datasets")


@pytest.fixture(scope="session")
def stanza_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny Stanza models, trained once a session, whatever the number of its processes: English and Chinese by
    `make stanza` from real treebanks, where they are there, else from made-up sentences, as French always."""
    pytest.importorskip("stanza", reason="pip install 'treegraft[stanza]'")
    from pipelines.training.stanza import SIZES, train
    from pipelines.training.stanza_data import read_trees
    from tests import treebanks

    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "stanza"
    folder.mkdir(exist_ok=True)
    models = folder / "models"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            made_up = ["fr"]
            if treebanks.UD.is_dir():
                make_stanza(models)
            else:
                made_up += ["en", "zh"]
            for language in made_up:
                trees = [read_trees(treebanks.write(folder, language, *size)) for size in ((100, 0), (20, 1))]
                train(language, *trees, models, replace(SIZES["tiny"], word_cutoff=1))
            (folder / "done").touch()
    return models


def make_stanza(out: Path) -> None:
    """The make target, with the interpreter that runs the tests; nothing is installed."""
    from tests import treebanks

    installed = f"{sys.prefix}/.dev"
    subprocess.run(
        ["make", "stanza", f"UD={treebanks.UD}", f"OUT={out}", "OPTIONS=--size tiny", f"VENV={sys.prefix}",
         "--old-file", installed],
        cwd=Path(__file__).parents[1],
        check=True,
    )  # fmt: skip
